"""Random schedules."""

from __future__ import annotations

from random import Random

from optimizer.errors import StepError
from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.schedule import Schedule, apply_step, nest_of
from optimizer.polyhedral.steps import STEPS, Step


def random_schedule(nest: Nest, rng: Random, length: int) -> Schedule:
    """A schedule of that many steps that can be applied, legal or not; shorter only where nothing more applies.

    Each kind of step has the same chance, then each of its options. The same `rng` state gives the same schedule.
    """
    tree = nest.tree
    chosen: list[Step] = []
    while len(chosen) < length:
        kinds = list(STEPS.values())
        rng.shuffle(kinds)
        for kind in kinds:
            options = list(kind.options(nest_of(nest, tree), tree))
            if not options:
                continue
            step = rng.choice(options)
            try:
                after = apply_step(nest, tree, step)
                nest_of(nest, after)
            except StepError:
                continue
            tree = after
            chosen.append(step)
            break
        else:
            break
    return Schedule(tuple(chosen))
