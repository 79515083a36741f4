"""What tests leave behind: processes, temporary files, locks, shared memory, file descriptors."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

SECONDS = 5.0
"""What was killed may take a moment to be gone."""
MOST_NEW_DESCRIPTORS = 8
"""Libraries open some for themselves when they are first used."""
SHARED_MEMORY = Path("/dev/shm")


@dataclass(frozen=True)
class Snapshot:
    """What there was before."""

    temporary: Path
    """The folder in which everything temporary is made."""
    processes: frozenset[int]
    files: frozenset[str]
    shared: frozenset[str]
    descriptors: int

    @classmethod
    def now(cls, temporary: Path) -> Snapshot:
        processes = frozenset(process.pid for process in _processes(temporary))
        return cls(temporary, processes, _names(temporary), _names(SHARED_MEMORY), _descriptors())


def left_since(before: Snapshot, seconds: float = SECONDS) -> list[str]:
    """What is there now and was not before, one sentence each; looked for again until nothing is, or time is over."""
    end = time.monotonic() + seconds
    while (found := list(_left_since(before))) and time.monotonic() < end:
        time.sleep(0.1)
    return found


def _left_since(before: Snapshot) -> Iterator[str]:
    gc.collect()
    for process in _processes(before.temporary):
        if process.pid not in before.processes:
            with suppress(psutil.Error):
                yield f"process {process.pid}: {' '.join(process.cmdline())[:200]}"
    yield from (f"temporary {name}" for name in sorted(_names(before.temporary) - before.files))
    yield from (f"shared memory {name}" for name in sorted(_names(SHARED_MEMORY) - before.shared))
    yield from (f"lock {line}" for line in _locks())
    if _descriptors() > before.descriptors + MOST_NEW_DESCRIPTORS:
        yield f"{_descriptors() - before.descriptors} more file descriptors"


def _processes(temporary: Path) -> Iterator[psutil.Process]:
    """Those that this process started, and those whose temporary folder is this one, whoever their parent is."""
    mine = psutil.Process().children(recursive=True)
    yield from (process for process in mine if "resource_tracker" not in " ".join(_command(process)))
    known = {process.pid for process in mine} | {os.getpid()}
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.pid not in known and process.environ().get("TMPDIR", "").startswith(str(temporary)):
                yield process


def _command(process: psutil.Process) -> list[str]:
    with suppress(psutil.Error):
        return process.cmdline()
    return []


def _names(folder: Path) -> frozenset[str]:
    return frozenset(path.name for path in folder.iterdir()) if folder.is_dir() else frozenset()


def _locks() -> list[str]:
    """Of this process, as the system lists them."""
    table = Path("/proc/locks")
    lines = table.read_text().splitlines() if table.exists() else []
    return [line for line in lines if line.split()[4:5] == [str(os.getpid())]]


def _descriptors() -> int:
    return psutil.Process().num_fds()
