"""The machine's limits and its fingerprint."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from optimizer.measure.bench import Bench, TimeLimits
from optimizer.measure.lane import TimingLane
from optimizer.measure.machine import this_machine
from optimizer.measure.peaks import Peaks, machine_peaks

PEAKS = Peaks(
    2,
    {"float64/1": 10e9, "float64/2": 20e9, "float32/1": 20e9, "float32/2": 40e9},
    {"1": {"1000": 100e9, "1000000": 10e9}, "2": {"2000": 200e9, "2000000": 20e9}},
)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    directory = tmp_path_factory.mktemp("bench")
    limits = TimeLimits(rounds=0.5)
    with Bench(directory, threads=2, limits=limits, lane=TimingLane(directory / "lane")) as bench:
        yield bench


@pytest.fixture(scope="module")
def measured_peaks(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> tuple[Peaks, Path]:
    directory = tmp_path_factory.mktemp("peaks")
    return machine_peaks(bench, directory), directory


def test_limit_is_the_slower_of_arithmetic_and_data() -> None:
    assert PEAKS.limit_seconds(20e9, 0.0, "float64", 2) == pytest.approx(1.0)
    assert PEAKS.limit_seconds(20e9, 0.0, "float64", 1) == pytest.approx(2.0)
    assert PEAKS.limit_seconds(20e9, 0.0, "float32", 2) == pytest.approx(0.5)
    assert PEAKS.limit_seconds(1.0, 40e9, "float64", 2) == pytest.approx(2.0)
    disturbed = replace(PEAKS, flops_per_second={"float64/1": 10e9, "float64/2": 1e9})
    assert disturbed.limit_seconds(20e9, 0.0, "float64", 2) == pytest.approx(1.0)
    assert PEAKS.limit_seconds(1e15, 1e9, "int32", 1) == pytest.approx(0.1)


def test_data_that_may_move_twice_are_given_the_cache_that_half_of_them_fit_in() -> None:
    assert PEAKS.limit_seconds(0.0, 1_999_998.0, "float64", 1) == pytest.approx(1_999_998 / 100e9)
    assert PEAKS.limit_seconds(0.0, 2_000_000.0, "float64", 1) == pytest.approx(2_000_000 / 10e9)


def test_small_footprints_are_given_the_fast_caches() -> None:
    assert PEAKS.bandwidth(10, 1) == 100e9
    assert PEAKS.bandwidth(999_999, 1) == 100e9
    assert PEAKS.bandwidth(1_000_000, 1) == 10e9


def test_a_disturbed_cache_measurement_does_not_raise_the_limit() -> None:
    disturbed = replace(PEAKS, bytes_per_second={"1": {"1000": 5e9, "1000000": 10e9}})
    assert disturbed.bandwidth(2000, 1) == 10e9


def test_limit_for_an_unmeasured_number_of_threads_is_refused() -> None:
    with pytest.raises(ValueError, match="not for 3"):
        PEAKS.limit_seconds(1.0, 1.0, "float64", 3)


@pytest.mark.alone
def test_measured_peaks_make_sense(measured_peaks: tuple[Peaks, Path]) -> None:
    peaks, _ = measured_peaks
    flops = peaks.flops_per_second
    assert set(flops) == {"float64/1", "float64/2", "float32/1", "float32/2"}
    assert flops["float64/1"] > 1e9
    assert 0.5 < flops["float32/1"] / flops["float64/1"] < 5.0
    assert peaks.flop_rate("float64", 2) >= 2 * flops["float64/1"]
    for rates in peaks.bytes_per_second.values():
        assert len(rates) == 4
        assert all(0 < rate < 1e13 for rate in rates.values())
    assert peaks.bandwidth(1e9, 2) > 1e8
    assert peaks.bandwidth(1e3, 2) >= peaks.bandwidth(1e9, 2)


@pytest.mark.alone
def test_peaks_are_measured_once(bench: Bench, measured_peaks: tuple[Peaks, Path]) -> None:
    peaks, directory = measured_peaks
    (file,) = directory.iterdir()
    assert this_machine().digest in file.name
    assert machine_peaks(bench, directory) == peaks
    assert machine_peaks(bench, directory).flops_per_second == json.loads(file.read_text())["flops_per_second"]


def test_machine_is_described_and_recognized() -> None:
    machine = this_machine()
    assert machine == this_machine()
    assert machine.digest == this_machine().digest
    assert replace(machine, memory_bytes=1).digest != machine.digest
    written = json.loads(json.dumps(machine.to_json()))
    assert written["versions"].keys() == {"numba", "llvmlite", "numpy"}
    assert machine.processors >= 1
    assert machine.processor in str(machine)
