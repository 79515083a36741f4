"""A trial: a candidate with everything that was found out about it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from optimizer.candidate import Candidate
from optimizer.verdict import Measurement, Status, Verdict


@dataclass(frozen=True, slots=True)
class Cost:
    """What a proposal and its judging used up."""

    seconds: float = 0.0
    calls: int = 0
    tokens: int = 0
    usd: float = 0.0

    def __post_init__(self) -> None:
        for name in ("seconds", "calls", "tokens", "usd"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise ValueError(f"a cost in {name} is a finite number from 0, not {value!r}")


@dataclass(frozen=True, slots=True)
class Trial:
    """One step of one chain, as it stands in the journal."""

    number: int
    """Position in the run, from 0; 0 is the untouched baseline."""
    chain: int
    step: int
    candidate: Candidate
    verdicts: tuple[Verdict, ...]
    feedback: str = ""
    rationale: str = ""
    cost: Cost = Cost()
    when: float = 0.0
    """Seconds since the epoch."""

    @property
    def status(self) -> Status:
        return self.verdicts[-1].status if self.verdicts else Status.ERROR

    @property
    def outcome(self) -> str:
        """`ok`, or the reason code of the verdict that ended the trial."""
        reason = self.verdicts[-1].reason if self.verdicts else None
        return reason.value if reason else self.status.value

    @property
    def measurement(self) -> Measurement | None:
        """The last measurement, of an accepted trial only: a rejected one has no score."""
        if self.status is not Status.OK:
            return None
        return next((v.measurement for v in reversed(self.verdicts) if v.measurement), None)

    @property
    def score(self) -> float | None:
        return self.measurement.score if self.measurement else None

    @property
    def assurance(self) -> str:
        return ", ".join(v.assurance for v in self.verdicts if v.assurance)
