"""What times of equal work say about a machine, and a real look at this one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from optimizer.measure.bench import Bench
from optimizer.measure.commands import NoiseReport
from optimizer.measure.lane import TimingLane
from optimizer.measure.noise import ROUNDS, Fitness, Noise, measure_noise, noise_of


def found(
    noise: float = 0.002,
    *,
    drift: float = 0.0,
    other_load: float = 0.0,
    timer: float = 5e-8,
    is_pinned: bool = True,
    threads: int = 2,
) -> Noise:
    """Made-up times of 5 ms, log-normal by `noise`, which grow by `drift` from first to last."""
    rng = np.random.default_rng(7)
    samples = 0.005 * np.exp(rng.normal(0.0, noise, 600)) * np.linspace(1.0, 1.0 + drift, 600)
    return noise_of(NoiseReport(tuple(samples.tolist()), timer, is_pinned, other_load), threads, 2, 0.1)


def test_a_quiet_machine_is_fit_and_has_one_sentence() -> None:
    noise = found()
    assert noise.fitness is Fitness.FIT
    assert len(noise.sentences) == 1
    assert "in 10 rounds of 5.0 ms" in noise.sentences[0]
    assert abs(noise.drift) < 0.002
    assert noise.seconds == pytest.approx(3.0, rel=0.01)
    assert noise.free_processors == 2.0


def test_longer_windows_tell_smaller_differences() -> None:
    differences = found(0.02).differences
    assert tuple(differences) == ROUNDS
    assert differences[5] > differences[10] > differences[30] > 0


def test_the_smallest_difference_is_about_the_noise_of_the_median() -> None:
    """The difference of two medians of ten has a standard deviation of 0.56 times the noise; intervals are wider."""
    for noise in (0.002, 0.01):
        assert 0.5 * noise < found(noise).smallest_difference < 4 * noise


@pytest.mark.parametrize("noise", [0.2, 0.5])
def test_a_noisy_machine_is_unfit_and_says_what_that_means(noise: float) -> None:
    result = found(noise)
    assert result.fitness is Fitness.UNFIT
    assert "Smaller speedups mean nothing on this machine." in result.sentences


@pytest.mark.parametrize(("drift", "word"), [(0.05, "slower"), (-0.05, "faster")])
def test_drift_is_found_beneath_the_noise(drift: float, word: str) -> None:
    noise = found(0.01, drift=drift)
    assert noise.drift == pytest.approx(drift, abs=0.01)
    assert any(f"% {word} within " in sentence for sentence in noise.sentences)
    assert noise.smallest_difference < 0.05, "pairs cancel it"


def test_outliers_are_no_drift() -> None:
    samples = np.full(600, 0.005)
    samples[-60:] *= 3.0
    noise = noise_of(NoiseReport(tuple(samples.tolist()), 5e-8, True, 0.0), 2, 2, 0.0)
    assert abs(noise.drift) < 0.01


def test_load_takes_processors_and_trust() -> None:
    busy = found(other_load=0.5)
    assert (busy.fitness, busy.free_processors) == (Fitness.USABLE, 1.5)
    assert any("0.5 processors busy, so 2 threads do not have a processor each" in text for text in busy.sentences)
    assert not any("threads do not" in text for text in found(other_load=0.5, threads=1).sentences)
    assert found(other_load=1.2).fitness is Fitness.UNFIT


def test_what_the_system_lacks_is_said() -> None:
    assert any("cannot be kept" in text for text in found(is_pinned=False).sentences)
    assert any("steps of 15625 µs" in text for text in found(timer=1 / 64).sentences)


@pytest.mark.alone
def test_this_machine(tmp_path: Path) -> None:
    with Bench(tmp_path, threads=1, lane=TimingLane(tmp_path / "lane")) as bench:
        noise = measure_noise(bench)
    assert noise.fitness in set(Fitness)
    assert 0 < noise.smallest_difference < 10
    assert noise.spread > 0
    assert 0 < noise.timer_seconds < 1e-3
    assert noise.seconds > 0
    assert "can be told from noise" in noise.sentences[0]
