"""Where a result is to be written: found out before the work, not after it."""

from __future__ import annotations

from pathlib import Path

from optimizer.errors import UserError


def check_writable(path: Path) -> None:
    """Raise `UserError` unless the file can be written; an existing file is left as it is."""
    existed = path.exists()
    try:
        with path.open("a", encoding="utf-8"):
            pass
    except OSError as error:
        raise UserError(f"cannot write --out {path}: {error.strerror}") from error
    if not existed:
        path.unlink()


def write_result(path: Path, text: str) -> None:
    """Write the file. Raises `UserError` when the place has become unwritable since it was checked."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot write --out {path}: {error.strerror}; the run itself is saved") from error
