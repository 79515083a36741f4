"""Mutation: a few random edits of one of the best so far, and now and then of a worse one, to leave a dead end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from optimizer.budget import BudgetView
from optimizer.errors import UserError
from optimizer.policies.neighbourhood import best_first, digests_of, new_neighbour, rng_of, searchable
from optimizer.protocols import Proposal
from optimizer.trial import Trial

WEIGHTS = (2, 1, 1)
"""How often the best, the original and any accepted trial are edited: what raises a score may lead into a dead end."""


@dataclass(frozen=True, slots=True)
class Mutate:
    """Edit one of the chain's best trials, or now and then any accepted one, or the original, to leave a dead end."""

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
        best = [trial for trial in ranked if trial.score == ranked[0].score]
        for _ in range(self.tries):
            parent = rng.choice(rng.choices((best, history[:1], ranked), WEIGHTS)[0])
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
