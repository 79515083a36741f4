"""What register tiles read, which can come from a packed copy."""

from __future__ import annotations

from collections.abc import Iterator

from optimizer.polyhedral.nest import Access, Statement
from optimizer.polyhedral.tree import Leaf, Loop, Node, Sequence, leaves


def tile_leaves(node: Node) -> Iterator[Leaf]:
    """The leaves inside register tiles."""
    match node:
        case Leaf():
            return
        case Loop() if node.unroll == 0 and node.vector != 1:
            yield from leaves(node.body)
        case Loop():
            yield from tile_leaves(node.body)
        case Sequence():
            for part in node.parts:
                yield from tile_leaves(part)


def packable_reads(statement: Statement) -> Iterator[Access]:
    """All reads of elements but those of what the statement itself writes to, which stays in registers, and those of
    opaque statements, which are in no tile."""
    if statement.opaque:
        return
    written = {(access.array, access.subscripts) for access in statement.accesses if access.is_write}
    for access in statement.accesses:
        if not access.is_write and access.subscripts and (access.array, access.subscripts) not in written:
            yield access
