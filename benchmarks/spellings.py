"""The same computation as loops, as slices and by `@`: how far apart the winners of their runs are.

    python -m benchmarks.spellings --seconds 30 --directory runs/spellings

Each file of `benchmarks/same` spells one computation in several functions of the same arguments. Each function is an
ordinary run in its own folder; then the winners of a file, and BLAS's way through the spelling by `@`, are timed side
by side in one process.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import click

from benchmarks.people import Subject, optimized, subjects
from benchmarks.side_by_side import Contestant, Form, Timing, side_by_side
from optimizer.budget import Limits

FOLDER = Path(__file__).parent / "same"
WINDOW = 6.0
"""Seconds for which the winners of a file are timed side by side."""
NEAR = 1.2
"""Winners that are within this of each other are as fast as each other."""


def compared(file: Path, limits: Limits, directory: Path, threads: int | None = None) -> list[str]:
    """The lines of the table for one file. Raises `LoopwrightError` for a spelling that is not understood."""
    spellings = subjects(file)
    found = [optimized(spelling, limits, directory / spelling.label, threads) for spelling in spellings]
    for spelling, (run, _) in zip(spellings, found, strict=True):
        print(f"{spelling.label}: {run.result.winner.candidate.text}", file=sys.stderr, flush=True)
    # The last spelling as it stands has the results that all are compared with.
    contestants = [Contestant(file, spellings[-1].name)]
    contestants += [
        Contestant(exported, s.name, Form.EXPORTED) for s, (_, exported) in zip(spellings, found, strict=True)
    ]
    problem = spellings[-1].problem(threads=threads)
    plain, *winners = side_by_side(contestants, problem.workload("timing"), problem.threads, WINDOW)
    return table(spellings, plain, winners)


def table(spellings: Sequence[Subject], plain: Timing, winners: Sequence[Timing]) -> list[str]:
    """One line a spelling, how far apart they are, and the plain function."""
    best = min((median(each.seconds) for each in winners if each.seconds), default=0.0)
    lines: list[str] = []
    for spelling, winner in zip(spellings, winners, strict=True):
        if winner.failure or not winner.seconds:
            lines.append(f"| {spelling.name} | | {winner.failure} |")
        else:
            lines.append(
                f"| {spelling.name} | {1e3 * median(winner.seconds):.4g} | {median(winner.seconds) / best:.2f} |"
            )
    if plain.seconds and best:
        lines.append(f"| NumPy | {1e3 * median(plain.seconds):.4g} | {median(plain.seconds) / best:.2f} |")
    slowest = max((median(each.seconds) for each in winners if each.seconds), default=0.0)
    if best and all(each.seconds for each in winners):
        verdict = "within" if slowest <= NEAR * best else "not within"
        lines.append(f"| all spellings | | {slowest / best:.2f}, {verdict} {NEAR} |")
    return lines


@click.command()
@click.option("--files", default="", help="Names in benchmarks/same with commas between; all if left out.")
@click.option("--seconds", type=click.IntRange(min=1), default=30, show_default=True, help="The length of each run.")
@click.option("--threads", type=click.IntRange(min=1), help="All cores if left out.")
@click.option("--directory", type=click.Path(path_type=Path), required=True, help="Takes one run folder a spelling.")
def main(files: str, seconds: int, threads: int | None, directory: Path) -> None:
    """Optimize every spelling of each computation and print how far apart the winners are."""
    chosen = sorted(file for file in FOLDER.glob("*.py") if file.stem != "__init__")
    chosen = [file for file in chosen if not files or file.stem in files.split(",")]
    lines = [line for file in chosen for line in compared(file, Limits(seconds=seconds), directory, threads)]
    print("\n".join(["| spelling | ms | over the best |", "|---|---|---|", *lines]))


if __name__ == "__main__":
    main()
