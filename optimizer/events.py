"""What a run tells those who watch it, and what it answers in the end."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Protocol

from optimizer.budget import Amounts, BudgetView, Limits, Line
from optimizer.candidate import Candidate
from optimizer.plan import Plan, StopReason
from optimizer.selection import Finalist, Selection
from optimizer.trial import Trial


@dataclass(frozen=True, slots=True)
class RunResult:
    """All trials of a run, why it stopped, and who won."""

    trials: tuple[Trial, ...]
    """In the order of their numbers; the first is the untouched baseline."""
    selection: Selection
    finalists: tuple[Finalist, ...]
    """Empty when no verifier can compare, or nothing was better than the baseline."""
    stop_reason: StopReason
    chain_stops: tuple[StopReason, ...]
    used: Amounts

    @property
    def winner(self) -> Trial:
        return self.selection.winner

    @property
    def outcomes(self) -> dict[str, int]:
        """How many trials ended how, most frequent first, without the baseline."""
        return dict(Counter(trial.outcome for trial in self.trials[1:]).most_common())


@dataclass(frozen=True, slots=True)
class RunStarted:
    problem: str
    plan: Plan
    limits: Limits
    warnings: tuple[str, ...] = ()
    past_trials: int = 0
    """How many trials a resumed run has already."""


@dataclass(frozen=True, slots=True)
class TrialStarted:
    number: int
    chain: int
    step: int
    candidate: Candidate


@dataclass(frozen=True, slots=True)
class TrialFinished:
    trial: Trial
    budget: BudgetView


@dataclass(frozen=True, slots=True)
class ChainStopped:
    chain: int
    reason: StopReason


@dataclass(frozen=True, slots=True)
class Waiting:
    """Nothing is wrong, but nothing moves: why, such as another run that is timing."""

    reason: str


@dataclass(frozen=True, slots=True)
class Asking:
    """A chain's policy asks somebody outside for the proposal of this step."""

    chain: int
    step: int


@dataclass(frozen=True, slots=True)
class BudgetShort:
    """Three quarters of a line of the budget are used up."""

    line: Line
    used: float
    limit: float


@dataclass(frozen=True, slots=True)
class ComparisonStarted:
    trials: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FinalistsMeasured:
    finalists: tuple[Finalist, ...]


@dataclass(frozen=True, slots=True)
class RunFinished:
    result: RunResult


Event = (
    RunStarted
    | TrialStarted
    | TrialFinished
    | ChainStopped
    | Waiting
    | Asking
    | BudgetShort
    | ComparisonStarted
    | FinalistsMeasured
    | RunFinished
)


class Observer(Protocol):
    """Watches a run; nothing that it does changes the run."""

    def notify(self, event: Event) -> None: ...


class Silent:
    """Watches nothing."""

    def notify(self, event: Event) -> None:
        """Forget the event."""
