"""How a run is to go, and why one stopped."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from optimizer.errors import UserError


class StopReason(StrEnum):
    """Why a chain, or the whole run, went no further."""

    STEPS_DONE = "steps_done"
    BUDGET_EVALUATIONS = "budget_evaluations"
    BUDGET_SECONDS = "budget_seconds"
    BUDGET_CALLS = "budget_calls"
    BUDGET_TOKENS = "budget_tokens"
    BUDGET_USD = "budget_usd"
    TARGET_REACHED = "target_reached"
    GIVEN_UP = "given_up"
    MODEL_REFUSED = "model_refused"
    """The model declined to answer, twice."""
    MODEL_STUCK = "model_stuck"
    """Step after step brought nothing that could be judged, or only repetitions."""
    NO_PROGRESS = "no_progress"
    INFRASTRUCTURE_ERRORS = "infrastructure_errors"
    INTERRUPTED = "interrupted"

    @property
    def is_final(self) -> bool:
        """Whether a resumed run has nothing left to do; trouble from outside is worth another try."""
        return self not in (StopReason.INFRASTRUCTURE_ERRORS, StopReason.INTERRUPTED)


@dataclass(frozen=True, slots=True)
class Plan:
    """K chains of T steps, and what ends them early."""

    chains: int = 1
    steps: int = 100
    """The most proposals of one chain; duplicates count."""
    patience: int | None = None
    """A chain stops after this many steps in a row without a new best score of its own."""
    target: float | None = None
    """The run stops as soon as a trial scores this much."""
    seed: int = 0
    max_consecutive_errors: int = 3
    """The run stops after this many infrastructure errors in a row."""
    finalists: int = 3
    """How many of the best trials are measured again, side by side, to choose the winner."""

    def __post_init__(self) -> None:
        for name in ("chains", "steps", "patience", "max_consecutive_errors", "finalists"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UserError(f"{name} must be at least 1, not {value}")
        if self.target is not None and not math.isfinite(self.target):
            raise UserError(f"the target must be a finite number, not {self.target}")
