"""The plug points: problems, policies and verifiers. Each has one job and no base class."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from optimizer.budget import BudgetView
from optimizer.candidate import Candidate
from optimizer.plan import StopReason
from optimizer.trial import Cost, Trial
from optimizer.verdict import Measurement, Verdict

if TYPE_CHECKING:
    from optimizer.services import Services


POLICY_STOPS = (StopReason.GIVEN_UP, StopReason.MODEL_REFUSED, StopReason.MODEL_STUCK)


class Problem(Protocol):
    """What is being optimized. The loop knows nothing of it but this."""

    kind: ClassVar[str]
    baseline_is_unit: ClassVar[bool]
    """Whether scores are ratios to the baseline, which then scores 1 unjudged; otherwise it is judged as well."""

    @property
    def name(self) -> str: ...

    @property
    def baseline(self) -> Candidate:
        """The untouched original; always a candidate, so a result is never worse than it."""
        ...

    def parse(self, text: str) -> Candidate:
        """The canonical candidate for a text; raises `CandidateError` when it cannot be read."""
        ...

    def specification(self) -> Mapping[str, Any]:
        """JSON from which the registry builds the same problem again (in another process, or on resume)."""
        ...


@runtime_checkable
class Searchable(Protocol):
    """A problem whose candidates have neighbours, so that policies without a model can search it."""

    def neighbours(self, candidate: Candidate, rng: random.Random) -> Iterator[Candidate]:
        """Candidates one edit away, in random order, without end checks or repeats promised."""
        ...

    def is_admissible(self, candidate: Candidate) -> bool:
        """A cheap necessary condition (for kernels: legality), so that a search need not propose what must fail."""
        ...


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a policy answers: a candidate's text, or None to give the chain up."""

    text: str | None
    rationale: str = ""
    cost: Cost = Cost()
    """For the record: what a policy pays for goes through `Services.reserve` and `settle`."""
    malformed: str = ""
    """Why an answer from outside holds no candidate: recorded as `unparsable`, with what came instead as the text."""
    stop: StopReason = StopReason.GIVEN_UP
    """Why the chain ends, when there is no text: one of those that a policy can know."""

    def __post_init__(self) -> None:
        _check_text(self.text)
        if self.stop not in POLICY_STOPS:
            raise ValueError(f"a policy cannot end a chain as {self.stop}")


def _check_text(text: object) -> None:
    """A policy may be a plug-in, and what is no text must not get into the journal, where it would stay."""
    if not isinstance(text, str | None):
        raise TypeError(f"a proposal is a text or None, not {text!r}")


class Policy(Protocol):
    """Proposes; never judges. A pure function of its options, the history and what is left of the budget."""

    name: ClassVar[str]

    def propose(self, problem: Any, history: Sequence[Trial], budget: BudgetView) -> Proposal:
        """The next candidate of this chain; `history` holds the chain's own trials, the baseline first."""
        ...


@runtime_checkable
class Attachable(Protocol):
    """Options of a policy that asks somebody outside: its chains ask at the same time, and pay through the engine."""

    name: ClassVar[str]

    def attach(self, services: Services) -> Policy:
        """The policy of one chain of a run, as its journal left it. Raises `UserError` when it cannot work at all."""
        ...


class Verifier(Protocol):
    """Judges and measures; never proposes. Never raises for a bad candidate, only for a broken set-up."""

    name: ClassVar[str]

    def verify(self, problem: Any, candidate: Candidate) -> Verdict: ...


@runtime_checkable
class Comparer(Protocol):
    """A verifier that can measure several finalists in one window, so that the winner is no lucky sample.

    The last one of a run's verifiers is asked.
    """

    def compare(self, problem: Any, candidates: Sequence[Candidate]) -> Sequence[Measurement | Verdict]:
        """One measurement a candidate, in order; a verdict in place of a candidate that failed this time."""
        ...


@runtime_checkable
class Informant(Protocol):
    """A verifier that can tell something of the problem before anything is proposed, such as the original's time."""

    def facts(self, problem: Any) -> Mapping[str, Any]:
        """JSON; what is measured for it is measured once. Raises `InfrastructureError`."""
        ...
