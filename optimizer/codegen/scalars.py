"""Where the scalar variables that statements write are kept in the generated code.

The model may give a scalar one element for each iteration of some loops (see `Role.SCALAR`). In the finished order one
plain variable is enough if all accesses of one element come together, with none of another element in between: if for
some prefix of the timestamps elements and prefixes correspond one to one. Otherwise the scalar becomes an array.

Under a parallel loop Numba makes every variable that is assigned private to the iteration, or a reduction. So a plain
variable may only be used there when it is private, and when every read follows an assignment in the same iteration in
the text too; anything else is an array, which Numba leaves alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import islpy as isl

from optimizer.codegen.affine import Affine, largest, number
from optimizer.codegen.isl_ast import expression_of
from optimizer.codegen.loop_ast import (
    Allocate,
    Bind,
    Block,
    Boundary,
    Call,
    Fence,
    For,
    If,
    LoopNode,
    Reducing,
    RegisterTile,
    calls,
    walk,
)
from optimizer.errors import CandidateError
from optimizer.polyhedral.model import operation_limit
from optimizer.polyhedral.nest import Access, Array, Nest, Role, Statement
from optimizer.polyhedral.order import instance_tuple, relation_text, timed_leaves
from optimizer.polyhedral.tree import Node, loops


@dataclass(frozen=True, slots=True)
class ScalarArray:
    """Local memory for a scalar: an array over the bounding box of its subscripts (one element without subscripts)."""

    array: Array
    lower: tuple[Affine, ...]
    """The least subscript of each dimension, over the parameters."""
    extents: tuple[Affine, ...]
    """Elements of each dimension, over the parameters, never negative; callers may refuse what they find too large."""


def scalar_arrays(nest: Nest, tree: Node, code: LoopNode) -> tuple[ScalarArray, ...]:
    """The scalars that need memory; all others are plain variables. `code` is what the schedule became.

    Raises CandidateError when isl needs too many operations.
    """
    written = {access.array for statement in nest.statements for access in statement.accesses if access.is_write} & {
        array.name for array in nest.arrays if array.role is Role.SCALAR
    }
    try:
        with operation_limit():
            return tuple(
                _scalar_array(nest, array)
                for array in nest.arrays
                if array.name in written
                and not (is_one_at_a_time(nest, tree, array) and _is_private(nest, code, array.name))
            )
    except isl.Error as error:
        raise CandidateError(f"code generation gave up: {error}") from error


def _accesses(nest: Nest, statement: str, scalar: str) -> list[Access]:
    return [access for access in nest.statement(statement).accesses if access.array == scalar]


def is_one_at_a_time(nest: Nest, tree: Node, array: Array) -> bool:
    """Whether elements and some prefix of the timestamps correspond, every parallel loop being in the prefix."""
    using = tuple(timed for timed in timed_leaves(tree) if _accesses(nest, timed.leaf.statement, array.name))
    parallel = {loop.name for loop in loops(tree) if loop.is_parallel}
    levels = [(depth, level) for timed in using for depth, level in enumerate(timed.levels)]
    shallowest = max((depth + 1 for depth, level in levels if level in parallel), default=0)
    deepest = max(len(timed.time) for timed in using)
    elements = isl.UnionMap("{ }")
    for statement in nest.statements:
        elements = elements.union(elements_of(nest, statement, array.name))
    for depth in range(shallowest, deepest + 1):
        prefixes = isl.UnionMap(relation_text(nest, using, slice(depth)))
        if prefixes.reverse().apply_range(elements).is_bijective():
            return True
    return False


def elements_of(nest: Nest, statement: Statement, scalar: str) -> isl.UnionMap:
    """Which element each iteration of a statement accesses, as an isl union map."""
    relation = isl.UnionMap("{ }")
    for access in _accesses(nest, statement.name, scalar):
        subscripts = ", ".join(f"({subscript})" for subscript in access.subscripts)
        iteration = instance_tuple(nest, statement.name)
        text = f"[{', '.join(nest.parameters)}] -> {{ {iteration} -> [{subscripts}] }}"
        relation = relation.union(isl.UnionMap(text))
    return relation.intersect_domain(isl.UnionSet(statement.domain))


def _is_private(nest: Nest, code: LoopNode, scalar: str) -> bool:
    """Whether every parallel loop that assigns the variable may keep it to itself.

    The scalar must be expanded (others have a value before or after), and an assignment in the loop must come before
    each read in the text.
    """
    for loop in walk(code):
        if not (isinstance(loop, For) and loop.is_parallel):
            continue
        accesses = [access for call in calls(loop.body) for access in _accesses(nest, call.statement, scalar)]
        if not any(access.is_write for access in accesses):
            continue
        if not accesses[0].subscripts or not is_assigned_first(nest, loop.body, scalar):
            return False
    return True


def is_assigned_first(nest: Nest, body: LoopNode, scalar: str) -> bool:
    """Whether an assignment in the body comes before each read in it, in the text too."""
    return _dominates(nest, body, scalar, False)[0]


def _dominates(nest: Nest, node: LoopNode, scalar: str, assigned: bool) -> tuple[bool, bool]:
    """Whether every read in here comes after an assignment; and whether one has certainly happened at the end."""
    match node:
        case Bind() | Boundary() | Allocate() | Fence():
            return True, assigned
        case Call(statement):
            accesses = _accesses(nest, statement, scalar)
            reads = any(not access.is_write for access in accesses)
            writes = any(access.is_write for access in accesses)
            return assigned or not reads, assigned or writes
        case Block(parts):
            for part in parts:
                is_fine, assigned = _dominates(nest, part, scalar, assigned)
                if not is_fine:
                    return False, assigned
            return True, assigned
        case If(_, then, otherwise):
            fine_then, after_then = _dominates(nest, then, scalar, assigned)
            fine_else, after_else = _dominates(nest, otherwise or Block(), scalar, assigned)
            return fine_then and fine_else, after_then and after_else
        case For() | Reducing():
            return _dominates(nest, node.body, scalar, assigned)[0], assigned
        case RegisterTile():
            return _dominates(nest, node.loop, scalar, assigned)


def _scalar_array(nest: Nest, array: Array) -> ScalarArray:
    using = [statement for statement in nest.statements if _accesses(nest, statement.name, array.name)]
    rank = len(_accesses(nest, using[0].name, array.name)[0].subscripts)
    sizes = isl.Set(nest.context)
    box = isl.UnionSet("{ }")
    for statement in using:
        box = box.union(elements_of(nest, statement, array.name).range())
    box = isl.Set.from_union_set(box).intersect_params(sizes)
    build = isl.AstBuild.from_context(sizes)

    def expression(bound: Any) -> Affine:
        return expression_of(build.expr_from_pw_aff(bound.gist(sizes)))

    lower = tuple(expression(box.dim_min(dimension)) for dimension in range(rank))
    last = (expression(box.dim_max(dimension)) for dimension in range(rank))
    spans = (end - start + number(1) for start, end in zip(lower, last, strict=True))
    extents = (span if is_size(nest, span) else largest(span, number(0)) for span in spans)
    return ScalarArray(array, lower, tuple(extents))


def is_size(nest: Nest, extent: Affine) -> bool:
    """Whether it is the extent of some array argument, which cannot be negative."""
    name = extent.variable_name()
    return any(name in array.shape for array in nest.arrays if array.role is Role.ARGUMENT)
