"""Policies against each other: the statistics on made-up outcomes, and one small real comparison."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.policies import Experiment, Outcome, mean_interval, summarize, to_json
from optimizer.cli import main
from optimizer.cli.bench import bench_text, outcome_line
from optimizer.closed_loop import Tally, wilson_interval
from optimizer.errors import UserError

EXPERIMENT = Experiment(("gemm", "lu"), ("random", "polyhedral"), evaluations=12, repeats=3, size="small")
SPEEDUPS = {
    ("random", "gemm"): (1.0, 2.0, 4.0),
    ("random", "lu"): (1.0, 1.0, 1.0),
    ("polyhedral", "gemm"): (8.0, 8.0, 8.0),
    ("polyhedral", "lu"): (1.0, 1.0, 1.02),
}


def outcome(policy: str, kernel: str, repeat: int, speedup: float | None) -> Outcome:
    interval = (0.95 * (speedup or 1.0), 1.05 * (speedup or 1.0))
    tally = Tally(accepted=6, rejected=6, answered=3) if policy == "random" else Tally()
    return Outcome(
        policy, kernel, repeat, speedup, interval, 12, "budget_evaluations", "reverse(i)", "somewhere", tally
    )


OUTCOMES = tuple(
    outcome(policy, kernel, repeat, speedup)
    for (policy, kernel), speedups in SPEEDUPS.items()
    for repeat, speedup in enumerate(speedups)
)


def test_means_over_kernels_and_repeats() -> None:
    random, polyhedral = summarize(EXPERIMENT, OUTCOMES)
    assert random.geometric_mean == pytest.approx(2**0.5)
    assert random.single == pytest.approx((7 / 3) ** 0.5)
    assert random.best_of_repeats == pytest.approx(2.0)
    assert random.evaluations == 72
    assert polyhedral.geometric_mean == pytest.approx((8 * 1.02 ** (1 / 3)) ** 0.5)


def test_proposals_are_summed_up_as_a_closed_loop() -> None:
    random, polyhedral = summarize(EXPERIMENT, OUTCOMES)
    assert random.accepted == 0.5
    assert random.accepted_interval == wilson_interval(36, 72)
    assert random.accepted_in_two == pytest.approx(0.5 + 0.5 * 0.5 * 0.5)
    assert random.evaluations_per_accepted == pytest.approx(2.0)
    assert (polyhedral.accepted, polyhedral.accepted_in_two, polyhedral.evaluations_per_accepted) == (None, None, None)
    assert "50% (39% to 61%)" in bench_text(EXPERIMENT, (random, polyhedral), Path("runs"))


def test_wins_and_ties_are_against_the_first_policy() -> None:
    random, polyhedral = summarize(EXPERIMENT, OUTCOMES)
    assert (random.wins, random.ties, random.losses) == (0, 2, 0)
    assert (polyhedral.wins, polyhedral.ties, polyhedral.losses) == (1, 1, 0)
    turned = replace(EXPERIMENT, policies=("polyhedral", "random"))
    assert [s.losses for s in summarize(turned, OUTCOMES)] == [0, 1]


def test_the_median_shows_where_one_kernel_makes_the_mean() -> None:
    kernels = ("gemm", "lu", "mvt", "atax", "bicg")
    experiment = Experiment(kernels, ("random",), evaluations=12, repeats=2, size="small")
    outcomes = [
        outcome("random", kernel, repeat, 40.0 if kernel == "gemm" else 1.1) for kernel in kernels for repeat in (0, 1)
    ]
    (summary,) = summarize(experiment, outcomes)
    assert summary.geometric_mean > 2
    assert summary.median == pytest.approx(1.1)
    assert "1.10x" in bench_text(experiment, (summary,), Path("runs"))


def test_a_comparison_without_a_control_says_so() -> None:
    summaries = summarize(EXPERIMENT, OUTCOMES)
    assert "no control" not in bench_text(EXPERIMENT, summaries, Path("runs"))
    alone = replace(EXPERIMENT, policies=("polyhedral",))
    assert "there is no control: with random among" in bench_text(alone, summarize(alone, OUTCOMES), Path("runs"))


def test_intervals_hold_the_mean_and_are_reproducible() -> None:
    for summary in summarize(EXPERIMENT, OUTCOMES):
        low, high = summary.interval
        assert low <= summary.geometric_mean <= high
    values = [[1.0, 2.0, 4.0], [3.0, 3.0, 3.0]]
    assert mean_interval(values, seed=5) == mean_interval(values, seed=5)
    assert mean_interval([[2.0, 2.0]], seed=5) == pytest.approx((2.0, 2.0))


def test_a_failed_run_is_no_score() -> None:
    broken = (outcome("random", "gemm", 0, None), *OUTCOMES[1:])
    random = summarize(EXPERIMENT, broken)[0]
    assert random.failed_runs == 1
    assert random.geometric_mean == pytest.approx(8**0.25)
    with pytest.raises(UserError, match="every run of random on gemm failed"):
        summarize(EXPERIMENT, OUTCOMES[3:])


def test_the_table_and_the_json() -> None:
    summaries = summarize(EXPERIMENT, OUTCOMES)
    text = bench_text(EXPERIMENT, summaries, Path("runs"))
    assert text.splitlines()[0].split("  ")[0] == "policy"
    assert "1/1/0" in text
    assert "2 kernels at small, 3 runs each of at most 12 evaluations; wins and losses against random" in text
    data = json.loads(json.dumps(to_json(EXPERIMENT, OUTCOMES, summaries, Path("runs"))))
    assert [s["policy"] for s in data["summaries"]] == ["random", "polyhedral"]
    assert len(data["runs"]) == 12
    assert outcome_line(OUTCOMES[0]) == "gemm random repeat 0: 1.00x (12 evaluations, budget_evaluations)"


@pytest.mark.long
def test_a_real_comparison_goes_on_where_it_stopped(tmp_path: Path) -> None:
    arguments = [
        "bench",
        "--kernels",
        "matmul",
        "--policies",
        "random,hillclimb",
        "--evaluations",
        "2",
        "--repeats",
        "1",
    ]
    arguments += ["--size", "mini", "--threads", "1", "--run-dir", str(tmp_path / "bench"), "--json"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert [run["evaluations"] for run in data["runs"]] == [2, 2]
    assert all(s["interval"][0] <= s["geometric_mean"] <= s["interval"][1] for s in data["summaries"])
    assert all(run["tally"]["accepted"] + run["tally"]["rejected"] >= 2 for run in data["runs"])
    assert result.stderr.count("matmul random repeat 0") == 1

    again = CliRunner().invoke(main, arguments)
    assert json.loads(again.stdout) == data, "nothing is run twice"
    other = CliRunner().invoke(main, [*arguments, "--evaluations", "3"])
    assert other.exit_code == 2
    assert "another plan" in other.stderr or "another limits" in other.stderr
