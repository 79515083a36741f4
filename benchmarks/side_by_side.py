"""Times functions side by side on the same inputs: in turns, in one process that has nothing else to do.

What they compute is compared before anything is timed: a function that differs from the first one has no time.
"""

from __future__ import annotations

import gc
import importlib.util
import random
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from enum import StrEnum
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from optimizer.measure.comparison import Results, arrays_of, named_results, scale_difference
from optimizer.measure.inputs import Values, make_values
from optimizer.measure.timed_original import QUIET_SECONDS
from optimizer.measure.timing import TOLERANCES
from optimizer.measure.workload import Workload

LEAST_ROUNDS, MOST_ROUNDS = 5, 300
SLOW_SECONDS = 1.0
"""A plain Python function that takes longer is called once."""


class Form(StrEnum):
    """How a function is run."""

    NUMPY = "numpy"
    """As it stands, interpreted."""
    EXPORTED = "exported"
    """As it stands, compiled at its first call."""
    NJIT = "njit"
    """Compiled by `numba.njit`."""
    PARALLEL = "parallel"
    """Compiled by `numba.njit(parallel=True)`."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """A function of a file."""

    file: Path
    function: str
    form: Form = Form.NUMPY


@dataclass(frozen=True, slots=True)
class Timing:
    """What came of a contestant."""

    seconds: tuple[float, ...] = ()
    """Of one call in each round; of one call alone where a plain Python function is slow; none after a failure."""
    failure: str = ""
    """Why it cannot be run, or where its results differ from those of the first contestant."""


def side_by_side(
    contestants: Sequence[Contestant], workload: Workload, threads: int, seconds: float
) -> tuple[Timing, ...]:
    """Time all of them for about so many seconds, on as many threads, on the workload's arguments."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        try:
            return process.submit(_time_all, tuple(contestants), workload, threads, seconds).result()
        except BrokenProcessPool:
            return (Timing(failure="the process was killed"),) * len(contestants)


def _time_all(
    contestants: tuple[Contestant, ...], workload: Workload, threads: int, seconds: float
) -> tuple[Timing, ...]:
    import numba

    warnings.simplefilter("ignore")
    numba.set_num_threads(threads)
    course = _Course(workload)
    samples: list[list[float]] = []
    failures: list[str] = []
    callables: list[Callable[..., Any]] = []
    expected: Results | None = None
    for contestant in contestants:
        function, results, first, failure = course.first(contestant)
        expected = expected or results
        if not failure and (difference := scale_difference(_as(expected, results), expected, TOLERANCES)):
            failure = str(difference)
        callables.append(function)
        failures.append(failure)
        samples.append([first] if contestant.form is Form.NUMPY and first > SLOW_SECONDS and not failure else [])
    racing = [k for k, failure in enumerate(failures) if not failure and not samples[k]]
    rng = random.Random(0)
    start, rounds = time.perf_counter(), 0
    gc.disable()
    while racing and (rounds < LEAST_ROUNDS or (rounds < MOST_ROUNDS and time.perf_counter() - start < seconds)):
        for k in rng.sample(racing, len(racing)):
            samples[k].append(course.call(callables[k])[0])
        rounds += 1
    return tuple(Timing(tuple(own), failure) for own, failure in zip(samples, failures, strict=True))


class _Course:
    """The arguments, which every call finds as they were."""

    def __init__(self, workload: Workload) -> None:
        self._written = workload.written
        self._given = make_values(workload, seed=0)
        self._values: Values = {name: np.copy(v) if isinstance(v, np.ndarray) else v for name, v in self._given.items()}

    def call(self, function: Callable[..., Any]) -> tuple[float, Any]:
        """Seconds of one call, and what it returned."""
        for name in self._written:
            np.copyto(self._values[name], self._given[name])
        time.sleep(QUIET_SECONDS)
        start = time.perf_counter()
        returned = function(*self._values.values())
        return time.perf_counter() - start, returned

    def first(self, contestant: Contestant) -> tuple[Callable[..., Any], Results, float, str]:
        """The function, what it computes, the seconds of a call once it is compiled, and why it cannot be run."""
        try:
            function = _function(contestant)
            seconds, returned = self.call(function)
            if contestant.form is not Form.NUMPY or seconds < SLOW_SECONDS:
                seconds, returned = self.call(function)
        except Exception as error:  # Numba raises many kinds of errors for what it cannot compile.
            text = " ".join(str(error).split())
            return _nothing, {}, 0.0, f"{type(error).__name__}: {text[:200]}"
        parts = () if returned is None else returned if isinstance(returned, tuple) else (returned,)
        results = arrays_of(self._values, self._written) | named_results(parts, is_tuple=isinstance(returned, tuple))
        return function, results, seconds, ""


def _function(contestant: Contestant) -> Callable[..., Any]:
    import numba

    # Numba's cache finds its functions by the module's name, in the next process too.
    name = f"side_by_side_{contestant.file.stem}"
    specification = importlib.util.spec_from_file_location(name, contestant.file)
    if specification is None or specification.loader is None:
        raise ImportError(f"{contestant.file} is no Python file")
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module  # Numba looks modules up there.
    specification.loader.exec_module(module)
    function = getattr(module, contestant.function)
    match contestant.form:
        case Form.NUMPY | Form.EXPORTED:
            return function
        case Form.NJIT:
            return numba.njit(function)
        case Form.PARALLEL:
            return numba.njit(parallel=True)(function)


def _nothing(*_: Any) -> None:
    raise AssertionError("a contestant that failed is not called")


def _as(expected: Results, results: Results) -> Results:
    """The results in the types that are expected: Numba makes float64 of some that NumPy leaves in float32."""
    return {
        name: value.astype(expected[name].dtype)
        if name in expected and value.dtype.kind == expected[name].dtype.kind
        else value
        for name, value in results.items()
    }
