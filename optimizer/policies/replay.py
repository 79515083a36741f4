"""Replay: a given list of candidates, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from optimizer.budget import BudgetView
from optimizer.errors import UserError
from optimizer.protocols import Proposal
from optimizer.trial import Trial


@dataclass(frozen=True, slots=True)
class Replay:
    """Propose the texts that are given for this chain, in order, whatever becomes of them; then give up."""

    name: ClassVar[str] = "replay"

    seed: int = 0
    chain: int = 0
    chains: Sequence[Sequence[str]] = ()
    """The texts of each chain."""

    def __post_init__(self) -> None:
        if any(isinstance(texts, str) for texts in self.chains):
            raise UserError("replay needs a list of texts for each chain, not a single text")
        if not 0 <= self.chain < max(1, len(self.chains)):
            raise UserError(f"replay has texts for {len(self.chains)} chains, and chain {self.chain} was asked for")

    def propose(self, problem: Any, history: Sequence[Trial], budget: BudgetView) -> Proposal:
        texts = self.chains[self.chain] if self.chains else ()
        place = len(history) - 1
        if place >= len(texts):
            return Proposal(None, "the list is at its end")
        return Proposal(texts[place], f"text {place + 1} of {len(texts)}")
