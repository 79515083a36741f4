"""What stands in for the earlier turns of a long chain: every verdict, in few words, and where to go from here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from optimizer.budget import BudgetView
from optimizer.llm.briefing import ALL_OF_IT, Grounding, Without, fenced, inline
from optimizer.llm.feedback import COUNTEREXAMPLES, best_of, left_text, result_text, share_text
from optimizer.trial import Trial
from optimizer.verdict import Reason, Status, Verdict
from optimizer.wording import score_text

LONGEST_TEXT = 80
"""Characters of a candidate that is no longer the best; together with the next, about 40 tokens a trial."""
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
    head = "Earlier turns of this search were left out. This is what came of them."
    if Grounding.FEEDBACK in without:
        proposed = "; ".join(_short(trial.candidate.text) for trial in tried)
        return f"{head}\nProposed and recorded, not to be proposed again: {proposed or 'nothing'}"
    lines = [
        head,
        _objective(problem),
        _best(problem, best_of(history), limit_seconds),
        *_accepted(tried),
        *_rejected(tried, without),
        "Do not propose any of these again." if tried else "Nothing was tried yet.",
        *_offers(tried, without),
        "Next: change one thing of the best so far, or follow an idea that none of these had.",
    ]
    if budget is not None and (left := left_text(budget)):
        lines.append(left)
    return "\n".join(lines)


def _objective(problem: Any) -> str:
    if problem.kind == "kernel":
        return "Objective: the largest speedup over the untouched nest, legal and with right results."
    return "Objective: the version with the highest score that the check accepts."


def _best(problem: Any, best: Trial | None, limit_seconds: float | None) -> str:
    if best is None or best.measurement is None:
        return "Best so far: none; nothing was accepted."
    if best.number == 0:
        return f"Best so far: the original itself, {score_text(best.measurement)}."
    whole = inline(best.candidate.text) if problem.kind == "kernel" else f"\n{fenced(best.candidate.text)}"
    share = share_text(best.measurement, limit_seconds)
    return f"Best so far: {result_text(best.measurement)}{share}, trial {best.number}: {whole}"


def _accepted(tried: Sequence[Trial]) -> Iterator[str]:
    accepted = [trial for trial in tried if trial.status is Status.OK]
    if accepted:
        yield "Accepted, best first:"
    for trial in sorted(accepted, key=lambda trial: -(trial.score or 0.0)):
        yield f"{score_text(trial.measurement)} {_short(trial.candidate.text)}"


def _rejected(tried: Sequence[Trial], without: Without) -> Iterator[str]:
    """One line for each reason and cause."""
    groups: dict[tuple[str, str], list[str]] = {}
    duplicates: Counter[str] = Counter()
    for trial in tried:
        verdict = trial.verdicts[-1] if trial.verdicts else None
        if verdict is not None and verdict.reason is Reason.DUPLICATE:
            duplicates[_short(trial.candidate.text)] += 1
        elif trial.status is not Status.OK:
            reason = trial.outcome if trial.status is Status.REJECTED else "not judged, proposable again"
            cause = _cause(verdict, without) if verdict is not None else ""
            groups.setdefault((reason, cause), []).append(_short(trial.candidate.text))
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
        yield f"Offered as repairs and not tried yet: {'; '.join(map(_short, fresh))}"


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


def _short(text: str) -> str:
    """A candidate on one line; of a long one, its beginning and its end."""
    line = " ".join(text.split())
    half = (LONGEST_TEXT - 3) // 2
    if len(line) > LONGEST_TEXT:
        line = f"{line[:half]}...{line[-half:]}"
    return inline(line) if line else "(empty)"


def _ending_in_dots(line: str, most: int) -> str:
    return line if len(line) <= most else f"{line[: most - 3]}..."
