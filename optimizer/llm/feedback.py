"""The answer to a proposal: how it was judged, where the search stands, and what is left of the budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from optimizer.budget import BudgetView, Line
from optimizer.llm.briefing import ALL_OF_IT, Grounding, Without, cut, fenced, inline
from optimizer.trial import Trial
from optimizer.verdict import Measurement, Reason, Status, Verdict
from optimizer.wording import score_text, seconds_text, speedup_text

LONGEST_DETAIL = 1_500
"""Characters of what a verifier says; tests can say much."""
RECORDED = "recorded"
COUNTEREXAMPLES = frozenset(
    {Reason.ILLEGAL, Reason.WRONG_RESULT, Reason.NONDETERMINISTIC, Reason.MODIFIED_INPUT, Reason.OUT_OF_BOUNDS}
)
"""Rejections whose detail is their counterexample."""


def feedback_text(
    problem: Any,
    trial: Trial,
    history: Sequence[Trial],
    budget: BudgetView,
    without: Without = ALL_OF_IT,
    limit_seconds: float | None = None,
) -> str:
    """What a model is told about a trial of its own; `history` holds the chain's trials, with or without this one.

    `limit_seconds`: the least time that the machine needs for a kernel's work, if it is known.
    """
    if Grounding.FEEDBACK in without:
        return RECORDED
    best = best_of((*history, trial))
    lines = [*_judged(problem, trial, history, without, limit_seconds), *_best(problem, trial, best), left_text(budget)]
    return "\n".join(filter(None, lines))


def best_of(trials: Sequence[Trial]) -> Trial | None:
    """The trial of the highest score, the earliest among equals."""
    scored = [(score, -trial.number, trial) for trial in trials if (score := trial.score) is not None]
    return max(scored, key=lambda item: item[:2])[2] if scored else None


def result_text(measurement: Measurement) -> str:
    """`2.31x (95% interval 2.25 to 2.37)`, or a score with its interval if it has one."""
    if measurement.unit == "x":
        return speedup_text(measurement.score, measurement.interval)
    low, high = measurement.interval
    return score_text(measurement) + ("" if low == high else f" (95% interval {low:.4g} to {high:.4g})")


def repair_text(problem: Any, repair: str) -> str:
    """The offer of a near candidate, whole: a schedule on its line, another text between fences."""
    if problem.kind != "kernel":
        return f"this near candidate passes there:\n{fenced(repair)}"
    if not repair:
        return "nothing near it is legal but the untouched nest"
    return f"this near schedule is legal: {inline(repair)}"


def share_text(measurement: Measurement, limit_seconds: float | None) -> str:
    """`; 34% of the machine's limit`, or nothing where that is not known."""
    seconds = measurement.details.get("seconds")
    return f"; {limit_seconds / seconds:.0%} of the machine's limit" if limit_seconds and seconds else ""


def left_text(budget: BudgetView) -> str:
    """`left of the budget: 12 evaluations, 340 seconds`; empty without limits."""
    left = [_amount(line, amount) for line in Line if (amount := budget.left(line)) is not None]
    return f"left of the budget: {', '.join(left)}" if left else ""


def _cause(verdict: Verdict, without: Without) -> str:
    """Why a verdict is what it is, as far as it may be told."""
    if Grounding.WITNESS in without and verdict.reason in COUNTEREXAMPLES:
        return "it breaks a dependence" if verdict.reason is Reason.ILLEGAL else ""
    return cut(verdict.detail, LONGEST_DETAIL)


def _judged(
    problem: Any, trial: Trial, history: Sequence[Trial], without: Without, limit_seconds: float | None
) -> Iterator[str]:
    if not trial.verdicts:
        yield "not judged, and not the candidate's fault"
        return
    verdict = trial.verdicts[-1]
    if verdict.status is Status.ERROR:
        yield f"not judged, and not the candidate's fault: {cut(verdict.detail, LONGEST_DETAIL)}"
    elif verdict.status is Status.OK:
        yield from _accepted(trial, limit_seconds)
    elif verdict.reason is Reason.DUPLICATE:
        yield from _repeated(problem, verdict, history, without, limit_seconds)
    else:
        cause = _cause(verdict, without)
        yield f"rejected, {verdict.reason}" + (f": {cause}" if cause else "")
        if verdict.repair is not None and Grounding.REPAIR not in without:
            yield repair_text(problem, verdict.repair)


def _accepted(trial: Trial, limit_seconds: float | None) -> Iterator[str]:
    measurement, assurance = trial.measurement, trial.assurance
    result = f": {result_text(measurement)}" if measurement else ""
    yield f"accepted{result}" + (f"; {assurance}" if assurance else "")
    if measurement is None:
        return
    seconds, baseline = measurement.details.get("seconds"), measurement.details.get("baseline_seconds")
    if seconds is not None:
        original = f", the original {seconds_text(baseline)}" if baseline is not None else ""
        yield f"it takes {seconds_text(seconds)}{original}{share_text(measurement, limit_seconds)}"
    if measurement.details.get("disturbed"):
        yield "the machine was busy with something else while it was measured"
    for verdict in trial.verdicts:
        if verdict.detail:
            yield cut(verdict.detail, LONGEST_DETAIL)


def _repeated(
    problem: Any, verdict: Verdict, history: Sequence[Trial], without: Without, limit_seconds: float | None
) -> Iterator[str]:
    """What the same candidate was answered with the first time."""
    number = (verdict.witness or {}).get("trial")
    earlier = next((trial for trial in history if trial.number == number), None)
    if number == 0:
        yield "rejected, duplicate: this comes to the untouched original; propose another one"
    elif earlier is None:
        yield f"rejected, duplicate: {verdict.detail}"
    else:
        yield f"rejected, duplicate: the same as your trial {number}; propose another one. It was:"
        yield from _judged(problem, earlier, (), without, limit_seconds)


def _best(problem: Any, trial: Trial, best: Trial | None) -> Iterator[str]:
    if best is None:
        yield "nothing has been accepted so far"
    elif best.number == trial.number:
        yield "this is the best so far"
    elif best.number == 0:
        yield "the untouched original is the best so far"
    else:
        # The text of another kind stands in full in an earlier turn, or in the summary of them.
        text = f": {inline(best.candidate.text)}" if problem.kind == "kernel" else ""
        yield f"best so far: {score_text(best.measurement)}, trial {best.number}{text}"


def _amount(line: Line, amount: float) -> str:
    match line:
        case Line.USD:
            return f"{amount:.2f} USD"
        case Line.SECONDS:
            return f"{amount:.0f} seconds"
        case _:
            return f"{amount:.0f} {line}"
