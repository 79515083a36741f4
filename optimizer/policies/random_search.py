"""Random search: walks of random length from the baseline. The control that any cleverer policy must beat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from optimizer.budget import BudgetView
from optimizer.candidate import Candidate
from optimizer.errors import UserError
from optimizer.policies.neighbourhood import digests_of, new_neighbour, rng_of, searchable
from optimizer.protocols import Proposal
from optimizer.trial import Trial


@dataclass(frozen=True, slots=True)
class RandomSearch:
    """Propose the end of a random walk from the baseline, over admissible candidates; learn nothing from feedback."""

    name: ClassVar[str] = "random"

    seed: int = 0
    chain: int = 0
    max_length: int = 6
    """The longest walk, in edits."""
    walks: int = 50
    """How many walks may end at something known before giving up."""
    tries: int = 20
    """How many neighbours are looked at for each step of a walk."""

    def __post_init__(self) -> None:
        for option in ("max_length", "walks", "tries"):
            if getattr(self, option) < 1:
                raise UserError(f"{option} of policy random must be at least 1, not {getattr(self, option)}")

    def propose(self, problem: Any, history: Sequence[Trial], budget: BudgetView) -> Proposal:
        space = searchable(problem, self.name)
        rng = rng_of(self.seed, self.chain, history)
        known = digests_of(history)
        for _ in range(self.walks):
            candidate: Candidate = problem.baseline
            length = rng.randint(1, self.max_length)
            walked = {candidate.digest}
            for _ in range(length):
                neighbour = new_neighbour(space, candidate, walked, rng, self.tries)
                if neighbour is None:
                    break
                candidate = neighbour
                walked.add(candidate.digest)
            if candidate.digest not in known:
                return Proposal(candidate.text, f"a random walk of {len(walked) - 1} edits from the original")
        return Proposal(None, f"{self.walks} random walks ended nowhere new")
