"""The lock on a run's folder: one process at a time works in it, and the kernel lets go however that process ends."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from optimizer.errors import UserError

LOCK_NAME = "lock"


class RunInUse(UserError):
    """Another process works in the run's folder."""


@contextmanager
def locked(directory: Path) -> Generator[None]:
    """Hold the lock of a folder. Raises `RunInUse`, and `UserError` where nothing can be locked."""
    descriptor = acquire(directory)
    try:
        yield
    finally:
        os.close(descriptor)


def acquire(directory: Path) -> int:
    """A file descriptor that holds the lock until it is closed. Raises as `locked` does."""
    path = directory / LOCK_NAME
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        owner = os.pread(descriptor, 20, 0).decode(errors="replace").strip() or "unknown"
        os.close(descriptor)
        raise RunInUse(f"the run in {directory} is in use by process {owner}") from error
    except OSError as error:
        os.close(descriptor)
        raise UserError(f"cannot lock {path}: {error.strerror}; keep runs on a disk that can be locked") from error
    # Only for the message above: a full disk must not keep anybody from reading the result of a run that is over.
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor
