"""Judge one candidate: read its text, then ask the verifiers, cheapest first, until one says no."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from optimizer.candidate import Candidate, digest_of
from optimizer.errors import CandidateError, InfrastructureError, StepError
from optimizer.protocols import Problem, Verifier
from optimizer.verdict import Measurement, Reason, Status, Verdict


def read_candidate(problem: Problem, text: str) -> tuple[Candidate, Verdict | None]:
    """The canonical candidate for a text; with the rejection, and the text as it is, when it cannot be read."""
    try:
        return problem.parse(text), None
    except CandidateError as error:
        reason = Reason.INVALID_STEP if isinstance(error, StepError) else Reason.UNPARSABLE
        return Candidate(text), Verdict(Status.REJECTED, "parse", reason, str(error))


def malformed_answer(text: str, why: str) -> tuple[Candidate, Verdict]:
    """What is recorded of an answer that holds no candidate: it equals no candidate, even one of the same text."""
    return Candidate(text, _digest_of_malformed(text)), Verdict(Status.REJECTED, "parse", Reason.UNPARSABLE, why)


def is_malformed(candidate: Candidate) -> bool:
    """Whether it is the record of an answer without a candidate, whose text must never be judged as one."""
    return candidate.digest == _digest_of_malformed(candidate.text)


def _digest_of_malformed(text: str) -> str:
    return digest_of(f"no candidate: {text}")


def judge(problem: Any, candidate: Candidate, verifiers: Sequence[Verifier]) -> tuple[Verdict, ...]:
    """The verdicts in order; all but the last are ok. Trouble that is not the candidate's fault is retried once."""
    verdicts: list[Verdict] = []
    for verifier in verifiers:
        verdict = _ask(verifier, problem, candidate)
        if verdict.status is Status.ERROR:
            verdict = _ask(verifier, problem, candidate)
        verdicts.append(verdict)
        if verdict.status is not Status.OK:
            break
    return tuple(verdicts)


def feedback_of(verdicts: Sequence[Verdict]) -> str:
    """What the policy is told: facts it can act on, from the verdicts alone."""
    if not verdicts:
        return ""
    last = verdicts[-1]
    if last.status is Status.OK:
        found = next((verdict.measurement for verdict in reversed(verdicts) if verdict.measurement), None)
        score = _shown(found) if found else ""
        assurance = ", ".join(verdict.assurance for verdict in verdicts if verdict.assurance)
        notes = [verdict.detail for verdict in verdicts if verdict.detail]
        return "\n".join(["accepted" + score + (f"; {assurance}" if assurance else ""), *notes])
    if last.status is Status.ERROR:
        return f"not judged, and not the candidate's fault: {last.detail}"
    lines = [f"rejected by {last.verifier} ({last.reason}): {last.detail}"]
    return "\n".join([*lines, f"this near candidate would be accepted there: {last.repair}"] if last.repair else lines)


def _shown(found: Measurement) -> str:
    low, high = found.interval
    spread = "" if low == high else f" (95% {low:.4g} to {high:.4g})"
    return f": {found.score:.4g} {found.unit}{spread}"


def _ask(verifier: Verifier, problem: Any, candidate: Candidate) -> Verdict:
    started = time.perf_counter()
    try:
        # Each gets one of its own, so that what is recorded is what was proposed, whatever a plug-in does with it.
        verdict = verifier.verify(problem, replace(candidate))
    except InfrastructureError as error:
        verdict = Verdict(Status.ERROR, verifier.name, Reason.INFRASTRUCTURE, str(error))
    return replace(verdict, seconds=verdict.seconds or time.perf_counter() - started)
