"""The Python API: `optimizer.optimize(function_or_name, ...) -> Result`."""

from __future__ import annotations

import html
import importlib.util
import inspect
import itertools
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from optimizer.budget import Limits
from optimizer.defaults import size_for, steps_for
from optimizer.errors import UserError
from optimizer.events import Observer
from optimizer.function_file import kernel_file_text
from optimizer.kernel_problem import KernelProblem
from optimizer.kernel_run import exported_module, kernel_specification
from optimizer.plan import Plan, StopReason
from optimizer.polyhedral.frontend import nest_of_function
from optimizer.polyhedral.nest import Nest
from optimizer.run import Run, runs_directory, start
from optimizer.trial import Trial
from optimizer.wording import score_text, speedup_text

Arguments = Mapping[str, Any] | Sequence[Any]


@dataclass(frozen=True)
class Result:
    """The best verified candidate of a run; never slower than the original."""

    run: Run = field(repr=False)

    @property
    def speedup(self) -> float:
        """Over the original under serial Numba; 1.0 when nothing faster was found."""
        measured = self.run.result.selection.measured or self.run.result.selection.selected
        return measured.score if measured else 1.0

    @property
    def interval(self) -> tuple[float, float]:
        """The 95% interval of the speedup."""
        measured = self.run.result.selection.measured or self.run.result.selection.selected
        return measured.interval if measured else (1.0, 1.0)

    @property
    def schedule(self) -> str:
        """The winner's steps; empty for the untouched original."""
        return self.run.result.winner.candidate.text

    @property
    def assurance(self) -> str:
        """What was proved and what was tested."""
        return self.run.result.winner.assurance

    @property
    def trials(self) -> tuple[Trial, ...]:
        """Everything that was tried; the first is the original."""
        return self.run.result.trials

    @property
    def stop_reason(self) -> StopReason:
        return self.run.result.stop_reason

    @property
    def run_dir(self) -> Path:
        return self.run.directory

    @cached_property
    def source(self) -> str:
        """A stand-alone module with the fast function, which needs NumPy and Numba alone."""
        return exported_module(self.run)

    @cached_property
    def function(self) -> Callable[..., Any]:
        """The fast function, ready to be called; Numba compiles it at the first call."""
        name = _function_name(self.run)
        path = self.run.directory / "code" / f"exported_{name}.py"
        return getattr(_load(self.export(path)), name)

    def export(self, path: str | Path) -> Path:
        """Write `source` to a file. Raises `UserError` when that cannot be written."""
        path = Path(path)
        try:
            path.write_text(self.source, encoding="utf-8")
        except OSError as error:
            raise UserError(f"cannot write {path}: {error.strerror}") from error
        return path

    def _repr_html_(self) -> str:
        rows = {
            "kernel": self.run.problem.name,
            "speedup": speedup_text(self.speedup, self.interval),
            "schedule": self.schedule or "(the original)",
            "assurance": self.assurance,
            "outcomes": ", ".join(f"{count} {outcome}" for outcome, count in self.run.result.outcomes.items()),
            "stopped": self.stop_reason.value,
            "run": str(self.run_dir),
        }
        best = sorted((t for t in self.trials if t.score is not None), key=lambda trial: -(trial.score or 0.0))[:5]
        shown = (f"{score_text(trial.measurement)} {trial.candidate.text or '(the original)'}" for trial in best)
        rows["best trials"] = "; ".join(shown)
        cells = "".join(f"<tr><th>{html.escape(k)}</th><td>{html.escape(v)}</td></tr>" for k, v in rows.items())
        return f"<table>{cells}</table>"


def optimize(
    function_or_name: Callable[..., Any] | str,
    *,
    args: Arguments | None = None,
    size: str | Mapping[str, int] | None = None,
    policy: str = "polyhedral",
    policy_options: Mapping[str, Any] | None = None,
    budget: Limits | int | None = None,
    chains: int = 1,
    steps: int | None = None,
    seed: int = 0,
    threads: int | None = None,
    fp: str = "contract",
    run_dir: str | Path | None = None,
    observer: Observer | None = None,
) -> Result:
    """Search for a faster version of a kernel, prove and test what is found, and measure it.

    Args:
        function_or_name: A Python function of loops, a bundled kernel's name, or `file.py:function`.
        args: Example arguments by name or in order: they say types and sizes, and the function is timed on copies.
        size: A named size of a bundled kernel (`large` by default), or a value for each size of the kernel.
        policy: What proposes; `loopwright policies` lists them.
        policy_options: Options of the policy, such as `{"model": ...}` of `llm`.
        budget: Limits, or a number of evaluations.
        chains: Lines of refinement.
        steps: Proposals of a chain.
        seed: Of all randomness.
        threads: What candidates may use; all cores by default.
        fp: `strict`, `contract` or `reassociate`.
        run_dir: A new folder for the run; one in the data folder by default.
        observer: Told of every event.

    Raises:
        UserError: when something given is wrong or not supported.
        InfrastructureError: when the measuring itself failed.
    """
    limits = budget if isinstance(budget, Limits) else Limits(evaluations=budget)
    directory = Path(run_dir) if run_dir is not None else None
    if isinstance(function_or_name, str):
        if args is not None:
            raise UserError("example arguments go with a function; a kernel's name goes with a size")
        wanted = size_for(function_or_name, None) if size is None else size
        problem = KernelProblem.load(function_or_name, wanted, fp, threads)
    else:
        nest = nest_of_function(function_or_name, args)
        given = None if args is None else _by_name(function_or_name, args)
        if given is not None and size is not None:
            raise UserError("give example arguments or a size, not both: the arguments have sizes")
        if given is not None:
            _check_overlap(nest, given)
        file, arguments_file = _write_files(nest, given, directory)
        wanted = size if given is None else _sizes(nest, given)
        problem = KernelProblem.load(f"{file}:{nest.name}", wanted, fp, threads)
        problem = replace(problem, arguments_file=arguments_file)
    plan = Plan(chains=chains, steps=steps_for(steps, limits), seed=seed)
    specification = kernel_specification(problem, policy, plan, limits, policy_options)
    return Result(start(specification, directory, observer))


def _by_name(function: Callable[..., Any], args: Arguments) -> dict[str, Any]:
    """The arguments by name, defaults included; that they fit was found out when the nest was made."""
    signature = inspect.signature(inspect.unwrap(getattr(function, "py_func", function)))
    bound = signature.bind(**args) if isinstance(args, Mapping) else signature.bind(*args)
    bound.apply_defaults()
    return dict(bound.arguments)


def _check_overlap(nest: Nest, given: Mapping[str, Any]) -> None:
    """Raise `UserError` when something that is written shares memory with another argument."""
    arrays = {name: value for name, value in given.items() if isinstance(value, np.ndarray)}
    written = {access.array for s in nest.statements for access in s.accesses if access.is_write}
    for (one, first), (other, second) in itertools.combinations(arrays.items(), 2):
        if {one, other} & written and np.may_share_memory(first, second):
            raise UserError(
                f"arguments {one} and {other} may overlap in memory, and a kernel's arguments must not: pass copies"
            )


def _sizes(nest: Nest, given: Mapping[str, Any]) -> dict[str, int]:
    """The size that the arguments have."""
    extents = {name: int(given[array].shape[dimension]) for name, array, dimension in nest.extents}
    return {name: extents[name] if name in extents else int(given[name]) for name in nest.parameters}


def _write_files(nest: Nest, given: Mapping[str, Any] | None, directory: Path | None) -> tuple[Path, str | None]:
    """The kernel's file and that of its arguments, beside the run's folder or in the data folder."""
    folder = Path(f"{directory}-input") if directory else runs_directory().parent / "inputs" / uuid.uuid4().hex[:12]
    file, arguments = folder.absolute() / f"{nest.name}.py", folder.absolute() / "arguments.npz"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(kernel_file_text(nest), encoding="utf-8")
        if given is not None:
            np.savez(arguments, **given)
    except OSError as error:
        raise UserError(
            f"cannot write {folder}: {error.strerror}; choose another place with run_dir, or set LOOPWRIGHT_HOME to a "
            "folder that can be written"
        ) from error
    return file, None if given is None else str(arguments)


def _function_name(run: Run) -> str:
    assert isinstance(run.problem, KernelProblem)
    return run.problem.nest.name


def _load(path: Path) -> ModuleType:
    """Import a file under a name of its own."""
    name = f"loopwright_exported_{uuid.uuid4().hex}"
    specification = importlib.util.spec_from_file_location(name, path)
    if specification is None or specification.loader is None:
        raise ValueError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module  # Numba and pickle look modules up there
    specification.loader.exec_module(module)
    return module
