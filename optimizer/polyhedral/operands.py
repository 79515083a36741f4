"""What the operands of an operation are in each iteration: which iteration wrote them, through scalar variables too.

A scalar stands for the expression that was assigned to it. Only where its value is made from an earlier one of its own
(a sum in a loop), or where expressions grow long, it is taken as an element that an iteration wrote.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import islpy as isl

from optimizer.polyhedral.evaluation import Part, access_of, is_operation
from optimizer.polyhedral.model import Model
from optimizer.polyhedral.nest import Access, Role, Statement
from optimizer.polyhedral.order import instance_tuple

MOST_OPERANDS = 24
"""An expression with more of them is not put in the place of a scalar."""


@dataclass(frozen=True)
class Value:
    """An expression in some iterations of a statement."""

    iterations: isl.UnionSet
    node: ast.expr
    """With marks for what may differ between iterations."""
    operands: tuple[isl.UnionMap, ...] = ()
    """From iterations to what stands at each mark: the iteration that wrote it, an element none wrote, or a number."""
    has_element: bool = False
    """Whether an element of an array is among the operands."""
    is_certain: bool = True
    """False if conditions on data decide whether it has this value."""

    @cached_property
    def form(self) -> str:
        """Its text: the same for all that may be equal."""
        return ast.unparse(self.node)

    @cached_property
    def relation(self) -> isl.UnionMap:
        """From iterations to all operands."""
        return reduce(isl.UnionMap.range_product, self.operands).intersect_domain(self.iterations)

    @property
    def differs_everywhere(self) -> bool:
        """Whether one operand alone differs between all iterations; to find that out is cheap."""
        return any(operand.intersect_domain(self.iterations).is_injective() for operand in self.operands)

    def may_equal(self, other: Value) -> bool:
        """Whether both may be the same in one iteration."""
        return self.form == other.form and not self.relation.intersect(other.relation).is_empty()


class OperandReader:
    """Reads operands off the dataflow of a nest."""

    def __init__(self, model: Model, parts: Sequence[Part]) -> None:
        self.model = model
        self.parts = parts
        self._scalars = {array.name for array in model.nest.arrays if array.role is Role.SCALAR}
        self._running = _running(model.nest.statements, self._scalars)
        self._flows: dict[tuple[str, Access], tuple[isl.UnionMap, isl.UnionMap]] = {}
        self._values: dict[tuple[Part, str], list[Value]] = {}

    def operations(self, part: Part, text: str) -> list[Value]:
        """What an expression of a part may be in its iterations; nothing if it is no operation.

        With a value that data decide there are others for the same iterations, or none if it is not evaluated.
        """
        if not is_operation(ast.parse(text, mode="eval").body):
            return []
        values = self._values_of(part, text)
        return values if text in part.certain else [replace(value, is_certain=False) for value in values]

    def _values_of(self, part: Part, text: str) -> list[Value]:
        if (part, text) not in self._values:
            self._values[part, text] = list(self._read(part, text))
        return self._values[part, text]

    def _read(self, part: Part, text: str) -> Iterator[Value]:
        """The values of an expression, for each way to choose those of its operands that some iterations have."""
        chosen = [(isl.UnionSet(part.iterations), list[Value]())]
        for leaf in _leaves(ast.parse(text, mode="eval").body):
            chosen = [
                (both, [*values, value])
                for iterations, values in chosen
                for value in self._operand(part, leaf)
                if not (both := iterations.intersect(value.iterations)).is_empty()
            ]
        for iterations, values in chosen:
            node = _Filled(value.node for value in values).visit(ast.parse(text, mode="eval").body)
            operands = tuple(operand for value in values for operand in value.operands)
            has_element = any(value.has_element for value in values)
            yield Value(iterations, node, operands, has_element, all(value.is_certain for value in values))

    def _operand(self, part: Part, node: ast.Name | ast.Subscript) -> list[Value]:
        statement, iterations = part.statement, isl.UnionSet(part.iterations)
        match node:
            case ast.Subscript():
                return [_marked(isl.UnionMap.union(*self._flow(statement, access_of(node))), iterations)]
            case ast.Name(id=name) if name in self._scalars:
                return list(self._scalar(statement, name))
            case ast.Name(id=name) if name in statement.iterators:
                parameters, iteration = self.model.nest.parameters, instance_tuple(self.model.nest, statement.name)
                number = isl.UnionMap(f"[{', '.join(parameters)}] -> {{ {iteration} -> [{name}] }}")
                return [Value(iterations, _MARK, (number,))]
            case _:
                return [Value(iterations, node)]

    def _scalar(self, statement: Statement, name: str) -> Iterator[Value]:
        """What a scalar may stand for in a statement that reads it."""
        access = next(access for access in statement.accesses if access.array == name and not access.is_write)
        written, argument = self._flow(statement, access)
        if not argument.is_empty():
            yield Value(argument.domain(), ast.Name(name, ast.Load()))
        for writer in self.parts:
            seen = written.intersect_range(isl.UnionSet(writer.iterations))
            if not seen.is_empty():
                yield from self._assigned(seen, writer)

    def _assigned(self, seen: isl.UnionMap, writer: Part) -> Iterator[Value]:
        """What a part assigned, in the iterations that see it."""
        is_running = writer.statement.name in self._running
        values = [] if is_running else [v for text in sorted(writer.values) for v in self._values_of(writer, text)]
        if not values or any(len(value.operands) > MOST_OPERANDS for value in values):
            yield _marked(seen, seen.domain())
            return
        for value in values:
            iterations = seen.intersect_range(value.iterations).domain()
            if not iterations.is_empty():
                operands = tuple(seen.apply_range(operand) for operand in value.operands)
                is_certain = value.is_certain and len(writer.values) == 1
                yield Value(iterations, value.node, operands, value.has_element, is_certain)

    def _flow(self, statement: Statement, access: Access) -> tuple[isl.UnionMap, isl.UnionMap]:
        """From iterations to the iteration that wrote what they read, and to the elements that none wrote."""
        key = statement.name, access
        if key not in self._flows:
            reads = isl.UnionAccessInfo.from_sink(self.model.access_relation(statement, access))
            order = self.model.original_order
            flow = reads.set_must_source(self.model.writes).set_schedule_map(order).compute_flow()
            self._flows[key] = flow.get_must_dependence().reverse().coalesce(), flow.get_must_no_source().coalesce()
        return self._flows[key]


_MARK = ast.Name("?", ast.Load())


def _marked(operand: isl.UnionMap, iterations: isl.UnionSet) -> Value:
    """An element of an array, or what is taken as one."""
    return Value(iterations, _MARK, (operand,), has_element=True)


def _running(statements: Sequence[Statement], scalars: set[str]) -> set[str]:
    """The statements that make a scalar from an earlier value of itself, or of scalars made from it."""
    writes = {s.name: {a.array for a in s.accesses if a.is_write} for s in statements}
    reads = {s.name: {a.array for a in s.accesses if not a.is_write} & scalars for s in statements}
    before = {name: {other for other in writes if writes[other] & own} for name, own in reads.items()}
    return {name for name in before if name in _reached(name, before)}


def _reached(start: str, graph: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        fresh = graph[waiting.pop()] - found
        found |= fresh
        waiting += fresh
    return found


def _leaves(node: ast.AST) -> Iterator[ast.Name | ast.Subscript]:
    """Names and elements in source order."""
    if isinstance(node, ast.Name | ast.Subscript):
        yield node
    else:
        for child in ast.iter_child_nodes(node):
            yield from _leaves(child)


class _Filled(ast.NodeTransformer):
    """Puts other expressions in the places of names and elements, in source order."""

    def __init__(self, nodes: Iterator[ast.expr]) -> None:
        self.nodes = nodes

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return next(self.nodes)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        return next(self.nodes)
