"""The check for leftovers finds what is left: a process, a file, shared memory, a lock, descriptors."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

import pytest

from tests.attacks.leftovers import SHARED_MEMORY, Snapshot, left_since

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks where Linux shows it")


@contextmanager
def child() -> Generator[None]:
    with subprocess.Popen(["/bin/sleep", "20"]) as process:
        try:
            yield
        finally:
            process.kill()


@contextmanager
def orphan() -> Generator[None]:
    """Nobody's child, in a session of its own, known by its temporary folder only."""
    shell = subprocess.run(
        ["/bin/sh", "-c", "setsid sleep 20 >/dev/null 2>&1 & echo $!"], capture_output=True, text=True, check=True
    )
    try:
        yield
    finally:
        os.kill(int(shell.stdout), 9)


@contextmanager
def folder() -> Generator[None]:
    with tempfile.TemporaryDirectory(prefix="loopwright-"):
        yield


@contextmanager
def shared() -> Generator[None]:
    memory = SharedMemory(create=True, size=100)
    try:
        yield
    finally:
        memory.close()
        memory.unlink()


@contextmanager
def lock() -> Generator[None]:
    with Path(os.devnull).open() as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


@contextmanager
def descriptors() -> Generator[None]:
    with ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(Path(os.devnull).open())
        yield


@pytest.mark.parametrize(
    ("leave", "told"),
    [
        (child, "process"),
        (orphan, "process"),
        (folder, "temporary loopwright-"),
        pytest.param(
            shared, "shared memory", marks=pytest.mark.skipif(not SHARED_MEMORY.is_dir(), reason="no such folder")
        ),
        (lock, "lock"),
        (descriptors, "more file descriptors"),
    ],
)
def test_what_is_left_is_found(leave: Callable[[], AbstractContextManager[None]], told: str) -> None:
    before = Snapshot.now(Path(tempfile.gettempdir()))
    with leave():
        (found,) = _first_found(before)
        assert found.startswith(told) or told in found
    assert left_since(before) == []


def _first_found(before: Snapshot) -> list[str]:
    """At once but for a process, which cannot be looked into while it becomes another program."""
    for _ in range(100):
        if found := left_since(before, seconds=0.0):
            return found
        time.sleep(0.02)
    return []
