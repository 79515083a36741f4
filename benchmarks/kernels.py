"""The `polyhedral` policy (or another) over all PolyBench kernels at one size: the table in the README.

    python -m benchmarks.kernels --size large --evaluations 10 --directory runs/large
    python -m benchmarks.kernels --size large --seconds 120 --directory runs/cold

Each kernel is an ordinary run in its own folder below the directory, so a benchmark that was interrupted goes on where
it stopped. Replaces the rows of these kernels in `benchmarks/results/<policy>_<size>.csv` and prints all of them as
Markdown, beside what other compilers reach (`peers.csv`, at LARGE): those with the most left to the limit first.

With `--seconds`, every run is as long as `loopwright run KERNEL --seconds` would be. Its rows are kept in a file of
their own, and compared with those of the first: how many kernels reach 90% of what is known.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import click

from benchmarks.row_file import read_rows, write_rows
from kernels import catalog
from optimizer.budget import Limits
from optimizer.errors import LoopwrightError
from optimizer.kernel_problem import KernelProblem
from optimizer.kernel_run import kernel_specification, machine_of_times
from optimizer.measure.statistics import geometric_mean, geometric_mean_interval
from optimizer.plan import Plan
from optimizer.run import Run, resume, start
from optimizer.trial import Trial
from optimizer.verdict import Status

RESULTS = Path(__file__).parent / "results"
NEAR = 0.9
PEERS, PEERS_SIZE = Path(__file__).parent / "peers.csv", "large"


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
    compile_seconds: float
    """Of the winner; 0 of the original."""
    source_characters: int
    assurance: str
    schedule: str


@dataclass(frozen=True, slots=True)
class Peer:
    """What others reach on a kernel at LARGE, over `clang -O3` on one thread of a machine like the table's."""

    kernel: str
    pluto_speedup: float
    best_peer: str
    best_peer_speedup: float
    limit_seconds: float
    """The kernel's operations at the rate of BLAS, or its bytes at that of the memory they live in."""


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
        compile_seconds=float(_compiled(selection.winner).get("compile_seconds", 0.0)),
        source_characters=int(_compiled(selection.winner).get("source_characters", 0)),
        assurance=selection.winner.assurance,
        schedule=selection.winner.candidate.text,
    )


def _details_of_any(trials: Sequence[Trial]) -> Mapping[str, Any]:
    """Where the original wins, its time stands in the measurements of the others."""
    return next((t.measurement.details for t in trials if t.measurement and t.measurement.details), {})


def _compiled(trial: Trial) -> Mapping[str, Any]:
    """What the comparison of results says about a trial's code."""
    verdict = next((verdict for verdict in trial.verdicts if verdict.verifier == "equivalence"), None)
    return (verdict and verdict.status is Status.OK and verdict.witness) or {}


def optimize(kernel: str, size: str, policy: str, plan: Plan, limits: Limits, directory: Path) -> Row:
    """Run one kernel, or go on with its run."""
    problem = KernelProblem.load(kernel, size)
    return row_of(run_of(problem, policy, plan, limits, directory), problem)


def run_of(problem: KernelProblem, policy: str, plan: Plan, limits: Limits, directory: Path) -> Run:
    """The finished run in a directory: a new one, or the rest of the one that is there."""
    if (directory / "run.json").exists():
        return resume(directory, machine=machine_of_times())
    return start(kernel_specification(problem, policy, plan, limits), directory)


def markdown(rows: Sequence[Row], peers: Mapping[str, Peer]) -> str:
    """The table, the kernels that are furthest from their limit first, and its summary lines."""
    lines = [
        "| kernel | original, s | best, s | speedup | 95% interval | Pluto | best peer | times the limit | assurance |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in sorted(rows, key=lambda row: -_left(row, peers)):
        lines.append(
            f"| {row.kernel} | {row.baseline_seconds:.4g} | {row.best_seconds:.4g} | {row.speedup:.2f}x "
            f"| {row.low:.2f} to {row.high:.2f} | {_peer_text(row, peers)} | {row.assurance} |"
        )
    return "\n".join([*lines, "", *_summary(rows, peers)])


def _left(row: Row, peers: Mapping[str, Peer]) -> float:
    """How many times the limit a kernel takes; 0 where nothing is known."""
    return row.best_seconds / peers[row.kernel].limit_seconds if row.kernel in peers else 0.0


def _peer_text(row: Row, peers: Mapping[str, Peer]) -> str:
    if row.kernel not in peers:
        return " | | "
    peer = peers[row.kernel]
    return f"{peer.pluto_speedup:.2f}x | {peer.best_peer_speedup:.2f}x | {_left(row, peers):.1f}"


def _summary(rows: Sequence[Row], peers: Mapping[str, Peer]) -> Iterator[str]:
    speedups = [row.speedup for row in rows]
    low, high = geometric_mean_interval(speedups, seed=0)
    below = sum(speedup < 1 for speedup in speedups)
    yield (
        f"Geometric mean {geometric_mean(speedups):.2f}x (95% {low:.2f} to {high:.2f} over the choice of kernels), "
        f"median {median(speedups):.2f}x, {below} of {len(rows)} below 1."
    )
    known = [(row, peers[row.kernel]) for row in rows if row.kernel in peers]
    if known:
        pluto = geometric_mean([peer.pluto_speedup for _, peer in known])
        reached = sum(row.speedup >= peer.best_peer_speedup for row, peer in known)
        yield f"Pluto: {pluto:.2f}x. At least the best peer of each kernel on {reached} of {len(known)}."
    compiled = [row.compile_seconds for row in rows if row.compile_seconds]
    if compiled:
        yield f"Compiling the winners took {median(compiled):.1f} s at the median, {max(compiled):.1f} s at most."


def near_best(rows: Iterable[Row], known: Mapping[str, Row]) -> str:
    """How many runs come near the best that is known of their kernels, and which do not."""
    far = {row.kernel: row.speedup / known[row.kernel].speedup for row in rows if row.kernel in known}
    below = [f"{kernel} {share:.0%}" for kernel, share in sorted(far.items(), key=lambda one: one[1]) if share < NEAR]
    return f"At least {NEAR:.0%} of the best known on {len(far) - len(below)} of {len(far)}; less: " + (
        ", ".join(below) or "none"
    )


def rows_of(file: Path) -> dict[str, Row]:
    """The rows of a file of results, by kernel; none if there is no such file."""
    return {row.kernel: row for row in read_rows(Row, file)}


def peers_of(size: str) -> dict[str, Peer]:
    """What is known of others at a size, by kernel."""
    return {peer.kernel: peer for peer in read_rows(Peer, PEERS)} if size == PEERS_SIZE else {}


def write(rows: Iterable[Row], file: Path) -> None:
    """One line a kernel, in order of their names."""
    write_rows(Row, rows, file, order=lambda row: row.kernel)


@click.command()
@click.option("--kernels", default="", help="Names with commas between; all of PolyBench if left out.")
@click.option("--size", default="large", show_default=True)
@click.option("--policy", default="polyhedral", show_default=True)
@click.option("--evaluations", type=click.IntRange(min=1), help="Of each run. [default: 10, or as many as fit]")
@click.option("--seconds", type=click.IntRange(min=1), help="The length of each run, instead of --evaluations.")
@click.option("--seed", default=0, show_default=True)
@click.option("--directory", type=click.Path(path_type=Path), required=True, help="Takes one run folder a kernel.")
def main(
    kernels: str, size: str, policy: str, evaluations: int | None, seconds: int | None, seed: int, directory: Path
) -> None:
    """Optimize many kernels one after the other and print the table."""
    if seconds is None:
        evaluations = evaluations or 10
    limits = Limits(evaluations=evaluations, seconds=seconds)
    plan = Plan(steps=10 * evaluations if evaluations else 1000, seed=seed)
    chosen = kernels.split(",") if kernels else [n for n in catalog.names() if catalog.entry(n).suite == "polybench"]
    best = RESULTS / f"{policy}_{size}.csv"
    file = best.with_stem(f"{best.stem}_{seconds}s") if seconds else best
    for kernel in chosen:
        try:
            row = optimize(kernel, size, policy, plan, limits, directory / kernel)
        except LoopwrightError as error:
            print(f"{kernel}: {error}", file=sys.stderr)
            continue
        print(f"{kernel}: {row.speedup:.2f}x  {row.schedule}", file=sys.stderr, flush=True)
        write({**rows_of(file), kernel: row}.values(), file)
    rows = rows_of(file).values()
    print(markdown(list(rows), peers_of(size)))
    if seconds:
        print(near_best(rows, rows_of(best)))


if __name__ == "__main__":
    main()
