"""Any text that has a check: the simplest kind of problem."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from optimizer.candidate import Candidate
from optimizer.errors import CandidateError, UserError
from optimizer.mutations import Language, language_of, mutations


@dataclass(frozen=True, slots=True)
class TextProblem:
    """A text to improve, starting from `text`. Its neighbours are its mutations."""

    kind: ClassVar[str] = "text"
    baseline_is_unit: ClassVar[bool] = False

    name: str
    text: str
    language: Language = Language.PLAIN

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        """The problem to improve the text in a file. Raises `UserError` when it cannot be read as UTF-8."""
        path = Path(path)
        return cls(path.name, read_text(path), language_of(path.name))

    @classmethod
    def from_specification(cls, specification: Mapping[str, Any]) -> Self:
        return cls(specification["name"], specification["text"], Language(specification["language"]))

    def specification(self) -> Mapping[str, Any]:
        return {"kind": self.kind, "name": self.name, "text": self.text, "language": self.language.value}

    @property
    def baseline(self) -> Candidate:
        return self.parse(self.text)

    def parse(self, text: str) -> Candidate:
        return parse_text(text)

    def neighbours(self, candidate: Candidate, rng: random.Random) -> Iterator[Candidate]:
        for text in mutations(candidate.text, rng, self.language):
            yield Candidate(text)

    def is_admissible(self, candidate: Candidate) -> bool:
        return True


def parse_text(text: str) -> Candidate:
    """Any text that can be written as UTF-8 and has no null character, with the line ends of Unix."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise CandidateError(f"this text cannot be written as UTF-8: {error.reason} at {error.start}") from error
    if "\0" in text:
        raise CandidateError("this text has a null character")
    return Candidate(text.replace("\r\n", "\n").replace("\r", "\n"))


def read_text(path: Path) -> str:
    """A file's text with the line ends of Unix. Raises `UserError` when it cannot be read as UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is no UTF-8 text: {error.reason} at byte {error.start}") from error
