"""The feedback suffices: a model that only follows it gets from an illegal proposal to a verified faster kernel.

And a long chain stays as cheap a step as a short one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from statistics import mean
from typing import Any, cast

import pytest

from optimizer.budget import Limits
from optimizer.kernel_problem import KernelProblem
from optimizer.kernel_run import kernel_specification
from optimizer.plan import Plan, StopReason
from optimizer.registry import CASCADES
from optimizer.run import Run, replay, start
from optimizer.verdict import Status
from tests.literal_model import LiteralModel
from tests.model_runs import KEY, run_model, texts_in
from tests.model_server import ModelServer, Reply, call, think

ILLEGAL_FIRST: Mapping[str, str] = {
    "gemm": "tile(k=8, j_2=8); parallel(k_t)",
    "mvt": "tile(i=8, j=8); parallel(j_t)",
    "atax": "tile(j=8); parallel(j_t)",
    "gemver": "tile(i_2=8, j_2=8); parallel(j_2_t)",
    "gesummv": "tile(i=8); parallel(j)",
    "syrk": "tile(k=8, j_2=8); parallel(k_t)",
    "syr2k": "tile(k=8, j_2=8); parallel(k_t)",
    "trmm": "tile(i=8, j=8); parallel(i_t)",
    "lu": "tile(i=8); parallel(i_t)",
    "jacobi-2d": "tile(i=8, j=8); parallel(t)",
    "2mm": "tile(k=8); parallel(k_t)",
    "3mm": "tile(k=8); parallel(k_t)",
    "covariance": "tile(i_3=8, j_3=8); parallel(k)",
    "floyd-warshall": "tile(i=8, j=8); parallel(k)",
    "heat-3d": "tile(i=8, j=8, k=8); parallel(t)",
    "seidel-2d": "parallel(i)",
}

GOOD_BUT_FOR_THREADS: Mapping[str, str] = {
    "gemm": "autoschedule(); distribute(k); distribute(j); distribute(i); reorder(i_2, k_2, j_3); "
    "tile(i_2=8, k_2=8, j_3=8); parallel(k_2_t)",
    "lu": "autoschedule(fuse=none); reorder(i, k, j); tile(i=8, k=8, j=8); parallel(k_t)",
    "symm": "autoschedule(fuse=max); reorder(i, k, j); tile(i=8, k=8, j=8); parallel(k_t)",
    "trmm": "autoschedule(fuse=max); reorder(i, k, j); tile(i=8, k=8, j=8); parallel(i_t)",
    "syrk": "autoschedule(); reorder(i, k, j); tile(i=8, k=8, j=8); parallel(k_t)",
    "syr2k": "autoschedule(); reorder(i, k, j); tile(i=8, k=8, j=8); parallel(k_t)",
    "mvt": "autoschedule(); reorder(j_2, i_2); tile(j_2=8, i_2=8); parallel(j_2_t)",
    "covariance": "distribute(j_3); distribute(i_3); reorder(i_4, k, j_4); tile(i_4=8, k=8, j_4=8); parallel(k_t)",
    "correlation": "autoschedule(); reorder(i_4, k, j_4); tile(i_4=8, k=8, j_4=8); parallel(k_t)",
    "cholesky": "autoschedule(); tile(i=8, j=8, k=8); parallel(i_t)",
    "nussinov": "tile(i=8, j=8); parallel(i_t)",
    "gesummv": "parallel(j)",
    "doitgen": "distribute(p); parallel(s)",
}
"""Loops in a good order, given to the threads where they carry a dependence."""


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith(("ANTHROPIC_", "LOOPWRIGHT_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)


@pytest.mark.parametrize("kernel", ILLEGAL_FIRST)
def test_following_the_feedback_leads_from_an_illegal_schedule_to_legal_ones(tmp_path: Path, kernel: str) -> None:
    problem = KernelProblem.load(kernel, "mini", threads=2)
    with ModelServer(LiteralModel(ILLEGAL_FIRST[kernel])) as server:
        run = run_model(server.url, tmp_path, problem, plan=Plan(steps=10))
    assert run.outcomes[:2] == ["illegal", "ok"]
    assert set(run.outcomes[1:]) == {"ok"}
    assert "proved" in run.result.winner.assurance
    assert run.result.winner.number > 0
    assert run.result.stop_reason is StopReason.GIVEN_UP


def real_run(kernel: str, size: str, first: str, directory: Path) -> tuple[Run, ModelServer]:
    """With every verifier: legality, equivalence, timing, plausibility."""
    with ModelServer(LiteralModel(first)) as server:
        problem = KernelProblem.load(kernel, size)
        specification = kernel_specification(
            problem, "llm", Plan(steps=10), Limits(evaluations=6), {"base_url": server.url}
        )
        run = start(specification, directory)
    trials = run.result.trials
    assert trials[1].outcome == "illegal"
    for trial in (trial for trial in trials[2:] if trial.status is Status.OK):
        assert trial.score is not None
        assert "proved" in trial.assurance
        assert "bit-exact" in trial.assurance or "within" in trial.assurance
    return run, server


@pytest.mark.long
def test_with_all_verifiers(tmp_path: Path) -> None:
    _, server = real_run("gemm", "mini", "parallel(k)", tmp_path / "run")
    first, _, answer = ("\n".join(texts_in(request["messages"][-1]["content"])) for request in server.requests)
    assert re.search(r"the untouched nest takes [\d.]+ ", first)  # measured before the first proposal
    assert re.search(r"accepted: [\d.]+x \(95% interval [\d.]+ to [\d.]+\)", answer)
    assert re.search(r"\d+% of the machine's limit", answer)
    assert "left of the budget: 4 evaluations" in answer


@pytest.mark.long
def test_with_all_verifiers_ten_kernels_become_faster(tmp_path: Path) -> None:
    speedups: dict[str, float] = {}
    for kernel, first in GOOD_BUT_FOR_THREADS.items():
        run, _ = real_run(kernel, "large", first, tmp_path / kernel)
        measured = run.result.selection.measured
        is_faster = run.result.winner.number > 0 and measured is not None and measured.interval[0] > 1
        speedups[kernel] = measured.score if is_faster and measured else 1.0
        print(f"{kernel}: {speedups[kernel]:.2f}x {run.result.winner.candidate.text}", flush=True)
    assert sum(speedup > 1 for speedup in speedups.values()) >= 10


# -- a long chain

STEPS = 60


def sixty_steps(request: Mapping[str, Any], count: int) -> Reply:
    """Schedules that all differ; every third one is illegal, every tenth has no such loop."""
    size = count + 2
    if count % 10 == 9:
        return call("evaluate", schedule=f"tile(z{count}=8)", rationale="Let me see.")
    if count % 3 == 2:
        return call("evaluate", schedule=f"tile(k={size}); parallel(k_t)", rationale="More threads for the reduction.")
    return call("evaluate", schedule=f"tile(i={size}); parallel(i_t)", rationale="Larger tiles may fit the cache.")


@pytest.mark.parametrize("thought", ["", "Which loop carries the reduction? " * 40], ids=["terse", "thoughtful"])
def test_a_long_chain_costs_no_more_a_step_than_a_short_one(tmp_path: Path, thought: str) -> None:
    def script(request: Mapping[str, Any], count: int) -> Reply:
        reply = sixty_steps(request, count)
        return think(thought, then=reply) if thought else reply

    problem = KernelProblem.load("gemm", "mini", threads=2)
    with ModelServer(script) as server:
        run = run_model(server.url, tmp_path, problem, plan=Plan(steps=STEPS))
    assert len(run.outcomes) == len(server.requests) == STEPS
    assert set(run.outcomes) == {"ok", "illegal", "invalid_step"}
    usages = [event["answer"]["usage"] for event in run.events("call")]
    prompts = [usage["input"] + usage["cache_write"] + usage["cache_read"] for usage in usages]
    early, late = mean(prompts[9:20]), mean(prompts[-10:])
    read = sum(usage["cache_read"] for usage in usages) / sum(prompts)
    growth = (prompts[10] - prompts[0]) / 10
    without = STEPS * prompts[0] + growth * STEPS * (STEPS - 1) / 2
    print(f"prompt tokens a step: {early:.0f} in steps 10 to 20, {late:.0f} in the last 10; {read:.0%} from the cache")
    print(f"all {STEPS} steps: {sum(prompts)} tokens; {without:.0f} without compaction")
    assert late <= 1.5 * early
    assert read > 0.5
    assert sum(prompts) < without


def test_compaction_keeps_every_verdict(tmp_path: Path) -> None:
    problem = KernelProblem.load("gemm", "mini", threads=2)
    with ModelServer(sixty_steps) as server:
        run = run_model(server.url, tmp_path, problem, plan=Plan(steps=STEPS), context=2_000)
    compacted = [place for place, request in enumerate(server.requests) if place and len(request["messages"]) == 1]
    assert len(compacted) >= 3
    for place in compacted:
        summary = "\n".join(texts_in(server.requests[place]["messages"][0]["content"]))
        for text, outcome in zip(run.texts[:place], run.outcomes, strict=False):
            assert f"`{text}`" in summary, (place, text, outcome)
        assert "illegal" in summary
        assert "Best so far" in summary
    assert [part["part"] for part in run.events("call")[compacted[0]]["left_out"]] == [
        f"turns up to step {compacted[0]}"
    ]


def test_a_kernel_run_is_replayed_with_the_same_winner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the network off and no key. Real times differ from run to run, so here the schedule decides them."""
    monkeypatch.setitem(cast("dict[str, str]", CASCADES), "kernel", "tests.model_runs:timeless_verifiers")
    problem = KernelProblem.load("gemm", "mini", threads=2)
    with ModelServer(LiteralModel(ILLEGAL_FIRST["gemm"])) as server:
        specification = kernel_specification(problem, "llm", Plan(), Limits(), {"base_url": server.url})
        run = start(specification, tmp_path / "run")
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    again = replay(tmp_path / "run", tmp_path / "again")
    assert outcomes(again) == outcomes(run)
    assert len(outcomes(run)) == 6
    assert again.result.winner.candidate == run.result.winner.candidate
    assert again.result.used.calls == 0


def outcomes(run: Run) -> list[tuple[str, str]]:
    return [(trial.candidate.text, trial.outcome) for trial in run.result.trials]
