"""One more call of a candidate that was timed, on inputs that it could not foresee and by this side's clock alone.

The rounds of a timing window run on the same inputs again and again, several calls to a sample, and the process of the
candidates reads the clock. Whoever rules this process can keep the results of inputs that it has seen, do the work of
the last call of a sample only, or do it while the clock stands: before the call, when the inputs arrive, or after it,
when the results are asked for. All of that shows here. The seed of the inputs is drawn when they are needed, the
original runs on them only afterwards, and everything counts that happens from the moment they are handed over until
the results are there, less what this takes around the original's call in the clean process.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from optimizer.measure.comparison import Difference, Results, arrays_of
from optimizer.measure.guards import GuardedArguments
from optimizer.measure.inputs import Values, make_values, perturbed
from optimizer.measure.load import OtherLoad, scheduling
from optimizer.measure.recent import Recent
from optimizer.measure.runner import Called, Code, Runner
from optimizer.measure.worker import Step
from optimizer.measure.workload import Workload

LOOKS = 5
BRIEF_LOOKS = 30
"""So often at most, each time on other inputs, because the machine may have been busy; brief calls suffer the most."""
HANDLING_TIMES = 4
"""So often handling is timed, of which the shortest counts: the longer it seems to be, the more could hide in it."""
BRIEF_SECONDS = 0.1
"""Calls of an original that takes longer are not brief, and its handling is timed once: it matters less."""
SLOW_SECONDS = 1.0
"""An original that takes longer runs on one set of inputs only, which all its candidates meet."""
TIME_MULTIPLE = 2.0
"""A single call on cold caches may take so many times what it took in the rounds, ..."""
SMALLEST_SECONDS = 0.002
"""... so much more, ..."""
HANDLING_PART = 0.25
"""... and this part of the time for handing over and taking back, which varies."""
LARGEST_SEED = 2**32


class Call(Protocol):
    """Calls the function of a key; raises what becomes of an exception in it."""

    def __call__(self, runner: Runner, key: str, step: Step, *, threads: int = 1) -> Called: ...


@dataclass(frozen=True, slots=True)
class Expected:
    """What the original did with fresh inputs."""

    results: Results
    handling: float
    """Seconds for handing over the inputs and taking the results."""


@dataclass(frozen=True, slots=True)
class FreshMemory:
    """What is kept of originals that are slow."""

    seed: int = field(default_factory=lambda: secrets.randbelow(LARGEST_SEED))
    expected: Recent[Expected] = field(default_factory=lambda: Recent(1))


@dataclass(frozen=True, slots=True)
class Look:
    """What one look showed."""

    seed: int
    difference: Difference | None
    """Between the candidate's results and the original's."""
    seconds: float
    """The candidate's, ..."""
    allowed: float
    """... and what they may be at most."""
    other_load: float = 0.0
    """Processors that were busy with something else during all looks."""


@dataclass(frozen=True, slots=True)
class Observer:
    """Takes fresh looks at the candidates of a timing window."""

    runner: Runner
    """Of the candidates."""
    clean_runner: Runner
    original: Code
    workload: Workload
    threads: int
    timed: Values
    """What the rounds ran on."""
    call: Call
    compare: Callable[[Results, Results], Difference | None]

    def looks(
        self, key: str, steps: tuple[Step, Step], claimed: float, reference: tuple[Results, float], memory: FreshMemory
    ) -> Look:
        """The last of the looks at a candidate whose calls took `claimed` seconds in the rounds.

        `steps` are the candidate's and the original's; `reference` is what the original left behind on the inputs of
        the rounds, and its seconds.
        """
        results, seconds = reference
        if seconds > SLOW_SECONDS:
            return self._look(key, steps, claimed, results, memory.seed, memory.expected)
        load, looks = OtherLoad(self.runner.worker.own_process_id), 0
        most = LOOKS if seconds > BRIEF_SECONDS else BRIEF_LOOKS
        while True:
            look = self._look(key, steps, claimed, results, secrets.randbelow(LARGEST_SEED), Recent(1))
            looks += 1
            if look.difference or look.seconds <= look.allowed or looks == most:
                return replace(look, other_load=load.processors())

    def _look(
        self,
        key: str,
        steps: tuple[Step, Step],
        claimed: float,
        like: Mapping[str, Any],
        seed: int,
        kept: Recent[Expected],
    ) -> Look:
        values = self._fresh(seed)
        guarded = GuardedArguments(values)
        if claimed <= BRIEF_SECONDS:
            # What it knows already comes first, so that neither its threads nor caches have to wake up for the rest.
            self._turn(self.runner, key, GuardedArguments(self.timed), steps[0], self.threads, like)
        results, elapsed, _ = self._turn(self.runner, key, guarded, steps[0], self.threads, like)
        expected = kept.get(self.workload.key, lambda: self._expected(guarded, steps[1]))
        allowed = TIME_MULTIPLE * claimed + SMALLEST_SECONDS + HANDLING_PART * expected.handling
        return Look(seed, self.compare(results, expected.results), elapsed - expected.handling, allowed)

    def _fresh(self, seed: int) -> Values:
        values = make_values(self.workload, seed)
        # Inputs from a file, and some that kernels bring, are the same for every seed.
        is_same = all(np.array_equal(value, self.timed[name], equal_nan=True) for name, value in values.items())
        return perturbed(values, seed) if is_same else values

    def _expected(self, guarded: GuardedArguments, step: Step) -> Expected:
        guarded.restore()
        # Twice, because the process has to make room for them the first time.
        self.clean_runner.load(guarded, step)
        key = self.clean_runner.build(self.original, step)
        results, elapsed, seconds = self._turn(self.clean_runner, key, guarded, step, 1, None)
        handling = elapsed - seconds
        for _ in range(HANDLING_TIMES - 1 if seconds <= BRIEF_SECONDS else 0):
            guarded.restore()
            _, elapsed, seconds = self._turn(self.clean_runner, key, guarded, step, 1, None)
            handling = min(handling, elapsed - seconds)
        self.clean_runner.unload(step)
        return Expected(results, max(0.0, handling))

    def _turn(
        self,
        runner: Runner,
        key: str,
        guarded: GuardedArguments,
        step: Step,
        threads: int,
        like: Mapping[str, Any] | None,
    ) -> tuple[Results, float, float]:
        """Results; seconds of all of it by this side's clock; seconds of the call alone by the process's clock.

        Time that the process's main thread or this one waited for a processor is the machine's, and not counted.
        """
        process, own = runner.worker.own_process_id or 0, (os.getpid(), threading.get_native_id())
        before, before_here = scheduling(process, process), scheduling(*own)
        start = time.perf_counter()
        runner.load(guarded, step)
        called = self.call(runner, key, step, threads=threads)
        runner.receive(guarded, step, self.workload.written)
        results = arrays_of(guarded.values, self.workload.written)
        results |= runner.returned(called.report, guarded, step, like)
        elapsed = time.perf_counter() - start
        its, ours = scheduling(process, process).since(before), scheduling(*own).since(before_here)
        # What it executed is certain, however much they waited, at times both at once.
        return results, max(its.executed, elapsed - its.waited - ours.waited), called.undisturbed
