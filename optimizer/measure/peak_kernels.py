"""Measures what the processor can do at most (in the worker): multiply-adds in registers, and loops over arrays."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import binding, ir
from numba import prange, types
from numba.core import cgutils
from numba.extending import intrinsic

from optimizer.measure.commands import PeaksCommand, PeaksReport

CHAINS = 12
"""Independent accumulators: enough to fill two units of four cycles' latency, few enough for 16 registers."""
LOOP_BYTES = (24 * 2**10, 768 * 2**10, 24 * 2**20, 192 * 2**20)
"""Of the arrays together, for each thread: they lie in caches of growing size, and in memory."""
MEASURE_SECONDS = 0.03
TRIES = 8


def measure_peaks(command: PeaksCommand) -> PeaksReport:
    """The best of a few tries each, because everything that disturbs makes it slower."""
    counts = sorted({1, command.threads})
    flops = {
        f"{dtype}/{threads}": _flops_per_second(burst, lanes, threads)
        for dtype, burst, lanes in _bursts()
        for threads in counts
    }
    rates = {str(threads): _byte_rates(threads) for threads in counts}
    return PeaksReport(flops, rates)


def _vector_bytes() -> int:
    features = binding.get_host_cpu_features()
    if features.get("avx512f"):
        return 64
    return 32 if features.get("avx") else 16


def _bursts() -> list[tuple[str, Any, int]]:
    lanes = _vector_bytes() // 8
    return [
        ("float64", _make_burst(types.float64, ir.DoubleType(), lanes), lanes),
        ("float32", _make_burst(types.float32, ir.FloatType(), 2 * lanes), 2 * lanes),
    ]


def _make_burst(scalar: Any, machine_type: Any, lanes: int) -> Any:
    """A compiled function that runs `count` rounds of `CHAINS` vector multiply-adds on each of `threads` threads."""
    vector = ir.VectorType(machine_type, lanes)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        count, start = arguments

        def splat(value: Any) -> Any:
            result = ir.Constant(vector, ir.Undefined)
            for lane in range(lanes):
                result = builder.insert_element(result, value, ir.Constant(ir.IntType(32), lane))
            return result

        factor, term = splat(ir.Constant(machine_type, 0.5)), splat(start)
        chains = [cgutils.alloca_once(builder, vector) for _ in range(CHAINS)]
        for number, chain in enumerate(chains):
            builder.store(splat(builder.fadd(start, ir.Constant(machine_type, float(number)))), chain)
        with cgutils.for_range(builder, count):
            for chain in chains:
                product = builder.fmul(builder.load(chain), factor, flags=("contract",))
                builder.store(builder.fadd(product, term, flags=("contract",)), chain)
        total = builder.load(chains[0])
        for chain in chains[1:]:
            total = builder.fadd(total, builder.load(chain))
        result = ir.Constant(machine_type, 0.0)
        for lane in range(lanes):
            result = builder.fadd(result, builder.extract_element(total, ir.Constant(ir.IntType(32), lane)))
        return result

    def typed(_typing_context: Any, _count: Any, _start: Any) -> Any:
        return scalar(types.int64, scalar), emit

    multiply_adds: Any = intrinsic(typed)

    @numba.njit(parallel=True)
    def burst(count: int, starts: Any) -> None:
        for thread in prange(len(starts)):
            starts[thread] = multiply_adds(count, starts[thread])

    return burst


def _flops_per_second(burst: Any, lanes: int, threads: int) -> float:
    numba.set_num_threads(threads)
    starts = np.ones(threads, np.float64 if lanes == _vector_bytes() // 8 else np.float32)
    rounds = 1000
    rate = _best_rate(lambda count: burst(count, starts), rounds)
    return rate * CHAINS * lanes * 2 * threads


@numba.njit(parallel=True)
def _triad(repeats: int, a: Any, b: Any, c: Any) -> None:
    """Rows belong to threads: each runs over its own part `repeats` times."""
    for thread in prange(a.shape[0]):
        mine, left, right = a[thread], b[thread], c[thread]
        for repeat in range(repeats):
            for i in range(mine.size):
                mine[i] = left[i] + 0.5 * right[i]
            # Without a change in between the compiler may drop all repeats but one.
            right[repeat % right.size] += 1.0


@numba.njit(parallel=True)
def _scale(repeats: int, a: Any) -> None:
    """In place: what is written needs no fetching of its own, so more bytes a second count than in a triad."""
    for thread in prange(a.shape[0]):
        mine = a[thread]
        for _ in range(repeats):
            for i in range(mine.size):
                mine[i] = 0.5 * mine[i] + 1.0


@numba.njit(parallel=True, fastmath=True)
def _sum(repeats: int, a: Any) -> None:
    """Reads only."""
    for thread in prange(a.shape[0]):
        mine = a[thread]
        for repeat in range(repeats):
            total = 0.0
            for i in range(mine.size):
                total += mine[i]
            mine[repeat % mine.size] = 1e-9 * total


def _byte_rates(threads: int) -> dict[str, float]:
    """The best of three mixes of reads and writes, by the bytes that the arrays take."""
    numba.set_num_threads(threads)
    rates: dict[str, float] = {}
    for size in LOOP_BYTES:
        three = [np.ones((threads, size // 24)) for _ in range(3)]
        one = np.ones((threads, size // 8))
        mixes: list[tuple[Callable[[int], None], int]] = [
            (lambda count, three=three: _triad(count, *three), 1),
            (lambda count, one=one: _scale(count, one), 2),
            (lambda count, one=one: _sum(count, one), 1),
        ]
        rates[str(size * threads)] = max(_best_rate(run, 1) * moves for run, moves in mixes) * size * threads
    return rates


def _best_rate(run: Callable[[int], None], count: int) -> float:
    """Rounds per second at best; each try runs as many as the best one so far does in `MEASURE_SECONDS`."""
    run(1)
    rate = 0.0
    for _ in range(TRIES):
        rate = max(rate, count / _seconds(run, count))
        count = max(count, int(rate * MEASURE_SECONDS))
    return rate


def _seconds(run: Callable[[int], None], count: int) -> float:
    start = time.perf_counter()
    run(count)
    return time.perf_counter() - start
