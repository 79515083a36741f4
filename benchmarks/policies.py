"""Policies against each other: every policy on every kernel, repeated, all under one equal number of evaluations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from statistics import median, median_low
from typing import Any

import numpy as np

from optimizer.budget import Limits
from optimizer.closed_loop import Tally, tally_of
from optimizer.defaults import steps_for
from optimizer.errors import UserError
from optimizer.events import Observer
from optimizer.kernel_problem import KernelProblem
from optimizer.kernel_run import kernel_specification
from optimizer.measure.statistics import best_of, geometric_mean, is_tie
from optimizer.plan import Plan, StopReason
from optimizer.policy_text import parse_policy
from optimizer.registry import make_policy
from optimizer.run import SPECIFICATION_NAME, Run, RunSpecification, read_specification, resume, start
from optimizer.trial import Trial
from optimizer.verdict import Status

DRAWS = 2000

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Experiment:
    """What is compared: `repeats` runs of each policy on each kernel, of `evaluations` each."""

    kernels: tuple[str, ...]
    policies: tuple[str, ...]
    """Names, with options as `optimizer.policy_text` reads them."""
    evaluations: int
    repeats: int
    size: str
    seed: int = 0
    threads: int | None = None
    fp: str = "contract"

    def __post_init__(self) -> None:
        for what, names in (("kernel", self.kernels), ("policy", self.policies)):
            if not names:
                raise UserError(f"a benchmark needs at least one {what}")
            if len(set(names)) < len(names):
                raise UserError(f"a {what} is named twice in {', '.join(names)}")
        for what, count in (("evaluations", self.evaluations), ("repeats", self.repeats)):
            if count < 1:
                raise UserError(f"{what} must be at least 1, not {count}")

    def specification(self, policy: str, problem: KernelProblem, repeat: int) -> RunSpecification:
        """One run; repeats differ in their seed alone, which all policies share."""
        seed = self.seed + repeat
        limits = Limits(evaluations=self.evaluations)
        name, options = parse_policy(policy)
        return kernel_specification(problem, name, Plan(steps=steps_for(None, limits), seed=seed), limits, options)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run came to."""

    policy: str
    kernel: str
    repeat: int
    speedup: float | None
    """None when the harness failed: that is no score, and is left out of the means."""
    interval: Interval
    evaluations: int
    stop_reason: str
    schedule: str
    run_dir: str
    tally: Tally = Tally()
    """Of its proposals, without those that the harness failed to judge."""


@dataclass(frozen=True, slots=True)
class PolicySummary:
    """What one policy came to over all kernels."""

    policy: str
    geometric_mean: float
    """Of the speedups, over kernels and repeats."""
    interval: Interval
    """95%, by a bootstrap of kernels and of the repeats within them."""
    median: float
    """Over kernels, of what a run comes to on each: where a few kernels make the mean, it shows."""
    single: float
    """Geometric mean over kernels of the speedup to expect from one run."""
    best_of_repeats: float
    """The same for the best of all repeats."""
    wins: int
    """Kernels on which it beats the first policy: typical runs compared, intervals apart."""
    ties: int
    losses: int
    evaluations: int
    """That its runs really used, together."""
    failed_runs: int
    accepted: float | None
    """The share of proposals that all verifiers accepted; None without a proposal. See `optimizer.closed_loop`."""
    accepted_interval: Interval | None
    """95%, Wilson's."""
    accepted_in_two: float | None
    """The chance that a proposal, or if it is rejected one more attempt, is accepted."""
    evaluations_per_accepted: float | None
    """None where nothing was accepted."""


class Interrupted(Exception):
    """A run was interrupted; all that was measured is saved."""


def run_experiment(
    experiment: Experiment, directory: Path, observer: Observer, tell: Callable[[Outcome], None]
) -> tuple[Outcome, ...]:
    """Every run in its own folder below `directory`; those that are there already are gone on with, not repeated.

    Raises `UserError` for wrong names and for folders of another experiment, `Interrupted` when a run was.
    """
    problems = {
        kernel: KernelProblem.load(kernel, experiment.size, experiment.fp, experiment.threads)
        for kernel in experiment.kernels
    }
    for policy in experiment.policies:
        make_policy(*parse_policy(policy), experiment.seed, chain=0)
    outcomes: list[Outcome] = []
    # Policies alternate innermost, so that slow drift of the machine meets all of them alike.
    for kernel, repeat, policy in product(experiment.kernels, range(experiment.repeats), experiment.policies):
        folder = directory / _folder_name(policy) / _folder_name(kernel) / str(repeat)
        run = _run(experiment.specification(policy, problems[kernel], repeat), folder, observer)
        if run.result.stop_reason is StopReason.INTERRUPTED:
            raise Interrupted
        outcome = _outcome(policy, kernel, repeat, run)
        tell(outcome)
        outcomes.append(outcome)
    return tuple(outcomes)


def summarize(experiment: Experiment, outcomes: Sequence[Outcome]) -> tuple[PolicySummary, ...]:
    """One summary a policy, in the order given. Raises `UserError` when every run of a policy on a kernel failed."""
    return tuple(_summarize(experiment, policy, outcomes) for policy in experiment.policies)


def to_json(
    experiment: Experiment, outcomes: Sequence[Outcome], summaries: Sequence[PolicySummary], directory: Path
) -> dict[str, Any]:
    return {
        **asdict(experiment),
        "summaries": [asdict(summary) for summary in summaries],
        "runs": [asdict(outcome) for outcome in outcomes],
        "run_dir": str(directory),
    }


def mean_interval(values: Sequence[Sequence[float]], seed: int) -> Interval:
    """95% interval of the geometric mean: kernels (the outer sequence) are drawn, then repeats within each."""
    rng = np.random.default_rng(seed)
    logs = [np.log(np.asarray(repeats, float)) for repeats in values]
    chosen = rng.integers(len(logs), size=(DRAWS, len(logs)))
    draws = [np.mean([rng.choice(logs[kernel], logs[kernel].size).mean() for kernel in kernels]) for kernels in chosen]
    low, high = np.exp(np.percentile(draws, [2.5, 97.5]))
    return float(low), float(high)


def _run(specification: RunSpecification, folder: Path, observer: Observer) -> Run:
    if not (folder / SPECIFICATION_NAME).exists():
        return start(specification, folder, observer)
    found = read_specification(folder)
    for name in ("problem", "policy", "policy_options", "plan", "limits"):
        if getattr(found, name) != getattr(specification, name):
            raise UserError(f"{folder} holds a run with another {name}: choose another folder with --run-dir")
    return resume(folder, observer, specification.machine)


def _outcome(policy: str, kernel: str, repeat: int, run: Run) -> Outcome:
    result = run.result
    measured = result.selection.measured or result.selection.selected
    failed = result.stop_reason is StopReason.INFRASTRUCTURE_ERRORS
    return Outcome(
        policy=policy,
        kernel=kernel,
        repeat=repeat,
        speedup=None if failed else measured.score if measured else 1.0,
        interval=measured.interval if measured else (1.0, 1.0),
        evaluations=result.used.evaluations,
        stop_reason=result.stop_reason.value,
        schedule=result.winner.candidate.text,
        run_dir=str(run.directory),
        tally=_tally(result.trials[1:]),
    )


def _tally(trials: Sequence[Trial]) -> Tally:
    """Of all chains of a run, from the trials behind its baseline."""
    tally = Tally()
    for chain in {trial.chain for trial in trials}:
        judged = [trial.status for trial in trials if trial.chain == chain and trial.status is not Status.ERROR]
        tally = tally.plus(tally_of([status is Status.OK for status in judged]))
    return tally


def _summarize(experiment: Experiment, policy: str, outcomes: Sequence[Outcome]) -> PolicySummary:
    own = [outcome for outcome in outcomes if outcome.policy == policy]
    speedups = [_speedups(own, kernel) for kernel in experiment.kernels]
    for kernel, values in zip(experiment.kernels, speedups, strict=True):
        if not values:
            raise UserError(f"every run of {policy} on {kernel} failed: `loopwright doctor` looks at this machine")
    tally = Tally()
    for outcome in own:
        tally = tally.plus(outcome.tally)
    by_kernel = [geometric_mean(values) for values in speedups]
    loop, evaluations = tally.loop(rounds=1), sum(outcome.evaluations for outcome in own)
    results = [_against(experiment.policies[0], policy, kernel, outcomes) for kernel in experiment.kernels]
    return PolicySummary(
        policy=policy,
        geometric_mean=geometric_mean(by_kernel),
        interval=mean_interval(speedups, experiment.seed),
        median=median(by_kernel),
        single=geometric_mean([best_of(values, 1) for values in speedups]),
        best_of_repeats=geometric_mean([best_of(values, len(values)) for values in speedups]),
        wins=results.count(1),
        ties=results.count(0),
        losses=results.count(-1),
        evaluations=evaluations,
        failed_runs=sum(outcome.speedup is None for outcome in own),
        accepted=tally.share.value,
        accepted_interval=tally.share.interval,
        accepted_in_two=loop.acceptance if loop else None,
        evaluations_per_accepted=(
            loop.cost_per_accepted(evaluations / tally.share.total) if loop and tally.accepted else None
        ),
    )


def _speedups(outcomes: Iterable[Outcome], kernel: str) -> list[float]:
    return [outcome.speedup for outcome in outcomes if outcome.kernel == kernel and outcome.speedup is not None]


def _against(first: str, policy: str, kernel: str, outcomes: Sequence[Outcome]) -> int:
    """1 when the policy's typical run beats that of the first policy, -1 when it loses, 0 for a tie."""
    one, other = _typical(policy, kernel, outcomes), _typical(first, kernel, outcomes)
    if is_tie(one[1], other[1]):
        return 0
    return 1 if one[0] > other[0] else -1


def _typical(policy: str, kernel: str, outcomes: Sequence[Outcome]) -> tuple[float, Interval]:
    """Speedup and interval of the run with the median speedup (the lower one of two)."""
    return median_low(
        (outcome.speedup, outcome.interval)
        for outcome in outcomes
        if outcome.policy == policy and outcome.kernel == kernel and outcome.speedup is not None
    )


def _folder_name(name: str) -> str:
    """A name as one folder: a file of the user's has slashes in it, a policy's options have colons."""
    return "".join(character if character.isalnum() or character in "-_." else "-" for character in name)
