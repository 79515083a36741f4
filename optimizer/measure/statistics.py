"""Ratios of times with intervals, and means of ratios. Every random choice is seeded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import ArrayLike, NDArray

DRAWS = 2000
FEW = 5
"""With fewer pairs a bootstrap of medians knows too little; the range of all ratios then stands for the interval."""

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True, eq=False)
class Ratio:
    """A ratio with its uncertainty, as draws from what it might be; ratios multiply."""

    value: float
    draws: NDArray[np.float64]

    @property
    def interval(self) -> Interval:
        """The central 95% of the draws; it always holds the value."""
        low, high = np.percentile(self.draws, [2.5, 97.5])
        return min(float(low), self.value), max(float(high), self.value)

    @property
    def spread(self) -> float:
        """Half the interval's width, relative to the value."""
        low, high = self.interval
        return (high - low) / 2 / self.value

    def __mul__(self, other: Ratio) -> Ratio:
        return Ratio(self.value * other.value, self.draws * other.draws)


def paired_ratio(first: Sequence[float], second: Sequence[float], seed: int) -> Ratio:
    """The median of `first[i] / second[i]` (positive seconds of the same round), with a bootstrap of the pairs.

    With fewer than `FEW` pairs the draws are ratios of any first to any second. Raises `ValueError` unless both have
    the same length, at least 1.
    """
    if len(first) != len(second) or not first:
        raise ValueError(f"{len(first)} and {len(second)} samples do not make pairs")
    logs = np.log(np.asarray(first, float)) - np.log(np.asarray(second, float))
    value = float(np.exp(np.median(logs)))
    if len(first) < FEW:
        return Ratio(value, _crossed_draws(first, second, seed))
    draws = np.median(np.random.default_rng(seed).choice(logs, (DRAWS, len(logs))), axis=1)
    return Ratio(value, np.exp(draws))


def unpaired_ratio(first: Sequence[float], second: Sequence[float], seed: int) -> Ratio:
    """The ratio of two medians that were not measured together; its draws are ratios of any first to any second."""
    value = float(np.median(first)) / float(np.median(second))
    return Ratio(value, _crossed_draws(first, second, seed))


def _crossed_draws(first: Sequence[float], second: Sequence[float], seed: int) -> NDArray[np.float64]:
    rng = np.random.default_rng(seed)
    return rng.choice(np.asarray(first, float), DRAWS) / rng.choice(np.asarray(second, float), DRAWS)


def geometric_mean(values: ArrayLike) -> float:
    """Of positive numbers; raises `ValueError` for none of them, or others."""
    numbers = np.asarray(values, float)
    if numbers.size == 0 or not np.all(np.isfinite(numbers) & (numbers > 0)):
        raise ValueError(f"a geometric mean needs positive numbers, not {numbers.tolist()}")
    return float(np.exp(np.log(numbers).mean()))


def geometric_mean_interval(values: ArrayLike, seed: int) -> Interval:
    """95% bootstrap interval of the geometric mean over the values."""
    geometric_mean(values)
    logs = np.log(np.asarray(values, float))
    draws = np.random.default_rng(seed).choice(logs, (DRAWS, logs.size)).mean(axis=1)
    low, high = np.exp(np.percentile(draws, [2.5, 97.5]))
    return float(low), float(high)


def best_of(values: Sequence[float], count: int) -> float:
    """The expected largest of `count` different ones of these values; all of them: the largest.

    The average over all subsets of that size, which is the unbiased estimate for best-of-`count`. Raises `ValueError`
    unless 1 <= count <= len(values).
    """
    if not 1 <= count <= len(values):
        raise ValueError(f"the best of {count} cannot be told from {len(values)} values")
    ordered = sorted(values)
    # The value at position i is the largest of comb(i, count - 1) subsets.
    weights = [comb(position, count - 1) for position in range(len(ordered))]
    return sum(weight * value for weight, value in zip(weights, ordered, strict=True)) / comb(len(ordered), count)


def is_tie(one: Interval, other: Interval) -> bool:
    """Whether two intervals overlap, so that neither is better."""
    return one[0] <= other[1] and other[0] <= one[1]
