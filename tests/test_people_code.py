"""Code generated from kernels as people write them, run as plain Python: it computes what the function does."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optimizer.codegen.backend import CodeOptions, FloatingPoint
from optimizer.codegen.numba_source import NumbaBackend
from optimizer.errors import CandidateError
from optimizer.kernel_problem import KernelProblem
from optimizer.measure.commands import Form
from optimizer.measure.loading import compiled_original, plain_function
from optimizer.polyhedral.frontend import nest_of_source
from optimizer.polyhedral.legality import Legal, judge
from optimizer.polyhedral.model import Model
from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.schedule import parse_schedule
from optimizer.polyhedral.steps.sampling import random_schedule
from tests.plain_comparison import IMPORTS, numbers

KERNELS = {
    "choices": """\
def f(A, x, y):
    count = 0
    for i in range(len(x)):
        if x[i] > 0:
            t = 1.0 / x[i]
            y[i] = t * t
            count += 1
        elif i > 0:
            y[i] = y[i] + x[i - 1]
        else:
            y[i] = 0.5
    return count
""",
    "rows": """\
def total(v, scale=1.0):
    s = 0.0
    for e in v:
        s += e * scale
    return s
def f(A, x, y):
    for i, row in enumerate(A):
        if total(row) > x[i]:
            for j, v in enumerate(row):
                row[j] = min(v, y[i])
""",
    "stencil": """\
@stencil(cval=1.0)
def mean(a):
    return 0.25 * (a[-1, 0] + a[1, 0] + a[0, -1] + a[0, 1])
def f(A, x, y):
    B = mean(A)
    for i in range(len(x)):
        y[i] = B[i, 0] + x[i]
    return B
""",
    "clipped": """\
def f(A, x, y):
    for i in range(len(x)):
        for j in range(A.shape[1]):
            if A[i, j] < 0.0:
                A[i, j] = 0.0
            elif A[i, j] > x[i]:
                A[i, j] = x[i]
""",
}
SCHEDULES = {"clipped": ("vectorize(j)", "parallel(i)", "tile(i=2, j=2)"), "choices": ("vectorize(i)", "distribute(i)")}


def nest_of(kernel: str) -> Nest:
    return nest_of_source(IMPORTS + KERNELS[kernel], "f", "people.py", arguments(3))


def arguments(n: int) -> dict[str, Any]:
    return {"A": numbers((n, n + 2), seed=1), "x": numbers((n,), seed=2), "y": numbers((n,), seed=3)}


def assert_same(nest: Nest, schedule: str | None, rng: random.Random) -> None:
    try:
        steps = random_schedule(nest, rng, 2) if schedule is None else parse_schedule(schedule)
        tree = steps.apply(nest)
        if judge(Model(nest), tree).legal is not Legal.YES:
            return
        source = NumbaBackend().source(nest, tree, CodeOptions(FloatingPoint.STRICT))
    except CandidateError:
        return
    original = plain_function(nest.original, "original.py", nest.name)
    for form in (Form.BACKWARD, Form.WATCHED):
        generated = plain_function(source, "generated.py", nest.name, form)
        for n in (0, 1, 4, 9):
            given, expected = arguments(n), arguments(n)
            np.testing.assert_equal(generated(*given.values()), original(*expected.values()))
            for name in given:
                assert given[name].tobytes() == expected[name].tobytes(), source


@pytest.mark.parametrize("kernel", KERNELS)
def test_generated_code_is_what_people_wrote(kernel: str) -> None:
    nest, rng = nest_of(kernel), random.Random(5)
    for schedule in ("", *SCHEDULES.get(kernel, ()), *[None] * 4):
        assert_same(nest, schedule, rng)


@pytest.mark.parametrize(("decorator", "is_compiled"), [("", False), ("@njit\n", True)])
def test_an_original_for_numpy_keeps_its_types(tmp_path: Path, decorator: str, is_compiled: bool) -> None:
    file = tmp_path / "mine.py"
    signature = 'def f(x: Float32[np.ndarray, "n"]):\n'
    imports = "import numpy as np\nfrom numba import njit\nfrom jaxtyping import Float32\n\n"
    file.write_text(f"{imports}{decorator}{signature}    return 0.5 * x\n")
    workload = KernelProblem.load(str(file), {"n": 4}).workload("timing")
    x = np.ones(4, np.float32)
    original = compiled_original(workload, tmp_path / "original.py", (x,))
    assert hasattr(original, "signatures") is is_compiled
    assert original(x).dtype == (np.float64 if is_compiled else np.float32)
