"""Temporaries that cost less to compute again than to keep: their expression stands in the place of each use.

    for j: d[j] = x[j] - m; for j: v += d[j] * d[j]; for j: y[j] = d[j] / s
    ->  for j: v += (x[j] - m) * (x[j] - m); for j: y[j] = (x[j] - m) / s

The uses may be in loops that cannot become one, and then each value would have to be written to memory and read back.
An expression of one element and of what stays the same along the loop reads as much as its value would. It has the same
value wherever nothing that it reads is written in between, which isl proves.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

import islpy as isl

from optimizer.polyhedral.contraction import accesses_of
from optimizer.polyhedral.frontend.stored_scalars import with_leaves_of
from optimizer.polyhedral.model import Model, operation_limit
from optimizer.polyhedral.nest import Access, Nest, Role, Statement

DTYPE = "float64"
"""An expression of such numbers is one, and is rounded as it would be in memory."""
MOST_OPERATIONS = 4
"""Of additions, subtractions and multiplications in an expression that is computed again."""


@dataclass(frozen=True, slots=True)
class _Use:
    """A statement that reads a temporary, and what the iterators of the one that sets it are there."""

    reader: Statement
    values: Mapping[str, str]


def with_values_recomputed(nest: Nest) -> Nest:
    """The nest without the temporaries that are cheap to compute where they are read."""
    for scalar in nest.arrays:
        if scalar.role is not Role.SCALAR or scalar.returned or scalar.dtype != DTYPE:
            continue
        setting = [s for s in nest.statements if any(a.is_write for a in accesses_of(nest, s.name, scalar.name))]
        if len(setting) == 1 and not setting[0].opaque and _is_cheap(nest, setting[0], scalar.name):
            nest = _without(nest, setting[0], scalar.name)
    return nest


def _is_cheap(nest: Nest, setting: Statement, scalar: str) -> bool:
    """Whether it is an expression of a few operations, and of one element that its innermost loop moves."""
    value = _value(setting)
    elements = accesses_of(nest, setting.name, scalar)
    reads = [access for access in setting.accesses if not access.is_write]
    if value is None or len(elements) != 1 or sorted(elements[0].subscripts) != sorted(setting.iterators):
        return False
    if not setting.iterators or any(nest.array(access.array).dtype != DTYPE for access in reads):
        return False
    moving = {access for access in reads if _names(access.subscripts) & {setting.iterators[-1]}}
    operations = _operations(value, {access.array for access in moving})
    return len(moving) == 1 and operations is not None and operations <= MOST_OPERATIONS


def _value(setting: Statement) -> ast.expr | None:
    match ast.parse(setting.body).body:
        case [ast.Assign(targets=[ast.Name()], value=ast.BinOp() as value)]:
            return value
        case _:
            return None


def _operations(node: ast.expr, moving: Collection[str]) -> int | None:
    """How many there are in each iteration, given the arrays whose elements are other ones in each; None where one is
    more than an addition or a multiplication."""
    match node:
        case ast.Constant() | ast.Name() | ast.Subscript():
            return 0
        case ast.UnaryOp(ast.USub(), operand):
            return _operations(operand, moving)
        case ast.BinOp(left, operator, right):
            parts = _operations(left, moving), _operations(right, moving)
            if parts[0] is None or parts[1] is None:
                return None
            if not any(isinstance(inner, ast.Name) and inner.id in moving for inner in ast.walk(node)):
                return 0
            return parts[0] + parts[1] + 1 if isinstance(operator, ast.Add | ast.Sub | ast.Mult) else None
        case _:
            return None


def _without(nest: Nest, setting: Statement, scalar: str) -> Nest:
    """The nest with the expression in the place of each use, if that is right for all of them."""
    (element,) = accesses_of(nest, setting.name, scalar)
    uses: list[_Use] = []
    for reader in nest.statements:
        read = {access.subscripts for access in accesses_of(nest, reader.name, scalar)}
        if reader != setting and read:
            if len(read) > 1 or reader.opaque:
                return nest
            uses.append(_Use(reader, dict(zip(element.subscripts, *read, strict=True))))
    if not uses or any(_clashes(nest, setting, use) for use in uses):
        return nest
    try:
        with operation_limit():
            model = Model(nest)
            if not all(_is_unchanged(model, setting, element, use) for use in uses):
                return nest
    except isl.Error:
        return nest
    changed = {use.reader.name: _in_place(nest, setting, scalar, use) for use in uses}
    statements = tuple(changed.get(s.name, s) for s in nest.statements if s != setting)
    tree = with_leaves_of(nest.tree, {statement.name for statement in statements})
    arrays = tuple(array for array in nest.arrays if array.name != scalar)
    return nest if tree is None else replace(nest, arrays=arrays, statements=statements, tree=tree)


def _clashes(nest: Nest, setting: Statement, use: _Use) -> bool:
    """Whether a statement would read two elements of a scalar, which has one name, or one that it sets as a scalar."""
    for access in setting.accesses:
        if not access.is_write and nest.array(access.array).role is Role.SCALAR:
            there = {other.subscripts for other in use.reader.accesses if other.array == access.array}
            if there - {_moved(access, use.values).subscripts}:
                return True
    return False


def _is_unchanged(model: Model, setting: Statement, element: Access, use: _Use) -> bool:
    """Whether each use reads what the setting before it would set if it ran there: nothing that it reads is written in
    between."""
    order = model.original_order
    written = model.access_relation(setting, element)
    read = model.access_relation(use.reader, _moved(replace(element, is_write=False), use.values))
    source = read.apply_range(written.reverse())
    own = order.intersect_domain(isl.UnionSet.from_set(model.domains[use.reader.name]))
    earlier = own.lex_gt_union_map(order)
    if not read.domain().is_subset(source.intersect(earlier).domain()) or not source.is_single_valued():
        return False
    after_setting = source.apply_range(order.lex_lt_union_map(order))
    between = earlier.intersect(after_setting)
    for access in setting.accesses:
        if not access.is_write:
            there = model.access_relation(use.reader, _moved(access, use.values))
            if not there.apply_range(model.writes.reverse()).intersect(between).is_empty():
                return False
    return True


def _moved(access: Access, values: Mapping[str, str]) -> Access:
    return replace(access, subscripts=tuple(_substituted(text, values) for text in access.subscripts))


def _substituted(text: str, values: Mapping[str, str]) -> str:
    def value(found: re.Match[str]) -> str:
        name = found[0]
        text = values.get(name, name)
        return text if text.isidentifier() else f"({text})"

    return values[text] if text in values else re.sub(r"[^\W\d]\w*", value, text)


def _names(texts: Iterable[str]) -> set[str]:
    return {name for text in texts for name in re.findall(r"[^\W\d]\w*", text)}


def _in_place(nest: Nest, setting: Statement, scalar: str, use: _Use) -> Statement:
    value = _value(setting)
    assert value is not None
    there = _Moved(use.values).visit(value)
    body = ast.unparse(_InPlace(scalar, there).visit(ast.parse(use.reader.body)))
    reads = tuple(_moved(access, use.values) for access in setting.accesses if not access.is_write)
    accesses: list[Access] = []
    for access in use.reader.accesses:
        accesses += reads if access.array == scalar else (access,)
    return replace(use.reader, accesses=tuple(accesses), body=body)


class _Moved(ast.NodeTransformer):
    def __init__(self, values: Mapping[str, str]) -> None:
        self.values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self.values:
            return node
        return ast.parse(self.values[node.id].replace(" mod ", " % "), mode="eval").body


class _InPlace(ast.NodeTransformer):
    def __init__(self, scalar: str, value: ast.expr) -> None:
        self.scalar, self.value = scalar, value

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return copy.deepcopy(self.value) if node.id == self.scalar else node
