"""The worker's memory between commands: compiled functions, inputs and reference results, each computed once."""

from __future__ import annotations

import contextlib
import os
import resource
from collections import OrderedDict
from collections.abc import Callable, Generator, Hashable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Generic, TypeVar

import numba

from optimizer.measure.checks import check
from optimizer.measure.commands import CheckCommand, NoiseCommand, PeaksCommand, Task, TimeCommand, from_json
from optimizer.measure.inputs import Values, make_values
from optimizer.measure.load import pin
from optimizer.measure.loading import Function, compiled_candidate, compiled_original
from optimizer.measure.timing import Reference, time_contestants
from optimizer.measure.workload import Workload
from optimizer.verdict import Reason

T = TypeVar("T")
KEPT_FUNCTIONS = 8
KEPT_RESULTS = 256
KEPT_REFERENCES = 2
MEMORY_MULTIPLE = 3
"""A candidate may allocate so many times the bytes of its arguments ..."""
MEMORY_FLOOR = 2**30
"""... and so many bytes besides; ..."""
MEMORY_PER_THREAD = 160 * 2**20
"""... a thread's stack and its part of the heap reserve so much address space."""


class Session:
    """Runs the commands of one worker process."""

    announce: Callable[[Mapping[str, Any]], None]
    """Tells the parent what is going to run; set anew for each command."""

    def __init__(self, threads: int) -> None:
        self.announce = _nobody
        self.threads = threads
        """The most that any command may use."""
        # Before the first parallel loop starts threads, which inherit the processors.
        pin(threads)
        self.results: Recent[Any] = Recent(KEPT_RESULTS)
        """Reference results and whatever else commands keep, by keys of their own."""
        self.references: Recent[Reference] = Recent(KEPT_REFERENCES)
        """What the original leaves behind on timed inputs: large arrays."""
        self._timed: Recent[Values] = Recent(1)
        self._functions: Recent[Function] = Recent(KEPT_FUNCTIONS)

    def run(self, message: Mapping[str, Any]) -> dict[str, Any]:
        command = message["command"]
        match Task(message["task"]):
            case Task.CHECK:
                return asdict(check(self, from_json(CheckCommand, command)))
            case Task.TIME:
                return asdict(time_contestants(self, from_json(TimeCommand, command)))
            case Task.PEAKS:
                from optimizer.measure.peak_kernels import measure_peaks

                return asdict(measure_peaks(from_json(PeaksCommand, command)))
            case Task.NOISE:
                from optimizer.measure.noise_kernel import measure_noise

                return asdict(measure_noise(from_json(NoiseCommand, command), self.threads))

    def runs_original(self, what: str) -> None:
        """From here on the original runs: if it fails, no candidate is to blame."""
        _limit_memory(None)
        self.announce({"stage": "original", "what": what})

    def runs_candidate(
        self,
        what: str,
        allowance: float,
        *,
        array_bytes: int = 0,
        contestant: int = 0,
        overrun: Reason = Reason.TIMED_OUT,
    ) -> None:
        """From here on a candidate runs, which may take `allowance` seconds and some multiple of `array_bytes`.

        `overrun` is what is wrong with it if it takes longer.
        """
        _limit_memory(MEMORY_MULTIPLE * array_bytes + MEMORY_FLOOR + MEMORY_PER_THREAD * self.threads)
        stage = {"stage": "candidate", "what": what, "allowance": allowance, "contestant": contestant}
        self.announce({**stage, "overrun": overrun.value})

    def timed_values(self, workload: Workload, seed: int) -> Values:
        """Arguments at the size that is timed; nobody may write into them."""
        return self._timed.get((workload.key, seed), lambda: make_values(workload, seed))

    @contextlib.contextmanager
    def large_files(self) -> Generator[None]:
        """Lift the limit on files, which is meant for candidates."""
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit[1], limit[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)

    def original(self, workload: Workload, arguments: tuple[Any, ...]) -> Function:
        key = ("original", workload.source, workload.function, workload.fastmath, _types(arguments))

        def build() -> Function:
            self.runs_original("compiling the original")
            return compiled_original(workload, Path(f"original_{workload.key}.py").absolute(), arguments)

        return self._functions.get(key, build)

    def candidate(
        self, code: str, name: str, arguments: tuple[Any, ...], allowance: float, contestant: int = 0
    ) -> Function:
        def build() -> Function:
            self.runs_candidate("compiling", allowance, contestant=contestant, overrun=Reason.BUILD_FAILED)
            return compiled_candidate(Path(code), name, arguments, contestant)

        return self._functions.get((code, name, _types(arguments)), build)


class Recent(Generic[T]):
    """Keeps the most recently used values."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._values: OrderedDict[Hashable, T] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value kept under `key`, made first if there is none."""
        if key not in self._values:
            self._values[key] = make()
            if len(self._values) > self._capacity:
                self._values.popitem(last=False)
        self._values.move_to_end(key)
        return self._values[key]


def _types(arguments: tuple[Any, ...]) -> str:
    return str(tuple(numba.typeof(argument) for argument in arguments))


def _nobody(_stage: Mapping[str, Any]) -> None:
    """Nobody listens before the first command."""


def _limit_memory(more: int | None) -> None:
    """Let this process map at most `more` bytes on top of what it has mapped; None lifts that limit."""
    mapped = _mapped_bytes()
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    limit = hard if more is None or not mapped else mapped + more
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


def _mapped_bytes() -> int:
    """The address space in use; 0 where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (OSError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
