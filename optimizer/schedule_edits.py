"""Schedules that differ from another one by one edit: what searches without a model walk along."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

from optimizer.errors import CandidateError, StepError
from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.schedule import Schedule, nest_of, parse_schedule
from optimizer.polyhedral.steps import STEPS

TRIES = 400
NUMBER = re.compile(r"(?<!\w)\d+")
"""A number in a schedule's text that is not part of a name."""


def edits(schedule: Schedule, nest: Nest, rng: random.Random) -> Iterator[Schedule]:
    """Schedules with one step more, one less, or one number changed; in random order, never the same text twice.

    Not all of them apply to the nest.
    """
    seen = {str(schedule)}
    for _ in range(TRIES):
        (edit,) = rng.choices((_longer, _shorter, _renumbered), weights=(4, 1, 2))
        edited = edit(schedule, nest, rng)
        if edited is not None and str(edited) not in seen:
            seen.add(str(edited))
            yield edited


def numbers_of(schedule: Schedule) -> set[int]:
    """Tile sizes, unroll factors, distances."""
    return {int(text) for text in NUMBER.findall(str(schedule))}


def _longer(schedule: Schedule, nest: Nest, rng: random.Random) -> Schedule | None:
    try:
        tree = schedule.apply(nest)
    except StepError:
        return None
    options = list(rng.choice(list(STEPS.values())).options(nest_of(nest, tree), tree))
    return Schedule((*schedule.steps, rng.choice(options))) if options else None


def _shorter(schedule: Schedule, nest: Nest, rng: random.Random) -> Schedule | None:
    if not schedule.steps:
        return None
    index = rng.randrange(len(schedule.steps))
    return Schedule((*schedule.steps[:index], *schedule.steps[index + 1 :]))


def _renumbered(schedule: Schedule, nest: Nest, rng: random.Random) -> Schedule | None:
    text = str(schedule)
    numbers = list(NUMBER.finditer(text))
    if not numbers:
        return None
    chosen = rng.choice(numbers)
    value = int(chosen.group())
    other = rng.choice((2 * value, value // 2, value + 1, value - 1))
    try:
        return parse_schedule(f"{text[: chosen.start()]}{other}{text[chosen.end() :]}")
    except CandidateError:
        return None
