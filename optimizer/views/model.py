"""What is told after a run about the model that led it, and about the control beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optimizer.views.run import final_measurement
from optimizer.wording import score_text

if TYPE_CHECKING:
    from optimizer.llm.accounts import Accounts
    from optimizer.run import Run


def model_text(run: Run) -> str:
    """The accounts of a run that asked a model, indented as the summary is; empty for any other."""
    accounts = _accounts(run)
    return "" if accounts is None else "\n".join(["", *(f"  {line}" for line in accounts.lines())])


def model_json(run: Run) -> dict[str, Any]:
    accounts = _accounts(run)
    return {} if accounts is None else {"model": accounts.to_json()}


def control_text(run: Run, control: Run) -> str:
    """Both results side by side."""
    pair = [(found.specification.policy, found) for found in (run, control)]
    width = max(len(name) for name, _ in pair)
    lines = ["", "  with as many evaluations each:"]
    for name, found in pair:
        measured = final_measurement(found.result)
        low, high = measured.interval if measured else (1.0, 1.0)
        shown = score_text(measured) if measured else "the original stays best"
        count = found.result.used.evaluations
        lines.append(f"    {name:<{width}}  {shown} ({low:.3g} to {high:.3g}), {count} evaluations  {found.directory}")
    return "\n".join(lines)


def control_json(control: Run) -> dict[str, Any]:
    """The control's score; for kernels that is its speedup."""
    measured = final_measurement(control.result)
    return {
        "control": {
            "policy": control.specification.policy,
            "score": measured.score if measured else None,
            "interval": list(measured.interval) if measured else None,
            "candidate": control.result.winner.candidate.text,
            "evaluations": control.result.used.evaluations,
            "stop_reason": control.result.stop_reason.value,
            "run_dir": str(control.directory),
        }
    }


def _accounts(run: Run) -> Accounts | None:
    from optimizer.registry import asks_outside

    if not asks_outside(run.specification.policy):
        return None
    from optimizer.journal import read_events
    from optimizer.llm.accounts import accounts_of

    return accounts_of(read_events(run.directory))
