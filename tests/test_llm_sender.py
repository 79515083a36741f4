"""Retries, the gate and the breaker, over real HTTP; only time is made up."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.errors import UserError
from optimizer.llm.anthropic_transport import AnthropicTransport
from optimizer.llm.breaker import Breaker, BreakerOpen, BreakerState
from optimizer.llm.gate import Gate
from optimizer.llm.messages import CallFailed, Failure, Request
from optimizer.llm.sender import Sender
from optimizer.services import RunStopped
from tests.model_server import AnyReply, ApiError, Fault, ModelServer, Page, Script, say

RATE_LIMITED, OVERLOADED = ApiError(429), ApiError(529)


@dataclass
class Clock:
    """Time that passes only where somebody sleeps."""

    now: float = 100.0
    sleeps: list[float] = field(default_factory=list[float])

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.now += seconds


@dataclass
class Bench:
    server: ModelServer
    sender: Sender
    clock: Clock
    waits: list[str] = field(default_factory=list[str])

    def ask(self, text: str = "Begin.") -> Any:
        return self.sender.ask(request(text), self.waits.append)


def request(text: str = "Begin.") -> Request:
    message = {"role": "user", "content": [{"type": "text", "text": text}]}
    return Request("claude-sonnet-5-5", "Be brief.", (), (message,), 100)


@contextmanager
def bench(script: Script, limit: int = 4, failures: int = 5, timeout: float = 5.0, **options: Any) -> Generator[Bench]:
    clock = Clock()
    with ModelServer(script) as server, AnthropicTransport("key", server.url, timeout) as transport:
        gate, breaker = Gate(limit, clock=clock), Breaker(failures, clock=clock)
        yield Bench(server, Sender(transport, gate, breaker, sleep=clock.sleep, **options), clock)


# Retries


def test_an_answer_at_once_takes_one_try_and_no_wait() -> None:
    with bench([say("Yes.")]) as b:
        sent = b.ask()
    assert (sent.attempts, b.waits, b.clock.sleeps) == (1, [], [])
    assert sent.answer.content[0]["text"] == "Yes."


@pytest.mark.parametrize(
    "trouble",
    [
        RATE_LIMITED,
        OVERLOADED,
        ApiError(500),
        ApiError(504),
        say("A.", fault=Fault.ERROR, after=1),
        say("A.", fault=Fault.ERROR, after=1, error="rate_limit_error"),
        say("A.", fault=Fault.ERROR, after=2, error="api_error"),
        say("A.", fault=Fault.CUT, after=0),
        say("A.", fault=Fault.CUT, after=2),
        say("A.", fault=Fault.ENDED, after=2),
        say("A.", fault=Fault.GARBAGE, after=2),
    ],
)
def test_trouble_is_tried_again_and_the_wait_is_told(trouble: AnyReply) -> None:
    with bench([trouble, say("Yes.")]) as b:
        sent = b.ask()
    assert sent.attempts == len(b.server.requests) == 2
    assert len(b.clock.sleeps) == 1
    assert "again in" in b.waits[0]
    assert b.waits[1] == "asking again (2 of 5)"
    assert b.server.requests[0] == b.server.requests[1]


def test_retry_after_is_honoured_to_the_second() -> None:
    with bench(
        [ApiError(429, headers={"retry-after": "12"}), ApiError(529, headers={"retry-after": "3"}), say("A.")]
    ) as b:
        assert b.ask().attempts == 3
    assert b.clock.sleeps == [12, 3]
    assert b.waits[0] == "rate limited: again in 12 s"


def test_a_wait_longer_than_can_be_sat_out_is_a_failure_at_once() -> None:
    script = [ApiError(429, headers={"retry-after": "3600"}), say("Unreached.")]
    with bench(script) as b, pytest.raises(CallFailed) as caught:
        b.ask()
    assert (caught.value.retry_after, caught.value.attempts, b.clock.sleeps) == (3600, 1, [])


def test_waits_grow_and_are_the_same_for_the_same_request() -> None:
    def sleeps(text: str) -> list[float]:
        with bench(lambda request, number: OVERLOADED) as b, pytest.raises(CallFailed):
            b.ask(text)
        return b.clock.sleeps

    first, again, other = sleeps("one"), sleeps("one"), sleeps("another")
    assert first == again != other
    assert len(first) == 4
    for number, wait in enumerate(first):
        assert 2**number <= wait <= 2 * 2**number


def test_after_the_last_try_the_failure_says_how_many_there_were() -> None:
    with bench(lambda request, number: OVERLOADED, attempts=3) as b, pytest.raises(CallFailed) as caught:
        b.ask()
    assert (caught.value.failure, caught.value.attempts) == (Failure.OVERLOADED, 3)
    assert len(b.server.requests) == 3


def test_a_time_out_is_tried_once_more_only() -> None:
    with bench(lambda request, number: ApiError(504)) as b, pytest.raises(CallFailed) as caught:
        b.ask()
    assert (caught.value.failure, caught.value.attempts) == (Failure.TIMED_OUT, 2)


def test_a_malformed_answer_is_tried_once_more_only() -> None:
    script = [say("First."), Page("<html>"), Page("<html>"), say("Unreached.")]
    with bench(script) as b:
        b.ask()
        with pytest.raises(CallFailed) as caught:
            b.ask()
    assert (caught.value.failure, caught.value.attempts) == (Failure.MALFORMED, 2)


def test_what_is_too_large_is_not_tried_again_and_is_no_failure_of_the_way() -> None:
    with bench([ApiError(413)] * 3, failures=1) as b:
        for _ in range(3):
            with pytest.raises(CallFailed) as caught:
                b.ask()
            assert caught.value.attempts == 1
        assert b.sender.breaker.state is BreakerState.CLOSED


@pytest.mark.parametrize("fault", Fault)
def test_a_try_that_has_cost_something_is_the_last_one(fault: Fault) -> None:
    """The budget has set aside what one answer costs; whoever wants to ask again sets aside more."""
    with bench([OVERLOADED, say("word " * 100, fault=fault, after=12), say("Unreached.")]) as b:
        with pytest.raises(CallFailed) as caught:
            b.ask()
        assert caught.value.attempts == len(b.server.requests) == 2
        assert caught.value.usage.prompt > 0
        assert caught.value.usage.output > 10
        assert b.ask().attempts == 1


def test_an_error_of_the_user_passes_at_once_and_is_not_counted() -> None:
    with bench([ApiError(401), ApiError(401), say("Yes.")], failures=1) as b:
        for _ in range(2):
            with pytest.raises(UserError):
                b.ask()
        assert b.ask().attempts == 1
    assert b.clock.sleeps == []


def test_the_same_question_is_asked_anew_each_time() -> None:
    """Best of n is of n answers, not of n copies of one."""
    with bench([say("One."), say("Two."), say("Three.")]) as b:
        answers = [b.ask().answer.content[0]["text"] for _ in range(3)]
    assert answers == ["One.", "Two.", "Three."]
    assert b.server.requests[0] == b.server.requests[1] == b.server.requests[2]


def test_a_run_that_ends_does_not_sit_out_a_wait() -> None:
    stop = threading.Event()
    with bench([ApiError(429, headers={"retry-after": "100"}), say("Unreached.")]) as b:
        sender = Sender(b.sender.transport, b.sender.gate, b.sender.breaker, stop=stop)
        started = time.monotonic()
        with pytest.raises(RunStopped):
            sender.ask(request(), lambda _: stop.set())
    assert time.monotonic() - started < 20
    assert len(b.server.requests) == 1


# The gate


def test_a_rate_limit_halves_the_gate_once_for_all_calls_that_were_out() -> None:
    gate = Gate(8)
    with ExitStack() as stack:
        together = [stack.enter_context(gate.place()) for _ in range(8)]
        for entry in together:
            gate.rate_limited(entry)
        assert gate.limit == 4
        assert gate.is_full
    with gate.place() as later:
        gate.rate_limited(later)
    assert gate.limit == 2


def test_the_gate_never_closes_altogether() -> None:
    gate = Gate(4)
    for _ in range(10):
        with gate.place() as entry:
            gate.rate_limited(entry)
    assert gate.limit == 1


def test_a_round_of_successes_opens_the_gate_by_one_up_to_its_limit() -> None:
    gate = Gate(3)
    for _ in range(2):
        with gate.place() as entry:
            gate.rate_limited(entry)
    limits = []
    for _ in range(20):
        gate.succeeded()
        limits.append(gate.limit)
    assert limits[:4] == [2, 2, 2, 3]
    assert limits[-1] == 3


def test_trouble_pauses_growth_and_does_not_shrink_the_gate() -> None:
    clock = Clock()
    gate = Gate(4, calm=30, clock=clock)
    with gate.place() as entry:
        gate.rate_limited(entry)
    gate.troubled()
    for _ in range(10):
        gate.succeeded()
    assert gate.limit == 2
    clock.now += 30
    for _ in range(10):
        gate.succeeded()
    assert gate.limit == 4


def test_the_sender_tells_the_gate() -> None:
    with bench([RATE_LIMITED, OVERLOADED, say("A.")], limit=8) as b:
        b.ask()
        assert b.sender.gate.limit == 4
    with bench([OVERLOADED, say("A.")], limit=8) as b:
        b.ask()
        assert b.sender.gate.limit == 8


def test_no_more_calls_are_out_than_the_gate_allows() -> None:
    with bench(lambda request, number: say("A.", delay=0.02), limit=3) as b:
        threads = [threading.Thread(target=b.ask) for _ in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(b.server.requests) == 10
        assert 1 < b.server.most_at_once <= 3
    assert any("at most 3 calls at a time" in wait for wait in b.waits)


def test_whoever_waits_at_the_gate_leaves_when_the_run_ends() -> None:
    gate, stop = Gate(1), threading.Event()
    raised: list[BaseException] = []

    def wait() -> None:
        try:
            with gate.place(stop):
                pass
        except RunStopped as error:
            raised.append(error)

    with gate.place():
        thread = threading.Thread(target=wait)
        thread.start()
        stop.set()
        thread.join(5)
    assert len(raised) == 1


def test_a_gate_for_no_call_is_refused() -> None:
    with pytest.raises(UserError, match="at least one call"):
        Gate(0)


@settings(max_examples=25, deadline=None)
@given(
    limit=st.integers(1, 5),
    plans=st.lists(
        st.lists(st.sampled_from(["good", "rate", "trouble"]), min_size=1, max_size=4), min_size=1, max_size=6
    ),
)
def test_whatever_happens_no_more_are_inside_than_the_highest_limit(limit: int, plans: list[list[str]]) -> None:
    gate = Gate(limit)
    inside = 0
    worst = 0
    lock = threading.Lock()

    def work(plan: list[str]) -> None:
        nonlocal inside, worst
        for what in plan:
            with gate.place() as entry:
                with lock:
                    inside += 1
                    worst = max(worst, inside)
                time.sleep(0.0002)
                if what == "rate":
                    gate.rate_limited(entry)
                elif what == "trouble":
                    gate.troubled()
                else:
                    gate.succeeded()
                with lock:
                    inside -= 1

    threads = [threading.Thread(target=work, args=(plan,)) for plan in plans]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert worst <= limit
    assert 1 <= gate.limit <= limit
    assert inside == 0


# The breaker


def test_the_breaker_opens_after_failures_in_a_row_and_lets_one_call_try_later() -> None:
    clock = Clock()
    breaker = Breaker(failures=3, seconds=60, clock=clock)
    for _ in range(2):
        breaker.failed(breaker.enter())
    breaker.succeeded(breaker.enter())
    for _ in range(3):
        assert breaker.state is BreakerState.CLOSED
        breaker.failed(breaker.enter())
    assert breaker.state is BreakerState.OPEN
    clock.now += 59
    with pytest.raises(BreakerOpen, match="in 1 s") as caught:
        breaker.enter()
    assert caught.value.seconds == 1
    clock.now += 1
    turn = breaker.enter()
    assert breaker.state is BreakerState.HALF_OPEN
    with pytest.raises(BreakerOpen, match="trying now"):
        breaker.enter()
    breaker.failed(turn)
    assert breaker.state is BreakerState.OPEN
    with pytest.raises(BreakerOpen, match="in 60 s"):
        breaker.enter()
    clock.now += 60
    breaker.succeeded(breaker.enter())
    assert breaker.state is BreakerState.CLOSED
    breaker.failed(breaker.enter())
    assert breaker.state is BreakerState.CLOSED


def test_a_try_that_says_nothing_leaves_the_turn_to_another() -> None:
    clock = Clock()
    breaker = Breaker(failures=1, seconds=10, clock=clock)
    breaker.failed(breaker.enter())
    clock.now += 10
    breaker.withdrawn(breaker.enter())
    breaker.succeeded(breaker.enter())
    assert breaker.state is BreakerState.CLOSED


def test_late_reports_of_an_earlier_state_count_no_more() -> None:
    clock = Clock()
    breaker = Breaker(failures=2, seconds=10, clock=clock)
    turns = [breaker.enter() for _ in range(4)]
    breaker.failed(turns[0])
    breaker.failed(turns[1])
    breaker.succeeded(turns[2])
    assert breaker.state is BreakerState.OPEN
    clock.now += 10
    trying = breaker.enter()
    breaker.failed(turns[3])
    assert breaker.state is BreakerState.HALF_OPEN
    breaker.succeeded(trying)
    assert breaker.state is BreakerState.CLOSED


def test_only_one_of_many_threads_tries() -> None:
    clock = Clock()
    breaker = Breaker(failures=1, seconds=1, clock=clock)
    breaker.failed(breaker.enter())
    clock.now += 1
    entered: list[int] = []

    def enter() -> None:
        try:
            entered.append(breaker.enter())
        except BreakerOpen:
            return

    threads = [threading.Thread(target=enter) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(entered) == 1


def test_an_open_breaker_sends_nothing_and_one_call_closes_it() -> None:
    with bench([OVERLOADED] * 4 + [say("Back.")], failures=2, attempts=2) as b:
        for _ in range(2):
            with pytest.raises(CallFailed):
                b.ask()
        with pytest.raises(BreakerOpen):
            b.ask()
        assert len(b.server.requests) == 4
        b.clock.now += 60
        assert b.ask().answer.content[0]["text"] == "Back."
        assert b.sender.breaker.state is BreakerState.CLOSED


@pytest.mark.parametrize(("failures", "seconds"), [(0, 1.0), (1, -1.0), (1, float("nan"))])
def test_a_breaker_that_makes_no_sense_is_refused(failures: int, seconds: float) -> None:
    with pytest.raises(UserError, match="breaker"):
        Breaker(failures, seconds)
