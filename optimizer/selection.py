"""Who wins: the best few trials are measured again, side by side, and ties are called ties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from optimizer.trial import Trial
from optimizer.verdict import Measurement, Verdict


@dataclass(frozen=True, slots=True)
class Finalist:
    """A trial that was measured again: its measurement, or the verdict that it failed with this time."""

    trial: int
    answer: Measurement | Verdict


@dataclass(frozen=True, slots=True)
class Selection:
    """The winner with both of its measurements: the one that selected it and the one taken afterwards."""

    winner: Trial
    selected: Measurement | None
    """From the search; None when the winner is a baseline without a score."""
    measured: Measurement | None
    """From the comparison of the finalists; None when there was none."""
    tied: tuple[int, ...] = ()
    """Numbers of all trials that cannot be told apart from the best, winner included; empty without a tie."""


def is_tie(one: Measurement, other: Measurement) -> bool:
    """Whether two measurements cannot be told apart: each score lies within the interval of the other."""
    return other.interval[0] <= one.score <= other.interval[1] and one.interval[0] <= other.score <= one.interval[1]


def is_better(one: Measurement, baseline: Measurement | None) -> bool:
    """Whether a measurement is above the baseline's score with all of its interval; true without a baseline score."""
    return baseline is None or min(one.score, one.interval[0]) > baseline.score


def finalists_of(trials: Sequence[Trial], count: int) -> tuple[Trial, ...]:
    """The best accepted trials that score above the baseline, best first, earlier ones first among equals."""
    baseline = trials[0].score
    better = [
        (score, trial)
        for trial in trials[1:]
        if (score := trial.score) is not None and (baseline is None or score > baseline)
    ]
    better.sort(key=lambda pair: (-pair[0], pair[1].number))
    return tuple(trial for _, trial in better[:count])


def select(trials: Sequence[Trial], count: int, finalists: Sequence[Finalist] | None) -> Selection:
    """Choose the winner among the best `count` trials by `finalists`, or by the search's scores when that is None.

    Trials that tie with the best are equally good: the one with the shortest text wins, then the earliest. The
    baseline wins unless another trial is better than it beyond the measurement's interval.
    """
    baseline = trials[0]
    if finalists is None:
        scored = [(trial, trial.measurement) for trial in finalists_of(trials, count)]
    else:
        scored = [(trials[finalist.trial], _measurement_of(finalist)) for finalist in finalists]
    better = [(trial, found) for trial, found in scored if found and is_better(found, baseline.measurement)]
    if not better:
        return Selection(baseline, baseline.measurement, None)
    best = max((found for _, found in better), key=lambda found: found.score)
    equal = [(trial, found) for trial, found in better if found is best or is_tie(found, best)]
    winner, found = min(equal, key=lambda pair: (len(pair[0].candidate.text), pair[0].number))
    tied = tuple(sorted(trial.number for trial, _ in equal)) if len(equal) > 1 else ()
    return Selection(winner, winner.measurement, None if finalists is None else found, tied)


def _measurement_of(finalist: Finalist) -> Measurement | None:
    return finalist.answer if isinstance(finalist.answer, Measurement) else None
