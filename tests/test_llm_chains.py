"""Several chains: they ask at the same time, are judged one by one, share a budget, and end together."""

from __future__ import annotations

import itertools
import json
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from optimizer.budget import Limits
from optimizer.candidate import Candidate
from optimizer.errors import UserError
from optimizer.journal import read_record
from optimizer.kernel_problem import KernelProblem
from optimizer.plan import Plan, StopReason
from optimizer.verdict import Verdict
from tests.fakes import NumberVerifier
from tests.model_runs import KEY, SOON, Finished, last_text, run_model, texts_in
from tests.model_server import ApiError, ModelServer, Reply, call, calls

LATE = 0.1
"""Seconds after which a model answers that is slow enough for all chains to have asked meanwhile."""


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith(("ANTHROPIC_", "LOOPWRIGHT_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)


@dataclass
class OneAtATime(NumberVerifier):
    """Fails the test when it is asked while it works."""

    is_working: bool = False
    overlaps: int = 0

    def verify(self, problem: Any, candidate: Candidate) -> Verdict:
        self.overlaps += self.is_working
        self.is_working = True
        time.sleep(0.02)
        self.is_working = False
        return super().verify(problem, candidate)


def number(value: float, delay: float = 0.0) -> Reply:
    return calls(("evaluate", {"candidate": str(value)}), delay=delay)


def paid(run: Finished) -> int:
    """The tokens of all calls in the journal."""
    return sum(event["amount"]["tokens"] for event in run.events("call"))


def test_chains_ask_at_the_same_time_and_are_judged_one_by_one(tmp_path: Path) -> None:
    verifier = OneAtATime()
    with ModelServer(lambda request, count: number(2 + count / 8, LATE)) as server:
        run = run_model(server.url, tmp_path, verifiers=[verifier], plan=Plan(chains=4, steps=3))
    assert server.most_at_once >= 3
    assert verifier.overlaps == 0
    assert len(verifier.asked) == 12
    assert run.result.stop_reason is StopReason.STEPS_DONE
    assert {(trial.chain, trial.step) for trial in run.result.trials[1:]} == set(
        itertools.product(range(4), range(1, 4))
    )


def test_concurrency_bounds_the_calls_at_a_time(tmp_path: Path) -> None:
    with ModelServer(lambda request, count: number(count + 2, LATE / 2)) as server:
        run_model(server.url, tmp_path, plan=Plan(chains=4, steps=1), concurrency=2)
    assert server.most_at_once == 2
    assert len(server.requests) == 4


def test_one_call_for_eight_chains_is_exactly_one_request(tmp_path: Path) -> None:
    with ModelServer(lambda request, count: number(count + 2, LATE)) as server:
        run = run_model(server.url, tmp_path, plan=Plan(chains=8, steps=5), limits=Limits(calls=1))
    assert len(server.requests) == 1
    assert run.result.used.calls == 1
    assert run.result.stop_reason is StopReason.BUDGET_CALLS
    assert run.outcomes == ["ok"]


def test_a_limit_in_dollars_holds_for_all_chains_together(tmp_path: Path) -> None:
    limit = 0.1
    with ModelServer(lambda request, count: number(count + 2)) as server:
        run = run_model(server.url, tmp_path, plan=Plan(chains=5, steps=40), limits=Limits(usd=limit), max_tokens=1_000)
    assert run.result.stop_reason is StopReason.BUDGET_USD
    assert 0.5 * limit < run.result.used.usd <= limit
    assert run.result.used.tokens == paid(run) == sum(sum((e.usage or {}).values()) for e in server.exchanges)


def test_evaluations_are_shared_and_never_passed(tmp_path: Path) -> None:
    verifier = NumberVerifier()
    with ModelServer(lambda request, count: number(count + 2)) as server:
        run = run_model(
            server.url, tmp_path, verifiers=[verifier], plan=Plan(chains=4, steps=9), limits=Limits(evaluations=6)
        )
    assert len(verifier.asked) == run.result.used.evaluations == 6
    assert run.result.stop_reason is StopReason.BUDGET_EVALUATIONS
    assert len(server.requests) == 6  # no chain asked for what could not be judged any more


def test_chains_begin_at_different_places(tmp_path: Path) -> None:
    problem = KernelProblem.load("gemm", "mini", threads=2)
    with ModelServer(lambda request, count: call("finish", reason="")) as server:
        run_model(server.url, tmp_path, problem, plan=Plan(chains=4, steps=1))
    firsts = [request["messages"][0]["content"] for request in server.requests]
    starts = {next(text for text in texts_in(first) if text.startswith("For this search:")) for first in firsts}
    assert len(starts) == 4
    briefings = {str([block["text"] for block in first[:-2]]) for first in firsts}
    assert len(briefings) == 1, "what they share must be the same, for the cache"


def test_chains_are_told_once_what_others_tried(tmp_path: Path) -> None:
    """Three chains: the first answers at once, so that its trial is there when the others have theirs."""
    with ModelServer(first_fast_others_late) as server:
        run_model(server.url, tmp_path, plan=Plan(chains=3, steps=3))
    told = ["\n".join(texts_in(request["messages"][-1]["content"])) for request in server.requests]
    assert not any("Other searches" in text for text in told[:3])
    assert any("Other searches" in text and "- 2: 2 x" in text for text in told)
    for request in server.requests:
        assert json.dumps(request).count("- 2: 2 x") <= 1


def test_a_chain_that_starts_anew_is_told_what_others_tried(tmp_path: Path) -> None:
    with ModelServer(first_fast_others_late) as server:
        run_model(server.url, tmp_path, plan=Plan(chains=2, steps=30), limits=Limits(calls=60), context=1_000)
    compacted = [request for request in server.requests[2:] if len(request["messages"]) == 1]
    assert compacted
    assert all("Other searches" in last_text(request) for request in compacted)


def test_without_feedback_others_are_not_shown(tmp_path: Path) -> None:
    with ModelServer(lambda request, count: number(count + 2)) as server:
        run_model(server.url, tmp_path, plan=Plan(chains=3, steps=2), concurrency=1, without=["feedback"])
    assert not any("Other searches" in last_text(request) for request in server.requests)


def first_fast_others_late(request: dict[str, Any], count: int) -> Reply:
    return number(count + 2, 3 * LATE if count in (1, 2) else 0.0)


def test_answers_in_flight_at_the_end_are_kept(tmp_path: Path) -> None:
    """The first answer reaches the target; the others were paid for and stand in the journal as proposals."""
    with ModelServer(first_fast_others_late) as server:
        run = run_model(server.url, tmp_path, plan=Plan(chains=3, steps=5, target=2.0))
    assert run.result.stop_reason is StopReason.TARGET_REACHED
    assert len(server.requests) == 3
    assert len(run.events("call")) == 3
    assert run.result.used.calls == 3
    assert {proposal.text for proposal in read_record(tmp_path).pending.values()} == {"3", "4"}
    assert "answers that were paid for" in run.waits


def test_an_interrupt_keeps_what_was_paid_for_and_the_run_goes_on_with_it(tmp_path: Path) -> None:
    def interrupt(count: int) -> None:
        if count == 1:
            raise KeyboardInterrupt

    with ModelServer(first_fast_others_late) as server:
        run = run_model(
            server.url, tmp_path, verifiers=[NumberVerifier(on_call=interrupt)], plan=Plan(chains=3, steps=1)
        )
        assert run.result.stop_reason is StopReason.INTERRUPTED
        assert len(server.requests) == 3
        assert len(read_record(tmp_path).pending) == 3
        assert read_record(tmp_path).unsettled == {}
        run = run_model(server.url, tmp_path, plan=Plan(chains=3, steps=1))
        assert len(server.requests) == 3, "nothing that was paid for is asked again"
    assert sorted(run.texts) == ["2", "3", "4"]
    assert run.result.used.tokens == paid(run)
    assert run.result.used.evaluations == 3


def test_an_interrupt_while_all_wait_does_not_lose_the_answers(tmp_path: Path) -> None:
    def script(request: dict[str, Any], count: int) -> Reply:
        if count == 1:
            threading.Timer(LATE, lambda: os.kill(os.getpid(), 2)).start()
        return number(count + 2, 4 * LATE)

    with ModelServer(script) as server:
        run = run_model(server.url, tmp_path, plan=Plan(chains=2, steps=5))
    assert run.result.stop_reason is StopReason.INTERRUPTED
    assert len(server.requests) == 2
    assert len(read_record(tmp_path).pending) == 2


def test_chains_in_a_wait_for_another_try_end_with_the_run(tmp_path: Path) -> None:
    def script(request: dict[str, Any], count: int) -> Reply | ApiError:
        return number(5, LATE) if count == 0 else ApiError(529, headers={"retry-after": "60"})

    began = time.monotonic()
    with ModelServer(script) as server:
        run = run_model(server.url, tmp_path, plan=Plan(chains=3, steps=1, target=2.0))
    assert time.monotonic() - began < 10
    assert run.result.stop_reason is StopReason.TARGET_REACHED
    assert read_record(tmp_path).unsettled == {}
    assert run.result.used.calls == 1


def test_what_only_the_user_can_mend_ends_all_chains(tmp_path: Path) -> None:
    def script(request: dict[str, Any], count: int) -> Reply | ApiError:
        return ApiError(401) if count == 1 else number(count + 2, 2 * LATE)

    threads = threading.active_count()
    with ModelServer(script) as server:
        with pytest.raises(UserError, match="key"):
            run_model(server.url, tmp_path, plan=Plan(chains=3, steps=5))
        asked = len(server.requests)
        assert asked <= 3
        record = read_record(tmp_path)
        assert record.unsettled == {}
        run = run_model(server.url, tmp_path, plan=Plan(chains=3, steps=1))
        assert len(server.requests) == asked + 3 - len(record.pending)
    assert run.outcomes == ["ok"] * 3
    assert threading.active_count() <= threads


def test_chains_share_one_breaker(tmp_path: Path) -> None:
    with ModelServer(lambda request, count: ApiError(529, headers=SOON)) as server:
        run = run_model(server.url, tmp_path, plan=Plan(chains=3, steps=4), breaker_failures=2, breaker_seconds=60)
    assert len(server.requests) <= 5 * 4  # two calls open it, and at most two more were out
    assert len(run.events("fallback")) == len(run.texts) > 3
