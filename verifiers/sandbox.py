"""Run a program that may do anything once: one request, at most one answer, a deadline."""

from __future__ import annotations

import json
import math
import os
import secrets
import select
import signal
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from optimizer.measure.protocol import MessageReader, ProtocolError
from optimizer.sandbox import Sandbox, SandboxLimits, total_memory

INHERITED_VARIABLES = ("PYTHONPATH", "VIRTUAL_ENV")
"""Where a user's own check or tests may find their modules."""
SMALLEST_MEMORY = 1 << 30
LARGEST_FILE = 1 << 28
SHOWN_OUTPUT = 4000
POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended."""

    returncode: int | None
    """Negative for a signal; None when it was stopped by us: at its deadline, or after its answer."""
    answer: Mapping[str, Any] | None
    """What it sent over its private pipe with the secret of this run, or None."""
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


def run_once(
    command: Sequence[str],
    deadline: float,
    *,
    directory: Path | None = None,
    request: Mapping[str, Any] | None = None,
    variables: Mapping[str, str] | None = None,
    network: bool = False,
) -> Ended:
    """Run `command` for at most `deadline` seconds, and end everything that it started.

    It runs in `directory`, or else in a temporary folder. With a `request` its standard input holds that as JSON, with
    a `nonce` besides, and the number of a pipe is added as the last argument: the answer is one message there, four
    bytes of length and a JSON object which repeats the nonce. Raises `InfrastructureError` when the program cannot be
    started.
    """
    nonce = secrets.token_hex(16)
    limits = SandboxLimits(
        max(SMALLEST_MEMORY, total_memory() // 2),
        LARGEST_FILE,
        # Behind the deadline, in case that we die before it.
        cpu_seconds=math.ceil(deadline * (os.cpu_count() or 1)) + 1,
        network=network,
    )
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as output:
        stdin.write(json.dumps({"nonce": nonce, **(request or {})}).encode())
        stdin.seek(0)
        reading, writing = os.pipe()
        try:
            try:
                sandbox = Sandbox(
                    command if request is None else [*command, str(writing)],
                    limits,
                    output=output,
                    stdin=stdin,
                    directory=directory,
                    descriptors=() if request is None else (writing,),
                    variables={**_inherited(), **(variables or {})},
                )
            finally:
                os.close(writing)
            try:
                answer, timed_out = _wait(sandbox, reading, nonce, time.monotonic() + deadline)
                returncode = None if timed_out or answer is not None else sandbox.poll()
            finally:
                sandbox.end()
        finally:
            os.close(reading)
        return Ended(returncode, answer, _tail(output), timed_out)


def _wait(sandbox: Sandbox, pipe: int, nonce: str, end: float) -> tuple[Mapping[str, Any] | None, bool]:
    """The answer, if a true one came, and whether the deadline passed. What keeps the pipe open cannot delay it."""
    reader = MessageReader(pipe)
    while time.monotonic() < end:
        has_ended = sandbox.poll() is not None
        patience = 0.0 if has_ended else min(POLL_SECONDS, max(0.0, end - time.monotonic()))
        if select.select([pipe], [], [], patience)[0]:
            try:
                message = reader.read(end)
            except TimeoutError:
                return None, True
            except ProtocolError:
                message = None
            if message is not None and message.pop("nonce", None) == nonce:
                return message, False
            # Whatever comes now is no answer; what is left is to wait for the end.
            return None, sandbox.wait(end - time.monotonic()) is None
        if has_ended:
            return None, False
    return None, True


def _inherited() -> Mapping[str, str]:
    return {name: os.environ[name] for name in INHERITED_VARIABLES if name in os.environ}


def _tail(output: IO[bytes]) -> str:
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - SHOWN_OUTPUT))
    return output.read().decode("utf-8", "replace")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
