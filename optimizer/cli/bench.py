"""`loopwright bench`: policies against each other under one equal number of evaluations."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from optimizer.cli import INTERRUPTED, options
from optimizer.cli.output import print_json, say
from optimizer.wording import table

CONTROL = "random"
"""Proposes without a look at what was found so far."""


@click.command()
@click.option("--kernels", required=True, metavar="A,B,...", help="Names of bundled kernels, or file.py:function.")
@click.option(
    "--policies", required=True, metavar="X,Y,...", help="X or X:option=value:...; all are compared with the first."
)
@click.option("--evaluations", type=click.IntRange(min=1), default=12, show_default=True, help="Of each run.")
@click.option(
    "--repeats", type=click.IntRange(min=1), default=3, show_default=True, help="Runs with seeds of their own."
)
@click.option("--size", default="small", show_default=True, help="A named size, or values for kernels of one shape.")
@options.seed
@options.threads
@options.floating_point
@click.option("--run-dir", metavar="DIR", help="Folder of all runs; a second call with the same one goes on there.")
@options.as_json
@click.pass_context
def bench(
    ctx: click.Context,
    kernels: str,
    policies: str,
    evaluations: int,
    repeats: int,
    size: str,
    seed: int,
    threads: int | None,
    fp: str,
    run_dir: str | None,
    as_json: bool,
) -> None:
    """Compare policies with each other.

    Each runs on each kernel, several times, with the same number of evaluations; means come with intervals.
    """
    # By name, because `benchmarks` stands above `optimizer` in the order of imports.
    comparison: Any = importlib.import_module("benchmarks.policies")
    experiment = comparison.Experiment(
        _names(kernels), _names(policies), evaluations, repeats, size, seed=seed, threads=threads, fp=fp
    )
    directory = Path(run_dir).absolute() if run_dir else _new_folder()
    try:
        outcomes = comparison.run_experiment(experiment, directory, Waits(), lambda outcome: say(outcome_line(outcome)))
    except comparison.Interrupted:
        say(f"interrupted; everything so far is saved: the same command with --run-dir {directory} goes on")
        ctx.exit(INTERRUPTED)
    summaries = comparison.summarize(experiment, outcomes)
    if as_json:
        print_json(comparison.to_json(experiment, outcomes, summaries, directory))
    else:
        click.echo(bench_text(experiment, summaries, directory))


class Waits:
    """Tells of waits alone; each run gets its line when it is over."""

    def notify(self, event: Any) -> None:
        from optimizer.events import Waiting

        if isinstance(event, Waiting):
            say(f"waiting: {event.reason}")


def outcome_line(outcome: Any) -> str:
    """One finished run."""
    result = "failed" if outcome.speedup is None else f"{outcome.speedup:.2f}x"
    used = f"{outcome.evaluations} evaluations, {outcome.stop_reason}"
    return f"{outcome.kernel} {outcome.policy} repeat {outcome.repeat}: {result} ({used})"


def bench_text(experiment: Any, summaries: Any, directory: Path) -> str:
    """The comparison as a table."""
    several = experiment.repeats > 1
    header = ["policy", "geometric mean", "95% interval", "median", "wins/ties/losses", "evaluations", "accepted"]
    header += ["one run", f"best of {experiment.repeats}"] if several else []
    rows = [_row(summary, several) for summary in summaries]
    notes = [
        f"{len(experiment.kernels)} kernels at {experiment.size}, {experiment.repeats} runs each of at most "
        f"{experiment.evaluations} evaluations; wins and losses against {experiment.policies[0]}",
        *_control(experiment.policies),
        *(f"{s.failed_runs} runs of {s.policy} failed and are left out" for s in summaries if s.failed_runs),
        f"runs: {directory}",
    ]
    return "\n".join([table(header, rows), "", *notes])


def _row(summary: Any, several: bool) -> list[str]:
    low, high = summary.interval
    cells = [
        summary.policy,
        f"{summary.geometric_mean:.2f}x",
        f"{low:.2f} to {high:.2f}",
        f"{summary.median:.2f}x",
        f"{summary.wins}/{summary.ties}/{summary.losses}",
        str(summary.evaluations),
        _accepted(summary),
    ]
    return [*cells, f"{summary.single:.2f}x", f"{summary.best_of_repeats:.2f}x"] if several else cells


def _control(policies: Sequence[str]) -> Sequence[str]:
    """A search that beats nothing but the original may be no better than chance."""
    if any(policy.partition(":")[0] == CONTROL for policy in policies):
        return ()
    return (f"there is no control: with {CONTROL} among the policies it shows what chance alone finds",)


def _accepted(summary: Any) -> str:
    """The share of accepted proposals with its interval."""
    if summary.accepted is None:
        return "-"
    low, high = summary.accepted_interval
    return f"{summary.accepted:.0%} ({low:.0%} to {high:.0%})"


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _new_folder() -> Path:
    from optimizer.run import runs_directory

    return runs_directory().parent / "benchmarks" / datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f")
