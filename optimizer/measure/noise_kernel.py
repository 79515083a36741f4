"""Times equal pieces of work (in the worker), to see how equal the times are."""

from __future__ import annotations

import time

import numba

from optimizer.measure.commands import NoiseCommand, NoiseReport
from optimizer.measure.load import OtherLoad, is_pinned

CALL_SECONDS = 0.005


def measure_noise(command: NoiseCommand, threads: int) -> NoiseReport:
    """Run a piece of work of some milliseconds `command.calls` times."""
    _spin(1)
    count = 100_000
    while (seconds := _seconds(count)) < CALL_SECONDS / 2:
        count *= 2
    count = max(1, int(count * CALL_SECONDS / seconds))
    load = OtherLoad()
    samples = tuple(_seconds(count) for _ in range(command.calls))
    return NoiseReport(samples, _timer_step(), is_pinned(threads), load.processors())


@numba.njit
def _spin(count: int) -> float:
    """A chain of operations that the compiler cannot shorten."""
    value = 1.0
    for i in range(count):
        value = value * 0.999999 + i
    return value


def _seconds(count: int) -> float:
    start = time.perf_counter()
    _spin(count)
    return time.perf_counter() - start


def _timer_step() -> float:
    """The smallest difference between two readings of the clock that are not equal."""
    steps: list[float] = []
    for _ in range(1000):
        start = time.perf_counter()
        while (now := time.perf_counter()) == start:
            pass
        steps.append(now - start)
    return min(steps)
