"""Functions as people write them, against NumPy and against Numba's own `parallel=True`: the table in the README.

    python -m benchmarks.people --seconds 20 --directory runs/people
    python -m benchmarks.people --fields statistics --functions covariance --directory runs/covariance

The functions are those of `tests/people`, at the sizes that their files say. Each is an ordinary run in its own folder
below the directory, so a benchmark that was interrupted goes on where it stopped. Then the plain function, the function
under `numba.njit(parallel=True)` and the exported winner are timed side by side in one process, once all three were
found to compute the same. What Numba cannot compile in parallel is compared with `njit`, and with NumPy if need be.
Replaces the rows of these functions in `benchmarks/results/people.csv` and prints all of them as Markdown.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from types import FunctionType
from typing import Any

import click

from benchmarks.kernels import RESULTS, run_of
from benchmarks.row_file import read_rows, write_rows
from benchmarks.side_by_side import Contestant, Form, Timing, side_by_side
from optimizer.budget import Limits
from optimizer.errors import LoopwrightError
from optimizer.kernel_problem import KernelProblem
from optimizer.kernel_run import exported_module
from optimizer.measure.statistics import geometric_mean, geometric_mean_interval, paired_ratio
from optimizer.plan import Plan
from optimizer.polyhedral.frontend import nest_of_file
from optimizer.run import Run

FOLDER = Path(__file__).parent.parent / "tests" / "people"
FILE = RESULTS / "people.csv"
STEPS = 1000
WINDOW = 4.0
"""Seconds for which the three are timed side by side."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A function and the sizes at which it is timed."""

    file: Path
    name: str
    sizes: dict[str, int]

    @property
    def label(self) -> str:
        return f"{self.file.stem}.{self.name}"

    def problem(self, fp: str = "contract", threads: int | None = None) -> KernelProblem:
        """Raises `UserError` for a function that is not understood."""
        kernel = f"{self.file}:{self.name}"
        parameters = nest_of_file(kernel).parameters
        return KernelProblem.load(kernel, {name: self.sizes[name] for name in parameters}, fp, threads)


@dataclass(frozen=True, slots=True)
class Row:
    """One function's result; times are medians of the final comparison, 0 where there is none."""

    function: str
    numpy_ms: float = 0.0
    numba_parallel_ms: float = 0.0
    """Of what `comparison` says."""
    comparison: str = ""
    """What the speedup is over: `parallel`, or `njit` or `numpy` where Numba cannot compile the function."""
    ours_ms: float = 0.0
    speedup: float = 0.0
    low: float = 0.0
    high: float = 0.0
    schedule: str = ""
    evaluations: int = 0
    failure: str = ""
    """Why there is no speedup: the function is not understood, or results differ."""


def subjects(file: Path) -> list[Subject]:
    """The functions that a file defines."""
    specification = importlib.util.spec_from_file_location(f"people_{file.stem}", file)
    if specification is None or specification.loader is None:
        raise ImportError(f"{file} is no Python file")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    functions = [name for name, value in vars(module).items() if _is_own(value, module.__name__)]
    return [Subject(file, name, module.SIZES) for name in functions if not name.startswith("_")]


def _is_own(value: Any, module: str) -> bool:
    return isinstance(value, FunctionType) and value.__module__ == module


def optimized(subject: Subject, limits: Limits, directory: Path, threads: int | None = None) -> tuple[Run, Path]:
    """The finished run of a function, and the file of its winner. Raises `LoopwrightError`."""
    problem = subject.problem(threads=threads)
    run = run_of(problem, "polyhedral", Plan(steps=STEPS), limits, directory)
    file = directory / f"exported_{subject.name}.py"
    file.write_text(exported_module(run), encoding="utf-8")
    return run, file


def row_of(subject: Subject, run: Run, exported: Path, window: float = WINDOW) -> Row:
    """Time the function as it stands, under Numba, and as it came out of a run."""
    assert isinstance(run.problem, KernelProblem)
    workload, threads = run.problem.workload("timing"), run.problem.threads
    form, timings = Form.PARALLEL, ()
    for form in (Form.PARALLEL, Form.NJIT, Form.NUMPY):
        contestants = [Contestant(subject.file, subject.name), Contestant(exported, subject.name, Form.EXPORTED)]
        contestants += [Contestant(subject.file, subject.name, form)] if form is not Form.NUMPY else []
        timings = side_by_side(contestants, workload, threads, window)
        if not timings[-1].failure or timings[1].failure:
            break
        print(f"{subject.label} under {form.value}: {timings[-1].failure}", file=sys.stderr)
    return _row(subject.label, run, form, timings[0], timings[1], timings[2 if form is not Form.NUMPY else 0])


def _row(label: str, run: Run, form: Form, plain: Timing, ours: Timing, compared: Timing) -> Row:
    schedule, evaluations = run.result.winner.candidate.text, run.result.used.evaluations
    if failure := plain.failure or ours.failure:
        return Row(label, schedule=schedule, evaluations=evaluations, failure=failure)
    pairs = min(len(compared.seconds), len(ours.seconds))
    ratio = paired_ratio(compared.seconds[:pairs], ours.seconds[:pairs], seed=0)
    return Row(
        function=label,
        numpy_ms=1e3 * median(plain.seconds),
        numba_parallel_ms=1e3 * median(compared.seconds),
        comparison=form.value,
        ours_ms=1e3 * median(ours.seconds),
        speedup=ratio.value,
        low=ratio.interval[0],
        high=ratio.interval[1],
        schedule=schedule,
        evaluations=evaluations,
    )


def markdown(rows: Sequence[Row]) -> str:
    """The table, the least speedup first, and its summary."""
    lines = [
        "| function | NumPy, ms | Numba, ms | compared with | ours, ms | speedup | 95% interval | evaluations |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in sorted(rows, key=lambda row: row.speedup):
        if row.failure:
            lines.append(f"| {row.function} | | | | | {row.failure} | | {row.evaluations} |")
            continue
        lines.append(
            f"| {row.function} | {row.numpy_ms:.4g} | {row.numba_parallel_ms:.4g} | {row.comparison} "
            f"| {row.ours_ms:.4g} | {row.speedup:.2f}x | {row.low:.2f} to {row.high:.2f} | {row.evaluations} |"
        )
    return "\n".join([*lines, "", *_summary([row for row in rows if not row.failure], len(rows))])


def _summary(rows: Sequence[Row], total: int) -> Iterator[str]:
    if not rows:
        yield "Nothing was compared."
        return
    speedups = [row.speedup for row in rows]
    low, high = geometric_mean_interval(speedups, seed=0)
    faster = sum(row.low > 1 for row in rows)
    over_numpy = geometric_mean([row.numpy_ms / row.ours_ms for row in rows])
    yield (
        f"Geometric mean {geometric_mean(speedups):.2f}x over Numba (95% {low:.2f} to {high:.2f} over the choice of "
        f"functions), {over_numpy:.2f}x over NumPy; {faster} of {total} surely faster, "
        f"{sum(speedup > 1 for speedup in speedups)} above 1, {total - len(rows)} failed."
    )


@click.command()
@click.option("--fields", default="", help="Names of files in tests/people with commas between; all if left out.")
@click.option("--functions", default="", help="Names with commas between; all of these fields if left out.")
@click.option("--seconds", type=click.IntRange(min=1), default=20, show_default=True, help="The length of each run.")
@click.option("--threads", type=click.IntRange(min=1), help="All cores if left out.")
@click.option("--directory", type=click.Path(path_type=Path), required=True, help="Takes one run folder a function.")
def main(fields: str, functions: str, seconds: int, threads: int | None, directory: Path) -> None:
    """Optimize functions one after the other, compare each with NumPy and Numba, and print the table."""
    files = sorted(file for file in FOLDER.glob("*.py") if file.stem != "__init__")
    files = [file for file in files if not fields or file.stem in fields.split(",")]
    chosen = [s for file in files for s in subjects(file) if not functions or s.name in functions.split(",")]
    if not chosen:
        raise click.BadParameter("no function has these names")
    for subject in chosen:
        try:
            run, exported = optimized(subject, Limits(seconds=seconds), directory / subject.label, threads)
            row = row_of(subject, run, exported)
        except LoopwrightError as error:
            row = Row(subject.label, failure=" ".join(str(error).split()))
        print(f"{row.function}: {row.failure or f'{row.speedup:.2f}x'}  {row.schedule}", file=sys.stderr, flush=True)
        kept = [other for other in read_rows(Row, FILE) if other.function != row.function]
        write_rows(Row, [*kept, row], FILE, order=lambda row: row.function)
    print(markdown(read_rows(Row, FILE)))


if __name__ == "__main__":
    main()
