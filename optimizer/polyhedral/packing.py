"""Whether what register tiles read from a packed copy is what they would read from the array."""

from __future__ import annotations

from collections.abc import Iterator

import islpy as isl

from optimizer.polyhedral.model import Model
from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.order import TimedLeaf, relation_text
from optimizer.polyhedral.packable import packable_reads, tile_leaves
from optimizer.polyhedral.tree import Loop, Node, leaves, loops, path_to


def packing_fault(nest: Nest, tree: Node) -> str:
    """Where threads would write to an array while one of them packs it; empty if nowhere.

    A copy may hold more than what is read from it, so that no element may be written.
    """
    for loop in loops(tree):
        around = (node for node in path_to(tree, loop.name)[:-1] if isinstance(node, Loop) and node.is_parallel)
        for threads in around if loop.packs else ():
            for statement in map(nest.statement, dict.fromkeys(leaf.statement for leaf in leaves(threads))):
                for access in statement.accesses:
                    if access.is_write and access.array in loop.packs:
                        where = f"{access.array}[{', '.join(access.subscripts)}]"
                        return (
                            f"{statement.name} writes {where} in the parallel loop {threads.name}, inside which "
                            f"{access.array} is packed before {loop.name}"
                        )
    return ""


def stale_reads(model: Model, tree: Node, timed: tuple[TimedLeaf, ...]) -> Iterator[tuple[Loop, isl.UnionMap]]:
    """For each array that is packed before a loop, the pairs of a write and a later read of an element where the read
    would miss the write, since the copy is made before both."""
    for loop in loops(tree):
        for array in loop.packs:
            inside = tuple(leaf for leaf in timed if loop.name in leaf.levels)
            outer = slice(0, inside[0].levels.index(loop.name))
            time = isl.UnionMap(relation_text(model.nest, inside, outer)).intersect_domain(model.domain)
            writes, reads = _accesses(model, loop, array)
            missed = writes.apply_range(reads.reverse()).intersect(model.conflicts)
            yield loop, missed.intersect(time.apply_range(time.reverse()))


def _accesses(model: Model, loop: Loop, array: str) -> tuple[isl.UnionMap, isl.UnionMap]:
    """What writes to an array, and what reads its copy."""
    statements = {leaf.statement for leaf in tile_leaves(loop)}
    reads = writes = isl.UnionMap("{ }")
    for statement in model.nest.statements:
        for access in statement.accesses:
            if access.is_write and access.array == array:
                writes = writes.union(model.access_relation(statement, access))
        for access in packable_reads(statement) if statement.name in statements else ():
            if access.array == array:
                reads = reads.union(model.access_relation(statement, access))
    return writes, reads
