"""Trials as a chain has them, with real verdicts of parser and legality; only times are made up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from optimizer.candidate import Candidate
from optimizer.judging import judge, read_candidate
from optimizer.kernel_problem import KernelProblem
from optimizer.trial import Trial
from optimizer.verdict import Measurement, Reason, Status, Verdict
from verifiers.legality import Legality

BASELINE_SECONDS = 0.5


def timed(speedup: float, **details: Any) -> Verdict:
    """What timing says of a candidate that is so many times faster than half a second."""
    times = {"seconds": BASELINE_SECONDS / speedup, "baseline_seconds": BASELINE_SECONDS, **details}
    found = Measurement(speedup, (speedup - 0.05, speedup + 0.05), 9, "x", times)
    return Verdict(Status.OK, "timing", measurement=found)


def untouched(problem: KernelProblem) -> Trial:
    return Trial(0, 0, 0, problem.baseline, (Verdict(Status.OK, "loop", measurement=Measurement(1.0, (1.0, 1.0), 1)),))


def trial_of(problem: KernelProblem, number: int, text: str, speedup: float = 2.0) -> Trial:
    """The trial that a proposal becomes; a legal one gets the speedup."""
    candidate, rejection = read_candidate(problem, text)
    verdicts = (rejection,) if rejection else judge(problem, candidate, [Legality()])
    if verdicts[-1].status is Status.OK:
        verdicts = (*verdicts, Verdict(Status.OK, "equivalence", assurance="bit-exact on 24 checks"), timed(speedup))
    return Trial(number, 0, number, candidate, verdicts)


def rejected_trial(number: int, text: str, reason: Reason, detail: str, **more: Any) -> Trial:
    """A trial that another verifier did not accept."""
    verdict = Verdict(Status.REJECTED, "verifier", reason, detail, **more)
    return Trial(number, 0, number, Candidate(text), (verdict,))


def repeated(number: int, earlier: Trial) -> Trial:
    """The trial of a candidate that was tried before."""
    detail = f"the same candidate as trial {earlier.number} ({earlier.outcome}): propose another one"
    verdict = Verdict(Status.REJECTED, "loop", Reason.DUPLICATE, detail, witness={"trial": earlier.number})
    return Trial(number, 0, number, earlier.candidate, (verdict,))


def chain_of(problem: KernelProblem, texts: Sequence[str]) -> tuple[Trial, ...]:
    """The untouched kernel and the trials of these proposals, each legal one a little faster."""
    later = (trial_of(problem, number, text, 1.0 + number / 10) for number, text in enumerate(texts, start=1))
    return (untouched(problem), *later)
