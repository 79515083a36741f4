"""The file through which arguments and results go to a worker process and back, as bytes.

It has no name. The process maps it; this side only reads and writes it, because a mapped file that the other side
makes smaller kills whoever looks at it.
"""

from __future__ import annotations

import os
import tempfile
from typing import IO, Any

from optimizer.measure.guards import Bytes


class SharedFileError(Exception):
    """The other side made the file smaller."""


def shared_file() -> IO[bytes]:
    """A new, empty one; in memory where the system has such files."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("loopwright"), "r+b", buffering=0)
    return tempfile.TemporaryFile(buffering=0)


def resize(file: IO[bytes], size: int) -> None:
    os.ftruncate(file.fileno(), size)


def write_at(file: IO[bytes], start: int, content: Bytes) -> None:
    rest = _view(content)
    while rest:
        written = os.pwrite(file.fileno(), rest, start)
        rest, start = rest[written:], start + written


def read_at(file: IO[bytes], start: int, content: Bytes) -> None:
    """Fill `content`; raises `SharedFileError`."""
    rest = _view(content)
    while rest:
        count = os.preadv(file.fileno(), [rest], start)
        if not count:
            raise SharedFileError
        rest, start = rest[count:], start + count


def _view(content: Bytes) -> memoryview:
    view: Any = content
    return memoryview(view)
