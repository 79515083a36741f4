"""What became of proposals, and shares of them with intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from optimizer.trial import Trial
from optimizer.verdict import Reason, Status

Z = 1.959964
"""Of a two-sided 95% interval."""


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


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a count, with the 95% score interval of Wilson.

    E. B. Wilson, "Probable inference, the law of succession, and statistical inference", 1927.
    """

    count: int
    total: int

    @property
    def value(self) -> float | None:
        return self.count / self.total if self.total else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """From 0 to 1; None of nothing."""
        if not self.total:
            return None
        n, share = self.total, self.count / self.total
        middle = (share + Z * Z / (2 * n)) / (1 + Z * Z / n)
        half = Z / (1 + Z * Z / n) * math.sqrt(share * (1 - share) / n + Z * Z / (4 * n * n))
        return max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half))
