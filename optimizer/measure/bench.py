"""The bench that verifiers measure on: two worker processes, the timing lane, and what has been measured in this run.

Candidates run in one of the processes, and the other one, which never runs any, says what is right.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from optimizer.errors import InfrastructureError, LoopwrightError
from optimizer.measure.checks import Checker
from optimizer.measure.commands import (
    CheckCommand,
    CheckReport,
    NoiseCommand,
    NoiseReport,
    PeaksCommand,
    PeaksReport,
    TimeCommand,
    TimeReport,
    from_json,
)
from optimizer.measure.failure import WorkerFailure
from optimizer.measure.lane import TimingLane
from optimizer.measure.recent import Recent
from optimizer.measure.references import References, bytes_of
from optimizer.measure.runner import Runner
from optimizer.measure.statistics import Ratio
from optimizer.measure.timed_original import TimingMemory
from optimizer.measure.timing import Stopwatch
from optimizer.measure.worker import Step, Worker
from optimizer.verdict import Measurement, Reason

KEPT_BYTES = 2**25
"""Of the original's results. Each candidate is checked in a few hundred small cases, mostly the same ones."""
MOST_CANDIDATES = 200
"""Of one worker process: it never gives back the memory of what it compiles."""
Asked = TypeVar("Asked", CheckCommand, TimeCommand)
Told = TypeVar("Told", CheckReport, TimeReport)


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Seconds that the steps of judging a candidate may take."""

    build: float = 90.0
    call: float = 10.0
    """A call on small inputs."""
    check: float = 300.0
    """All checks of one candidate."""
    timing: float = 1800.0
    """One timing window, a slow original included."""
    rounds: float = 3.0
    """About what the timed rounds of one candidate take; never less than it needs for a few of them."""
    slow: float = 1.0
    """An original that takes longer is timed once; candidates are then paired with the best so far."""
    cutoff_multiple: float = 5.0
    """A candidate is stopped when a call takes so many times the best so far ..."""
    slow_cutoff_multiple: float = 2.0
    """... or so many times when that is slow itself, ..."""
    cutoff_floor: float = 1.0
    """... but not before so many seconds, because a new worker costs about as much."""

    def cutoff(self, best_seconds: float) -> float:
        """Seconds after which a candidate is stopped, when the best so far takes `best_seconds`."""
        multiple = self.slow_cutoff_multiple if best_seconds > self.slow else self.cutoff_multiple
        return max(self.cutoff_floor, multiple * best_seconds)


@dataclass(slots=True)
class Record:
    """What is known about one workload so far."""

    original_samples: tuple[float, ...]
    """Seconds of the original."""
    best_seconds: float
    best_code: str | None = None
    """File of the fastest candidate's module; None while that is the original."""
    best_ratio: Ratio | None = None
    """The original's time over the best one's."""
    windows: int = 0
    """How many candidates have been timed."""


class Bench:
    """Owns the worker and remembers; a context manager."""

    def __init__(
        self,
        directory: Path,
        *,
        threads: int,
        seed: int = 0,
        limits: TimeLimits | None = None,
        lane: TimingLane | None = None,
        on_wait: Callable[[str], None] | None = None,
    ) -> None:
        """`directory` takes candidates' modules and the worker's files; `threads` is what candidates may use."""
        if threads < 1:
            raise ValueError(f"threads must be at least 1, not {threads}")
        if seed < 0:
            raise ValueError(f"a seed must not be negative, as {seed} is")
        self.directory = directory.absolute()
        self.threads, self.seed = threads, seed
        self.limits = limits or TimeLimits()
        self.lane = lane or TimingLane(on_wait=on_wait)
        self.records: dict[str, Record] = {}
        """By the workload's key."""
        self.measurements: dict[str, Measurement] = {}
        """The last measurement of each candidate, by its digest."""
        self.worker = Worker(self.directory, threads)
        """Runs candidates, and the original beside them."""
        self.clean_worker = Worker(self.directory, threads, "clean_worker")
        """Runs nothing but the original."""
        self._candidates = 0
        self._runner, self._clean_runner = Runner(self.worker, threads), Runner(self.clean_worker, threads)
        self._kept: Recent[Any] = Recent(KEPT_BYTES, bytes_of)
        self._timing = TimingMemory()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the worker processes; the candidates' modules stay."""
        self.worker.close()
        self.clean_worker.close()

    def code_file(self, text: str) -> str:
        """The file of a candidate's module text, written if it is new."""
        return str(self._written("candidate", text))

    def _written(self, kind: str, text: str) -> Path:
        file = self.directory / f"{kind}_{hashlib.sha256(text.encode()).hexdigest()[:16]}.py"
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            if not file.exists():
                # In one step: after a kill or on a full disk, half a module would stand for all of it when resumed.
                draft = file.with_suffix(".draft")
                draft.write_text(text, encoding="utf-8")
                draft.replace(file)
        except OSError as error:
            raise InfrastructureError(f"{file} cannot be written: {error}") from error
        return file

    def check(self, command: CheckCommand) -> CheckReport:
        """Raises `WorkerFailure` for a candidate that does not do what the original does.

        It says so of a process in which no other candidate has run before, because one may have spoilt it for others.
        """
        self._candidates += 1
        if self._candidates % MOST_CANDIDATES == 0:
            self.worker.close()
        is_fresh = self.worker.process_id is None
        try:
            return self._discarding(self._check, command)
        except WorkerFailure:
            if is_fresh:
                raise
        return self._discarding(self._check, command)

    def _discarding(self, measure: Callable[[Asked], Told], command: Asked) -> Told:
        """What `measure` tells; when it fails, whatever a candidate did to its process, others shall not meet it."""
        try:
            return measure(command)
        except LoopwrightError:
            self.worker.close()
            raise

    def _check(self, command: CheckCommand) -> CheckReport:
        self.clean_worker.start()
        self.worker.start()
        self.worker.clear_log()
        until = time.monotonic() + self.limits.check
        module = self._written("source", command.workload.source)
        references = References(self._clean_runner, self._kept, command.workload, module, command.seeds[0], until)
        return Checker(self._runner, references, command, self.threads, until).run()

    def time(self, command: TimeCommand) -> TimeReport:
        """Holds the lane while contestants are timed; raises `WorkerFailure`.

        What is suspicious is looked at once more in a fresh process.
        """
        with self._alone():
            try:
                return self._discarding(self._time, command)
            except WorkerFailure as failure:
                if failure.reason is not Reason.SUSPICIOUS:
                    raise
            return self._discarding(self._time, command)

    @contextlib.contextmanager
    def _alone(self) -> Generator[None]:
        """The timing lane, with both workers kept to their processors."""
        with self.lane.held():
            self.worker.is_pinned = self.clean_worker.is_pinned = True
            try:
                yield
            finally:
                self.worker.is_pinned = self.clean_worker.is_pinned = False

    def _time(self, command: TimeCommand) -> TimeReport:
        self.worker.clear_log()
        until = time.monotonic() + self.limits.timing
        module = self._written("source", command.workload.source)
        has_candidates = any(code is not None for code in command.codes)
        runner = self._runner if has_candidates else self._clean_runner
        return Stopwatch(runner, self._clean_runner, self._timing, command, module, until).run()

    def peaks(self) -> PeaksReport:
        with self._alone():
            answer = self.clean_worker.request(PeaksCommand(self.threads), Step("measuring the machine's peaks", 120.0))
            return from_json(PeaksReport, answer)

    def noise(self, calls: int = 100) -> NoiseReport:
        with self._alone():
            answer = self.clean_worker.request(NoiseCommand(calls), Step("measuring the machine's noise", 60.0))
            return from_json(NoiseReport, answer)
