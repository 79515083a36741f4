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

import math
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from optimizer.errors import InfrastructureError, LoopwrightError
from optimizer.measure.commands import Form, TimeCommand, TimeReport
from optimizer.measure.comparison import Difference, Results, arrays_of, bit_difference, scale_difference
from optimizer.measure.failure import WorkerFailure
from optimizer.measure.fresh_look import FreshMemory, Observer
from optimizer.measure.guards import GuardedArguments
from optimizer.measure.inputs import Values, bytes_of, make_values
from optimizer.measure.load import OtherLoad
from optimizer.measure.recent import Recent
from optimizer.measure.references import sensitivity_of
from optimizer.measure.runner import Called, CallError, Code, Runner
from optimizer.measure.statistics import FEW, paired_ratio
from optimizer.measure.worker import Step
from optimizer.measure.workload import size_text
from optimizer.verdict import Reason

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
"""What this side needs to go to sleep; it must not do so on a processor that is being timed."""
HIDDEN_PART = 0.3
"""A larger part of a sample's time by this clock must not be missing in what the process says that it took, ..."""
HIDDEN_SECONDS = 0.005
"""... and neither must more seconds; what restoring the inputs takes is known and does not count."""
CLOCK_TOLERANCE = 1.01
FEWEST_EMPTY_CALLS = 5
OVERHEAD_MULTIPLE = 2.0
"""How much longer restoring the inputs may take where others have used the caches meanwhile."""
BUSY_PROCESSORS = 0.2
SLOWED = 2.0
"""How many times longer than alone the original may take beside candidates; ..."""
PLAINLY_SLOWED = 5.0
"""... a busy machine cannot explain so many."""
KEPT_REFERENCES = 2
KEPT_RESULTS = 256
TOLERANCES = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-4}
"""Relative to an array's largest magnitude; the precise comparison was made on smaller inputs."""


@dataclass(frozen=True, slots=True)
class Reference:
    """What the original leaves behind on the timed inputs."""

    results: Results
    seconds: float
    """Of that call."""
    overhead: float
    """What a call takes besides the function: restoring the arrays, by this process's clock."""


@dataclass(frozen=True, slots=True)
class TimingMemory:
    """What timing windows share."""

    originals: dict[str, float] = field(default_factory=dict[str, float])
    """Seconds of the original in the clean process, by the workload's key."""

    values: Recent[Values] = field(default_factory=lambda: Recent(1))
    references: Recent[Reference] = field(default_factory=lambda: Recent(KEPT_REFERENCES))
    """Large arrays."""
    comparable: Recent[bool] = field(default_factory=lambda: Recent(KEPT_RESULTS))
    fresh: FreshMemory = field(default_factory=FreshMemory)


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
        self._command, self._workload, self._until = command, command.workload, until
        self._original = Code(Form.ORIGINAL, str(module), self._workload.function, self._workload)
        self._values = memory.values.get(
            (self._workload.key, command.seed), lambda: make_values(self._workload, command.seed)
        )
        self._guarded = GuardedArguments(self._values)
        self._keys: list[str] = []
        self._hidden: list[list[float]] = [[] for _ in command.codes]
        """For each contestant the parts of its samples' time that it does not own up to."""
        self._originals: list[float] = []
        """Seconds of the original's calls: at most, where it is alone, and at least, where it is beside candidates."""

    def run(self) -> TimeReport:
        """Raises `WorkerFailure` for a candidate that is wrong at this size, or whose time cannot be believed."""
        reference, is_fresh = self._reference()
        self._guarded.restore()
        self._runner.load(self._guarded, self._original_step("handing over inputs"))
        self._keys = [self._built(number) for number in range(len(self._command.codes))]
        load = OtherLoad(self._runner.worker.own_process_id)
        # The original comes first among the contestants and last here: a bad candidate must not cost its time.
        first = [self._first(number, reference, is_fresh) for number in reversed(range(len(self._keys)))][::-1]
        calls = [max(1, min(MOST_CALLS, math.ceil(SAMPLE_SECONDS / seconds))) for seconds in first]
        rounds = self._rounds(first, calls, reference)
        other_load = load.processors()
        self._check_clock()
        self._check_original(other_load)
        self._look_afresh(rounds, reference)
        return TimeReport(
            seconds=tuple(tuple(samples) for samples in rounds),
            original_seconds=reference.seconds,
            calls=tuple(calls),
            input_bytes=bytes_of(self._values),
            other_load=other_load,
        )

    def _built(self, number: int) -> str:
        code = self._command.codes[number]
        if code is None:
            return self._runner.build(self._original, self._original_step("compiling the original"))
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
        return Step(f"{what} at {size_text(self._workload.sizes)}", self._left)

    def _step(self, number: int, allowance: float) -> Step:
        if self._is_original(number):
            return self._original_step("the original")
        seconds = min(allowance, self._left)
        return Step(f"a call at {size_text(self._workload.sizes)}", seconds, number, Reason.TOO_SLOW)

    def _reference(self) -> tuple[Reference, bool]:
        """What the original does in the clean process, and whether it had to run for that just now."""
        is_fresh = False

        def run() -> Reference:
            nonlocal is_fresh
            is_fresh = True
            results, seconds = self._run_original(self._values)
            return Reference(results, seconds, self._overhead())

        return self._memory.references.get((self._workload.key, self._command.seed), run), is_fresh

    def _overhead(self) -> float:
        """What a call in the clean process takes when the function does nothing."""
        step = self._original_step("a function that does nothing")
        self._clean_runner.load(self._guarded, step)
        key = self._clean_runner.build(Code(Form.NOTHING, "", ""), step)
        seconds, calls = math.inf, FEWEST_EMPTY_CALLS
        while calls:
            called = self._clean_runner.call(key, step, calls=calls, restored=self._workload.written)
            seconds = max(called.visible, 1e-6) / calls
            # As many as make the cost of asking small, if those were too few.
            wanted = min(MOST_CALLS, math.ceil(SAMPLE_SECONDS / seconds))
            calls = wanted if wanted > 2 * calls else 0
        self._clean_runner.unload(step)
        return seconds

    def _run_original(self, values: Values) -> tuple[Results, float]:
        """One call in the clean process, and its seconds."""
        guarded = self._guarded if values is self._values else GuardedArguments(values)
        guarded.restore()
        step = self._original_step("the original")
        self._clean_runner.load(guarded, step)
        called = self._call(self._clean_runner, self._clean_runner.build(self._original, step), step)
        self._clean_runner.receive(guarded, step)
        results = arrays_of(guarded.values, self._workload.written)
        results |= self._clean_runner.returned(called, guarded, step, None)
        self._clean_runner.unload(step)
        return results, called.report.seconds

    def _first(self, number: int, reference: Reference, is_fresh: bool) -> float:
        """Seconds of the first call, which warms everything up."""
        if self._is_original(number) and is_fresh and self._runner is self._clean_runner:
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
        called = self._call(
            self._runner,
            self._keys[number],
            step,
            threads=self._command.threads,
            calls=calls,
            restored=self._workload.written,
            pause=QUIET_SECONDS,
        )
        self._look(number, called, reference)
        if self._is_original(number):
            is_clean = self._runner is self._clean_runner
            self._originals.append(called.report.seconds / calls if is_clean else called.undisturbed)
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
            results |= self._runner.returned(called, self._guarded, step, reference.results)
            self._guarded.restore()
            self._runner.load(self._guarded, step)
        difference = self._difference(results, reference.results)
        if difference and (self._workload.is_strict or self._is_original(number) or self._is_comparable(reference)):
            raise self._failure(number, Reason.WRONG_RESULT, str(difference))
        if is_first:
            self._guarded.restore(written)
            self._runner.load(self._guarded, step)

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
        if self._runner is self._clean_runner:
            self._memory.originals[key] = seconds
            return
        if key not in self._memory.originals or seconds <= SLOWED * self._memory.originals[key]:
            return
        # The machine may be slower than it was.
        alone = self._seconds_alone()
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
            self._original,
            self._workload,
            command.threads,
            self._values,
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
            if look.difference and (self._workload.is_strict or self._is_comparable(reference)):
                raise self._failure(number, Reason.WRONG_RESULT, f"{place}: {look.difference}")
            if look.seconds > look.allowed:
                detail = f"a call {place} takes {look.seconds:.3g} s, one of the rounds {claimed:.3g} s"
                if look.other_load > BUSY_PROCESSORS and look.seconds <= PLAINLY_SLOWED * look.allowed:
                    raise InfrastructureError(f"{detail}; the machine is too busy to tell why")
                raise self._failure(number, Reason.SUSPICIOUS, detail)

    def _seconds_alone(self) -> float:
        """Of a call of the original in the clean process, now."""
        step, written = self._original_step("the original"), self._workload.written
        self._guarded.restore()
        self._clean_runner.load(self._guarded, step)
        key = self._clean_runner.build(self._original, step)
        first = self._call(self._clean_runner, key, step).report.seconds
        calls = max(1, min(MOST_CALLS, math.ceil(SAMPLE_SECONDS / first)))
        sample = self._call(self._clean_runner, key, step, calls=calls, restored=written, pause=QUIET_SECONDS)
        self._clean_runner.unload(step)
        return sample.report.seconds / calls

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

    def _is_comparable(self, reference: Reference) -> bool:
        """Whether the original's own results do not change as much when the last bit of its inputs does."""

        def run() -> bool:
            return (
                sensitivity_of(lambda values: self._run_original(values)[0], self._values, reference.results)
                is not None
            )

        return self._memory.comparable.get((self._workload.key, self._command.seed), run)

    def _failure(self, number: int, reason: Reason, what: str) -> LoopwrightError:
        place = f"at {size_text(self._workload.sizes)}"
        if not self._is_original(number):
            return WorkerFailure(reason, f"{place}: {what}", contestant=number)
        if len(self._command.codes) == 2:
            detail = f"{place}: the original misbehaves in its process: {what}"
            return WorkerFailure(Reason.SUSPICIOUS, detail, contestant=1)
        return InfrastructureError(f"{place}: the original misbehaves in the process of the candidates: {what}")
