"""Masks and registers, as plain functions and compiled: what lies outside is neither read nor written."""

import itertools
from typing import Any

import numba
import numpy as np
import pytest

from optimizer.codegen.simd import (
    gather_masked,
    lanes_between,
    load,
    load_masked,
    rounded_like,
    select,
    splat,
    store,
    store_masked,
)
from tests.test_simd import DTYPES, LANES, SIZE, assert_same_numbers


def masked_code(a: Any, out: Any, first: Any, last: Any) -> None:
    """Lanes around the first and the last column; rows in the middle and at the edges, a column, the other diagonal."""
    n = a.shape[0]
    for row in (0, 1, n - 1):
        for lane in (-3, 0, n - 2):
            mask = lanes_between(lane, first, last, 4)
            store_masked(out, (row, lane), load_masked(a, (row, lane), mask), mask)
            store_masked(out, (2, lane), gather_masked(a, (lane, 3), (1, 0), mask), mask)
            store_masked(out, (3, lane), gather_masked(a, (lane, n - 1 - lane), (1, -1), mask), mask)


@pytest.mark.parametrize("dtype", DTYPES)
def test_masked_lanes_touch_nothing(dtype: Any) -> None:
    """Columns outside of the array, where other elements lie that would show."""
    n = 7
    numbers = np.arange(1, 401).reshape(20, 20).astype(dtype)
    layouts = {
        "C": lambda array: array[:n, :n].copy(),
        "F": lambda array: np.asfortranarray(array[:n, :n]),
        "every second": lambda array: array[::2, ::-2][:n, :n],
    }
    compiled = numba.njit(masked_code)
    for layout, make in layouts.items():
        for first, last in [(0, n), (2, n - 1), (n - 1, n), (3, 3), (5, 2), (np.uint64(1), np.int32(6))]:
            expected = np.zeros((n, n), dtype)
            columns = [c for c in (0, n - 2, n - 1, *range(4)) if first <= c < last]
            for row in (0, 1, n - 1):
                expected[row, columns] = make(numbers)[row, columns]
            expected[2, columns] = make(numbers)[columns, 3]
            expected[3, columns] = [make(numbers)[column, n - 1 - column] for column in columns]
            for run in (masked_code, compiled):
                outside = np.full((20, 20), 99, dtype)
                out = make(outside)
                out[...] = 0
                before = outside.copy()
                run(make(numbers), out, first, last)
                np.testing.assert_array_equal(out, expected, err_msg=f"{layout} from {first} to {last}")
                out[...] = 0
                np.testing.assert_array_equal(outside, before)


def test_masked_lanes_are_zero_in_registers() -> None:
    def run(a: Any, out: Any) -> None:
        store(out, 0, load_masked(a, 2, lanes_between(2, 3, 5, 4)))

    for function in (run, numba.njit(run)):
        out = np.full(4, 9.0)
        function(np.array([np.nan, np.nan, np.nan, 1.0, 2.0]), out)
        np.testing.assert_array_equal(out, [0, 1, 2, 0])


@pytest.mark.parametrize("lanes", LANES)
def test_masks_are_the_lanes_between_two_numbers(lanes: int) -> None:
    def marked(lane: int, first: int, last: int, out: Any) -> None:
        store(out, 0, select(lanes_between(lane, first, last, lanes), splat(1, lanes), splat(0, lanes)))

    compiled = numba.njit(marked)
    ends = (-(2**40), -2, 0, 1, lanes - 1, lanes, 2**40)
    for lane, first, last in itertools.product((-1, 0, 3), ends, ends):
        expected = [first <= number < last for number in range(lane, lane + lanes)]
        for function in (marked, compiled):
            out = np.full(lanes, 7)
            function(lane, first, last, out)
            np.testing.assert_array_equal(out, expected, err_msg=f"{lane}: from {first} to {last}")


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_register_has_what_its_array_would_have(dtype: Any) -> None:
    """Sums that are rounded to the array's type at every step, and those of integers that overflow."""

    def in_register(a: Any, b: Any) -> None:
        kept = load(a, 0, 4)
        for k in range(0, SIZE, 4):
            kept = rounded_like(kept, kept * load(b, k, 4) + load(b, k, 4))
        store(a, 0, kept)

    def in_memory(a: Any, b: Any) -> None:
        for k in range(SIZE):
            a[k % 4] = a[k % 4] * b[k] + b[k]

    rng = np.random.default_rng(2)
    b = (rng.uniform(-1.5, 1.5, SIZE) if np.dtype(dtype).kind == "f" else rng.integers(-99, 99, SIZE)).astype(dtype)
    functions = in_register, numba.njit(in_register), numba.njit(in_memory)
    results = [np.full(4, 3, dtype) for _ in functions]
    with np.errstate(all="ignore"):
        for function, result in zip(
            (in_register, numba.njit(in_register), numba.njit(in_memory)), results, strict=True
        ):
            function(result, b)
    for result in results[:2]:
        assert_same_numbers(result, results[2])
