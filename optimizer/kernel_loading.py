"""The kernel and the size that somebody names, as a problem; and what this machine could do with it at best."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from optimizer.defaults import size_for

if TYPE_CHECKING:
    from optimizer.kernel_problem import KernelProblem
    from optimizer.polyhedral.nest import Nest


def load_problem(kernel: str, size: str | None, fp: str, threads: int | None, jobs: int = 1) -> KernelProblem:
    """The problem for a bundled kernel's name or `file.py:function`. Raises `UserError`."""
    from optimizer.kernel_problem import KernelProblem

    return KernelProblem.load(kernel, size_for(kernel, size), fp, threads, jobs)


def load_nest(kernel: str, size: str | None, fp: str, threads: int | None) -> tuple[Nest, KernelProblem | None]:
    """The nest alone when it has no size, because a file of the user's can be looked at without one."""
    if size_for(kernel, size) is None and ".py" in kernel:
        from optimizer.polyhedral.frontend import nest_of_file

        return nest_of_file(kernel), None
    problem = load_problem(kernel, size, fp, threads)
    return problem.nest, problem


def limit_seconds(problem: KernelProblem, waiting: Callable[[str], None] = lambda _: None) -> float | None:
    """The least time that this machine needs for the kernel's work; None when the work cannot be counted.

    Measures the machine's peaks if that was never done, which takes a few seconds; `waiting` is told why nothing moves.
    """
    from optimizer.measure.bench import Bench
    from optimizer.measure.peaks import machine_peaks

    flops, moved_bytes = problem.flops_and_bytes()
    if not flops and not moved_bytes:
        return None
    with (
        tempfile.TemporaryDirectory(prefix="loopwright-peaks-") as directory,
        Bench(Path(directory), threads=problem.threads, on_wait=waiting) as bench,
    ):
        peaks = machine_peaks(bench)
    dtypes = {array.dtype for array in problem.nest.arrays}
    dtype = "float32" if "float32" in dtypes and "float64" not in dtypes else "float64"
    return peaks.limit_seconds(flops, moved_bytes, dtype, problem.threads)
