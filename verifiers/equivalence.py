"""Equivalence: does a candidate do what the original does, on many small inputs? A test, not a proof."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

from optimizer.candidate import Candidate
from optimizer.errors import CandidateError, ScheduleSyntaxError, StepError
from optimizer.measure.bench import Bench
from optimizer.measure.commands import CheckCommand
from optimizer.measure.failure import WorkerFailure
from optimizer.measure.problem import TIMING, MeasuredProblem
from optimizer.verdict import Reason, Status, Verdict

PRIME_STRIDE = 7919
"""Seeds of one bench are so far apart that benches of neighbouring seeds share none."""


@dataclass(frozen=True, slots=True)
class Equivalence:
    """Runs original and candidate on small inputs of many sizes and kinds of values and compares everything."""

    bench: Bench
    seeds: int = 2
    """How many different random inputs are tried at each size."""
    repeats: int = 20
    """How many times a parallel candidate runs at the largest size, besides the first time."""
    name: ClassVar[str] = "equivalence"

    def verify(self, problem: MeasuredProblem, candidate: Candidate) -> Verdict:
        start = time.perf_counter()
        limits = self.bench.limits
        try:
            source = problem.code(candidate)
            report = self.bench.check(
                CheckCommand(
                    workload=problem.workload(TIMING),
                    code=self.bench.code_file(source),
                    sizes=tuple(dict(size) for size in problem.check_sizes(candidate)),
                    seeds=tuple(self.bench.seed * PRIME_STRIDE + number for number in range(self.seeds)),
                    repeats=self.repeats,
                    call_seconds=limits.call,
                    build_seconds=limits.build,
                )
            )
        except CandidateError as error:
            return unusable(error, self.name)
        except WorkerFailure as failure:
            return failure.verdict(self.name, time.perf_counter() - start)
        how = "bit-exact" if report.is_exact else "within tolerance"
        return Verdict(
            Status.OK,
            self.name,
            assurance=f"{how} on {report.checks} checks",
            detail=f"sizes skipped: {'; '.join(report.skipped)}" if report.skipped else "",
            witness={"compile_seconds": round(report.compile_seconds, 3), "source_characters": len(source)},
            seconds=time.perf_counter() - start,
        )

    def close(self) -> None:
        """End the worker process."""
        self.bench.close()


def unusable(error: CandidateError, verifier: str) -> Verdict:
    """The rejection of a candidate from which no code could be made."""
    match error:
        case ScheduleSyntaxError():
            reason = Reason.UNPARSABLE
        case StepError():
            reason = Reason.INVALID_STEP
        case _:
            reason = Reason.BUILD_FAILED
    return Verdict(Status.REJECTED, verifier, reason, detail=str(error))
