"""Affine expressions over the names of loops and sizes, as `split` and `shift` take them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Quotient:
    """The numerator divided by a positive whole number, rounded down."""

    numerator: Affine
    divisor: int

    def __str__(self) -> str:
        text = str(self.numerator)
        return f"{text if text.isidentifier() else f'({text})'}//{self.divisor}"


@dataclass(frozen=True, slots=True)
class Affine:
    """A sum of whole multiples of names and quotients, and a constant. Equal sums have equal terms and one text."""

    terms: tuple[tuple[str | Quotient, int], ...] = ()
    """(what, coefficient): positive coefficients first, then by name."""
    constant: int = 0

    def __add__(self, other: Affine) -> Affine:
        coefficients = dict(self.terms)
        for atom, coefficient in other.terms:
            coefficients[atom] = coefficients.get(atom, 0) + coefficient
        terms = [term for term in coefficients.items() if term[1]]
        terms.sort(key=lambda term: (term[1] < 0, str(term[0])))
        return Affine(tuple(terms), self.constant + other.constant)

    def scaled(self, factor: int) -> Affine:
        terms = tuple((atom, coefficient * factor) for atom, coefficient in self.terms)
        # Adding nothing sorts the terms again and drops zeros.
        return Affine(terms, self.constant * factor) + Affine()

    def quotient(self, divisor: int) -> Affine:
        if divisor == 1:
            return self
        if not self.terms:
            return Affine(constant=self.constant // divisor)
        return Affine(((Quotient(self, divisor), 1),))

    @property
    def largest_number(self) -> int:
        return max(abs(self.constant), *(abs(coefficient) for _, coefficient in self.terms), 0)

    def names(self) -> Iterator[str]:
        """Every name in it, in order, possibly more than once."""
        for atom, _ in self.terms:
            if isinstance(atom, str):
                yield atom
            else:
                yield from atom.numerator.names()

    def in_isl(self, values: Mapping[str, str]) -> str:
        """isl text, each name that has a value replaced by that."""

        def text(atom: str | Quotient, coefficient: int) -> str:
            if isinstance(atom, Quotient):
                return f"floor({factor_text(atom.numerator.in_isl(values))}/{atom.divisor})"
            return factor_text(values.get(atom, atom))

        return self._text(text)

    def __str__(self) -> str:
        def text(atom: str | Quotient, coefficient: int) -> str:
            return str(atom) if isinstance(atom, str) or coefficient == 1 else f"({atom})"

        return self._text(text)

    def _text(self, atom_text: Callable[[str | Quotient, int], str]) -> str:
        written = ""
        for atom, coefficient in self.terms:
            size = "" if abs(coefficient) == 1 else f"{abs(coefficient)}*"
            written += f"{_sign(coefficient, written)}{size}{atom_text(atom, coefficient)}"
        if self.constant or not written:
            written += f"{_sign(self.constant, written)}{abs(self.constant)}"
        return written


def name(text: str) -> Affine:
    return Affine(((text, 1),))


def factor_text(isl_text: str) -> str:
    """An isl expression as it can stand in a product or after a minus."""
    return isl_text if re.fullmatch(r"\w+|floor\([^()]*\)", isl_text) else f"({isl_text})"


def sum_text(first: str, coefficient: int, second: str) -> str:
    """The isl expression `first + coefficient*second`."""
    written = "" if first == "0" else first
    if not written and coefficient == 1:
        return second
    size = "" if abs(coefficient) == 1 else f"{abs(coefficient)}*"
    return f"{written}{_sign(coefficient, written)}{size}{factor_text(second)}"


def _sign(number: int, before: str) -> str:
    if before:
        return " - " if number < 0 else " + "
    return "-" if number < 0 else ""
