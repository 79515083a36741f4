"""A run and its folder: start one, go on with one, replay it without its policy, judge its candidates again.

The folder holds `run.json` (what was asked for), `journal.jsonl` (what happened) and `code/` (what verifiers wrote).
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import uuid
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from optimizer.budget import Ledger, Limits
from optimizer.errors import UserError
from optimizer.events import Observer, RunResult, Silent, Waiting
from optimizer.journal import Journal, read_record
from optimizer.judging import is_malformed
from optimizer.loop import run_loop
from optimizer.plan import Plan
from optimizer.protocols import Attachable, Policy, Problem
from optimizer.registry import make_policy, make_problem, make_verifiers
from optimizer.run_lock import LOCK_NAME, RunInUse, locked
from optimizer.services import Closable
from optimizer.trial import Trial

SPECIFICATION_NAME = "run.json"
DRAFT_NAME = "run.draft"
CODE_NAME = "code"
FORMAT = 1


def _versions() -> dict[str, str]:
    try:
        own = version("loopwright")
    except PackageNotFoundError:
        own = "not installed"
    return {"loopwright": own, "python": platform.python_version()}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, slots=True)
class RunSpecification:
    """All that is needed to do a run again; `run.json` is its JSON form."""

    problem: Mapping[str, Any]
    """What `Problem.specification` gave."""
    policy: str
    policy_options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    verifier_options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    plan: Plan = Plan()
    limits: Limits = Limits()
    memory: bool = False
    """Whether the winner is to be remembered for later runs."""
    machine: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Where scores depend on the machine: what identifies it, with a `digest` of all that."""
    versions: Mapping[str, str] = field(default_factory=_versions)
    created: str = field(default_factory=_now)
    origin: str = ""
    """The run that this one replays or judges again."""
    format: Literal[1] = FORMAT


@dataclass(frozen=True, slots=True)
class Run:
    """A run that has ended, for now or for good."""

    directory: Path
    specification: RunSpecification
    problem: Problem
    result: RunResult


@dataclass(frozen=True, slots=True)
class Rescore:
    """Every distinct candidate of a run, as it was judged then and now."""

    run: Run
    pairs: tuple[tuple[Trial, Trial], ...]


def start(specification: RunSpecification, directory: Path | None = None, observer: Observer | None = None) -> Run:
    """Make a run in a new folder: `directory`, or one in the data folder. Raises `UserError`, `InfrastructureError`."""
    problem = make_problem(specification.problem)
    _policies(specification)
    directory = directory or runs_directory() / _folder_name(problem.name)
    is_new = not directory.exists()
    try:
        _claim(directory, specification)
    except OSError as error:
        raise UserError(
            f"cannot write the run's folder {directory}: {error.strerror}; choose another with --run-dir DIR, or set "
            "LOOPWRIGHT_HOME to a folder that can be written"
        ) from error
    try:
        return _go(directory, specification, problem, observer)
    except RunInUse:
        raise
    except UserError:
        if is_new and not read_record(directory).trials:
            shutil.rmtree(directory, ignore_errors=True)
        raise


def resume(directory: Path, observer: Observer | None = None, machine: Mapping[str, Any] | None = None) -> Run:
    """Go on with a run that was interrupted or killed; one that is over only gives its result.

    Raises `UserError`, also when `machine` is given and the run was begun, and is not over, on another one.
    """
    specification = read_specification(directory)
    begun_on = specification.machine.get("digest")
    if machine is not None and begun_on not in (None, machine.get("digest")) and not _is_over(directory):
        raise UserError(
            f"the run in {directory} was begun on another machine or with other versions, and such scores cannot be "
            "compared: rescore it to judge its candidates here"
        )
    return _go(directory, specification, make_problem(specification.problem), observer)


def replay(
    directory: Path,
    into: Path | None = None,
    observer: Observer | None = None,
    machine: Mapping[str, Any] | None = None,
) -> Run:
    """Make the same proposals as a recorded run, without its policy, in a new run. Raises `UserError`."""
    specification = read_specification(directory)
    trials = _with_candidate(read_record(directory).trials)
    chains = [
        [trial.candidate.text for trial in trials[1:] if trial.chain == chain]
        for chain in range(specification.plan.chains)
    ]
    return start(_derived(specification, directory, chains, machine), into, observer)


def rescore(
    directory: Path,
    into: Path | None = None,
    observer: Observer | None = None,
    machine: Mapping[str, Any] | None = None,
) -> Rescore:
    """Judge every distinct candidate of a recorded run again, in a new run without limits. Raises `UserError`."""
    specification = read_specification(directory)
    old = _distinct(_with_candidate(read_record(directory).trials))
    texts = [trial.candidate.text for trial in old[1:]]
    plan = replace(specification.plan, chains=1, steps=max(1, len(texts)), patience=None, target=None)
    again = replace(_derived(specification, directory, [texts], machine), plan=plan, limits=Limits())
    run = start(again, into, observer)
    return Rescore(run, tuple(zip(old, run.result.trials, strict=False)))


def read_specification(directory: Path) -> RunSpecification:
    """What was asked for in a run's folder. Raises `UserError`."""
    path = directory / SPECIFICATION_NAME
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise UserError(f"{directory} is no run folder: there is no {SPECIFICATION_NAME} in it") from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    from pydantic import TypeAdapter, ValidationError  # slow to import, and only needed here

    try:
        return TypeAdapter(RunSpecification).validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise UserError(f"{path} is damaged or of another version: {place}: {first['msg']}") from error


def runs_directory() -> Path:
    """Where runs live: in LOOPWRIGHT_HOME if that is set, else in the platform's folder for user data."""
    home = os.environ.get("LOOPWRIGHT_HOME")
    if home:
        return Path(home) / "runs"
    from platformdirs import user_data_path

    return user_data_path("loopwright", appauthor=False) / "runs"


def _go(directory: Path, specification: RunSpecification, problem: Problem, observer: Observer | None) -> Run:
    observer = observer or Silent()
    policies = _policies(specification)
    with Journal(directory) as journal, _verifiers(problem, directory, specification, observer) as verifiers:
        ledger = Ledger(specification.limits, journal.record.spent)
        result = run_loop(problem, policies, verifiers, specification.plan, ledger, journal, observer)
    return Run(directory, specification, problem, result)


@contextmanager
def _verifiers(
    problem: Problem, directory: Path, specification: RunSpecification, observer: Observer
) -> Generator[list[Any]]:
    def waiting(reason: str) -> None:
        observer.notify(Waiting(reason))

    with ExitStack() as stack:
        verifiers = list(make_verifiers(problem, directory / CODE_NAME, specification.verifier_options, waiting))
        for verifier in verifiers:
            if isinstance(verifier, Closable):
                stack.callback(verifier.close)
        yield verifiers


def _policies(specification: RunSpecification) -> list[Policy | Attachable]:
    plan = specification.plan
    return [
        make_policy(specification.policy, specification.policy_options, plan.seed, chain)
        for chain in range(plan.chains)
    ]


def _derived(
    specification: RunSpecification, directory: Path, chains: list[list[str]], machine: Mapping[str, Any] | None
) -> RunSpecification:
    return replace(
        specification,
        policy="replay",
        policy_options={"chains": chains},
        machine=machine or {},
        versions=_versions(),
        created=_now(),
        origin=str(directory.resolve()),
    )


def _is_over(directory: Path) -> bool:
    reason = read_record(directory).stop_reason
    return reason is not None and reason.is_final


def _with_candidate(trials: Sequence[Trial]) -> list[Trial]:
    """Those that are not only the record of an answer without a candidate."""
    return [trial for trial in trials if not is_malformed(trial.candidate)]


def _distinct(trials: Sequence[Trial]) -> list[Trial]:
    """The first trial of each candidate."""
    first: dict[str, Trial] = {}
    for trial in trials:
        first.setdefault(trial.candidate.digest, trial)
    return list(first.values())


def _folder_name(problem: str) -> str:
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", problem).strip("-.") or "run"
    return f"{stamp}-{name}-{uuid.uuid4().hex[:6]}"


def _claim(directory: Path, specification: RunSpecification) -> None:
    """Make a folder that of a run; of two processes that try, one succeeds. Raises `UserError` and `OSError`."""
    directory.mkdir(parents=True, exist_ok=True)
    _check_unused(directory)
    with locked(directory):
        _check_unused(directory)
        (directory / CODE_NAME).mkdir(exist_ok=True)
        _write_specification(directory, specification)


def _check_unused(directory: Path) -> None:
    """Raise `UserError` for a folder with more in it than a start that was killed leaves behind."""
    code = directory / CODE_NAME
    names = {path.name for path in directory.iterdir()} - {LOCK_NAME, CODE_NAME, DRAFT_NAME}
    if names or (code.exists() and any(code.iterdir())):
        raise UserError(f"{directory} is not empty: resume the run in it, or choose another folder with --run-dir")


def _write_specification(directory: Path, specification: RunSpecification) -> None:
    """All of it or nothing: a killed process leaves no half-written file behind."""
    from pydantic import TypeAdapter

    draft = directory / DRAFT_NAME
    with draft.open("wb") as file:
        file.write(TypeAdapter(RunSpecification).dump_json(specification, indent=2) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(directory / SPECIFICATION_NAME)
