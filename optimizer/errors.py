"""Every error that crosses a module boundary here, under one root class."""

from __future__ import annotations

import re
from collections.abc import Mapping


class LoopwrightError(Exception):
    """Root of all errors that this project raises on purpose."""


class UserError(LoopwrightError):
    """The user's input is wrong: one clear message, exit status 2, no traceback."""


class SourceError(UserError):
    """Something in a source file cannot be accepted, with its place and a caret under it.

    `line` counts from 1, `column` from 0 (as `ast` does); `text` is the whole source line.
    `depends_on_data` says that the statement may still be taken as a whole, without knowing what it does inside.
    """

    def __init__(
        self,
        message: str,
        *,
        file: str,
        line: int,
        column: int,
        text: str,
        hint: str = "",
        depends_on_data: bool = False,
    ) -> None:
        self.depends_on_data = depends_on_data
        self.message, self.file, self.line, self.column, self.text, self.hint = message, file, line, column, text, hint
        shown = text.rstrip()
        caret = "".join(character if character == "\t" else " " for character in shown[:column]) + "^"
        lines = [f"{file}:{line}:{column + 1}: {message}", f"    {shown}", f"    {caret}"]
        super().__init__("\n".join([*lines, f"  {hint}"] if hint else lines))

    def with_hint(self, hint: str) -> SourceError:
        """The same with other advice."""
        return self._saying(self.message, hint)

    def with_names(self, names: Mapping[str, str]) -> SourceError:
        """The same in the user's own names, by those that were made for them."""

        def spoken(text: str) -> str:
            return re.sub(r"\w+", lambda word: names.get(word[0], word[0]), text)

        return self._saying(spoken(self.message), spoken(self.hint))

    def _saying(self, message: str, hint: str) -> SourceError:
        place = {"file": self.file, "text": self.text, "hint": hint}
        return SourceError(message, line=self.line, column=self.column, depends_on_data=self.depends_on_data, **place)


class CandidateError(LoopwrightError):
    """A candidate's text cannot be used. The loop records it as a rejection; it never ends a run."""


class ScheduleSyntaxError(CandidateError):
    """A schedule text that does not parse (`unparsable`)."""


class StepError(CandidateError):
    """A step that cannot apply to this tree (`invalid_step`): why, and which near variants could."""

    def __init__(self, message: str, near: tuple[str, ...] = ()) -> None:
        self.message, self.near = message, near
        super().__init__(message + (f" (possible here: {', '.join(near)})" if near else ""))


class InfrastructureError(LoopwrightError):
    """The harness failed, not the candidate: retried, reported, never a score (exit status 3)."""
