"""The text of schedules, read: calls such as `tile(i=32, j=32)` whose arguments are affine expressions.

schedule:   calls separated by `;` or line ends; `#` starts a comment
call:       name(argument, ...)      line ends inside parentheses do not count
argument:   expression  or  name=expression
expression: whole numbers and names with `+`, `-`, `*` by a number, `//` by a positive number, parentheses
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from optimizer.errors import ScheduleSyntaxError
from optimizer.polyhedral.steps.affine import Affine, name

LONGEST_TEXT = 20_000
"""Characters of a schedule."""
MOST_STEPS = 200
LARGEST_NUMBER = 10**9
DEEPEST_PARENTHESES = 50

_TOKEN = re.compile(
    r"(?P<number>[0-9]+)|(?P<name>[^\W\d]\w*)|(?P<sign>//|[-+*(),=;])|(?P<line>\n)|(?P<space>[ \t\r]+|#[^\n]*)"
)


@dataclass(frozen=True, slots=True)
class Call:
    """One step as written, its arguments not yet judged."""

    name: str
    positional: tuple[Affine, ...]
    keyword: tuple[tuple[str, Affine], ...]
    text: str
    """As it stands in the schedule, on one line."""


def parse_calls(text: str) -> tuple[Call, ...]:
    """All calls of a schedule text; ScheduleSyntaxError shows the place of what is wrong."""
    if len(text) > LONGEST_TEXT:
        raise ScheduleSyntaxError(f"a schedule has at most {LONGEST_TEXT} characters, this one has {len(text)}")
    return tuple(_Parser(text).calls())


def parse_affine(text: str) -> Affine:
    """The expression that the text is."""
    if len(text) > LONGEST_TEXT:
        raise ScheduleSyntaxError(f"an expression has at most {LONGEST_TEXT} characters, this one has {len(text)}")
    parser = _Parser(text)
    expression = parser.expression()
    if parser.token.text:
        parser.fail("the expression should end here")
    return expression


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    """Empty at the end of the schedule."""
    start: int


class _Parser:
    """Recursive descent with one token of lookahead."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = iter(self._tokens())
        self.token = next(self.tokens)
        self.depth = 0

    def calls(self) -> Iterator[Call]:
        number_of_calls = 0
        while self.token.text:
            if self._take(";"):
                continue
            number_of_calls += 1
            if number_of_calls > MOST_STEPS:
                self.fail(f"a schedule has at most {MOST_STEPS} steps")
            yield self._call()
            if self.token.text and not self._take(";"):
                self.fail("expected `;` or a new line between two steps")

    def expression(self) -> Affine:
        total = self._term()
        while self.token.text in ("+", "-"):
            sign = 1 if self._next().text == "+" else -1
            total = self._bounded(total + self._term().scaled(sign))
        return total

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        place = self.token.start if at is None else at
        line_start = self.text.rfind("\n", 0, place) + 1
        line = self.text[line_start:].split("\n", 1)[0]
        column = place - line_start
        # A window of the line: the caret stays in sight on a long one.
        window = max(0, column - 60)
        shown = line[window : column + 40].replace("\t", " ")
        raise ScheduleSyntaxError(
            f"line {self.text.count(chr(10), 0, place) + 1}, column {column + 1}: {message}\n"
            f"    {shown}\n    {' ' * (column - window)}^"
        )

    def _call(self) -> Call:
        start = self.token.start
        if self.token.kind != "name":
            self.fail("expected the name of a step")
        step = self._next().text
        opened = self.token.start
        if not self._take("("):
            self.fail(f"expected `(` after {step}")
        positional: list[Affine] = []
        keyword: dict[str, Affine] = {}
        while self.token.text != ")":
            self._argument(positional, keyword)
            if not self._take(",") and self.token.text != ")":
                self.fail(f"expected `,` or `)`; the parenthesis of {step} opens at column {self._column(opened)}")
        end = self.token.start + 1
        self._next()
        return Call(step, tuple(positional), tuple(keyword.items()), " ".join(self.text[start:end].split()))

    def _argument(self, positional: list[Affine], keyword: dict[str, Affine]) -> None:
        at = self.token.start
        value = self.expression()
        if not self._take("="):
            if keyword:
                self.fail("an option without a name cannot follow one with a name", at)
            positional.append(value)
            return
        option = str(value)
        if not option.isidentifier():
            self.fail("expected the name of an option before `=`", at)
        if option in keyword:
            self.fail(f"{option} is given twice", at)
        keyword[option] = self.expression()

    def _term(self) -> Affine:
        product = self._factor()
        while self.token.text in ("*", "//"):
            at = self.token.start
            is_product = self._next().text == "*"
            other = self._factor()
            if is_product and product.terms and other.terms:
                self.fail("not affine: one side of `*` must be a number", at)
            if is_product:
                product = other.scaled(product.constant) if other.terms else product.scaled(other.constant)
            elif other.terms or other.constant < 1:
                self.fail("not affine: `//` needs a positive number on its right", at)
            else:
                product = product.quotient(other.constant)
            self._bounded(product)
        return product

    def _factor(self) -> Affine:
        sign = 1
        while self.token.text == "-":
            sign = -sign
            self._next()
        if self.token.kind == "number":
            text = self.token.text
            return self._bounded(Affine(constant=sign * int(text[:20])), self._next().start)
        if self.token.kind == "name":
            return name(self._next().text).scaled(sign)
        if not self._take("("):
            self.fail("expected a name or a whole number")
        self.depth += 1
        if self.depth > DEEPEST_PARENTHESES:
            self.fail("too many parentheses inside each other")
        inside = self.expression()
        if not self._take(")"):
            self.fail("expected `)`")
        self.depth -= 1
        return inside.scaled(sign)

    def _bounded(self, expression: Affine, at: int | None = None) -> Affine:
        if expression.largest_number > LARGEST_NUMBER:
            self.fail(f"a number is larger than {LARGEST_NUMBER}", at)
        return expression

    def _column(self, place: int) -> int:
        return place - self.text.rfind("\n", 0, place)

    def _take(self, text: str) -> bool:
        if self.token.text != text:
            return False
        self._next()
        return True

    def _next(self) -> _Token:
        taken = self.token
        self.token = next(self.tokens, taken)
        return taken

    def _tokens(self) -> Iterator[_Token]:
        place, depth = 0, 0
        while place < len(self.text):
            match = _TOKEN.match(self.text, place)
            if match is None:
                self.fail(f"unexpected {self.text[place]!r}", place)
            kind, text = str(match.lastgroup), match.group()
            depth += {"(": 1, ")": -1}.get(text, 0)
            if kind == "line" and depth <= 0:
                yield _Token("sign", ";", place)
            elif kind not in ("line", "space"):
                yield _Token(kind, text, place)
            place = match.end()
        yield _Token("end", "", place)
