"""What the linter says: a rule, a place in the source, and what is wrong there."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from optimizer.polyhedral.frontend.source import Source
from optimizer.polyhedral.witness import Witness


class Rule(StrEnum):
    RACE = "race"
    NOT_A_REDUCTION = "not-a-reduction"
    NESTED_PRANGE = "nested-prange"
    SERIAL_PRANGE = "serial-prange"
    SMALL_PRANGE = "small-prange"
    OUT_OF_BOUNDS = "out-of-bounds"
    NEGATIVE_SUBSCRIPT = "negative-subscript"
    UNWRITTEN_READ = "unwritten-read"
    DEAD_STORE = "dead-store"
    UNUSED_ARRAY = "unused-array"
    NEVER_RUNS = "never-runs"
    COLUMN_WALK = "column-walk"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or slower than it need be."""

    rule: Rule
    function: str
    node: ast.AST
    """Where it stands in the source."""
    message: str
    hint: str = ""
    witness: Witness | None = None
    """Of what depends on two iterations: which. Statements and loops are called as `loopwright explain` calls them."""

    @property
    def place(self) -> tuple[int, int]:
        """Line, from 1, and column in bytes, from 0."""
        return getattr(self.node, "lineno", 1), getattr(self.node, "col_offset", 0)

    def text(self, source: Source) -> str:
        """`file:line:column: rule: message`, the line, a caret under it, and what to do."""
        return str(source.error(self.node, f"{self.rule}: {self.message}", self.hint))

    def to_json(self, source: Source) -> dict[str, Any]:
        place = source.error(self.node, self.message)
        return {
            "file": source.file,
            "line": place.line,
            "column": place.column + 1,
            "rule": self.rule.value,
            "function": self.function,
            "message": self.message,
            "hint": self.hint,
            "witness": None if self.witness is None else self.witness.to_json(),
        }
