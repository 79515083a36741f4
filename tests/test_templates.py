"""Templates: legal, distinct, and the same however many processes look for them."""

from __future__ import annotations

import pytest

from optimizer.kernel_problem import KernelProblem
from optimizer.polyhedral.legality import Legal
from optimizer.polyhedral.schedule import Schedule
from optimizer.polyhedral.steps.autoschedule import Autoschedule
from optimizer.polyhedral.templates.column import in_columns
from optimizer.polyhedral.templates.draft import Draft
from optimizer.polyhedral.templates.register import eliminations

KERNELS = ("gemm", "lu", "jacobi-2d", "floyd-warshall")


@pytest.mark.parametrize("kernel", KERNELS)
def test_templates_are_legal_distinct_and_not_the_original(kernel: str) -> None:
    problem = KernelProblem.load(kernel, "small", threads=2)
    candidates = [problem.parse(str(schedule)) for schedule in problem.templates()]
    assert candidates
    assert all(problem.judge(candidate).legal is Legal.YES for candidate in candidates)
    # Code of the largest takes seconds; neighbours in the list are of unlike families.
    assert all(problem.has_code(candidate) for candidate in candidates[:: 1 + len(candidates) // 10])
    assert len({candidate.text for candidate in candidates}) == len(candidates)
    assert problem.baseline.digest not in {candidate.digest for candidate in candidates}


@pytest.mark.parametrize(
    ("kernel", "steps"),
    [
        ("mvt", ("reorder(j_2, i_2)", "fuse(i, j_2)", "unroll_and_jam(i, 8)", "wavefront(i_t, j_t)")),
        ("bicg", ("fuse(i_3, i_4)", "unroll_and_jam(i_3, 8)", "wavefront(i_3_t, j_t)")),
        ("atax", ("unroll_and_jam(i_3, 8)", "tile(j_2=1056)", "unroll_and_jam(i_4, 8)", "parallel(j_2_t)")),
        ("gesummv", ("tile(i=8)", "unroll_and_jam(i_2, 8)", "parallel(i_t)")),
        ("layernorm", ("tile(i=8)", "distribute(i)", "unroll_and_jam(i_2, 8)", "unroll_and_jam(i_5, 8)")),
    ],
)
def test_what_sums_up_a_matrix_takes_several_rows_at_a_time(kernel: str, steps: tuple[str, ...]) -> None:
    first = str(KernelProblem.load(kernel, "large", threads=2).templates()[0])
    assert all(step in first for step in steps)


def test_the_number_of_processes_changes_nothing() -> None:
    alone = KernelProblem.load("syrk", "small", threads=2)
    together = KernelProblem.load("syrk", "small", threads=2, jobs=2)
    assert together.templates() == alone.templates()


def test_a_run_that_is_resumed_keeps_its_jobs() -> None:
    problem = KernelProblem.load("gemm", "mini", jobs=3)
    assert KernelProblem.from_specification(problem.specification()).jobs == 3


@pytest.mark.parametrize("kernel", ["lu", "cholesky"])
def test_an_elimination_updates_from_copies(kernel: str) -> None:
    model = KernelProblem.load(kernel, "small", threads=2).model
    start = Draft(model, (), model.nest.tree).then(Autoschedule())
    assert start is not None
    first = str(Schedule(next(eliminations(start, (8, 24), 2)).steps))
    for step in ("=48)", "unroll_and_jam(i_2, 8)", "pack(A, before=i_t_3)", "parallel(i_t_3, share=ends)"):
        assert step in first


@pytest.mark.parametrize(
    ("kernel", "found"),
    [("gramschmidt", ["autoschedule(); tile(k_3=64, k_4=64); split(k_4_t, at=k_3_t + 1)"]), ("doitgen", [])],
)
def test_columns_that_wait_for_those_before_come_in_blocks(kernel: str, found: list[str]) -> None:
    model = KernelProblem.load(kernel, "small", threads=2).model
    start = Draft(model, (), model.nest.tree).then(Autoschedule())
    assert start is not None
    assert [str(Schedule(draft.steps)).replace("\n", "; ") for draft in in_columns(start)] == found
