"""After several failures in a row, stop asking for a while, then let one call try."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from enum import StrEnum

from optimizer.errors import InfrastructureError, UserError


class BreakerState(StrEnum):
    CLOSED = "closed"
    """Calls pass."""
    OPEN = "open"
    """No call passes."""
    HALF_OPEN = "half-open"
    """One call is trying; no other passes."""


class BreakerOpen(InfrastructureError):
    """No call is made at present, because too many in a row failed; `seconds` until one may try again."""

    def __init__(self, failures: int, seconds: float) -> None:
        self.seconds = seconds
        when = f"in {seconds:.0f} s" if seconds > 0 else "when the one that is trying now has its answer"
        super().__init__(f"{failures} calls to the model in a row failed; the next one is made {when}")


class Breaker:
    """Opens after so many `failures` in a row, for so many `seconds`. May be used from several threads.

    `enter` before a call, and after it one of `succeeded`, `failed` or `withdrawn` with what `enter` gave. What calls
    of an earlier state report counts no more. Raises `UserError` for numbers that make no sense.
    """

    def __init__(self, failures: int = 5, seconds: float = 60.0, clock: Callable[[], float] = time.monotonic) -> None:
        if failures < 1 or not seconds >= 0:
            raise UserError(f"a breaker opens after 1 failure or more for 0 s or more, not {failures} and {seconds} s")
        self._most, self._seconds, self._clock = failures, seconds, clock
        self._state = BreakerState.CLOSED
        self._turn = 0
        """Goes up with each change of the state."""
        self._in_a_row = 0
        self._may_try_at = 0.0
        self._lock = threading.Lock()

    @property
    def state(self) -> BreakerState:
        return self._state

    def enter(self) -> int:
        """Ask to make a call; raises `BreakerOpen` when none is to be made."""
        with self._lock:
            if self._state is BreakerState.HALF_OPEN:
                raise BreakerOpen(self._in_a_row, 0.0)
            if self._state is BreakerState.OPEN:
                left = self._may_try_at - self._clock()
                if left > 0:
                    raise BreakerOpen(self._in_a_row, left)
                self._become(BreakerState.HALF_OPEN)
            return self._turn

    def succeeded(self, turn: int) -> None:
        """The call had an answer."""
        with self._lock:
            if turn == self._turn:
                self._in_a_row = 0
                if self._state is not BreakerState.CLOSED:
                    self._become(BreakerState.CLOSED)

    def failed(self, turn: int) -> None:
        """The call had no answer."""
        with self._lock:
            if turn != self._turn:
                return
            self._in_a_row += 1
            if self._state is BreakerState.HALF_OPEN or self._in_a_row >= self._most:
                self._may_try_at = self._clock() + self._seconds
                self._become(BreakerState.OPEN)

    def withdrawn(self, turn: int) -> None:
        """The call ended in a way that says nothing about whether the model can be reached."""
        with self._lock:
            if turn == self._turn and self._state is BreakerState.HALF_OPEN:
                self._become(BreakerState.OPEN)

    def _become(self, state: BreakerState) -> None:
        self._state = state
        self._turn += 1
