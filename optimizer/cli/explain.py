"""`loopwright explain KERNEL`: names, dependences, what is parallel or permutable, and the machine's limit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from optimizer.cli import options
from optimizer.cli.kernel import limit_seconds, load_nest
from optimizer.cli.output import print_json, table
from optimizer.wording import seconds_text

if TYPE_CHECKING:
    from optimizer.polyhedral.explain import Dependence, Explanation
    from optimizer.polyhedral.nest import Nest
    from optimizer.polyhedral.tree import Node

MOST_DEPENDENCES = 30
"""Rows of the dependence table; `--json` lists all."""


@click.command()
@click.argument("kernel")
@options.size
@options.floating_point
@options.threads
@click.option("--schedule", metavar="TEXT", default="", help="Explain the nest after this schedule and print its code.")
@options.as_json
def explain(kernel: str, size: str | None, fp: str, threads: int | None, schedule: str, as_json: bool) -> None:
    """Show a kernel's loops and statements by name, its dependences, and what could run parallel."""
    from optimizer.polyhedral.explain import explain as explain_nest
    from optimizer.polyhedral.model import model_of
    from optimizer.polyhedral.schedule import parse_schedule
    from optimizer.polyhedral.tree import show

    nest, problem = load_nest(kernel, size, fp, threads)
    steps = parse_schedule(schedule)
    tree = steps.apply(nest)
    explanation = explain_nest(model_of(nest), tree)
    limit = limit_seconds(problem) if problem else None
    code = _code(nest, tree, fp) if schedule else None
    if as_json:
        print_json(_to_json(kernel, nest, explanation, limit, code))
        return
    click.echo(f"{kernel}: {len(nest.loops)} loops, {len(nest.statements)} statements ({nest.file})\n")
    click.echo(source_listing(nest) + "\n")
    if schedule:
        click.echo(f"after {steps}\n\n{show(tree, '  ')}\n")
    click.echo(_summary(nest, explanation))
    click.echo("\n" + dependence_table(explanation.dependences))
    if problem and limit is not None:
        at = problem.size or "any size"
        click.echo(f"\nthis machine's limit at {at} with {problem.threads} threads: {seconds_text(limit)}")
    if code:
        click.echo("\n" + code)


def source_listing(nest: Nest) -> str:
    """The loops and statements as they stand in the source, with their names in the margin."""
    lines = {loop.line: loop.name for loop in nest.loops}
    for statement in nest.statements:
        lines[statement.line] = ", ".join(filter(None, (lines.get(statement.line), statement.name)))
    width = max(map(len, lines.values()))
    source = _source_lines(nest)
    if not source:
        return "\n".join(f"  line {number:<5}{name}" for number, name in sorted(lines.items()))
    shown = range(min(lines), max(lines) + 1)
    return "\n".join(f"{n:>5}  {lines.get(n, ''):<{width}}  {source[n - 1]}".rstrip() for n in shown)


def _source_lines(nest: Nest) -> list[str]:
    path = Path(nest.file)
    if not path.is_file():
        return []
    return path.read_text(encoding="utf-8").splitlines()


def _summary(nest: Nest, explanation: Explanation) -> str:
    """Parallel loops, bands and scalars, one line each."""
    from optimizer.polyhedral.explain import scalars

    bands = ", ".join(f"({', '.join(band)})" for band in explanation.permutable)
    lines = [
        f"parallel    {', '.join(explanation.parallel) or 'none as it stands'}",
        f"permutable  {bands or 'none as it stands'}",
    ]
    groups: dict[tuple[str, ...] | None, list[str]] = {}
    for name, copies in scalars(nest).items():
        groups.setdefault(copies, []).append(name)
    for copies, names in groups.items():
        how = f"with a copy for each {', '.join(copies)}" if copies else "with one value, carried along"
        lines.append(f"scalars     {', '.join(names)} {how}")
    return "\n".join(lines)


def dependence_table(dependences: tuple[Dependence, ...]) -> str:
    """The dependences in words; the kinds that agree in everything else share a row."""
    kinds: dict[tuple[str, str, str, str], list[str]] = {}
    for d in dependences:
        places = [f"carried by {', '.join(d.carried_by)}"] if d.carried_by else []
        if d.is_within_iteration:
            places.append("within one iteration")
        kinds.setdefault((d.array, d.source, d.sink, " and ".join(places)), []).append(d.kind.value)
    if not kinds:
        return "no dependences: every order of the iterations is legal"
    rows = [(array, f"{source} -> {sink}", "+".join(k), how) for (array, source, sink, how), k in kinds.items()]
    text = table(("array", "dependence", "kind", "how"), rows[:MOST_DEPENDENCES])
    left = len(rows) - MOST_DEPENDENCES
    return text + (f"\n... and {left} more (--json lists all)" if left > 0 else "")


def _to_json(
    kernel: str, nest: Nest, explanation: Explanation, limit: float | None, code: str | None
) -> dict[str, Any]:
    from optimizer.polyhedral.explain import scalars

    data: dict[str, Any] = {
        "kernel": kernel,
        "loops": [{"name": loop.name, "line": loop.line} for loop in nest.loops],
        "statements": [{"name": s.name, "line": s.line, "text": s.body, "loops": s.iterators} for s in nest.statements],
        "dependences": [d.to_json() for d in explanation.dependences],
        "parallel": explanation.parallel,
        "permutable": explanation.permutable,
        "scalars": scalars(nest),
        "limit_seconds": limit,
    }
    return data | ({"code": code} if code else {})


def _code(nest: Nest, tree: Node, fp: str) -> str:
    from optimizer.codegen.backend import CodeOptions, FloatingPoint
    from optimizer.codegen.numba_source import NumbaBackend

    return NumbaBackend().source(nest, tree, CodeOptions(FloatingPoint(fp)))
