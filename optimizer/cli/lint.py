"""`loopwright lint FILE...`: what the analysis of loops knows about code that people already have."""

from __future__ import annotations

import click

from optimizer.cli import REJECTED, options
from optimizer.cli.output import print_json, say, tell


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--rule", "names", multiple=True, metavar="NAME", help="Only this rule; may be given several times.")
@click.option("--verbose", is_flag=True, help="Also tell which functions and loops cannot be read, and why.")
@options.as_json
@click.pass_context
def lint(ctx: click.Context, files: tuple[str, ...], names: tuple[str, ...], verbose: bool, as_json: bool) -> None:
    """Find races, lost values and slow loops in Numba and NumPy code.

    Every function of the files is looked at, and none is run. Something is said only where it is sure. The exit status
    is 1 when something is found. What the rules mean, and what to do: docs/lint.md.
    """
    from optimizer.lint import lint_file, rules_named
    from optimizer.views.lint import findings_text, reports_json, skipped_text

    rules = rules_named(names)
    reports = [lint_file(file, rules) for file in files]
    if verbose:
        for line in skipped_text(reports):
            say(line)
    if as_json:
        print_json(reports_json(reports))
    else:
        for text in findings_text(reports):
            tell(text)
    if any(report.findings for report in reports):
        ctx.exit(REJECTED)
