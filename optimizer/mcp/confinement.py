"""The one folder that a server works in: every path that a client names is inside it, or refused.

Links are followed before a path is compared with the root, so a link inside cannot lead outside.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from kernels import catalog
from optimizer.errors import UserError
from optimizer.names import nearest
from optimizer.run import SPECIFICATION_NAME

OWN_FOLDER = ".loopwright"
"""What the server keeps in its root; exports may not go there."""
RUN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True)
class Root:
    """A folder, resolved. Make one with `Root.at`."""

    path: Path

    @classmethod
    def at(cls, folder: Path) -> Root:
        """Raises `UserError` when there is no such folder."""
        resolved = folder.resolve()
        if not resolved.is_dir():
            raise UserError(f"the root {folder} is not a folder: give one that exists with --root DIR")
        return cls(resolved)

    @property
    def runs(self) -> Path:
        return self.path / OWN_FOLDER / "runs"

    def kernel(self, text: str) -> str:
        """A kernel as a client names it: a bundled kernel's name as it is, `file.py:function` relative to the root.

        Raises `UserError` for a file outside the root; whether there is such a kernel is found out by who loads it.
        """
        if text in catalog.names() or ".py" not in text:
            return text
        file, colon, function = text.rpartition(":")
        if not colon:
            file, function = text, ""
        return f"{self.inside(file).relative_to(self.path)}{colon}{function}"

    def export_target(self, text: str, overwrite: bool) -> Path:
        """A file that may be written. Raises `UserError`."""
        target = self.inside(text)
        if target.is_relative_to(self.path / OWN_FOLDER):
            raise UserError(f"{text} is in {OWN_FOLDER}, where the server keeps its runs: choose another path")
        if target.suffix != ".py":
            raise UserError(f"{text} is no Python file: choose a path that ends in .py")
        if not target.parent.is_dir():
            raise UserError(f"there is no folder {target.parent.relative_to(self.path)}: make it, or choose another")
        if target.exists() and not (overwrite and target.is_file()):
            raise UserError(f"{text} exists: choose another path, or set overwrite to true")
        return target

    def run_directory(self, name: str) -> Path:
        """The folder of a run that this root holds. Raises `UserError`."""
        if not RUN_NAME.fullmatch(name):
            raise UserError(f"{name!r} is no name of a run: give the name that `run` answered, not a path")
        directory = self.inside(str(self.runs / name))
        if not self.inside(str(directory / SPECIFICATION_NAME)).is_file():
            known = self.run_names()
            listed = f"; the latest are {', '.join(known[-5:])}" if known else "; none was made here so far"
            raise UserError(f"there is no run {name!r} here{nearest(name, known) or listed}")
        return directory

    def run_names(self) -> list[str]:
        """The oldest first."""
        return sorted(file.parent.name for file in self.runs.glob(f"*/{SPECIFICATION_NAME}"))

    def new_run_directory(self, problem: str) -> Path:
        """Where a new run may live; it does not exist yet. Raises `UserError` when that would be outside the root."""
        stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
        name = re.sub(r"[^A-Za-z0-9_]+", "-", problem).strip("-") or "run"
        return self.inside(str(self.runs / f"{stamp}-{name}-{uuid.uuid4().hex[:4]}"))

    def inside(self, text: str) -> Path:
        """The path that `text` leads to, from the root, all links followed. Raises `UserError` when that is outside."""
        try:
            path = (self.path / text).resolve()
        except (OSError, ValueError, RuntimeError) as error:
            raise UserError(f"{text!r} cannot be a path: {error}") from None
        if not path.is_relative_to(self.path):
            raise UserError(f"{text} is outside {self.path}, the folder that this server was started for")
        return path
