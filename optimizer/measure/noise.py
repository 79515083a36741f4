"""Is this machine fit to measure on?"""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from optimizer.measure.bench import Bench
from optimizer.measure.machine import available_processors
from optimizer.measure.statistics import paired_ratio

PAIRS = 10
"""What the smallest difference is for: about as many rounds as a candidate gets."""
FIT_DIFFERENCE = 0.02
USABLE_DIFFERENCE = 0.10
BUSY_PROCESSORS = 0.2


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
    """The relative difference of two candidates that can be told from noise."""
    spread: float
    """Between the 5th and the 95th percentile of single times, relative to the median."""
    timer_seconds: float
    """The smallest step of the clock."""
    processors: int
    is_pinned: bool
    other_load: float
    """Processors busy with something else meanwhile."""
    load_average: float
    """Over the last minute."""


def measure_noise(bench: Bench) -> Noise:
    """Time a hundred equal pieces of work of about 5 ms."""
    report = bench.noise()
    samples = np.array(report.seconds)
    low, middle, high = np.percentile(samples, [5, 50, 95])
    windows = [samples[start : start + 2 * PAIRS] for start in range(0, len(samples) - 2 * PAIRS + 1, 2 * PAIRS)]
    ratios = [paired_ratio(window[::2].tolist(), window[1::2].tolist(), bench.seed) for window in windows]
    difference = max(max(abs(bound - 1) for bound in ratio.interval) for ratio in ratios)
    return Noise(
        fitness=_fitness(difference),
        sentences=_sentences(difference, report.other_load, report.is_pinned),
        smallest_difference=float(difference),
        spread=float((high - low) / middle),
        timer_seconds=report.timer_seconds,
        processors=available_processors(),
        is_pinned=report.is_pinned,
        other_load=report.other_load,
        load_average=os.getloadavg()[0],
    )


def _fitness(difference: float) -> Fitness:
    if difference <= FIT_DIFFERENCE:
        return Fitness.FIT
    return Fitness.USABLE if difference <= USABLE_DIFFERENCE else Fitness.UNFIT


def _sentences(difference: float, other_load: float, is_pinned: bool) -> tuple[str, ...]:
    sentences = [f"Differences above {difference:.1%} can be told from noise."]
    if other_load > BUSY_PROCESSORS:
        sentences.append(f"Other programs kept {other_load:.1f} processors busy: stop them before measuring.")
    if not is_pinned:
        sentences.append("Threads cannot be kept to their processors here, so times vary more.")
    if _fitness(difference) is Fitness.UNFIT:
        sentences.append("Speedups below that difference mean nothing on this machine.")
    return tuple(sentences)
