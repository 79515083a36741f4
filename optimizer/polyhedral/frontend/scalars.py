"""Sorts out the scalar variables of a kernel: which uses belong together, and over which loops each can be expanded.

isl's exact dataflow says which write each read sees. Uses that are connected by it form a web; webs of one variable are
told apart by name. A web is expanded over the loops within which every value is read in the iteration that wrote it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import islpy as isl

from optimizer.polyhedral.frontend.drafts import Draft
from optimizer.polyhedral.frontend.limits import limited
from optimizer.polyhedral.frontend.source import Source
from optimizer.polyhedral.nest import Nest, Statement
from optimizer.polyhedral.order import order_map
from optimizer.polyhedral.tree import Leaf, Sequence

ENTRY, RETURN = "Entry", "Return"
"""Statements that stand for what the caller hands in and for the final `return`."""


@dataclass(frozen=True, slots=True, order=True)
class Use:
    """All reads, or all writes, of one variable by one statement."""

    statement: str
    is_write: bool


@dataclass(frozen=True, slots=True)
class Web:
    """Uses of one variable that share their values."""

    variable: str
    name: str
    uses: frozenset[Use]
    subscripts: tuple[str, ...]
    """The loops over which it is expanded."""

    @property
    def is_returned(self) -> bool:
        return Use(RETURN, False) in self.uses


def find_webs(
    nest: Nest, drafts: list[Draft], source: Source, arguments: set[str], returned: dict[str, ast.Name], taken: set[str]
) -> tuple[Web, ...]:
    """The webs of every variable that statements write.

    Args:
        nest: The nest with its scalars as arrays of rank 0.
        arguments: The scalar arguments: those have a value at entry.
        returned: The variables that the final `return` reads, and where.
        taken: Every name that no new web may get.

    Raises:
        SourceError: for a read that may come before any write.
    """
    uses: dict[str, set[Use]] = {}
    for draft in drafts:
        for access in draft.accesses:
            if not access.subscripts:
                uses.setdefault(access.array, set()).add(Use(draft.name, access.is_write))
    for variable in returned:
        uses.setdefault(variable, set()).add(Use(RETURN, False))
    for variable in arguments & uses.keys():
        uses[variable].add(Use(ENTRY, True))

    if not uses:
        return ()
    found: list[Web] = []
    whole = _with_ends(nest, {use.statement for own in uses.values() for use in own})
    with limited(nest.file, "find out which scalars carry values from iteration to iteration"):
        order = order_map(whole, whole.tree)
        for variable, own in uses.items():
            flow, unsourced = _flow(order, own)
            places = {draft.name: draft.scalar_reads[variable] for draft in drafts if variable in draft.scalar_reads}
            if variable in returned:
                places[RETURN] = returned[variable]
            _check_sources(variable, unsourced, places, source)
            pairs = _maps(flow)
            changed = {draft.name for draft in drafts if _is_changed(draft, variable)}
            groups = _connected(own, pairs, changed)
            found += _webs(variable, whole, groups, pairs, taken)
    return tuple(found)


def _with_ends(nest: Nest, names: AbstractSet[str]) -> Nest:
    """Some statements of the nest, between its entry and its return, at admissible sizes."""
    ends = tuple(Statement(name, (), f"{{ {name}[] }}", (), "", 0) for name in (ENTRY, RETURN))
    tree = Sequence((Leaf(ENTRY, {}), nest.tree, Leaf(RETURN, {})))
    context = isl.Set(nest.context)
    every = (*(statement for statement in nest.statements if statement.name in names), *ends)
    statements = tuple(replace(s, domain=str(isl.Set(s.domain).intersect_params(context))) for s in every)
    return replace(nest, statements=statements, tree=tree)


def _is_changed(draft: Draft, variable: str) -> bool:
    """Whether the statement reads and writes the variable under one name: an augmented assignment, or an opaque one."""
    if draft.opaque:
        return {True, False} <= {access.is_write for access in draft.accesses if access.array == variable}
    match draft.node:
        case ast.AugAssign(target=ast.Name(id=name)):
            return name == variable
        case _:
            return False


def _flow(order: isl.UnionMap, uses: set[Use]) -> tuple[isl.UnionMap, isl.UnionMap]:
    """Each write with the reads that see its value, and the reads (to their times) that see none.

    The write that a read sees is the last one before it: the lexicographic maximum of the times of those before.
    """

    def times(names: Iterable[str]) -> isl.UnionMap:
        found = isl.UnionMap.empty(order.get_space())
        for part in _maps(order):
            if part.get_tuple_name(isl.dim_type.in_) in set(names):
                found = found.union(isl.UnionMap.from_map(part))
        return found

    reads = times({use.statement for use in uses if not use.is_write})
    writes = times({use.statement for use in uses if use.is_write})
    last = reads.lex_gt_union_map(writes).apply_range(writes).lexmax()
    return last.apply_range(writes.reverse()).reverse(), reads.subtract_domain(last.domain())


def _check_sources(variable: str, unsourced: isl.UnionMap, places: dict[str, ast.Name], source: Source) -> None:
    """Raises for the first read that sees no write, at every size or at some."""
    missing = {_ends(found)[0]: found.domain() for found in _maps(unsourced)}
    for name, place in places.items():
        if name in missing and not missing[name].is_empty():
            message = f"`{variable}` is read before it is assigned{example_sizes(missing[name].params())}"
            raise source.error(place, message, f"give `{variable}` a value before the loops")


def example_sizes(sizes: isl.Set) -> str:
    """One combination of sizes: `, for example when n = 0`."""
    point = sizes.sample_point()
    names = [sizes.get_dim_name(isl.dim_type.param, k) for k in range(sizes.dim(isl.dim_type.param))]
    values = [point.get_coordinate_val(isl.dim_type.param, k) for k in range(len(names))]
    shown = ", ".join(f"{name} = {value}" for name, value in zip(names, values, strict=True))
    return f", for example when {shown}" if shown else ""


def _maps(union: isl.UnionMap) -> list[isl.Map]:
    found: list[isl.Map] = []
    union.foreach_map(found.append)
    return sorted(found, key=_ends)


def _ends(pair: isl.Map) -> tuple[str, str]:
    """The statements that a relation leads from and to."""
    return pair.get_tuple_name(isl.dim_type.in_), pair.get_tuple_name(isl.dim_type.out)


def _connected(uses: set[Use], pairs: list[isl.Map], changed: set[str]) -> list[frozenset[Use]]:
    """The uses in groups that share values; first the one with the entry or the return, then in source order."""
    leader = {use: use for use in uses}

    def find(use: Use) -> Use:
        return use if leader[use] == use else find(leader[use])

    def join(left: Use, right: Use) -> None:
        leader[find(right)] = find(left)

    for writer, reader in map(_ends, pairs):
        join(Use(writer, True), Use(reader, False))
    for name in changed:
        join(Use(name, True), Use(name, False))
    if {Use(ENTRY, True), Use(RETURN, False)} <= uses:
        join(Use(ENTRY, True), Use(RETURN, False))

    def in_source_order(use: Use) -> tuple[int, bool]:
        position = -1 if use.statement in (ENTRY, RETURN) else int(use.statement[1:])
        return position, use.is_write

    groups: dict[Use, set[Use]] = {}
    for use in sorted(uses, key=in_source_order):
        groups.setdefault(find(use), set()).add(use)
    return [frozenset(group) for group in groups.values()]


def _webs(
    variable: str, nest: Nest, groups: list[frozenset[Use]], pairs: list[isl.Map], taken: set[str]
) -> Iterable[Web]:
    """One web for each group; the first keeps the variable's name."""
    name, count = variable, 1
    for group in groups:
        own = [pair for pair in pairs if Use(_ends(pair)[0], True) in group]
        if group != frozenset({Use(ENTRY, True)}):
            yield Web(variable, name, group, _expansion(nest, group, own))
        while name in taken or name == variable:
            count += 1
            name = f"{variable}_{count}"
        taken.add(name)


def _expansion(nest: Nest, group: frozenset[Use], pairs: list[isl.Map]) -> tuple[str, ...]:
    """The longest common prefix of loops within which no value passes from one iteration to another."""
    paths = [nest.statement(use.statement).iterators for use in group]
    depth = 0
    while all(len(path) > depth and path[depth] == paths[0][depth] for path in paths):
        if not all(_stays_within(pair, depth) for pair in pairs):
            break
        depth += 1
    return paths[0][:depth]


def _stays_within(pair: isl.Map, position: int) -> bool:
    """Whether both iterations always have the same value of the loop at `position`."""
    equal = isl.Map.universe(pair.get_space()).equate(isl.dim_type.in_, position, isl.dim_type.out, position)
    return pair.is_subset(equal)
