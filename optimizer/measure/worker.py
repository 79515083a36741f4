"""The parent's side of a worker process: start it, ask it, kill it in time, say what killed it."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import sys
import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import optimizer
from optimizer.errors import InfrastructureError, LoopwrightError
from optimizer.measure.commands import Command, to_message
from optimizer.measure.failure import WorkerFailure
from optimizer.measure.load import keep_to
from optimizer.measure.protocol import MessageReader, ProtocolError, write_message
from optimizer.measure.shared_file import shared_file
from optimizer.sandbox import Sandbox, SandboxLimits, total_memory
from optimizer.verdict import Reason

START_SECONDS = 120.0
"""What importing Numba may take on a cold disk."""
ADDRESS_SPACE_PER_THREAD = 160 << 20
"""A thread's stack and its part of the heap reserve so much."""
LOG_TAIL_BYTES = 4000


@dataclass(frozen=True, slots=True)
class Step:
    """What a request does, for the case that it fails."""

    what: str
    seconds: float
    """It may take so long."""
    contestant: int | None = None
    """Which candidate runs, from 0; None when none does."""
    overrun: Reason = Reason.TIMED_OUT
    """What is wrong with the candidate when it takes longer."""


class Worker:
    """A process that builds and calls functions, because they may hang, crash or eat all memory.

    It starts with the first request, and again after it had to be killed; a new process has forgotten everything.
    """

    def __init__(self, directory: Path, threads: int, name: str = "worker") -> None:
        """`directory` takes the log, `name`.log; `threads` is the most that any request may use."""
        self._directory = directory
        self._threads = threads
        self._log = directory / f"{name}.log"
        self._process: Sandbox | None = None
        self._shared: IO[bytes] | None = None
        self._to_worker = -1
        self._from_worker = -1
        self._reader = MessageReader(-1)
        self._own_id: int | None = None
        self.is_pinned = False
        """Whether requests are kept to as many processors as they may use threads, which are always the same ones.

        That steadies times. All else is better off wherever the system finds a free processor.
        """
        self._was_pinned = False
        self._end: weakref.finalize[..., Worker] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def process_id(self) -> int | None:
        """Of the process that runs now, if one does: of the guard of its sandbox."""
        return self._process.process_id if self._process else None

    @property
    def own_process_id(self) -> int | None:
        """Of the process that does the work, once it has answered."""
        return self._own_id if self._process else None

    @property
    def shared(self) -> IO[bytes]:
        """The file that this process shares with the one that runs now."""
        self.start()
        assert self._shared is not None
        return self._shared

    def start(self) -> None:
        """Start the process if none runs, without waiting until it is ready."""
        if self._process is None:
            self._start()

    def request(self, command: Command, step: Step) -> Mapping[str, Any]:
        """Send `command` and wait for the answer.

        Raises `WorkerFailure` when a candidate failed or the process died or overran while one was running, and
        `InfrastructureError` when that happened while none was.
        """
        self.start()
        try:
            self._await_start()
            self._place()
            return self._exchange({"nonce": secrets.token_hex(16), **to_message(command)}, step)
        except LoopwrightError:
            raise
        except BaseException:
            # An interrupt in the middle of an exchange: the next answer would belong to the old question.
            self.close()
            raise

    def clear_log(self) -> None:
        """Forget what earlier candidates printed, so that the log's end tells what killed the process."""
        with contextlib.suppress(OSError):
            os.truncate(self._log, 0)

    def close(self) -> None:
        """Kill the process with everything that it started; also done when this object is forgotten."""
        self._process = None
        self._shared = None
        self._own_id = None
        if self._end:
            self._end()

    def _start(self) -> None:
        command_read, self._to_worker = os.pipe()
        self._from_worker, answer_write = os.pipe()
        shared = shared_file()
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            with self._log.open("ab") as log:
                self._process = Sandbox(
                    # -P: what a candidate leaves in the folder must not be importable by chance.
                    [
                        *(sys.executable, "-u", "-P", "-X", "faulthandler", "-m", "optimizer.measure.worker_main"),
                        *(str(command_read), str(answer_write), str(shared.fileno()), str(self._threads)),
                    ],
                    SandboxLimits(total_memory() + self._threads * ADDRESS_SPACE_PER_THREAD),
                    output=log,
                    scratch_parent=self._directory,
                    descriptors=(command_read, answer_write, shared.fileno()),
                    variables=self._variables(),
                )
        except (OSError, InfrastructureError) as error:
            shared.close()
            os.close(self._to_worker)
            os.close(self._from_worker)
            raise InfrastructureError(f"the worker process cannot be started: {error}") from error
        finally:
            os.close(command_read)
            os.close(answer_write)
        self._shared = shared
        self._was_pinned = False
        self._end = weakref.finalize(self, _end, self._process, shared, (self._to_worker, self._from_worker))
        self._reader = MessageReader(self._from_worker)

    def _await_start(self) -> None:
        if self._own_id is not None:
            return
        try:
            ready = self._reader.read(time.monotonic() + START_SECONDS)
        except (TimeoutError, ProtocolError):
            ready = None
        if ready is None:
            log = self._log_tail()
            self.close()
            raise InfrastructureError(f"the worker process did not start: {log or 'no output'}")
        self._own_id = int(ready["ready"])

    def _place(self) -> None:
        assert self._own_id is not None
        if self.is_pinned != self._was_pinned:
            keep_to(self._own_id, self._threads if self.is_pinned else None)
            self._was_pinned = self.is_pinned

    def _variables(self) -> dict[str, str]:
        threads = str(self._threads)
        return {
            "PYTHONPATH": str(Path(optimizer.__file__).resolve().parent.parent),
            "NUMBA_NUM_THREADS": threads,
            "OMP_NUM_THREADS": threads,
            "OPENBLAS_NUM_THREADS": threads,
            "MKL_NUM_THREADS": threads,
        }

    def _exchange(self, message: Mapping[str, Any], step: Step) -> Mapping[str, Any]:
        start = time.monotonic()
        try:
            write_message(self._to_worker, message)
            answer = self._reader.read(start + step.seconds)
        except TimeoutError:
            self.close()
            seconds = time.monotonic() - start
            raise _failure(step, step.overrun, f"not done after {seconds:.3g} s", seconds) from None
        except BrokenPipeError:
            raise self._death(step) from None
        except ProtocolError as error:
            self.close()
            raise _failure(step, Reason.CRASHED, f"the answer cannot be read: {error}") from error
        if answer is None:
            raise self._death(step)
        if answer.get("nonce") != message["nonce"]:
            self.close()
            raise _failure(step, Reason.CRASHED, "what came is no answer to the question")
        return self._content(answer, step)

    def _content(self, answer: Mapping[str, Any], step: Step) -> Mapping[str, Any]:
        blamed = step.contestant is not None
        match answer:
            case {"answer": {**content}}:
                return content
            case {"failure": {"reason": ("build_failed" | "out_of_memory") as reason, "detail": str(detail)}} if blamed:
                raise WorkerFailure(Reason(reason), detail, contestant=step.contestant or 0)
            case {"failure": {"detail": str(detail)}} | {"trouble": str(detail)}:
                raise InfrastructureError(detail)
            case _:
                self.close()
                raise _failure(step, Reason.CRASHED, "the answer has no known form")

    def _death(self, step: Step) -> LoopwrightError:
        process = self._process
        assert process is not None
        # The pipe closes some instants before the process can be reaped.
        status = process.wait(5)
        self.close()
        log = self._log_tail()
        if "bad_alloc" in log or "MemoryError" in log or "Cannot allocate memory" in log or status == -signal.SIGKILL:
            return _failure(step, Reason.OUT_OF_MEMORY, "the process ran out of memory")
        if status is not None and status < 0:
            died = f"the process died of {signal.Signals(-status).name}"
        else:
            died = f"the process ended by itself with status {status}"
        return _failure(step, Reason.CRASHED, died + (f"\n{log}" if log else ""))

    def _log_tail(self) -> str:
        try:
            with self._log.open("rb") as log:
                log.seek(max(0, self._log.stat().st_size - LOG_TAIL_BYTES))
                text = log.read().decode(errors="replace")
        except OSError:
            return ""
        return "\n".join(text.strip().splitlines()[-8:])


def _failure(step: Step, reason: Reason, detail: str, seconds: float = 0.0) -> LoopwrightError:
    text = f"{step.what}: {detail}"
    if step.contestant is None:
        return InfrastructureError(f"no candidate was running, but the worker failed: {text}")
    return WorkerFailure(reason, text, contestant=step.contestant, seconds=seconds)


def _end(process: Sandbox, shared: IO[bytes], pipes: tuple[int, int]) -> None:
    process.end()
    shared.close()
    for pipe in pipes:
        os.close(pipe)
