"""`loopwright run`: optimize a kernel, or any text that has a check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from optimizer.cli import options
from optimizer.cli.model_options import model_options, policy_options, with_model_budget
from optimizer.defaults import steps_for
from optimizer.destination import check_writable
from optimizer.errors import UserError
from optimizer.kernel_loading import load_problem
from optimizer.plan import Plan

if TYPE_CHECKING:
    from optimizer.budget import Limits
    from optimizer.run import Run, RunSpecification


@click.command()
@click.argument("kernel", required=False)
@options.size
@click.option("--policy", help="What proposes. [default: polyhedral for kernels, mutate for texts]")
@click.option("--option", "more_options", multiple=True, metavar="NAME=VALUE", help="Of the policy; can be repeated.")
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
@model_options
@click.option("--dry-run", is_flag=True, help="Only estimate what the model's calls would cost.")
@click.option("--control", metavar="POLICY", help="Run this policy as well, with as many evaluations, and show both.")
@options.as_json
def run(
    kernel: str | None,
    size: str | None,
    policy: str | None,
    more_options: tuple[str, ...],
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
    dry_run: bool,
    control: str | None,
    as_json: bool,
    **model: Any,
) -> None:
    """Optimize a kernel, or any text that has a check.

    KERNEL is a bundled kernel's name or file.py:function. Without one, --seed-text is optimized under --verifier or
    --tests.
    """
    from optimizer.budget import Limits
    from optimizer.cli.watched import finish, watched
    from optimizer.policy_text import parse_options
    from optimizer.run import start

    check_subject(kernel, verifier, tests, seed_text)
    check_unused("a kernel", {"--deadline": deadline} if kernel else {})
    check_unused("a text", {} if kernel else {"--size": size, "--threads": threads, "--jobs": jobs})
    destination = Path(out) if out else None
    if destination:
        check_writable(destination)
    chosen = policy or ("polyhedral" if kernel else "mutate")
    limits = with_model_budget(Limits(evaluations=evaluations, seconds=seconds), chosen, model)
    plan = Plan(chains=chains, steps=steps_for(steps, limits), seed=seed)
    if kernel:
        from optimizer.kernel_run import kernel_specification

        problem = load_problem(kernel, size, fp, threads, jobs or 1)
        if destination and destination.resolve() == Path(problem.nest.file).resolve():
            raise UserError(f"--out {destination} is the kernel's own file: write the result somewhere else")
        specification = kernel_specification(problem, chosen, plan, limits)
    else:
        specification = text_specification(verifier, tests, seed_text or "", deadline, chosen, plan, limits)
    given = {**parse_options(more_options), **policy_options(chosen, model)}
    specification = replace(specification, policy_options=given, memory=bool(model["memory"]))
    if dry_run:
        print_estimate(specification, as_json)
        return
    check_control(control)
    directory = Path(run_dir).absolute() if run_dir else None
    done = watched(lambda observer: start(specification, directory, observer))
    finish(done, destination, as_json, control_of(done, control) if control else None)


def check_control(policy: str | None) -> None:
    """Raise `UserError` for a control that is no policy, before the run rather than after it."""
    if policy is not None:
        from optimizer.registry import make_policy

        make_policy(policy, {}, 0, 0)


def control_of(run: Run, policy: str) -> Run | None:
    """The same task under another policy with as many evaluations; None when the run was not brought to its end."""
    from optimizer.budget import Limits
    from optimizer.cli.output import say
    from optimizer.cli.watched import watched
    from optimizer.run import start

    if not run.result.stop_reason.is_final or not run.result.used.evaluations:
        return None
    say(f"the control: policy {policy} with as many evaluations")
    limits = Limits(evaluations=run.result.used.evaluations)
    plan = replace(run.specification.plan, steps=steps_for(None, limits))
    again = replace(run.specification, policy=policy, policy_options={}, plan=plan, limits=limits)
    return watched(lambda observer: start(again, run.directory.with_name(f"{run.directory.name}-control"), observer))


def print_estimate(specification: RunSpecification, as_json: bool) -> None:
    """What the calls of a run would cost. Raises `UserError` for a policy that calls no model."""
    from optimizer.cli.output import print_json
    from optimizer.llm.estimate import estimate

    found = estimate(specification)
    if as_json:
        print_json(found.to_json())
    else:
        click.echo("\n".join(found.lines()))


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
