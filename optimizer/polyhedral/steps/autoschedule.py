"""The step `autoschedule`: an affine schedule from isl's scheduler, to start from."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from optimizer.errors import StepError
from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.tree import Leaf, Loop, Node, Private, leaves, sequence_of

FUSIONS = ("smart", "max", "none")


@dataclass(frozen=True, slots=True)
class Autoschedule:
    """Replace the whole schedule by isl's own: skewed where that makes a band of loops permutable.

    args:
        fuse: `smart` fuses what shares data in one loop, `max` fuses all it can, `none` keeps statements apart.
    rewrite:
        for t: (for i: B[i] = f(A)); (for i: A[i] = g(B))   ->   for t: for i + 2*t: B[...]; A[...]

    The method is isl's variant of Pluto's (Verdoolaege and Janssens, "Scheduling for PPCG", 2017).
    """

    name: ClassVar[str] = "autoschedule"
    fuse: str = "smart"

    def __post_init__(self) -> None:
        if self.fuse not in FUSIONS:
            raise StepError(f"autoschedule: fuse must be one of {', '.join(FUSIONS)}, not {self.fuse}")

    def __str__(self) -> str:
        return "autoschedule()" if self.fuse == "smart" else f"autoschedule(fuse={self.fuse})"

    def apply(self, nest: Nest, tree: Node) -> Node:
        private = {leaf.statement: leaf.private for leaf in leaves(tree)}
        return _tree_from_isl(nest, self.fuse, private)

    @classmethod
    def options(cls, nest: Nest, tree: Node) -> Iterator[Autoschedule]:
        """Only on the untouched nest: it would throw away what came before."""
        if tree == nest.tree:
            yield from map(cls, FUSIONS)


def _tree_from_isl(nest: Nest, fuse: str, private: Mapping[str, tuple[Private, ...]]) -> Node:
    import islpy as isl

    from optimizer.polyhedral.model import model_of, operation_limit

    model = model_of(nest)
    question = ("autoschedule", fuse, *private.items())
    if question in model.remembered:
        return model.remembered[question]
    try:
        with operation_limit(), _scheduler_options(fuse):
            constraints = (
                isl.ScheduleConstraints.on_domain(model.domain)
                .set_validity(model.conflicts)
                .set_coincidence(model.conflicts)
                .set_proximity(model.conflicts.intersect(model.writes.apply_range(model.reads.reverse())))
            )
            root = constraints.compute_schedule().get_root()
    except isl.Error as error:
        raise StepError(f"autoschedule: isl found no schedule ({str(error).splitlines()[0]})") from None
    taken: set[str] = set()

    def fresh(wanted: str) -> str:
        name = next(n for n in (wanted, *(f"{wanted}_{k}" for k in range(2, 1000))) if n not in taken)
        taken.add(name)
        return name

    def statements_of(node: isl.ScheduleNode) -> tuple[str, ...]:
        sets = node.get_domain().get_set_list()
        names = {str(sets.get_at(k).get_tuple_name()) for k in range(sets.n_set())}
        return tuple(s.name for s in nest.statements if s.name in names)

    def convert(node: isl.ScheduleNode, values: dict[str, dict[str, str]]) -> Node:
        kind = isl.schedule_node_type(node.get_type())
        if kind in (isl.schedule_node_type.sequence, isl.schedule_node_type.set):
            return sequence_of(*(convert(node.child(k), values) for k in range(node.n_children())))
        if kind == isl.schedule_node_type.leaf:
            names = statements_of(node)
            return sequence_of(*(Leaf(name, values[name], private=private[name]) for name in names))
        if kind == isl.schedule_node_type.band:
            schedule = node.band_get_partial_schedule()
            names = statements_of(node)
            loops: list[str] = []
            inner = {name: dict(entries) for name, entries in values.items()}
            for member in range(node.band_n_member()):
                expressions = _expressions(nest, names, schedule.get_at(member))
                loops.append(fresh(_loop_name(nest, expressions, taken)))
                for name, expression in expressions.items():
                    inner[name][loops[-1]] = expression
            body = convert(node.child(0), inner)
            for loop in reversed(loops):
                body = Loop(loop, body)
            return body
        return convert(node.child(0), values)

    model.remembered[question] = convert(root, {statement.name: {} for statement in nest.statements})
    return model.remembered[question]


def _expressions(nest: Nest, names: tuple[str, ...], member: object) -> dict[str, str]:
    """The value of one band member for each statement, as isl text over the statement's iterators."""
    import islpy as isl

    assert isinstance(member, isl.UnionPwAff)
    found: dict[str, str] = {}
    pieces = member.get_pw_aff_list()
    for k in range(pieces.n_pw_aff()):
        piece = pieces.get_at(k)
        name = str(piece.get_space().get_tuple_name(isl.dim_type.in_))
        if name not in names:
            continue
        for position, iterator in enumerate(nest.statement(name).iterators):
            piece = piece.set_dim_id(isl.dim_type.in_, position, isl.Id(iterator))
        text = str(piece)
        match = re.search(r"-> \[\((.*?)\)\] *(?::.*)?\}$", text)
        if match is None or text.count("->") != 1 + text.startswith("["):
            raise StepError(f"autoschedule: isl's schedule of {name} is piecewise, which is not supported")
        found[name] = match.group(1)
    return {name: found.get(name, "0") for name in names}


def _loop_name(nest: Nest, expressions: dict[str, str], taken: set[str]) -> str:
    """The first iterator, in the order of the source, that the loop's values mention and no loop is named after yet."""
    mentioned = [
        iterator
        for name, expression in expressions.items()
        for iterator in nest.statement(name).iterators
        if re.search(rf"\b{re.escape(iterator)}\b", expression)
    ]
    free = [iterator for iterator in mentioned if iterator not in taken]
    return next(iter([*free, *mentioned]), "c")


@contextmanager
def _scheduler_options(fuse: str) -> Generator[None]:
    import islpy as isl

    context = isl.DEFAULT_CONTEXT
    previous = (
        context.get_schedule_serialize_sccs(),
        context.get_schedule_maximize_coincidence(),
        context.get_schedule_whole_component(),
    )
    context.set_schedule_serialize_sccs(int(fuse == "none"))
    context.set_schedule_maximize_coincidence(int(fuse == "smart"))
    context.set_schedule_whole_component(int(fuse == "max"))
    try:
        yield
    finally:
        context.set_schedule_serialize_sccs(previous[0])
        context.set_schedule_maximize_coincidence(previous[1])
        context.set_schedule_whole_component(previous[2])
