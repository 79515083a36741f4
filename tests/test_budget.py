"""The ledger: what is in flight counts, what was settled stays, and limits hold whatever the order."""

from __future__ import annotations

import math
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.budget import Amounts, BudgetView, Ledger, Limits, Line
from optimizer.errors import UserError

ONE = Amounts(evaluations=1)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_work_in_flight_counts_as_used() -> None:
    ledger = Ledger(Limits(evaluations=2))
    first, second = ledger.reserve(ONE), ledger.reserve(ONE)
    assert first is not None
    assert second is not None
    assert ledger.reserve(ONE) is None
    assert ledger.refusing(ONE)[0] is Line.EVALUATIONS
    assert ledger.used().evaluations == 0
    ledger.refund(first)
    assert ledger.refusing(ONE)[0] is None
    ledger.settle(second, ONE)
    assert ledger.used().evaluations == 1
    assert ledger.view().left(Line.EVALUATIONS) == 1


def test_a_reservation_ends_once() -> None:
    ledger = Ledger(Limits())
    reservation = ledger.reserve(ONE)
    assert reservation is not None
    ledger.settle(reservation, ONE)
    with pytest.raises(ValueError, match="already"):
        ledger.refund(reservation)


def test_seconds_pass_on_top_of_those_spent_before() -> None:
    clock = Clock()
    ledger = Ledger(Limits(seconds=10), Amounts(seconds=4), clock)
    clock.now += 5
    assert ledger.used().seconds == pytest.approx(9)
    assert ledger.view().left(Line.SECONDS) == pytest.approx(1)
    assert ledger.refusing(ONE)[0] is None
    clock.now += 2
    assert ledger.refusing(ONE)[0] is Line.SECONDS
    assert ledger.view().left(Line.SECONDS) == 0


def test_what_cost_more_than_reserved_is_counted_in_full() -> None:
    ledger = Ledger(Limits(usd=1.0))
    reservation = ledger.reserve(Amounts(usd=0.5))
    assert reservation is not None
    ledger.settle(reservation, Amounts(usd=1.5))
    assert ledger.used().usd == 1.5
    assert ledger.refusing(Amounts(usd=0.01)) == (Line.USD, False)


def test_without_a_limit_nothing_is_ever_exhausted() -> None:
    ledger = Ledger(Limits(), Amounts(evaluations=10**6))
    assert ledger.refusing(ONE)[0] is None
    assert ledger.view().left(Line.EVALUATIONS) is None
    assert BudgetView().left(Line.TOKENS) is None


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf])
def test_a_limit_is_a_number_above_0(value: float) -> None:
    with pytest.raises(UserError, match="budget of seconds"):
        Limits(seconds=value)


def test_an_amount_is_no_nan() -> None:
    with pytest.raises(ValueError, match="usd"):
        Amounts(usd=math.nan)


def test_a_budget_in_which_fewer_than_three_proposals_fit_gets_a_warning() -> None:
    assert "only one proposal fits" in (Limits(evaluations=1).warning(100) or "")
    assert "only 2 proposals fit" in (Limits(evaluations=50).warning(2) or "")
    assert Limits(evaluations=3).warning(100) is None
    assert Limits().warning(100) is None


def test_many_threads_get_no_more_than_there_is() -> None:
    ledger = Ledger(Limits(evaluations=50))
    got: list[int] = []

    def take() -> None:
        for _ in range(20):
            reservation = ledger.reserve(ONE)
            if reservation:
                ledger.settle(reservation, ONE)
                got.append(reservation.number)

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == len(set(got)) == 50


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 12), st.lists(st.sampled_from(["reserve", "settle", "refund"]), max_size=60))
def test_the_limit_holds_and_the_books_balance(limit: int, actions: list[str]) -> None:
    ledger = Ledger(Limits(evaluations=limit))
    flying = []
    settled = 0
    for action in actions:
        if action == "reserve":
            reservation = ledger.reserve(ONE)
            assert (reservation is None) == (settled + len(flying) == limit)
            if reservation:
                flying.append(reservation)
        elif flying:
            reservation = flying.pop()
            if action == "settle":
                ledger.settle(reservation, ONE)
                settled += 1
            else:
                ledger.refund(reservation)
        assert ledger.used().evaluations == settled
        assert ledger.view().used.evaluations == settled + len(flying) <= limit
