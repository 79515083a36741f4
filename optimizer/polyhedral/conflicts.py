"""Every pair of iterations that conflict, found along the tree of the original order.

Which of two statements comes first is said by the sequence that parts them: within one iteration of the loops around
it, all of an earlier part runs before all of a later one, whatever the loops inside do. So only the values of the loops
around it are compared, and outside of all loops nothing is. A sequence is halved again and again, so that isl takes the
relations of a whole half at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import islpy as isl

from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.order import instance_tuple
from optimizer.polyhedral.tree import Leaf, Loop, Node
from optimizer.polyhedral.tree import Sequence as Parts


@dataclass(frozen=True, slots=True)
class Touched:
    """What some statements read and write: from their iterations to elements."""

    reads: isl.UnionMap
    writes: isl.UnionMap

    def both(self, other: Touched) -> Touched:
        return Touched(self.reads.union(other.reads), self.writes.union(other.writes))

    def conflicts(self, other: Touched) -> isl.UnionMap:
        """The pairs of an iteration of these and one of the others that touch one element, one of the two writing."""
        written = other.writes.reverse()
        return self.writes.apply_range(other.reads.reverse().union(written)).union(self.reads.apply_range(written))


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the original tree."""

    touched: Touched
    leaves: tuple[Leaf, ...]


def conflicts_of(nest: Nest, touched: Mapping[str, Touched], domain: isl.UnionSet) -> isl.UnionMap:
    """Every pair (source, sink) of iterations that touch one element, at least one of the two writing, the source
    before the sink in the original order, whose tree has each statement once and whole.

    Args:
        touched: By the names of the statements.
        domain: All iterations.
    """
    empty = isl.UnionMap.empty(domain.get_space())
    found: list[isl.UnionMap] = []

    def times(part: _Part, outer: tuple[str, ...]) -> isl.UnionMap:
        """From iterations to the values of the loops around."""
        terms = (
            f"{instance_tuple(nest, leaf.statement)} -> [{', '.join(f'({leaf.values[loop]})' for loop in outer)}]"
            for leaf in part.leaves
        )
        return isl.UnionMap(f"[{', '.join(nest.parameters)}] -> {{ {'; '.join(terms)} }}").intersect_domain(domain)

    def part_of(node: Node, outer: tuple[str, ...]) -> _Part:
        match node:
            case Leaf():
                part = _Part(touched[node.statement], (node,))
                itself = part.touched.conflicts(part.touched) if outer else empty
                if not itself.is_empty():
                    time = times(part, outer)
                    found.append(itself.intersect(time.lex_lt_union_map(time)))
                return part
            case Loop():
                return part_of(node.body, (*outer, node.name))
            case Parts():
                return part_of_all(node.parts, outer)

    def part_of_all(nodes: Sequence[Node], outer: tuple[str, ...]) -> _Part:
        """That of parts of a sequence which follow each other."""
        if len(nodes) < 2:
            return part_of(nodes[0], outer) if nodes else _Part(Touched(empty, empty), ())
        first = part_of_all(nodes[: len(nodes) // 2], outer)
        second = part_of_all(nodes[len(nodes) // 2 :], outer)
        forwards = first.touched.conflicts(second.touched)
        if outer and not forwards.is_empty():
            earlier, later = times(first, outer), times(second, outer)
            found.append(forwards.reverse().intersect(later.lex_lt_union_map(earlier)))
            forwards = forwards.intersect(earlier.lex_le_union_map(later))
        found.append(forwards)
        return _Part(first.touched.both(second.touched), (*first.leaves, *second.leaves))

    part_of(nest.tree, ())
    return union(found, empty).coalesce()


def union(relations: Sequence[isl.UnionMap], empty: isl.UnionMap) -> isl.UnionMap:
    """All of them, two and two: isl copies what it adds to."""
    while len(relations) > 1:
        pairs = zip(relations[::2], relations[1::2], strict=False)
        relations = [*(one.union(other) for one, other in pairs), *relations[len(relations) & ~1 :]]
    return relations[0] if relations else empty
