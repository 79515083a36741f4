"""Finds where the full vectors of a loop had better begin: what they store is in one line of the cache each then.

A vector of a whole line that begins elsewhere takes two lines, each time that it is loaded or stored. What a stencil
loads from the rows above and below is as far from a line's begin as what it stores, if the rows are whole lines long.
"""

from __future__ import annotations

from optimizer.codegen.affine import substitute
from optimizer.codegen.loop_ast import Boundary, For, calls
from optimizer.codegen.point_loops import NoRegisterTile, elements_of
from optimizer.codegen.unroll import most_trips
from optimizer.codegen.vector_text import VectorText
from optimizer.polyhedral.nest import Role

LOADS = 5
"""Where fewer vectors are loaded for those that are stored, another loop in the code costs more than it saves; unless
they go past the caches, which only vectors at multiples of their size do."""
VECTORS = 8
"""Where fewer of them run, one more takes longer than it saves."""


def boundary_of(loop: For, name: str, text: VectorText) -> Boundary | None:
    """The iteration from which the vectors of an ascending loop are stored to multiples of their size, called `name`;
    None where that does not pay."""
    trips = most_trips(loop)
    if loop.step != 1 or (trips is not None and trips < VECTORS * loop.vector):
        return None
    try:
        found = [element for call in calls(loop.body) for element in elements_of(call, loop.iterator, text)]
    except NoRegisterTile:
        return None
    rows = [e for e in dict.fromkeys(found) if e.is_row and text.nest.array(e.array).role is not Role.SCALAR]
    written = [element for element in rows if element.is_write]
    if loop.streams:
        written = [element for element in written if element.array in loop.streams]
    elif len(rows) - len(written) < LOADS:
        return None
    if not written:
        return None
    start = {loop.iterator: loop.start}
    subscripts = tuple(substitute(subscript, start) for subscript in written[0].subscripts)
    return Boundary(name, loop.start, written[0].array, subscripts, loop.vector)
