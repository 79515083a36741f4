"""`a, b = x, y`, `a = b = x` and `n, m = A.shape` as single assignments."""

from __future__ import annotations

import ast

from optimizer.polyhedral.frontend.affine import NotAffine
from optimizer.polyhedral.frontend.expressions import ExpressionReader
from optimizer.polyhedral.frontend.functions import CASTS, SCALAR_FUNCTIONS
from optimizer.polyhedral.frontend.placing import placed
from optimizer.polyhedral.frontend.quantities import ShapeError
from optimizer.polyhedral.frontend.scope import positions
from optimizer.polyhedral.frontend.views import array_value


def single_assignments(reader: ExpressionReader, node: ast.Assign) -> list[ast.stmt] | None:
    """The assignments one by one; None for one with a single target.

    Raises:
        SourceError: for what cannot be taken apart.
    """
    if len(node.targets) == 1 and isinstance(node.targets[0], ast.Name | ast.Subscript | ast.Attribute):
        return None
    if len(node.targets) > 1 and _makes_array(reader, node.value):
        hint = "make an array of its own for each"
        raise reader.error(node, "several names for one array are not supported", hint)
    pairs = [pair for target in node.targets for pair in _pairs(reader, target, node.value)]
    changed = _read_after_change(reader, pairs)
    if changed is not None:
        return [placed(line, node) for line in _all_at_once(reader, pairs, changed)]
    return [placed(ast.Assign([target], value), node) for target, value in pairs]


def _makes_array(reader: ExpressionReader, value: ast.expr) -> bool:
    """Whether it is, or may be, an array that several names would share."""
    try:
        if array_value(reader.scope, value).rank:
            return True
    except (NotAffine, ShapeError):
        return True
    match value:
        case ast.Call(func=function):
            name = reader.scope.module.resolve(function)
            return name not in SCALAR_FUNCTIONS and name not in CASTS and name not in reader.scope.module.functions
        case _:
            return False


def _pairs(reader: ExpressionReader, target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    match target, value:
        case ast.Tuple(elts=targets), ast.Attribute(attr="shape") as whole:
            return _sizes(reader, targets, whole, None, value)
        case ast.Tuple(elts=targets), ast.Subscript(
            value=ast.Attribute(attr="shape") as whole, slice=ast.Slice() as part
        ):
            return _sizes(reader, targets, whole, part, value)
        case ast.Tuple(elts=targets), ast.Tuple(elts=values) if len(targets) == len(values):
            return list(zip(targets, values, strict=True))
        case ((ast.Tuple() | ast.List() | ast.Starred()), _):
            hint = "only `a, b = x, y` and `n, m = A.shape` assign several variables at once"
            raise reader.error(target, "this assignment to several variables is not supported", hint)
        case _:
            return [(target, value)]


def _sizes(
    reader: ExpressionReader, targets: list[ast.expr], whole: ast.Attribute, part: ast.Slice | None, value: ast.expr
) -> list[tuple[ast.expr, ast.expr]]:
    extents = reader.scope.shape(whole)
    taken = range(len(extents)) if part is None else positions(part, len(extents))
    if len(taken) != len(targets):
        raise reader.error(value, f"`{ast.unparse(whole.value)}` is not an array of {len(targets)} dimensions")
    sizes = [placed(ast.Subscript(whole, ast.Constant(k), ast.Load()), value) for k in taken]
    return list(zip(targets, sizes, strict=True))


def _read_after_change(reader: ExpressionReader, pairs: list[tuple[ast.expr, ast.expr]]) -> ast.Name | None:
    """What is read although an assignment before it has changed it; None where one after the other means the same."""
    views = reader.scope.views

    def memory(name: str) -> str:
        return views[name].array or name if name in views else name

    for position, (target, _) in enumerate(pairs):
        written = next((memory(node.id) for node in ast.walk(target) if isinstance(node, ast.Name)), "")
        for _, value in pairs[position + 1 :]:
            for node in ast.walk(value):
                if isinstance(node, ast.Name) and memory(node.id) == written:
                    return node
    return None


def _all_at_once(reader: ExpressionReader, pairs: list[tuple[ast.expr, ast.expr]], changed: ast.Name) -> list[ast.stmt]:
    """All values first, as in `a, b = b, a + b`; then they are assigned from left to right.

    Raises:
        SourceError: for arrays, whose elements a name for them would not keep.
    """
    names = reader.scope.names
    before: list[ast.stmt] = []
    after: list[ast.stmt] = []
    for target, value in pairs:
        if _makes_array(reader, value):
            message = f"`{changed.id}` is read here and changed by the same assignment"
            raise reader.error(changed, message, "write the assignments one by one, with an array for the old values")
        name = names.fresh("old")
        names.assigned[name] += 1
        before.append(ast.Assign([ast.Name(name, ast.Store())], value))
        after.append(ast.Assign([target], ast.Name(name, ast.Load())))
    return [*before, *after]
