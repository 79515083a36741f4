"""Templates for recurrences beside each other: where they are offered, and that their shapes give the right values."""

from __future__ import annotations

import pytest

from optimizer.kernel_problem import KernelProblem
from optimizer.polyhedral.legality import Legal, judge
from optimizer.polyhedral.model import Model
from optimizer.polyhedral.schedule import parse_schedule
from optimizer.polyhedral.templates.draft import Draft
from optimizer.polyhedral.templates.recurrence import side_by_side
from optimizer.polyhedral.tree import loops
from tests.test_random_schedules import nest_named
from tests.test_register_tile_results import assert_plain_code_is_exact
from tests.test_vectorize import code

SMALL = {
    "adi": "tile(i=4); distribute(i); tile(i_2=2); distribute(i_2); reorder(j, i_5); vectorize(i_5, 2); "
    "reorder(j_2, i_7); vectorize(i_7, 4); reorder(j_3, i_10); vectorize(i_10, 2); reorder(j_4, i_12); "
    "vectorize(i_12, 2); parallel(i_t); parallel(i_2_t)",
    "deriche": "tile(i=4); distribute(i); reorder(j, i_9); vectorize(i_9, 2); parallel(i_t); distribute(j_4); "
    "reorder(i_4, j_9); vectorize(j_9, 4)",
}


@pytest.mark.parametrize(("kernel", "vectors"), [("adi", 4), ("deriche", 4)])
def test_rows_beside_each_other_come_first(kernel: str, vectors: int) -> None:
    problem = KernelProblem.load(kernel, "large", threads=2)
    tree = problem.templates()[0].apply(problem.nest)
    assert sum(loop.vector != 1 for loop in loops(tree)) == vectors
    assert sum(loop.is_parallel and loop.name.endswith("_t") for loop in loops(tree)) >= 2


@pytest.mark.parametrize("kernel", ["floyd-warshall", "seidel-2d", "jacobi-2d", "gemm", "symm", "durbin", "lcs"])
def test_sums_and_stencils_are_no_recurrences_beside_each_other(kernel: str) -> None:
    nest = nest_named(kernel)
    assert not list(side_by_side(Draft(Model(nest), (), nest.tree)))


@pytest.mark.parametrize("kernel", SMALL)
def test_the_shapes_give_the_bits_of_the_original(kernel: str) -> None:
    nest = nest_named(kernel)
    tree = parse_schedule(SMALL[kernel]).apply(nest)
    assert judge(Model(nest), tree).legal is Legal.YES
    assert_plain_code_is_exact(kernel, code(nest, tree))
