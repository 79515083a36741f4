"""Hill climbing: one edit of the best so far, again and again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from optimizer.budget import BudgetView
from optimizer.errors import UserError
from optimizer.policies.neighbourhood import best_first, digests_of, new_neighbour, rng_of, searchable
from optimizer.protocols import Proposal
from optimizer.trial import Trial


@dataclass(frozen=True, slots=True)
class HillClimb:
    """Propose a new neighbour of the chain's best trial, or the repair of a rejection; step back when there is none."""

    name: ClassVar[str] = "hillclimb"

    seed: int = 0
    chain: int = 0
    tries: int = 200
    """How many neighbours of one candidate are looked at before the next best takes its place."""
    parents: int = 8
    """How many of the best candidates are tried so before giving up."""

    def __post_init__(self) -> None:
        if self.tries < 1 or self.parents < 1:
            raise UserError(f"tries and parents must be at least 1, not {self.tries} and {self.parents}")

    def propose(self, problem: Any, history: Sequence[Trial], budget: BudgetView) -> Proposal:
        space = searchable(problem, self.name)
        known = digests_of(history)
        repair = next((verdict.repair for verdict in history[-1].verdicts if verdict.repair), None)
        if repair is not None and problem.parse(repair).digest not in known:
            return Proposal(repair, "the repair that came with the rejection")
        rng = rng_of(self.seed, self.chain, history)
        for parent in best_first(history)[: self.parents]:
            neighbour = new_neighbour(space, parent.candidate, known, rng, self.tries)
            if neighbour is not None:
                return Proposal(neighbour.text, f"one edit of trial {parent.number}")
        return Proposal(None, "none of the best candidates has a new neighbour")
