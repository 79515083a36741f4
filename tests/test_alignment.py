"""Vectors that begin at multiples of their size: where they do, and that nothing of the result depends on it."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest

from optimizer.codegen.simd import lanes_between, load, load_masked, splat, store, store_masked, to_boundary
from tests.test_random_schedules import nest_named
from tests.test_vectorize import loop_code

ROWS = 3


def distances(array: Any, out: Any) -> None:
    for row in range(ROWS):
        for column in range(array.shape[1]):
            out[row, column] = to_boundary(array, (row, column), 4)


def at_every_offset(dtype: Any, columns: int) -> list[Any]:
    """Rows of odd lengths, so that they begin at all places of a line of the cache."""
    memory = np.arange(2000, dtype=dtype)
    return [memory[offset : offset + ROWS * columns].reshape(ROWS, columns) for offset in range(5)]


@pytest.mark.parametrize("dtype", [np.float64, np.int32])
def test_the_distance_leads_to_a_multiple_of_the_vector(dtype: Any) -> None:
    compiled = numba.njit(distances)
    for array in at_every_offset(dtype, 7):
        found = []
        for run in (distances, compiled):
            out = np.full(array.shape, -1)
            run(array, out)
            found.append(out)
        np.testing.assert_array_equal(found[0], found[1])
        assert found[0].min() >= 0
        assert found[0].max() < 4
        for (row, column), distance in np.ndenumerate(found[0]):
            address = array.ctypes.data + row * array.strides[0] + (column + distance) * array.itemsize
            assert address % (4 * array.itemsize) == 0


def doubled(array: Any, out: Any, first: Any, stop: Any) -> None:
    """As generated: what comes before the boundary, full vectors, what is left."""
    for row in range(ROWS):
        aligned = first + to_boundary(out, (row, first), 4)
        rest = aligned + 4 * (max(stop - aligned, 0) // 4)
        for j in range(first, min(aligned, stop), 4):
            mask = lanes_between(j, j, min(aligned, stop), 4)
            store_masked(out, (row, j), load_masked(array, (row, j), mask) * splat(2.0, 4), mask)
        for j in range(aligned, rest, 4):
            store(out, (row, j), load(array, (row, j), 4) * splat(2.0, 4))
        for j in range(rest, stop, 4):
            mask = lanes_between(j, j, stop, 4)
            store_masked(out, (row, j), load_masked(array, (row, j), mask) * splat(2.0, 4), mask)


def test_all_iterations_run_once_wherever_the_array_begins() -> None:
    compiled = numba.njit(doubled)
    for array in at_every_offset(np.float64, 13):
        for first, stop in ((0, 13), (1, 12), (2, 3), (5, 5), (7, 4)):
            expected = np.zeros_like(array)
            expected[:, first:stop] = 2 * array[:, first:stop]
            for run in (doubled, compiled):
                memory = np.zeros(ROWS * 13 + 1)[1:].reshape(ROWS, 13)
                run(array, memory, first, stop)
                np.testing.assert_array_equal(memory, expected)


def test_a_stencil_begins_where_it_stores_whole_lines() -> None:
    text = loop_code(nest_named("jacobi-2d"), "vectorize(j, 4)")
    assert "j_aligned = 1 + to_boundary(B, (i, 1), 4)\n" in text
    assert "for j in range(1, min(j_aligned, n - 1), 4):\n" in text
    assert "mask = lanes_between(j, j, min(j_aligned, n - 1), 4)\n" in text
    assert "for j in range(j_aligned, j_rest, 4):\n" in text


@pytest.mark.parametrize(
    ("kernel", "schedule"),
    [("gemver", "vectorize(j, 4)"), ("jacobi-2d", "tile(j=16); vectorize(j, 4)"), ("deriche", "vectorize(j_3, 4)")],
)
def test_vectors_begin_with_the_loop_where_that_saves_little(kernel: str, schedule: str) -> None:
    text = loop_code(nest_named(kernel), schedule)
    assert "store(" in text
    assert "to_boundary" not in text
