"""Run a program that may do anything: in its own process group, with a deadline, and without our secrets."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from optimizer.errors import InfrastructureError

KEPT_VARIABLES = ("PATH", "PYTHONPATH", "VIRTUAL_ENV", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ")
"""All that a child inherits of the environment: no keys, no tokens."""
LARGEST_FILE = 1 << 28
LARGEST_ANSWER = 1 << 20
SHOWN_OUTPUT = 4000
POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended."""

    returncode: int | None
    """Negative for a signal; None when it was stopped by us: at its deadline, or after its answer."""
    answer: bytes | None
    """The line that it wrote to its private pipe, or None."""
    output: str
    """The end of what it printed."""
    timed_out: bool

    def describe(self) -> str:
        """In words, with the last line that it printed."""
        lines = self.output.strip().splitlines()
        last = f": {lines[-1].strip()[:300]}" if lines else ""
        if self.returncode is None:
            return f"was stopped{last}"
        if self.returncode < 0:
            return f"was ended by {_signal_name(-self.returncode)}{last}"
        return f"ended with status {self.returncode}{last}"


def run_child(
    command: Sequence[str],
    deadline: float,
    directory: Path,
    *,
    request: bytes = b"",
    answers: bool = False,
    variables: Sequence[tuple[str, str]] = (),
) -> Ended:
    """Run `command` in `directory` for at most `deadline` seconds, and end all of its process group.

    `request` is its standard input. With `answers` the number of a pipe's end is added as the last argument, and one
    line written there is the answer. Raises `InfrastructureError` when the program cannot be started.
    """
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as output:
        stdin.write(request)
        stdin.seek(0)
        reading, writing = os.pipe()
        try:
            process = _start(command, directory, stdin, output, writing if answers else None, variables)
            os.close(writing)
            writing = -1
            try:
                answer, timed_out = _wait(process, reading if answers else None, time.monotonic() + deadline)
                returncode = None if timed_out or answer is not None else process.poll()
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        finally:
            os.close(reading)
            if writing >= 0:
                os.close(writing)
        return Ended(returncode, answer, _tail(output), timed_out)


def _start(
    command: Sequence[str],
    directory: Path,
    stdin: IO[bytes],
    output: IO[bytes],
    answer_end: int | None,
    variables: Sequence[tuple[str, str]],
) -> subprocess.Popen[bytes]:
    memory = max(1 << 30, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2)
    confine = [sys.executable, "-I", "-S", str(Path(__file__).with_name("confine.py"))]
    limits = [str(os.getpid()), str(memory), str(LARGEST_FILE)]
    last = [] if answer_end is None else [str(answer_end)]
    environment = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    environment |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0", **dict(variables)}
    try:
        return subprocess.Popen(
            [*confine, *limits, *command, *last],
            cwd=directory,
            env=environment,
            stdin=stdin,
            stdout=output,
            stderr=output,
            pass_fds=[] if answer_end is None else [answer_end],
            start_new_session=True,
        )
    except OSError as error:
        raise InfrastructureError(f"cannot start {command[0]}: {error.strerror}") from error


def _wait(process: subprocess.Popen[bytes], pipe: int | None, end: float) -> tuple[bytes | None, bool]:
    """The answer, if one came, and whether the deadline passed. A grandchild that keeps the pipe cannot delay it."""
    if pipe is None:
        try:
            process.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            return None, True
        return None, False
    received = b""
    while time.monotonic() < end:
        has_ended = process.poll() is not None
        patience = 0.0 if has_ended else min(POLL_SECONDS, max(0.0, end - time.monotonic()))
        ready, _, _ = select.select([pipe], [], [], patience)
        if ready:
            part = os.read(pipe, 65536)
            received += part
            if received.endswith(b"\n"):
                return received, False
            if len(received) > LARGEST_ANSWER:
                return None, False
            if part:
                continue
            # The pipe is closed without an answer; what is left is to wait for the end.
            return _wait(process, None, end)
        if has_ended:
            return None, False
    return None, True


def _tail(output: IO[bytes]) -> str:
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - SHOWN_OUTPUT))
    return output.read().decode("utf-8", "replace")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
