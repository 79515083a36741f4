"""How much memory an iteration of each loop touches."""

from __future__ import annotations

import pytest

from optimizer.kernel_problem import KernelProblem
from optimizer.polyhedral.footprint import footprints


def bytes_of(kernel: str, schedule: str = "") -> dict[str, int]:
    problem = KernelProblem.load(kernel, "large", threads=2)
    return dict(footprints(problem.model, problem.tree(problem.parse(schedule)), problem.sizes))


def test_gemm_loop_by_loop() -> None:
    nj, nk = 1100, 1200
    found = bytes_of("gemm")
    assert list(found) == ["i", "j", "k", "j_2"]
    assert found["i"] == 8 * (nj + nk + nk * nj), "a row of C, one of A, all of B"
    assert found["j"] == 8
    assert found["k"] == 8 * (nj + 1 + nj)
    assert found["j_2"] == 8 * 3


def test_a_tile_touches_its_tile() -> None:
    found = bytes_of("gemm", "tile(k=64, j_2=256)")
    assert found["j_2_t"] == 8 * (256 + 64 + 64 * 256)
    assert found["k_t"] == 8 * (1100 + 64 + 64 * 1100)


def test_neighbours_count_once_and_what_is_far_apart_by_itself() -> None:
    assert bytes_of("jacobi-2d")["j"] == 8 * (1 + 5)
    assert bytes_of("lu")["k"] == 8 * 3


@pytest.mark.parametrize("kernel", ["adi", "deriche", "nussinov", "correlation", "floyd-warshall"])
def test_no_loop_touches_more_than_one_around_it(kernel: str) -> None:
    found = bytes_of(kernel)
    assert found
    problem = KernelProblem.load(kernel, "large", threads=2)
    for statement in problem.nest.statements:
        sizes = [found[name] for name in statement.iterators if name in found]
        assert sizes == sorted(sizes, reverse=True)
