"""Times contestants in turns on the same inputs (in the worker).

Each call is timed alone, with the inputs restored before it and outside of its time, so that every call does the same
work. A round runs every contestant once (short ones: several calls), in random order.
"""

from __future__ import annotations

import gc
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numba
import numpy as np

from optimizer.measure.commands import TimeCommand, TimeReport
from optimizer.measure.comparison import Difference, Results, bit_difference, results_of, scale_difference
from optimizer.measure.failure import WorkerFailure
from optimizer.measure.guards import GuardedArguments
from optimizer.measure.inputs import bytes_of
from optimizer.measure.load import OtherLoad
from optimizer.measure.loading import Function
from optimizer.measure.references import sensitivity_of
from optimizer.measure.statistics import FEW, paired_ratio
from optimizer.measure.workload import size_text
from optimizer.verdict import Reason

if TYPE_CHECKING:
    from optimizer.measure.session import Session

SAMPLE_SECONDS = 0.02
"""A sample is as many calls as take about so long, far above the clock's step and the cost of a call."""
MOST_CALLS = 2000
SLOW_ROUNDS = 2
"""At least, when calls are slow; the first one counts then."""
NARROW = 0.01
"""A ratio that is known this well needs no more rounds."""
SLOWDOWN_ALLOWED = 20.0
"""How much longer than its first call a candidate's later ones may take before it is killed."""
QUIET_SECONDS = 0.0005
"""What the parent needs to read an announcement; it must not do so on a processor that is being timed."""
TOLERANCES = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-4}
"""Relative to an array's largest magnitude; the precise comparison was made on smaller inputs."""


@dataclass(frozen=True, slots=True)
class Reference:
    """What the original leaves behind on the timed inputs, and how long that call took."""

    results: Results
    seconds: float


def time_contestants(session: Session, command: TimeCommand) -> TimeReport:
    """Time them; raises `WorkerFailure` for a candidate that is wrong at this size."""
    return Stopwatch(session, command).run()


class Stopwatch:
    """One timing window."""

    def __init__(self, session: Session, command: TimeCommand) -> None:
        self._session, self._command, self._workload = session, command, command.workload
        session.runs_original(f"making the inputs ({size_text(self._workload.sizes)})")
        pristine = session.timed_values(self._workload, command.seed)
        self._bytes = bytes_of(pristine)
        self._guarded = GuardedArguments(pristine)
        self._functions = [self._function(number) for number in range(len(command.codes))]

    def run(self) -> TimeReport:
        numba.set_num_threads(self._command.threads)
        load = OtherLoad()
        reference, is_fresh = self._reference()
        # The original comes first among the contestants and last here: a bad candidate must not cost its time.
        first = [self._first(number, reference, is_fresh) for number in reversed(range(len(self._functions)))][::-1]
        calls = [max(1, min(MOST_CALLS, math.ceil(SAMPLE_SECONDS / seconds))) for seconds in first]
        rounds = self._rounds(first, calls, reference)
        return TimeReport(
            seconds=tuple(tuple(samples) for samples in rounds),
            original_seconds=reference.seconds,
            calls=tuple(calls),
            input_bytes=self._bytes,
            other_load=load.processors(),
        )

    def _function(self, number: int) -> Function:
        code, arguments = self._command.codes[number], self._guarded.arguments
        if code is None:
            return self._session.original(self._workload, arguments)
        return self._session.candidate(code, self._workload.function, arguments, self._command.build_seconds, number)

    def _is_original(self, number: int) -> bool:
        return self._command.codes[number] is None

    def _reference(self) -> tuple[Reference, bool]:
        """The original's results, and whether it had to run for them just now."""
        key = ("reference", self._workload.key, self._command.seed)
        file = Path(f"reference_{self._workload.key}_{self._command.seed}.npz")
        is_fresh = False

        def run() -> Reference:
            nonlocal is_fresh
            if (kept := _load_reference(file)) is not None:
                return kept
            is_fresh = True
            original = self._session.original(self._workload, self._guarded.arguments)
            self._session.runs_original(f"the original at {size_text(self._workload.sizes)}")
            self._guarded.restore()
            start = time.perf_counter()
            returned = original(*self._guarded.arguments)
            seconds = time.perf_counter() - start
            reference = Reference(results_of(self._guarded.values, self._workload.written, returned), seconds)
            if seconds > self._command.slow_seconds:
                # A worker that has to be killed for a candidate's sake must not cost the original's time again.
                with self._session.large_files():
                    _save_reference(file, reference)
            return reference

        return self._session.references.get(key, run), is_fresh

    def _first(self, number: int, reference: Reference, is_fresh: bool) -> float:
        """Seconds of the first call, which warms everything up."""
        if self._is_original(number) and is_fresh:
            return reference.seconds
        self._announce(number, self._command.cutoff)
        seconds, returned = self._call(number)
        self._check(number, returned, reference)
        if not self._is_original(number) and (array := self._guarded.modified(self._workload.written)):
            raise self._failure(number, Reason.MODIFIED_INPUT, f"it changes {array}, which is only an input")
        return seconds

    def _rounds(self, first: list[float], calls: list[int], reference: Reference) -> list[list[float]]:
        least, most = self._command.rounds
        rounds: list[list[float]] = []
        if max(first) > self._command.slow_seconds:
            rounds, least = [first], min(least, SLOW_ROUNDS)
        rng = np.random.default_rng(self._command.seed)
        start = time.perf_counter()
        round_seconds = 0.0
        while len(rounds) < least or (
            len(rounds) < most
            and time.perf_counter() - start + round_seconds < self._command.seconds
            and not self._is_clear(rounds)
        ):
            round_start = time.perf_counter()
            samples = [0.0] * len(first)
            for number in (int(place) for place in rng.permutation(len(first))):
                samples[number] = self._sample(number, calls[number], first[number], reference)
            rounds.append(samples)
            round_seconds = time.perf_counter() - round_start
        return rounds

    def _is_clear(self, rounds: list[list[float]]) -> bool:
        if len(rounds) < FEW:
            return False
        base, *others = zip(*rounds, strict=True)
        below = self._command.clearly_below
        ratios = [paired_ratio(base, other, self._command.seed) for other in others]
        return all(ratio.spread < NARROW or (below is not None and ratio.interval[1] < below) for ratio in ratios)

    def _sample(self, number: int, calls: int, first: float, reference: Reference) -> float:
        """Mean seconds of `calls` calls."""
        self._announce(number, max(self._command.cutoff, SLOWDOWN_ALLOWED * first) * calls)
        time.sleep(QUIET_SECONDS)
        total, returned = 0.0, None
        gc.collect(0)
        gc.disable()
        try:
            for _ in range(calls):
                seconds, returned = self._call(number)
                total += seconds
        finally:
            gc.enable()
        self._check(number, returned, reference)
        return total / calls

    def _announce(self, number: int, allowance: float) -> None:
        what = f"a call at {size_text(self._workload.sizes)}"
        if self._is_original(number):
            self._session.runs_original(what)
        else:
            self._session.runs_candidate(
                what, allowance, array_bytes=self._bytes, contestant=number, overrun=Reason.TOO_SLOW
            )

    def _call(self, number: int) -> tuple[float, Any]:
        function, arguments = self._functions[number], self._guarded.arguments
        self._guarded.restore(self._workload.written)
        try:
            start = time.perf_counter()
            returned = function(*arguments)
            return time.perf_counter() - start, returned
        except MemoryError as error:
            raise self._failure(number, Reason.OUT_OF_MEMORY, "no memory left") from error
        except Exception as error:
            # The original ran on these inputs, so whatever the candidate raises, its result is wrong.
            detail = f"it raises {type(error).__name__}: {error}, where the original does not"
            raise self._failure(number, Reason.WRONG_RESULT, detail) from error

    def _check(self, number: int, returned: Any, reference: Reference) -> None:
        if self._is_original(number):
            return
        if array := self._guarded.overrun():
            raise self._failure(number, Reason.OUT_OF_BOUNDS, f"it writes outside of {array}")
        results = results_of(self._guarded.values, self._workload.written, returned, copy=False)
        difference = self._difference(results, reference.results)
        if difference and (self._workload.is_strict or self._is_comparable(reference)):
            raise self._failure(number, Reason.WRONG_RESULT, str(difference))

    def _difference(self, results: Results, expected: Results) -> Difference | None:
        difference = bit_difference(results, expected)
        if difference is None or self._workload.is_strict:
            return difference
        return scale_difference(results, expected, TOLERANCES)

    def _is_comparable(self, reference: Reference) -> bool:
        """Whether the original's own results do not change as much when the last bit of its inputs does."""

        def run() -> bool:
            self._session.runs_original("the original on inputs that differ in the last bit")
            values = self._session.timed_values(self._workload, self._command.seed)
            original = self._session.original(self._workload, self._guarded.arguments)
            return sensitivity_of(self._workload, original, values, reference.results) is not None

        return self._session.results.get(("comparable", self._workload.key, self._command.seed), run)

    def _failure(self, number: int, reason: Reason, what: str) -> WorkerFailure:
        return WorkerFailure(reason, f"at {size_text(self._workload.sizes)}: {what}", contestant=number)


def _load_reference(file: Path) -> Reference | None:
    if not file.exists():
        return None
    with np.load(file, allow_pickle=False) as archive:
        seconds, names, *arrays = archive.values()
    return Reference(dict(zip(names.tolist(), arrays, strict=True)), float(seconds))


def _save_reference(file: Path, reference: Reference) -> None:
    unfinished = file.with_suffix(".part")
    try:
        with unfinished.open("wb") as opened:
            np.savez(
                opened, np.array(reference.seconds), np.array(list(reference.results)), *reference.results.values()
            )
        unfinished.replace(file)
    except OSError:
        # Without room for it the original runs once more after a kill; nothing else is lost.
        unfinished.unlink(missing_ok=True)
