"""The arithmetic of a closed loop: hand-computed values, limits, and agreement with a simulation."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizer.closed_loop import ClosedLoop, Share, Tally, tally_of, wilson_interval

PROBABILITY = st.floats(0.0, 1.0)
ROUNDS = st.integers(0, 60)


@pytest.mark.parametrize(
    ("accepted", "answered", "rounds", "acceptance"),
    [
        (0.5, 1.0, 0, 0.5),
        (0.5, 1.0, 1, 0.75),
        (0.5, 1.0, 2, 0.875),
        (0.5, 0.5, 1, 0.625),
        (0.6, 0.5, 2, 0.6 * (1 + 0.2 + 0.04)),
        (0.7, 0.8, 3, 0.7 * (1 + 0.24 + 0.0576 + 0.013824)),
        (0.5, 0.0, 9, 0.5),
        (0.5, 0.5, math.inf, 2 / 3),
        (0.01, 1.0, math.inf, 1.0),
        (0.0, 1.0, math.inf, 0.0),
        (0.0, 1.0, 5, 0.0),
        (1.0, 1.0, 0, 1.0),
    ],
)
def test_acceptance_by_hand(accepted: float, answered: float, rounds: float, acceptance: float) -> None:
    assert ClosedLoop(accepted, answered, rounds).acceptance == pytest.approx(acceptance, abs=1e-15)


@given(PROBABILITY, PROBABILITY, ROUNDS)
def test_acceptance_is_the_sum_it_is_defined_as(accepted: float, answered: float, rounds: int) -> None:
    loop = ClosedLoop(accepted, answered, rounds)
    again = (1.0 - accepted) * answered
    assert loop.attempts == pytest.approx(sum(again**k for k in range(rounds + 1)), rel=1e-12)
    assert loop.acceptance == pytest.approx(accepted * sum(again**k for k in range(rounds + 1)), rel=1e-12, abs=1e-15)
    assert 1.0 <= loop.attempts <= rounds + 1
    assert accepted * (1 - 1e-12) <= loop.acceptance <= 1.0


@given(PROBABILITY, PROBABILITY, ROUNDS)
def test_another_round_never_hurts_and_infinity_is_the_limit(accepted: float, answered: float, rounds: int) -> None:
    fewer, more = ClosedLoop(accepted, answered, rounds), ClosedLoop(accepted, answered, rounds + 1)
    limit = ClosedLoop(accepted, answered, math.inf)
    assert fewer.acceptance <= more.acceptance * (1 + 1e-12)
    assert more.acceptance <= limit.acceptance * (1 + 1e-12)
    if accepted >= 0.05:
        assert ClosedLoop(accepted, answered, 2000).acceptance == pytest.approx(limit.acceptance, rel=1e-9)


def test_nearly_hopeless_proposals_keep_their_digits() -> None:
    loop = ClosedLoop(1e-12, 1.0, 9)
    assert loop.attempts == pytest.approx(10.0, rel=1e-9)
    assert loop.acceptance == pytest.approx(1e-11, rel=1e-9)


def test_a_simulation_agrees() -> None:
    loop, rng = ClosedLoop(0.4, 0.7, 3), random.Random(5)
    steps, attempts, successes = 40_000, 0, 0
    for _ in range(steps):
        for used in range(4):
            attempts += 1
            if rng.random() < 0.4:
                successes += 1
                break
            if used == 3 or rng.random() >= 0.7:
                break
    assert successes / steps == pytest.approx(loop.acceptance, abs=0.01)
    assert attempts / steps == pytest.approx(loop.attempts, abs=0.02)
    assert attempts / successes == pytest.approx(loop.cost_per_accepted(1.0), rel=0.02)


def test_success_of_a_task_falls_to_one_half() -> None:
    loop = ClosedLoop(0.9, rounds=0)
    assert loop.success(0) == 1.0
    assert loop.success(2) == pytest.approx(0.81)
    assert loop.half_length == pytest.approx(6.578813, abs=1e-6)
    assert loop.success(loop.half_length) == pytest.approx(0.5)
    assert ClosedLoop(0.9, rounds=1).half_length == pytest.approx(math.log(0.5) / math.log(0.99))
    assert ClosedLoop(1.0).half_length == math.inf
    assert ClosedLoop(0.0).half_length == 0.0
    assert ClosedLoop(0.5, rounds=0).half_length == 1.0


@given(st.floats(1e-3, 0.999), PROBABILITY, ROUNDS)
def test_half_length_is_where_success_is_one_half(accepted: float, answered: float, rounds: int) -> None:
    loop = ClosedLoop(accepted, answered, rounds)
    if math.isfinite(loop.half_length):
        assert loop.success(loop.half_length) == pytest.approx(0.5, rel=1e-6)


def test_cost_per_accepted() -> None:
    assert ClosedLoop(0.25, 0.3, 7).cost_per_accepted(2.0) == 8.0, "only p counts when attempts cost the same"
    # Half of the steps end at once; the others pay for one repair, of which half work: (10 + 0.5 * 4) / 0.75.
    assert ClosedLoop(0.5, 1.0, 1).cost_per_accepted(10.0, repair=4.0) == pytest.approx(16.0)
    assert ClosedLoop(0.0).cost_per_accepted(1.0) == math.inf


@given(st.floats(1e-3, 1.0), PROBABILITY, ROUNDS, st.floats(0.0, 1e6))
def test_repairs_at_the_price_of_proposals_change_no_cost(p: float, d: float, rounds: int, cost: float) -> None:
    loop = ClosedLoop(p, d, rounds)
    assert loop.cost_per_accepted(cost, repair=cost) == pytest.approx(loop.cost_per_accepted(cost), rel=1e-9)


@pytest.mark.parametrize(
    ("accepted", "answered", "rounds"),
    [(-0.1, 1, 1), (1.1, 1, 1), (0.5, -1, 1), (0.5, 2, 1), (0.5, 1, -1), (0.5, 1, 1.5), (math.nan, 1, 1)],
)
def test_what_is_no_probability_is_refused(accepted: float, answered: float, rounds: float) -> None:
    with pytest.raises(ValueError, match="must be"):
        ClosedLoop(accepted, answered, rounds)
    with pytest.raises(ValueError, match="cannot have"):
        ClosedLoop(0.5).success(-1)


def test_what_recorded_chains_show() -> None:
    assert Tally().loop() is None
    assert tally_of([]) == Tally()
    assert tally_of([True, True]).loop() == ClosedLoop(1.0, 1.0)
    # Three of five are accepted; one of two rejected ones was the last of its chain.
    both = tally_of([False, True, True]).plus(tally_of([True, False]))
    assert both == Tally(accepted=3, rejected=2, answered=1)
    assert both.share == Share(3, 5)
    assert both.loop(rounds=2) == ClosedLoop(0.6, 0.5, 2)


@pytest.mark.parametrize(
    ("count", "total", "low", "high"),
    [
        (7, 10, 0.39678, 0.89221),
        (0, 10, 0.0, 0.27753),
        (10, 10, 0.72247, 1.0),
        (1, 1, 0.20655, 1.0),
        (50, 100, 0.40383, 0.59617),
    ],
)
def test_wilson_by_hand(count: int, total: int, low: float, high: float) -> None:
    assert wilson_interval(count, total) == (pytest.approx(low, abs=1e-5), pytest.approx(high, abs=1e-5))
    assert Share(count, total).interval == wilson_interval(count, total)


@given(st.integers(1, 10_000).flatmap(lambda total: st.tuples(st.integers(0, total), st.just(total))))
def test_wilson_holds_the_share_and_is_symmetric(share: tuple[int, int]) -> None:
    count, total = share
    low, high = wilson_interval(count, total)
    assert 0.0 <= low <= count / total <= high <= 1.0
    assert low < high
    mirrored = wilson_interval(total - count, total)
    assert mirrored == (pytest.approx(1 - high, abs=1e-12), pytest.approx(1 - low, abs=1e-12))


def test_wilson_covers_about_as_often_as_it_says() -> None:
    """Exactly: over all outcomes of 40 trials, weighed by how likely they are."""
    for truth in (0.1, 0.3, 0.5, 0.9):
        covered = sum(
            math.comb(40, count) * truth**count * (1 - truth) ** (40 - count)
            for count in range(41)
            if wilson_interval(count, 40)[0] <= truth <= wilson_interval(count, 40)[1]
        )
        assert 0.91 < covered < 0.99


@pytest.mark.parametrize(("count", "total"), [(0, 0), (-1, 3), (4, 3)])
def test_what_is_no_share_is_refused(count: int, total: int) -> None:
    with pytest.raises(ValueError, match="no share"):
        wilson_interval(count, total)
    assert Share(0, 0).value is None
    assert Share(0, 0).interval is None
