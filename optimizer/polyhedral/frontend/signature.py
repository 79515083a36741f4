"""What the arguments of a kernel are: types and dimensions from annotations, defaults, examples or use."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from optimizer.errors import UserError
from optimizer.polyhedral.frontend.dtypes import constant_type, infer
from optimizer.polyhedral.frontend.functions import CASTS, DTYPES, is_number
from optimizer.polyhedral.frontend.numba_types import declared_types
from optimizer.polyhedral.frontend.source import Module
from optimizer.polyhedral.frontend.uses import Uses, uses_of

ANNOTATE = 'annotate it like `A: Float64[np.ndarray, "n m"]`, `n: int` or `alpha: float`'
_LOOSE = frozenset({"Float", "Int", "UInt", "Integer", "Inexact", "Real", "Num", "Shaped", "Complex", "Key"})


@dataclass(frozen=True, slots=True)
class Signature:
    """One argument."""

    name: str
    node: ast.arg
    dtype: str
    dimensions: tuple[ast.expr | None, ...] | None
    """Of an array its extents as written, None for one without a name; None for a scalar."""
    default: str | None
    is_assumed: bool = False
    """Whether nothing says its type but how it is used."""

    @property
    def is_array(self) -> bool:
        return self.dimensions is not None


def read_signature(
    module: Module, function: ast.FunctionDef, examples: Mapping[str, Any] | None, *, by_use: bool = False
) -> tuple[Signature, ...]:
    """The arguments of `function` in order; `by_use`: those without a type have the one that their use shows.

    Raises:
        SourceError: for an argument without a usable type.
        UserError: when an example contradicts its annotation.
    """
    arguments = function.args
    for unusual in (arguments.vararg, arguments.kwarg):
        if unusual is not None:
            message = f"argument `{unusual.arg}`: `*` and `**` arguments are not supported"
            raise module.source.error(unusual, message, "name each argument")
    plain = (*arguments.posonlyargs, *arguments.args)
    defaults = (*(None for _ in range(len(plain) - len(arguments.defaults))), *arguments.defaults)
    pairs = [*zip(plain, defaults, strict=True), *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    for (_, before), (node, default) in pairwise(pairs):
        if before is not None and default is None:
            message = f"argument `{node.arg}` comes after one with a default, and is without a default itself"
            raise module.source.error(node, message, "name it first")
    declared = declared_types(module, function, [node.arg for node, _ in pairs])
    uses = uses_of(module, function.body) if by_use else None
    return tuple(
        _read_argument(module, node, default, examples or {}, declared.get(node.arg), uses) for node, default in pairs
    )


def _read_argument(
    module: Module,
    node: ast.arg,
    default: ast.expr | None,
    examples: Mapping[str, Any],
    declared: tuple[str, tuple[None, ...] | None] | None,
    uses: Uses | None,
) -> Signature:
    name, is_assumed = node.arg, False
    text = None if default is None else ast.unparse(default)
    exemplified = _of_example(name, examples[name]) if name in examples else None
    is_open = node.annotation is None or _is_vague_array(module, node.annotation)
    if uses is not None and is_open and default is None and not declared and not exemplified:
        found, is_assumed = uses.type_of(name), True
    elif node.annotation is not None:
        found = _of_annotation(module, node, node.annotation, exemplified or declared)
    elif declared is not None:
        _check_example(name, declared, exemplified)
        found = declared
    elif exemplified is not None:
        found = exemplified
    elif default is not None and is_number(module, default):
        found = infer(default, lambda part: constant_type(part, module), module) or "float64", None
    else:
        hint = ANNOTATE + ", or give example arguments"
        raise module.source.error(node, f"argument `{name}` has no type", hint)
    dtype, dimensions = found
    return Signature(name, node, CASTS.get(dtype, dtype), dimensions, text, is_assumed)


def _of_example(name: str, value: Any) -> tuple[str, tuple[None, ...] | None]:
    dtype = getattr(getattr(value, "dtype", None), "name", None)
    if dtype in DTYPES:
        return dtype, (None,) * value.ndim if value.ndim else None
    for kind in (bool, int, float):
        if isinstance(value, kind):
            return CASTS[kind.__name__], None
    shown = f"an array of {dtype}" if dtype else f"of type {type(value).__name__}"
    raise UserError(f"argument `{name}` is {shown}; kernels take numbers and arrays of {', '.join(sorted(DTYPES))}")


def _of_annotation(
    module: Module, argument: ast.arg, annotation: ast.expr, example: tuple[str, tuple[None, ...] | None] | None
) -> tuple[str, tuple[ast.expr | None, ...] | None]:
    read = _read_annotation(module, annotation, example)
    if read is None:
        message = f"argument `{argument.arg}` has a type that says too little: `{ast.unparse(annotation)}`"
        raise module.source.error(annotation, message, ANNOTATE)
    dtype, dimensions = read
    _check_example(argument.arg, read, example)
    return dtype, dimensions


def _check_example(
    name: str, declared: tuple[str, tuple[Any, ...] | None], example: tuple[str, tuple[None, ...] | None] | None
) -> None:
    if example is None:
        return
    ranks = [None if found is None else len(found) for found in (declared[1], example[1])]
    if ranks[0] != ranks[1] or not _fits(example[0], declared[0], is_array=ranks[0] is not None):
        stated, given = _shown(declared[0], ranks[0]), _shown(example[0], ranks[1])
        raise UserError(f"argument `{name}` is annotated as {stated}, the example given is {given}")


def _fits(given: str, declared: str, *, is_array: bool) -> bool:
    """A Python number may stand for any of its kind, and a whole number for a float."""
    kinds = given.rstrip("0123456789"), declared.rstrip("0123456789")
    return given == declared or (not is_array and (kinds[0] == kinds[1] or kinds == ("int", "float")))


def _shown(dtype: str, rank: int | None) -> str:
    return dtype if rank is None else f"{dtype} array of rank {rank}"


def _read_annotation(
    module: Module, annotation: ast.expr, example: tuple[str, tuple[None, ...] | None] | None
) -> tuple[str, tuple[ast.expr | None, ...] | None] | None:
    """(dtype, dimensions) of an annotation; None when it does not say enough."""
    match annotation:
        case ast.Constant(value=str() as text):
            try:
                parsed = ast.parse(text.strip(), mode="eval").body
            except SyntaxError:
                return None
            for node in ast.walk(parsed):
                ast.copy_location(node, annotation)
            return _read_annotation(module, parsed, example)
        case ast.Subscript(value=kind, slice=ast.Tuple(elts=[_, ast.Constant(value=str() as dimensions) as place])):
            name = module.resolve(kind).rpartition(".")[2]
            if name in _LOOSE and example is not None:
                return example[0], _dimensions(module, place, dimensions)
            dtype = name.lower()
            return (dtype, _dimensions(module, place, dimensions)) if dtype in DTYPES else None
        case ast.Name(id=name) if name in module.constants:
            return _read_annotation(module, module.constants[name], example)
        case ast.Name() | ast.Attribute():
            full = module.resolve(annotation)
            if full in CASTS:
                return CASTS[full], None
            return example if _is_vague_array(module, annotation) else None
        case _:
            return example


def _is_vague_array(module: Module, annotation: ast.expr) -> bool:
    """Whether an annotation says no more than that there is an array, or anything."""
    if not isinstance(annotation, ast.Name | ast.Attribute):
        return False
    full = module.resolve(annotation)
    return full.rpartition(".")[2] in {"ndarray", "Any"} or full == ""


def _dimensions(module: Module, place: ast.Constant, text: str) -> tuple[ast.expr | None, ...]:
    """The tokens of a jaxtyping shape."""
    found: list[ast.expr | None] = []
    for token in text.split():
        try:
            parsed = None if token == "_" else ast.parse(token, mode="eval").body
        except SyntaxError:
            message = f"dimension `{token}` is not a number, a name or a sum of them"
            raise module.source.error(place, message, ANNOTATE) from None
        if isinstance(parsed, ast.Constant) and parsed.value is Ellipsis:
            message = "the number of dimensions must be fixed"
            raise module.source.error(place, message, ANNOTATE)
        for node in ast.walk(parsed) if parsed is not None else ():
            ast.copy_location(node, place)
        found.append(parsed)
    if not found:
        raise module.source.error(place, "an array without dimensions is not supported", "declare a number: `x: float`")
    return tuple(found)
