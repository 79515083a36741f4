"""What a `numba.stencil` kernel is: its arrays, how far from a point it reads, and what stands at the border."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from optimizer.errors import SourceError
from optimizer.polyhedral.frontend.functions import is_number
from optimizer.polyhedral.frontend.source import Module

_OPTIONS = frozenset({"cval", "neighborhood", "standard_indexing"})


def is_stencil(module: Module, function: ast.FunctionDef) -> bool:
    """Whether it is decorated by `numba.stencil`, and by nothing else."""
    match function.decorator_list:
        case [ast.Call(func=decorator)] | [decorator]:
            return module.resolve(decorator) == "numba.stencil"
        case _:
            return False


@dataclass(frozen=True, slots=True)
class Stencil:
    """A kernel with what its decorator says."""

    function: ast.FunctionDef
    relative: tuple[str, ...]
    """The parameters that are subscripted with distances from the point, if they are arrays."""
    reach: tuple[tuple[int, int], ...]
    """For each dimension the least and the greatest distance: at most and at least 0."""
    border: ast.expr | None
    """`cval`, where it is given."""


def read_stencil(module: Module, function: ast.FunctionDef) -> Stencil:
    """Reads a kernel and its decorator.

    Raises:
        SourceError: for a kernel that Numba refuses, and for what is not supported.
    """

    def error(node: ast.AST, message: str, hint: str = "") -> SourceError:
        return module.source.error(node, f"stencil `{function.name}`: {message}", hint)

    decorator = function.decorator_list[0]
    given = {word.arg: word.value for word in decorator.keywords} if isinstance(decorator, ast.Call) else {}
    modes = decorator.args if isinstance(decorator, ast.Call) else []
    if not given.keys() <= _OPTIONS or any(constant_of(mode) != "constant" for mode in modes):
        raise error(decorator, "only `cval`, `neighborhood` and `standard_indexing` are supported")
    border = given.get("cval")
    if border is not None and not is_number(module, border):
        raise error(border, f"`{ast.unparse(border)}` is not a number that is fixed in this module")
    names = [argument.arg for argument in function.args.args]
    standard = constant_of(given["standard_indexing"]) if "standard_indexing" in given else ()
    standard = (standard,) if isinstance(standard, str) else standard
    if not isinstance(standard, tuple | list) or not set(standard) <= set(names[1:]):
        raise error(given["standard_indexing"], "`standard_indexing` must name arguments other than the first")
    relative = tuple(name for name in names if name not in standard)
    distances = [index for line in function.body for index in _relative_indices(line, relative)]
    if "neighborhood" in given:
        reach = constant_of(given["neighborhood"])
        if not _is_neighborhood(reach):
            raise error(given["neighborhood"], "`neighborhood` must be pairs like `((-1, 1), (0, 2))` around 0")
    else:
        constant = [[constant_of(part) for part in index] for index in distances]
        for index, parts in zip(distances, constant, strict=True):
            if not all(isinstance(part, int) for part in parts):
                raise error(index[0], "a distance is not a constant", "say `neighborhood=((-1, 1), ...)`")
        ranks = {len(parts) for parts in constant}
        if len(ranks) != 1:
            raise error(function, "all distances must have the same number of dimensions, and there must be one")
        reach = [(min(0, *column), max(0, *column)) for column in zip(*constant, strict=True)]
    return Stencil(function, relative, tuple((low, high) for low, high in reach), border)


def _relative_indices(line: ast.AST, relative: Sequence[str]) -> Iterator[list[ast.expr]]:
    for node in ast.walk(line):
        match node:
            case ast.Subscript(value=ast.Name(id=name), slice=index) if name in relative:
                yield list(index.elts) if isinstance(index, ast.Tuple) else [index]
            case _:
                pass


def _is_neighborhood(value: Any) -> bool:
    return isinstance(value, tuple) and all(
        isinstance(pair, tuple)
        and len(pair) == 2
        and all(isinstance(end, int) for end in pair)
        and pair[0] <= 0 <= pair[1]
        for pair in value
    )


def constant_of(node: ast.expr) -> Any:
    """The value of a literal; None for anything else."""
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None
