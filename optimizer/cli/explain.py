"""`loopwright explain KERNEL`: names, dependences, what is parallel or permutable, and the machine's limit."""

from __future__ import annotations

import click

from optimizer.cli import options
from optimizer.cli.output import print_json, say, tell
from optimizer.kernel_loading import limit_seconds, load_nest
from optimizer.views.nest import (
    code_text,
    dependence_table,
    explanation_json,
    nest_text,
    source_listing,
    summary_of_nest,
)
from optimizer.wording import seconds_text


@click.command()
@click.argument("kernel")
@options.size
@options.floating_point
@options.threads
@click.option("--schedule", metavar="TEXT", default="", help="Explain the nest after this schedule and print its code.")
@options.as_json
def explain(kernel: str, size: str | None, fp: str, threads: int | None, schedule: str, as_json: bool) -> None:
    """Show a kernel's names and dependences.

    Loops and statements get the names that schedules use. Also told: which loops could run parallel or change places,
    as the nest stands or after --schedule, and the least time that this machine needs.
    """
    from optimizer.polyhedral.explain import explain as explain_nest
    from optimizer.polyhedral.model import model_of
    from optimizer.polyhedral.schedule import parse_schedule

    nest, problem = load_nest(kernel, size, fp, threads)
    steps = parse_schedule(schedule)
    tree = steps.apply(nest)
    explanation = explain_nest(model_of(nest), tree)
    limit = limit_seconds(problem, say) if problem else None
    code = code_text(nest, tree, fp) if schedule else None
    if as_json:
        print_json(explanation_json(kernel, nest, explanation, limit, code))
        return
    tell(f"{kernel}: {len(nest.loops)} loops, {len(nest.statements)} statements ({nest.file})\n")
    tell(source_listing(nest) + "\n")
    if schedule:
        tell(f"after {steps}\n\n{nest_text(nest, tree)}\n")
    tell(summary_of_nest(nest, explanation))
    tell("\n" + dependence_table(explanation.dependences))
    if problem and limit is not None:
        at = problem.size or "any size"
        tell(f"\nthis machine's limit at {at} with {problem.threads} threads: {seconds_text(limit)}")
    if code:
        tell("\n" + code)
