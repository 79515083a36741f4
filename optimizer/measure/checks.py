"""Runs a candidate against the original on many small inputs and compares what both leave behind.

Each runs in a process of its own, and what it leaves behind comes here as bytes. Two layers. As plain Python, without
compiler and rounding freedom, both must give the same bits on special values too, no two iterations of a parallel loop
may get in each other's way, and parallel loops must not notice that they run backward. Compiled, they must agree as
well as the floating-point mode says, on one thread and on all of them, time after time. No two calls in a row get the
same inputs where there are others of the same size, so that what is left of an earlier call does not pass for a result.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from math import prod
from pathlib import Path

import numpy as np

from optimizer.errors import InfrastructureError, UserError
from optimizer.measure.commands import CallReport, CheckCommand, CheckReport, Form
from optimizer.measure.comparison import (
    Difference,
    Results,
    RoundingJudge,
    arrays_of,
    bit_difference,
    scale_difference,
)
from optimizer.measure.failure import WorkerFailure
from optimizer.measure.guards import GuardedArguments
from optimizer.measure.inputs import ValueKind
from optimizer.measure.races import VECTOR_MODULE
from optimizer.measure.references import Case, CompiledReference, PlainReference, References
from optimizer.measure.runner import CallError, Code, Runner
from optimizer.measure.worker import Step
from optimizer.measure.workload import size_text
from optimizer.verdict import Reason

LARGEST_PLAIN_SIZE = 9
LARGEST_WATCHED_SIZE = 40
"""Where no smaller size gives every parallel loop two iterations, one up to this is tried, ..."""
MOST_VECTOR_SIZES = 4
"""... or so many where some vectors are longer than the loops of the smaller sizes."""
MANY_SEEDS_SIZE = 5
"""Up to this size runs are so short that special values are tried with further seeds: they rarely meet so that a fault
shows. At larger ones a NaN is nearly everywhere."""
FURTHER_SEEDS = (1000, 2000, 3000)
SMALLEST_SURE_SIZE = 3
"""At smaller sizes the original may itself leave its arrays; such sizes are skipped."""
SLOWDOWN_ALLOWED = 100.0
REPEATS_EVERYWHERE = 2
"""Of the run with all threads, in every case; the largest size has more."""
REORDERED_TOLERANCES = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-4}
"""Relative to an array's largest magnitude: for plain runs when reductions may be reordered."""


@dataclass(frozen=True, slots=True)
class CompiledCase:
    """What a compiled candidate is compared with in one case."""

    case: Case
    reference: CompiledReference
    wide: Results | None
    """The original in wider types."""


class Checker:
    """One candidate's checks."""

    def __init__(
        self, runner: Runner, references: References, command: CheckCommand, threads: int, until: float
    ) -> None:
        """The candidate runs on `runner`, on up to `threads` threads, until a time of `time.monotonic()`."""
        self._runner, self._references, self._command = runner, references, command
        self._threads, self._until = threads, until
        self._workload = command.workload
        self._source = Path(command.code).read_text(encoding="utf-8")
        self._keys: dict[Form, str] = {}
        """Of the candidate's functions in the process, which are built once: the types are the same at all sizes."""
        self._skipped: dict[str, str] = {}
        self._checks = 0
        self._needs_larger = False
        """Whether in all watched runs so far some parallel loop has not had two iterations, or some vector no use."""
        self._is_exact = True
        self._compile_seconds = 0.0

    def run(self) -> CheckReport:
        """Raises `WorkerFailure` at the first thing that is wrong with the candidate."""
        sizes = [size for size in sorted(self._command.sizes, key=_volume) if self._is_sure(size)]
        if not sizes:
            reasons = "; ".join(self._skipped.values())
            raise InfrastructureError(f"the original cannot be run at any size to check: {reasons}")
        if self._workload.data_decide:
            self._check_inputs(sizes)
        self._check_plain(sizes)
        self._check_compiled(sizes)
        skipped = tuple(f"{size}: {reason}" for size, reason in self._skipped.items())
        return CheckReport(self._checks, self._is_exact, skipped, self._compile_seconds)

    def _check_inputs(self, sizes: list[Mapping[str, int]]) -> None:
        """Data decide about the subscripts of the original: some of what is drawn has to be such that it can run.

        Raises `UserError` when nothing is: then nothing could be compared.
        """
        usual = [Case(size, seed, ValueKind.USUAL) for size in sizes for seed in self._command.seeds]
        if not any(self._references.compiled(case) for case in usual):
            raise UserError(
                f"{self._workload.function} leaves its arrays on all inputs that were drawn for it, as data decide "
                "about its subscripts: keep computed ones inside by `min` and `max`, or take them from an array"
            )

    @property
    def _is_parallel(self) -> bool:
        return "prange" in self._source

    @property
    def _has_vectors(self) -> bool:
        return VECTOR_MODULE in self._source

    def _is_sure(self, sizes: Mapping[str, int]) -> bool:
        """Whether the original runs at this size; tried where it might not."""
        if min(sizes.values(), default=SMALLEST_SURE_SIZE) >= SMALLEST_SURE_SIZE:
            return True
        case = Case(sizes, self._command.seeds[0], ValueKind.USUAL)
        if reason := self._references.trouble(case):
            self._skipped[size_text(sizes)] = reason
            if not reason.startswith("IndexError"):
                self._check_bounds(case)
        return not reason

    def _check_bounds(self, case: Case) -> None:
        """The original raises something else: results cannot be compared, but nothing must be outside of its array."""
        place = f"as plain Python ({case})"
        guarded = GuardedArguments(self._references.values(case))
        try:
            self._called(Form.PLAIN, guarded, place, 0.0)
        except CallError as error:
            if error.text.startswith("IndexError"):
                raise WorkerFailure(Reason.OUT_OF_BOUNDS, f"{place}: it raises {error.text}") from error

    # Plain Python

    def _check_plain(self, sizes: list[Mapping[str, int]]) -> None:
        tiny = [size for size in sizes if max(size.values(), default=0) <= LARGEST_PLAIN_SIZE]
        is_usual = self._workload.is_reordered or self._workload.data_decide
        kinds = [ValueKind.USUAL] if is_usual else list(ValueKind)
        first = self._command.seeds[0]
        forms = [Form.WATCHED if self._is_parallel or self._has_vectors else Form.PLAIN]
        forms += [Form.BACKWARD] if self._is_parallel else []
        for size in tiny or sizes[:1]:
            cases = [Case(size, first, kind) for kind in kinds]
            if max(size.values(), default=0) <= MANY_SEEDS_SIZE:
                cases += [Case(size, first + more, kind) for kind in kinds[1:] for more in FURTHER_SEEDS]
            for case in cases:
                reference = self._references.plain(case)
                for form in forms:
                    if reference:
                        self._check_plain_case(case, reference, form)
        larger = [size for size in sizes if max(size.values(), default=0) <= LARGEST_WATCHED_SIZE]
        for size in larger[: -1 - (MOST_VECTOR_SIZES if self._has_vectors else 1) : -1]:
            case = Case(size, first, ValueKind.USUAL)
            reference = self._references.plain(case) if self._needs_larger else None
            if reference:
                self._check_plain_case(case, reference, Form.WATCHED)

    def _check_plain_case(self, case: Case, reference: PlainReference, form: Form) -> None:
        place = f"as plain Python{', its parallel loops run backward' if form is Form.BACKWARD else ''} ({case})"
        guarded = GuardedArguments(self._references.values(case))
        results = self._call(form, guarded, place, reference.results, reference.seconds)
        if self._workload.is_reordered:
            difference = scale_difference(results, reference.results, REORDERED_TOLERANCES)
        else:
            difference = bit_difference(results, reference.results)
        self._judge(difference, Reason.WRONG_RESULT, place, case)

    # Compiled

    def _check_compiled(self, sizes: list[Mapping[str, int]]) -> None:
        judge = RoundingJudge()
        cases = self._compiled_cases(sizes, judge)
        for size, group in groupby(cases, key=lambda compiled: compiled.case.sizes):
            self._check_size(list(group), judge, is_largest=size == sizes[-1])

    def _compiled_cases(self, sizes: list[Mapping[str, int]], judge: RoundingJudge) -> list[CompiledCase]:
        """The cases in which roundings can be compared, ordered by size; `judge` learns from them."""
        seeds, workload = self._command.seeds, self._workload
        kinds = list(ValueKind) if workload.is_strict else [ValueKind.USUAL, ValueKind.SIGNS, ValueKind.NONFINITE]
        # What is no usual number may keep a loop from ending that data decide about.
        kinds = kinds[:1] if workload.data_decide else kinds
        cases: list[CompiledCase] = []
        for size in sizes:
            usual = [Case(size, seed, ValueKind.USUAL) for seed in seeds]
            special = [Case(size, seeds[0], kind) for kind in kinds[1:]]
            if max(size.values(), default=0) <= MANY_SEEDS_SIZE and not workload.data_decide:
                special += [Case(size, seeds[0] + more, ValueKind.NONFINITE) for more in FURTHER_SEEDS]
            for case in [*usual, *special]:
                reference = self._references.compiled(case)
                if reference is None:
                    self._skipped[size_text(case.sizes)] = "the original leaves its arrays"
                    continue
                if reference.sensitivity is None:
                    if case.kind is ValueKind.USUAL:
                        self._skipped[str(case)] = "rounding decides the results"
                    continue
                wide = None if workload.is_strict else self._references.wide(case, reference.seconds)
                if wide is not None:
                    judge.learn(reference.results, wide)
                cases.append(CompiledCase(case, reference, wide))
        return cases

    def _check_size(self, cases: list[CompiledCase], judge: RoundingJudge, *, is_largest: bool) -> None:
        repeats = 1 + (self._command.repeats if is_largest else REPEATS_EVERYWHERE)
        arguments = [GuardedArguments(self._references.values(compiled.case)) for compiled in cases]
        for threads, times in ({1: 1} | {self._threads: repeats} if self._is_parallel else {1: 1}).items():
            before: dict[int, Results] = {}
            for _ in range(times):
                for number, (compiled, guarded) in enumerate(zip(cases, arguments, strict=True)):
                    place = f"{compiled.case}, {threads} {'thread' if threads == 1 else 'threads'}"
                    guarded.restore()
                    expected, seconds = compiled.reference.results, compiled.reference.seconds
                    results = self._call(Form.CANDIDATE, guarded, place, expected, seconds, threads)
                    self._compare(results, before.setdefault(number, results), compiled, judge, place)

    def _compare(
        self, results: Results, before: Results, compiled: CompiledCase, judge: RoundingJudge, place: str
    ) -> None:
        reference, case = compiled.reference, compiled.case
        if not self._workload.may_reassociate:
            self._judge(bit_difference(results, before), Reason.NONDETERMINISTIC, place, case)
        difference = bit_difference(results, reference.results)
        self._is_exact &= difference is None
        if difference and not self._workload.is_strict:
            difference = judge.difference(results, reference.results, compiled.wide, reference.sensitivity or {})
        self._judge(difference, Reason.WRONG_RESULT, place, case)

    # Both

    def _call(
        self,
        form: Form,
        guarded: GuardedArguments,
        place: str,
        expected: Results,
        original_seconds: float,
        threads: int = 1,
    ) -> Results:
        """What one call of the candidate leaves behind, after a look at what it must not touch."""
        try:
            report, calling = self._called(form, guarded, place, original_seconds, threads)
        except CallError as error:
            if error.kind == "memory":
                raise WorkerFailure(Reason.OUT_OF_MEMORY, f"{place}: no memory left") from error
            if error.kind == "race":
                detail = f"{place}: {error.text.removeprefix('RaceError: ')}"
                raise WorkerFailure(Reason.NONDETERMINISTIC, detail) from error
            # The original ran on these inputs, so whatever the candidate raises, its result is wrong.
            detail = f"{place}: it raises {error.text}, where the original does not"
            raise WorkerFailure(Reason.WRONG_RESULT, detail) from error
        if form is Form.WATCHED:
            self._needs_larger = report.needs_larger
        self._checks += 1
        if array := guarded.overrun():
            raise WorkerFailure(Reason.OUT_OF_BOUNDS, f"{place}: it writes outside of {array}")
        if array := guarded.modified(self._workload.written):
            raise WorkerFailure(Reason.MODIFIED_INPUT, f"{place}: it changes {array}, which is only an input")
        results = arrays_of(guarded.values, self._workload.written)
        return results | self._runner.returned(report, guarded, calling, expected)

    def _called(
        self, form: Form, guarded: GuardedArguments, place: str, original_seconds: float, threads: int = 1
    ) -> tuple[CallReport, Step]:
        """One call of the candidate, built before if need be, and what it is called in messages; raises CallError."""
        left = self._until - time.monotonic()
        allowance = max(self._command.call_seconds, SLOWDOWN_ALLOWED * original_seconds)
        calling = Step(place, min(left, allowance), 0)
        if form not in self._keys:
            building = Step("compiling", min(left, self._command.build_seconds), 0, Reason.BUILD_FAILED)
            code = Code(form, self._command.code, self._workload.function)
            self._runner.load(guarded, Step(f"handing over inputs ({place})", left))
            start = time.perf_counter()
            self._keys[form] = self._runner.build(code, building)
            if form is Form.CANDIDATE:
                self._compile_seconds = time.perf_counter() - start
        return self._runner.run(guarded, self._keys[form], calling, threads=threads), calling

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


def _volume(sizes: Mapping[str, int]) -> tuple[int, ...]:
    return prod(value + 1 for value in sizes.values()), *sizes.values()
