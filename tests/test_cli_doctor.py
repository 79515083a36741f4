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

NOISE = Noise(
    Fitness.UNFIT, ("Other programs kept 1.6 processors busy: stop them.",), 0.3, 0.4, 3.7e-8, 2, True, 1.6, 2.0
)
PEAKS = Peaks(2, {"float64/1": 5.8e10, "float64/2": 1.1e11}, {"1": {"32768": 2e11, "536870912": 1.2e10}})


def test_the_answer_comes_first_and_says_what_to_do() -> None:
    lines = doctor_text(this_machine(), NOISE, PEAKS, Path("runs")).splitlines()
    assert lines[:2] == [
        "this machine is unfit for measuring",
        "  Other programs kept 1.6 processors busy: stop them.",
    ]
    assert "  peaks     58 GFLOP/s float64/1, 110 GFLOP/s float64/2" in lines
    assert "  memory    12 GB/s with 1 threads" in lines
    unpinned = doctor_text(this_machine(), replace(NOISE, is_pinned=False), PEAKS, Path("runs"))
    assert "not kept to their own" in unpinned


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
    assert {"machine", "noise", "peaks", "runs"} == set(data)
