"""Asks a model and asks again: retries with waits that can be seen and interrupted."""

from __future__ import annotations

import json
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from optimizer.llm.breaker import Breaker
from optimizer.llm.gate import Gate
from optimizer.llm.messages import Answer, CallFailed, Failure, Request, Transport
from optimizer.services import RunStopped

WORTH_ANOTHER_TRY = {Failure.RATE_LIMITED, Failure.OVERLOADED, Failure.SERVER_ERROR, Failure.UNREACHABLE}
WORTH_ONE_MORE_TRY = {Failure.TIMED_OUT, Failure.MALFORMED}
WORDS: Mapping[Failure, str] = {
    Failure.RATE_LIMITED: "rate limited",
    Failure.OVERLOADED: "the model is overloaded",
    Failure.SERVER_ERROR: "error of the server",
    Failure.UNREACHABLE: "no connection",
    Failure.TIMED_OUT: "timed out",
    Failure.MALFORMED: "malformed answer",
    Failure.TOO_LARGE: "too large",
    Failure.REFUSED: "refused",
}


@dataclass(frozen=True, slots=True)
class Sent:
    """An answer, after how many tries."""

    answer: Answer
    attempts: int


@dataclass(frozen=True, slots=True)
class Sender:
    """Carries requests through a gate and a breaker. May be used from several threads."""

    transport: Transport
    gate: Gate
    breaker: Breaker
    attempts: int = 5
    """The most tries for one request."""
    first_wait: float = 2.0
    """Seconds before the second try, when the server does not name a time; each later wait is twice as long."""
    longest_wait: float = 120.0
    """Seconds. When the server asks for a longer wait, the call has failed."""
    stop: threading.Event = field(default_factory=threading.Event)
    """Set it to end all waits."""
    sleep: Callable[[float], object] | None = None
    """Waits so many seconds; None: until `stop` is set, at most."""

    def ask(self, request: Request, on_wait: Callable[[str], None] = lambda _: None) -> Sent:
        """The model's answer; `on_wait` is told of every wait, and of every new try.

        A try that has cost something, because the answer broke off, is the last one: a call never costs more than one
        answer. Raises `CallFailed` after the last try, with the number of tries and what it used; `BreakerOpen` when no
        call is made at present; `RunStopped` when `stop` was set during a wait; and `UserError` as the transport does.
        """
        turn = self.breaker.enter()
        report = self.breaker.withdrawn
        try:
            sent = self._ask(request, on_wait)
            report = self.breaker.succeeded
        except CallFailed as error:
            # A request that is too large was read: the way to the model is fine.
            report = self.breaker.succeeded if error.failure is Failure.TOO_LARGE else self.breaker.failed
            raise
        finally:
            report(turn)
        return sent

    def _ask(self, request: Request, on_wait: Callable[[str], None]) -> Sent:
        failures: Counter[Failure] = Counter()
        while True:
            try:
                answer = self._try(request, on_wait)
            except CallFailed as error:
                failures[error.failure] += 1
                wait = self._wait(error, request, failures)
                if wait is None:
                    tries = failures.total()
                    raise CallFailed(error.failure, str(error), error.retry_after, tries, error.usage) from error
                on_wait(f"{WORDS[error.failure]}: again in {wait:.3g} s")
            else:
                return Sent(answer, failures.total() + 1)
            self._pause(wait)
            on_wait(f"asking again ({failures.total() + 1} of {self.attempts})")

    def _try(self, request: Request, on_wait: Callable[[str], None]) -> Answer:
        if self.gate.is_full:
            on_wait(f"at most {self.gate.limit} calls at a time: waiting for another one to end")
        with self.gate.place(self.stop) as entry:
            try:
                answer = self.transport.send(request)
            except CallFailed as error:
                if error.failure is Failure.RATE_LIMITED:
                    self.gate.rate_limited(entry)
                elif error.failure in (Failure.OVERLOADED, Failure.SERVER_ERROR):
                    self.gate.troubled()
                raise
            self.gate.succeeded()
            return answer

    def _wait(self, error: CallFailed, request: Request, failures: Counter[Failure]) -> float | None:
        """Seconds before the next try; None when there is to be none."""
        tries = failures.total()
        once_more = error.failure in WORTH_ONE_MORE_TRY and failures[error.failure] == 1
        if tries >= self.attempts or error.usage.total or not (once_more or error.failure in WORTH_ANOTHER_TRY):
            return None
        if error.retry_after:
            return error.retry_after if error.retry_after <= self.longest_wait else None
        return min(self.longest_wait, self.first_wait * 2 ** (tries - 1)) * _jitter(request, tries)

    def _pause(self, seconds: float) -> None:
        (self.sleep or self.stop.wait)(seconds)
        if self.stop.is_set():
            raise RunStopped("the run ended before the call was sent again")


def _jitter(request: Request, tries: int) -> float:
    """From 0.5 to 1, the same for the same request: chains that failed together do not come back together."""
    text = json.dumps([request.messages, tries], default=str)
    return 0.5 + zlib.crc32(text.encode()) / 2**33
