"""`loopwright run`: optimize a kernel, or any text that has a check."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from optimizer.cli import options
from optimizer.cli.destination import check_writable
from optimizer.cli.kernel import load_problem
from optimizer.defaults import steps_for
from optimizer.errors import UserError
from optimizer.plan import Plan

if TYPE_CHECKING:
    from optimizer.budget import Limits
    from optimizer.run import RunSpecification


@click.command()
@click.argument("kernel", required=False)
@options.size
@click.option("--policy", help="What proposes. [default: polyhedral for kernels, mutate for texts]")
@click.option("--option", "policy_options", multiple=True, metavar="NAME=VALUE", help="Of the policy; can be repeated.")
@click.option("--chains", type=click.IntRange(min=1), default=1, show_default=True, help="Lines of refinement.")
@click.option("--steps", type=click.IntRange(min=1), help="Proposals of a chain. [default: by the budget, or 30]")
@click.option("--evaluations", type=click.IntRange(min=1), help="Stop after so many judged candidates.")
@click.option("--seconds", type=click.FloatRange(min=0, min_open=True), help="Stop after so much time.")
@options.seed
@options.threads
@options.floating_point
@options.jobs
@click.option("--verifier", metavar="FILE.py:FUNCTION", help="Optimize --seed-text under your own check of a text.")
@click.option("--tests", metavar="FOLDER", help="Optimize --seed-text, a Python module, under the pytest tests there.")
@click.option("--seed-text", metavar="FILE", help="The text to start from.")
@click.option("--deadline", type=click.FloatRange(min=0, min_open=True), help="Seconds for one check or test run.")
@click.option("--out", metavar="FILE", help="Write the best candidate here: for kernels a stand-alone Numba module.")
@click.option("--run-dir", metavar="DIR", help="Keep the run in this new folder. [default: one in the data folder]")
@options.as_json
def run(
    kernel: str | None,
    size: str | None,
    policy: str | None,
    policy_options: tuple[str, ...],
    chains: int,
    steps: int | None,
    evaluations: int | None,
    seconds: float | None,
    seed: int,
    threads: int | None,
    fp: str,
    jobs: int | None,
    verifier: str | None,
    tests: str | None,
    seed_text: str | None,
    deadline: float | None,
    out: str | None,
    run_dir: str | None,
    as_json: bool,
) -> None:
    """Optimize a kernel, or any text that has a check.

    KERNEL is a bundled kernel's name or file.py:function. Without one, --seed-text is optimized under --verifier or
    --tests.
    """
    from optimizer.budget import Limits
    from optimizer.cli.watched import finish, watched
    from optimizer.run import start

    check_subject(kernel, verifier, tests, seed_text)
    check_unused("a kernel", {"--deadline": deadline} if kernel else {})
    check_unused("a text", {} if kernel else {"--size": size, "--threads": threads, "--jobs": jobs})
    destination = Path(out) if out else None
    if destination:
        check_writable(destination)
    limits = Limits(evaluations=evaluations, seconds=seconds)
    plan = Plan(chains=chains, steps=steps_for(steps, limits), seed=seed)
    if kernel:
        from optimizer.kernel_run import kernel_specification

        problem = load_problem(kernel, size, fp, threads, jobs or 1)
        if destination and destination.resolve() == Path(problem.nest.file).resolve():
            raise UserError(f"--out {destination} is the kernel's own file: write the result somewhere else")
        specification = kernel_specification(problem, policy or "polyhedral", plan, limits)
    else:
        specification = text_specification(verifier, tests, seed_text or "", deadline, policy or "mutate", plan, limits)
    specification = replace(specification, policy_options=parse_options(policy_options))
    directory = Path(run_dir).absolute() if run_dir else None
    finish(watched(lambda observer: start(specification, directory, observer)), destination, as_json)


def text_specification(
    verifier: str | None,
    tests: str | None,
    seed_text: str,
    deadline: float | None,
    policy: str,
    plan: Plan,
    limits: Limits,
) -> RunSpecification:
    """The run for a text under the user's own check, or for a Python module until all its tests pass."""
    from optimizer.run import RunSpecification
    from optimizer.suite_problem import SuiteProblem
    from optimizer.text_problem import TextProblem

    judging: dict[str, Any] = {} if deadline is None else {"deadline": deadline}
    if tests:
        plan = replace(plan, target=1.0)
        problem = SuiteProblem.from_files(seed_text, tests)
    else:
        problem = TextProblem.from_file(seed_text)
        file, _, function = (verifier or "").rpartition(":")
        judging["check"] = f"{Path(file).absolute()}:{function}" if file else verifier
    return RunSpecification(problem.specification(), policy, verifier_options=judging, plan=plan, limits=limits)


def parse_options(texts: Sequence[str]) -> dict[str, Any]:
    """`name=value` texts; a value that reads as a number or a truth value is one. Raises `UserError`."""
    found: dict[str, Any] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not (name and separator):
            raise UserError(f"cannot read the option {text!r}: write name=value")
        try:
            found[name] = json.loads(value.lower())
        except ValueError:
            found[name] = value
    return found


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


def check_unused(subject: str, given: Mapping[str, Any]) -> None:
    """Raise `UserError` for an option that would have no effect."""
    for name, value in given.items():
        if value is not None:
            raise UserError(f"{name} means nothing for {subject}: leave it out")
