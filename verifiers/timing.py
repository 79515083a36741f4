"""Timing: how many times faster than the original a candidate is, with an interval."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import ClassVar

from optimizer.candidate import Candidate
from optimizer.errors import CandidateError
from optimizer.measure.bench import Bench, Record
from optimizer.measure.commands import TimeCommand, TimeReport
from optimizer.measure.failure import WorkerFailure
from optimizer.measure.problem import TIMING, MeasuredProblem
from optimizer.measure.statistics import Ratio, paired_ratio, unpaired_ratio
from optimizer.measure.workload import Workload
from optimizer.verdict import Measurement, Reason, Status, Verdict
from verifiers.equivalence import unusable

ORIGINAL = None
"""What stands for the original among the contestants."""
ROUNDS = (5, 30)
CLEARLY_WORSE = 0.8
"""A candidate that is surely below this part of the best so far needs no precise number."""
DISTURBED_PROCESSORS = 0.2
"""A window in which so much else was going on is measured a second time, and marked if that one was no calmer ..."""
LONG_WINDOW = 10.0
"""... unless it took more seconds than this: on a machine that is always busy nothing more than twice is waited for."""
FRESH_SEED = 1_000_003
"""Finalists are compared on inputs that no candidate was selected on."""


@dataclass(frozen=True, slots=True)
class Window:
    """The calmest of the times that some contestants were measured together."""

    report: TimeReport
    times: int
    """How often they were; 2 when other work disturbed the first."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two contestants in one window, with their seconds in each round."""

    window: Window
    rival: tuple[float, ...]
    samples: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Timing:
    """Times candidates and the original in turns, in a process of its own, one run at a time on this machine."""

    bench: Bench
    name: ClassVar[str] = "timing"

    def verify(self, problem: MeasuredProblem, candidate: Candidate) -> Verdict:
        start = time.perf_counter()
        workload = problem.workload(TIMING)
        record = self._record(workload)
        try:
            code = self.bench.code_file(problem.code(candidate))
            measurement = self._measure(workload, record, code)
        except CandidateError as error:
            return unusable(error, self.name)
        except WorkerFailure as failure:
            return self._rejection(failure, record, time.perf_counter() - start)
        self.bench.measurements[candidate.digest] = measurement
        return Verdict(Status.OK, self.name, measurement=measurement, seconds=time.perf_counter() - start)

    def baseline_seconds(self, problem: MeasuredProblem) -> float:
        """The original's time at the size asked for, measured once."""
        return median(self._record(problem.workload(TIMING)).original_samples)

    def facts(self, problem: MeasuredProblem) -> Mapping[str, float]:
        return {"baseline_seconds": self.baseline_seconds(problem)}

    def compare(self, problem: MeasuredProblem, candidates: Sequence[Candidate]) -> Sequence[Measurement | Verdict]:
        """Measure the candidates and the original in turns in one window, on inputs that nobody has seen."""
        return self.compare_at(problem.workload(TIMING), problem, candidates)

    def compare_at(
        self, workload: Workload, problem: MeasuredProblem, candidates: Sequence[Candidate]
    ) -> Sequence[Measurement | Verdict]:
        """The same for inputs of another size."""
        record = self._record(workload)
        outcomes: dict[int, Measurement | Verdict] = {}
        codes: dict[int, str] = {}
        for number, candidate in enumerate(candidates):
            try:
                codes[number] = self.bench.code_file(problem.code(candidate))
            except CandidateError as error:
                outcomes[number] = unusable(error, self.name)
        while codes:
            try:
                window = self._time(
                    workload,
                    (ORIGINAL, *codes.values()),
                    seed=self.bench.seed + FRESH_SEED,
                    cutoff=self.bench.limits.cutoff(median(record.original_samples)),
                )
            except WorkerFailure as failure:
                # Contestant 0 is the original; without the one that failed, the others get a window of their own.
                failed = list(codes)[failure.contestant - 1]
                del codes[failed]
                outcomes[failed] = self._rejection(failure, record, failure.seconds)
                continue
            original, *others = zip(*window.report.seconds, strict=True)
            for number, samples in zip(codes, others, strict=True):
                ratio = paired_ratio(original, samples, self.bench.seed)
                outcomes[number] = self._measurement(workload, window, ratio, samples, original)
            break
        return [outcomes[number] for number in range(len(candidates))]

    def disown(self, problem: MeasuredProblem, candidate: Candidate) -> None:
        """Measure and cut off nobody by this candidate any more: its time was not believed."""
        record = self.bench.records.get(problem.workload(TIMING).key)
        if record and record.best_code == self.bench.code_file(problem.code(candidate)):
            record.best_seconds, record.best_code, record.best_ratio = median(record.original_samples), None, None

    def _record(self, workload: Workload) -> Record:
        record = self.bench.records.get(workload.key)
        if record is None:
            window = self._time(workload, (ORIGINAL,), seed=self.bench.seed, cutoff=0.0)
            samples = tuple(seconds for (seconds,) in window.report.seconds)
            record = self.bench.records[workload.key] = Record(samples, median(samples))
        return record

    def _measure(self, workload: Workload, record: Record, code: str) -> Measurement:
        best, is_slow = record.best_ratio, median(record.original_samples) > self.bench.limits.slow
        if is_slow and best is not None:
            pair = self._pair(workload, record, record.best_code, code, CLEARLY_WORSE)
            ratio = best * self._ratio(pair, record)
            original = record.original_samples
        else:
            if is_slow and (alone := self._alone(workload, record, code)).score < 1.0:
                # It never wins, so a rough number will do, and the original need not run for it.
                return alone
            pair = self._pair(workload, record, ORIGINAL, code, CLEARLY_WORSE * (best.value if best else 1.0))
            ratio = self._ratio(pair, record)
            original = pair.rival
        if ratio.value > (best.value if best else 1.0):
            record.best_seconds, record.best_code, record.best_ratio = median(pair.samples), code, ratio
        record.windows += 1
        return self._measurement(workload, pair.window, ratio, pair.samples, original)

    def _ratio(self, pair: Pair, record: Record) -> Ratio:
        # Ratios that are chained must not share their random draws.
        return paired_ratio(pair.rival, pair.samples, self.bench.seed + record.windows)

    def _pair(self, workload: Workload, record: Record, rival: str | None, code: str, clearly_below: float) -> Pair:
        window = self._time(
            workload,
            (rival, code),
            seed=self.bench.seed,
            cutoff=self.bench.limits.cutoff(record.best_seconds),
            clearly_below=clearly_below,
        )
        return Pair(window, *zip(*window.report.seconds, strict=True))

    def _alone(self, workload: Workload, record: Record, code: str) -> Measurement:
        """A rough speedup over the original as it was measured earlier."""
        cutoff = self.bench.limits.cutoff(record.best_seconds)
        window = self._time(workload, (code,), seed=self.bench.seed, cutoff=cutoff)
        samples = tuple(seconds for (seconds,) in window.report.seconds)
        ratio = unpaired_ratio(record.original_samples, samples, self.bench.seed)
        return self._measurement(workload, window, ratio, samples, record.original_samples)

    def _time(
        self,
        workload: Workload,
        codes: tuple[str | None, ...],
        *,
        seed: int,
        cutoff: float,
        clearly_below: float | None = None,
    ) -> Window:
        command = TimeCommand(
            workload=workload,
            seed=seed,
            codes=codes,
            threads=self.bench.threads,
            cutoff=cutoff,
            seconds=self.bench.limits.rounds * max(1, len(codes) - 1),
            rounds=ROUNDS,
            slow_seconds=self.bench.limits.slow,
            clearly_below=clearly_below,
            build_seconds=self.bench.limits.build,
        )
        start = time.monotonic()
        outcomes = [self._report_or_overrun(command)]
        if _is_disturbed(outcomes[0]) and time.monotonic() - start <= LONG_WINDOW:
            outcomes.append(self._report_or_overrun(command))
        # Who was fast enough once is not too slow: what disturbs the machine is no fault of the candidate.
        reports = [outcome for outcome in outcomes if isinstance(outcome, TimeReport)]
        # Chosen by the load alone: choosing by the times would favour the lucky ones.
        calmest = min(reports or outcomes, key=lambda outcome: outcome.other_load)
        if isinstance(calmest, TimeReport):
            return Window(calmest, len(outcomes))
        calmest.times = len(outcomes)
        raise calmest

    def _report_or_overrun(self, command: TimeCommand) -> TimeReport | WorkerFailure:
        """A candidate that is too slow may be so because of other work; any other failure is raised."""
        try:
            return self.bench.time(command)
        except WorkerFailure as failure:
            if failure.reason is not Reason.TOO_SLOW:
                raise
            return failure

    def _measurement(
        self,
        workload: Workload,
        window: Window,
        ratio: Ratio,
        samples: Sequence[float],
        original: Sequence[float],
    ) -> Measurement:
        report = window.report
        details = {
            "seconds": median(samples),
            "baseline_seconds": median(original),
            "baseline": "numba" if report.is_original_compiled else "numpy",
            "threads": self.bench.threads,
            "size": dict(workload.sizes),
            "load": os.getloadavg()[0],
            "other_load": round(report.other_load, 3),
            "disturbed": _is_disturbed(report),
            "windows": window.times,
            "spread": (max(samples) - min(samples)) / median(samples),
            "input_bytes": report.input_bytes,
        }
        return Measurement(ratio.value, ratio.interval, len(samples), "x", details)

    def _rejection(self, failure: WorkerFailure, record: Record, seconds: float) -> Verdict:
        if failure.reason is not Reason.TOO_SLOW:
            return failure.verdict(self.name, seconds)
        baseline = median(record.original_samples)
        detail = (
            f"{failure.detail}, where the original takes {baseline:.3g} s and the best so far "
            f"{record.best_seconds:.3g} s: at most {baseline / failure.seconds:.3g}x"
        )
        if _is_disturbed(failure):
            tried = "each of two times " if failure.times > 1 else ""
            detail += f", measured {tried}while other work kept {failure.other_load:.1f} processors busy"
        witness = {
            "seconds_at_least": failure.seconds,
            "baseline_seconds": baseline,
            "other_load": round(failure.other_load, 3),
            "disturbed": _is_disturbed(failure),
            "windows": failure.times,
        }
        return Verdict(Status.REJECTED, self.name, Reason.TOO_SLOW, detail=detail, witness=witness, seconds=seconds)


def _is_disturbed(outcome: TimeReport | WorkerFailure) -> bool:
    return outcome.other_load > DISTURBED_PROCESSORS
