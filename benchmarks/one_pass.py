"""How near one pass over memory comes to the machine's bandwidth, and how near three spellings come to each other.

    python -m benchmarks.one_pass

First: expressions of several statements over whole arrays against a loop that reads and writes as many streams and does
nothing else (after J. McCalpin's STREAM, 1995), side by side in one process on the same arrays. Then: one computation
in several spellings, each the fastest of its first templates, the slowest spelling over the fastest one.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import numba
import numpy as np

from optimizer.errors import CandidateError
from optimizer.kernel_problem import KernelProblem
from optimizer.measure.inputs import ValueKind, make_values
from optimizer.measure.loading import compiled_candidate
from optimizer.polyhedral.private_arrays import model_for
from optimizer.polyhedral.traffic import moved_bytes

HEAD = "import numpy as np\nfrom jaxtyping import Float64\n\n\n"
TYPE = 'Float64[np.ndarray, "n m"]'
EXPRESSIONS = {
    "chain": f"def f(X: {TYPE}, Y: {TYPE}, Z: {TYPE}) -> None:\n"
    "    d = X - Y\n    e = d * d\n    Z[:] = e / (1.0 + e)\n",
    "distances": f'def f(X: {TYPE}, c: Float64[np.ndarray, "m"], out: Float64[np.ndarray, "n"]) -> None:\n'
    "    d = X - c\n    e = d * d\n    out[:] = np.sqrt(np.sum(e, axis=1))\n",
}
STREAMS = {"chain": (2, 1), "distances": (1, 0)}
"""Matrices that are read and written."""
STENCIL = f"def f(steps: int, A: {TYPE}, B: {TYPE}) -> None:\n    for _ in range(steps):\n"
ROWS = f'def f(X: {TYPE}, g: Float64[np.ndarray, "m"], b: Float64[np.ndarray, "m"], out: {TYPE}) -> None:\n'


def _sweep(target: str, source: str) -> str:
    inside = "1:-1, 1:-1", "1:-1, :-2", "1:-1, 2:", "2:, 1:-1", ":-2, 1:-1"
    return f"        {target}[1:-1, 1:-1] = 0.2 * ({' + '.join(f'{source}[{place}]' for place in inside)})\n"


def _sweep_in_loops(target: str, source: str) -> str:
    places = "i, j", "i, j - 1", "i, j + 1", "i + 1, j", "i - 1, j"
    total = " + ".join(f"{source}[{place}]" for place in places)
    loops = "        for i in range(1, A.shape[0] - 1):\n            for j in range(1, A.shape[1] - 1):\n"
    return f"{loops}                {target}[i, j] = 0.2 * ({total})\n"


def _sweep_by_rows(target: str, source: str) -> str:
    places = "i, 1:-1", "i, :-2", "i, 2:", "i + 1, 1:-1", "i - 1, 1:-1"
    total = " + ".join(f"{source}[{place}]" for place in places)
    return f"        for i in range(1, A.shape[0] - 1):\n            {target}[i, 1:-1] = 0.2 * ({total})\n"


SPELLINGS: Mapping[str, Mapping[str, str]] = {
    "jacobi-2d": {
        "loops": STENCIL + _sweep_in_loops("B", "A") + _sweep_in_loops("A", "B"),
        "slices": STENCIL + _sweep("B", "A") + _sweep("A", "B"),
        "rows by slices": STENCIL + _sweep_by_rows("B", "A") + _sweep_by_rows("A", "B"),
    },
    "layer norm": {
        "loops": ROWS + "    for i in range(X.shape[0]):\n"
        "        mean = 0.0\n        for j in range(X.shape[1]):\n            mean += X[i, j]\n"
        "        mean = mean / X.shape[1]\n"
        "        v = 0.0\n        for j in range(X.shape[1]):\n            v += (X[i, j] - mean) ** 2\n"
        "        s = np.sqrt(v / X.shape[1] + 1e-5)\n"
        "        for j in range(X.shape[1]):\n            out[i, j] = (X[i, j] - mean) / s * g[j] + b[j]\n",
        "rows": ROWS + "    for i in range(X.shape[0]):\n"
        "        d = X[i] - np.mean(X[i])\n        s = np.sqrt(np.mean(d * d) + 1e-5)\n"
        "        out[i] = d / s * g + b\n",
        "axis": ROWS + "    mean = X.mean(axis=1, keepdims=True)\n"
        "    v = np.mean((X - mean) ** 2, axis=1, keepdims=True)\n"
        "    out[:] = (X - mean) / np.sqrt(v + 1e-5) * g + b\n",
        "sums": ROWS + "    d = X - (np.sum(X, axis=1) / X.shape[1])[:, None]\n"
        "    v = np.sum(d * d, axis=1) / X.shape[1]\n    out[:] = d / np.sqrt(v + 1e-5)[:, None] * g + b\n",
    },
}
SIZES = {"jacobi-2d": {"steps": 20, "n": 1000, "m": 1200}, "layer norm": {"n": 2000, "m": 2048}}


@numba.njit(parallel=True, error_model="numpy")
def _two_to_one(x: Any, y: Any, z: Any) -> None:
    for i in numba.prange(x.shape[0]):
        for j in range(x.shape[1]):
            z[i, j] = x[i, j] + 0.5 * y[i, j]


@numba.njit(parallel=True, fastmath=True)
def _sums(x: Any, out: Any) -> None:
    for i in numba.prange(x.shape[0]):
        total = 0.0
        for j in range(x.shape[1]):
            total += x[i, j]
        out[i] = total


def limit_of(name: str, arguments: Mapping[str, Any]) -> Callable[[], None]:
    """A loop over the same arrays with as many streams."""
    if name == "chain":
        return lambda: _two_to_one(arguments["X"], arguments["Y"], arguments["Z"])
    return lambda: _sums(arguments["X"], arguments["out"])


def candidates(
    problem: KernelProblem, first: int, folder: Path, arguments: Mapping[str, Any]
) -> dict[str, Callable[[], None]]:
    """The first templates that code can be made of, compiled, by their text."""
    found: dict[str, Callable[[], None]] = {}
    for number, schedule in enumerate(problem.templates()):
        if len(found) == first:
            break
        try:
            code = problem.code(problem.parse(str(schedule)))
        except CandidateError:
            continue
        file = folder / f"{abs(hash(problem.kernel))}_{number}.py"
        file.write_text(code, encoding="utf-8")
        values = tuple(arguments.values())
        run = compiled_candidate(file, "f", values)
        found[str(schedule)] = lambda run=run, values=values: run(*values)
    return found


def best_seconds(runs: Sequence[Callable[[], None]], seconds: float) -> list[float]:
    """The least time of each, in turn, again and again for so long."""
    best = [float("inf")] * len(runs)
    end, rounds = time.perf_counter() + seconds, 0
    while rounds < 3 or time.perf_counter() < end:
        rounds += 1
        for place, run in enumerate(runs):
            start = time.perf_counter()
            run()
            best[place] = min(best[place], time.perf_counter() - start)
    return best


@click.command()
@click.option("--threads", default=2, show_default=True)
@click.option("--first", default=4, show_default=True, help="So many templates of each program.")
@click.option("--seconds", default=4.0, show_default=True, help="Of measuring, for each program or computation.")
@click.option("--size", default=4000, show_default=True, help="Rows and columns of the matrices of expressions.")
@click.option("--only", default="", help="One of the expressions or computations.")
def main(threads: int, first: int, seconds: float, size: int, only: str) -> None:
    """Print the time over the limit of each expression, and the slowest over the fastest spelling."""
    numba.set_num_threads(threads)
    if only and only not in {*EXPRESSIONS, *SPELLINGS}:
        sys.exit(f"--only must be one of {', '.join([*EXPRESSIONS, *SPELLINGS])}, not {only}")
    with TemporaryDirectory() as text:
        folder = Path(text)
        for name in (name for name in EXPRESSIONS if only in ("", name)):
            _expression(name, {"n": size, "m": size}, threads, first, seconds, folder)
        for name in (name for name in SPELLINGS if only in ("", name)):
            _spellings(name, threads, first, seconds, folder)


def _problem(text: str, name: str, sizes: Mapping[str, int], threads: int, fp: str, folder: Path) -> KernelProblem:
    file = folder / f"{name.replace(' ', '_').replace('-', '_')}.py"
    file.write_text(HEAD + text, encoding="utf-8")
    return KernelProblem.load(f"{file}:f", sizes, fp=fp, threads=threads)


def _arguments(problem: KernelProblem) -> dict[str, Any]:
    return make_values(problem.workload("timing"), 0, ValueKind.USUAL)


def _expression(name: str, sizes: Mapping[str, int], threads: int, first: int, seconds: float, folder: Path) -> None:
    problem = _problem(EXPRESSIONS[name], name, sizes, threads, "contract", folder)
    arguments = _arguments(problem)
    runs = candidates(problem, first, folder, arguments)
    limit, *times = best_seconds([limit_of(name, arguments), *runs.values()], seconds)
    place = int(np.argmin(times))
    schedule = [*runs][place]
    tree = problem.tree(problem.parse(schedule))
    moved = moved_bytes(model_for(problem.model, tree), tree, problem.sizes) or 0
    streams = sum(STREAMS[name]) * 8 * sizes["n"] * sizes["m"]
    print(
        f"{name:12}{times[place] * 1e3:8.3f} ms, limit {limit * 1e3:8.3f} ms: {times[place] / limit:.2f}x;"
        f" {moved / 1e6:.1f} MB moved of {streams / 1e6:.1f} MB; {schedule}",
        flush=True,
    )


def _spellings(name: str, threads: int, first: int, seconds: float, folder: Path) -> None:
    """Sums of a loop have an order, those of NumPy have none: to compare the spellings all may be reordered."""
    best: dict[str, float] = {}
    runs: dict[tuple[str, str], Callable[[], None]] = {}
    for spelling, text in SPELLINGS[name].items():
        fp = "reassociate" if name == "layer norm" else "contract"
        problem = _problem(text, f"{name} {spelling}", SIZES[name], threads, fp, folder)
        arguments = _arguments(problem)
        runs |= {(spelling, text): run for text, run in candidates(problem, first, folder, arguments).items()}
    times = best_seconds([*runs.values()], seconds)
    for spelling in SPELLINGS[name]:
        own = {text: t for ((of, text), t) in zip(runs, times, strict=True) if of == spelling}
        chosen = min(own, key=lambda text: own[text])
        best[spelling] = own[chosen]
        print(f"{name:12}{spelling:16}{own[chosen] * 1e3:9.3f} ms  {chosen}", flush=True)
    print(f"{name:12}slowest over fastest spelling: {max(best.values()) / min(best.values()):.2f}x", flush=True)


if __name__ == "__main__":
    main()
