"""The answer to a proposal: how it was judged, where the search stands, and what is left of the budget."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from optimizer.budget import BudgetView, Line
from optimizer.errors import CandidateError
from optimizer.llm.briefing import ALL_OF_IT, Grounding, Without, cut, fenced, inline
from optimizer.trial import Trial
from optimizer.verdict import Measurement, Reason, Status, Verdict
from optimizer.wording import score_text, seconds_text, speedup_text

LONGEST_DETAIL = 1_500
"""Characters of what a verifier says; tests can say much."""
RECORDED = "recorded"
BUSY = " (on a busy machine)"
SILENT_WHEN_CONTENT = frozenset({"equivalence"})
"""Verifiers whose remarks on what they accept are for people: which sizes could not be compared."""
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
    lines = [
        _disturbance(trial),
        *_judged(problem, trial, history, without, limit_seconds),
        _names(problem, trial),
        _best(trial, best),
        left_text(budget),
    ]
    return "\n".join(filter(None, lines))


def best_of(trials: Sequence[Trial]) -> Trial | None:
    """The trial of the highest score, the earliest among equals."""
    scored = [(score, -trial.number, trial) for trial in trials if (score := trial.score) is not None]
    return max(scored, key=lambda item: item[:2])[2] if scored else None


def other_load(trial: Trial) -> float | None:
    """How many processors other work held while the trial was measured, if that disturbed it; None if nothing did.

    A measurement tells it, and so may the witness of a rejection.
    """
    told: list[Mapping[str, Any]] = [trial.measurement.details] if trial.measurement else []
    told += [verdict.witness for verdict in trial.verdicts if verdict.witness]
    return next((float(details.get("other_load", 1.0)) for details in told if details.get("disturbed")), None)


def score_of(trial: Trial) -> str:
    """The score, marked where other work disturbed its measurement."""
    return score_text(trial.measurement) + (BUSY if other_load(trial) is not None else "")


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
    """`left of the budget: 12 evaluations, 1 call`; empty without limits."""
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
    for verdict in trial.verdicts:
        if verdict.detail and verdict.verifier not in SILENT_WHEN_CONTENT:
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
        if note := _disturbance(earlier):
            yield note
        yield from _judged(problem, earlier, (), without, limit_seconds)


def _disturbance(trial: Trial) -> str:
    load = other_load(trial)
    if load is None:
        return ""
    held = "1 processor" if f"{load:.1f}" == "1.0" else f"{load:.1f} processors"
    return (
        f"measured while other work held {held}: little can be concluded about this proposal, "
        "least of all about its threads"
    )


def _names(problem: Any, trial: Trial) -> str:
    """Which loops the steps of a schedule made, as far as it can be read and applied."""
    if problem.kind != "kernel" or trial.outcome == Reason.DUPLICATE:
        return ""
    from optimizer.polyhedral.schedule import parse_schedule
    from optimizer.views.nest import names_made

    try:
        return names_made(problem.nest, parse_schedule(trial.candidate.text))
    except CandidateError:
        return ""


def _best(trial: Trial, best: Trial | None) -> str:
    """The best by its number: its text stands where it became the best, or in the summary of earlier turns."""
    if best is None:
        return "nothing has been accepted so far"
    if best.number == trial.number:
        return f"this is the best so far: trial {best.number}"
    if best.number == 0:
        return "the untouched original is the best so far"
    return f"best so far: {score_of(best)}, trial {best.number}, as before"


def _amount(line: Line, amount: float) -> str:
    match line:
        case Line.USD:
            return f"{amount:.2f} USD"
        case Line.SECONDS:
            return f"{amount:.0f} seconds" if f"{amount:.0f}" != "1" else "1 second"
        case _:
            number = f"{amount:.0f}"
            return f"{number} {line.value.removesuffix('s') if number == '1' else line.value}"
