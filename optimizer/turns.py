"""Whose turn it is to propose: one chain after the other, or, where policies ask somebody outside, all at once."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import Self

from optimizer.budget import BudgetView, Reservation
from optimizer.events import Asking, Waiting
from optimizer.protocols import Attachable, Policy, Proposal
from optimizer.services import Closable, RunState, Services
from optimizer.trial import Trial


@dataclass(frozen=True)
class Turn:
    """A proposal that was asked for, with the evaluation that is set aside to judge it."""

    chain: int
    step: int
    reservation: Reservation
    answer: Future[Proposal]
    is_recorded: bool
    """Whether the journal has the proposal already."""


class Turns:
    """The proposals that are asked for. Use it as a context manager: its thread holds the workbench within.

    On leaving, answers that are still to come are waited for and recorded: they are paid for, and the run can go on
    with them.
    """

    def __init__(self, policies: Sequence[Policy | Attachable], state: RunState) -> None:
        self._state = state
        self._asks_outside = any(isinstance(policy, Attachable) for policy in policies)
        self._policies: list[Policy] = [
            policy.attach(Services(chain, state)) if isinstance(policy, Attachable) else policy
            for chain, policy in enumerate(policies)
        ]
        self.open: list[Turn] = []

    def __enter__(self) -> Self:
        self._state.workbench.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._finish_open()
        finally:
            self._state.workbench.release()
            for thing in self._state.shared.values():
                if isinstance(thing, Closable):
                    thing.close()

    @property
    def chains(self) -> frozenset[int]:
        """The chains that were asked and whose answer was not taken."""
        return frozenset(turn.chain for turn in self.open)

    @property
    def has_room(self) -> bool:
        return len(self.open) < (len(self._policies) if self._asks_outside else 1)

    def begin(
        self,
        chain: int,
        step: int,
        history: tuple[Trial, ...],
        view: BudgetView,
        reservation: Reservation,
        known: Proposal | None,
    ) -> None:
        """Ask for a chain's next proposal, unless it is `known`; `reservation` is for the evaluation of it."""
        turn = Turn(chain, step, reservation, Future(), known is not None)
        if known is not None:
            turn.answer.set_result(known)
        elif self._asks_outside:
            self._state.observer.notify(Asking(chain, step))
            threading.Thread(target=self._propose, args=(turn, history, view), daemon=True).start()
        else:
            self._propose(turn, history, view)
        # Not before: an interrupt up to here must leave no turn behind whose answer never comes.
        self.open.append(turn)

    def next_answered(self) -> Turn:
        """The first turn whose proposal is there; of several, that of the chain with the fewest steps."""
        if not any(turn.answer.done() for turn in self.open):
            with self._state.workbench.given_up():
                wait([turn.answer for turn in self.open], return_when=FIRST_COMPLETED)
        turn = min((turn for turn in self.open if turn.answer.done()), key=lambda turn: (turn.step, turn.chain))
        self.open.remove(turn)
        return turn

    def _propose(self, turn: Turn, history: tuple[Trial, ...], view: BudgetView) -> None:
        with self._state.workbench.held():
            try:
                turn.answer.set_result(self._policies[turn.chain].propose(self._state.problem, history, view))
            except BaseException as error:  # raised where the answer is taken
                turn.answer.set_exception(error)

    def _finish_open(self) -> None:
        self._state.stopping.set()
        waiting = [turn.answer for turn in self.open if not turn.answer.done()]
        if waiting:
            self._state.observer.notify(
                Waiting(f"the run ends once {len(waiting)} answers that were paid for are there")
            )
        with self._state.workbench.given_up():
            wait(waiting)
        for turn in self.open:
            self._state.ledger.refund(turn.reservation)
            if not turn.is_recorded and turn.answer.exception() is None:
                self._state.journal.proposal(turn.chain, turn.step, turn.answer.result())
        self.open.clear()
