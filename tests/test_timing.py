"""Speedups are what they should be, and nothing that a candidate does at the timed size goes unseen."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from optimizer.candidate import Candidate
from optimizer.errors import InfrastructureError
from optimizer.measure.bench import Bench, TimeLimits
from optimizer.measure.lane import TimingLane
from optimizer.measure.workload import ArgumentKind, ArgumentSpec
from optimizer.verdict import Measurement, Reason, Status, Verdict
from tests.measured_problem import ORIGINAL_BODY, PARALLEL, PARALLEL_BODY, TextProblem, module
from verifiers.timing import Timing

pytestmark = pytest.mark.alone

REPEATED = """
def scale_sum(n, m, factor, A, B, total):
    for i in range(n):
        for again in range({again}):
            total[i] = again
            for j in range(m):
                total[i] += A[i, j] * B[i, j]
        total[i] -= {again} - 1
        A[i, 0] = factor * A[i, 0]
"""
"""Does the same work several times over; what a candidate can leave out is known exactly."""


def repeated(again: int, extra: str = "") -> str:
    source = REPEATED.format(again=again).replace("def ", "@njit(error_model='numpy', fastmath={'contract'})\ndef ")
    return f"from numba import njit\n{source}{extra}"


PROBLEM = TextProblem(source=REPEATED.format(again=8), sizes={"n": 200, "m": 400})
ONLY_WHEN_TIMED = "    if n > 100:\n        "


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    directory = tmp_path_factory.mktemp("bench")
    limits = TimeLimits(rounds=0.8)
    with Bench(directory, threads=2, limits=limits, lane=TimingLane(directory / "lane")) as bench:
        yield bench


def measured(verdict: Verdict) -> Measurement:
    assert verdict.status is Status.OK, verdict
    assert verdict.measurement is not None
    return verdict.measurement


def test_less_work_is_faster_by_as_much(bench: Bench) -> None:
    measurement = measured(Timing(bench).verify(PROBLEM, Candidate(repeated(2))))
    assert 1.6 < measurement.score < 10.0
    low, high = measurement.interval
    assert low <= measurement.score <= high
    assert measurement.samples >= 5
    assert measurement.unit == "x"
    details = measurement.details
    assert details["baseline_seconds"] / details["seconds"] == pytest.approx(measurement.score, rel=0.5)
    assert (details["threads"], details["size"]) == (2, {"n": 200, "m": 400})
    assert {"load", "other_load", "disturbed", "spread"} <= set(details)
    assert bench.measurements[Candidate(repeated(2)).digest] == measurement


def test_original_against_itself_is_one(bench: Bench) -> None:
    assert 0.5 < measured(Timing(bench).verify(PROBLEM, Candidate(repeated(8)))).score < 2.0


def test_slower_candidate_is_kept_with_its_score(bench: Bench) -> None:
    assert measured(Timing(bench).verify(PROBLEM, Candidate(repeated(32)))).score < 0.7


def test_baseline_is_known(bench: Bench) -> None:
    assert 1e-6 < Timing(bench).baseline_seconds(PROBLEM) < 1.0


def test_very_slow_candidate_costs_seconds(bench: Bench) -> None:
    start = time.monotonic()
    verdict = Timing(bench).verify(PROBLEM, Candidate(repeated(10**6)))
    assert (verdict.status, verdict.reason) == (Status.REJECTED, Reason.TOO_SLOW)
    assert "the original takes" in verdict.detail
    assert verdict.witness is not None
    assert verdict.witness["seconds_at_least"] >= 1.0
    assert verdict.measurement is None
    assert time.monotonic() - start < 10


@pytest.mark.parametrize(
    ("mischief", "reason"),
    [
        ("total[n - 1] += 1e-6", Reason.WRONG_RESULT),
        ("raise ValueError('too large')", Reason.WRONG_RESULT),
        ("B[0, 0] += 1.0", Reason.MODIFIED_INPUT),
        ("total[n + 1] = 0.0", Reason.OUT_OF_BOUNDS),
        ("B = np.empty(10**13)", Reason.OUT_OF_MEMORY),
    ],
    ids=["wrong", "raises", "modifies", "out of bounds", "memory"],
)
def test_mischief_at_the_timed_size_only(bench: Bench, mischief: str, reason: Reason) -> None:
    text = "import numpy as np\n" + repeated(8, ONLY_WHEN_TIMED + mischief + "\n")
    verdict = Timing(bench).verify(PROBLEM, Candidate(text))
    assert (verdict.status, verdict.reason) == (Status.REJECTED, reason), verdict
    assert "n=200" in verdict.detail


def test_strict_results_must_agree_to_the_bit_at_the_timed_size(bench: Bench) -> None:
    strict = replace(PROBLEM, fastmath=())
    text = repeated(8, ONLY_WHEN_TIMED + "total[0] *= 1.0 + 4e-16\n").replace(", fastmath={'contract'}", "")
    assert Timing(bench).verify(strict, Candidate(text)).reason is Reason.WRONG_RESULT
    assert measured(Timing(bench).verify(strict, Candidate(repeated(8).replace(", fastmath={'contract'}", ""))))


def test_candidate_without_code_is_rejected(bench: Bench) -> None:
    assert Timing(bench).verify(PROBLEM, Candidate("!nothing")).reason is Reason.BUILD_FAILED
    assert Timing(bench).verify(PROBLEM, Candidate("def scale_sum(:")).reason is Reason.BUILD_FAILED


def test_kernel_of_microseconds_is_called_many_times(bench: Bench) -> None:
    tiny = replace(PROBLEM, sizes={"n": 3, "m": 3})
    measurement = measured(Timing(bench).verify(tiny, Candidate(repeated(8))))
    assert measurement.details["seconds"] < 1e-3
    assert 0.3 < measurement.score < 3.0


def test_work_in_place_starts_from_the_same_inputs_each_time(bench: Bench) -> None:
    """The factor would overflow the array within a few hundred calls if it were not restored."""
    in_place = TextProblem(sizes={"n": 40, "m": 40})
    assert measured(Timing(bench).verify(in_place, Candidate(module(ORIGINAL_BODY)))).samples >= 5


def test_parallel_candidate_is_timed_with_its_threads(bench: Bench) -> None:
    problem = TextProblem(sizes={"n": 1000, "m": 1000})
    assert measured(Timing(bench).verify(problem, Candidate(module(PARALLEL_BODY, PARALLEL)))).score > 0.3


def test_finalists_are_measured_together_and_a_bad_one_does_not_spoil_the_rest(bench: Bench) -> None:
    wrong = Candidate(repeated(8, ONLY_WHEN_TIMED + "total[0] = 0.0\n"))
    finalists = [Candidate(repeated(1)), wrong, Candidate("!nothing"), Candidate(repeated(4))]
    best, bad, nothing, second = Timing(bench).compare(PROBLEM, finalists)
    assert isinstance(best, Measurement)
    assert isinstance(second, Measurement)
    assert best.score > second.score > 1.0
    assert best.samples == second.samples >= 5
    assert isinstance(bad, Verdict)
    assert bad.reason is Reason.WRONG_RESULT
    assert isinstance(nothing, Verdict)
    assert nothing.reason is Reason.BUILD_FAILED
    assert Timing(bench).compare(PROBLEM, []) == []


def test_original_that_fails_is_infrastructure(bench: Bench) -> None:
    broken = replace(PROBLEM, source=PROBLEM.source + "    raise ValueError('never')\n")
    with pytest.raises(InfrastructureError, match="never"):
        Timing(bench).verify(broken, Candidate(repeated(8)))


# Converges long before it ends, so that doing it less often gives the same result.
SLOW = TextProblem(
    source="""
def roots(n, x):
    for again in range({again}):
        for i in range(n):
            x[0] = 1.0 + 1.0 / (1.0 + x[0] ** 0.5)
""",
    name="roots",
    arguments=(
        ArgumentSpec("n", ArgumentKind.PARAMETER, "int64"),
        ArgumentSpec("x", ArgumentKind.ARRAY, "float64", ("1",)),
    ),
    written=("x",),
)


def test_slow_original_is_timed_once_and_candidates_meet_the_best(tmp_path: Path) -> None:
    """Candidates do an eighth and then less of the original's work; `slow` is set to what a test can afford."""
    problem = replace(SLOW, source=SLOW.source.format(again=32), sizes={"n": 300_000})

    def candidate(again: int) -> Candidate:
        head = "from numba import njit\n\n@njit(error_model='numpy', fastmath={'contract'})"
        return Candidate(head + SLOW.source.format(again=again))

    limits = TimeLimits(rounds=0.5, slow=0.01, cutoff_floor=0.5)
    with Bench(tmp_path, threads=1, limits=limits, lane=TimingLane(tmp_path / "lane")) as bench:
        timing = Timing(bench)
        assert timing.baseline_seconds(problem) > limits.slow
        record = bench.records[problem.workload("timing").key]
        clean_process = bench.clean_worker.process_id
        assert clean_process is not None
        eighth = measured(timing.verify(problem, candidate(4)))
        original = record.original_samples
        best = measured(timing.verify(problem, candidate(1)))
        assert record.original_samples == original, "the original ran again"
        assert 2.0 < eighth.score < 30.0
        assert best.score > 1.5 * eighth.score
        assert record.best_seconds == best.details["seconds"]
        assert best.details["baseline_seconds"] == median(original)
        # A candidate that is cut off takes the worker with it, but not the original's results.
        assert timing.verify(problem, candidate(50000)).reason is Reason.TOO_SLOW
        assert bench.worker.process_id is None
        assert bench.clean_worker.process_id == clean_process
        assert measured(timing.verify(problem, candidate(1))).score > 4
        wrong = candidate(2).text + "    if n > 100:\n        x[0] += 1e-6\n"
        assert timing.verify(problem, Candidate(wrong)).reason is Reason.WRONG_RESULT


def test_cutoff_adapts_to_the_best() -> None:
    limits = TimeLimits()
    assert limits.cutoff(0.001) == limits.cutoff_floor
    assert limits.cutoff(0.5) == 2.5
    assert limits.cutoff(10.0) == 20.0
