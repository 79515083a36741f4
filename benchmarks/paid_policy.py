"""A policy that pays for every proposal as one that asks a model does, and answers the same whenever it is asked.

It makes the accounts of a run that is killed comparable with those of one that is not: see `kill_resume.py`.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from optimizer.budget import Amounts, BudgetView
from optimizer.policies.neighbourhood import best_first
from optimizer.protocols import Policy, Proposal
from optimizer.services import Services
from optimizer.trial import Cost, Trial

WORST_CASE = Amounts(calls=1, tokens=1000, usd=0.5)
EVENT = "purchase"


def price(chain: int, step: int) -> Amounts:
    """What the call for this step really costs: below the worst case, and different for every step."""
    return Amounts(calls=1, tokens=100 + 10 * step + chain, usd=0.125 + step / 128 + chain / 1024)


@dataclass(frozen=True, slots=True)
class Paid:
    """Propose a text that follows from the best one so far, after a call that costs time and money."""

    name: ClassVar[str] = "paid"

    seed: int = 0
    chain: int = 0
    seconds: float = 0.02
    """What a call takes."""

    def attach(self, services: Services) -> Policy:
        return PaidChain(services, self.seed, self.seconds)


class PaidChain:
    """One chain; what it paid for is in its journal, and is not paid for again."""

    name: ClassVar[str] = "paid"

    def __init__(self, services: Services, seed: int, seconds: float) -> None:
        self._services, self._seed, self._seconds = services, seed, seconds
        self._bought = {note["step"]: note["text"] for note in services.notes() if note["event"] == EVENT}

    def propose(self, problem: Any, history: Sequence[Trial], budget: BudgetView) -> Proposal:
        """The text of this step. Raises `BudgetSpent` and `RunStopped`."""
        step, chain = len(history), self._services.chain
        if step not in self._bought:
            reservation = self._services.reserve(WORST_CASE)
            with self._services.away():
                time.sleep(self._seconds)
            text = _text(self._seed, chain, step, best_first(history)[0].candidate.text)
            self._services.settle(reservation, price(chain, step), EVENT, step=step, text=text)
            self._bought[step] = text
        paid = price(chain, step)
        return Proposal(self._bought[step], f"call {step}", Cost(0.0, paid.calls, paid.tokens, paid.usd))


def _text(seed: int, chain: int, step: int, best: str) -> str:
    return hashlib.sha256(f"{seed}/{chain}/{step}/{best}".encode()).hexdigest()[:12]
