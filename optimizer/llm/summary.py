"""What stands in for the earlier turns of a long chain: every verdict, in few words, and where to go from here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from optimizer.budget import BudgetView
from optimizer.llm.briefing import ALL_OF_IT, Grounding, Inspection, Without, cut, fenced, inline
from optimizer.llm.feedback import (
    BUSY,
    COUNTEREXAMPLES,
    best_of,
    left_text,
    other_load,
    result_text,
    score_of,
    share_text,
)
from optimizer.trial import Trial
from optimizer.verdict import Reason, Status, Verdict

LONGEST_TEXT = 80
"""Characters of a candidate that is no longer the best, or of how it differs from that; together with the next, about
40 tokens a trial."""
LONGEST_CAUSE = 36
"""Characters of why it was rejected."""
MOST_OFFERS = 3
"""Repairs that are repeated."""


def summary_text(
    problem: Any,
    history: Sequence[Trial],
    without: Without = ALL_OF_IT,
    budget: BudgetView | None = None,
    limit_seconds: float | None = None,
) -> str:
    """All trials of a chain: the best whole, the others shortened, none left out. It grows by a line a trial at most.

    The same trials and budget give the same text.
    """
    tried = [trial for trial in history if trial.number > 0]
    best = best_of(history)
    shown = _texts(problem, tried, best)
    head = "Earlier turns of this search were left out. This is what came of them."
    if Grounding.FEEDBACK in without:
        proposed = "; ".join(_texts(problem, tried, None).values())
        return f"{head}\nProposed and recorded, not to be proposed again: {proposed or 'nothing'}"
    lines = [
        head,
        _objective(problem),
        _best(problem, best, limit_seconds),
        *_accepted(tried, shown),
        *_rejected(tried, shown, without),
        "Do not propose any of these again." if tried else "Nothing was tried yet.",
        *_offers(tried, without),
        "Next: change one thing of the best so far, or follow an idea that none of these had.",
    ]
    if budget is not None and (left := left_text(budget)):
        lines.append(left)
    return "\n".join(lines)


def looked_up_text(inspection: Inspection, answer: str) -> str:
    """An answer of `inspect` that outlives the conversation in which it was asked for, with what was asked."""
    asked = inspection.what.value + (f" of {inline(cut(inspection.of, LONGEST_TEXT))}" if inspection.of else "")
    after = f"after {inline(inspection.schedule)}" if inspection.schedule else "of the untouched nest"
    return f"You last looked up: {asked}, {after}:\n{answer}"


def _objective(problem: Any) -> str:
    if problem.kind == "kernel":
        return "Objective: the largest speedup over the untouched nest, legal and with right results."
    return "Objective: the version with the highest score that the check accepts."


def _best(problem: Any, best: Trial | None, limit_seconds: float | None) -> str:
    if best is None or best.measurement is None:
        return "Best so far: none; nothing was accepted."
    if best.number == 0:
        return f"Best so far: the original itself, {score_of(best)}."
    whole = inline(best.candidate.text) if problem.kind == "kernel" else f"\n{fenced(best.candidate.text)}"
    share = share_text(best.measurement, limit_seconds)
    busy = BUSY if other_load(best) is not None else ""
    return f"Best so far: {result_text(best.measurement)}{busy}{share}, trial {best.number}: {whole}"


def _accepted(tried: Sequence[Trial], shown: Mapping[str, str]) -> Iterator[str]:
    accepted = [trial for trial in tried if trial.status is Status.OK]
    if accepted:
        yield "Accepted, best first:"
    for trial in sorted(accepted, key=lambda trial: -(trial.score or 0.0)):
        yield f"{score_of(trial)} {shown[trial.candidate.text]}"


def _rejected(tried: Sequence[Trial], shown: Mapping[str, str], without: Without) -> Iterator[str]:
    """One line for each reason and cause."""
    groups: dict[tuple[str, str], list[str]] = {}
    duplicates: Counter[str] = Counter()
    for trial in tried:
        verdict = trial.verdicts[-1] if trial.verdicts else None
        if verdict is not None and verdict.reason is Reason.DUPLICATE:
            duplicates[shown[trial.candidate.text]] += 1
        elif trial.status is not Status.OK:
            reason = trial.outcome if trial.status is Status.REJECTED else "not judged, proposable again"
            cause = _cause(verdict, without) if verdict is not None else ""
            busy = BUSY if other_load(trial) is not None else ""
            groups.setdefault((reason, cause), []).append(shown[trial.candidate.text] + busy)
    if any(trial.status is Status.REJECTED for trial in tried):
        yield "Rejected, by reason and cause:"
    for (reason, cause), texts in groups.items():
        why = f"{reason} ({cause})" if cause else reason
        yield f"{why}: {'; '.join(texts)}"
    if duplicates:
        repeated = "; ".join(f"{text} {count}x" for text, count in duplicates.items())
        yield f"duplicate: {repeated}"


def _offers(tried: Sequence[Trial], without: Without) -> Iterator[str]:
    """Repairs that were offered last and not proposed since."""
    if Grounding.REPAIR in without:
        return
    texts = {trial.candidate.text for trial in tried}
    offered = [trial.verdicts[-1].repair for trial in reversed(tried) if trial.verdicts]
    fresh = [text for text in dict.fromkeys(offered) if text and text not in texts][:MOST_OFFERS]
    if fresh:
        yield f"Offered as repairs and not tried yet: {'; '.join(map(inline, fresh))}"


def _cause(verdict: Verdict, without: Without) -> str:
    if Grounding.WITNESS in without and verdict.reason in COUNTEREXAMPLES:
        return ""
    witness = verdict.witness or {}
    if verdict.reason is Reason.ILLEGAL and {"array", "kind", "source", "sink"} <= set(witness):
        at = f" at {witness['loop']}" if witness.get("loop") else ""
        between = f"{witness['array']} {witness['kind']} {witness['source']}->{witness['sink']}{at}"
        return _ending_in_dots(between, LONGEST_CAUSE)
    # A step's fault begins with the step, which the candidate's text shows.
    fault = verdict.detail.partition("`: ")[2] if verdict.reason is Reason.INVALID_STEP else ""
    return _ending_in_dots(" ".join((fault or verdict.detail).replace("`", "'").split()), LONGEST_CAUSE)


def _texts(problem: Any, tried: Sequence[Trial], best: Trial | None) -> dict[str, str]:
    """How each candidate is shown, on one line: a long schedule from where it differs from the best, so far that it
    differs from all others too."""
    texts = list(dict.fromkeys(trial.candidate.text for trial in tried))
    if problem.kind != "kernel":
        return {text: _both_ends(text) for text in texts}
    reference = _steps(best.candidate.text) if best is not None else []
    steps = {text: _steps(text) for text in texts}
    shown: dict[str, str] = {}
    for text in texts:
        apart = max((_shared(steps[text], steps[other]) for other in texts if other != text), default=0)
        shown[text] = _short(steps[text], _shared(steps[text], reference), apart)
    if best is not None and len(best.candidate.text) > LONGEST_TEXT:
        shown[best.candidate.text] = "the best"
    return shown


def _both_ends(text: str) -> str:
    """A text on one line; of a long one, its beginning and its end."""
    line = " ".join(text.split())
    half = (LONGEST_TEXT - 3) // 2
    if len(line) > LONGEST_TEXT:
        line = f"{line[:half]}...{line[-half:]}"
    return inline(line) if line else "(empty)"


def _short(steps: Sequence[str], same: int, apart: int) -> str:
    """A schedule whole if it is not long; else without the first `same` steps, up to the step `apart` or further."""
    line = "; ".join(steps)
    if len(line) <= LONGEST_TEXT:
        return inline(line) if line else "(empty)"
    if same == len(steps):
        return f"the best's first {_counted(same, 'step')}"
    end = len(steps)
    while end > max(same, apart) + 1 and len("; ".join(steps[same:end])) > LONGEST_TEXT:
        end -= 1
    shared = f"the best's first {_counted(same, 'step')} + " if same else ""
    own = "; ".join(_ending_in_dots(step, LONGEST_TEXT) for step in steps[same:end])
    more = f" and {_counted(len(steps) - end, 'more step')}" if end < len(steps) else ""
    return f"{shared}{inline(own)}{more}"


def _shared(steps: Sequence[str], others: Sequence[str]) -> int:
    """With how many equal steps both begin."""
    return next(
        (k for k, (own, other) in enumerate(zip(steps, others, strict=False)) if own != other),
        min(len(steps), len(others)),
    )


def _steps(text: str) -> list[str]:
    return [" ".join(step.split()) for step in text.split(";")]


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _ending_in_dots(line: str, most: int) -> str:
    return line if len(line) <= most else f"{line[: most - 3]}..."
