"""Is this machine fit to measure on?"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from optimizer.measure.bench import Bench
from optimizer.measure.commands import NoiseReport
from optimizer.measure.machine import available_processors
from optimizer.measure.statistics import paired_ratio

CALLS = 600
"""Equal pieces of work of about 5 ms: some seconds, in which a processor that heats up shows it."""
ROUNDS = (5, 10, 30)
"""Rounds of two contestants: the fewest, the usual and the most that a candidate gets."""
USUAL_ROUNDS = 10
CERTAIN = 95
"""The percentile of windows: of twenty windows of equal work, one may show more than the smallest difference."""
BLOCK = 20
"""Times whose median stands for them when the drift is looked for."""
FIT_DIFFERENCE = 0.02
USABLE_DIFFERENCE = 0.10
BUSY_PROCESSORS = 0.2
DRIFT = 0.02
"""A change of speed in the course of the measurement that is worth a word."""
COARSE_TIMER = 1e-6


class Fitness(StrEnum):
    FIT = "fit"
    USABLE = "usable"
    UNFIT = "unfit"


@dataclass(frozen=True, slots=True)
class Noise:
    """How equal the times of equal work are here, and what follows from it."""

    fitness: Fitness
    sentences: tuple[str, ...]
    """What was found, and what to do about it."""
    smallest_difference: float
    """The relative difference of two candidates that can be told from noise in a window of the usual rounds."""
    differences: Mapping[int, float]
    """The same by the rounds of the window."""
    sample_seconds: float
    """What each contestant ran in each of these rounds."""
    spread: float
    """Between the 5th and the 95th percentile of single times, relative to the median."""
    drift: float
    """Relative change of the time of equal work from the first to the last: positive where it became slower."""
    seconds: float
    """How long that took."""
    timer_seconds: float
    """The smallest step of the clock."""
    processors: int
    """Those that this process may run on, ..."""
    free_processors: float
    """... less those busy with something else."""
    is_pinned: bool
    other_load: float
    """Processors busy with something else meanwhile."""
    load_average: float
    """Over the last minute."""


def measure_noise(bench: Bench) -> Noise:
    """Time equal pieces of work for some seconds."""
    return noise_of(bench.noise(CALLS), bench.threads, available_processors(), os.getloadavg()[0], bench.seed)


def noise_of(report: NoiseReport, threads: int, processors: int, load_average: float, seed: int = 0) -> Noise:
    """What times of equal work say; needs as many of them as the longest window has."""
    samples = np.array(report.seconds)
    low, middle, high = np.percentile(samples, [5, 50, 95])
    differences = {rounds: _smallest_difference(samples, rounds, seed) for rounds in ROUNDS}
    drift, free = _drift(samples), max(0.0, processors - report.other_load)
    return Noise(
        fitness=_fitness(differences[USUAL_ROUNDS], report.other_load, processors, drift),
        sentences=(
            *_difference_sentences(differences, float(middle)),
            *_drift_sentences(drift, float(samples.sum())),
            *_load_sentences(report.other_load, free, threads),
            *_system_sentences(report),
        ),
        smallest_difference=differences[USUAL_ROUNDS],
        differences=differences,
        sample_seconds=float(middle),
        spread=float((high - low) / middle),
        drift=drift,
        seconds=float(samples.sum()),
        timer_seconds=report.timer_seconds,
        processors=processors,
        free_processors=free,
        is_pinned=report.is_pinned,
        other_load=report.other_load,
        load_average=load_average,
    )


def _smallest_difference(samples: NDArray[np.float64], rounds: int, seed: int) -> float:
    """What nearly all windows of so many rounds show at most, although both of their contestants are the same."""
    width = 2 * rounds
    windows = [samples[start : start + width] for start in range(0, len(samples) - width + 1, width)]
    ratios = [paired_ratio(window[::2].tolist(), window[1::2].tolist(), seed) for window in windows]
    return float(np.percentile([max(abs(bound - 1) for bound in ratio.interval) for ratio in ratios], CERTAIN))


def _drift(samples: NDArray[np.float64]) -> float:
    """The median of all slopes between medians of blocks, over the whole time: single outliers do not move it.

    After P. K. Sen, "Estimates of the regression coefficient based on Kendall's tau", 1968.
    """
    blocks = samples[: len(samples) // BLOCK * BLOCK].reshape(-1, BLOCK)
    heights, ends = np.log(np.median(blocks, axis=1)), np.cumsum(blocks.sum(axis=1))
    first, second = np.triu_indices(len(heights), k=1)
    slope = np.median((heights[second] - heights[first]) / (ends[second] - ends[first]))
    return float(np.expm1(slope * samples.sum()))


def _fitness(difference: float, other_load: float, processors: int, drift: float) -> Fitness:
    if difference > USABLE_DIFFERENCE or other_load > processors / 2:
        return Fitness.UNFIT
    if difference > FIT_DIFFERENCE or other_load > BUSY_PROCESSORS or abs(drift) > USABLE_DIFFERENCE:
        return Fitness.USABLE
    return Fitness.FIT


def _difference_sentences(differences: Mapping[int, float], sample_seconds: float) -> Sequence[str]:
    usual, most = differences[USUAL_ROUNDS], max(differences)
    window = f"{USUAL_ROUNDS} rounds of {sample_seconds * 1e3:.1f} ms"
    sentence = (
        f"Differences above {usual:.1%} can be told from noise in {window}, above {differences[most]:.1%} in {most}."
    )
    if usual <= USABLE_DIFFERENCE:
        return (sentence,)
    return (sentence, "Smaller speedups mean nothing on this machine.")


def _drift_sentences(drift: float, seconds: float) -> Sequence[str]:
    if abs(drift) <= DRIFT:
        return ()
    return (
        f"The same work became {abs(drift):.1%} {'slower' if drift > 0 else 'faster'} within {seconds:.1f} s: the "
        "processor changes its frequency. Speedups stand, because both sides of a ratio are measured in turns; seconds "
        "of different windows do not compare.",
    )


def _load_sentences(other_load: float, free: float, threads: int) -> Sequence[str]:
    if other_load <= BUSY_PROCESSORS:
        return ()
    short = f", so {threads} threads do not have a processor each" if free < threads else ""
    return (f"Other programs kept {other_load:.1f} processors busy{short}: stop them before measuring.",)


def _system_sentences(report: NoiseReport) -> Sequence[str]:
    sentences: list[str] = []
    if not report.is_pinned:
        sentences.append("Threads cannot be kept to their processors here, so times vary more.")
    if report.timer_seconds > COARSE_TIMER:
        sentences.append(
            f"The clock advances in steps of {report.timer_seconds * 1e6:.0f} µs: kernels that take less than a "
            "hundred of them are known to some percent only."
        )
    return sentences
