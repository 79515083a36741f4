"""How many calls may be out at a time: fewer after a rate limit, slowly more again while all goes well."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from optimizer.errors import UserError
from optimizer.services import RunStopped

LOOK_AGAIN = 0.1
"""Seconds after which a waiting call looks whether the run has ended."""


class Gate:
    """Lets at most `limit` calls through at a time, by additive increase and multiplicative decrease.

    A rate limit halves the number, at most once for the calls that were out together; each success adds its share of
    one, so that a full round of successes allows one call more. Trouble of the server's own pauses that growth for
    `calm` seconds. May be used from several threads. Raises `UserError` for a limit below 1.
    """

    def __init__(self, limit: int, calm: float = 30.0, clock: Callable[[], float] = time.monotonic) -> None:
        if limit < 1:
            raise UserError(f"at least one call must be allowed at a time, not {limit}")
        self._most, self._calm, self._clock = limit, calm, clock
        self._allowed = float(limit)
        self._inside = 0
        self._entries = 0
        self._entries_at_shrinking = 0
        self._no_growth_before = clock()
        self._changed = threading.Condition()

    @property
    def limit(self) -> int:
        """How many calls may be out at present."""
        return int(self._allowed)

    @property
    def is_full(self) -> bool:
        return self._inside >= self.limit

    @contextmanager
    def place(self, stop: threading.Event | None = None) -> Generator[int]:
        """Wait for a place and hold it; gives the number of this entry. Raises `RunStopped` when `stop` is set."""
        entry = self._enter(stop)
        try:
            yield entry
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify()

    def succeeded(self) -> None:
        """A call was answered."""
        with self._changed:
            if self._clock() >= self._no_growth_before:
                self._allowed = min(self._most, self._allowed + 1 / self._allowed)
                self._changed.notify()

    def rate_limited(self, entry: int) -> None:
        """The call of this entry met a rate limit."""
        with self._changed:
            if entry > self._entries_at_shrinking:
                self._allowed = max(1.0, self._allowed / 2)
                self._entries_at_shrinking = self._entries

    def troubled(self) -> None:
        """A call failed for a reason of the server's own."""
        with self._changed:
            self._no_growth_before = self._clock() + self._calm

    def _enter(self, stop: threading.Event | None) -> int:
        with self._changed:
            while True:
                if stop is not None and stop.is_set():
                    raise RunStopped("the run ended before the call was sent")
                if not self.is_full:
                    self._inside += 1
                    self._entries += 1
                    return self._entries
                self._changed.wait(LOOK_AGAIN)
