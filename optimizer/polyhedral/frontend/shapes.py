"""The extents of the argument arrays as affine expressions, and the symbols that stand for them."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from optimizer.polyhedral.frontend.affine import Affine, Lookup, NotAffine, affine, variable
from optimizer.polyhedral.frontend.names import FunctionNames, is_reserved
from optimizer.polyhedral.frontend.signature import Signature
from optimizer.polyhedral.frontend.source import Module


@dataclass(frozen=True, slots=True)
class Shapes:
    """The shapes of all argument arrays."""

    extents: dict[str, tuple[Affine, ...]]
    symbols: tuple[tuple[str, str, int], ...]
    """(symbol, array, dimension) for each symbol that is no argument."""


def read_shapes(
    module: Module, function: ast.FunctionDef, signature: tuple[Signature, ...], names: FunctionNames
) -> Shapes:
    """Gives every dimension of every argument an extent.

    A dimension without a name is called what the function calls it (`n, m = A.shape`), else `A_0`. A name in an
    annotation means the integer argument of that name, if there is one that never changes.

    Raises:
        SourceError: for a dimension that is not affine or whose size cannot be found out.
    """
    whole = {s.name for s in signature if not s.is_array and s.dtype.startswith("int") and s.name not in names.assigned}
    unpacked = _unpacked_names(function, names, {s.name for s in signature})
    symbols: list[tuple[str, str, int]] = []
    meaning: dict[str, str] = {name: name for name in whole}

    dimensions = [(s.name, k, node) for s in signature for k, node in enumerate(s.dimensions or ())]
    anonymous: dict[tuple[str, int], str] = {}
    for array, k, node in dimensions:
        if node is None:
            anonymous[array, k] = unpacked.get((array, k)) or names.fresh(f"{array}_{k}")
            symbols.append((anonymous[array, k], array, k))
        elif isinstance(node, ast.Name) and node.id not in meaning and module.whole_number(node.id) is None:
            own_names = {unpacked.get((a, d)) for a, d, n in dimensions if isinstance(n, ast.Name) and n.id == node.id}
            is_free = node.id not in names.taken | names.loops | set(names.assigned)
            meaning[node.id] = node.id if is_free or node.id in own_names else names.fresh(node.id)
            names.taken.add(meaning[node.id])
            symbols.append((meaning[node.id], array, k))

    def lookup(node: ast.expr) -> Affine | None:
        if isinstance(node, ast.Name):
            return variable(meaning[node.id]) if node.id in meaning else module.whole_number(node.id)
        return None

    extents: dict[str, tuple[Affine, ...]] = {}
    for array, k, node in dimensions:
        extent = variable(anonymous[array, k]) if node is None else _extent(module, array, node, lookup)
        extents[array] = (*extents.get(array, ()), extent)
    return Shapes(extents, tuple(symbols))


def _extent(module: Module, array: str, node: ast.expr, lookup: Lookup) -> Affine:
    try:
        extent = affine(node, lookup)
    except NotAffine as error:
        unknown = isinstance(error.node, ast.Name) and "is neither an integer argument nor the size of a dimension"
        message = f"dimension `{ast.unparse(node)}` of `{array}`: " + (
            f"`{ast.unparse(error.node)}` {unknown}" if unknown else error.reason
        )
        raise module.source.error(node, message, "write a name, a number, or a sum like `n+1`") from None
    if not extent.is_linear:
        message = f"dimension `{ast.unparse(node)}` of `{array}` is not a sum of sizes and whole numbers"
        raise module.source.error(node, message, "give the dimension a name of its own")
    return extent


def _unpacked_names(function: ast.FunctionDef, names: FunctionNames, arguments: set[str]) -> dict[tuple[str, int], str]:
    """(array, dimension) -> the variable that the function reads it into at its top level."""
    found: dict[tuple[str, int], str] = {}
    for statement in function.body:
        match statement:
            case ast.Assign(
                targets=[ast.Tuple(elts=targets)], value=ast.Attribute(value=ast.Name(id=array), attr="shape")
            ):
                read = [(target, array, k) for k, target in enumerate(targets)]
            case ast.Assign(
                targets=[target],
                value=ast.Subscript(
                    value=ast.Attribute(value=ast.Name(id=array), attr="shape"), slice=ast.Constant(value=int() as k)
                ),
            ):
                read = [(target, array, k)]
            case ast.Assign(targets=[target], value=ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=array)])):
                read = [(target, array, 0)]
            case _:
                continue
        for target, array, k in read:
            if isinstance(target, ast.Name) and _is_usable(target.id, names, arguments):
                found.setdefault((array, k), target.id)
    return found


def _is_usable(name: str, names: FunctionNames, arguments: set[str]) -> bool:
    return names.assigned[name] == 1 and name not in names.loops and name not in arguments and not is_reserved(name)
