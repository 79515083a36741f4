"""Sorts out the scalar variables of a kernel: which uses belong together, and over which loops each can be expanded.

isl's exact dataflow says which write each read sees. Uses that are connected by it form a web; webs of one variable are
told apart by name. A web is expanded over the loops within which every value is read in the iteration that wrote it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import islpy as isl

from optimizer.polyhedral.frontend.body import Draft
from optimizer.polyhedral.frontend.source import Source
from optimizer.polyhedral.model import operation_limit
from optimizer.polyhedral.nest import Nest, Statement
from optimizer.polyhedral.order import order_map
from optimizer.polyhedral.tree import Leaf, Sequence

ENTRY, RETURN = "Entry", "Return"
"""Stand for what the caller hands in and for the final `return`."""


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
    """The webs of every variable that statements write, in order of the first write.

    Args:
        nest: The nest with its scalars as arrays of rank 0.
        arguments: The scalar arguments: those have a value at entry.
        returned: The variables that the final `return` reads, and where.
        taken: Every name that no web may get; the new ones are added.

    Raises:
        SourceError: for a read that may come before any write.
    """
    variables = list(dict.fromkeys(name for draft in drafts for name in _scalars(draft)))
    whole = _with_ends(nest)
    found: list[Web] = []
    with operation_limit():
        order = order_map(whole, whole.tree)
        for variable in (*variables, *(name for name in returned if name not in variables)):
            writes = [draft.name for draft in drafts if Use(draft.name, True) in _uses(draft, variable)]
            reads = [draft.name for draft in drafts if Use(draft.name, False) in _uses(draft, variable)]
            if variable in arguments:
                writes.append(ENTRY)
            if variable in returned:
                reads.append(RETURN)
            flow = _flow(whole, order, reads, writes)
            _check_sources(flow.get_must_no_source(), variable, drafts, source, returned)
            pairs = list(_pairs(flow.get_must_dependence()))
            found += _webs_of(variable, whole, drafts, {*writes}, {*reads}, pairs, taken)
    return tuple(found)


def _scalars(draft: Draft) -> Iterator[str]:
    """The scalar variables that a statement writes or reads."""
    for access in draft.accesses:
        if not access.subscripts:
            yield access.array


def _uses(draft: Draft, variable: str) -> Iterator[Use]:
    for access in draft.accesses:
        if access.array == variable and not access.subscripts:
            yield Use(draft.name, access.is_write)


def _with_ends(nest: Nest) -> Nest:
    from dataclasses import replace

    ends = tuple(Statement(name, (), f"{{ {name}[] }}", (), "", 0) for name in (ENTRY, RETURN))
    tree = Sequence((Leaf(ENTRY, {}), nest.tree, Leaf(RETURN, {})))
    statements = tuple(replace(s, domain=str(isl.Set(s.domain).intersect_params(isl.Set(nest.context)))) for s in nest.statements)
    return replace(nest, statements=(*statements, *ends), tree=tree)


def _flow(nest: Nest, order: isl.UnionMap, reads: Iterable[str], writes: Iterable[str]) -> isl.UnionFlow:
    def touching(names: Iterable[str]) -> isl.UnionMap:
        tuples = (f"{name}[{', '.join(nest.statement(name).iterators)}] -> value[]" for name in names)
        relation = isl.UnionMap(f"[{', '.join(nest.parameters)}] -> {{ {'; '.join(tuples)} }}")
        return relation.intersect_domain(order.domain())

    accesses = isl.UnionAccessInfo.from_sink(touching(reads)).set_must_source(touching(writes))
    return accesses.set_schedule_map(order).compute_flow()


def _check_sources(
    unsourced: isl.UnionMap, variable: str, drafts: list[Draft], source: Source, returned: dict[str, ast.Name]
) -> None:
    """Raises for the first read that sees no write, at every size or at some."""
    places = {draft.name: draft.scalar_reads[variable] for draft in drafts if variable in draft.scalar_reads}
    if variable in returned:
        places[RETURN] = returned[variable]
    missing: dict[str, isl.Map] = {}
    unsourced.foreach_map(lambda found: missing.setdefault(found.get_tuple_name(isl.dim_type.in_), found))
    for name, place in places.items():
        if name in missing and not missing[name].is_empty():
            hint = f"give `{variable}` a value before the loops"
            domain = missing[name].domain()
            sizes = _at(domain)
            message = f"`{variable}` is read before it is assigned{sizes}"
            raise source.error(place, message, hint)


def _at(domain: isl.Set) -> str:
    """At which sizes, for example: `, for example when n = 0`; nothing when it is at every size."""
    point = domain.params().sample_point()
    names = [domain.get_dim_name(isl.dim_type.param, k) for k in range(domain.dim(isl.dim_type.param))]
    values = [point.get_coordinate_val(isl.dim_type.param, k).to_python() for k in range(len(names))]
    shown = ", ".join(f"{name} = {value}" for name, value in zip(names, values, strict=True))
    return f", for example when {shown}" if shown else ""


def _pairs(flow: isl.UnionMap) -> Iterator[isl.Map]:
    found: list[isl.Map] = []
    flow.foreach_map(found.append)
    yield from sorted(found, key=_ends)


def _ends(pair: isl.Map) -> tuple[str, str]:
    return pair.get_tuple_name(isl.dim_type.in_), pair.get_tuple_name(isl.dim_type.out)


def _webs_of(
    variable: str,
    nest: Nest,
    drafts: list[Draft],
    writes: set[str],
    reads: set[str],
    pairs: list[isl.Map],
    taken: set[str],
) -> Iterator[Web]:
    uses = {Use(name, True) for name in writes} | {Use(name, False) for name in reads}
    leader = {use: use for use in uses}

    def find(use: Use) -> Use:
        while leader[use] != use:
            use = leader[use]
        return use

    def join(left: Use, right: Use) -> None:
        leader[find(right)] = find(left)

    for pair in pairs:
        writer, reader = _ends(pair)
        join(Use(writer, True), Use(reader, False))
    for draft in drafts:
        if isinstance(draft.node, ast.AugAssign) and isinstance(draft.node.target, ast.Name) and draft.node.target.id == variable:
            join(Use(draft.name, True), Use(draft.name, False))
    ends = sorted(uses & {Use(ENTRY, True), Use(RETURN, False)})
    for other in ends[1:]:
        join(ends[0], other)

    position = {draft.name: k for k, draft in enumerate(drafts)} | {ENTRY: -2, RETURN: -1}
    groups: dict[Use, set[Use]] = {}
    for use in sorted(uses, key=lambda use: (position[use.statement], use.is_write)):
        groups.setdefault(find(use), set()).add(use)
    for count, (_, group) in enumerate(groups.items(), start=1):
        own = [pair for pair in pairs if Use(_ends(pair)[0], True) in group]
        name = variable if count == 1 else next(
            candidate for k in range(count, len(taken) + 3) if (candidate := f"{variable}_{k}") not in taken
        )
        taken.add(name)
        yield Web(variable, name, frozenset(group), _expanded(nest, group, own))


def _expanded(nest: Nest, group: set[Use], pairs: list[isl.Map]) -> tuple[str, ...]:
    """The longest common prefix of loops within which no value passes from one iteration to another."""
    paths = [nest.statement(use.statement).iterators for use in group]
    depth = 0
    while all(len(path) > depth and path[: depth + 1] == paths[0][: depth + 1] for path in paths):
        if not all(_is_within_iteration(pair, depth) for pair in pairs):
            break
        depth += 1
    return paths[0][:depth]


def _is_within_iteration(pair: isl.Map, position: int) -> bool:
    """Whether both iterations always have the same value of the loop at `position`."""
    equal = isl.Map.universe(pair.get_space()).equate(isl.dim_type.in_, position, isl.dim_type.out, position)
    return pair.is_subset(equal)
