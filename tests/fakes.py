"""Small problems, verifiers and policies with which the engine is tested; candidates are numbers written as text."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from optimizer.budget import BudgetView
from optimizer.candidate import Candidate
from optimizer.errors import InfrastructureError, ScheduleSyntaxError, StepError
from optimizer.events import Event
from optimizer.protocols import Proposal
from optimizer.trial import Trial
from optimizer.verdict import Measurement, Reason, Status, Verdict


@dataclass(frozen=True)
class NumberProblem:
    """Find a number; the baseline is 1 and scores 1."""

    kind: ClassVar[str] = "number"
    baseline_is_unit: ClassVar[bool] = True
    name: str = "number"

    @property
    def baseline(self) -> Candidate:
        return Candidate("1")

    def parse(self, text: str) -> Candidate:
        if "!" in text:
            raise StepError("a number has no exclamation mark", near=("1",))
        try:
            return Candidate(f"{float(text):g}")
        except ValueError as error:
            raise ScheduleSyntaxError(f"{text!r} is no number") from error

    def specification(self) -> Mapping[str, Any]:
        return {"kind": self.kind}

    def neighbours(self, candidate: Candidate, rng: random.Random) -> Iterator[Candidate]:
        steps = [0.5, -0.5, 0.25, -0.25]
        rng.shuffle(steps)
        for step in steps:
            yield self.parse(str(float(candidate.text) + step))

    def is_admissible(self, candidate: Candidate) -> bool:
        return float(candidate.text) > 0


@dataclass
class NumberVerifier:
    """The score of a number is itself; numbers above `limit` are wrong; 13 breaks the harness."""

    name: ClassVar[str] = "number"
    limit: float = 100.0
    failures: int = 0
    """How many calls fail before the first works."""
    asked: list[str] = field(default_factory=list[str])
    on_call: Callable[[int], None] = lambda count: None

    def verify(self, problem: Any, candidate: Candidate) -> Verdict:
        self.asked.append(candidate.text)
        self.on_call(len(self.asked))
        value = float(candidate.text)
        if self.failures > 0:
            self.failures -= 1
            raise InfrastructureError("the disk is full")
        if value == 13:
            raise InfrastructureError("thirteen breaks it")
        if value > self.limit:
            repair = f"{self.limit:g}"
            return Verdict(Status.REJECTED, self.name, Reason.WRONG_RESULT, "too large", {"value": value}, repair)
        return Verdict(Status.OK, self.name, assurance="measured", measurement=measured(value))


@dataclass
class NumberComparer(NumberVerifier):
    """Measures again with given second scores."""

    again: Mapping[str, float] = field(default_factory=dict[str, float])
    spread: float = 0.0
    compared: list[list[str]] = field(default_factory=list[list[str]])
    comparison_failures: int = 0

    def compare(self, problem: Any, candidates: Sequence[Candidate]) -> Sequence[Measurement | Verdict]:
        self.compared.append([candidate.text for candidate in candidates])
        if self.comparison_failures > 0:
            self.comparison_failures -= 1
            raise InfrastructureError("someone else is timing")
        return [
            measured(self.again[candidate.text], self.spread)
            if candidate.text in self.again
            else Verdict(Status.REJECTED, self.name, Reason.NONDETERMINISTIC, "not the same twice")
            for candidate in candidates
        ]


@dataclass(frozen=True)
class ListPolicy:
    """Proposes given texts; remembers what it was shown."""

    name: ClassVar[str] = "list"
    texts: Sequence[str | None] = ()
    seen: list[tuple[Trial, ...]] = field(default_factory=list[tuple[Trial, ...]])
    budgets: list[BudgetView] = field(default_factory=list[BudgetView])

    def propose(self, problem: Any, history: Sequence[Trial], budget: BudgetView) -> Proposal:
        self.seen.append(tuple(history))
        self.budgets.append(budget)
        place = len(history) - 1
        return Proposal(self.texts[place] if place < len(self.texts) else None, f"proposal {place}")


@dataclass
class Watcher:
    """Keeps all events."""

    events: list[Event] = field(default_factory=list[Event])

    def notify(self, event: Event) -> None:
        self.events.append(event)


def measured(score: float, spread: float = 0.0) -> Measurement:
    return Measurement(score, (score - spread, score + spread), 5)


def accepted(number: int, text: str, score: float, spread: float = 0.0, chain: int = 0) -> Trial:
    """A trial that scored."""
    verdict = Verdict(Status.OK, "number", measurement=measured(score, spread))
    return Trial(number, chain, number, Candidate(text), (verdict,))


def rejected(number: int, text: str, reason: Reason = Reason.WRONG_RESULT, repair: str | None = None) -> Trial:
    """A trial that did not."""
    verdict = Verdict(Status.REJECTED, "number", reason, "no", repair=repair)
    return Trial(number, 0, number, Candidate(text), (verdict,))
