"""Nests in which each iteration of a loop has its own copy of an array, with the results of the original.

A copy has one element more for each iteration of the loop (array expansion: P. Feautrier, "Array expansion", 1988): no
two iterations conflict about it. That is right if each iteration reads of the array only what it has written itself,
which isl's relations say exactly. What the array holds afterwards is what the last iteration that writes an element
leaves there, so that iteration, and no other, copies it back: by a statement of its own, that is scheduled like others.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import reduce

import islpy as isl

from optimizer.errors import StepError
from optimizer.polyhedral.affine_pieces import as_affine
from optimizer.polyhedral.model import Model, model_of, operation_limit
from optimizer.polyhedral.nest import Access, Array, Nest, Role, Statement
from optimizer.polyhedral.order import instance_tuple
from optimizer.polyhedral.steps.affine import Affine
from optimizer.polyhedral.tree import (
    Leaf,
    Loop,
    Node,
    Private,
    find_loop,
    leaves,
    loops,
    map_leaves,
    path_to,
    replace_loop,
    sequence_of,
)


def model_for(model: Model, tree: Node) -> Model:
    """The model of the nest whose statements a tree runs."""
    wanted = {private for leaf in leaves(tree) for private in leaf.private}
    for private in sorted(wanted - {array.private for array in model.nest.arrays}):
        model = with_private(model, private)
    return model


def with_private(model: Model, private: Private) -> Model:
    """The model in which an array is private to each iteration of a loop; StepError says why it cannot be."""
    if private not in model.privatized:
        try:
            with operation_limit():
                nest = _privatized(model, private)
        except isl.Error as error:
            raise StepError(f"the analysis of {private.array} gave up: {str(error).splitlines()[0]}") from None
        model.privatized[private] = model_of(nest)
    return model.privatized[private]


def tree_with_private(nest: Nest, tree: Node, private: Private) -> Node:
    """A tree of the nest in which an array became private, from one of the nest before.

    What copies back is the last part of the loop of that name; StepError where that is no longer the source's loop.
    """
    using = {s.name for s in nest.statements if any(nest.array(a.array).private == private for a in s.accesses)}
    loop = find_loop(tree, private.loop)
    inside = [leaf for leaf in leaves(loop) if leaf.statement in using] if loop else []
    around = [node.name for node in path_to(tree, private.loop) if isinstance(node, Loop)]
    places = {tuple(leaf.values[name] for name in around) for leaf in inside}
    outer = _outer(nest, private)
    inner = {name for leaf in inside for name in nest.statement(leaf.statement).iterators} - set(outer)
    if len(places) != 1 or len(inside) < sum(leaf.statement in using for leaf in leaves(tree)):
        raise StepError(f"the loop {private.loop} is not whole any more: privatize comes before what changes it")
    (values,) = places
    if any(inner & set(re.findall(r"\w+", value)) for value in values):
        raise StepError(f"a loop inside {private.loop} was moved around it: privatize comes before that")

    def marked(leaf: Leaf) -> Leaf:
        return replace(leaf, private=(*leaf.private, private)) if leaf.statement in using else leaf

    tree = map_leaves(tree, marked)
    copying = next((s for s in nest.statements if s.name == copying_statement(private)), None)
    if copying is None:
        return tree
    elements = copying.iterators[len(outer) :]
    names: list[str] = []
    for _ in elements:
        names.append(_free("element", {*_names(nest), *(each.name for each in loops(tree)), *names}))
    there = dict(zip((*around, *names), (*values, *elements), strict=True))
    part: Node = Leaf(copying.name, there, private=(private,))
    for name in reversed(names):
        part = Loop(name, part)
    return replace_loop(tree, private.loop, lambda at: replace(at, body=sequence_of(at.body, part)))


def _privatized(model: Model, private: Private) -> Nest:
    nest = model.nest
    array = _checked_array(nest, private)
    using = [s for s in nest.statements if private.loop in s.iterators and _accesses(s, private.array)]
    if not any(access.is_write for statement in using for access in _accesses(statement, private.array)):
        raise StepError(f"no iteration of {private.loop} writes {private.array}")
    outer = using[0].iterators[: using[0].iterators.index(private.loop) + 1]
    _check_uses(model, private, using, outer)
    name = _free(f"{private.array}_{private.loop}", _names(nest))
    shape = (*(_extent(model, using, iterator) for iterator in outer), *array.shape)
    copy = replace(array, name=name, shape=shape, role=Role.LOCAL, fill="empty", returned=False, private=private)

    def expanded(subscripts: tuple[str, ...]) -> tuple[str, ...]:
        return (*outer, *subscripts)

    own = {statement.name: with_subscripts(statement, private.array, name, expanded) for statement in using}
    others = [s for s in nest.statements if s.name not in own and _accesses(s, private.array)]
    copying = ()
    if array.role is Role.ARGUMENT or array.returned or others:
        copying = (_copying_back(model, private, using, others, name, outer),)
    changed = replace(
        nest,
        arrays=(*nest.arrays, copy),
        statements=(*(own.get(s.name, s) for s in nest.statements), *copying),
    )
    return replace(changed, tree=tree_with_private(changed, nest.tree, private))


def _checked_array(nest: Nest, private: Private) -> Array:
    arrays = {array.name: array for array in nest.arrays if array.role is not Role.SCALAR}
    if private.array not in arrays:
        scalars = [array.name for array in nest.arrays if array.role is Role.SCALAR]
        if private.array in scalars:
            raise StepError(f"{private.array} is a scalar, which every iteration has for itself wherever that is right")
        near = tuple(difflib.get_close_matches(private.array, arrays))
        raise StepError(f"there is no array {private.array}; there are {', '.join(arrays) or 'none'}", near)
    if arrays[private.array].private is not None:
        raise StepError(f"{private.array} is private already")
    if private.loop not in {loop.name for loop in nest.loops}:
        raise StepError(f"{private.loop} is no loop of the source: privatize comes before what makes other loops")
    if private in {array.private for array in nest.arrays}:
        raise StepError(f"each {private.loop} has its own {private.array} already")
    if any(s.name == copying_statement(private) for s in nest.statements):
        raise StepError(f"there is a statement called {copying_statement(private)}")
    return arrays[private.array]


def _check_uses(model: Model, private: Private, using: Sequence[Statement], outer: Sequence[str]) -> None:
    """Refuse an array of which some iteration reads what it has not written before, or that iterations do not share."""
    nest = model.nest
    writes, place = _empty(nest), _empty(nest)
    for statement in using:
        if statement.opaque:
            raise StepError(
                f"which elements of {private.array} {statement.name} (line {statement.line}) uses is not known"
            )
        place = place.union(_relation(model, statement, outer))
        for access in _accesses(statement, private.array):
            if access.is_write:
                writes = writes.union(model.access_relation(statement, access))
    if writes.reverse().apply_range(place).is_single_valued():
        raise StepError(f"each iteration of {private.loop} writes elements of its own of {private.array} already")
    before = model.original_order.lex_gt_union_map(model.original_order)
    earlier = place.apply_range(place.reverse()).intersect(before)
    for statement in using:
        for access in _accesses(statement, private.array):
            reads = model.access_relation(statement, access)
            known = reads.apply_range(writes.reverse()).intersect(earlier)
            if not access.is_write and not reads.domain().is_subset(known.domain()):
                raise StepError(
                    f"{statement.name} (line {statement.line}) reads elements of {private.array} that the same "
                    f"iteration of {private.loop} has not written before"
                )


def _copying_back(
    model: Model,
    private: Private,
    using: Sequence[Statement],
    others: Sequence[Statement],
    name: str,
    outer: Sequence[str],
) -> Statement:
    """The statement that copies each element in the last iteration that writes it.

    That is the last one of all within an iteration of the loops that statements which use the array itself are in too.
    """
    nest = model.nest
    shared = max((_length_in_common(s.iterators, outer) for s in others), default=0)
    rank = len(nest.array(private.array).shape)
    elements = tuple(f"{private.array}_{private.loop}_{k}" for k in range(rank))
    values = {leaf.statement: leaf.values for leaf in leaves(nest.tree)}
    last = _empty(nest)
    for statement in using:
        times = [values[statement.name][loop] for loop in outer]
        for access in _accesses(statement, private.array):
            if access.is_write:
                element = _relation(model, statement, (*times[:shared], *access.subscripts))
                last = last.union(element.reverse().apply_range(_relation(model, statement, times[shared:])))
    occasion = f"{copying_statement(private)}[{', '.join((*outer, *elements))}]"
    times = [values[using[0].name][loop] for loop in outer]
    element = isl.Map(_text(nest, occasion, (*times[:shared], *elements)))
    latest = isl.Map.from_union_map(last).lexmax()
    domain = element.apply_range(latest).intersect(isl.Map(_text(nest, occasion, times[shared:]))).domain()
    return Statement(
        name=copying_statement(private),
        iterators=(*outer, *elements),
        domain=str(domain.coalesce()),
        accesses=(Access(private.array, elements, is_write=True), Access(name, (*outer, *elements), is_write=False)),
        body=f"{private.array}[{', '.join(elements)}] = {name}[{', '.join((*outer, *elements))}]",
        line=using[-1].line,
    )


def _extent(model: Model, using: Sequence[Statement], iterator: str) -> str:
    """One more than a loop's greatest value, as an expression of sizes."""
    values = isl.Set.from_union_set(
        reduce(isl.UnionSet.union, [_relation(model, statement, [iterator]).range() for statement in using])
    )
    lowest, greatest = values.dim_min(0), values.dim_max(0).gist(model.context)
    nothing = isl.PwAff.zero_on_domain(isl.LocalSpace.from_space(lowest.get_domain_space()))
    last = as_affine(greatest)
    if last is not None and lowest.lt_set(nothing).is_empty():
        return str(last + Affine(constant=1))
    raise StepError(f"{iterator} does not run from 0 or more up to one expression of sizes")


def with_subscripts(
    statement: Statement, array: str, name: str, change: Callable[[tuple[str, ...]], tuple[str, ...]]
) -> Statement:
    """The statement with an array of that name, and changed subscripts, in the place of another one."""
    if not _accesses(statement, array):
        return statement
    accesses = tuple(
        replace(access, array=name, subscripts=change(access.subscripts)) if access.array == array else access
        for access in statement.accesses
    )
    body = _WithSubscripts(array, name, change).visit(ast.parse(statement.body))
    return replace(statement, accesses=accesses, body=ast.unparse(body))


class _WithSubscripts(ast.NodeTransformer):
    def __init__(self, array: str, name: str, change: Callable[[tuple[str, ...]], tuple[str, ...]]) -> None:
        self.array, self.name, self.change = array, name, change

    def visit_Subscript(self, node: ast.Subscript) -> ast.Subscript:
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id == self.array:
            indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            changed = ", ".join(self.change(tuple(ast.unparse(index) for index in indices)))
            node.value, node.slice = ast.Name(self.name, ast.Load()), ast.parse(changed, mode="eval").body
        return node


def _length_in_common(first: Sequence[str], second: Sequence[str]) -> int:
    """How many entries at the start of two lists are the same."""
    same = [one == other for one, other in zip(first, second, strict=False)]
    return [*same, False].index(False)


def _accesses(statement: Statement, array: str) -> list[Access]:
    return [access for access in statement.accesses if access.array == array]


def copying_statement(private: Private) -> str:
    """The statement that copies back."""
    return f"S_{private.array}_{private.loop}"


def _outer(nest: Nest, private: Private) -> tuple[str, ...]:
    """The loops of the source that a private array's first subscripts are."""
    iterators = next(s.iterators for s in nest.statements if private.loop in s.iterators)
    return iterators[: iterators.index(private.loop) + 1]


def _text(nest: Nest, iteration: str, values: Sequence[str]) -> str:
    return f"[{', '.join(nest.parameters)}] -> {{ {iteration} -> [{', '.join(f'({value})' for value in values)}] }}"


def _relation(model: Model, statement: Statement, values: Sequence[str]) -> isl.UnionMap:
    """From the iterations of a statement to what some expressions are in them."""
    text = _text(model.nest, instance_tuple(model.nest, statement.name), values)
    return isl.UnionMap(text).intersect_domain(model.domain)


def _empty(nest: Nest) -> isl.UnionMap:
    return isl.UnionMap(f"[{', '.join(nest.parameters)}] -> {{ }}")


def _names(nest: Nest) -> set[str]:
    """All that mean something in the kernel."""
    things = (*nest.arrays, *nest.arguments, *nest.loops)
    iterators = (name for statement in nest.statements for name in statement.iterators)
    return {*nest.parameters, *(thing.name for thing in things), *iterators}


def _free(wanted: str, taken: Collection[str]) -> str:
    """The name, or with the first suffix that nothing is called."""
    return next(name for name in (wanted, *(f"{wanted}_{k}" for k in range(2, len(taken) + 3))) if name not in taken)
