"""The `llm` policy at its limits: budgets that end, a model that cannot be reached, a user's mistakes."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from optimizer.budget import Limits
from optimizer.errors import UserError
from optimizer.kernel_problem import KernelProblem
from optimizer.plan import Plan, StopReason
from optimizer.run import RunSpecification, start
from tests.model_runs import DONE, KEY, SOON, failures, last_text, number, run_model, schedule
from tests.model_server import ApiError, Fault, Hang, ModelServer, Page

OVERLOADED = ApiError(529, headers=SOON)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith(("ANTHROPIC_", "LOOPWRIGHT_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)


@pytest.fixture(scope="module")
def gemm() -> KernelProblem:
    return KernelProblem.load("gemm", "mini", threads=2)


# -- budgets


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (Limits(calls=3), StopReason.BUDGET_CALLS),
        (Limits(tokens=20_000), StopReason.BUDGET_TOKENS),
        (Limits(usd=0.05), StopReason.BUDGET_USD),
        (Limits(evaluations=3), StopReason.BUDGET_EVALUATIONS),
    ],
)
def test_a_limit_ends_the_run_before_it_is_passed(tmp_path: Path, limits: Limits, reason: StopReason) -> None:
    with ModelServer(lambda request, count: number(count + 2)) as server:
        run = run_model(server.url, tmp_path, limits=limits, max_tokens=2_000)
    assert run.result.stop_reason is reason
    for line in ("calls", "tokens", "usd", "evaluations"):
        limit = getattr(limits, line)
        assert limit is None or 0 < getattr(run.result.used, line) <= limit
    assert len(server.requests) == run.result.used.calls


def test_the_ledger_counts_what_the_server_counted(tmp_path: Path) -> None:
    with ModelServer([number(2), number(3), DONE]) as server:
        run = run_model(server.url, tmp_path)
    tokens = sum(sum(exchange.usage.values()) for exchange in server.exchanges if exchange.usage)
    assert run.result.used.tokens == tokens
    assert run.result.used.usd > 0
    assert sum(trial.cost.tokens for trial in run.result.trials) + run.events("call")[-1]["amount"]["tokens"] == tokens


def test_dollars_cannot_limit_a_model_without_a_price(tmp_path: Path) -> None:
    with ModelServer([DONE]) as server:
        with pytest.raises(UserError, match=r"llama-of-mine.*prices\.toml.*--calls"):
            run_model(server.url, tmp_path / "a", model="llama-of-mine", limits=Limits(usd=1.0))
        run = run_model(server.url, tmp_path / "b", model="llama-of-mine", limits=Limits(calls=5))
    assert len(server.requests) == 1
    assert run.result.used.usd == 0


# -- a model that cannot be reached


def test_the_run_goes_on_without_the_model_and_comes_back_to_it(tmp_path: Path, gemm: KernelProblem) -> None:
    def script(request: dict[str, Any], count: int) -> Any:
        if 1 <= count < 11:  # five tries of each of two calls
            return OVERLOADED
        return schedule(f"tile(i={count + 2})")

    with ModelServer(script) as server:
        run = run_model(server.url, tmp_path, gemm, plan=Plan(steps=6), breaker_failures=2, breaker_seconds=0.2)
    by_fallback = [trial for trial in run.result.trials[1:] if "by polyhedral" in trial.rationale]
    by_model = [trial for trial in run.result.trials[1:] if trial not in by_fallback]
    assert by_fallback
    assert by_model[0].number < by_fallback[0].number < by_model[-1].number
    assert len(run.events("fallback")) == len(by_fallback)
    assert "policy polyhedral proposes instead" in run.waits
    assert "overloaded" in run.waits
    asked_again = server.requests[11]
    assert "was proposed without you" in last_text(asked_again)
    assert failures(run)[1:3] == ["overloaded"] * 2


def test_what_was_paid_before_the_fallback_belongs_to_the_step(tmp_path: Path) -> None:
    """The first answer breaks off after it has cost tokens; the fallback's trial carries that."""
    broken = replace(number(2), fault=Fault.CUT, after=3)
    with ModelServer([broken, DONE]) as server:
        run = run_model(server.url, tmp_path, plan=Plan(steps=1), breaker_failures=1)
    trial = run.result.trials[1]
    assert trial.rationale.startswith("without the model")
    assert trial.cost.calls == 1
    assert trial.cost.tokens == run.result.used.tokens > 0


def test_without_a_fallback_the_run_ends_and_can_be_resumed(tmp_path: Path) -> None:
    with ModelServer([number(2), *[OVERLOADED] * 5, number(3), DONE]) as server:
        options: dict[str, Any] = {"fallback": "none", "breaker_failures": 1}
        run = run_model(server.url, tmp_path, **options)
        assert run.result.stop_reason is StopReason.INFRASTRUCTURE_ERRORS
        assert run.texts == ["2"]
        run = run_model(server.url, tmp_path, **options)
    assert run.texts == ["2", "3"]
    assert run.result.stop_reason is StopReason.GIVEN_UP


@pytest.mark.parametrize(
    "trouble", [ApiError(400, "no"), ApiError(413), ApiError(500, headers=SOON), ApiError(429, headers=SOON)]
)
def test_other_trouble_ends_in_the_fallback_too(tmp_path: Path, trouble: ApiError) -> None:
    with ModelServer(lambda request, count: number(2) if count == 0 else trouble) as server:
        run = run_model(server.url, tmp_path, plan=Plan(steps=2), breaker_failures=1)
    assert len(run.texts) == 2
    assert run.result.stop_reason is StopReason.STEPS_DONE
    assert run.result.trials[2].rationale.startswith("without the model, by mutate")


def specification(url: str, **options: Any) -> RunSpecification:
    problem = KernelProblem.load("gemm", "mini", threads=1).specification()
    return RunSpecification(problem, "llm", {"base_url": url, **options}, plan=Plan(steps=2), limits=Limits(usd=1.0))


def test_a_wrong_key_ends_the_run_at_once(tmp_path: Path) -> None:
    with (
        ModelServer([number(2)], right_key="another") as server,
        pytest.raises(UserError, match="key"),
    ):
        run_model(server.url, tmp_path)
    assert len(server.requests) == 1


def test_after_a_wrong_key_the_run_can_be_resumed_with_the_right_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ModelServer([number(2), number(3), DONE], right_key="sk-right") as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-mistaken")
        with pytest.raises(UserError) as raised:
            run_model(server.url, tmp_path)
        assert "sk-mistaken" not in str(raised.value)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-right")
        run = run_model(server.url, tmp_path)
    assert run.texts == ["3"]  # the first reply went to the refused request
    assert run.result.used.calls == 2


def test_an_unknown_model_and_a_page_instead_of_the_api_end_the_run(tmp_path: Path) -> None:
    models = ["claude-sonnet-5-5"]
    with ModelServer([DONE], models=models) as server, pytest.raises(UserError, match="claude-soonet"):
        run_model(server.url, tmp_path / "a", model="claude-soonet-5-5")
    with ModelServer([Page("<html>Welcome</html>")] * 5) as server, pytest.raises(UserError, match=r"127\.0\.0\.1"):
        run_model(server.url, tmp_path / "b")


def test_without_a_key_nothing_is_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with pytest.raises(UserError, match=r"ANTHROPIC_API_KEY.*polyhedral"):
        start(replace(specification("x"), policy_options={}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_silent_server_is_given_up(tmp_path: Path) -> None:
    with ModelServer([Hang(), Hang()]) as server:
        run = run_model(server.url, tmp_path, plan=Plan(steps=1), timeout=0.2, breaker_failures=1)
    assert failures(run)[0] == "timed_out"
    assert run.result.trials[1].rationale.startswith("without the model")
