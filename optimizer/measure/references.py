"""What the original does on small inputs (in the worker): the results that candidates are compared with."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.measure.comparison import Results, largest_deviation, results_of, scale_of
from optimizer.measure.guards import GuardedArguments
from optimizer.measure.inputs import ValueKind, Values, make_values, perturbed
from optimizer.measure.loading import HAS_WIDE_FLOAT64, Function, plain_function, widened
from optimizer.measure.workload import Workload, size_text

if TYPE_CHECKING:
    from optimizer.measure.session import Session

WIDE_LIMIT_SECONDS = 0.0005
"""A size at which the compiled original takes longer is not evaluated in a wider type, which takes some thousand
times as long because it is plain Python; ..."""
WIDE_LIMIT_FURTHER = 0.0001
"""... and further seeds and values only at smaller ones yet."""
PERTURBATIONS = 2
ILL_CONDITIONED_POWER = 0.6
"""Inputs are of no use when their last bit changes results by more than the type's precision to this power (4e-10 for
float64)."""
CALL_ERRORS = (ArithmeticError, LookupError, ValueError, TypeError)
"""What a function may raise at sizes or values that it cannot take."""


@dataclass(frozen=True, slots=True)
class Case:
    """One set of inputs."""

    sizes: Mapping[str, int]
    seed: int
    kind: ValueKind

    def __str__(self) -> str:
        values = "" if self.kind is ValueKind.USUAL else f", {self.kind.value} values"
        return f"{size_text(self.sizes)}, seed {self.seed}{values}"


@dataclass(frozen=True, slots=True)
class PlainReference:
    """What the original leaves behind as plain Python."""

    results: Results
    seconds: float


@dataclass(frozen=True, slots=True)
class CompiledReference:
    """What the compiled original leaves behind."""

    results: Results
    seconds: float
    sensitivity: Mapping[str, float] | None
    """How much each result changes when the last bit of the inputs does; None when too much to compare roundings."""


class References:
    """The original of one workload; everything is computed once per session."""

    def __init__(self, session: Session, workload: Workload, first_seed: int) -> None:
        self._session, self._workload, self._first_seed = session, workload, first_seed

    def values(self, case: Case) -> Values:
        return make_values(self._workload.at(case.sizes), case.seed, case.kind)

    def trouble(self, case: Case) -> str:
        """Why the original cannot run in this case; empty when it can."""

        def run() -> str:
            self._session.runs_original(f"the original ({case})")
            try:
                self._run_plain(case)
            except CALL_ERRORS as error:
                return f"{type(error).__name__}: {error}"
            return ""

        return self._session.results.get(("trouble", *self._key(case)), run)

    def plain(self, case: Case) -> PlainReference | None:
        """None where the original raises on such values, as plain Python may where compiled code does not."""

        def run() -> PlainReference | None:
            self._session.runs_original(f"the original as plain Python ({case})")
            start = time.perf_counter()
            try:
                results = self._run_plain(case)
            except CALL_ERRORS:
                return None
            return PlainReference(results, time.perf_counter() - start)

        return self._session.results.get(("plain", *self._key(case)), run)

    def compiled(self, case: Case) -> CompiledReference | None:
        """None where the original writes outside of its arrays."""

        def run() -> CompiledReference | None:
            values = self.values(case)
            guarded = GuardedArguments(values)
            original = self._session.original(self._workload, guarded.arguments)
            self._session.runs_original(f"the original ({case})")
            start = time.perf_counter()
            returned = original(*guarded.arguments)
            seconds = time.perf_counter() - start
            if guarded.overrun():
                return None
            results = results_of(guarded.values, self._workload.written, returned)
            sensitivity = {} if self._workload.is_strict else sensitivity_of(self._workload, original, values, results)
            return CompiledReference(results, seconds, sensitivity)

        return self._session.results.get(("compiled", *self._key(case)), run)

    def wide(self, case: Case, seconds: float) -> Results | None:
        """The original in wider types, where those exist and the compiled original takes few `seconds`."""

        def run() -> Results | None:
            self._session.runs_original(f"the original in a wider type ({case})")
            values = {name: _widened(value) for name, value in self.values(case).items()}
            function = plain_function(self._workload.source, "original", self._workload.function, wide=True)
            try:
                return run_plain(function, values, self._workload.written)
            except CALL_ERRORS:
                return None

        is_first = case.seed == self._first_seed and case.kind is ValueKind.USUAL
        if seconds > (WIDE_LIMIT_SECONDS if is_first else WIDE_LIMIT_FURTHER) or not HAS_WIDE_FLOAT64:
            return None
        return self._session.results.get(("wide", *self._key(case)), run)

    def _run_plain(self, case: Case) -> Results:
        function = plain_function(self._workload.source, "original", self._workload.function)
        return run_plain(function, self.values(case), self._workload.written)

    def _key(self, case: Case) -> tuple[str, int, ValueKind]:
        return self._workload.at(case.sizes).key, case.seed, case.kind


def run_plain(function: Function, values: Values, written: tuple[str, ...]) -> Results:
    """One call as plain Python; floats become NumPy's, which divide by zero as compiled code does."""
    arguments = [np.float64(value) if isinstance(value, float) else value for value in values.values()]
    with np.errstate(all="ignore"):
        returned = function(*arguments)
    return results_of(values, written, returned)


def sensitivity_of(
    workload: Workload, original: Function, values: Values, results: Results
) -> Mapping[str, float] | None:
    """The largest change of each result when the last bit of the inputs changes.

    That is the error that no rounding can be blamed for. None when a result becomes infinite or undefined, or changes
    so much that a comparison says nothing.
    """
    largest = dict.fromkeys(results, 0.0)
    for seed in range(PERTURBATIONS):
        guarded = GuardedArguments(perturbed(values, seed))
        returned = original(*guarded.arguments)
        changed = results_of(guarded.values, workload.written, returned, copy=False)
        for name, base in results.items():
            if base.dtype.kind != "f":
                continue
            if not np.array_equal(np.isfinite(changed[name]), np.isfinite(base)):
                return None
            largest[name] = max(largest[name], largest_deviation(changed[name], base))
            if largest[name] > float(np.finfo(base.dtype).eps) ** ILL_CONDITIONED_POWER * scale_of(base):
                return None
    return largest


def _widened(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return value.astype(widened(value.dtype))
    return np.longdouble(value) if isinstance(value, float) else value
