"""Whole numbers of the source, as positions and sizes: what they are worth, and how the source says it."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from optimizer.polyhedral.frontend.affine import Affine, expression_of, number, variable


class ShapeError(Exception):
    """Extents that do not go together, or cannot be those of an array; the message is for people."""


class UnequalSizes(ShapeError):
    """Two extents of a statement must be the same, and are not known to be."""

    def __init__(self, first: Affine, second: Affine) -> None:
        super().__init__(f"sizes {first} and {second} are not known to be the same")
        self.first, self.second = first, second

    def names(self) -> tuple[str, str] | None:
        """The two sizes that are equal just where the extents are; None where it is no matter of two names."""
        match dict((self.first - self.second).terms), (self.first - self.second).constant:
            case terms, 0 if len(terms) == 2 and sum(terms.values()) == 0:
                first, second = terms
                return (first, second) if first.isidentifier() and second.isidentifier() else None
            case _:
                return None


@dataclass(frozen=True, slots=True)
class Quantity:
    """An affine whole number; `node` is Python for it, also where its value has no such text (it divides)."""

    value: Affine
    node: ast.expr

    def __add__(self, other: Quantity) -> Quantity:
        return _joined(self.value + other.value, ast.BinOp(self.node, ast.Add(), other.node))

    def __sub__(self, other: Quantity) -> Quantity:
        return _joined(self.value - other.value, ast.BinOp(self.node, ast.Sub(), other.node))

    def times(self, factor: int) -> Quantity:
        return _joined(self.value.scaled(factor), ast.BinOp(self.node, ast.Mult(), ast.Constant(factor)))

    @property
    def constant(self) -> int | None:
        """Its value, if it always has the same."""
        return self.value.constant if self.value.is_constant else None

    def equals(self, other: Quantity) -> bool:
        """Whether both are the same at all sizes."""
        return (self.value - other.value).is_constant and (self.value - other.value).constant == 0


def whole(value: int) -> Quantity:
    return Quantity(number(value), ast.Constant(value))


def counter(name: str) -> Quantity:
    """A loop variable."""
    return Quantity(variable(name), ast.Name(name, ast.Load()))


def of_affine(value: Affine) -> Quantity:
    """Raises `ShapeError` for one that has no Python text."""
    if not value.is_linear:
        raise ShapeError(f"the size {value} of an array that is made here is no sum of sizes and whole numbers")
    return Quantity(value, expression_of(value))


def _joined(value: Affine, node: ast.expr) -> Quantity:
    return Quantity(value, expression_of(value) if value.is_linear else node)
