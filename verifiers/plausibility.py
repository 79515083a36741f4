"""Plausibility: a time that beats the machine, or that is too good, is looked at again before it is believed."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
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
LOOKS = 3
"""So often at most, until that is shown."""
GROWTH = 8
"""Sizes grow by one part in so many, and by one at least, for the second measurement."""
FRESH_SEED = 2_000_003
"""Between the seeds of the second look and those of the search and its finalists."""


@dataclass(frozen=True, slots=True)
class Plausibility:
    """Compares the time with the machine's limit, and measures suspiciously good ones again on larger inputs.

    A speedup beyond the alarm counts in full only for the very candidate that was shown it a second time, in a fresh
    process. Such a second look is expensive where the original is slow, so only a candidate that scores above every
    confirmed one gets it at once. Any other counts as no more than the alarm until it is a finalist, which gets the
    look it lacks: so none without a second look is ever reported, or wins, with more.
    """

    bench: Bench
    peaks_directory: Path | None = None
    """Where the machine's peaks are kept; None is the user's cache."""
    name: ClassVar[str] = "plausibility"
    _confirmed: dict[str, Measurement] = field(default_factory=dict[str, Measurement], repr=False)
    """By digest: the measurement that a second look of this process bore out."""

    def verify(self, problem: MeasuredProblem, candidate: Candidate) -> Verdict:
        start = time.perf_counter()
        measurement = self.bench.measurements.get(candidate.digest)
        if measurement is None:
            raise InfrastructureError("plausibility needs the time of a candidate: timing has to run before it")
        verdict = self._judge(problem, candidate, measurement)
        return replace(verdict, seconds=time.perf_counter() - start)

    def compare(self, problem: MeasuredProblem, candidates: Sequence[Candidate]) -> Sequence[Measurement | Verdict]:
        """The finalists' new measurements, of those that stand all that a candidate of the search has to stand."""
        answers = Timing(self.bench).compare(problem, candidates)
        return [
            self._finalist(problem, candidate, answer) if isinstance(answer, Measurement) else answer
            for candidate, answer in zip(candidates, answers, strict=True)
        ]

    def _finalist(
        self, problem: MeasuredProblem, candidate: Candidate, measurement: Measurement
    ) -> Measurement | Verdict:
        if verdict := self._too_fast(problem, candidate, measurement):
            return verdict
        if measurement.score <= ALARM_SPEEDUP or candidate.digest in self._confirmed:
            return measurement
        verdict = self._second_look(problem, candidate, measurement)
        if verdict.status is not Status.OK:
            return verdict
        return replace(measurement, details={**measurement.details, "second_look": verdict.witness})

    def _judge(self, problem: MeasuredProblem, candidate: Candidate, measurement: Measurement) -> Verdict:
        if verdict := self._too_fast(problem, candidate, measurement):
            return verdict
        if measurement.score <= ALARM_SPEEDUP:
            return Verdict(Status.OK, self.name)
        best = max((found.score for found in self._confirmed.values()), default=0.0)
        if measurement.score > best:
            return self._second_look(problem, candidate, measurement)
        return self._put_off(measurement, best)

    def _too_fast(self, problem: MeasuredProblem, candidate: Candidate, measurement: Measurement) -> Verdict | None:
        limit = self.limit_seconds(problem)
        seconds = float(measurement.details["seconds"])
        if seconds < SLACK * limit:
            # The limit may have been measured while the machine was busy.
            limit = self.limit_seconds(problem, again=True)
        if seconds >= SLACK * limit:
            return None
        detail = (
            f"{seconds:.3g} s is faster than the machine: the arithmetic or the data of this size need "
            f"{limit:.3g} s at least"
        )
        return self._suspicious(problem, candidate, detail, {"seconds": seconds, "limit_seconds": limit})

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

    def _second_look(self, problem: MeasuredProblem, candidate: Candidate, first: Measurement) -> Verdict:
        """Several looks where one falls short: a machine that others share is at times many times slower for threads
        and memory, which no load of this machine's own shows, and a slow moment is no evidence.

        That believes nobody who would not be believed otherwise. Each look is on inputs of its own in a process of its
        own, and what disturbs the original does not count for the candidate: its time in any look is held against the
        least that the original took in all of them.
        """
        workload = _larger(problem)
        evidence: dict[str, object] = {"speedup": first.score, "sizes_again": dict(workload.sizes)}
        least, shown = math.inf, 0.0
        # The inputs of two benches might need more memory than there is; this one's process starts again when needed.
        self.bench.close()
        for look in range(LOOKS):
            with self._fresh_bench(look) as fresh:
                (second,) = Timing(fresh).compare_at(workload, problem, [candidate])
            evidence["looks"] = look + 1
            if isinstance(second, Verdict):
                if second.reason is Reason.TOO_SLOW and look + 1 < LOOKS:
                    continue
                detail = f"{first.score:.3g}x, but on larger inputs: {second.detail}"
                return self._suspicious(problem, candidate, detail, evidence | {"reason_again": second.reason})
            seconds, baseline = (float(second.details[which]) for which in ("seconds", "baseline_seconds"))
            least = min(least, baseline)
            score = min(second.score, least / seconds)
            if score >= shown:
                shown = score
                evidence |= {
                    "speedup_again": score,
                    "interval_again": second.interval,
                    "seconds_again": seconds,
                    "baseline_seconds_again": least,
                }
            if score >= KEPT * first.score:
                self._confirmed[candidate.digest] = first
                detail = f"{first.score:.3g}x is beyond {ALARM_SPEEDUP:g}x; fresh, larger inputs gave {score:.3g}x"
                return Verdict(Status.OK, self.name, detail=detail, witness=evidence)
        detail = f"{first.score:.3g}x, but only {shown:.3g}x on fresh, larger inputs, the best of {LOOKS} looks"
        return self._suspicious(problem, candidate, detail, evidence)

    def _fresh_bench(self, look: int) -> Bench:
        """A process that has never seen a candidate, with inputs of another seed, in the same timing lane."""
        bench = self.bench
        return Bench(
            bench.directory / "second_look",
            threads=bench.threads,
            seed=bench.seed + (look + 1) * FRESH_SEED,
            limits=bench.limits,
            lane=bench.lane,
        )

    def _put_off(self, first: Measurement, best: float) -> Verdict:
        """Accepted, at the alarm."""
        counted = replace(first, score=ALARM_SPEEDUP, interval=(min(first.interval[0], ALARM_SPEEDUP), ALARM_SPEEDUP))
        detail = (
            f"{first.score:.3g}x counts as {ALARM_SPEEDUP:g}x until it is shown on fresh, larger inputs too, which is "
            f"put off because another candidate was shown to reach {best:.3g}x"
        )
        evidence = {"speedup": first.score, "best_confirmed_speedup": best}
        return Verdict(Status.OK, self.name, detail=detail, witness=evidence, measurement=counted)

    def _suspicious(
        self, problem: MeasuredProblem, candidate: Candidate, detail: str, evidence: Mapping[str, object]
    ) -> Verdict:
        Timing(self.bench).disown(problem, candidate)
        self._confirmed.pop(candidate.digest, None)
        return Verdict(Status.REJECTED, self.name, Reason.SUSPICIOUS, detail=detail, witness=evidence)


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
