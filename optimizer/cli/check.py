"""`loopwright check KERNEL SCHEDULE`: judge and time one schedule by hand."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from optimizer.cli import INFRASTRUCTURE_FAILED, REJECTED, options
from optimizer.cli.kernel import load_problem
from optimizer.cli.output import print_json, say
from optimizer.verdict import Measurement, Status, Verdict
from optimizer.wording import seconds_text, speedup_text

if TYPE_CHECKING:
    from optimizer.candidate import Candidate
    from optimizer.kernel_problem import KernelProblem


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
    problem = load_problem(kernel, size, fp, threads)
    candidate = problem.parse(schedule)
    verdicts = verdicts_on(problem, candidate, seed, timing, lambda reason: say(f"waiting: {reason}"))
    if as_json:
        print_json(check_json(kernel, candidate.text, verdicts))
    else:
        click.echo(check_text(problem, candidate.text, verdicts))
    match verdicts[-1].status:
        case Status.OK:
            return
        case Status.REJECTED:
            ctx.exit(REJECTED)
        case Status.ERROR:
            ctx.exit(INFRASTRUCTURE_FAILED)


def verdicts_on(
    problem: KernelProblem, candidate: Candidate, seed: int, timing: bool, waiting: Callable[[str], None]
) -> tuple[Verdict, ...]:
    """What the verifiers say of one schedule, the cheapest first; `waiting` is told why nothing moves for a while."""
    from optimizer.judging import judge
    from optimizer.registry import make_verifiers
    from optimizer.run import Closable

    chosen = {"seed": seed, "with_timing": timing}
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="loopwright-check-")))
        verifiers = make_verifiers(problem, directory, chosen, waiting)
        for verifier in verifiers:
            if isinstance(verifier, Closable):
                stack.callback(verifier.close)
        return judge(problem, candidate, verifiers)


def check_json(kernel: str, schedule: str, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """The verdicts as one object; the reason, the witness and the repair are those of the verifier that said no."""
    last, measurement = verdicts[-1], measurement_of(verdicts)
    return {
        "kernel": kernel,
        "schedule": schedule,
        "status": last.status.value,
        "reason": last.reason.value if last.reason else None,
        "detail": last.detail,
        "witness": last.witness,
        "repair": last.repair,
        "speedup": measurement.score if measurement else None,
        "interval": list(measurement.interval) if measurement else None,
        "assurance": assurance_of(verdicts),
    }


def check_text(problem: KernelProblem, schedule: str, verdicts: Sequence[Verdict]) -> str:
    """One line a verifier, then what to do with the answer."""
    lines = [f"{problem.name} at {problem.size}: {schedule or '(the original)'}"]
    for verdict in verdicts:
        said = (
            verdict.assurance or verdict.detail
            if verdict.status is Status.OK
            else f"{verdict.reason}: {verdict.detail}"
        )
        lines.append(f"  {verdict.verifier:<12} {verdict.status.value:<9} {said}".rstrip())
    measurement = measurement_of(verdicts)
    if measurement:
        lines.append(f"  {speedup_text(measurement.score, measurement.interval)} over the original")
        seconds = measurement.details.get("seconds")
        if seconds is not None:
            lines.append(
                f"  {seconds_text(measurement.details['baseline_seconds'])} original, {seconds_text(seconds)} now"
            )
    if verdicts[-1].repair is not None:
        lines.append(f"  nearest legal schedule: {verdicts[-1].repair or '(the original)'}")
    return "\n".join(lines)


def assurance_of(verdicts: Sequence[Verdict]) -> str:
    """What was proved and what was tested."""
    return ", ".join(v.assurance for v in verdicts if v.assurance)


def measurement_of(verdicts: Sequence[Verdict]) -> Measurement | None:
    """The speedup of an accepted schedule that was timed."""
    if verdicts[-1].status is not Status.OK:
        return None
    return next((v.measurement for v in reversed(verdicts) if v.measurement), None)
