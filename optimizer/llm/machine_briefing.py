"""What a model is told about the machine: caches, vectors, peaks, and the least time that the work needs on it."""

from __future__ import annotations

import math

import numpy as np

from optimizer.kernel_problem import KernelProblem
from optimizer.llm.briefing import Facts
from optimizer.measure.machine import Machine
from optimizer.polyhedral.nest import Nest
from optimizer.wording import seconds_text

VECTOR_BYTES = {"avx512f": 64, "avx2": 32, "avx": 32, "sse4_2": 16, "neon": 16, "asimd": 16}
"""Of the widest vector of an instruction set, the widest set first. Those of SVE differ between machines."""


def hardware_lines(problem: KernelProblem, facts: Facts) -> list[str]:
    """Caches, vectors, peaks of arithmetic and memory: a line for each that is known."""
    dtype, threads = dtype_of(problem.nest), problem.threads
    lines: list[str] = []
    if facts.hardware is not None:
        lines += [*_cache_lines(facts.hardware), *_vector_lines(facts.hardware, dtype)]
    if facts.peaks is not None:
        if facts.peaks.flop_rate(dtype, 1):
            one, all_of_them = (facts.peaks.flop_rate(dtype, count) / 1e9 for count in (1, threads))
            lines.append(
                f"peak for {dtype}: {one:.3g} GFLOP/s on one thread, {all_of_them:.3g} on {threads} "
                "(a fused multiply-add counts as two)"
            )
        one, all_of_them = (facts.peaks.bandwidth(math.inf, count) / 1e9 for count in (1, threads))
        lines.append(f"memory: {one:.3g} GB/s for one thread, {all_of_them:.3g} for {threads} (much data)")
    return lines


def limit_text(problem: KernelProblem, facts: Facts) -> str:
    """The work, and the time that it needs at least as far as that is known."""
    flops, moved = problem.flops_and_bytes()
    if not flops and not moved:
        return "the work cannot be counted"
    lines = [f"the work is {flops:.4g} arithmetic operations on {moved:.4g} bytes that must move at least once"]
    if facts.limit_seconds is not None:
        lines.append(
            f"the limit: this machine needs {seconds_text(facts.limit_seconds)} for it at least, on all threads. Often "
            "nothing comes near it: what divisions cost, and operations that wait for each other, is not in it"
        )
    if facts.peaks is not None:
        rate = facts.peaks.flop_rate(dtype_of(problem.nest), problem.threads)
        memory = moved / facts.peaks.bandwidth(moved, problem.threads)
        arithmetic = flops / rate if rate else 0.0
        lines.append(
            f"arithmetic alone {seconds_text(arithmetic)}, memory alone {seconds_text(memory)}: "
            f"{'arithmetic' if arithmetic > memory else 'memory'} is what limits it in the end"
        )
    return "\n".join(lines)


def dtype_of(nest: Nest) -> str:
    """The type whose arithmetic limits a nest: float32 only where no array is wider."""
    dtypes = {array.dtype for array in nest.arrays}
    return "float32" if "float32" in dtypes and "float64" not in dtypes else "float64"


def _cache_lines(machine: Machine) -> list[str]:
    """As the system tells them; what is for instructions alone says nothing about data."""
    caches = [cache.split() for cache in machine.caches]
    shown = [f"{level} {size}" for level, kind, size in caches if kind != "Instruction"]
    return [f"caches: {', '.join(shown)} (as a rule, each core has its own L1 and L2, and all share the L3)"] * bool(
        shown
    )


def _vector_lines(machine: Machine, dtype: str) -> list[str]:
    width = next((size for name, size in VECTOR_BYTES.items() if name in machine.instruction_sets), None)
    return [f"vectors: up to {width // np.dtype(dtype).itemsize} {dtype} ({8 * width} bits)"] if width else []
