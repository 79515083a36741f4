"""`loopwright trace`: what happened in a run, step by step, and its export as OpenTelemetry spans."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from optimizer.cli import options
from optimizer.cli.again import run_folder
from optimizer.cli.output import print_json, say
from optimizer.errors import UserError

if TYPE_CHECKING:
    from optimizer.llm.trace import RunTrace
    from optimizer.run import RunSpecification

NARROW, WIDE = 120, 200
"""Columns of lines that go to no terminal, and the most that lines get on one."""


@click.command()
@click.argument("run")
@click.option("--chain", type=click.IntRange(min=0), help="Only this chain.")
@click.option("--step", type=click.IntRange(min=1), help="Only this step of each chain.")
@click.option("--full", is_flag=True, help="With the messages to the model and its answers.")
@click.option("--otel", metavar="FILE", help="Write OpenTelemetry spans here (OTLP JSON) instead of the tree.")
@click.option("--otlp", metavar="URL", help="Send OpenTelemetry spans to this collector instead of showing the tree.")
@options.as_json
def trace(
    run: str, chain: int | None, step: int | None, full: bool, otel: str | None, otlp: str | None, as_json: bool
) -> None:
    """Show what happened in a run.

    RUN is a folder, or the name of one in the data folder; it may still be going on. For each step: the calls of the
    model with what they saw, took and cost, the candidate and its verdicts. Below the tree: the run's accounts.
    """
    from optimizer.journal import read_events
    from optimizer.llm.accounts import accounts_of_trace
    from optimizer.llm.trace import trace_of
    from optimizer.llm.trace_json import trace_json
    from optimizer.run import read_specification

    directory = run_folder(run)
    specification = read_specification(directory)
    whole = trace_of(read_events(directory))
    shown = whole.narrowed(chain, step)
    if otel or otlp:
        _export(shown, directory, specification, otel, otlp)
        return
    accounts = accounts_of_trace(whole)
    if as_json:
        tree = trace_json(shown, full)
        print_json({"run_dir": str(directory), "policy": specification.policy, **tree, "accounts": accounts.to_json()})
        return
    from optimizer.cli.trace_tree import run_node, tree_text

    click.echo(tree_text(run_node(shown, f"{directory.resolve().name} ({specification.policy})", full), _width()))
    lines = accounts.lines()
    if lines and chain is None and step is None:
        click.echo("\n".join(lines))


def _export(
    run: RunTrace, directory: Path, specification: RunSpecification, file: str | None, collector: str | None
) -> None:
    from optimizer.llm.otlp import otlp_json, send
    from optimizer.llm.spans import spans_of
    from optimizer.run import SPECIFICATION_NAME

    identity = (directory / SPECIFICATION_NAME).read_text(encoding="utf-8")
    spans = spans_of(run, _problem_name(specification.problem), specification.policy, identity)
    if file:
        try:
            Path(file).write_text(otlp_json(spans) + "\n", encoding="utf-8")
        except OSError as error:
            raise UserError(f"cannot write --otel {file}: {error.strerror}") from error
        say(f"{len(spans)} spans written to {file}")
    if collector:
        send(spans, collector)
        say(f"{len(spans)} spans sent to {collector}")


def _problem_name(problem: Mapping[str, Any]) -> str:
    """What the problem is called, without building it, as its source may be another by now."""
    named = str(problem.get("kernel") or problem.get("name") or problem.get("file") or problem.get("kind"))
    return Path(named).name


def _width() -> int:
    if not sys.stdout.isatty():
        return NARROW
    return min(shutil.get_terminal_size().columns, WIDE)
