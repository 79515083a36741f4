"""Vectors against scalar code: as plain functions on NumPy arrays and compiled, special values included, bit by bit."""

import math
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
import pytest

from optimizer.codegen.simd import (
    gather,
    load,
    maximum,
    minimum,
    scatter,
    select,
    splat,
    sqrt,
    store,
    sum_of_lanes,
)

LANES = (2, 4, 8)
DTYPES = (np.float64, np.float32, np.int64, np.int32)
SIZE = 64


def vector_code(lanes: int) -> Callable[..., None]:
    """Every operation on values, each with a row of results."""

    def run(a: Any, b: Any, c: Any, out: Any) -> None:
        for i in range(0, SIZE, lanes):
            x, y, z = load(a, i, lanes), load(b, i, lanes), load(c, i, lanes)
            store(out, (0, i), x + y)
            store(out, (1, i), x - y)
            store(out, (2, i), x * y)
            store(out, (3, i), -x)
            store(out, (4, i), abs(x))
            store(out, (5, i), minimum(x, y))
            store(out, (6, i), maximum(x, y))
            store(out, (7, i), select(x < y, x, y))
            store(out, (8, i), select(x <= y, x, y))
            store(out, (9, i), select(x > y, x, z))
            store(out, (10, i), select(x >= y, x, z))
            store(out, (11, i), select(x == y, x, z))
            store(out, (12, i), select(x != y, x, z))
            store(out, (13, i), select((x < y) & (y < z) | ~(z < x), x, y))
            store(out, (14, i), x * y + z)
            store(out, (15, i), splat(a[0], lanes))
            store(out, (16, i), x + a[1])
            store(out, (17, i), a[2] - x)
            store(out, (18, i), minimum(x, a[3]))

    return run


def scalar_code(a: Any, b: Any, c: Any, out: Any) -> None:
    """The same, one by one."""
    for i in range(SIZE):
        x, y, z = a[i], b[i], c[i]
        out[0, i] = x + y
        out[1, i] = x - y
        out[2, i] = x * y
        out[3, i] = -x
        out[4, i] = abs(x)
        out[5, i] = min(x, y)
        out[6, i] = max(x, y)
        out[7, i] = x if x < y else y
        out[8, i] = x if x <= y else y
        out[9, i] = x if x > y else z
        out[10, i] = x if x >= y else z
        out[11, i] = x if x == y else z
        out[12, i] = x if x != y else z
        out[13, i] = x if (x < y and y < z) or not z < x else y
        out[14, i] = x * y + z
        out[15, i] = a[0]
        out[16, i] = x + a[1]
        out[17, i] = a[2] - x
        out[18, i] = min(x, a[3])


ROWS = 19


def values(dtype: Any, seed: int) -> np.ndarray:
    """Every special value meets every other one, since they stand in different orders."""
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        limits = np.finfo(dtype)
        special = [0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, limits.max, -limits.max, limits.tiny, limits.eps]
    else:
        limits = np.iinfo(dtype)
        special = [0, 1, -1, 2, limits.max, limits.min, limits.max - 1, 3, -7, 1000, -1000]
    return rng.permutation(np.resize(np.array(special, dtype), SIZE))


def assert_same_numbers(got: np.ndarray, expected: np.ndarray) -> None:
    """Bit by bit, except for the sign and payload of NaN."""
    assert got.dtype == expected.dtype
    if got.dtype.kind != "f":
        np.testing.assert_array_equal(got, expected)
        return
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    usual = ~np.isnan(expected)
    assert got[usual].tobytes() == expected[usual].tobytes()


@pytest.fixture(scope="module")
def scalars() -> Any:
    return numba.njit(scalar_code, error_model="numpy")


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_each_lane_has_the_value_of_scalar_code(dtype: Any, lanes: int, scalars: Any) -> None:
    compiled = numba.njit(vector_code(lanes), error_model="numpy")
    for seed in range(5):
        a, b, c = (values(dtype, 3 * seed + k) for k in range(3))
        expected, plain, got = (np.zeros((ROWS, SIZE), dtype) for _ in range(3))
        scalars(a, b, c, expected)
        compiled(a, b, c, got)
        assert_same_numbers(got, expected)
        with np.errstate(all="ignore"):
            vector_code(lanes)(a, b, c, plain)
        assert_same_numbers(plain, expected)


def division(x: Any, y: Any) -> Any:
    return x / y


def roots(x: Any, y: Any) -> Any:
    return sqrt(x) + sqrt(y)


def scalar_roots(x: Any, y: Any) -> Any:
    return math.sqrt(x) + math.sqrt(y)


@pytest.mark.parametrize(("of_vectors", "of_numbers"), [(division, division), (roots, scalar_roots)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_division_and_square_roots(dtype: Any, of_vectors: Any, of_numbers: Any) -> None:
    one, many = numba.njit(of_numbers, error_model="numpy"), numba.njit(of_vectors, error_model="numpy")
    single = np.float32 if dtype is np.float32 else np.float64

    @numba.njit
    def vectors(a: Any, b: Any, out: Any) -> None:
        for i in range(0, SIZE, 4):
            store(out, i, many(load(a, i, 4), load(b, i, 4)))

    a, b = values(dtype, 1), values(dtype, 2)
    got = np.zeros(SIZE, single)
    vectors(a, b, got)
    assert_same_numbers(got, np.array([one(x, y) for x, y in zip(a, b, strict=True)], single))
    with np.errstate(all="ignore"):
        plain = of_vectors(load(a, 0, SIZE), load(b, 0, SIZE))
    assert_same_numbers(np.array(list(plain), single), got)


def test_numbers_of_different_types_are_combined_as_numba_combines_them() -> None:
    def vectors(a: Any, b: Any, c: Any, out: Any) -> None:
        for i in range(0, SIZE, 4):
            store(out, i, load(a, i, 4) * load(b, i, 4) + load(c, i, 4) + 0.1)

    def single(a: Any, b: Any, c: Any, out: Any) -> None:
        for i in range(SIZE):
            out[i] = a[i] * b[i] + c[i] + 0.1

    rng = np.random.default_rng(3)
    a, b = rng.uniform(-1, 1, SIZE).astype(np.float32), rng.integers(-9, 9, SIZE, dtype=np.int32)
    c = rng.uniform(-1, 1, SIZE)
    for dtype in (np.float64, np.float32, np.int32):
        got, expected = np.zeros(SIZE, dtype), np.zeros(SIZE, dtype)
        numba.njit(vectors)(a, b, c, got)
        numba.njit(single)(a, b, c, expected)
        assert_same_numbers(got, expected)


def memory_code(a: Any, out: Any) -> None:
    """Rows, columns, diagonals, backwards, every third one."""
    n = a.shape[0]
    store(out, (0, 0), load(a, (1, 2), 4))
    store(out, (1, 0), gather(a, (2, 1), (1, 0), 4))
    store(out, (2, 0), gather(a, (1, 1), (1, 1), 4))
    store(out, (3, 0), gather(a, (n - 1, 1), (-1, 1), 4))
    store(out, (4, 0), gather(a, (0, 0), (0, 3), 4))
    scatter(out, (5, 7), (0, -1), load(a, (0, 0), 4))
    scatter(out, (4, 4), (1, 1), load(a, (3, np.uint64(3)), 4))


@pytest.mark.parametrize("dtype", [np.float64, np.int32])
def test_elements_are_found_whatever_the_layout(dtype: Any) -> None:
    numbers = np.arange(400).reshape(20, 20).astype(dtype)
    layouts = {
        "C": lambda array: array[:12, :12].copy(),
        "F": lambda array: np.asfortranarray(array[:12, :12]),
        "A": lambda array: array[4:, 2:][:12, :12],
        "every second": lambda array: array[::-1][:12, ::-1][:, :12],
    }
    expected = np.zeros((12, 12), dtype)
    for layout, make in layouts.items():
        a = make(numbers)
        expected[...] = 0
        expected[0, :4], expected[1, :4] = a[1, 2:6], a[2:6, 1]
        expected[2, :4] = np.diag(a)[1:5]
        expected[3, :4] = [a[11 - k, 1 + k] for k in range(4)]
        expected[4, :4] = a[0, :12:3]
        expected[5, 7:3:-1] = a[0, :4]
        for k in range(4):
            expected[4 + k, 4 + k] = a[3, 3 + k]
        for run in (memory_code, numba.njit(memory_code)):
            out = make(np.zeros((20, 20), dtype))
            run(a, out)
            np.testing.assert_array_equal(out, expected, err_msg=layout)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_sum_of_lanes_is_added_in_one_order(dtype: Any, lanes: int) -> None:
    compiled = numba.njit(lambda a: sum_of_lanes(load(a, 0, lanes)))
    numbers = [1e30, 1.0, -1e30, 3.0, 7.0, 1e-9, 5.0, 11.0]
    if np.dtype(dtype).kind == "i":
        numbers = [2**30, 5, 2**30, -3, 2**30, 7, 1, 2**30]
    array = np.array(numbers[:lanes], dtype)
    with np.errstate(all="ignore"):
        assert compiled(array) == sum_of_lanes(array)


def test_a_view_is_not_taken_for_a_value() -> None:
    """What was loaded stays as it was when the array changes."""

    def shifted(a: Any) -> None:
        before = load(a, 0, 4)
        store(a, 1, before)
        store(a, 4, before)

    for run in (shifted, numba.njit(shifted)):
        a = np.arange(8.0)
        run(a)
        np.testing.assert_array_equal(a, [0, 0, 1, 2, 0, 1, 2, 3])


@pytest.mark.parametrize("index", [6, -1, -4])
def test_a_lane_outside_the_array_is_an_error_as_plain_python(index: int) -> None:
    with pytest.raises(IndexError):
        load(np.zeros(9), index, 4)
    with pytest.raises(IndexError):
        store(np.zeros((9, 9)), (0, index), splat(1.0, 4))


def test_numbers_of_a_plain_vector_are_those_of_scalar_code() -> None:
    """Python's own numbers take the type of what they meet, NumPy's do not."""
    row = np.ones(4, np.float32)
    for number in (0.1, np.float64(0.1), np.float32(0.1), 1):
        for vector in (load(row, 0, 4), splat(number, 4), minimum(load(row, 0, 4), number)):
            for compute in (lambda x, n=number: x * n, lambda x, n=number: n - x, lambda x: x * row[0]):
                for got, lane in zip(compute(vector), vector, strict=True):
                    assert (got, type(got)) == (compute(lane), type(compute(lane)))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda a, n: load(a, 0, n),
        lambda a, n: load(a, 0, 4) + load(a, 0, 8),
        lambda a, n: (load(a, 0, 4) < 1.0) + load(a, 0, 4),
        lambda a, n: select(load(a, 0, 4), 1.0, 2.0),
    ],
    ids=["lanes that vary", "unequal lanes", "a truth value as a number", "a number as a truth value"],
)
def test_what_makes_no_sense_is_not_compiled(wrong: Any) -> None:
    def run(a: Any, n: int) -> None:
        store(a, 0, wrong(a, n))

    wrong = numba.njit(wrong)
    with pytest.raises(numba.core.errors.TypingError):
        numba.njit(run)(np.zeros(16), 4)


def test_multiplications_and_additions_are_fused_where_that_is_allowed() -> None:
    def run(a: Any, b: Any, c: Any) -> None:
        for i in range(0, len(a) // 4 * 4, 4):
            store(a, i, load(b, i, 4) * load(c, i, 4) + load(a, i, 4))

    def assembly(flags: Any) -> str:
        function = numba.njit("void(f8[::1], f8[::1], f8[::1])", fastmath=flags)(run)
        (text,) = function.inspect_asm().values()
        return text

    strict, contracted = assembly(False), assembly({"contract"})
    features = llvm.get_host_cpu_features()
    fuses = bool(features.get("fma") or features.get("neon"))
    assert any(name in contracted for name in ("vfmadd", "fmla")) == fuses
    assert not any(name in strict for name in ("vfmadd", "fmla"))
