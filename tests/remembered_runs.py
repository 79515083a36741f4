"""Runs as memory keeps them, and kernels that are gemm under other names."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from optimizer.budget import Amounts
from optimizer.events import RunResult
from optimizer.kernel_problem import KernelProblem
from optimizer.memory.entry import Entry
from optimizer.memory.hints import remember
from optimizer.memory.store import Memory
from optimizer.plan import StopReason
from optimizer.run import Run, RunSpecification
from optimizer.selection import Selection
from optimizer.trial import Trial
from optimizer.verdict import Measurement, Status, Verdict

NOW = datetime(2030, 5, 17, 12, tzinfo=UTC)
HERE, ELSEWHERE = "0123456789abcdef", "fedcba9876543210"
FAST = "distribute(i); tile(i_2=32, k=32, j_2=32); parallel(i_2_t)"
"""Of gemm."""

RENAMED = """
import numpy as np
from jaxtyping import Float64


def multiply(
    right: Float64[np.ndarray, "depth columns"],
    left: Float64[np.ndarray, "rows depth"],
    out: Float64[np.ndarray, "rows columns"],
    weight: float,
    rows: int,
    columns: int,
    depth: int,
):
    for r in range(rows):
        for c in range(columns):
            out[r, c] *= 0.5
        for d in range(depth):
            for c in range(columns):
                out[r, c] += weight * left[r, d] * right[d, c]
"""
"""gemm under other names, with its arguments in another order."""
SAME_LOOPS = RENAMED.replace("left[r, d] * right[d, c]", "right[d, c] * left[r, d]")
BACKWARDS = RENAMED.replace("left[r, d] * right[d, c]", "out[r - 1, c]").replace("in range(rows)", "in range(1, rows)")
RECURRENCE = """
import numpy as np
from jaxtyping import Float64


def {name}(n: int, x: Float64[np.ndarray, "n"], y: Float64[np.ndarray, "n"]):
    for i in range(1, n):
        y[i] = 0.5 * {read}
"""


def own_problem(folder: Path, source: str, name: str = "multiply", **sizes: int) -> KernelProblem:
    path = folder / f"{name}.py"
    path.write_text(source, encoding="utf-8")
    sizes = sizes or {"rows": 60, "columns": 70, "depth": 80}
    return KernelProblem.load(f"{path}:{name}", sizes, threads=2)


def run_of(
    problem: KernelProblem,
    schedule: str,
    speedup: float = 3.0,
    spread: float = 0.1,
    machine: str = HERE,
    when: datetime = NOW,
) -> Run:
    """A run that ended with this winner."""
    one = Measurement(1.0, (1.0, 1.0), 0)
    baseline = Trial(0, 0, 0, problem.baseline, (Verdict(Status.OK, "baseline", measurement=one),))
    measured = Measurement(speedup, (speedup - spread, speedup + spread), 9)
    timing = Verdict(Status.OK, "timing", measurement=measured)
    winner = Trial(1, 0, 1, problem.parse(schedule), (timing,), when=when.timestamp())
    selection = Selection(winner, measured, measured) if schedule else Selection(baseline, one, None)
    result = RunResult((baseline, winner), selection, (), StopReason.STEPS_DONE, (), Amounts())
    specification = RunSpecification(
        problem.specification(), "polyhedral", machine={"digest": machine, "description": "a machine"}
    )
    return Run(Path("run-1"), specification, problem, result)


def kept(memory: Memory, problem: KernelProblem, schedule: str = FAST, **changes: Any) -> Entry:
    entry = remember(run_of(problem, schedule, **changes), memory=memory)
    assert entry is not None
    return entry
