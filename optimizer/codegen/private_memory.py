"""How much memory private arrays take in the finished order, and where the code gets it.

In the model a private array has elements of its own for each iteration of the loops around it. Where an iteration of
some loops of the schedule uses all of an element, from its first write to its last read, the next one can have the same
memory: the subscripts that such an iteration determines are left out. Where it belongs to a parallel loop, each of that
loop's iterations gets its memory itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import islpy as isl

from optimizer.codegen.affine import AllOf, Condition, largest, names_in_condition, number, substitute_condition
from optimizer.codegen.function_text import shape_expression
from optimizer.codegen.isl_ast import condition_of
from optimizer.codegen.loop_ast import Allocate, Block, Call, For, If, LoopNode, block_of, calls, walk
from optimizer.codegen.scalars import is_size
from optimizer.errors import CandidateError
from optimizer.polyhedral.model import operation_limit
from optimizer.polyhedral.nest import Access, Array, Nest, Statement
from optimizer.polyhedral.order import TimedLeaf, instance_tuple, relation_text, timed_leaves
from optimizer.polyhedral.private_arrays import copying_statement, with_subscripts
from optimizer.polyhedral.schedule import nest_of
from optimizer.polyhedral.tree import Node, loops


@dataclass(frozen=True, slots=True)
class PrivateMemory:
    """A nest whose private arrays are as small as the schedule allows."""

    nest: Nest
    owners: Mapping[str, str]
    """The parallel loop each of whose iterations has its own, for the arrays for which there is one."""
    guards: Mapping[str, Condition]
    """When a statement runs, on its iterators, where its domain here does not say so: what copies the array of an owner
    back does it in the last iteration, which should be no loop of its own."""


def private_memory(nest: Nest, tree: Node) -> PrivateMemory:
    """Of the nest whose statements the tree runs.

    Raises CandidateError when isl needs too many operations.
    """
    nest = nest_of(nest, tree)
    owners: dict[str, str] = {}
    guards: dict[str, Condition] = {}
    for array in nest.arrays:
        if array.private is not None:
            try:
                with operation_limit():
                    nest, owner, left_out = _reduced(nest, tree, array)
                    if owner:
                        owners[array.name] = owner
                        nest, found = _guarded(nest, array, left_out)
                        guards |= found
            except isl.Error as error:
                raise CandidateError(f"code generation gave up: {error}") from error
    return PrivateMemory(nest, owners, guards)


def _reduced(nest: Nest, tree: Node, array: Array) -> tuple[Nest, str, list[int]]:
    """The nest with one array as small as it can be, the parallel loop that it belongs to, if any, and the dimensions
    that are left out. It belongs to a parallel loop if two of its iterations would have the same memory otherwise.
    """
    using = tuple(timed for timed in timed_leaves(tree) if _accesses(nest, timed.leaf.statement, array))
    around = levels_around(tree, using)
    elements = elements_of(nest, using, array, slice(None))
    while not elements.reverse().apply_range(times_of(nest, using, len(around))).is_single_valued():
        around.pop()
    owner = next((loop.name for loop in loops(tree) if loop.is_parallel and loop.name in around), "")
    left_out = _determined(nest, using, array, len(around))
    if owner and _determined(nest, using, array, around.index(owner)) == left_out:
        owner = ""
    kept = [k for k in range(len(array.shape)) if k not in left_out]

    def reduced(subscripts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(subscripts[k] for k in kept)

    arrays = tuple(replace(each, shape=reduced(each.shape)) if each == array else each for each in nest.arrays)
    statements = tuple(with_subscripts(s, array.name, array.name, reduced) for s in nest.statements)
    return replace(nest, arrays=arrays, statements=statements), owner, left_out


def _determined(nest: Nest, using: tuple[TimedLeaf, ...], array: Array, depth: int) -> list[int]:
    """The dimensions of an array that are loops and whose subscripts the first entries of timestamps determine."""
    times = times_of(nest, using, depth)
    loops_of_source = len(array.shape) - len(nest.array(array.private.array).shape) if array.private else 0
    subscripts = [elements_of(nest, using, array, slice(k, k + 1)) for k in range(loops_of_source)]
    return [k for k, values in enumerate(subscripts) if times.reverse().apply_range(values).is_single_valued()]


def _guarded(nest: Nest, array: Array, left_out: Sequence[int]) -> tuple[Nest, dict[str, Condition]]:
    """The nest in which what copies the array back is in all iterations of the loops that were left out, and when it
    runs."""
    copying = next((s for s in nest.statements if array.private and s.name == copying_statement(array.private)), None)
    if copying is None:
        return nest, {}
    exact = isl.Set(copying.domain)
    every, elements = isl.Set.empty(exact.get_space()), len(nest.array(copying.accesses[0].array).shape)
    rank = len(copying.iterators) - elements
    for statement in nest.statements:
        if statement is not copying and _accesses(nest, statement.name, array):
            there = isl.Set(statement.domain).project_out(isl.dim_type.set, rank, len(statement.iterators) - rank)
            every = every.union(there.add_dims(isl.dim_type.set, elements).set_tuple_name(copying.name))
    loose = exact
    for dimension in left_out:
        loose = loose.eliminate(isl.dim_type.set, dimension, 1)
    loose = loose.intersect(every)
    sizes = isl.Set(nest.context)
    build = isl.AstBuild.from_context(_on_names(loose, copying).intersect(sizes))
    guard = condition_of(build.expr_from_set(_on_names(exact.gist(loose), copying).gist(sizes)))
    changed = replace(copying, domain=str(loose.coalesce()))
    statements = tuple(changed if statement is copying else statement for statement in nest.statements)
    return replace(nest, statements=statements), {copying.name: guard}


def _on_names(points: isl.Set, statement: Statement) -> isl.Set:
    """The values of sizes and iterators for which there is a point, the iterators as parameters."""
    first = points.dim(isl.dim_type.param)
    points = points.move_dims(isl.dim_type.param, first, isl.dim_type.set, 0, len(statement.iterators))
    for k, name in enumerate(statement.iterators):
        points = points.set_dim_name(isl.dim_type.param, first + k, name)
    return points.params()


def levels_around(tree: Node, using: Sequence[TimedLeaf]) -> list[str | None]:
    """The entries of timestamps, outermost first, that all of the leaves have in common, loops or None for positions.

    What runs at once, as lanes or written out in a register tile, ends them.
    """
    at_once = {loop.name for loop in loops(tree) if loop.vector != 1 or loop.unroll == 0}
    found: list[str | None] = []
    for levels, times in zip(
        zip(*(timed.levels for timed in using), strict=False),
        zip(*(timed.time for timed in using), strict=False),
        strict=True,
    ):
        is_same = len(set(levels)) == 1 and (levels[0] is not None or len(set(times)) == 1)
        if not is_same or levels[0] in at_once:
            break
        found.append(levels[0])
    return found


def _accesses(nest: Nest, statement: str, array: Array) -> list[Access]:
    return [access for access in nest.statement(statement).accesses if access.array == array.name]


def times_of(nest: Nest, using: tuple[TimedLeaf, ...], depth: int) -> isl.UnionMap:
    return _in_domains(nest, relation_text(nest, using, slice(depth)))


def elements_of(nest: Nest, using: Sequence[TimedLeaf], array: Array, dimensions: slice) -> isl.UnionMap:
    """From iterations to some subscripts of the elements that they use."""
    found = [
        f"{instance_tuple(nest, name)} -> [{', '.join(f'({text})' for text in access.subscripts[dimensions])}]"
        for name in dict.fromkeys(timed.leaf.statement for timed in using)
        for access in _accesses(nest, name, array)
    ]
    return _in_domains(nest, f"[{', '.join(nest.parameters)}] -> {{ {'; '.join(dict.fromkeys(found))} }}")


def _in_domains(nest: Nest, relation: str) -> isl.UnionMap:
    domain = isl.UnionSet("{ }")
    for statement in nest.statements:
        domain = domain.union(isl.UnionSet(statement.domain))
    return isl.UnionMap(relation).intersect_domain(domain).intersect_params(isl.Set(nest.context))


def with_guards(node: LoopNode, memory: PrivateMemory) -> LoopNode:
    """The loops of a schedule with the conditions that its statements' domains do not have, as far out as they can be.

    Raises CandidateError where an array of a parallel loop is not used in one such loop alone.
    """
    for name, owner in memory.owners.items():
        inside = [part for part in walk(node) if isinstance(part, For) and part.name == owner and part.is_parallel]
        if len(inside) != 1 or len(_users(inside[0], memory.nest, name)) < len(_users(node, memory.nest, name)):
            raise CandidateError(f"code generation gave up: {owner}, which has its own {name}, is not one loop")
    return _with_guards(node, memory)


def _with_guards(node: LoopNode, memory: PrivateMemory) -> LoopNode:
    match node:
        case Call(statement, arguments) if statement in memory.guards:
            values = dict(zip(memory.nest.statement(statement).iterators, arguments, strict=True))
            return If(substitute_condition(memory.guards[statement], values), node)
        case Block(parts):
            return block_of(*(_with_guards(part, memory) for part in parts))
        case If(condition, then, otherwise):
            other = None if otherwise is None else _with_guards(otherwise, memory)
            return If(condition, _with_guards(then, memory), other)
        case For():
            body = _with_guards(node.body, memory)
            if not isinstance(body, If) or isinstance(node.body, If):
                return replace(node, body=body)
            conditions = body.condition.conditions if isinstance(body.condition, AllOf) else (body.condition,)
            within = tuple(each for each in conditions if node.iterator in names_in_condition(each))
            outside = tuple(each for each in conditions if each not in within)
            inner = replace(node, body=If(AllOf(within), body.then) if within else body.then)
            return If(AllOf(outside), inner) if outside else inner
        case _:
            return node


def with_allocations(node: LoopNode, memory: PrivateMemory) -> LoopNode:
    """The finished loops with what gets the memory of private arrays."""
    private = (array.name for array in memory.nest.arrays if array.private is not None)
    everywhere = (_allocation(memory.nest, name) for name in private if name not in memory.owners)
    return block_of(*everywhere, _with_owned(node, memory))


def _with_owned(node: LoopNode, memory: PrivateMemory) -> LoopNode:
    match node:
        case Block(parts):
            return block_of(*(_with_owned(part, memory) for part in parts))
        case If(condition, then, otherwise):
            other = None if otherwise is None else _with_owned(otherwise, memory)
            return If(condition, _with_owned(then, memory), other)
        case For(is_parallel=True):
            owned = [name for name, owner in memory.owners.items() if owner == node.name]
            return replace(node, body=block_of(*(_allocation(memory.nest, name) for name in owned), node.body))
        case For():
            return replace(node, body=_with_owned(node.body, memory))
        case _:
            return node


def _users(node: LoopNode, nest: Nest, array: str) -> list[Call]:
    return [call for call in calls(node) if any(a.array == array for a in nest.statement(call.statement).accesses)]


def _allocation(nest: Nest, name: str) -> Allocate:
    array = nest.array(name)
    extents = (shape_expression(nest, text) for text in array.shape)
    return Allocate(
        name, array.dtype, tuple(each if is_size(nest, each) else largest(each, number(0)) for each in extents)
    )
