"""One timing lane per machine: whoever times holds a lock, so that two runs never time at once."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path

import platformdirs

from optimizer.errors import InfrastructureError


class TimingLane:
    """A lock in a file, which the system releases when its holder dies."""

    def __init__(self, path: Path | None = None, on_wait: Callable[[str], None] | None = None) -> None:
        """`on_wait` is told, once for each wait, who holds the lane."""
        self._path = path or _default_path()
        self._on_wait = on_wait

    @contextlib.contextmanager
    def held(self) -> Generator[None]:
        """Wait for the lane and keep it."""
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise InfrastructureError(f"the timing lock {self._path} cannot be opened: {error}") from error
        try:
            self._take(descriptor)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
            yield
        finally:
            os.close(descriptor)

    def _take(self, descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if self._on_wait:
                holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
                self._on_wait(f"waiting for process {holder}, which is timing")
            fcntl.flock(descriptor, fcntl.LOCK_EX)


def _default_path() -> Path:
    directory = platformdirs.user_cache_path("loopwright")
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError:
        directory = Path(tempfile.gettempdir())
    if not os.access(directory, os.W_OK):
        directory = Path(tempfile.gettempdir())
    return directory / "timing.lock"
