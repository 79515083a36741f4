"""The `polyhedral` policy (or another) over all PolyBench kernels at one size: the table in the README.

    python -m benchmarks.kernels --size large --evaluations 10 --directory runs/large

Each kernel is an ordinary run in its own folder below the directory, so a benchmark that was interrupted goes on where
it stopped. Writes `benchmarks/results/<policy>_<size>.csv` and prints the table as Markdown.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import median
from typing import Any

import click

from kernels import catalog
from optimizer.budget import Limits
from optimizer.errors import LoopwrightError
from optimizer.kernel_problem import KernelProblem
from optimizer.kernel_run import kernel_specification, machine_of_times
from optimizer.measure.statistics import geometric_mean, geometric_mean_interval
from optimizer.plan import Plan
from optimizer.run import Run, resume, start
from optimizer.trial import Trial

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class Row:
    """One kernel's result; seconds are those of the final comparison."""

    kernel: str
    size: str
    threads: int
    baseline_seconds: float
    best_seconds: float
    speedup: float
    low: float
    high: float
    selected_speedup: float
    evaluations: int
    assurance: str
    schedule: str


def row_of(run: Run, problem: KernelProblem) -> Row:
    """What a finished run says about its kernel."""
    selection = run.result.selection
    measured = selection.measured or selection.selected
    details = measured.details if measured and measured.details else _details_of_any(run.result.trials)
    return Row(
        kernel=problem.name,
        size=problem.size,
        threads=problem.threads,
        baseline_seconds=float(details.get("baseline_seconds", 0.0)),
        best_seconds=float(details.get("seconds" if selection.winner.number else "baseline_seconds", 0.0)),
        speedup=measured.score if measured else 1.0,
        low=measured.interval[0] if measured else 1.0,
        high=measured.interval[1] if measured else 1.0,
        selected_speedup=selection.selected.score if selection.selected else 1.0,
        evaluations=run.result.used.evaluations,
        assurance=selection.winner.assurance,
        schedule=selection.winner.candidate.text,
    )


def _details_of_any(trials: Sequence[Trial]) -> Mapping[str, Any]:
    """Where the original wins, its time stands in the measurements of the others."""
    return next((t.measurement.details for t in trials if t.measurement and t.measurement.details), {})


def optimize(kernel: str, size: str, policy: str, evaluations: int, seed: int, directory: Path) -> Row:
    """Run one kernel, or go on with its run."""
    problem = KernelProblem.load(kernel, size)
    if (directory / "run.json").exists():
        return row_of(resume(directory, machine=machine_of_times()), problem)
    plan, limits = Plan(steps=10 * evaluations, seed=seed), Limits(evaluations=evaluations)
    specification = kernel_specification(problem, policy, plan, limits)
    return row_of(start(specification, directory), problem)


def markdown(rows: list[Row]) -> str:
    """The table and its summary line."""
    speedups = [row.speedup for row in rows]
    low, high = geometric_mean_interval(speedups, seed=0)
    below = sum(speedup < 1 for speedup in speedups)
    lines = ["| kernel | original, s | best, s | speedup | 95% interval | assurance |", "|---|---|---|---|---|---|"]
    for row in rows:
        lines.append(
            f"| {row.kernel} | {row.baseline_seconds:.4g} | {row.best_seconds:.4g} | {row.speedup:.2f}x "
            f"| {row.low:.2f} to {row.high:.2f} | {row.assurance} |"
        )
    lines.append("")
    lines.append(
        f"Geometric mean {geometric_mean(speedups):.2f}x (95% {low:.2f} to {high:.2f} over the choice of kernels), "
        f"median {median(speedups):.2f}x, {below} of {len(rows)} below 1."
    )
    return "\n".join(lines)


@click.command()
@click.option("--kernels", default="", help="Names with commas between; all of PolyBench if left out.")
@click.option("--size", default="large", show_default=True)
@click.option("--policy", default="polyhedral", show_default=True)
@click.option("--evaluations", default=10, show_default=True)
@click.option("--seed", default=0, show_default=True)
@click.option("--directory", type=click.Path(path_type=Path), required=True, help="Takes one run folder a kernel.")
def main(kernels: str, size: str, policy: str, evaluations: int, seed: int, directory: Path) -> None:
    """Optimize many kernels one after the other and print the table."""
    chosen = kernels.split(",") if kernels else [n for n in catalog.names() if catalog.entry(n).suite == "polybench"]
    rows: list[Row] = []
    for kernel in chosen:
        try:
            rows.append(optimize(kernel, size, policy, evaluations, seed, directory / kernel))
        except LoopwrightError as error:
            print(f"{kernel}: {error}", file=sys.stderr)
            continue
        print(f"{kernel}: {rows[-1].speedup:.2f}x  {rows[-1].schedule}", file=sys.stderr, flush=True)
    RESULTS.mkdir(exist_ok=True)
    with (RESULTS / f"{policy}_{size}.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)])
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
    print(markdown(rows))


if __name__ == "__main__":
    main()
