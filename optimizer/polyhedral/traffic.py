"""How many bytes a schedule moves between memory and a cache, as counted on the model.

What fits in the cache is fetched once and written once, however often it is used; what does not is fetched again by
each iteration, or each part, that uses it. A temporary that ends where it began, within one iteration of the loops that
its uses share, is a register or a few rows in the cache, and moves nothing. The cache is taken to keep what is used
next (a bound from below).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import islpy as isl
import numpy as np

from optimizer.polyhedral.contraction import is_temporary
from optimizer.polyhedral.footprint import count_elements, range_of, touched_elements
from optimizer.polyhedral.model import Model, operation_limit
from optimizer.polyhedral.nest import Role
from optimizer.polyhedral.tree import Leaf, Loop, Node, Sequence, leaves, loops

CACHE = 2**20
"""Bytes of the caches of one core that are its own, on most machines of today or more."""
SHARE_OF_TEMPORARY = 4
"""Of the cache, the part that a temporary may take and still be there when it is used again."""


def moved_bytes(model: Model, tree: Node, sizes: Mapping[str, int], cache: int = CACHE) -> int | None:
    """What a schedule reads from memory and writes to it at these sizes; None where isl gives up."""
    try:
        with operation_limit():
            registers, rows = _kept_near(model, tree, sizes, cache)
            traffic = _Traffic(model, sizes, cache, registers, rows)
            return traffic.of(tree, ())
    except isl.Error:
        return None


@dataclass(frozen=True, slots=True)
class _Traffic:
    model: Model
    sizes: Mapping[str, int]
    cache: int
    registers: frozenset[str]
    rows: frozenset[str]
    """Temporaries that are never needed from memory, but take room in the cache."""

    def of(self, node: Node, fixed: tuple[str, ...]) -> int:
        """What a part moves while the loops around it stand still, halfway through them."""
        match node:
            case Leaf():
                return self._touched(node, fixed)[1]
            case Loop():
                inside = (*fixed, node.name)
                if self._touched(node.body, inside)[0] <= self.cache:
                    return self._touched(node, fixed)[1]
                return self._trips(node) * self.of(node.body, inside)
            case Sequence():
                footprint, moved = self._touched(node, fixed)
                return moved if footprint <= self.cache else sum(self.of(part, fixed) for part in node.parts)

    def _touched(self, node: Node, fixed: tuple[str, ...]) -> tuple[int, int]:
        """The bytes that a part touches, and those that come in and go out once if all of them fit in the cache."""
        inside = tuple(leaves(node))
        footprint = moved = 0
        for name, touched in touched_elements(self.model, inside, fixed, self.sizes).items():
            if name in self.registers:
                continue
            size = np.dtype(self.model.nest.array(name).dtype).itemsize
            footprint += size * touched.count()
            if name in self.rows:
                continue
            moved += size * count_elements(touched.written)
            if self._is_read_first(inside, name):
                moved += size * count_elements(touched.read)
        return footprint, moved

    def _is_read_first(self, inside: tuple[Leaf, ...], array: str) -> bool:
        """Whether the first statement that uses an array reads it: what is read later was written here."""
        for leaf in inside:
            accesses = self.model.nest.statement(leaf.statement).accesses
            if used := [access for access in accesses if access.array == array]:
                return any(not access.is_write for access in used)
        return False

    def _trips(self, loop: Loop) -> int:
        """How many values a loop has."""
        ranges = [values for leaf in leaves(loop) if (values := range_of(self.model, leaf, loop.name, self.sizes))]
        return max((high - low + 1 for low, high in ranges), default=0)


def _kept_near(model: Model, tree: Node, sizes: Mapping[str, int], cache: int) -> tuple[frozenset[str], frozenset[str]]:
    """The temporaries of which there is one element at a time, all uses of it in one iteration of their loops.

    And those of which there are so few that the memory for them, which the next iteration has again, stays in the
    cache.
    """
    registers, rows = set[str](), set[str]()
    for array in model.nest.arrays:
        users = [leaf for leaf in leaves(tree) if _uses(model, leaf, array.name)]
        if not is_temporary(model.nest, array) or not users:
            continue
        shared = [loop.name for loop in loops(tree) if all(loop.name in leaf.values for leaf in users)]
        touched = touched_elements(model, users, shared, sizes)
        count = touched[array.name].count() if array.name in touched else 0
        if array.role is Role.SCALAR and count <= 1:
            registers.add(array.name)
        elif shared and count * np.dtype(array.dtype).itemsize <= cache // SHARE_OF_TEMPORARY:
            rows.add(array.name)
    return frozenset(registers), frozenset(rows)


def _uses(model: Model, leaf: Leaf, array: str) -> bool:
    return any(access.array == array for access in model.nest.statement(leaf.statement).accesses)
