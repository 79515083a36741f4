"""Exponential, logarithm, tangent, powers and extremes of vectors, compiled: near the library's, special values too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest

from optimizer.codegen.simd import exp, load, log, maximum_or_nan, minimum_or_nan, power, store, tanh

LANES = 8
UNITS = {"exp": 1.1, "log": 1.0, "tanh": 3.0}
"""How far results may be from the true ones, in units of the last place."""
SPECIAL = [
    *(0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 5e-324, -5e-324, 1e-310, 1e308, -1e308, 22.0, -22.5),
    *(709.78, 709.79, 710.5, -745.1, -745.2, -747.0, 88.72, 88.73, -103.9, -104.1, 1e-45, 1e-38, 1e-20, -1e-20),
]
OPERATIONS = {"exp": (exp, np.exp), "log": (log, np.log), "tanh": (tanh, np.tanh)}


def compiled(operation: Any) -> Callable[[Any, Any], None]:
    @numba.njit(error_model="numpy", fastmath={"contract", "reassoc", "arcp", "nsz"})
    def run(numbers: Any, results: Any) -> None:
        for i in range(0, numbers.size, LANES):
            store(results, i, operation(load(numbers, i, LANES)))

    return run


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", OPERATIONS)
def test_results_are_near_the_true_ones(name: str, dtype: Any) -> None:
    operation, library = OPERATIONS[name]
    run, rng = compiled(operation), np.random.default_rng(3)
    for low, high in ((-1.0, 1.0), (-40.0, 40.0), (-700.0, 700.0)):
        with np.errstate(all="ignore"):
            numbers = rng.uniform(low, high, 2**14)
            numbers = (np.exp(numbers) if name == "log" else numbers).astype(dtype)
            numbers[: len(SPECIAL)] = np.array(SPECIAL).astype(dtype)
            results = np.empty_like(numbers)
            run(numbers, results)
            exact = library(numbers.astype(np.longdouble))
            expected = exact.astype(dtype)
            finite = np.isfinite(expected)
            np.testing.assert_array_equal(results[~finite], expected[~finite])
            off = np.abs(results.astype(np.longdouble) - exact)[finite] / np.spacing(np.abs(expected[finite]))
            assert float(off.max()) <= UNITS[name]
            np.testing.assert_array_equal(np.signbit(results[finite]), np.signbit(expected[finite]))


@pytest.mark.parametrize("exponent", [2, 3, 4])
def test_powers_have_the_bits_of_scalar_code(exponent: int) -> None:
    @numba.njit
    def scalar(numbers: Any, results: Any) -> None:
        for i in range(numbers.size):
            results[i] = numbers[i] ** exponent

    @numba.njit
    def vector(numbers: Any, results: Any) -> None:
        for i in range(0, numbers.size, LANES):
            store(results, i, power(load(numbers, i, LANES), exponent))

    numbers = np.resize(np.array([*SPECIAL, *np.random.default_rng(1).normal(0.0, 3.0, 100)]), 128)
    one, other = np.empty_like(numbers), np.empty_like(numbers)
    scalar(numbers, one)
    vector(numbers, other)
    np.testing.assert_array_equal(one.view(np.int64)[~np.isnan(one)], other.view(np.int64)[~np.isnan(one)])


@pytest.mark.parametrize(("operation", "library"), [(minimum_or_nan, np.minimum), (maximum_or_nan, np.maximum)])
def test_extremes_have_the_bits_of_scalar_code(operation: Any, library: Any) -> None:
    @numba.njit
    def scalar(left: Any, right: Any, results: Any) -> None:
        for i in range(left.size):
            results[i] = library(left[i], right[i])

    @numba.njit
    def vector(left: Any, right: Any, results: Any) -> None:
        for i in range(0, left.size, LANES):
            store(results, i, operation(load(left, i, LANES), load(right, i, LANES)))

    chosen = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -1.0, 2.0])
    left, right = np.repeat(chosen, 8), np.tile(chosen, 8)
    one, other = np.empty_like(left), np.empty_like(left)
    scalar(left, right, one)
    vector(left, right, other)
    np.testing.assert_array_equal(np.isnan(one), np.isnan(other))
    np.testing.assert_array_equal(one.view(np.int64)[~np.isnan(one)], other.view(np.int64)[~np.isnan(one)])
