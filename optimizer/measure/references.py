"""What candidates are compared with: the original on small inputs, in a process that never runs a candidate."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from optimizer.errors import InfrastructureError
from optimizer.measure.commands import Form
from optimizer.measure.comparison import Results, arrays_of, largest_deviation, scale_of
from optimizer.measure.guards import GuardedArguments
from optimizer.measure.inputs import ValueKind, Values, make_values, perturbed
from optimizer.measure.recent import Recent
from optimizer.measure.runner import CallError, Code, Runner
from optimizer.measure.widening import HAS_WIDE_FLOAT64, widened
from optimizer.measure.worker import Step
from optimizer.measure.workload import Workload, size_text

WIDE_LIMIT_SECONDS = 0.0005
"""A size at which the compiled original takes longer is not evaluated in a wider type, which takes some thousand
times as long because it is plain Python; ..."""
WIDE_LIMIT_FURTHER = 0.0001
"""... and further seeds and values only at smaller ones yet."""
PERTURBATIONS = 2
ILL_CONDITIONED_POWER = 0.6
"""Inputs are of no use when their last bit changes results by more than the type's precision to this power (4e-10 for
float64)."""


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


OVERHEAD = 1000
"""Bytes of what is kept besides the numbers, about."""


def bytes_of(kept: PlainReference | CompiledReference | Results | str | None) -> int:
    """What the results of a case take in memory."""
    match kept:
        case PlainReference(results) | CompiledReference(results):
            return bytes_of(results)
        case str() | None:
            return OVERHEAD
        case _:
            return OVERHEAD + sum(OVERHEAD + result.nbytes for result in kept.values())


class References:
    """The original of one workload; everything is computed once and kept in `kept`."""

    def __init__(
        self, runner: Runner, kept: Recent[Any], workload: Workload, module: Path, first_seed: int, until: float
    ) -> None:
        """`module` is the file of the original's source; `until` is a time of `time.monotonic()`."""
        self._runner, self._kept = runner, kept
        self._workload, self._module = workload, module
        self._first_seed, self._until = first_seed, until
        self._keys: dict[Form, str] = {}
        """Of the original's functions in the process, which are built once: the types are the same at all sizes."""

    def values(self, case: Case) -> Values:
        return make_values(self._workload.at(case.sizes), case.seed, case.kind)

    def trouble(self, case: Case) -> str:
        """Why the original cannot run in this case; empty when it can."""
        reference = self._plain(case)
        return reference if isinstance(reference, str) else ""

    def plain(self, case: Case) -> PlainReference | None:
        """None where the original raises on such values, as plain Python may where compiled code does not."""
        reference = self._plain(case)
        return None if isinstance(reference, str) else reference

    def compiled(self, case: Case) -> CompiledReference | None:
        """None where the original leaves its arrays."""

        def run() -> CompiledReference | None:
            values = self.values(case)
            if self._workload.data_decide and not self._stays_inside(case, values):
                return None
            what = f"the original ({case})"
            results, seconds, guarded = self._run(Form.ORIGINAL, values, what)
            if guarded.overrun():
                return None

            def again(changed: Values) -> Results:
                return self._run(Form.ORIGINAL, changed, what)[0]

            sensitivity = {} if self._workload.is_strict else sensitivity_of(again, values, results)
            return CompiledReference(results, seconds, sensitivity)

        return self._kept.get(("compiled", *self._key(case)), run)

    def _stays_inside(self, case: Case, values: Values) -> bool:
        """Whether these values, which decide about subscripts, are some that the original can run on."""
        try:
            self._run(Form.CHECKED, values, f"the original with its subscripts checked ({case})")
        except CallError as error:
            _none_if_usual(error)
            return False
        return True

    def wide(self, case: Case, seconds: float) -> Results | None:
        """The original in wider types, where those exist and the compiled original takes few `seconds`."""

        def run() -> Results | None:
            values = {name: _widened(value) for name, value in self.values(case).items()}
            try:
                return self._run(Form.WIDE, values, f"the original in a wider type ({case})")[0]
            except CallError as error:
                return _none_if_usual(error)

        is_first = case.seed == self._first_seed and case.kind is ValueKind.USUAL
        if seconds > (WIDE_LIMIT_SECONDS if is_first else WIDE_LIMIT_FURTHER) or not HAS_WIDE_FLOAT64:
            return None
        return self._kept.get(("wide", *self._key(case)), run)

    def _plain(self, case: Case) -> PlainReference | str:
        """The results, or the exception that the original raises."""

        def run() -> PlainReference | str:
            try:
                results, seconds, _ = self._run(Form.PLAIN, self.values(case), f"the original as plain Python ({case})")
            except CallError as error:
                _none_if_usual(error)
                return error.text
            return PlainReference(results, seconds)

        return self._kept.get(("plain", *self._key(case)), run)

    def _run(self, form: Form, values: Values, what: str) -> tuple[Results, float, GuardedArguments]:
        """One call's results, its seconds, and the arguments as it left them."""
        guarded = GuardedArguments(values)
        step = Step(what, self._until - time.monotonic())
        if form not in self._keys:
            self._runner.load(guarded, step)
            self._keys[form] = self._runner.build(self._code(form), step)
        try:
            report = self._runner.run(guarded, self._keys[form], step)
        except CallError as error:
            if form is Form.ORIGINAL:
                raise InfrastructureError(f"{what} raises {error.text}") from error
            raise
        results = arrays_of(guarded.values, self._workload.written)
        if report.returned:
            results |= self._runner.returned(report, guarded, step, None)
        return results, report.seconds, guarded

    def _code(self, form: Form) -> Code:
        workload = self._workload if form in (Form.ORIGINAL, Form.CHECKED) else None
        return Code(form, str(self._module), self._workload.function, workload)

    def _key(self, case: Case) -> tuple[str, int, ValueKind]:
        return self._workload.at(case.sizes).key, case.seed, case.kind


def _none_if_usual(error: CallError) -> None:
    """Pass over what a function may raise at sizes or values that it cannot take; anything else is a fault."""
    if error.kind != "call":
        raise InfrastructureError(f"the original raises {error.text}") from error


def sensitivity_of(run: Callable[[Values], Results], values: Values, results: Results) -> Mapping[str, float] | None:
    """The largest change of each result when the last bit of the inputs changes; `run` runs the original.

    That is the error that no rounding can be blamed for. None when a result becomes infinite or undefined, or changes
    so much that a comparison says nothing.
    """
    largest = dict.fromkeys(results, 0.0)
    for seed in range(PERTURBATIONS):
        changed = run(perturbed(values, seed))
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
