"""Times contestants in turns on the same inputs.

Each call is timed alone, with the inputs restored before it and outside of its time, so that every call does the same
work. A round runs every contestant once (short ones: several calls), in random order. The calls happen in a worker
process, which reads the clock; this side drives it, compares what each sample left behind with what the original left
behind in another process, and holds each reading against its own clock.

What a candidate could still do in its process: claim the small part of a sample that this clock cannot tell from the
restoring of inputs (`HIDDEN_PART`), and what a look at a single call on fresh inputs leaves (`fresh_look.py`). The code
of schedules does neither, because it is generated; a text that somebody else wrote is worth reading before its time is
believed.
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from optimizer.errors import InfrastructureError, LoopwrightError
from optimizer.measure.commands import Form, TimeCommand, TimeReport
from optimizer.measure.comparison import Difference, Results, arrays_of, bit_difference, scale_difference
from optimizer.measure.failure import WorkerFailure
from optimizer.measure.fresh_look import Observer
from optimizer.measure.inputs import bytes_of
from optimizer.measure.load import OtherLoad
from optimizer.measure.runner import Called, CallError, Code, Runner
from optimizer.measure.statistics import FEW, paired_ratio
from optimizer.measure.timed_original import QUIET_SECONDS, Reference, TimedOriginal, TimingMemory, calls_of_a_sample
from optimizer.measure.worker import Step
from optimizer.measure.workload import size_text
from optimizer.verdict import Reason

SLOW_ROUNDS = 2
"""At least, when calls are slow; the first one counts then."""
NARROW = 0.01
"""A ratio that is known this well needs no more rounds."""
SLOWDOWN_ALLOWED = 20.0
"""How much longer than its first call a candidate's later ones may take before it is killed."""
HIDDEN_PART = 0.3
"""A larger part of a sample's time by this clock must not be missing in what the process says that it took, ..."""
HIDDEN_SECONDS = 0.005
"""... and neither must more seconds; what restoring the inputs takes is known and does not count."""
CLOCK_TOLERANCE = 1.01
OVERHEAD_MULTIPLE = 2.0
"""How much longer restoring the inputs may take where others have used the caches meanwhile."""
BUSY_PROCESSORS = 0.2
SLOWED = 2.0
"""How many times longer than alone the original may take beside candidates; ..."""
PLAINLY_SLOWED = 5.0
"""... a busy machine cannot explain so many."""
TOLERANCES = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-4}
"""Relative to an array's largest magnitude; the precise comparison was made on smaller inputs."""


class Stopwatch:
    """One timing window."""

    def __init__(
        self,
        runner: Runner,
        clean_runner: Runner,
        memory: TimingMemory,
        command: TimeCommand,
        module: Path,
        until: float,
    ) -> None:
        """Contestants run on `runner`, and nothing but the original ever runs on `clean_runner`.

        `module` is the file of the original's source; `until` is a time of `time.monotonic()`.
        """
        self._runner, self._clean_runner, self._memory = runner, clean_runner, memory
        self._is_clean = runner is clean_runner
        self._command, self._workload, self._until = command, command.workload, until
        self._original = TimedOriginal(clean_runner, memory, self._workload, command.seed, module, until)
        self._guarded = self._original.guarded
        self._keys: list[str] = []
        self._hidden: list[list[float]] = [[] for _ in command.codes]
        """For each contestant the parts of its samples' time that it does not own up to."""
        self._originals: list[float] = []
        """Seconds of the original's calls: at most, where it is alone, and at least, where it is beside candidates."""

    def run(self) -> TimeReport:
        """Raises `WorkerFailure` for a candidate that is wrong at this size, or whose time cannot be believed."""
        reference, is_fresh = self._original.reference()
        self._guarded.restore()
        self._runner.load(self._guarded, self._original_step("handing over inputs"), self._workload.written)
        self._keys = [self._built(number) for number in range(len(self._command.codes))]
        load = OtherLoad(self._runner.worker.own_process_id)
        try:
            # The original comes first among the contestants and last here: a bad candidate must not cost its time.
            first = [self._first(number, reference, is_fresh) for number in reversed(range(len(self._keys)))][::-1]
            calls = [calls_of_a_sample(seconds) for seconds in first]
            rounds = self._rounds(first, calls, reference)
        except WorkerFailure as failure:
            failure.other_load = load.processors()
            raise
        other_load = load.processors()
        self._check_clock()
        self._check_original(other_load)
        self._look_afresh(rounds, reference)
        return TimeReport(
            seconds=tuple(tuple(samples) for samples in rounds),
            original_seconds=reference.seconds,
            calls=tuple(calls),
            input_bytes=bytes_of(self._original.values),
            other_load=other_load,
            is_original_compiled=reference.is_compiled,
        )

    def _built(self, number: int) -> str:
        code = self._command.codes[number]
        if code is None:
            return self._runner.build(self._original.code, self._original_step("compiling the original"))
        seconds = min(self._command.build_seconds, self._left)
        step = Step("compiling", seconds, self._blamed(number), Reason.BUILD_FAILED)
        return self._runner.build(Code(Form.CANDIDATE, code, self._workload.function), step)

    @property
    def _left(self) -> float:
        return self._until - time.monotonic()

    def _is_original(self, number: int) -> bool:
        return self._command.codes[number] is None

    def _blamed(self, number: int) -> int | None:
        return None if self._is_original(number) else number

    def _original_step(self, what: str) -> Step:
        return self._original.step(what)

    def _step(self, number: int, allowance: float) -> Step:
        if self._is_original(number):
            return self._original_step("the original")
        seconds = min(allowance, self._left)
        return Step(f"a call at {size_text(self._workload.sizes)}", seconds, number, Reason.TOO_SLOW)

    def _first(self, number: int, reference: Reference, is_fresh: bool) -> float:
        """Seconds of the first call, which warms everything up."""
        if self._is_original(number) and is_fresh and self._is_clean:
            return reference.seconds
        step = self._step(number, self._command.cutoff)
        called = self._call(self._runner, self._keys[number], step, threads=self._command.threads)
        self._look(number, called, reference, is_first=True)
        return called.report.seconds

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
        step = self._step(number, max(self._command.cutoff, SLOWDOWN_ALLOWED * first) * calls)
        # After somebody else's long call restoring takes much longer than it does in `Reference.overhead`.
        self._runner.restore(step)
        called = self._call(
            self._runner,
            self._keys[number],
            step,
            threads=self._command.threads,
            calls=calls,
            is_restored=True,
            pause=QUIET_SECONDS,
        )
        self._look(number, called, reference)
        if self._is_original(number):
            self._originals.append(called.report.seconds / calls if self._is_clean else called.undisturbed)
        return called.report.seconds / calls

    def _look(self, number: int, called: Called, reference: Reference, *, is_first: bool = False) -> None:
        """At what the last call left behind, and at the clock."""
        self._compare_clocks(number, called, reference)
        step = self._step(number, self._left)
        written = self._workload.written
        self._runner.receive(self._guarded, step, None if is_first else written)
        if array := self._guarded.overrun():
            raise self._failure(number, Reason.OUT_OF_BOUNDS, f"it writes outside of {array}")
        if is_first and (array := self._guarded.modified(written)):
            raise self._failure(number, Reason.MODIFIED_INPUT, f"it changes {array}, which is only an input")
        results = arrays_of(self._guarded.values, written, copy=False)
        if called.report.returned:
            results = {name: array.copy() for name, array in results.items()}
            results |= self._runner.returned(called.report, self._guarded, step, reference.results)
            self._guarded.restore()
            self._runner.load(self._guarded, step, written)
        difference = self._difference(results, reference.results)
        if difference and (
            self._workload.is_strict or self._is_original(number) or self._original.is_comparable(reference)
        ):
            raise self._failure(number, Reason.WRONG_RESULT, str(difference))
        if is_first:
            self._guarded.restore(written)
            self._runner.load(self._guarded, step, written)

    def _compare_clocks(self, number: int, called: Called, reference: Reference) -> None:
        seconds, elapsed = called.report.seconds, called.elapsed
        if not 0 < seconds <= CLOCK_TOLERANCE * elapsed:
            detail = f"calls that took {elapsed:.3g} s took {seconds:.3g} s by the clock of their process"
            raise self._failure(number, Reason.SUSPICIOUS, detail)
        hidden = called.visible - seconds - OVERHEAD_MULTIPLE * called.calls * reference.overhead
        self._hidden[number].append(hidden / (hidden + seconds) if hidden > HIDDEN_SECONDS else 0.0)

    def _check_clock(self) -> None:
        for number, parts in enumerate(self._hidden):
            if parts and (hidden := median(parts)) > HIDDEN_PART:
                detail = f"{hidden:.0%} of the time that calls take is missing by the clock of their process"
                raise self._failure(number, Reason.SUSPICIOUS, detail)

    def _check_original(self, other_load: float) -> None:
        """Whether the original takes about as long beside candidates as it does alone; remembers how long that is."""
        if not self._originals:
            return
        seconds, key = median(self._originals), self._workload.key
        if self._is_clean:
            self._memory.originals[key] = seconds
            return
        if key not in self._memory.originals or seconds <= SLOWED * self._memory.originals[key]:
            return
        # The machine may be slower than it was.
        alone = self._original.seconds_alone()
        if seconds <= SLOWED * alone:
            return
        detail = f"it takes {seconds:.3g} s beside candidates, and {alone:.3g} s alone"
        if other_load > BUSY_PROCESSORS and seconds <= PLAINLY_SLOWED * alone:
            raise InfrastructureError(f"the original: {detail}; the machine is too busy to tell why")
        raise self._failure(0, Reason.SUSPICIOUS, detail)

    def _look_afresh(self, rounds: list[list[float]], reference: Reference) -> None:
        """Whether candidates that are faster than the original are so where they could not prepare for it.

        The first of several contestants is who the others are compared with, and was looked at when it was new.
        """
        command, original_step = self._command, self._original_step("the original on fresh inputs")
        observer = Observer(
            self._runner,
            self._clean_runner,
            self._original.code,
            self._workload,
            command.threads,
            self._original.values,
            self._call,
            self._difference,
        )
        for number in range(min(1, len(self._keys) - 1), len(self._keys)):
            claimed = median(samples[number] for samples in rounds)
            if self._is_original(number) or claimed >= reference.seconds:
                continue
            step = self._step(number, SLOWDOWN_ALLOWED * max(command.cutoff, reference.seconds))
            known = (reference.results, reference.seconds)
            look = observer.looks(self._keys[number], (step, original_step), claimed, known, self._memory.fresh)
            place = f"on fresh inputs (seed {look.seed})"
            if look.difference and (self._workload.is_strict or self._original.is_comparable(reference)):
                raise self._failure(number, Reason.WRONG_RESULT, f"{place}: {look.difference}")
            if look.seconds > look.allowed:
                detail = f"a call {place} takes {look.seconds:.3g} s, one of the rounds {claimed:.3g} s"
                if look.other_load > BUSY_PROCESSORS and look.seconds <= PLAINLY_SLOWED * look.allowed:
                    raise InfrastructureError(f"{detail}; the machine is too busy to tell why")
                raise self._failure(number, Reason.SUSPICIOUS, detail)

    def _call(self, runner: Runner, key: str, step: Step, **options: Any) -> Called:
        try:
            return runner.call(key, step, **options)
        except CallError as error:
            if step.contestant is None:
                raise InfrastructureError(f"{step.what} raises {error.text}") from error
            if error.kind == "memory":
                raise self._failure(step.contestant, Reason.OUT_OF_MEMORY, "no memory left") from error
            # The original ran on these inputs, so whatever the candidate raises, its result is wrong.
            detail = f"it raises {error.text}, where the original does not"
            raise self._failure(step.contestant, Reason.WRONG_RESULT, detail) from error

    def _difference(self, results: Results, expected: Results) -> Difference | None:
        difference = bit_difference(results, expected)
        if difference is None or self._workload.is_strict:
            return difference
        return scale_difference(results, expected, TOLERANCES)

    def _failure(self, number: int, reason: Reason, what: str) -> LoopwrightError:
        place = f"at {size_text(self._workload.sizes)}"
        if not self._is_original(number):
            return WorkerFailure(reason, f"{place}: {what}", contestant=number)
        if len(self._command.codes) == 2:
            detail = f"{place}: the original misbehaves in its process: {what}"
            return WorkerFailure(Reason.SUSPICIOUS, detail, contestant=1)
        return InfrastructureError(f"{place}: the original misbehaves in the process of the candidates: {what}")
