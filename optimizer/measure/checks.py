"""Runs a candidate against the original on many small inputs (in the worker).

Two layers. As plain Python, without compiler and rounding freedom, both must give the same bits on special values
too, and parallel loops must not notice that they run backward. Compiled, they must agree as well as the floating-point
mode says, on one thread and on all of them, time after time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

import numba
import numpy as np

from optimizer.errors import InfrastructureError
from optimizer.measure.commands import CheckCommand, CheckReport
from optimizer.measure.comparison import (
    Difference,
    Results,
    RoundingJudge,
    bit_difference,
    results_of,
    scale_difference,
)
from optimizer.measure.failure import WorkerFailure
from optimizer.measure.guards import GuardedArguments
from optimizer.measure.inputs import ValueKind, bytes_of
from optimizer.measure.loading import Function, plain_function
from optimizer.measure.references import Case, CompiledReference, PlainReference, References, run_plain
from optimizer.measure.workload import size_text
from optimizer.verdict import Reason

if TYPE_CHECKING:
    from optimizer.measure.session import Session

LARGEST_PLAIN_SIZE = 9
MOST_PLAIN_SIZES = 6
SMALLEST_SURE_SIZE = 3
"""At smaller sizes the original may itself leave its arrays; such sizes are skipped."""
SLOWDOWN_ALLOWED = 100.0
REPEATS_EVERYWHERE = 2
"""Of the run with all threads, in every case; the largest size has more."""
REORDERED_TOLERANCES = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-4}
"""Relative to an array's largest magnitude: for plain runs when reductions may be reordered."""


def check(session: Session, command: CheckCommand) -> CheckReport:
    """Compare a candidate with the original; raises `WorkerFailure` at the first thing that is wrong with it."""
    return Checker(session, command).run()


class Checker:
    """One candidate's checks."""

    def __init__(self, session: Session, command: CheckCommand) -> None:
        self._session, self._command = session, command
        self._workload = command.workload
        self._source = Path(command.code).read_text(encoding="utf-8")
        self._references = References(session, command.workload, command.seeds[0])
        self._skipped: dict[str, str] = {}
        self._checks = 0
        self._is_exact = True

    def run(self) -> CheckReport:
        sizes = [size for size in sorted(self._command.sizes, key=_volume) if self._is_sure(size)]
        if not sizes:
            reasons = "; ".join(self._skipped.values())
            raise InfrastructureError(f"the original cannot be run at any size to check: {reasons}")
        self._check_plain(sizes)
        self._check_compiled(sizes)
        skipped = tuple(f"{size}: {reason}" for size, reason in self._skipped.items())
        return CheckReport(self._checks, self._is_exact, skipped)

    @property
    def _is_parallel(self) -> bool:
        return "prange" in self._source

    def _is_sure(self, sizes: Mapping[str, int]) -> bool:
        """Whether the original runs at this size; tried where it might not."""
        if min(sizes.values(), default=SMALLEST_SURE_SIZE) >= SMALLEST_SURE_SIZE:
            return True
        if reason := self._references.trouble(Case(sizes, self._command.seeds[0], ValueKind.USUAL)):
            self._skipped[size_text(sizes)] = reason
        return not reason

    # Plain Python

    def _check_plain(self, sizes: list[Mapping[str, int]]) -> None:
        tiny = [size for size in sizes if max(size.values(), default=0) <= LARGEST_PLAIN_SIZE]
        kinds = [ValueKind.USUAL] if self._workload.may_reassociate else list(ValueKind)
        for size in tiny[-MOST_PLAIN_SIZES:] or sizes[:1]:
            for kind in kinds:
                case = Case(size, self._command.seeds[0], kind)
                reference = self._references.plain(case)
                for backward in (False, True) if reference and self._is_parallel else (False,):
                    if reference:
                        self._check_plain_case(case, reference, backward)

    def _check_plain_case(self, case: Case, reference: PlainReference, backward: bool) -> None:
        place = f"as plain Python{', its parallel loops run backward' if backward else ''} ({case})"
        workload = self._workload
        guarded = GuardedArguments(self._references.values(case))
        self._session.runs_candidate(place, self._allowance(reference.seconds), array_bytes=bytes_of(guarded.values))
        try:
            function = plain_function(self._source, self._command.code, workload.function, backward=backward)
        except Exception as error:
            # A generated module that does not even load has no usable code, whatever it raises.
            raise WorkerFailure(Reason.BUILD_FAILED, f"{type(error).__name__}: {error}") from error
        results = self._call(guarded, place, lambda: run_plain(function, guarded.values, workload.written))
        if workload.may_reassociate:
            difference = scale_difference(results, reference.results, REORDERED_TOLERANCES)
        else:
            difference = bit_difference(results, reference.results)
        self._judge(difference, Reason.WRONG_RESULT, place, case)

    # Compiled

    def _check_compiled(self, sizes: list[Mapping[str, int]]) -> None:
        command, workload = self._command, self._workload
        kinds = list(ValueKind) if workload.is_strict else [ValueKind.USUAL, ValueKind.SIGNS]
        cases = [Case(size, seed, ValueKind.USUAL) for size in sizes for seed in command.seeds]
        cases += [Case(size, command.seeds[0], kind) for size in sizes for kind in kinds[1:]]
        references: list[tuple[Case, CompiledReference, Results | None]] = []
        judge = RoundingJudge()
        for case in cases:
            reference = self._references.compiled(case)
            if reference is None:
                self._skipped[size_text(case.sizes)] = "the original writes outside of its arrays"
                continue
            if reference.sensitivity is None:
                if case.kind is ValueKind.USUAL:
                    self._skipped[str(case)] = "rounding decides the results"
                continue
            wide = None if workload.is_strict else self._references.wide(case, reference.seconds)
            if wide is not None:
                judge.learn(reference.results, wide)
            references.append((case, reference, wide))
        arguments = GuardedArguments(self._references.values(cases[-1])).arguments
        candidate = self._session.candidate(command.code, workload.function, arguments, command.build_seconds)
        for case, reference, wide in references:
            self._check_case(candidate, case, reference, wide, judge, is_largest=case.sizes == sizes[-1])

    def _check_case(
        self,
        candidate: Function,
        case: Case,
        reference: CompiledReference,
        wide: Results | None,
        judge: RoundingJudge,
        *,
        is_largest: bool,
    ) -> None:
        repeats = 1 + (self._command.repeats if is_largest else REPEATS_EVERYWHERE)
        guarded = GuardedArguments(self._references.values(case))
        for threads, times in ({1: 1} | {self._session.threads: repeats} if self._is_parallel else {1: 1}).items():
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
                    difference = judge.difference(results, reference.results, wide, reference.sensitivity or {})
                self._judge(difference, Reason.WRONG_RESULT, place, case)

    def _run_compiled(
        self, candidate: Function, guarded: GuardedArguments, place: str, reference: CompiledReference
    ) -> Results:
        written = self._workload.written
        guarded.restore()
        self._session.runs_candidate(place, self._allowance(reference.seconds), array_bytes=bytes_of(guarded.values))
        return self._call(guarded, place, lambda: results_of(guarded.values, written, candidate(*guarded.arguments)))

    # Both

    def _call(self, guarded: GuardedArguments, place: str, call: Callable[[], Results]) -> Results:
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


def _volume(sizes: Mapping[str, int]) -> tuple[int, ...]:
    return prod(value + 1 for value in sizes.values()), *sizes.values()
