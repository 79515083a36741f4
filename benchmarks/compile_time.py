"""What compiling a candidate takes in a process as a search has it: the first templates of every kernel.

    python -m benchmarks.compile_time --first 3

Each kernel has a process of its own, as in a run; the first candidate pays for what Numba does once in a process.
"""

from __future__ import annotations

import gc
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import numpy as np

from kernels import catalog
from optimizer.errors import CandidateError
from optimizer.kernel_problem import KernelProblem
from optimizer.measure.inputs import ValueKind, make_values


@click.command()
@click.option("--kernels", "chosen", default="", help="Names with commas between; all of PolyBench by default.")
@click.option("--first", default=3, show_default=True, help="So many templates of each kernel.")
@click.option("--size", default="large", show_default=True, help="Which the templates are made for.")
@click.option("--threads", default=2, show_default=True)
def main(chosen: str, first: int, size: str, threads: int) -> None:
    """Print seconds and sizes for each kernel, then the median and the 95th percentile of all candidates."""
    names = (
        chosen.split(",") if chosen else [name for name in catalog.names() if catalog.entry(name).suite == "polybench"]
    )
    seconds: list[float] = []
    for name in names:
        texts, function = first_modules(name, size, threads, first)
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            own = process.submit(compile_all, name, texts, function, threads).result()
        seconds += own
        of_each = "  ".join(f"{each:5.2f} s {len(text):6d}" for each, text in zip(own, texts, strict=True))
        print(f"{name:16}{of_each}", flush=True)
    if not seconds:
        sys.exit("no candidate was compiled")
    median, high = np.quantile(seconds, (0.5, 0.95))
    print(f"{len(seconds)} candidates: median {median:.2f} s, 95th percentile {high:.2f} s, most {max(seconds):.2f} s")


def first_modules(name: str, size: str, threads: int, count: int) -> tuple[list[str], str]:
    """The texts of the first templates that code can be made of, and the name of their function."""
    problem = KernelProblem.load(name, size, threads=threads)
    texts: list[str] = []
    for schedule in problem.templates():
        if len(texts) == count:
            break
        try:
            texts.append(problem.code(problem.parse(str(schedule))))
        except CandidateError:
            continue
    return texts, problem.workload("timing").function


def compile_all(name: str, texts: list[str], function: str, threads: int) -> list[float]:
    """Seconds of each, one after the other in this process, without the collection of garbage, as in a worker."""
    import numba

    from optimizer.measure.loading import compiled_candidate

    numba.set_num_threads(threads)
    workload = KernelProblem.load(name, "mini", threads=threads).workload("timing")
    arguments: tuple[Any, ...] = tuple(make_values(workload, 0, ValueKind.USUAL).values())
    seconds: list[float] = []
    with TemporaryDirectory() as folder:
        for number, text in enumerate(texts):
            file = Path(folder, f"candidate_{number}.py")
            file.write_text(text, encoding="utf-8")
            gc.collect()
            gc.disable()
            start = time.perf_counter()
            compiled_candidate(file, function, arguments)
            seconds.append(time.perf_counter() - start)
    return seconds


if __name__ == "__main__":
    main()
