"""A table of results as a file of comma-separated values: one frozen dataclass a line."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import TypeAdapter

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    T = TypeVar("T", bound=DataclassInstance)
else:
    T = TypeVar("T")


def read_rows(kind: type[T], file: Path) -> list[T]:
    """The lines of a file; none if there is no such file."""
    if not file.exists():
        return []
    adapter = TypeAdapter(kind)
    with file.open(newline="", encoding="utf-8") as lines:
        return [adapter.validate_python(line) for line in csv.DictReader(lines)]


def write_rows(kind: type[T], rows: Iterable[T], file: Path, order: Callable[[T], Any]) -> None:
    """One line a row, in that order."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.DictWriter(lines, [field.name for field in fields(kind)])
        writer.writeheader()
        writer.writerows(asdict(row) for row in sorted(rows, key=order))
