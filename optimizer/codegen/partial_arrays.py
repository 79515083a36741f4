"""Parallel loops that reduce: copies of what they reduce, combined after the loop.

    parallel for i: x[f] += e   ->   parallel for p: (x_part[p, ...] = 0; for i = p, p + 4, ...: x_part[p, f] += e)
                                     for p: x[...] += x_part[p, ...]

The iterations are dealt out to the copies in turn, and the copies are combined in order, so that the result depends on
their number alone, not on the threads.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import reduce

import islpy as isl

from optimizer.codegen.function_text import names_of
from optimizer.codegen.module_text import defined_names
from optimizer.codegen.naming import free_name
from optimizer.errors import CandidateError
from optimizer.polyhedral.model import model_of, operation_limit
from optimizer.polyhedral.nest import Access, Array, Nest, Role, Statement
from optimizer.polyhedral.order import instance_tuple, timed_leaves
from optimizer.polyhedral.partial_results import partial_statements
from optimizer.polyhedral.reductions import Operator, Reduction, access_of, neutral_text, reduction_of
from optimizer.polyhedral.schedule import nest_of
from optimizer.polyhedral.steps.structure import around
from optimizer.polyhedral.tree import Leaf, Loop, Node, loops, map_leaves, replace_loop, sequence_of

USUAL_PARTIALS = 16
"""Where the schedule does not say how many: more than most machines have cores for one program."""


def with_partial_arrays(nest: Nest, tree: Node) -> tuple[Nest, Node]:
    """The nest and the tree with the copies that parallel loops marked by `reduce` need.

    Raises CandidateError when isl needs too many operations, or an array cannot have copies.
    """
    nest = nest_of(nest, tree)
    marked = [loop for loop in loops(tree) if loop.is_parallel and loop.partials != 1]
    if not marked:
        return nest, tree
    try:
        with operation_limit():
            timed = timed_leaves(tree)
            found = {loop.name: partial_statements(model_of(nest), timed, loop) for loop in marked}
            for loop in marked:
                if found[loop.name]:
                    nest, tree = _Expansion.of(nest, tree, loop).applied(tree, found[loop.name])
    except isl.Error as error:
        raise CandidateError(f"code generation gave up: {error}") from error
    return nest, tree


@dataclass(frozen=True, slots=True)
class _Expansion:
    nest: Nest
    loop: Loop
    outer: tuple[str, ...]
    """The loops around it."""
    part: str
    """Counts the copies: a loop, and an iterator of statements."""
    count: int
    """How many copies."""
    taken: set[str]
    """Names that are not free."""

    @classmethod
    def of(cls, nest: Nest, tree: Node, loop: Loop) -> _Expansion:
        things = (*nest.arrays, *nest.arguments, *nest.statements, *nest.loops, *loops(tree))
        iterators = {name for statement in nest.statements for name in statement.iterators}
        taken = {*nest.parameters, *iterators, *(thing.name for thing in things)}
        taken |= names_of(*nest.prologue, *nest.epilogue, *(s.body for s in nest.statements))
        taken |= set(defined_names(nest.preamble))
        part = free_name(f"{loop.name}_part", taken)
        outer = tuple(each.name for each in around(tree, loop.name))
        return cls(nest, loop, outer, part, loop.partials or USUAL_PARTIALS, {*taken, part})

    def applied(self, tree: Node, partial: Iterable[str]) -> tuple[Nest, Node]:
        reductions = {name: reduction_of(self.nest, self.nest.statement(name)) for name in partial}
        copies: dict[tuple[str, Operator], str] = {}
        elements: dict[tuple[str, Operator], list[isl.Set]] = {}
        statements: list[Statement] = []
        free_sums: list[str] = []

        def changed(leaf: Leaf) -> Leaf:
            turn = f"({leaf.values[self.loop.name]}) mod {self.count}"
            reduction = reductions.get(leaf.statement)
            if reduction is None:
                return replace(leaf, values={**leaf.values, self.part: turn})
            key = (reduction.array, reduction.operator)
            if key not in copies:
                copies[key] = self.name(f"{reduction.array}_part")
            elements.setdefault(key, []).append(self.elements(leaf, reduction))
            statements.append(self.partial(leaf, reduction, copies[key], turn))
            if leaf.statement in self.nest.free_sums:
                free_sums.append(statements[-1].name)
            return replace(leaf, statement=statements[-1].name, values={**leaf.values, self.part: self.part})

        serial = replace(self.loop, is_parallel=False, from_ends=False, chunk=0, partials=1)
        body = map_leaves(serial, changed)
        starts, ends = list[Node](), list[Node]()
        for (array, operator), copy in copies.items():
            touched = reduce(isl.Set.union, elements[array, operator]).coalesce()
            start, end = self.ends_of(self.nest.array(array), operator, copy, touched)
            statements += (start, end)
            starts.append(self.nested(start, (), {self.part: self.part}))
            again = self.name(self.part)
            ends.append(self.nested(end, (again,), {again: self.part}))
        arrays = (self.copy(self.nest.array(array), name) for (array, _), name in copies.items())
        nest = replace(
            self.nest,
            arrays=(*self.nest.arrays, *arrays),
            statements=(*self.nest.statements, *statements),
            free_sums=(*self.nest.free_sums, *free_sums),
        )
        parallel = Loop(self.part, sequence_of(*starts, body), is_parallel=True)
        return nest, replace_loop(tree, self.loop.name, lambda _: sequence_of(parallel, *ends))

    def name(self, wanted: str) -> str:
        found = free_name(wanted, self.taken)
        self.taken.add(found)
        return found

    def copy(self, array: Array, name: str) -> Array:
        if array.private is not None:
            raise CandidateError(f"{array.private.array} is private to each {array.private.loop}, and reduced besides")
        shape = (str(self.count), *array.shape)
        return Array(name, array.dtype, shape, Role.LOCAL, fill="empty")

    def elements(self, leaf: Leaf, reduction: Reduction) -> isl.Set:
        """What a leaf reduces, as points of the loops around and subscripts."""
        statement = self.nest.statement(leaf.statement)
        place = (*(leaf.values[name] for name in self.outer), *reduction.subscripts)
        relation = f"{instance_tuple(self.nest, statement.name)} -> [{', '.join(f'({text})' for text in place)}]"
        where = f" : {' and '.join(f'({condition})' for condition in leaf.where)}" if leaf.where else ""
        parameters = ", ".join(self.nest.parameters)
        return isl.Set(statement.domain).apply(isl.Map(f"[{parameters}] -> {{ {relation}{where} }}"))

    def partial(self, leaf: Leaf, reduction: Reduction, copy: str, turn: str) -> Statement:
        """The statement of a leaf, with the copy of its turn in the place of what it reduces."""
        statement, element = self.nest.statement(leaf.statement), access_of(reduction)
        name = self.name(f"{statement.name}_{self.part}")
        iterators = (*statement.iterators, self.part)
        rank = len(self.nest.array(reduction.array).shape)
        instances = f"{name}[{', '.join(iterators)}]"
        dealt = isl.Set(f"[{', '.join(self.nest.parameters)}] -> {{ {instances} : {self.part} = {turn} }}")
        whole = isl.Set(statement.domain).add_dims(isl.dim_type.set, 1).set_tuple_name(name)
        accesses = tuple(
            replace(access, array=copy, subscripts=(self.part, *access.subscripts[:rank]))
            if (access.array, access.subscripts) == (element.array, element.subscripts)
            else access
            for access in statement.accesses
        )
        body = _Renamed(reduction.element, copy, self.part).visit(ast.parse(statement.body))
        return Statement(name, iterators, str(whole.intersect(dealt)), accesses, ast.unparse(body), statement.line)

    def ends_of(self, array: Array, operator: Operator, copy: str, touched: isl.Set) -> tuple[Statement, Statement]:
        """What fills a copy with what changes nothing, and what combines it with the array."""
        rank = touched.dim(isl.dim_type.set) - len(self.outer)
        subscripts = tuple(self.name(f"{array.name}_{k}") for k in range(rank))
        if array.role is Role.SCALAR and not _is_determined(touched, len(self.outer)):
            raise CandidateError(f"the scalar {array.name} has several values that {self.loop.name} reduces at once")
        here = tuple(self.name(outer) for outer in self.outer)
        iterators = (*here, self.part, *subscripts)
        domain = touched.insert_dims(isl.dim_type.set, len(here), 1)
        counted = isl.Set(
            f"[{', '.join(self.nest.parameters)}] -> {{ [{', '.join(iterators)}] : 0 <= {self.part} < {self.count} }}"
        )
        domain = domain.intersect(counted)
        index = (self.part, *subscripts[: len(array.shape)])
        partial = f"{copy}[{', '.join(index)}]"
        element = f"{array.name}[{', '.join(subscripts)}]" if array.shape else array.name
        combined = f"{element} = {operator}({element}, {partial})"
        if operator in (Operator.SUM, Operator.PRODUCT):
            combined = f"{element} {operator}= {partial}"

        def statement(what: str, accesses: tuple[Access, ...], body: str) -> Statement:
            name = self.name(f"{copy}_{what}")
            return Statement(name, iterators, str(domain.set_tuple_name(name)), accesses, body, 0)

        start = statement(
            "start", (Access(copy, index, is_write=True),), f"{partial} = {neutral_text(operator, array.dtype)}"
        )
        both = (Access(array.name, subscripts, is_write=True), Access(array.name, subscripts, is_write=False))
        return start, statement("end", (*both, Access(copy, index, is_write=False)), combined)

    def nested(self, statement: Statement, around: tuple[str, ...], values: Mapping[str, str]) -> Node:
        """A statement in loops over its elements, and those named besides."""
        here, elements = statement.iterators[: len(self.outer)], statement.iterators[len(self.outer) + 1 :]
        inner = tuple(self.name("element") for _ in elements)
        places = {**dict(zip(self.outer, here, strict=True)), **values, **dict(zip(inner, elements, strict=True))}
        part: Node = Leaf(statement.name, places)
        for name in reversed((*around, *inner)):
            part = Loop(name, part)
        return part


def _is_determined(touched: isl.Set, outer: int) -> bool:
    """Whether there is one element in each iteration of the loops around."""
    inner = touched.dim(isl.dim_type.set) - outer
    return (
        inner == 0
        or isl.Map.from_range(touched).move_dims(isl.dim_type.in_, 0, isl.dim_type.out, 0, outer).is_single_valued()
    )


class _Renamed(ast.NodeTransformer):
    """Puts the element of a copy in the place of an element, which other elements' text is not."""

    def __init__(self, element: str, copy: str, part: str) -> None:
        self.element, self.copy, self.part = element, copy, part

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        if ast.unparse(node) != self.element:
            return node
        indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return self._with(indices, node.ctx)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._with([], node.ctx) if node.id == self.element else node

    def _with(self, indices: list[ast.expr], context: ast.expr_context) -> ast.expr:
        whole: list[ast.expr] = [ast.Name(self.part, ast.Load()), *indices]
        index = whole[0] if len(whole) == 1 else ast.Tuple(whole, ast.Load())
        return ast.Subscript(ast.Name(self.copy, ast.Load()), index, context)
