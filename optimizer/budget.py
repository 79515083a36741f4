"""The budget of a run: limits, the ledger that keeps them, and the view of it that policies get."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from optimizer.errors import UserError

FEWEST_USEFUL_PROPOSALS = 3
WARNING_SHARE = 0.75
"""A line of which more than this is used is warned of, once."""


class Line(StrEnum):
    """One line of the ledger. Seconds are wall-clock time of the run; usd are United States dollars."""

    EVALUATIONS = "evaluations"
    SECONDS = "seconds"
    CALLS = "calls"
    TOKENS = "tokens"
    USD = "usd"


@dataclass(frozen=True, slots=True)
class Amounts:
    """How much of each line."""

    evaluations: int = 0
    seconds: float = 0.0
    calls: int = 0
    tokens: int = 0
    usd: float = 0.0

    def __post_init__(self) -> None:
        for line in Line:
            value = getattr(self, line)
            if not math.isfinite(value) or value < 0:
                raise ValueError(f"an amount of {line} is a finite number from 0, not {value!r}")

    def plus(self, other: Amounts) -> Amounts:
        return Amounts(
            self.evaluations + other.evaluations,
            self.seconds + other.seconds,
            self.calls + other.calls,
            self.tokens + other.tokens,
            self.usd + other.usd,
        )


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that a run may use of each line; None is no limit."""

    evaluations: int | None = None
    seconds: float | None = None
    calls: int | None = None
    tokens: int | None = None
    usd: float | None = None

    def __post_init__(self) -> None:
        for line in Line:
            value = getattr(self, line)
            if value is not None and not (math.isfinite(value) and value > 0):
                raise UserError(f"a budget of {line} must be a number above 0, not {value!r}")

    def warning(self, proposals: int) -> str | None:
        """What is wrong with a run in which hardly a proposal fits, out of those planned; None when enough fit."""
        fitting = min(limit for limit in (proposals, self.evaluations, self.calls) if limit is not None)
        if fitting >= FEWEST_USEFUL_PROPOSALS:
            return None
        count = "one proposal fits" if fitting == 1 else f"{fitting} proposals fit"
        return f"only {count} in this run: nothing can be learnt from feedback in so few"


@dataclass(frozen=True, slots=True)
class BudgetView:
    """What a policy may know of the budget: it can read it and cannot spend it."""

    used: Amounts = Amounts()
    limits: Limits = Limits()

    def left(self, line: Line) -> float | None:
        """What is left of a line, from 0; None when it has no limit."""
        limit: float | None = getattr(self.limits, line)
        return None if limit is None else max(0.0, limit - getattr(self.used, line))


@dataclass(frozen=True, slots=True)
class Reservation:
    """An amount set aside for work in flight; give it back with `settle` or `refund`."""

    number: int
    amount: Amounts


class Ledger:
    """Counts what a run uses. Reserve before the work, settle after it; work in flight counts as used.

    Seconds pass by themselves: they run from the construction of the ledger, on top of those `spent` already. All
    methods may be called from several threads.
    """

    def __init__(self, limits: Limits, spent: Amounts = Amounts(), clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self._spent = spent
        self._clock = clock
        self._started = clock()
        self._in_flight: dict[int, Amounts] = {}
        self._next_number = 0
        self._warned: set[Line] = set()
        self._lock = threading.Condition()

    def reserve(self, amount: Amounts) -> Reservation | None:
        """Set an amount aside; None when it does not fit in what is left, or when time is over.

        A line of which nothing is asked refuses nothing, even when more than its limit was used.
        """
        with self._lock:
            if _refusing_line(self.limits, self._with_flight(), amount):
                return None
            reservation = Reservation(self._next_number, amount)
            self._next_number += 1
            self._in_flight[reservation.number] = amount
            return reservation

    def settle(self, reservation: Reservation, actual: Amounts) -> None:
        """End a reservation with what was really used, which may be more than was set aside."""
        with self._lock:
            self._close(reservation)
            self._spent = self._spent.plus(actual)

    def refund(self, reservation: Reservation) -> None:
        """End a reservation of which nothing was used."""
        with self._lock:
            self._close(reservation)

    def refusing(self, amount: Amounts) -> tuple[Line | None, bool]:
        """The line that keeps an amount from being reserved, and whether work in flight might still give some back."""
        with self._lock:
            if line := _refusing_line(self.limits, self._now(), amount):
                return line, False
            line = _refusing_line(self.limits, self._with_flight(), amount)
            return line, line is not None

    def wait_for_change(self, seconds: float) -> None:
        """Return once a reservation was settled or refunded, or after so much time."""
        with self._lock:
            self._lock.wait(seconds)

    def newly_short(self) -> tuple[Line, ...]:
        """The lines that are used up to three quarters and were not named here before."""
        with self._lock:
            used = self._now()
            short = [line for line in Line if _share(self.limits, used, line) >= WARNING_SHARE]
            new = tuple(line for line in short if line not in self._warned)
            self._warned.update(new)
            return new

    def used(self) -> Amounts:
        """What was used so far, without the work in flight."""
        with self._lock:
            return self._now()

    def view(self) -> BudgetView:
        """The budget as a policy sees it: work in flight counts as used."""
        with self._lock:
            return BudgetView(self._with_flight(), self.limits)

    def _now(self) -> Amounts:
        return self._spent.plus(Amounts(seconds=max(0.0, self._clock() - self._started)))

    def _with_flight(self) -> Amounts:
        total = self._now()
        for amount in self._in_flight.values():
            total = total.plus(amount)
        return total

    def _close(self, reservation: Reservation) -> None:
        if self._in_flight.pop(reservation.number, None) is None:
            raise ValueError(f"reservation {reservation.number} was already settled or refunded")
        self._lock.notify_all()


def _share(limits: Limits, used: Amounts, line: Line) -> float:
    """The part of a line that is used; 0 where it has no limit."""
    limit = getattr(limits, line)
    return 0.0 if limit is None else getattr(used, line) / limit


def _refusing_line(limits: Limits, used: Amounts, amount: Amounts) -> Line | None:
    """The first line that is asked for more than is left of it; seconds are asked for by anything that begins."""
    for line in Line:
        limit, asked = getattr(limits, line), getattr(amount, line)
        if limit is None:
            continue
        if (asked and getattr(used, line) + asked > limit) or (line is Line.SECONDS and used.seconds >= limit):
            return line
    return None
