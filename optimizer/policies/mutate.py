"""Mutation: a few random edits of one of the best so far. Finds its way over plateaus, where many score the same."""

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
class Mutate:
    """Edit a random one of the chain's best-scoring trials, once in half of the cases, else more often."""

    name: ClassVar[str] = "mutate"

    seed: int = 0
    chain: int = 0
    max_edits: int = 3
    """The most edits of one proposal; each further one is half as likely."""
    tries: int = 100
    """How many mutants, and how many neighbours for each edit, are tried before giving up."""

    def __post_init__(self) -> None:
        if self.max_edits < 1 or self.tries < 1:
            raise UserError(f"max_edits and tries must be at least 1, not {self.max_edits} and {self.tries}")

    def propose(self, problem: Any, history: Sequence[Trial], budget: BudgetView) -> Proposal:
        space = searchable(problem, self.name)
        rng = rng_of(self.seed, self.chain, history)
        known = digests_of(history)
        ranked = best_first(history)
        equals = [trial for trial in ranked if trial.score == ranked[0].score]
        for _ in range(self.tries):
            parent = rng.choice(equals)
            candidate = parent.candidate
            edits = 0
            while edits < self.max_edits and (edits == 0 or rng.random() < 0.5):
                neighbour = new_neighbour(space, candidate, (), rng, self.tries)
                if neighbour is None:
                    break
                candidate = neighbour
                edits += 1
            if edits and candidate.digest not in known:
                return Proposal(candidate.text, f"{edits} edits of trial {parent.number}")
        return Proposal(None, "no mutant of the best trials is new")
