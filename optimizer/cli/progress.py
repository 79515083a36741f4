"""What is known of a run while it goes: the events folded into a few numbers, for whichever view shows them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from optimizer.budget import BudgetView, Line
from optimizer.events import (
    Asking,
    BudgetShort,
    ChainStopped,
    ComparisonStarted,
    Event,
    FinalistsMeasured,
    RunFinished,
    RunStarted,
    TrialFinished,
    TrialStarted,
    Waiting,
)
from optimizer.trial import Trial
from optimizer.wording import seconds_text


@dataclass(slots=True)
class ChainProgress:
    """One row of the live table."""

    step: int = 0
    outcomes: Counter[str] = field(default_factory=Counter[str])
    best: Trial | None = None
    state: str = "waiting"


@dataclass(slots=True)
class Progress:
    """The state of a run, changed by `notify` alone."""

    problem: str = ""
    chains: list[ChainProgress] = field(default_factory=list[ChainProgress])
    budget: BudgetView = BudgetView()
    best: Trial | None = None
    doing: str = ""
    warnings: tuple[str, ...] = ()

    def notify(self, event: Event) -> None:
        match event:
            case RunStarted():
                self.problem = event.problem
                self.chains = [ChainProgress() for _ in range(event.plan.chains)]
                self.budget = BudgetView(limits=event.limits)
                self.warnings = event.warnings
            case TrialStarted():
                chain = self._chain(event.chain)
                chain.step, chain.state = event.step, f"judging {_short(event.candidate.text)}"
                self.doing = ""
            case TrialFinished():
                self._finish(event.trial)
                self.budget = event.budget
            case ChainStopped():
                self._chain(event.chain).state = f"stopped: {event.reason}"
            case Asking():
                self._chain(event.chain).state = f"asking for step {event.step}"
            case BudgetShort():
                self.warnings = (*self.warnings, short_text(event))
            case Waiting():
                self.doing = f"waiting: {event.reason}"
            case ComparisonStarted():
                self.doing = f"measuring the best {len(event.trials)} again, side by side"
            case FinalistsMeasured() | RunFinished():
                self.doing = ""

    def _chain(self, number: int) -> ChainProgress:
        while len(self.chains) <= number:
            self.chains.append(ChainProgress())
        return self.chains[number]

    def _finish(self, trial: Trial) -> None:
        if trial.number == 0:
            return
        chain = self._chain(trial.chain)
        chain.step = trial.step
        chain.outcomes[trial.outcome] += 1
        chain.state = f"{trial.outcome}: {_short(trial.candidate.text)}"
        if _is_above(trial, chain.best):
            chain.best = trial
        if _is_above(trial, self.best):
            self.best = trial


def budget_text(budget: BudgetView) -> str:
    """What is left of each line that has a limit; what is used of the time when nothing has."""
    parts: list[str] = []
    for line in Line:
        left = budget.left(line)
        if left is not None:
            limit = getattr(budget.limits, line)
            parts.append(f"{seconds_text(left)} left" if line is Line.SECONDS else f"{left:g} of {limit} {line} left")
    return ", ".join(parts) or f"{seconds_text(budget.used.seconds)} used"


def short_text(event: BudgetShort) -> str:
    """`75% of the budget of usd are used (0.76 of 1)`."""
    return f"{event.used / event.limit:.0%} of the budget of {event.line} is used ({event.used:.3g} of {event.limit:g})"


def outcomes_text(outcomes: Counter[str]) -> str:
    """`4 ok, 2 illegal`: most frequent first."""
    return ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common()) or "-"


def _is_above(trial: Trial, best: Trial | None) -> bool:
    if trial.score is None:
        return False
    return best is None or best.score is None or trial.score > best.score


def _short(text: str, width: int = 60) -> str:
    """The first line of a candidate, cut to a width."""
    first = text.strip().splitlines()[0] if text.strip() else "(the original)"
    return first if len(first) <= width and "\n" not in text.strip() else first[: width - 3] + "..."
