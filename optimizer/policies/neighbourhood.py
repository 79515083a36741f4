"""What the policies without a model share: seeded randomness, and new neighbours of a candidate."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from itertools import islice
from typing import Any

from optimizer.candidate import Candidate
from optimizer.errors import UserError
from optimizer.protocols import Searchable
from optimizer.trial import Trial


def rng_of(seed: int, chain: int, history: Sequence[Trial]) -> random.Random:
    """Randomness that depends on nothing but the seed, the chain and the step."""
    return random.Random(f"{seed}/{chain}/{len(history)}")


def searchable(problem: Any, policy: str) -> Searchable:
    """The problem, if its candidates have neighbours; raises `UserError` otherwise."""
    if not isinstance(problem, Searchable):
        raise UserError(
            f"policy {policy} searches among neighbours of a candidate, and a problem of kind {problem.kind} has none"
        )
    return problem


def digests_of(history: Sequence[Trial]) -> frozenset[str]:
    return frozenset(trial.candidate.digest for trial in history)


def best_first(history: Sequence[Trial]) -> list[Trial]:
    """The trials with a score, best first, earlier ones first among equals; the baseline if there are none."""
    scored = [(score, trial) for trial in history if (score := trial.score) is not None]
    scored.sort(key=lambda pair: (-pair[0], pair[1].number))
    return [trial for _, trial in scored] or list(history[:1])


def new_neighbour(
    problem: Searchable, parent: Candidate, known: Collection[str], rng: random.Random, tries: int
) -> Candidate | None:
    """The first of `tries` neighbours that is admissible and whose digest is not known."""
    for neighbour in islice(problem.neighbours(parent, rng), tries):
        if neighbour.digest not in known and problem.is_admissible(neighbour):
            return neighbour
    return None
