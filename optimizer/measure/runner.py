"""Runs functions on arguments in a worker process and hands back the bytes that they leave behind.

All that comes from the process is raw: sizes and types are checked here, and everything is judged elsewhere on this
side.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from pydantic import ValidationError

from optimizer.errors import InfrastructureError, LoopwrightError
from optimizer.measure.commands import (
    BuildCommand,
    CallCommand,
    CallReport,
    CollectCommand,
    Command,
    Form,
    GiveCommand,
    LoadCommand,
    RestoreCommand,
    RunCommand,
    from_json,
)
from optimizer.measure.comparison import Results, named_results
from optimizer.measure.failure import WorkerFailure
from optimizer.measure.guards import ALIGNMENT, GuardedArguments, Segment, aligned_bytes
from optimizer.measure.load import scheduling
from optimizer.measure.shared_file import SharedFileError, read_at, resize, write_at
from optimizer.measure.worker import Step, Worker
from optimizer.measure.workload import Workload
from optimizer.verdict import Reason

MEMORY_MULTIPLE = 3
"""A candidate may allocate so many times the bytes of its arguments ..."""
MEMORY_FLOOR = 2**30
"""... and so many bytes besides; ..."""
MEMORY_PER_THREAD = 160 * 2**20
"""... a thread's stack and its part of the heap reserve so much address space."""
LARGEST_RETURNED = 2**20
"""Bytes that a call may return on top of what is expected."""


@dataclass(frozen=True, slots=True)
class Code:
    """A function that can be run."""

    form: Form
    file: str
    function: str
    workload: Workload | None = None
    """For the original."""


@dataclass(frozen=True, slots=True)
class Called:
    """What happened in a call, or in several."""

    report: CallReport
    calls: int
    elapsed: float
    """Seconds by this process's clock, without the pause."""
    executed: float
    """Seconds that the thread which calls was running, by the system's account."""
    waited: float
    """Seconds that it waited for a processor meanwhile, ..."""
    waited_here: float
    """... and that this thread did."""

    @property
    def visible(self) -> float:
        """Seconds of all calls as seen from here, apart from those for which a busy machine is to blame."""
        return max(self.executed, self.elapsed - self.waited - self.waited_here)

    @property
    def undisturbed(self) -> float:
        """Seconds of one call without the waiting for a processor."""
        return max(0.0, self.report.seconds - self.waited) / self.calls


class CallError(Exception):
    """The function raised an exception."""

    def __init__(self, report: CallReport) -> None:
        self.text, self.kind = report.raised, report.raised_kind
        super().__init__(self.text)


class Runner:
    """One worker process, with the arguments that it holds."""

    def __init__(self, worker: Worker, threads: int) -> None:
        """`threads` is the most that any call may use."""
        self.worker, self._threads = worker, threads
        self._size = 0
        self._compiled: set[str] = set()

    def load(self, guarded: GuardedArguments, step: Step, kept: Collection[str] = ()) -> None:
        """Hand over arguments; calls change the copy that the process makes of them.

        Calls can begin with the arrays named in `kept` as they are now.
        """
        self._request(self._written(guarded, kept), step)

    def _written(self, guarded: GuardedArguments, kept: Collection[str] = ()) -> LoadCommand:
        shared = self.worker.shared
        self._size = guarded.content.size
        resize(shared, self._size)
        write_at(shared, 0, guarded.content)
        return LoadCommand(guarded.segments, self._size, tuple(kept))

    def unload(self, step: Step) -> None:
        """Free the memory of the arguments."""
        self.load(GuardedArguments({}), step)

    def restore(self, step: Step) -> None:
        """Make the arrays that `load` kept what they were."""
        self._request(RestoreCommand(), step)

    def build(self, code: Code, step: Step) -> str:
        """Make a function ready for the arguments that are loaded; its key for `call`."""
        command = BuildCommand(code.form, code.file, code.function, code.workload, self._memory(step))
        built = self._request(command, step)
        key = built.get("key")
        if not isinstance(key, str):
            raise self._unbelievable(step, "it names no function")
        if built.get("is_compiled"):
            self._compiled.add(key)
        return key

    def is_compiled(self, key: str) -> bool:
        """Whether a function that was built is machine code; else Python runs it, with NumPy."""
        return key in self._compiled

    def call(
        self,
        key: str,
        step: Step,
        *,
        threads: int = 1,
        calls: int = 1,
        is_restored: bool = False,
        pause: float = 0.0,
    ) -> Called:
        """Call a function on the arguments that are loaded. Raises `CallError` when it raises an exception.

        With `is_restored` each begins with the arrays that `load` kept as they were then.
        """
        command = CallCommand(key, threads, calls, is_restored, pause, self._memory(step))
        process = self.worker.own_process_id or 0
        own = (os.getpid(), threading.get_native_id())
        before, before_here = scheduling(process, process), scheduling(*own)
        start = time.perf_counter()
        content = self._request(command, replace(step, seconds=step.seconds + pause))
        elapsed = time.perf_counter() - start - pause
        its, ours = scheduling(process, process).since(before), scheduling(*own).since(before_here)
        return Called(self._report(content, step), calls, elapsed, its.executed, its.waited, ours.waited)

    def run(self, guarded: GuardedArguments, key: str, step: Step, *, threads: int = 1) -> CallReport:
        """Load arguments, call a function on them and take them over, at the price of one request.

        Raises `CallError` as `call` does; then the arguments are as they were.
        """
        command = RunCommand(self._written(guarded), CallCommand(key, threads, memory=self._memory(step)))
        report = self._report(self._request(command, step), step)
        self._read(guarded, guarded.segments, step)
        return report

    def _report(self, content: Mapping[str, Any], step: Step) -> CallReport:
        try:
            report = from_json(CallReport, content)
        except ValidationError as error:
            raise self._unbelievable(step, "it reports no call") from error
        if report.raised:
            raise CallError(report)
        if not (math.isfinite(report.seconds) and report.seconds >= 0):
            raise self._unbelievable(step, f"it took {report.seconds} s")
        return report

    def receive(self, guarded: GuardedArguments, step: Step, names: Collection[str] | None = None) -> None:
        """Take over the arguments of these names (None: all) as calls have left them, with all around them."""
        segments = [segment for segment in guarded.segments if names is None or segment.name in names]
        self._request(GiveCommand(tuple(segment.name for segment in segments)), step)
        self._read(guarded, segments, step)

    def _read(self, guarded: GuardedArguments, segments: Collection[Segment], step: Step) -> None:
        try:
            for segment in segments:
                read_at(self.worker.shared, segment.start, guarded.part(segment))
        except SharedFileError:
            raise self._unbelievable(step, "it made the file of its results smaller") from None

    def returned(
        self, report: CallReport, guarded: GuardedArguments, step: Step, expected: Mapping[str, Any] | None
    ) -> Results:
        """What the last call returned, after `guarded` was received.

        The arrays of the process are overwritten before, so that a result which is a view of an argument is not what
        it seems to be. `expected` is what the original gave, which bounds how much is taken; None trusts the process.
        """
        described = report.returned
        if not described:
            return {}
        sizes = [_bytes_of(dtype, shape) for dtype, shape in described]
        if None in sizes:
            types = ", ".join(dtype for dtype, _ in described)
            raise self._wrong(step, f"it returns something else than numbers: {types}")
        total = sum(size or 0 for size in sizes)
        if expected is not None:
            allowed = sum(value.nbytes for value in expected.values()) + LARGEST_RETURNED
            if total > allowed:
                raise self._wrong(step, f"it returns {total} bytes")
        guarded.poison()
        self.load(guarded, step)
        content = aligned_bytes(total)
        start = self._size + -self._size % ALIGNMENT
        resize(self.worker.shared, start + total)
        self._request(CollectCommand(start, start + total), step)
        try:
            read_at(self.worker.shared, start, content)
        except SharedFileError:
            raise self._unbelievable(step, "it made the file of its results smaller") from None
        parts: list[Any] = []
        place = 0
        for (dtype, shape), size in zip(described, sizes, strict=True):
            assert size is not None
            parts.append(np.frombuffer(content[place : place + size].tobytes(), dtype).reshape(shape))
            place += size
        return named_results(parts, is_tuple=report.is_tuple)

    def _memory(self, step: Step) -> int | None:
        if step.contestant is None:
            return None
        return MEMORY_MULTIPLE * self._size + MEMORY_FLOOR + MEMORY_PER_THREAD * self._threads

    def _request(self, command: Command, step: Step) -> Mapping[str, Any]:
        return self.worker.request(command, step)

    def _wrong(self, step: Step, what: str) -> LoopwrightError:
        return WorkerFailure(Reason.WRONG_RESULT, f"{step.what}: {what}", contestant=step.contestant or 0)

    def _unbelievable(self, step: Step, what: str) -> LoopwrightError:
        self.worker.close()
        detail = f"{step.what}: the process does not keep to the protocol: {what}"
        if step.contestant is None:
            return InfrastructureError(detail)
        return WorkerFailure(Reason.SUSPICIOUS, detail, contestant=step.contestant or 0)


def _bytes_of(dtype: str, shape: tuple[int, ...]) -> int | None:
    """None for what is no array of numbers."""
    try:
        kind = np.dtype(dtype)
    except TypeError:
        return None
    if kind.kind not in "biufc" or kind.shape or any(length < 0 for length in shape) or len(shape) > 32:
        return None
    return kind.itemsize * math.prod(shape)
