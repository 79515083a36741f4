"""Runs a candidate against the original on many small inputs (in the worker).

Two layers. As plain Python, without compiler and rounding freedom, both must give the same bits on special values
too, and parallel loops must not notice that they run backward. Compiled, they must agree as well as the floating-point
mode says, on one thread and on all of them, time after time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numba
import numpy as np

from optimizer.errors import InfrastructureError
from optimizer.measure.commands import CheckCommand, CheckReport
from optimizer.measure.comparison import Difference, Results, RoundingJudge, bit_difference, results_of
from optimizer.measure.failure import WorkerFailure
from optimizer.measure.guards import GuardedArguments
from optimizer.measure.inputs import ValueKind, Values, bytes_of, make_values
from optimizer.measure.loading import HAS_WIDE_FLOAT64, Function, is_parallel, plain_function, widened
from optimizer.measure.workload import size_text
from optimizer.verdict import Reason

if TYPE_CHECKING:
    from optimizer.measure.session import Session

LARGEST_PLAIN_SIZE = 9
MOST_PLAIN_SIZES = 6
SMALLEST_SURE_SIZE = 3
"""At smaller sizes the original may itself leave its arrays; such sizes are skipped."""
WIDE_LIMIT_SECONDS = 0.001
"""A size at which the compiled original takes longer is not evaluated in a wider type, which takes some thousand
times as long because it is plain Python; ..."""
WIDE_LIMIT_FURTHER = 0.0002
"""... and further seeds and values only at smaller ones yet."""
SLOWDOWN_ALLOWED = 100.0
REPEATS_EVERYWHERE = 2
"""Of the run with all threads, in every case; the largest size has more."""
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
class Reference:
    """What the original leaves behind in one case."""

    results: Results
    seconds: float


def check(session: Session, command: CheckCommand) -> CheckReport:
    """Compare a candidate with the original; raises `WorkerFailure` at the first thing that is wrong with it."""
    return Checker(session, command).run()


class Checker:
    """One candidate's checks."""

    def __init__(self, session: Session, command: CheckCommand) -> None:
        self._session, self._command = session, command
        self._workload = command.workload
        self._skipped: dict[str, str] = {}
        self._checks = 0
        self._is_exact = True

    def run(self) -> CheckReport:
        sizes = [size for size in self._by_volume() if self._is_sure(size)]
        if not sizes:
            reasons = "; ".join(self._skipped.values())
            raise InfrastructureError(f"the original cannot be run at any size to check: {reasons}")
        self._check_plain(sizes)
        self._check_compiled(sizes)
        skipped = tuple(f"{size}: {reason}" for size, reason in self._skipped.items())
        return CheckReport(self._checks, self._is_exact, skipped)

    def _by_volume(self) -> list[Mapping[str, int]]:
        return sorted(self._command.sizes, key=lambda size: (np.prod([v + 1.0 for v in size.values()]), *size.values()))

    def _is_sure(self, sizes: Mapping[str, int]) -> bool:
        """Whether the original runs at this size; tried where it might not."""
        if min(sizes.values(), default=SMALLEST_SURE_SIZE) >= SMALLEST_SURE_SIZE:
            return True
        self._session.runs_original(f"the original at {size_text(sizes)}")
        case = Case(sizes, self._command.seeds[0], ValueKind.USUAL)
        reason = self._session.results.get(("trouble", self._key(case)), lambda: self._trouble(case))
        if reason:
            self._skipped[size_text(sizes)] = reason
        return not reason

    def _trouble(self, case: Case) -> str:
        try:
            self._call_plain_original(case)
        except CALL_ERRORS as error:
            return f"{type(error).__name__}: {error}"
        return ""

    # Plain Python

    def _check_plain(self, sizes: list[Mapping[str, int]]) -> None:
        tiny = [size for size in sizes if max(size.values(), default=0) <= LARGEST_PLAIN_SIZE]
        source = Path(self._command.code).read_text(encoding="utf-8")
        kinds = [ValueKind.USUAL, ValueKind.SIGNS] if self._workload.may_reassociate else list(ValueKind)
        for size in (tiny or sizes)[-MOST_PLAIN_SIZES:]:
            for kind in kinds:
                case = Case(size, self._command.seeds[0], kind)
                reference = self._plain_reference(case)
                if reference is None:
                    continue
                for backward in (False, True) if "prange" in source else (False,):
                    self._check_plain_case(source, case, reference, backward)

    def _plain_reference(self, case: Case) -> Reference | None:
        """None where the original raises on such values, as plain Python may where compiled code does not."""

        def run() -> Reference | None:
            self._session.runs_original(f"the original as plain Python ({case})")
            start = time.perf_counter()
            try:
                results = self._call_plain_original(case)
            except CALL_ERRORS:
                return None
            return Reference(results, time.perf_counter() - start)

        return self._session.results.get(("plain", self._key(case)), run)

    def _call_plain_original(self, case: Case) -> Results:
        function = plain_function(self._workload.source, "original", self._workload.function)
        return self._call_plain(function, self._values(case))

    def _call_plain(self, function: Function, values: Values) -> Results:
        arguments = [np.float64(value) if isinstance(value, float) else value for value in values.values()]
        with np.errstate(all="ignore"):
            returned = function(*arguments)
        return results_of(values, self._workload.written, returned)

    def _check_plain_case(self, source: str, case: Case, reference: Reference, backward: bool) -> None:
        place = f"as plain Python{', its parallel loops run backward' if backward else ''} ({case})"
        guarded = GuardedArguments(self._values(case))
        self._session.runs_candidate(place, self._allowance(reference.seconds), array_bytes=bytes_of(guarded.values))
        name = self._workload.function
        try:
            function = plain_function(source, self._command.code, name, backward=backward)
        except Exception as error:
            # A generated module that does not even load has no usable code, whatever it raises.
            raise WorkerFailure(Reason.BUILD_FAILED, f"{type(error).__name__}: {error}") from error
        results = self._guarded_call(guarded, place, lambda: self._call_plain(function, guarded.values))
        if self._workload.may_reassociate:
            judge = RoundingJudge()
            wide = self._wide(case, 0.0)
            difference = judge.difference(results, reference.results, wide)
        else:
            difference = bit_difference(results, reference.results)
        self._judge(difference, Reason.WRONG_RESULT, place, case)

    # Compiled

    def _check_compiled(self, sizes: list[Mapping[str, int]]) -> None:
        command, workload = self._command, self._workload
        kinds = list(ValueKind) if workload.is_strict else [ValueKind.USUAL, ValueKind.SIGNS]
        cases = [Case(size, seed, ValueKind.USUAL) for size in sizes for seed in command.seeds]
        cases += [Case(size, command.seeds[0], kind) for size in sizes for kind in kinds[1:]]
        arguments = GuardedArguments(self._values(cases[-1])).arguments
        original = self._session.original(workload, arguments)
        references: list[tuple[Case, Reference, Results | None]] = []
        judge = RoundingJudge()
        for case in cases:
            reference = self._compiled_reference(original, case)
            if reference is None:
                continue
            wide = None if workload.is_strict else self._wide(case, reference.seconds)
            if wide is not None:
                judge.learn(reference.results, wide)
            references.append((case, reference, wide))
        candidate = self._session.candidate(command.code, workload.function, arguments, command.build_seconds)
        for case, reference, wide in references:
            many = case.sizes == sizes[-1] and case.seed == command.seeds[0]
            self._check_case(candidate, case, reference, wide, judge, command.repeats if many else 0)

    def _compiled_reference(self, original: Function, case: Case) -> Reference | None:
        """None, and a note, where the original writes outside of its arrays."""

        def run() -> Reference | None:
            self._session.runs_original(f"the original ({case})")
            guarded = GuardedArguments(self._values(case))
            start = time.perf_counter()
            returned = original(*guarded.arguments)
            seconds = time.perf_counter() - start
            if guarded.overrun():
                return None
            return Reference(results_of(guarded.values, self._workload.written, returned), seconds)

        reference = self._session.results.get(("compiled", self._key(case)), run)
        if reference is None:
            self._skipped[size_text(case.sizes)] = "the original writes outside of its arrays"
        return reference

    def _wide(self, case: Case, seconds: float) -> Results | None:
        """The original in wider types, where that is affordable and the types exist."""

        def run() -> Results | None:
            self._session.runs_original(f"the original in a wider type ({case})")
            values = {name: _widened(value) for name, value in self._values(case).items()}
            function = plain_function(self._workload.source, "original", self._workload.function, wide=True)
            try:
                return self._call_plain(function, values)
            except CALL_ERRORS:
                return None

        is_first = case.seed == self._command.seeds[0] and case.kind is ValueKind.USUAL
        if seconds > (WIDE_LIMIT_SECONDS if is_first else WIDE_LIMIT_FURTHER) or not HAS_WIDE_FLOAT64:
            return None
        return self._session.results.get(("wide", self._key(case)), run)

    def _check_case(
        self,
        candidate: Function,
        case: Case,
        reference: Reference,
        wide: Results | None,
        judge: RoundingJudge,
        repeats: int,
    ) -> None:
        every = self._session.threads
        plan = {1: 1, every: 1 + max(REPEATS_EVERYWHERE, repeats)} if is_parallel(candidate) else {1: 1}
        guarded = GuardedArguments(self._values(case))
        for threads, times in plan.items():
            place = f"{case}, {threads} {'thread' if threads == 1 else 'threads'}"
            numba.set_num_threads(threads)
            runs = [self._run_compiled(candidate, guarded, place, reference) for _ in range(times)]
            if not self._workload.may_reassociate:
                for again in runs[1:]:
                    self._judge(bit_difference(again, runs[0]), Reason.NONDETERMINISTIC, place, case)
            for results in runs:
                difference = bit_difference(results, reference.results)
                self._is_exact &= difference is None
                if difference and not self._workload.is_strict:
                    difference = judge.difference(results, reference.results, wide)
                self._judge(difference, Reason.WRONG_RESULT, place, case)

    def _run_compiled(
        self, candidate: Function, guarded: GuardedArguments, place: str, reference: Reference
    ) -> Results:
        guarded.restore()
        self._session.runs_candidate(place, self._allowance(reference.seconds), array_bytes=bytes_of(guarded.values))
        return self._guarded_call(
            guarded,
            place,
            lambda: results_of(guarded.values, self._workload.written, candidate(*guarded.arguments)),
        )

    # Both

    def _guarded_call(self, guarded: GuardedArguments, place: str, call: Callable[[], Results]) -> Results:
        try:
            results = call()
        except MemoryError as error:
            raise WorkerFailure(Reason.OUT_OF_MEMORY, f"{place}: no memory left") from error
        except Exception as error:
            # The original ran on these inputs, so whatever the candidate raises, its result is wrong.
            detail = f"{place}: it raises {type(error).__name__}: {error}, where the original does not"
            raise WorkerFailure(Reason.WRONG_RESULT, detail) from error
        self._checks += 1
        if array := guarded.overrun():
            raise WorkerFailure(Reason.OUT_OF_BOUNDS, f"{place}: it writes outside of {array}")
        if array := guarded.modified(self._workload.written):
            raise WorkerFailure(Reason.MODIFIED_INPUT, f"{place}: it changes {array}, which is only an input")
        return results

    def _judge(self, difference: Difference | None, reason: Reason, place: str, case: Case) -> None:
        if difference is None:
            return
        witness = {
            "array": difference.array,
            "index": list(difference.index),
            "got": difference.got,
            "expected": difference.expected,
            "sizes": dict(case.sizes),
            "seed": case.seed,
            "values": case.kind.value,
        }
        text = str(difference)
        if reason is Reason.NONDETERMINISTIC:
            text = text.replace("where the original gives", "where an equal run before gave")
        raise WorkerFailure(reason, f"{place}: {text}", witness=witness)

    def _allowance(self, original_seconds: float) -> float:
        return max(self._command.call_seconds, SLOWDOWN_ALLOWED * original_seconds)

    def _values(self, case: Case) -> Values:
        return make_values(self._workload.at(case.sizes), case.seed, case.kind)

    def _key(self, case: Case) -> tuple[str, int, ValueKind]:
        return self._workload.at(case.sizes).key, case.seed, case.kind


def _widened(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return value.astype(widened(value.dtype))
    return np.longdouble(value) if isinstance(value, float) else value
