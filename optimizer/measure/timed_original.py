"""The original at the timed size, in a process where no candidate has ever run: what it leaves behind, and how long it
takes there.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from optimizer.errors import InfrastructureError, UserError
from optimizer.measure.commands import Form
from optimizer.measure.comparison import Results, arrays_of
from optimizer.measure.fresh_look import FreshMemory
from optimizer.measure.guards import GuardedArguments
from optimizer.measure.inputs import Values, make_values
from optimizer.measure.recent import Recent
from optimizer.measure.references import sensitivity_of
from optimizer.measure.runner import Called, CallError, Code, Runner
from optimizer.measure.worker import Step
from optimizer.measure.workload import Workload, size_text

SAMPLE_SECONDS = 0.02
"""A sample is as many calls as take about so long, far above the clock's step and the cost of a call."""
MOST_CALLS = 2000
FEWEST_EMPTY_CALLS = 5
QUIET_SECONDS = 0.0005
"""What this side needs to go to sleep; it must not do so on a processor that is being timed."""
KEPT_REFERENCES = 2
KEPT_RESULTS = 256


@dataclass(frozen=True, slots=True)
class Reference:
    """What the original leaves behind on the timed inputs."""

    results: Results
    seconds: float
    """Of that call."""
    overhead: float
    """What a call takes besides the function: restoring the arrays, by this process's clock."""
    is_compiled: bool = True
    """Whether Numba can compile the original; else it runs as plain Python, with NumPy."""


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


class TimedOriginal:
    """The original of one timing window."""

    def __init__(
        self, runner: Runner, memory: TimingMemory, workload: Workload, seed: int, module: Path, until: float
    ) -> None:
        """Nothing but originals ever runs on `runner`.

        `seed` is that of the inputs, `module` the file of the source; `until` is a time of `time.monotonic()`.
        """
        self._runner, self._memory, self._workload = runner, memory, workload
        self._seed, self._until = seed, until
        self._is_compiled = True
        self.code = Code(Form.ORIGINAL, str(module), workload.function, workload)
        self.values = memory.values.get((workload.key, seed), lambda: make_values(workload, seed))
        self.guarded = GuardedArguments(self.values)
        """The inputs, for whoever runs on them next; changed by every call that is looked at."""

    def step(self, what: str) -> Step:
        return Step(f"{what} at {size_text(self._workload.sizes)}", self._until - time.monotonic())

    def reference(self) -> tuple[Reference, bool]:
        """What the original does in the clean process, and whether it had to run for that just now."""
        is_fresh = False

        def run() -> Reference:
            nonlocal is_fresh
            is_fresh = True
            results, seconds = self._run_original(self.values)
            return Reference(results, seconds, self._overhead(), self._is_compiled)

        return self._memory.references.get((self._workload.key, self._seed), run), is_fresh

    def _overhead(self) -> float:
        """What a call in the clean process takes when the function does nothing."""
        step = self.step("a function that does nothing")
        self._runner.load(self.guarded, step, self._workload.written)
        key = self._runner.build(Code(Form.NOTHING, "", ""), step)
        seconds, calls = math.inf, FEWEST_EMPTY_CALLS
        while calls:
            called = self._runner.call(key, step, calls=calls, is_restored=True)
            seconds = max(called.visible, 1e-6) / calls
            # As many as make the cost of asking small, if those were too few.
            wanted = min(MOST_CALLS, math.ceil(SAMPLE_SECONDS / seconds))
            calls = wanted if wanted > 2 * calls else 0
        self._runner.unload(step)
        return seconds

    def _run_original(self, values: Values) -> tuple[Results, float]:
        """One call in the clean process, and its seconds."""
        guarded = self.guarded if values is self.values else GuardedArguments(values)
        guarded.restore()
        step = self.step("the original")
        self._runner.load(guarded, step)
        if self._workload.data_decide:
            self._try_checked(step)
            self._runner.load(guarded, step)
        key = self._runner.build(self.code, step)
        self._is_compiled = self._runner.is_compiled(key)
        called = self._call(key, step)
        self._runner.receive(guarded, step)
        results = arrays_of(guarded.values, self._workload.written)
        results |= self._runner.returned(called.report, guarded, step, None)
        self._runner.unload(step)
        return results, called.report.seconds

    def _try_checked(self, step: Step) -> None:
        """Raises `UserError` for inputs on which the original leaves its arrays."""
        code = replace(self.code, form=Form.CHECKED)
        try:
            self._runner.call(self._runner.build(code, step), step)
        except CallError as error:
            what = f"{self._workload.function} at {size_text(self._workload.sizes)} leaves its arrays ({error.text})"
            raise UserError(
                f"{what} on the inputs that were drawn, as data decide about its subscripts: "
                "call `loopwright.optimize` from Python with arguments of yours"
            ) from error
        # What it wrote is taken back by those who load the arguments again.

    def seconds_alone(self) -> float:
        """Of a call of the original in the clean process, now."""
        step = self.step("the original")
        self.guarded.restore()
        self._runner.load(self.guarded, step, self._workload.written)
        key = self._runner.build(self.code, step)
        first = self._call(key, step).report.seconds
        calls = calls_of_a_sample(first)
        sample = self._call(key, step, calls=calls, is_restored=True, pause=QUIET_SECONDS)
        self._runner.unload(step)
        return sample.report.seconds / calls

    def is_comparable(self, reference: Reference) -> bool:
        """Whether the original's own results do not change as much when the last bit of its inputs does."""

        def run() -> bool:
            return (
                sensitivity_of(lambda values: self._run_original(values)[0], self.values, reference.results) is not None
            )

        return self._memory.comparable.get((self._workload.key, self._seed), run)

    def _call(self, key: str, step: Step, **options: Any) -> Called:
        try:
            return self._runner.call(key, step, **options)
        except CallError as error:
            raise InfrastructureError(f"{step.what} raises {error.text}") from error


def calls_of_a_sample(seconds: float) -> int:
    """How many calls of `seconds` each make a sample."""
    return max(1, min(MOST_CALLS, math.ceil(SAMPLE_SECONDS / seconds)))
