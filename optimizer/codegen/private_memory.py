"""How much memory private arrays and other temporaries take in the finished order, and where the code gets it.

Subscripts that say nothing there are left out (see `polyhedral.contraction`). Where an array belongs to a parallel
loop, each of that loop's iterations gets its memory itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import islpy as isl

from optimizer.codegen.affine import AllOf, Condition, largest, names_in_condition, number, substitute_condition
from optimizer.codegen.function_text import shape_expression
from optimizer.codegen.isl_ast import condition_of
from optimizer.codegen.loop_ast import Allocate, Block, Call, For, If, LoopNode, block_of, calls, walk
from optimizer.codegen.scalar_rows import scalar_in_rows
from optimizer.codegen.scalars import is_size
from optimizer.errors import CandidateError
from optimizer.polyhedral.contraction import accesses_of, contraction, is_temporary
from optimizer.polyhedral.model import operation_limit
from optimizer.polyhedral.nest import Array, Nest, Role, Statement
from optimizer.polyhedral.private_arrays import copying_statement, with_subscripts
from optimizer.polyhedral.schedule import nest_of
from optimizer.polyhedral.tree import Node, loops


@dataclass(frozen=True, slots=True)
class PrivateMemory:
    """A nest whose private arrays and temporaries are as small as the schedule allows."""

    nest: Nest
    owners: Mapping[str, str]
    """The parallel loop each of whose iterations has its own, for the arrays for which there is one."""
    guards: Mapping[str, Condition]
    """When a statement runs, on its iterators, where its domain here does not say so: what copies the array of an owner
    back does it in the last iteration, which should be no loop of its own."""


def private_memory(nest: Nest, tree: Node, temporaries: Collection[str] = ()) -> PrivateMemory:
    """Of the nest whose statements the tree runs.

    Those of `temporaries` that nothing but the statements knows are made as small as private arrays are.

    Raises CandidateError when isl needs too many operations.
    """
    nest = nest_of(nest, tree)
    owners: dict[str, str] = {}
    guards: dict[str, Condition] = {}
    named = {name for loop in loops(tree) for name in (*loop.packs, *loop.streams)}
    try:
        for array in nest.arrays:
            with operation_limit():
                if array.private is not None:
                    nest, owner, left_out = _reduced(nest, tree, array)
                    if owner:
                        nest, found = _guarded(nest, array, left_out)
                        guards |= found
                elif array.name in temporaries and array.name not in named and is_temporary(nest, array):
                    nest, owner = _smaller(nest, tree, array)
                else:
                    continue
            if owner:
                owners[array.name] = owner
    except isl.Error as error:
        raise CandidateError(f"code generation gave up: {error}") from error
    return PrivateMemory(nest, owners, guards)


def _reduced(nest: Nest, tree: Node, array: Array) -> tuple[Nest, str, Sequence[int]]:
    """The nest with one private array as small as it can be, the parallel loop that it belongs to, if any, and the
    dimensions that are left out. It belongs to a parallel loop if two of its iterations would have the same memory
    otherwise."""
    loops_of_source = len(array.shape) - len(nest.array(array.private.array).shape) if array.private else 0
    found = contraction(nest, tree, array, loops_of_source)
    return _without_dimensions(nest, array, found.left_out), found.owner, found.left_out


def _smaller(nest: Nest, tree: Node, array: Array) -> tuple[Nest, str]:
    """The nest with a temporary as small as it can be, if that is an array of fewer dimensions; and its owner."""
    if array.role is Role.SCALAR:
        return scalar_in_rows(nest, tree, array)
    used = any(accesses_of(nest, statement.name, array.name) for statement in nest.statements)
    found = contraction(nest, tree, array, len(array.shape)) if used else None
    if found is None or not 0 < len(found.left_out) < len(array.shape):
        return nest, ""
    return _without_dimensions(nest, array, found.left_out), found.owner


def _without_dimensions(nest: Nest, array: Array, left_out: Sequence[int]) -> Nest:
    kept = [k for k in range(len(array.shape)) if k not in left_out]

    def reduced(subscripts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(subscripts[k] for k in kept)

    arrays = tuple(replace(each, shape=reduced(each.shape)) if each == array else each for each in nest.arrays)
    statements = tuple(with_subscripts(s, array.name, array.name, reduced) for s in nest.statements)
    return replace(nest, arrays=arrays, statements=statements)


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
        if statement is not copying and accesses_of(nest, statement.name, array.name):
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
