"""Trials, verdicts, proposals and finalists as JSON, and back: what stands in the events of a journal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from optimizer.candidate import Candidate
from optimizer.plan import StopReason
from optimizer.protocols import Proposal
from optimizer.selection import Finalist
from optimizer.trial import Cost, Trial
from optimizer.verdict import Measurement, Reason, Status, Verdict

VERDICT_TYPES: Mapping[str, Any] = {
    "verifier": str,
    "detail": str,
    "witness": (dict, type(None)),
    "repair": (str, type(None)),
    "assurance": str,
    "seconds": (int, float),
}
"""What the parts of a verdict may be that any JSON value would otherwise pass for."""
MEASUREMENT_TYPES: Mapping[str, Any] = {"samples": int, "unit": str, "details": dict}


def trial_to_json(trial: Trial) -> dict[str, Any]:
    """A trial as JSON; `trial_from_json` is the inverse."""
    return {
        "number": trial.number,
        "chain": trial.chain,
        "step": trial.step,
        "text": trial.candidate.text,
        "digest": trial.candidate.digest,
        "verdicts": [asdict(verdict) for verdict in trial.verdicts],
        "feedback": trial.feedback,
        "rationale": trial.rationale,
        "cost": asdict(trial.cost),
        "when": trial.when,
    }


def trial_from_json(data: Mapping[str, Any]) -> Trial:
    """Raises `KeyError`, `TypeError` or `ValueError` for JSON that is no trial."""
    return Trial(
        number=data["number"],
        chain=data["chain"],
        step=data["step"],
        candidate=Candidate(data["text"], data["digest"]),
        verdicts=tuple(verdict_from_json(verdict) for verdict in data["verdicts"]),
        feedback=data["feedback"],
        rationale=data["rationale"],
        cost=Cost(**data["cost"]),
        when=data["when"],
    )


def proposal_from_json(data: Mapping[str, Any]) -> Proposal:
    """Raises `KeyError`, `TypeError` or `ValueError` for JSON that is no proposal."""
    return Proposal(
        data["text"],
        data["rationale"],
        Cost(**data["cost"]),
        data.get("malformed", ""),
        StopReason(data.get("stop", "given_up")),
    )


def verdict_from_json(data: Mapping[str, Any]) -> Verdict:
    """The inverse of `dataclasses.asdict`. Raises `KeyError`, `TypeError` or `ValueError` for what is no verdict."""
    values = dict(data)
    for name, kind in VERDICT_TYPES.items():
        _check_type(values, name, kind)
    values["status"] = Status(data["status"])
    values["reason"] = None if data["reason"] is None else Reason(data["reason"])
    values["measurement"] = None if data["measurement"] is None else _measurement_from_json(data["measurement"])
    return Verdict(**values)


def _measurement_from_json(data: Mapping[str, Any]) -> Measurement:
    values = dict(data)
    for name, kind in MEASUREMENT_TYPES.items():
        _check_type(values, name, kind)
    low, high = data["interval"]
    values["interval"] = (low, high)
    return Measurement(**values)


def _check_type(values: Mapping[str, Any], name: str, kind: Any) -> None:
    if name in values and not isinstance(values[name], kind):
        raise TypeError(f"{name} cannot be {values[name]!r}")


def finalist_to_json(finalist: Finalist) -> dict[str, Any]:
    """A finalist as JSON; `finalist_from_json` is the inverse."""
    return {"trial": finalist.trial, "answer": asdict(finalist.answer)}


def finalist_from_json(data: Mapping[str, Any]) -> Finalist:
    """Raises `KeyError`, `TypeError` or `ValueError` for JSON that is no finalist."""
    answer = data["answer"]
    return Finalist(data["trial"], verdict_from_json(answer) if "status" in answer else _measurement_from_json(answer))
