"""A Python file that may change and tests that may not."""

from __future__ import annotations

import hashlib
import os
import random
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from optimizer.candidate import Candidate
from optimizer.errors import UserError
from optimizer.mutations import Language, mutations, parsed
from optimizer.text_problem import parse_text, read_text

CONFIGURATION = ("conftest.py", "pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")
"""Files beside the tests that decide what pytest does."""
LARGEST_READ = 1 << 30


@dataclass(frozen=True, slots=True)
class SuiteProblem:
    """Change `file` until the tests in `tests` pass; both are paths within the folder `root`."""

    kind: ClassVar[str] = "suite"
    baseline_is_unit: ClassVar[bool] = False

    root: Path
    file: Path
    tests: Path
    text: str
    locked: Mapping[str, str]
    """Path within `root` -> digest, of every file of the tests and of pytest's configuration."""

    @classmethod
    def from_files(cls, file: str | Path, tests: str | Path, root: str | Path | None = None) -> Self:
        """The problem for a Python file and a test file or folder; `root` is their nearest common folder by default.

        Raises `UserError` when something is missing, is not in `root`, or the file to change is itself a test.
        """
        file, tests = Path(file).resolve(), Path(tests).resolve()
        for path in (file, tests):
            if not path.exists():
                raise UserError(f"there is no {path}")
        common = Path(os.path.commonpath([file.parent, tests if tests.is_dir() else tests.parent]))
        top = Path(root).resolve() if root else common
        if not common.is_relative_to(top):
            raise UserError(f"{file} and {tests} must both be in {top}")
        if top == Path(top.anchor):
            raise UserError(f"{file} and {tests} have no folder in common: put them into one")
        if file == tests or file.is_relative_to(tests):
            raise UserError(f"{file} is one of the tests, which must not change: keep it outside of {tests}")
        text = read_text(file)
        if not parsed(text):
            raise UserError(f"{file} is no Python file that can be parsed")
        inside = tests.relative_to(top)
        return cls(top, file.relative_to(top), inside, text, locked_files(top, inside))

    @classmethod
    def from_specification(cls, specification: Mapping[str, Any]) -> Self:
        return cls(
            Path(specification["root"]),
            Path(specification["file"]),
            Path(specification["tests"]),
            specification["text"],
            dict(specification["locked"]),
        )

    def specification(self) -> Mapping[str, Any]:
        return {
            "kind": self.kind,
            "root": str(self.root),
            "file": str(self.file),
            "tests": str(self.tests),
            "text": self.text,
            "locked": dict(self.locked),
        }

    @property
    def name(self) -> str:
        return self.file.name

    @property
    def baseline(self) -> Candidate:
        return self.parse(self.text)

    def parse(self, text: str) -> Candidate:
        return parse_text(text)

    def neighbours(self, candidate: Candidate, rng: random.Random) -> Iterator[Candidate]:
        for text in mutations(candidate.text, rng, Language.PYTHON):
            yield Candidate(text)

    def is_admissible(self, candidate: Candidate) -> bool:
        return parsed(candidate.text) is not None


def locked_files(root: Path, tests: Path) -> dict[str, str]:
    """Path within `root` -> digest, of every file of the tests and of pytest's configuration in `root`."""
    place = root / tests
    files = list(files_below(place)) if place.is_dir() else [place]
    files += [root / folder / name for folder in {Path(), *tests.parents} for name in CONFIGURATION]
    return {
        path.relative_to(root).as_posix(): file_digest(path)
        for path in sorted(set(files))
        if path.is_file() and "__pycache__" not in path.parts
    }


def files_below(root: Path) -> Iterator[Path]:
    """All files in a folder, links to files as well, however deep and strange it is; links to folders are not followed.

    Folders that the system refuses to list are left out.
    """
    folders = [root]
    while folders:
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(Path(entry.path))
                elif entry.is_symlink() or entry.is_file():
                    yield Path(entry.path)


def file_digest(path: Path) -> str:
    """The SHA-256 of a file, or what there is in its place. Never waits, and reads no more than the file's size."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:  # noqa: PTH123
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST_READ:
                return f"no file that can be read: mode {found.st_mode}, {found.st_size} bytes"
            return hashlib.sha256(file.read(found.st_size)).hexdigest()
    except OSError as error:
        return f"no file that can be read: {error.strerror}"
