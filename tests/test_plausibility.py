"""What is too good to be true: faster than the machine, or beyond the alarm and not shown a second time."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from optimizer.candidate import Candidate
from optimizer.errors import InfrastructureError
from optimizer.measure.bench import Bench, TimeLimits
from optimizer.measure.commands import PeaksReport
from optimizer.measure.lane import TimingLane
from optimizer.measure.machine import this_machine
from optimizer.measure.peaks import FILE_PREFIX
from optimizer.protocols import Comparer
from optimizer.verdict import Measurement, Reason, Status, Verdict
from tests.measured_problem import TextProblem
from tests.test_timing import PROBLEM, REPEATED, repeated
from verifiers.plausibility import ALARM_SPEEDUP, Plausibility, dtype_of
from verifiers.timing import Timing

pytestmark = pytest.mark.alone


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    directory = tmp_path_factory.mktemp("bench")
    limits = TimeLimits(rounds=0.5)
    with Bench(directory, threads=2, limits=limits, lane=TimingLane(directory / "lane")) as bench:
        yield bench


def peaks_report(flops_per_second: float) -> PeaksReport:
    """What a machine measures that computes so fast on each of two processors, and moves data at no cost."""
    flops = {f"{dtype}/{threads}": flops_per_second for dtype in ("float64", "float32") for threads in (1, 2)}
    return PeaksReport(flops, {str(threads): {"1": 1e30} for threads in (1, 2)})


def peaks_file(directory: Path, flops_per_second: float) -> Path:
    """A cache that says that this machine is such a one."""
    file = directory / f"{FILE_PREFIX}-{this_machine().digest}-2.json"
    file.write_text(json.dumps(asdict(peaks_report(flops_per_second))))
    return directory


def test_ordinary_result_is_plausible(bench: Bench, tmp_path: Path) -> None:
    candidate = Candidate(repeated(4))
    assert Timing(bench).verify(PROBLEM, candidate).status is Status.OK
    plausibility = Plausibility(bench, peaks_file(tmp_path, 1e12))
    assert plausibility.verify(replace(PROBLEM, work=(1e6, 1e6)), candidate).status is Status.OK
    assert plausibility.limit_seconds(replace(PROBLEM, work=(1e6, 0.0))) == pytest.approx(5e-7)


def test_faster_than_the_machine_is_suspicious(bench: Bench, tmp_path: Path) -> None:
    candidate = Candidate(repeated(4))
    assert Timing(bench).verify(PROBLEM, candidate).status is Status.OK
    problem = replace(PROBLEM, work=(1e13, 0.0))
    verdict = Plausibility(bench, peaks_file(tmp_path, 1e9)).verify(problem, candidate)
    assert (verdict.status, verdict.reason) == (Status.REJECTED, Reason.SUSPICIOUS)
    assert "faster than the machine" in verdict.detail
    assert verdict.witness is not None
    assert verdict.witness["limit_seconds"] < 1e13 / 2e9, "the machine was not measured again before it was believed"


def test_fifty_times_raises_the_alarm_and_does_not_stand_the_second_look(bench: Bench, tmp_path: Path) -> None:
    candidate = Candidate(repeated(4))
    bench.measurements[candidate.digest] = Measurement(60.0, (55.0, 65.0), 9, details={"seconds": 1e-4})
    verdict = Plausibility(bench, peaks_file(tmp_path, 1e12)).verify(PROBLEM, candidate)
    assert (verdict.status, verdict.reason) == (Status.REJECTED, Reason.SUSPICIOUS)
    assert "60x, but only" in verdict.detail
    assert verdict.witness is not None
    assert verdict.witness["sizes_again"] == {"n": 225, "m": 450}


def test_fast_only_at_the_size_it_was_selected_on_is_suspicious(bench: Bench, tmp_path: Path) -> None:
    candidate = Candidate(repeated(8, "    if n > 220:\n        total[0] = 0.0\n"))
    bench.measurements[candidate.digest] = Measurement(60.0, (55.0, 65.0), 9, details={"seconds": 1e-4})
    verdict = Plausibility(bench, peaks_file(tmp_path, 1e12)).verify(PROBLEM, candidate)
    assert (verdict.status, verdict.reason) == (Status.REJECTED, Reason.SUSPICIOUS)
    assert "on larger inputs" in verdict.detail


def test_real_speedup_beyond_fifty_passes_with_a_note(bench: Bench, tmp_path: Path) -> None:
    wasteful = replace(PROBLEM, source=REPEATED.format(again=200), sizes={"n": 60, "m": 300})
    candidate = Candidate(repeated(1))
    measurement = Timing(bench).verify(wasteful, candidate).measurement
    assert measurement is not None
    assert measurement.score > 50
    verdict = Plausibility(bench, peaks_file(tmp_path, 1e12)).verify(wasteful, candidate)
    assert verdict.status is Status.OK, verdict
    assert "fresh, larger inputs gave" in verdict.detail


def test_plausibility_before_timing_is_a_broken_set_up(bench: Bench) -> None:
    with pytest.raises(InfrastructureError, match="timing has to run before"):
        Plausibility(bench).verify(PROBLEM, Candidate("never timed"))


def test_type_whose_peak_counts() -> None:
    workload = TextProblem().workload("timing")
    assert dtype_of(workload) == "float64"
    narrow = tuple(replace(spec, dtype=spec.dtype.replace("float64", "float32")) for spec in workload.arguments)
    assert dtype_of(replace(workload, arguments=narrow)) == "float32"


WASTEFUL = replace(PROBLEM, source=REPEATED.format(again=200), sizes={"n": 60, "m": 300})
HONEST = Candidate(repeated(1))
CHEAT = Candidate(repeated(1, "    if n > 60:\n        total[0] = 0.0\n"))
"""Right at the size that it is selected on, and wrong at any larger one."""


def claimed(score: float) -> Measurement:
    return Measurement(score, (0.95 * score, 1.05 * score), 9, details={"seconds": 1e-3})


def test_the_second_look_is_taken_in_a_process_of_its_own(bench: Bench, tmp_path: Path) -> None:
    Timing(bench).verify(WASTEFUL, HONEST)
    before = bench.worker.process_id
    look_at = bench.directory / "second_look"
    verdict = Plausibility(bench, peaks_file(tmp_path, 1e12)).verify(WASTEFUL, HONEST)
    assert verdict.status is Status.OK, verdict
    witness = verdict.witness or {}
    assert witness["speedup"] > ALARM_SPEEDUP
    assert witness["speedup_again"] > witness["speedup"] / 2
    assert witness["sizes_again"] == {"n": 67, "m": 337}
    assert witness["baseline_seconds_again"] > witness["seconds_again"] > 0
    assert list(look_at.glob("*worker.log")), "it had no worker of its own"
    assert before is not None
    assert bench.worker.process_id is None, "two workers were alive at once"


def test_only_who_beats_all_confirmed_ones_is_looked_at_at_once(bench: Bench, tmp_path: Path) -> None:
    plausibility = Plausibility(bench, peaks_file(tmp_path, 1e12))
    Timing(bench).verify(WASTEFUL, HONEST)
    confirmed = plausibility.verify(WASTEFUL, HONEST)
    best = (confirmed.witness or {})["speedup"]
    bench.measurements[CHEAT.digest] = claimed(0.9 * best)
    put_off = plausibility.verify(WASTEFUL, CHEAT)
    assert put_off.status is Status.OK
    assert put_off.measurement is not None, "it would count with all that it claims"
    assert (put_off.measurement.score, put_off.measurement.interval) == (ALARM_SPEEDUP, (ALARM_SPEEDUP, ALARM_SPEEDUP))
    assert "put off" in put_off.detail
    assert put_off.witness == {"speedup": 0.9 * best, "best_confirmed_speedup": best}
    bench.measurements[CHEAT.digest] = claimed(1.1 * best)
    assert plausibility.verify(WASTEFUL, CHEAT).reason is Reason.SUSPICIOUS


def test_a_finalist_gets_the_look_it_lacks(bench: Bench, tmp_path: Path) -> None:
    plausibility = Plausibility(bench, peaks_file(tmp_path, 1e12))
    assert isinstance(plausibility, Comparer)
    answers = plausibility.compare(WASTEFUL, [CHEAT, HONEST, Candidate(repeated(100))])
    cheat, honest, slow = answers
    assert isinstance(cheat, Verdict)
    assert cheat.reason is Reason.SUSPICIOUS
    assert isinstance(honest, Measurement)
    assert honest.score > ALARM_SPEEDUP
    assert honest.details["second_look"]["speedup_again"] > ALARM_SPEEDUP / 2
    assert isinstance(slow, Measurement)
    assert "second_look" not in slow.details


def test_a_finalist_faster_than_the_machine_is_suspicious(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured_again: list[bool] = []
    monkeypatch.setattr(bench, "peaks", lambda: measured_again.append(True) or peaks_report(1e9))
    plausibility = Plausibility(bench, peaks_file(tmp_path, 1e9))
    (answer,) = plausibility.compare(replace(PROBLEM, work=(1e13, 0.0)), [Candidate(repeated(4))])
    assert isinstance(answer, Verdict)
    assert "faster than the machine" in answer.detail
    assert measured_again


def test_nobody_is_measured_by_a_time_that_was_not_believed(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "peaks", lambda: peaks_report(1e9))
    problem = replace(PROBLEM, sizes={"n": 150, "m": 350})
    honest, unbelievable = Candidate(repeated(4)), Candidate(repeated(1))
    assert Timing(bench).verify(problem, unbelievable).status is Status.OK
    record = bench.records[problem.workload("timing").key]
    assert record.best_code is not None
    assert Timing(bench).verify(problem, honest).status is Status.OK
    Timing(bench).disown(problem, honest)
    assert record.best_code is not None, "another one is the best"
    bench.measurements[unbelievable.digest] = claimed(3.0)
    impossible = replace(problem, work=(1e13, 0.0))
    verdict = Plausibility(bench, peaks_file(tmp_path, 1e9)).verify(impossible, unbelievable)
    assert verdict.reason is Reason.SUSPICIOUS
    assert (record.best_code, record.best_ratio) == (None, None)


def look(baseline: float, seconds: float) -> Measurement:
    score = baseline / seconds
    return Measurement(score, (score, score), 9, details={"seconds": seconds, "baseline_seconds": baseline})


def unusable(reason: Reason) -> Verdict:
    return Verdict(Status.REJECTED, "timing", reason, detail="it is not")


@pytest.mark.parametrize(
    ("looks", "taken", "shown"),
    [
        ([look(1.0, 0.01)], 1, 100.0),
        # A slow moment of the machine, by the times or by the time allowed.
        ([look(1.0, 0.2), look(1.1, 0.01)], 2, 100.0),
        ([unusable(Reason.TOO_SLOW), look(1.0, 0.4), look(1.0, 0.01)], 3, 100.0),
        # What disturbs the original is no merit of the candidate.
        ([look(1.0, 0.2), look(30.0, 0.2), look(30.0, 0.25)], 3, None),
        ([look(1.0, 0.05), look(1.0, 0.04), look(1.0, 0.05)], 3, None),
        ([look(1.0, 0.05), unusable(Reason.WRONG_RESULT)], 2, None),
        ([unusable(Reason.SUSPICIOUS)], 1, None),
    ],
)
def test_a_slow_moment_is_no_evidence(
    looks: list[Measurement | Verdict],
    taken: int,
    shown: float | None,
    bench: Bench,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seeds: list[int] = []

    def compare_at(self: Timing, *_: object) -> list[Measurement | Verdict]:
        seeds.append(self.bench.seed)
        return [looks[len(seeds) - 1]]

    monkeypatch.setattr(Timing, "compare_at", compare_at)
    bench.measurements[HONEST.digest] = claimed(154.0)
    verdict = Plausibility(bench, peaks_file(tmp_path, 1e12)).verify(WASTEFUL, HONEST)
    assert len(set(seeds)) == len(seeds) == taken
    if shown is None:
        assert verdict.reason is Reason.SUSPICIOUS
    else:
        assert verdict.status is Status.OK
        assert (verdict.witness or {})["speedup_again"] == pytest.approx(shown)
