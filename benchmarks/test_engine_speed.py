"""Micro-benchmarks of the engine (pytest-benchmark): `make bench`.

What must hold: judging a six-step schedule below 100 ms at the 95th percentile over all kernels, `loopwright --help`
below 0.3 s, `loopwright lint` of 500 lines of kernels below 1 s.
"""

import ast
import inspect
import random
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from kernels import catalog
from optimizer.errors import StepError
from optimizer.lint import lint_source
from optimizer.polyhedral.frontend import nest_of_file
from optimizer.polyhedral.legality import judge
from optimizer.polyhedral.model import Model
from optimizer.polyhedral.steps.sampling import random_schedule
from optimizer.polyhedral.tree import Node

SCHEDULES = 8
"""Six-step schedules for each kernel."""


def six_step_trees(name: str) -> tuple[Model, list[Node]]:
    entry = catalog.entry(name)
    model = Model(nest_of_file(f"{entry.load().__file__}:{entry.function}"))
    _ = model.conflicts
    trees: list[Node] = []
    seed = 0
    while len(trees) < SCHEDULES:
        schedule = random_schedule(model.nest, random.Random(f"{name}/{seed}"), 6)
        seed += 1
        if len(schedule.steps) < 6 and seed < 200:
            continue
        try:
            trees.append(schedule.apply(model.nest))
        except StepError:
            continue
    return model, trees


def test_legality_of_six_steps(benchmark: BenchmarkFixture) -> None:
    cases = [(model, tree) for name in catalog.names() for model, trees in [six_step_trees(name)] for tree in trees]
    remaining = iter(cases)
    benchmark.pedantic(judge, setup=lambda: (next(remaining), {}), rounds=len(cases), iterations=1)
    if benchmark.stats is None:
        return
    times = sorted(benchmark.stats.stats.data)
    ninety_fifth = times[int(0.95 * len(times))]
    benchmark.extra_info |= {"median_ms": 1000 * statistics.median(times), "p95_ms": 1000 * ninety_fifth}
    print(
        f"\n{len(times)} schedules: median {1000 * statistics.median(times):.1f} ms, p95 {1000 * ninety_fifth:.1f} ms"
    )
    assert ninety_fifth < 0.1


def test_lint_of_500_lines(benchmark: BenchmarkFixture) -> None:
    header = "import math\nimport numpy as np\nfrom jaxtyping import Float32, Float64, Int64\n"
    functions = "\n\n".join(inspect.getsource(catalog.entry(name).load_function()) for name in catalog.names())
    tree = ast.parse(header + functions)
    last = max(node.end_lineno or 0 for node in tree.body if (node.end_lineno or 0) <= 500)
    text = "\n".join((header + functions).splitlines()[:last])
    report = benchmark.pedantic(lint_source, (text, "kernels.py"), rounds=5)
    assert (report.findings, report.skipped) == ((), ())
    if benchmark.stats is not None:
        stats: Any = benchmark.stats.stats
        assert stats.median < 1.0


@pytest.mark.parametrize("arguments", [["--help"], ["kernels", "--help"]])
def test_help_starts_quickly(benchmark: BenchmarkFixture, arguments: list[str]) -> None:
    command = Path(sys.executable).with_name("loopwright")
    benchmark.pedantic(lambda: subprocess.run([command, *arguments], check=True, capture_output=True), rounds=5)
    if benchmark.stats is not None:
        stats: Any = benchmark.stats.stats
        assert stats.median < 0.3
