"""The verifier of schedules: exact polyhedral legality, with a witness and the nearest repair."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import ClassVar

from optimizer.candidate import Candidate
from optimizer.kernel_problem import KernelProblem
from optimizer.polyhedral.legality import Legal
from optimizer.verdict import Reason, Status, Verdict


@dataclass(frozen=True, slots=True)
class Legality:
    """Accept a schedule only when it is proved legal for all sizes."""

    name: ClassVar[str] = "legality"

    with_repair: bool = True
    """Whether an illegal schedule comes back with the nearest legal one."""

    def verify(self, problem: KernelProblem, candidate: Candidate) -> Verdict:
        start = time.perf_counter()
        judgement = problem.judge(candidate)
        if judgement.legal is Legal.YES:
            return Verdict(Status.OK, self.name, assurance="proved", seconds=time.perf_counter() - start)
        if judgement.legal is Legal.UNKNOWN:
            seconds = time.perf_counter() - start
            return Verdict(
                Status.REJECTED, self.name, Reason.UNKNOWN_LEGALITY, detail=judgement.detail, seconds=seconds
            )
        repaired = problem.repair(candidate) if self.with_repair else None
        freer = problem.freer(candidate) if self.with_repair else ""
        hint = f"; {freer} and --fp reassociate would allow it" if freer else ""
        return Verdict(
            Status.REJECTED,
            self.name,
            Reason.ILLEGAL,
            detail=f"{judgement.witness or judgement.detail}{hint}",
            witness=judgement.witness.to_json() if judgement.witness else None,
            repair=str(repaired) if repaired is not None else None,
            seconds=time.perf_counter() - start,
        )
