"""The parent's side of the worker process: start it, ask it, kill it in time, say what killed it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import optimizer
from optimizer.errors import InfrastructureError, LoopwrightError, UserError
from optimizer.measure.failure import WorkerFailure
from optimizer.measure.protocol import MessageReader, ProtocolError, write_message
from optimizer.sandbox import Sandbox, SandboxLimits, total_memory
from optimizer.verdict import Reason

START_SECONDS = 120.0
"""What importing Numba may take on a cold disk."""
ADDRESS_SPACE_PER_THREAD = 160 << 20
"""A thread's stack and its part of the heap reserve so much."""
LOG_TAIL_BYTES = 4000


class Worker:
    """A process that builds, checks and times candidates, because they may hang, crash or eat all memory.

    It starts with the first request, and again after it had to be killed. Every request carries everything that it
    needs, so a new process goes on where the old one died.
    """

    def __init__(self, directory: Path, threads: int) -> None:
        """`directory` takes the log and compiled code; `threads` is the most that any request may use."""
        self._directory = directory
        self._threads = threads
        self._log = directory / "worker.log"
        self._process: Sandbox | None = None
        self._to_worker = -1
        self._from_worker = -1
        self._reader = MessageReader(-1)
        self._number = 0
        self._end: weakref.finalize[..., Worker] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def process_id(self) -> int | None:
        """Of the process that runs now, if one does."""
        return self._process.process_id if self._process else None

    def request(self, command: Mapping[str, Any], deadline: float) -> dict[str, Any]:
        """Send `command` and wait at most `deadline` seconds for the answer.

        The worker announces each step with what it runs (the original or a candidate) and how long that may take.
        Raises `WorkerFailure` when a candidate failed or the worker died or overran while one was running, and
        `InfrastructureError` when that happened while none was.
        """
        if self._process is None:
            self._start()
        self._number += 1
        # The log holds what this request prints, so that its end tells what killed the worker.
        with contextlib.suppress(OSError):
            os.truncate(self._log, 0)
        try:
            return self._exchange({"number": self._number, **command}, time.monotonic() + deadline)
        except LoopwrightError:
            raise
        except BaseException:
            # An interrupt in the middle of an exchange: the next answer would belong to the old question.
            self.close()
            raise

    def close(self) -> None:
        """Kill the process with everything that it started; also done when this object is forgotten."""
        self._process = None
        if self._end:
            self._end()

    def _start(self) -> None:
        command_read, self._to_worker = os.pipe()
        self._from_worker, answer_write = os.pipe()
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            with self._log.open("ab") as log:
                self._process = Sandbox(
                    # -P: the worker's folder is full of generated modules, which must not be importable by chance.
                    [
                        *(sys.executable, "-u", "-P", "-X", "faulthandler", "-m", "optimizer.measure.worker_main"),
                        *(str(command_read), str(answer_write), str(self._threads)),
                    ],
                    SandboxLimits(total_memory() + self._threads * ADDRESS_SPACE_PER_THREAD, file_bytes=1 << 40),
                    output=log,
                    directory=self._directory,
                    scratch_parent=self._directory,
                    descriptors=(command_read, answer_write),
                    variables=self._variables(),
                )
        except (OSError, InfrastructureError) as error:
            os.close(self._to_worker)
            os.close(self._from_worker)
            raise InfrastructureError(f"the worker process cannot be started: {error}") from error
        finally:
            os.close(command_read)
            os.close(answer_write)
        self._end = weakref.finalize(self, _end_process, self._process, (self._to_worker, self._from_worker))
        self._reader = MessageReader(self._from_worker)
        self._number = 0
        try:
            ready = self._reader.read(time.monotonic() + START_SECONDS)
        except (TimeoutError, ProtocolError):
            ready = None
        if ready is None:
            self.close()
            raise InfrastructureError(f"the worker process did not start: {self._log_tail() or 'no output'}")

    def _variables(self) -> dict[str, str]:
        threads = str(self._threads)
        return {
            "PYTHONPATH": str(Path(optimizer.__file__).resolve().parent.parent),
            "NUMBA_NUM_THREADS": threads,
            "NUMBA_CACHE_DIR": str(self._directory / "numba_cache"),
            "OMP_NUM_THREADS": threads,
            "OPENBLAS_NUM_THREADS": threads,
            "MKL_NUM_THREADS": threads,
        }

    def _exchange(self, command: Mapping[str, Any], deadline: float) -> dict[str, Any]:
        stage: dict[str, Any] = {}
        stage_start, stage_end = time.monotonic(), deadline
        try:
            write_message(self._to_worker, command)
            while True:
                message = self._reader.read(min(deadline, stage_end))
                if message is None:
                    raise self._death(stage)
                if message.get("number") != command["number"]:
                    raise ProtocolError(f"an answer to question {message.get('number')} came")
                if "stage" not in message:
                    return self._answer(message)
                stage, stage_start = message, time.monotonic()
                stage_end = stage_start + message["allowance"] if "allowance" in message else deadline
        except TimeoutError:
            self.close()
            seconds = time.monotonic() - stage_start
            reason = Reason(stage.get("overrun", Reason.TIMED_OUT))
            raise self._failure(stage, reason, f"not done after {seconds:.3g} s", seconds) from None
        except BrokenPipeError:
            raise self._death(stage) from None
        except ProtocolError as error:
            self.close()
            raise self._failure(stage, Reason.CRASHED, f"the worker's answer cannot be read: {error}") from error

    def _answer(self, message: Mapping[str, Any]) -> dict[str, Any]:
        if "trouble" in message:
            raise InfrastructureError(message["trouble"])
        if "user_error" in message:
            raise UserError(message["user_error"])
        if "failure" in message:
            failure = message["failure"]
            raise WorkerFailure(
                Reason(failure["reason"]),
                failure["detail"],
                witness=failure["witness"],
                contestant=failure["contestant"],
            )
        return message["answer"]

    def _death(self, stage: Mapping[str, Any]) -> Exception:
        process = self._process
        assert process is not None
        # The pipe closes some instants before the process can be reaped.
        status = process.wait(5)
        self.close()
        log = self._log_tail()
        if "bad_alloc" in log or "MemoryError" in log or "Cannot allocate memory" in log or status == -signal.SIGKILL:
            return self._failure(stage, Reason.OUT_OF_MEMORY, "the process ran out of memory")
        if status is not None and status < 0:
            died = f"the process died of {signal.Signals(-status).name}"
        else:
            died = f"the process ended by itself with status {status}"
        return self._failure(stage, Reason.CRASHED, died + (f"\n{log}" if log else ""))

    def _failure(self, stage: Mapping[str, Any], reason: Reason, detail: str, seconds: float = 0.0) -> Exception:
        text = f"{stage.get('what', 'before the first step')}: {detail}"
        if stage.get("stage") != "candidate":
            return InfrastructureError(f"no candidate was running, but the worker failed: {text}")
        return WorkerFailure(reason, text, contestant=stage["contestant"], seconds=seconds)

    def _log_tail(self) -> str:
        try:
            with self._log.open("rb") as log:
                log.seek(max(0, self._log.stat().st_size - LOG_TAIL_BYTES))
                text = log.read().decode(errors="replace")
        except OSError:
            return ""
        return "\n".join(text.strip().splitlines()[-8:])


def _end_process(process: Sandbox, pipes: tuple[int, int]) -> None:
    process.end()
    for pipe in pipes:
        os.close(pipe)
