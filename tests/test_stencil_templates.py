"""Templates for stencils: what they offer, and that their shapes give the bits of the original."""

from __future__ import annotations

import pytest

from optimizer.codegen.backend import CodeOptions
from optimizer.codegen.numba_source import module_parts
from optimizer.kernel_problem import KernelProblem
from optimizer.polyhedral.legality import Legal, judge
from optimizer.polyhedral.model import Model
from optimizer.polyhedral.schedule import parse_schedule
from tests.test_random_schedules import nest_named
from tests.test_register_tile_results import assert_plain_code_is_exact
from tests.test_vectorize import code

SMALL = {
    "seidel-2d": "autoschedule(); skew(j, by=i); tile(t=2, i=4); wavefront(t_t, i_t); unroll_and_jam(i, 2)",
    "heat-3d": "autoschedule(); distribute(k); vectorize(k, 2); vectorize(k_3, 4); tile(t=2, i=2, j=3); "
    "wavefront(t_t, i_t)",
    "lcs": "tile(i_2=3, j_2=5); wavefront(i_2_t, j_2_t)",
    "jacobi-2d": "autoschedule(); distribute(j); vectorize(j, 4); vectorize(j_3, 2); tile(t=2, i=3); "
    "wavefront(t_t, i_t)",
}


@pytest.mark.parametrize(
    ("kernel", "end"),
    [
        ("jacobi-2d", "vectorize(j_3)\ntile(t=16, i=32)\nwavefront(t_t, i_t)"),
        ("heat-3d", "vectorize(k_3)\ntile(t=4, i=8, j=4)\nwavefront(t_t, i_t)"),
        ("lcs", "tile(i_2=128, j_2=512)\nwavefront(i_2_t, j_2_t)"),
        ("seidel-2d", "skew(j, by=i)\ntile(t=8, i=32)\nwavefront(t_t, i_t)\nunroll_and_jam(i, 8)"),
    ],
)
def test_tiles_of_several_sweeps_come_first(kernel: str, end: str) -> None:
    first = KernelProblem.load(kernel, "small", threads=2).templates()[0]
    assert str(first).replace("; ", "\n").endswith(end)


def test_one_thread_needs_no_wavefront() -> None:
    first = KernelProblem.load("seidel-2d", "small", threads=1).templates()[0]
    assert "unroll_and_jam" in str(first)
    assert "wavefront" not in str(first)


@pytest.mark.parametrize("kernel", SMALL)
def test_the_shapes_give_the_bits_of_the_original(kernel: str) -> None:
    nest = nest_named(kernel)
    tree = parse_schedule(SMALL[kernel]).apply(nest)
    assert judge(Model(nest), tree).legal is Legal.YES
    assert_plain_code_is_exact(kernel, code(nest, tree))


def test_rows_that_run_together_choose_nothing_in_their_loop() -> None:
    nest = nest_named("seidel-2d")
    text = module_parts(nest, parse_schedule(SMALL["seidel-2d"]).apply(nest), CodeOptions()).function
    _, _, row = text.partition("in range(j_skewed_full, j_skewed_full_stop):\n")
    body = row.split("for j_skewed in range(j_skewed_full_stop")[0]
    assert body.count("A[at(i), at(j)] = (") == 2
    assert "if " not in body
    assert "max(" not in body
