"""The file that remembers: one entry a line, for all runs of this user.

Readers need no lock, because a change replaces the file as a whole; writers take turns. A damaged line never costs
more than itself: it is reported, and at the next change put aside in a file of its own.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from optimizer.errors import UserError
from optimizer.memory.entry import Entry, entry_from_json, entry_to_json
from optimizer.run import runs_directory


@dataclass(frozen=True, slots=True)
class DamagedLine:
    number: int
    """From 1."""
    text: str
    problem: str


@dataclass(frozen=True, slots=True)
class Contents:
    entries: tuple[Entry, ...] = ()
    """The oldest first."""
    damaged: tuple[DamagedLine, ...] = ()


def memory_file() -> Path:
    """Beside the runs: in LOOPWRIGHT_HOME if that is set, else in the platform's folder for user data."""
    return runs_directory().parent / "memory.jsonl"


@dataclass(frozen=True, slots=True)
class Memory:
    """What one file remembers."""

    path: Path = field(default_factory=memory_file)

    @property
    def aside(self) -> Path:
        """Where damaged lines go."""
        return self.path.with_name(f"{self.path.stem}.damaged{self.path.suffix}")

    def read(self) -> Contents:
        """All entries; none without a file. Raises `UserError` when the file cannot be read."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return Contents()
        except OSError as error:
            raise UserError(f"cannot read {self.path}: {error.strerror}") from error
        entries: dict[str, Entry] = {}
        damaged: list[DamagedLine] = []
        for number, line in enumerate(content.decode("utf-8", errors="surrogateescape").split("\n"), start=1):
            if not line.strip():
                continue
            try:
                entry = entry_from_json(json.loads(line))
            except (ValueError, RecursionError) as error:
                damaged.append(DamagedLine(number, line, str(error)))
            else:
                entries[entry.id] = entry
        return Contents(tuple(entries.values()), tuple(damaged))

    def change(self, change: Callable[[tuple[Entry, ...]], Iterable[Entry]]) -> Contents:
        """Replace the entries by what `change` makes of them, and tell what was there before.

        Raises `UserError` when the file cannot be written; then nothing has changed.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with _locked(self.path.with_suffix(".lock")):
                before = self.read()
                after = "".join(f"{json.dumps(entry_to_json(entry))}\n" for entry in change(before.entries))
                if before.damaged:
                    _append(self.aside, "".join(f"{line.text}\n" for line in before.damaged))
                _write(self.path, after)
        except OSError as error:
            raise UserError(f"cannot write {self.path}: {error.strerror}") from error
        return before

    def add(self, *entries: Entry) -> None:
        """Remember these. What the user said of an entry that is there already (note, disabled) stays."""

        def added(known: tuple[Entry, ...]) -> Iterable[Entry]:
            merged = {entry.id: entry for entry in known}
            for entry in entries:
                old = merged.pop(entry.id, None)
                merged[entry.id] = replace(entry, note=old.note, disabled=old.disabled) if old else entry
            return merged.values()

        self.change(added)


@contextmanager
def _locked(path: Path) -> Generator[None]:
    """Wait for the others; the system lets go of the lock however the process ends."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _write(path: Path, text: str) -> None:
    """All of it or nothing."""
    draft = path.with_suffix(".draft")
    with draft.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
