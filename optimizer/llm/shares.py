"""What became of proposals."""

from __future__ import annotations

from enum import StrEnum

from optimizer.trial import Trial
from optimizer.verdict import Reason, Status


class Kind(StrEnum):
    """What became of a proposal."""

    RUNNABLE = "runnable"
    """Accepted by all verifiers."""
    ILLEGAL = "illegal"
    INVALID = "invalid"
    """No candidate at all: it cannot be read, or a step cannot apply."""
    DUPLICATE = "duplicate"
    OTHER = "other"
    """Such as too slow, a wrong result, or a failure of the harness."""


_KINDS = {
    Reason.ILLEGAL: Kind.ILLEGAL,
    Reason.UNPARSABLE: Kind.INVALID,
    Reason.INVALID_STEP: Kind.INVALID,
    Reason.DUPLICATE: Kind.DUPLICATE,
}


def kind_of(trial: Trial) -> Kind:
    """What became of a proposal that was judged."""
    if trial.status is Status.OK:
        return Kind.RUNNABLE
    reason = trial.verdicts[-1].reason if trial.verdicts else None
    return _KINDS.get(reason, Kind.OTHER) if reason else Kind.OTHER
