"""Statements as the walk through a function finds them, and where they stand."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from optimizer.polyhedral.frontend.affine import Condition
from optimizer.polyhedral.nest import Access


@dataclass(frozen=True, slots=True)
class Place:
    """What is around a statement, outermost first."""

    loops: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    """Of each loop the isl expression that ascends: `i`, or `-i` for one that runs downwards."""
    conditions: tuple[Condition, ...] = ()
    """Of the loops and of the `if`s."""

    @property
    def is_outermost(self) -> bool:
        return not self.conditions

    def inside_loop(self, name: str, bounds: Condition, *, is_descending: bool) -> Place:
        value = f"-{name}" if is_descending else name
        return Place((*self.loops, name), (*self.values, value), (*self.conditions, bounds))

    def where(self, condition: Condition) -> Place:
        return Place(self.loops, self.values, (*self.conditions, condition))


@dataclass(frozen=True, slots=True)
class Draft:
    """A statement before its scalars are sorted out: they are arrays of rank 0 under the source's names."""

    name: str
    place: Place
    node: ast.stmt
    """Over unique names."""
    source: ast.stmt
    accesses: tuple[Access, ...]
    scalar_reads: dict[str, ast.Name]
    """Scalar variables that it reads, with where."""
    opaque: str = ""
    """Why it is one step, if it is no plain assignment."""
