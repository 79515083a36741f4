"""Runs of kernels: what to ask for, and the stand-alone module that a finished one gives."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from optimizer.budget import Limits
from optimizer.candidate import Candidate
from optimizer.codegen.backend import CodeOptions
from optimizer.codegen.export import ExportHeader, export_module
from optimizer.kernel_problem import KernelProblem
from optimizer.measure.machine import VERSIONED, this_machine
from optimizer.plan import Plan
from optimizer.run import Run, RunSpecification
from optimizer.verdict import Measurement
from optimizer.wording import speedup_text


def kernel_specification(
    problem: KernelProblem, policy: str, plan: Plan, limits: Limits, policy_options: Mapping[str, Any] | None = None
) -> RunSpecification:
    """The run of a policy on a kernel, with the machine that its times will hold for."""
    return RunSpecification(
        problem=problem.specification(),
        policy=policy,
        policy_options=dict(policy_options or {}),
        verifier_options={"seed": plan.seed},
        plan=plan,
        limits=limits,
        machine=machine_of_times(),
    )


def machine_of_times() -> dict[str, Any]:
    """The machine that times taken now hold for, as a run's specification has it."""
    machine = this_machine()
    return {"description": str(machine), **machine.to_json()}


def exported_module(run: Run) -> str:
    """The winner as a module that needs NumPy and Numba alone. Raises `ValueError` for a run of another kind."""
    problem, winner = run.problem, run.result.winner
    if not isinstance(problem, KernelProblem):
        raise ValueError(f"a problem of kind {problem.kind} has no module to export")
    return module_text(
        problem,
        winner.candidate,
        machine=str(run.specification.machine.get("description", "unknown")),
        measured=measured_text(run),
        assurance=winner.assurance,
    )


def module_text(problem: KernelProblem, candidate: Candidate, machine: str, measured: str, assurance: str) -> str:
    """A verified candidate as a module that needs NumPy and Numba alone, with what was found out about it."""
    header = ExportHeader(
        schedule=candidate.text,
        machine=machine,
        versions=_versions(),
        measured=measured,
        assurance=assurance,
        date=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    return export_module(problem.nest, problem.tree(candidate), CodeOptions(problem.fp), header)


def measured_text(run: Run) -> str:
    """The winner's speedup with interval, over what, at which size and with how many threads."""
    problem, selection = run.problem, run.result.selection
    if not isinstance(problem, KernelProblem):
        raise ValueError(f"a problem of kind {problem.kind} has no speedup")
    measured = selection.measured or selection.selected
    if measured is None or selection.winner.number == 0:
        return f"nothing that was tried is faster than the original {_conditions(problem)}"
    return measurement_text(problem, measured)


def measurement_text(problem: KernelProblem, measured: Measurement) -> str:
    """A speedup with interval, over what, at which size and with how many threads."""
    speedup = speedup_text(measured.score, measured.interval)
    return f"{speedup} over the original under serial Numba {_conditions(problem)}"


def _conditions(problem: KernelProblem) -> str:
    sizes = ", ".join(f"{name}={value}" for name, value in problem.sizes.items())
    threads = "1 thread" if problem.threads == 1 else f"{problem.threads} threads"
    return f"at {sizes}, {threads}, {problem.fp.value} floating point"


def _versions() -> dict[str, str]:
    try:
        own = version("loopwright")
    except PackageNotFoundError:
        own = ""
    return {"loopwright": own, "python": platform.python_version(), **{name: version(name) for name in VERSIONED}}
