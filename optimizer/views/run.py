"""What a person can act on after a run, and the same as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from optimizer.events import RunResult
from optimizer.plan import StopReason
from optimizer.verdict import Measurement, Status
from optimizer.views.nest import assumed_text, assumed_types
from optimizer.wording import score_text, seconds_text, speedup_text

WHY_STOPPED = {
    StopReason.STEPS_DONE: "all steps are done",
    StopReason.BUDGET_EVALUATIONS: "all evaluations of the budget are used",
    StopReason.BUDGET_SECONDS: "the time of the budget is used",
    StopReason.BUDGET_CALLS: "all model calls of the budget are used",
    StopReason.BUDGET_TOKENS: "all tokens of the budget are used",
    StopReason.BUDGET_USD: "the money of the budget is used",
    StopReason.TARGET_REACHED: "the target is reached",
    StopReason.GIVEN_UP: "the policy has nothing more to propose",
    StopReason.MODEL_REFUSED: "the model declined to answer",
    StopReason.MODEL_STUCK: "the model only repeated itself, or proposed nothing that could be judged",
    StopReason.NO_PROGRESS: "no progress for too many steps",
    StopReason.INFRASTRUCTURE_ERRORS: "the harness failed too often in a row",
    StopReason.INTERRUPTED: "by you; everything so far is saved",
}


def final_measurement(result: RunResult) -> Measurement | None:
    """The winner's measurement that counts: the one taken after the search, where there is one."""
    return result.selection.measured or result.selection.selected


def run_json(problem: Any, result: RunResult, directory: Path, export: Path | None) -> dict[str, Any]:
    """The result of a run; for kernels the score is the speedup."""
    measured, selected = final_measurement(result), result.selection.selected
    shared: dict[str, Any] = {
        "assurance": result.winner.assurance,
        "evaluations": result.used.evaluations,
        "seconds": round(result.used.seconds, 3),
        "outcomes": result.outcomes,
        "stop_reason": result.stop_reason.value,
        "winner": result.winner.number,
        "tied": list(result.selection.tied),
        "run_dir": str(directory),
        "export": str(export) if export else None,
    }
    if problem.kind != "kernel":
        baseline = result.trials[0].measurement
        return {
            "problem": problem.name,
            "kind": problem.kind,
            "baseline_score": baseline.score if baseline else None,
            "score": measured.score if measured else None,
            "unit": measured.unit if measured else "",
            "candidate": result.winner.candidate.text,
            **shared,
        }
    baseline_seconds, best_seconds = kernel_seconds(result)
    return {
        "kernel": problem.name,
        "size": dict(problem.sizes),
        "baseline": kernel_baseline(result),
        "assumed_types": assumed_types(problem.nest),
        "baseline_seconds": baseline_seconds,
        "best_seconds": best_seconds,
        "speedup": measured.score if measured else 1.0,
        "interval": list(measured.interval) if measured else [1.0, 1.0],
        "selected_speedup": selected.score if selected else 1.0,
        "schedule": result.winner.candidate.text,
        **shared,
    }


BASELINES = {
    "numba": "the function compiled by Numba",
    "numpy": "the function as it is: Numba cannot compile it, or makes other types",
}
"""What the original is that times are compared with."""


def kernel_baseline(result: RunResult) -> str | None:
    """`numba` or `numpy`; None when nothing was timed."""
    measurements = (trial.measurement for trial in result.trials)
    known = (found.details.get("baseline") for found in measurements if found)
    return next((baseline for baseline in known if baseline), None)


def kernel_seconds(result: RunResult) -> tuple[float | None, float | None]:
    """Seconds of the original and of the winner in the winner's window; of the original alone when it stays best."""
    if result.winner.number == 0:
        found = next((m for t in result.trials[1:] if (m := t.measurement)), None)
        seconds = found.details.get("baseline_seconds") if found else None
        return seconds, seconds
    measured = final_measurement(result)
    details = measured.details if measured else {}
    return details.get("baseline_seconds"), details.get("seconds")


def summary_text(
    problem: Any, result: RunResult, directory: Path, export: Path | None, limit_seconds: float | None = None
) -> str:
    """The outcome in a few lines, the most important first."""
    lines = [_headline(problem, result), *_facts(problem, result, limit_seconds)]
    lines += [
        f"  outcomes   {_outcomes(result)}",
        f"  stopped    {result.stop_reason.value}: {WHY_STOPPED[result.stop_reason]}",
        f"  run        {directory}",
        *(f"  next       {line}" for line in _next(problem, result, directory, export)),
    ]
    return "\n".join(lines)


def _headline(problem: Any, result: RunResult) -> str:
    measured = final_measurement(result)
    if problem.kind == "kernel":
        where = f"{problem.name} at {problem.size}" if problem.size else problem.name
        if result.winner.number == 0 or measured is None:
            return f"{where}: nothing that was tried is faster than the original"
        return f"{where}: {speedup_text(measured.score, measured.interval)} over the original"
    before = score_text(result.trials[0].measurement)
    if result.winner.number == 0:
        return f"{problem.name}: the original stays best ({before})"
    return f"{problem.name}: {score_text(measured)}, the original had {before}"


def _facts(problem: Any, result: RunResult, limit_seconds: float | None) -> list[str]:
    winner, selection = result.winner, result.selection
    lines: list[str] = []
    if problem.kind == "kernel":
        original, best = kernel_seconds(result)
        if original is not None and best is not None:
            times = f"  time       {seconds_text(original)} original"
            if winner.number:
                times += f", {seconds_text(best)} now"
            if limit_seconds:
                share = limit_seconds / best
                times += f"; this machine's limit is about {seconds_text(limit_seconds)} ({share:.0%} of it reached)"
            lines.append(times)
        if baseline := kernel_baseline(result):
            lines.append(f"  baseline   {baseline}: {BASELINES[baseline]}")
        if assumed := assumed_text(problem.nest):
            lines.append(f"  assumed    {assumed}")
        lines.append(f"  schedule   {winner.candidate.text or '(the original)'}")
    if winner.number and winner.assurance:
        lines.append(f"  assurance  {winner.assurance}")
    if winner.number:
        chosen = f"  winner     trial {winner.number}"
        if selection.measured and selection.selected:
            searched, afterwards = score_text(selection.selected), score_text(selection.measured)
            chosen += f", {searched} in the search and {afterwards} afterwards"
        others = [str(number) for number in selection.tied if number != winner.number]
        lines.append(chosen + (f"; a tie with {', '.join(others)}" if others else ""))
    return lines


def _outcomes(result: RunResult) -> str:
    counts = ", ".join(f"{count} {outcome}" for outcome, count in result.outcomes.items()) or "no trials"
    return f"{counts} ({result.used.evaluations} evaluations, {seconds_text(result.used.seconds)})"


def _next(problem: Any, result: RunResult, directory: Path, export: Path | None) -> list[str]:
    if result.stop_reason is StopReason.INTERRUPTED:
        return [f"go on with: loopwright resume {directory}"]
    if result.stop_reason is StopReason.INFRASTRUCTURE_ERRORS:
        last = next((t for t in reversed(result.trials) if t.status is Status.ERROR), None)
        told = f" (last: {last.verdicts[-1].detail})" if last and last.verdicts else ""
        return [f"`loopwright doctor` looks at this machine{told}", f"then go on with: loopwright resume {directory}"]
    if problem.kind != "kernel":
        return [f"the best text is in {export}"] if export else ["--out FILE writes the best text to a file"]
    if result.winner.number == 0:
        return ["more --evaluations, another --policy, or `loopwright explain` to see what stands in the way"]
    if export:
        return [f"from {export.stem} import {problem.nest.name}  (`python {export}` checks it against the original)"]
    return [f"loopwright resume {directory} --out FILE.py writes the code"]
