"""`for v in x`, `enumerate`, `zip` and `reversed` as loops over a `range`: what they mean for arrays."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field

from optimizer.polyhedral.frontend.copying import copied
from optimizer.polyhedral.frontend.expressions import ExpressionReader
from optimizer.polyhedral.frontend.substitution import Substituted
from optimizer.polyhedral.frontend.views import bound_size, view_of

_HINT = "loop over `range(...)` and use the loop variable as a subscript"


@dataclass(slots=True)
class _Iteration:
    """What one iteration of a loop begins with."""

    lengths: list[ast.expr] = field(default_factory=list[ast.expr])
    """The loop ends with the shortest."""
    assignments: list[ast.stmt] = field(default_factory=list[ast.stmt])
    rows: dict[str, ast.expr] = field(default_factory=dict[str, ast.expr])
    """Variables that are parts of arrays, and their names in this loop."""


def over_range(reader: ExpressionReader, loop: ast.For) -> ast.For | None:
    """The same loop over a `range`; None for one that is over a `range` already.

    Raises:
        SourceError: for what cannot be looped over, or loops whose parts do not fit their targets.
    """
    match loop:
        case ast.For(iter=ast.Call(func=ast.Name(id="enumerate" | "zip"))) | ast.For(iter=ast.Name() | ast.Subscript()):
            pass
        case ast.For(iter=ast.Attribute()):
            pass
        case ast.For(iter=ast.Call(func=ast.Name(id="reversed"), args=[ast.Call() as inner])):
            return _with_iterable(loop, _reversed_range(reader, loop.iter, inner), loop.target, loop.body)
        case ast.For(iter=ast.Call(func=ast.Name(id="reversed"))):
            pass
        case _:
            return None
    counter = _counter(reader, loop)
    found = _Iteration()
    _add(reader, found, loop.iter, loop.target, counter)
    if isinstance(loop.iter, ast.Call) and ast.unparse(counter) == _first_target(loop):
        del found.assignments[0]
    for name in found.rows:
        for part in (part for line in loop.body for part in ast.walk(line)):
            if isinstance(part, ast.Assign | ast.AnnAssign) and name in _stored_names(part):
                message = f"`{name}` is a part of an array here: the name cannot be given to something else"
                raise reader.error(part, message, "assign to its elements, or use another name")
    body = [Substituted(found.rows).visit(copied(line)) for line in loop.body]
    count = _shortest(reader, found.lengths)
    target = ast.copy_location(ast.Name(counter.id, ast.Store()), loop.target)
    iterable = ast.Call(ast.Name("range", ast.Load()), [count], [])
    return _with_iterable(loop, iterable, target, [*found.assignments, *body])


def _with_iterable(loop: ast.For, iterable: ast.expr, target: ast.expr, body: list[ast.stmt]) -> ast.For:
    spelled = ast.For(target, iterable, body, loop.orelse)
    ast.copy_location(iterable, loop.iter)
    return ast.fix_missing_locations(ast.copy_location(spelled, loop))


def _first_target(loop: ast.For) -> str:
    match loop:
        case ast.For(
            target=ast.Tuple(elts=[ast.Name(id=name), _]),
            iter=ast.Call(func=ast.Name(id="enumerate"), args=[_], keywords=[]),
        ):
            return name
        case _:
            return ""


def _counter(reader: ExpressionReader, loop: ast.For) -> ast.Name:
    """The loop variable: that of `enumerate`, or a new one."""
    name = _first_target(loop)
    if not name:
        name = reader.scope.names.fresh("k")
        reader.scope.names.loops.add(name)
    return ast.Name(name, ast.Load())


def _add(reader: ExpressionReader, found: _Iteration, iterable: ast.expr, target: ast.expr, position: ast.expr) -> None:
    """Notes how long `iterable` is, and what `target` is at a position in it."""
    match iterable, target:
        case ast.Call(func=ast.Name(id="enumerate"), args=[inner, *start], keywords=words), ast.Tuple(
            elts=[index, part]
        ):
            start = [*start, *(word.value for word in words if word.arg == "start")]
            if len(start) > 1 or not isinstance(index, ast.Name):
                raise reader.error(iterable, f"`{ast.unparse(iterable)}` is not supported", _HINT)
            value = ast.BinOp(start[0], ast.Add(), position) if start else position
            found.assignments.append(_assigned(index, value, iterable))
            _add(reader, found, inner, part, position)
        case ast.Call(func=ast.Name(id="zip"), args=[_, *_] as inner, keywords=[]), ast.Tuple(elts=parts) if len(
            inner
        ) == len(parts):
            for each, part in zip(inner, parts, strict=True):
                _add(reader, found, each, part, position)
        case ast.Call(func=ast.Name(id="range"), args=[stop], keywords=[]), ast.Name():
            found.lengths.append(stop)
            found.assignments.append(_assigned(target, position, iterable))
        case ast.Call(func=ast.Name(id="range"), args=[start, stop], keywords=[]), ast.Name():
            found.lengths.append(ast.BinOp(stop, ast.Sub(), start))
            found.assignments.append(_assigned(target, ast.BinOp(start, ast.Add(), position), iterable))
        case ast.Call(func=ast.Name(id="reversed"), args=[array], keywords=[]), ast.Name():
            last = ast.BinOp(_length(reader, array), ast.Sub(), ast.Constant(1))
            _add_array(reader, found, array, target, ast.BinOp(last, ast.Sub(), position))
        case _, ast.Name():
            _add_array(reader, found, iterable, target, position)
        case _:
            message = f"`{ast.unparse(target)}` does not fit a loop over `{ast.unparse(iterable)}`"
            raise reader.error(target, message, _HINT)


def _add_array(
    reader: ExpressionReader, found: _Iteration, array: ast.expr, target: ast.Name, position: ast.expr
) -> None:
    found.lengths.append(_length(reader, array))
    element = ast.copy_location(ast.Subscript(array, position, ast.Load()), array)
    value = view_of(reader.scope, array)
    if value is not None and value.rank > 1:
        names = reader.scope.names
        row = names.fresh(target.id)
        names.assigned[row] = 1
        found.rows[target.id] = target = ast.Name(row, ast.Load())
    found.assignments.append(_assigned(target, element, array))


def _length(reader: ExpressionReader, array: ast.expr) -> ast.expr:
    """A name that stands for the number of elements."""
    value = view_of(reader.scope, array)
    if value is None:
        raise reader.error(array, f"a loop over `{ast.unparse(array)}` is not supported", _HINT)
    return bound_size(reader.scope, value.extents[0], array)


def _shortest(reader: ExpressionReader, lengths: Sequence[ast.expr]) -> ast.expr:
    different: dict[str, ast.expr] = {}
    for length in lengths:
        different.setdefault(str(reader.affine(length, "the length of this loop")), length)
    first, *rest = different.values()
    return ast.Call(ast.Name("min", ast.Load()), [first, *rest], []) if rest else first


def _reversed_range(reader: ExpressionReader, node: ast.expr, inner: ast.Call) -> ast.expr:
    """`reversed(range(...))` as a `range`."""
    match inner:
        case ast.Call(func=ast.Name(id="range"), args=[stop], keywords=[]):
            start, step = ast.Constant(0), 1
        case ast.Call(func=ast.Name(id="range"), args=[start, stop], keywords=[]):
            step = 1
        case ast.Call(func=ast.Name(id="range"), args=[start, stop, third], keywords=[]):
            value = reader.affine(third, "the step of this loop")
            step = value.constant if value.is_constant else 0
        case _:
            raise reader.error(node, f"a loop over `{ast.unparse(node)}` is not supported", _HINT)
    if step == 0:
        raise reader.error(inner, "the step of a loop must be a whole number other than 0", "write `range(0, n, 2)`")
    towards, size = (1 if step > 0 else -1), abs(step)
    if size == 1:
        last: ast.expr = ast.BinOp(stop, ast.Sub(), ast.Constant(towards))
    else:
        span = ast.BinOp(stop, ast.Sub(), start) if step > 0 else ast.BinOp(start, ast.Sub(), stop)
        steps = ast.BinOp(ast.BinOp(span, ast.Sub(), ast.Constant(1)), ast.FloorDiv(), ast.Constant(size))
        last = ast.BinOp(start, ast.Add(), ast.BinOp(steps, ast.Mult(), ast.Constant(step)))
    before = ast.BinOp(start, ast.Sub(), ast.Constant(towards))
    return ast.Call(ast.Name("range", ast.Load()), [last, before, ast.Constant(-step)], [])


def _assigned(target: ast.Name, value: ast.expr, place: ast.AST) -> ast.stmt:
    assignment = ast.Assign([ast.Name(target.id, ast.Store())], value)
    return ast.fix_missing_locations(ast.copy_location(assignment, place))


def _stored_names(node: ast.Assign | ast.AnnAssign) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return {
        part.id
        for target in targets
        for part in ast.walk(target)
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
    }
