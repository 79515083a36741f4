"""`loopwright run`: optimize a kernel, or any text that has a check."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from optimizer.cli import options
from optimizer.cli.destination import check_writable
from optimizer.errors import UserError

if TYPE_CHECKING:
    from optimizer.protocols import Problem

DEFAULT_STEPS = 30
"""Steps of a chain when neither steps nor a budget are given."""
STEPS_PER_EVALUATION = 20
"""With a budget and no number of steps, duplicates (which cost a step but no evaluation) may use up so many steps."""


@click.command()
@click.argument("kernel", required=False)
@options.size
@click.option("--policy", help="What proposes. [default: polyhedral for kernels, mutate for texts]")
@click.option("--chains", type=click.IntRange(min=1), default=1, show_default=True, help="Lines of refinement.")
@click.option("--steps", type=click.IntRange(min=1), help=f"Proposals of a chain. [default: {DEFAULT_STEPS}]")
@click.option("--evaluations", type=click.IntRange(min=1), help="Stop after so many judged candidates.")
@click.option("--seconds", type=click.FloatRange(min=0, min_open=True), help="Stop after so much time.")
@options.seed
@options.threads
@options.floating_point
@click.option("--verifier", metavar="FILE.py:FUNCTION", help="Optimize --seed-text under your own check of a text.")
@click.option("--tests", metavar="FOLDER", help="Optimize --seed-text, a Python module, under the pytest tests there.")
@click.option("--seed-text", metavar="FILE", help="The text to start from.")
@click.option("--out", metavar="FILE", help="Write the best candidate here: for kernels a stand-alone Numba module.")
@click.option("--run-dir", metavar="DIR", help="Keep the run in this new folder. [default: one in the data folder]")
@options.as_json
def run(
    kernel: str | None,
    size: str | None,
    policy: str | None,
    chains: int,
    steps: int | None,
    evaluations: int | None,
    seconds: float | None,
    seed: int,
    threads: int | None,
    fp: str,
    verifier: str | None,
    tests: str | None,
    seed_text: str | None,
    out: str | None,
    run_dir: str | None,
    as_json: bool,
) -> None:
    """Optimize KERNEL (a bundled kernel's name, or file.py:function), or a text with --verifier or --tests."""
    from optimizer.budget import Limits
    from optimizer.cli.watched import finish, watched
    from optimizer.plan import Plan
    from optimizer.run import RunSpecification, start

    check_subject(kernel, verifier, tests, seed_text)
    destination = Path(out) if out else None
    if destination:
        check_writable(destination)
    if kernel:
        from optimizer.cli.kernel import load_problem

        problem: Problem = load_problem(kernel, size, fp, threads)
    else:
        problem = text_problem(verifier, tests, seed_text)
    specification = RunSpecification(
        problem=problem.specification(),
        policy=policy or ("polyhedral" if kernel else "mutate"),
        verifier_options={"function": verifier} if verifier else {},
        plan=Plan(chains=chains, steps=steps or default_steps(evaluations, seconds), seed=seed),
        limits=Limits(evaluations=evaluations, seconds=seconds),
        machine=machine_of(problem),
    )
    finish(
        watched(lambda observer: start(specification, Path(run_dir) if run_dir else None, observer)),
        destination,
        as_json,
    )


def check_subject(kernel: str | None, verifier: str | None, tests: str | None, seed_text: str | None) -> None:
    """Raise `UserError` unless exactly one thing is to be optimized."""
    given = [name for name, value in (("KERNEL", kernel), ("--verifier", verifier), ("--tests", tests)) if value]
    if len(given) != 1:
        what = " and ".join(given) or "nothing"
        raise UserError(f"give one of KERNEL, --verifier and --tests, not {what} (`loopwright kernels` lists kernels)")
    if kernel and seed_text:
        raise UserError("--seed-text goes with --verifier or --tests, not with a kernel")
    if not kernel and not seed_text:
        raise UserError(f"{given[0]} needs --seed-text FILE, the text to start from")


def default_steps(evaluations: int | None, seconds: float | None) -> int:
    """As many steps as the budget could need."""
    if evaluations is not None:
        return STEPS_PER_EVALUATION * evaluations
    return DEFAULT_STEPS if seconds is None else 1_000_000
