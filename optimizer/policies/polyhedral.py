"""Compiler knowledge without a model: templates in order of promise, then small edits of the best."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from optimizer.budget import BudgetView, Line
from optimizer.errors import UserError
from optimizer.policies.neighbourhood import best_first, digests_of, new_neighbour, rng_of
from optimizer.protocols import Proposal
from optimizer.trial import Trial


@dataclass(frozen=True, slots=True)
class Polyhedral:
    """Try isl's schedules and tile and thread templates, the most promising first, then neighbours of the best."""

    name: ClassVar[str] = "polyhedral"

    seed: int = 0
    chain: int = 0
    share: float = 0.7
    """The part of the evaluations that goes to templates before the best is edited."""

    def __post_init__(self) -> None:
        if not 0.0 < self.share <= 1.0:
            raise UserError(f"share must be above 0 and at most 1, not {self.share}")

    def propose(self, problem: Any, history: Sequence[Trial], budget: BudgetView) -> Proposal:
        templates = getattr(problem, "templates", None)
        if templates is None:
            raise UserError(f"policy polyhedral proposes loop schedules; a problem of kind {problem.kind} has none")
        known = digests_of(history)
        rng = rng_of(self.seed, self.chain, history)
        limit = budget.limits.evaluations
        for_templates = math.inf if limit is None else max(1, round(self.share * limit))
        if limit is None or budget.used.evaluations < for_templates:
            for schedule in self._in_turn(templates()):
                candidate = problem.parse(str(schedule))
                if candidate.digest not in known and problem.has_code(candidate):
                    return Proposal(candidate.text, "template")
        for parent in best_first(history):
            neighbour = new_neighbour(problem, parent.candidate, known, rng, tries=100)
            if neighbour is not None:
                return Proposal(neighbour.text, f"one edit of trial {parent.number}")
        return Proposal(None, f"nothing new is left ({budget.left(Line.EVALUATIONS)} evaluations are)")

    def _in_turn(self, templates: Sequence[Any]) -> list[Any]:
        """The templates in the order of this chain: each chain starts at another place."""
        start = self.chain * 3 % len(templates) if templates else 0
        return [*templates[start:], *templates[:start]]
