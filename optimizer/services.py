"""What the engine does for a policy that asks somebody outside: a model, a person, a program.

The chains of such a policy ask at the same time, each in a thread of its own, yet only one thread computes at a time:
the workbench is held by whoever works and given up while somebody waits. So timing stays undisturbed, isl stays in one
thread at a time, and nothing else needs a lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

from optimizer.budget import Amounts, Ledger, Limits, Line, Reservation
from optimizer.errors import LoopwrightError
from optimizer.events import BudgetShort, Observer, Waiting
from optimizer.journal import Journal
from optimizer.protocols import Informant, Problem, Verifier
from optimizer.trial import Trial

LOOK_AGAIN_SECONDS = 0.2
"""How often a chain that waits for others to give back a part of the budget looks whether the run was stopped."""

Shared = TypeVar("Shared")


class BudgetSpent(LoopwrightError):
    """A chain cannot pay for what it has to ask next; no work in flight will give anything back."""

    def __init__(self, line: Line, needed: float, left: float) -> None:
        self.line = line
        super().__init__(f"its next call may need {needed:.3g} {line}, and {left:.3g} of the budget are left")


class RunStopped(LoopwrightError):
    """The run ends: do not begin anything new."""


@runtime_checkable
class Closable(Protocol):
    """Something that holds connections or processes until the run ends."""

    def close(self) -> None: ...


class Workbench:
    """Held by the one thread that computes."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def acquire(self) -> None:
        self._lock.acquire()

    def release(self) -> None:
        self._lock.release()

    @contextmanager
    def held(self) -> Generator[None]:
        self.acquire()
        try:
            yield
        finally:
            self.release()

    @contextmanager
    def given_up(self) -> Generator[None]:
        """Within it, others may compute. Only for a thread that holds it once."""
        self.release()
        try:
            yield
        finally:
            self.acquire()


@dataclass(frozen=True)
class RunState:
    """What all chains of a run share."""

    problem: Problem
    verifiers: Sequence[Verifier]
    ledger: Ledger
    journal: Journal
    observer: Observer
    workbench: Workbench
    stopping: threading.Event
    trials: Sequence[Trial]
    """All of the run so far; grows."""
    shared: dict[str, Any]
    """What chains share, by name; closed when the run ends."""


@dataclass(frozen=True)
class Services:
    """One chain's access to its run. All methods are called by the thread that holds the workbench."""

    chain: int
    run: RunState

    @property
    def problem(self) -> Any:
        return self.run.problem

    @property
    def directory(self) -> Path:
        """The run's folder."""
        return self.run.journal.path.parent

    @property
    def limits(self) -> Limits:
        return self.run.ledger.limits

    @property
    def stopping(self) -> threading.Event:
        """Set when the run ends: whoever waits outside should come back."""
        return self.run.stopping

    def trials(self) -> tuple[Trial, ...]:
        """The trials of all chains so far."""
        return tuple(self.run.trials)

    def notes(self) -> tuple[Mapping[str, Any], ...]:
        """What this chain had recorded when the run was taken up again."""
        return tuple(note for note in self.run.journal.record.notes if note["chain"] == self.chain)

    def facts(self) -> Mapping[str, Any]:
        """What verifiers can tell of the problem beforehand, measured once a run. Raises `InfrastructureError`."""
        recorded = [note for note in self.run.journal.record.notes if note["event"] == "facts"]
        if recorded:
            return recorded[0]["facts"]

        def ask() -> Mapping[str, Any]:
            told = (verifier for verifier in self.run.verifiers if isinstance(verifier, Informant))
            facts = {name: fact for verifier in told for name, fact in verifier.facts(self.problem).items()}
            self.note("facts", facts=facts)
            return facts

        return self.shared("facts", ask)

    def shared(self, name: str, make: Callable[[], Shared]) -> Shared:
        """One object for all chains of the run, made by the first that asks."""
        if name not in self.run.shared:
            self.run.shared[name] = make()
        return cast("Shared", self.run.shared[name])

    @contextmanager
    def away(self) -> Generator[None]:
        """Give up the workbench while waiting for somebody outside."""
        with self.run.workbench.given_up():
            yield

    def say(self, reason: str) -> None:
        """Tell who watches why this chain waits, or what it does instead. May be called while away."""
        self.run.observer.notify(Waiting(f"chain {self.chain}: {reason}"))

    def note(self, event: str, **fields: Any) -> None:
        """Record something that the chain has to remember."""
        self.run.journal.note(event, self.chain, fields)

    def reserve(self, worst_case: Amounts) -> Reservation:
        """Set aside what a call may cost at most; wait for other chains where they may leave enough.

        Raises `BudgetSpent` when there is not enough and none will come back, `RunStopped` when the run ends meanwhile.
        """
        while True:
            if self.stopping.is_set():
                raise RunStopped("the run ends")
            reservation = self.run.ledger.reserve(worst_case)
            if reservation is not None:
                self.run.journal.reserved(self.chain, reservation.number, worst_case)
                return reservation
            line, may_change = self.run.ledger.refusing(worst_case)
            if line is not None and not may_change:
                left = self.run.ledger.view().left(line) or 0.0
                raise BudgetSpent(line, getattr(worst_case, line), left)
            with self.away():
                self.run.ledger.wait_for_change(LOOK_AGAIN_SECONDS)

    def refund(self, reservation: Reservation) -> None:
        """End a reservation of which nothing was used."""
        self.run.ledger.refund(reservation)
        self.run.journal.settled(self.chain, reservation.number, Amounts(), "refund")

    def settle(self, reservation: Reservation, actual: Amounts, event: str, **fields: Any) -> None:
        """End a reservation with what the call cost, and record the call, in one line of the journal."""
        self.run.ledger.settle(reservation, actual)
        self.run.journal.note(event, self.chain, fields, (reservation.number, actual))
        warn_of_budget(self.run.ledger, self.run.observer)


def warn_of_budget(ledger: Ledger, observer: Observer) -> None:
    """Tell once of each line of the budget that is nearly used up."""
    for line in ledger.newly_short():
        view = ledger.view()
        observer.notify(BudgetShort(line, getattr(view.used, line), getattr(view.limits, line)))
