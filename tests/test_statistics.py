"""Means, intervals and ties."""

from __future__ import annotations

import numpy as np
import pytest

from optimizer.measure.statistics import (
    Ratio,
    best_of,
    geometric_mean,
    geometric_mean_interval,
    is_tie,
    paired_ratio,
    unpaired_ratio,
)


def test_speedup_is_the_ratio_of_the_times() -> None:
    assert paired_ratio([1.8], [0.68], seed=0).value == pytest.approx(2.647, abs=5e-4)


@pytest.mark.parametrize(("values", "mean"), [((2.0, 8.0), 4.0), ((2.0, 0.5), 1.0), ((3.0,), 3.0)])
def test_geometric_mean(values: tuple[float, ...], mean: float) -> None:
    assert geometric_mean(values) == pytest.approx(mean)


@pytest.mark.parametrize("values", [(), (1.0, 0.0), (1.0, -2.0), (1.0, float("nan")), (1.0, float("inf"))])
def test_geometric_mean_refuses_what_is_no_ratio(values: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="positive"):
        geometric_mean(values)


def test_geometric_mean_interval_holds_the_mean_and_is_reproducible() -> None:
    values = (1.2, 2.4, 3.1, 0.9, 5.0, 1.7)
    low, high = geometric_mean_interval(values, seed=3)
    assert min(values) < low < geometric_mean(values) < high < max(values)
    assert (low, high) == geometric_mean_interval(values, seed=3)


def test_best_of_all_is_the_largest() -> None:
    assert best_of((1.8, 2.4, 3.1, 2.0, 2.9), 5) == 3.1


def test_best_of_is_the_average_over_all_subsets() -> None:
    values = (1.8, 2.4, 3.1, 2.0)
    pairs = [max(a, b) for i, a in enumerate(values) for b in values[i + 1 :]]
    assert best_of(values, 2) == pytest.approx(np.mean(pairs))
    assert best_of(values, 1) == pytest.approx(np.mean(values))


@pytest.mark.parametrize("count", [0, 3])
def test_best_of_needs_enough_values(count: int) -> None:
    with pytest.raises(ValueError, match="cannot be told"):
        best_of((1.0, 2.0), count)


def test_interval_of_a_ratio_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(11)
    covered = 0
    for trial in range(200):
        load = rng.lognormal(0.0, 0.3, 12)  # what disturbs a whole round hits both contestants
        first = 2.0 * load * rng.lognormal(0.0, 0.05, 12)
        second = load * rng.lognormal(0.0, 0.05, 12)
        low, high = paired_ratio(first.tolist(), second.tolist(), seed=trial).interval
        covered += low <= 2.0 <= high
    assert covered >= 175


def test_pairing_removes_what_disturbs_both() -> None:
    load = [1.0, 3.0, 1.0, 2.0, 5.0, 1.0, 1.5, 1.0]
    ratio = paired_ratio([2.0 * part for part in load], load, seed=0)
    assert ratio.interval == pytest.approx((2.0, 2.0))
    assert ratio.spread == pytest.approx(0.0, abs=1e-12)


def test_few_samples_give_the_range_of_all_ratios() -> None:
    ratio = paired_ratio([10.0, 12.0], [1.0, 2.0], seed=0)
    assert ratio.interval == pytest.approx((5.0, 12.0))


def test_ratios_multiply_with_their_uncertainty() -> None:
    baseline_over_best = unpaired_ratio([10.0, 11.0], [5.0, 5.5], seed=1)
    best_over_candidate = paired_ratio([5.0, 5.1, 5.2, 5.0, 5.1], [2.5, 2.6, 2.5, 2.5, 2.6], seed=2)
    chained = baseline_over_best * best_over_candidate
    assert chained.value == pytest.approx(baseline_over_best.value * best_over_candidate.value)
    assert chained.spread > best_over_candidate.spread
    assert chained.interval[0] < chained.value < chained.interval[1]


def test_interval_always_holds_the_value() -> None:
    assert Ratio(3.0, np.array([1.0, 2.0])).interval[1] == 3.0


def test_pairs_need_two_of_each() -> None:
    with pytest.raises(ValueError, match="do not make pairs"):
        paired_ratio([1.0, 2.0], [1.0], seed=0)


@pytest.mark.parametrize(
    ("one", "other", "tie"), [((1.0, 2.0), (1.9, 3.0), True), ((1.0, 2.0), (2.1, 3.0), False), ((2, 3), (1, 4), True)]
)
def test_overlap_is_a_tie(one: tuple[float, float], other: tuple[float, float], tie: bool) -> None:
    assert is_tie(one, other) is tie
    assert is_tie(other, one) is tie
