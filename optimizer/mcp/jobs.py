"""What the tools and resources do. Runs in the engine's process, one job at a time.

A job takes the root, a way to tell how far it is, and its arguments. Its answer is what the command of that name prints
with --json.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from optimizer.budget import Limits
from optimizer.defaults import steps_for
from optimizer.destination import write_result
from optimizer.errors import UserError
from optimizer.events import ComparisonStarted, Event, RunResult, RunStarted, TrialFinished, Waiting
from optimizer.journal import FILE_NAME, read_record
from optimizer.kernel_loading import limit_seconds, load_nest, load_problem
from optimizer.kernel_problem import KernelProblem
from optimizer.kernel_run import exported_module, kernel_specification, machine_of_times, measurement_text, module_text
from optimizer.mcp.confinement import Root
from optimizer.mcp.policies import OWN_POLICIES
from optimizer.plan import Plan, StopReason
from optimizer.polyhedral.explain import explain as explain_nest
from optimizer.polyhedral.model import model_of
from optimizer.polyhedral.schedule import parse_schedule
from optimizer.registry import make_problem
from optimizer.run import Run, RunSpecification, read_specification
from optimizer.run import resume as resume_run
from optimizer.run import start as start_run
from optimizer.selection import select
from optimizer.single_check import verdicts_on
from optimizer.verdict import Status
from optimizer.views.catalog import kernels_json
from optimizer.views.check import assurance_of, check_json, measurement_of
from optimizer.views.nest import code_text, dependence_table, explanation_json, source_listing, summary_of_nest
from optimizer.views.run import run_json


class Tell(Protocol):
    """Told what happens; `done` out of `total` where that is known."""

    def __call__(self, message: str, done: float | None = None, total: float | None = None) -> None: ...


def list_kernels(root: Root, tell: Tell) -> list[dict[str, Any]]:
    return kernels_json()


def explain(
    root: Root, tell: Tell, kernel: str, size: str | None, schedule: str, fp: str, threads: int | None
) -> dict[str, Any]:
    nest, problem = load_nest(root.kernel(kernel), size, fp, threads)
    tree = parse_schedule(schedule).apply(nest)
    explanation = explain_nest(model_of(nest), tree)
    limit = limit_seconds(problem) if problem else None
    return explanation_json(kernel, nest, explanation, limit, code_text(nest, tree, fp) if schedule else None)


def check(
    root: Root, tell: Tell, kernel: str, schedule: str, size: str | None, fp: str, threads: int | None, timing: bool
) -> dict[str, Any]:
    problem = load_problem(root.kernel(kernel), size, fp, threads)
    candidate = problem.parse(schedule)
    verdicts = verdicts_on(problem, candidate, 0, timing, lambda reason: tell(f"waiting: {reason}"))
    return check_json(kernel, candidate.text, verdicts)


def run(
    root: Root,
    tell: Tell,
    kernel: str,
    size: str | None,
    policy: str,
    evaluations: int,
    seconds: float,
    fp: str,
    threads: int | None,
    seed: int,
) -> dict[str, Any]:
    problem = load_problem(root.kernel(kernel), size, fp, threads)
    limits = Limits(evaluations=evaluations, seconds=seconds)
    plan = Plan(steps=steps_for(None, limits), seed=seed)
    directory = root.new_run_directory(problem.nest.name)
    watcher = _Watcher(directory.name, tell)
    return _told(start_run(kernel_specification(problem, policy, plan, limits), directory, watcher))


def resume(root: Root, tell: Tell, run: str) -> dict[str, Any]:
    directory = root.run_directory(run)
    _confined(root, directory)
    return _told(resume_run(directory, _Watcher(run, tell), machine_of_times()))


def best(root: Root, tell: Tell, run: str) -> dict[str, Any]:
    return _told(_recorded(root, run))


def export(
    root: Root,
    tell: Tell,
    path: str,
    run: str | None,
    kernel: str | None,
    schedule: str | None,
    size: str | None,
    fp: str,
    threads: int | None,
    overwrite: bool,
) -> dict[str, Any]:
    target = root.export_target(path, overwrite)
    if run is not None and kernel is None and schedule is None:
        recorded = _recorded(root, run)
        _check_not_source(target, recorded.problem)
        write_result(target, exported_module(recorded))
        return _told(recorded, target)
    if run is not None or kernel is None or schedule is None:
        raise UserError("give either run, or kernel and schedule")
    problem = load_problem(root.kernel(kernel), size, fp, threads)
    _check_not_source(target, problem)
    candidate = problem.parse(schedule)
    verdicts = verdicts_on(problem, candidate, 0, True, lambda reason: tell(f"waiting: {reason}"))
    last, measurement = verdicts[-1], measurement_of(verdicts)
    if last.status is not Status.OK or measurement is None:
        hint = "" if last.repair is None else f"; the nearest legal schedule: {last.repair or '(the original)'}"
        raise UserError(f"nothing was written, the schedule is {last.status}: {last.reason}: {last.detail}{hint}")
    text = module_text(
        problem,
        candidate,
        machine=str(machine_of_times()["description"]),
        measured=measurement_text(problem, measurement),
        assurance=assurance_of(verdicts),
    )
    write_result(target, text)
    return {**check_json(kernel, candidate.text, verdicts), "export": str(target)}


def kernel_text(root: Root, tell: Tell, name: str) -> str:
    """The source with its names in the margin, what is parallel or permutable, and the dependences in words."""
    nest, _ = load_nest(root.kernel(name), None, "contract", None)
    explanation = explain_nest(model_of(nest), parse_schedule("").apply(nest))
    parts = (source_listing(nest), summary_of_nest(nest, explanation), dependence_table(explanation.dependences))
    return f"{name}\n\n" + "\n\n".join(parts) + "\n"


def journal(root: Root, tell: Tell, name: str) -> str:
    """The run's journal as it is, one JSON object a line."""
    path = root.inside(str(root.run_directory(name) / FILE_NAME))
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot read the journal of {name}: {error.strerror}") from None


JOBS: Mapping[str, Callable[..., Any]] = {
    job.__name__: job for job in (list_kernels, explain, check, run, resume, best, export, kernel_text, journal)
}


class _Watcher:
    """Tells what happens in a run."""

    def __init__(self, run: str, tell: Tell) -> None:
        self._run, self._tell, self._best = run, tell, 1.0

    def notify(self, event: Event) -> None:
        match event:
            case RunStarted():
                self._tell(f"run {self._run} goes on" if event.past_trials else f"run {self._run} begins", 0)
            case TrialFinished() if event.trial.number > 0:
                trial, budget = event.trial, event.budget
                self._best = max(self._best, trial.score or 0.0)
                score = f" {trial.score:.2f}x" if trial.score is not None else ""
                said = f"trial {trial.number}: {trial.outcome}{score}, best so far {self._best:.2f}x"
                self._tell(said, budget.used.evaluations, budget.limits.evaluations)
            case ComparisonStarted():
                self._tell("the best are measured again, side by side")
            case Waiting():
                self._tell(f"waiting: {event.reason}")
            case _:
                pass


def _recorded(root: Root, name: str) -> Run:
    """A run of this root as its journal tells it, over or not. Raises `UserError`."""
    directory = root.run_directory(name)
    specification = _confined(root, directory)
    record = read_record(directory)
    if not record.trials:
        raise UserError(f"run {name} has no trial yet")
    result = RunResult(
        trials=record.trials,
        selection=select(record.trials, specification.plan.finalists, record.finalists),
        finalists=record.finalists or (),
        stop_reason=record.stop_reason or StopReason.INTERRUPTED,
        chain_stops=record.chain_stops,
        used=record.spent,
    )
    return Run(directory, specification, make_problem(specification.problem), result)


def _confined(root: Root, directory: Path) -> RunSpecification:
    """The specification of a run as this server makes them: the file may have been written by somebody else."""
    specification = read_specification(directory)
    problem = specification.problem
    if problem.get("kind") != "kernel" or problem.get("arguments_file") or specification.policy not in OWN_POLICIES:
        raise UserError(f"run {directory.name} was not made by this server: use the command line for it")
    root.kernel(str(problem.get("kernel")))
    return specification


def _told(run: Run, export: Path | None = None) -> dict[str, Any]:
    return {"run": run.directory.name, **run_json(run.problem, run.result, run.directory, export)}


def _check_not_source(target: Path, problem: Any) -> None:
    if isinstance(problem, KernelProblem) and target == Path(problem.nest.file).resolve():
        raise UserError(f"{target.name} is the kernel's own file: write the result somewhere else")
