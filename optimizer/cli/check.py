"""`loopwright check KERNEL SCHEDULE`: judge and time one schedule by hand."""

from __future__ import annotations

import click

from optimizer.cli import INFRASTRUCTURE_FAILED, REJECTED, options
from optimizer.cli.output import print_json, say, tell
from optimizer.kernel_loading import load_problem
from optimizer.verdict import Status
from optimizer.views.check import check_json, check_text


@click.command()
@click.argument("kernel")
@click.argument("schedule")
@options.size
@options.floating_point
@options.threads
@options.seed
@click.option("--timing/--no-timing", default=True, help="Whether to time an accepted schedule.  [default: timing]")
@options.as_json
@click.pass_context
def check(
    ctx: click.Context,
    kernel: str,
    schedule: str,
    size: str | None,
    fp: str,
    threads: int | None,
    seed: int,
    timing: bool,
    as_json: bool,
) -> None:
    """Prove, test and time one schedule.

    SCHEDULE is a text such as "tile(i=32, j=32); parallel(i_t)". The exit status is 1 when it is rejected.
    """
    from optimizer.single_check import verdicts_on

    problem = load_problem(kernel, size, fp, threads)
    candidate = problem.parse(schedule)
    verdicts = verdicts_on(problem, candidate, seed, timing, lambda reason: say(f"waiting: {reason}"))
    if as_json:
        print_json(check_json(kernel, candidate.text, verdicts))
    else:
        tell(check_text(problem, candidate.text, verdicts))
    match verdicts[-1].status:
        case Status.OK:
            return
        case Status.REJECTED:
            ctx.exit(REJECTED)
        case Status.ERROR:
            ctx.exit(INFRASTRUCTURE_FAILED)
