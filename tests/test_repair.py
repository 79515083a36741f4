"""The nearest legal schedule to an illegal one: one case for each kind of edit."""

from __future__ import annotations

import pytest

from kernels import catalog
from optimizer.polyhedral.frontend import nest_of_file, nest_of_source
from optimizer.polyhedral.legality import Legal, judge
from optimizer.polyhedral.model import Model
from optimizer.polyhedral.repair import repair
from optimizer.polyhedral.schedule import parse_schedule

OWN = """
import numpy as np
from jaxtyping import Float64


def ahead(n: int, A: Float64[np.ndarray, "n"], B: Float64[np.ndarray, "n"], C: Float64[np.ndarray, "n"]):
    for i in range(n):
        A[i] = B[i]
    for i in range(n - 1):
        C[i] = A[i + 1]


def both_ways(n: int, A: Float64[np.ndarray, "n n"]):
    for i in range(1, n):
        for j in range(1, n):
            A[i, j] = A[i - 1, j] + A[i, j - 1]


def stencil(n: int, A: Float64[np.ndarray, "n n"]):
    for t in range(1, n):
        for i in range(1, n - 1):
            A[t, i] = A[t - 1, i - 1] + A[t - 1, i + 1]


def chain(n: int, x: Float64[np.ndarray, "n"]):
    for i in range(1, n):
        x[i] += x[i - 1]
"""


def model_of(name: str) -> Model:
    if name in catalog.names():
        return Model(nest_of_file(f"{catalog.load(name).__file__}:{catalog.entry(name).function}"))
    return Model(nest_of_source(OWN, name, "own.py"))


@pytest.mark.parametrize(
    ("kernel", "schedule", "repaired"),
    [
        # the mark on a loop that allows it, and the rest kept
        ("matmul", "tile(i=8); parallel(k)", "tile(i=8); parallel(i_t)"),
        # no loop allows it alone, but a wavefront of two does
        ("both_ways", "parallel(i)", "wavefront(i, j)"),
        # a shift after a fusion
        ("ahead", "fuse(i, i_2)", "fuse(i, i_2); shift(S1, i, 1)"),
        # a skew before the step that needs it
        ("stencil", "tile(t=4, i=4)", "skew(i, by=t); tile(t=4, i=4)"),
        # one step left out
        ("chain", "tile(i=8); reverse(i_t)", "tile(i=8)"),
        # nothing but the untouched kernel
        ("chain", "parallel(i)", ""),
    ],
)
def test_the_smallest_edit_that_helps(kernel: str, schedule: str, repaired: str) -> None:
    model = model_of(kernel)
    parsed = parse_schedule(schedule)
    judgement = judge(model, parsed.apply(model.nest))
    assert judgement.legal is Legal.NO
    found = repair(model, parsed, judgement)
    assert found is not None
    assert str(found) == repaired
    assert judge(model, found.apply(model.nest)).legal is Legal.YES


def test_the_search_has_an_end() -> None:
    model = model_of("both_ways")
    parsed = parse_schedule("reverse(i); reverse(j)")
    assert repair(model, parsed, judge(model, parsed.apply(model.nest)), most_tries=1) is None
