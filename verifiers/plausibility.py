"""Plausibility: a time that beats the machine, or that is too good, is looked at again before it is believed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

from optimizer.candidate import Candidate
from optimizer.errors import InfrastructureError, UserError
from optimizer.measure.bench import Bench
from optimizer.measure.machine import this_machine
from optimizer.measure.peaks import machine_peaks
from optimizer.measure.problem import TIMING, MeasuredProblem
from optimizer.measure.workload import ArgumentKind, Workload
from optimizer.verdict import Measurement, Reason, Status, Verdict
from verifiers.timing import Timing

SLACK = 0.8
"""Less than this part of the machine's limit is faster than physics; the limit was itself measured."""
ALARM_SPEEDUP = 50.0
"""Speedups beyond this have to be shown a second time."""
KEPT = 0.5
"""The part of such a speedup that must be left on other, larger inputs."""
GROWTH = 8
"""Sizes grow by one part in so many, and by one at least, for the second measurement."""


@dataclass(frozen=True, slots=True)
class Plausibility:
    """Compares the time with the machine's limit, and measures suspiciously good ones again on larger inputs."""

    bench: Bench
    peaks_directory: Path | None = None
    """Where the machine's peaks are kept; None is the user's cache."""
    name: ClassVar[str] = "plausibility"

    def verify(self, problem: MeasuredProblem, candidate: Candidate) -> Verdict:
        start = time.perf_counter()
        measurement = self.bench.measurements.get(candidate.digest)
        if measurement is None:
            raise InfrastructureError("plausibility needs the time of a candidate: timing has to run before it")
        limit = self.limit_seconds(problem)
        seconds = float(measurement.details["seconds"])
        if seconds < SLACK * limit:
            # The limit may have been measured while the machine was busy.
            limit = self.limit_seconds(problem, again=True)
        if seconds < SLACK * limit:
            detail = (
                f"{seconds:.3g} s is faster than the machine: the arithmetic or the data of this size need "
                f"{limit:.3g} s at least"
            )
            return self._suspicious(detail, {"seconds": seconds, "limit_seconds": limit}, start)
        if measurement.score <= ALARM_SPEEDUP:
            return Verdict(Status.OK, self.name, seconds=time.perf_counter() - start)
        return self._second_look(problem, candidate, measurement, start)

    def limit_seconds(self, problem: MeasuredProblem, *, again: bool = False) -> float:
        """The least time that the problem's work takes on this machine with the bench's threads.

        `again` measures the machine anew although its peaks are known.
        """
        flops, moved_bytes = problem.flops_and_bytes()
        peaks = machine_peaks(self.bench, self.peaks_directory, again=again)
        return peaks.limit_seconds(flops, moved_bytes, dtype_of(problem.workload(TIMING)), self.bench.threads)

    def facts(self, problem: MeasuredProblem) -> Mapping[str, object]:
        peaks = machine_peaks(self.bench, self.peaks_directory)
        return {"limit_seconds": self.limit_seconds(problem), "machine": str(this_machine()), "peaks": asdict(peaks)}

    def _second_look(self, problem: MeasuredProblem, candidate: Candidate, first: Measurement, start: float) -> Verdict:
        workload = _larger(problem)
        (second,) = Timing(self.bench).compare_at(workload, problem, [candidate])
        if isinstance(second, Verdict):
            detail = f"{first.score:.3g}x, but on larger inputs: {second.detail}"
            return self._suspicious(detail, {"sizes": dict(workload.sizes)}, start)
        evidence = {"speedup": first.score, "speedup_again": second.score, "sizes": dict(workload.sizes)}
        if second.score < KEPT * first.score:
            detail = f"{first.score:.3g}x, but only {second.score:.3g}x on fresh, larger inputs"
            return self._suspicious(detail, evidence, start)
        return Verdict(
            Status.OK,
            self.name,
            detail=f"{first.score:.3g}x is beyond {ALARM_SPEEDUP:g}x; fresh, larger inputs gave {second.score:.3g}x",
            witness=evidence,
            seconds=time.perf_counter() - start,
        )

    def _suspicious(self, detail: str, evidence: Mapping[str, object], start: float) -> Verdict:
        seconds = time.perf_counter() - start
        return Verdict(Status.REJECTED, self.name, Reason.SUSPICIOUS, detail=detail, witness=evidence, seconds=seconds)


def dtype_of(workload: Workload) -> str:
    """The floating-point type whose peak limits a workload: float32 only where no array is wider; else float64."""
    arrays = {spec.dtype for spec in workload.arguments if spec.kind is ArgumentKind.ARRAY}
    return "float32" if "float32" in arrays and "float64" not in arrays else "float64"


def _larger(problem: MeasuredProblem) -> Workload:
    """The problem at a somewhat larger size; at its own where it has no larger one."""
    sizes = {name: value + max(1, value // GROWTH) for name, value in problem.sizes.items()}
    try:
        return problem.workload(sizes)
    except UserError:
        return problem.workload(TIMING)
