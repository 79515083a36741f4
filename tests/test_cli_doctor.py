"""`loopwright doctor`: what it says of made-up findings, and that it runs."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from optimizer.cli import main
from optimizer.cli.doctor import doctor_text
from optimizer.measure.bench import Bench
from optimizer.measure.machine import this_machine
from optimizer.measure.noise import Fitness, Noise
from optimizer.measure.peaks import Peaks
from optimizer.measure.system_limits import can_measure, missing_here
from optimizer.sandbox import missing_protection

NOISE = Noise(
    fitness=Fitness.UNFIT,
    sentences=("Other programs kept 1.6 processors busy: stop them.",),
    smallest_difference=0.3,
    differences={5: 0.5, 10: 0.3, 30: 0.2},
    sample_seconds=0.005,
    spread=0.4,
    drift=-0.031,
    seconds=3.02,
    timer_seconds=3.7e-8,
    processors=2,
    free_processors=0.4,
    is_pinned=True,
    other_load=1.6,
    load_average=2.0,
)
PEAKS = Peaks(2, {"float64/1": 5.8e10, "float64/2": 1.1e11}, {"1": {"32768": 2e11, "536870912": 1.2e10}})


def test_the_answer_comes_first_and_says_what_to_do() -> None:
    lines = doctor_text(this_machine(), NOISE, PEAKS, (), (), Path("runs")).splitlines()
    assert lines[:2] == [
        "this machine is unfit for measuring",
        "  Other programs kept 1.6 processors busy: stop them.",
    ]
    assert "  peaks     58 GFLOP/s float64/1, 110 GFLOP/s float64/2" in lines
    assert "  memory    12 GB/s with 1 threads" in lines
    assert "  told      differences of 50.0% in 5, 30.0% in 10, 20.0% in 30 rounds of 5 ms" in lines
    assert "  drift     -3.1% in 3.0 s of equal work" in lines
    assert "  load      1.6 processors busy with something else, 2.0 on average; 0.4 of 2 free" in lines
    unpinned = doctor_text(this_machine(), replace(NOISE, is_pinned=False), PEAKS, (), (), Path("runs"))
    assert "not kept to their own" in unpinned


def test_what_the_sandbox_does_not_do_here_is_told() -> None:
    some = ("Candidates can reach the network.", "The number of processes is not limited.")
    lines = doctor_text(this_machine(), NOISE, PEAKS, (), some, Path("runs")).splitlines()
    assert [line for line in lines if line.startswith("  sandbox ")] == [f"  sandbox   {sentence}" for sentence in some]
    lines = doctor_text(this_machine(), NOISE, PEAKS, (), (), Path("runs")).splitlines()
    assert "  sandbox   Everything that it promises holds here." in lines


def test_json(monkeypatch: pytest.MonkeyPatch) -> None:
    def peaks(bench: Bench) -> Peaks:
        assert bench.threads == 1
        return PEAKS

    def noise(bench: Bench) -> Noise:
        return NOISE

    monkeypatch.setattr("optimizer.measure.peaks.machine_peaks", peaks)
    monkeypatch.setattr("optimizer.measure.noise.measure_noise", noise)
    result = CliRunner().invoke(main, ["doctor", "--threads", "1", "--json"])
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert data["noise"]["fitness"] == "unfit"
    assert data["noise"]["differences"] == {"5": 0.5, "10": 0.3, "30": 0.2}
    assert data["unprotected"] == list(missing_protection())
    assert {"machine", "noise", "peaks", "missing", "unprotected", "runs"} == set(data)


def test_where_nothing_can_be_measured_that_is_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("optimizer.measure.system_limits.platform.system", lambda: "Windows")
    monkeypatch.setattr("optimizer.measure.noise.measure_noise", None)
    result = CliRunner().invoke(main, ["doctor"])
    assert result.exit_code == 0, result.output
    answer, reason, *_ = result.stdout.splitlines()
    assert answer == "this machine is unfit for measuring"
    assert "WSL" in reason
    data = json.loads(CliRunner().invoke(main, ["doctor", "--json"]).stdout)
    assert (data["noise"], data["peaks"], len(data["missing"])) == (None, None, 1)


@pytest.mark.parametrize(("system", "count"), [("Linux", 0), ("Darwin", 4), ("Windows", 1), ("Plan9", 1)])
def test_what_a_system_cannot_do(system: str, count: int) -> None:
    assert len(missing_here(system)) == count
    assert can_measure(system) is (system != "Windows")
