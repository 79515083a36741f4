"""What register tiles compute: bit by bit what the original does, at sizes that fill tiles and at others."""

from __future__ import annotations

import copy
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from kernels import catalog
from optimizer.measure.commands import Form
from optimizer.measure.guards import GuardedArguments
from optimizer.measure.loading import plain_function
from optimizer.polyhedral.legality import Legal, judge
from optimizer.polyhedral.model import Model
from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.schedule import parse_schedule
from tests.test_random_schedules import assert_same_bits, module_function, nest_named, run
from tests.test_register_tile import product, tile_function
from tests.test_vector_results import strided
from tests.test_vectorize import code, nest_of
from tests.vector_units import lanes_of_doubles

LANES = (2, 4, 8)
SIZES = ((0, 2, 1, 0), (2, 0, 3, 1), (3, 2, 0, 1), (1, 2, 1, 1), (7, 9, 8, 3), (17, 25, 4, 2), (8, 6, 23, 2))
"""In the order of a kernel's sizes; few are a multiple of a tile's."""
IMAGE_SIZES = ((1, 1, 1, 1), (3, 2, 5, 17), (4, 1, 4, 8))
"""Filters, channels, rows and columns."""
SWEPT_SIZES = ((1, 3), (2, 11), (3, 20))
"""Time steps, by whose number adi divides, and the length of each edge."""
VOLUME_SIZES = ((0, 2), (2, 0), (1, 3), (3, 9), (6, 7))
"""Sweeps, and the length of each edge."""
SIZES_OF = {"conv2d": IMAGE_SIZES, "heat-3d": VOLUME_SIZES, "adi": SWEPT_SIZES}


KERNELS: dict[str, tuple[str, str]] = {
    "conv2d": ("conv2d", "distribute(x); distribute(y); distribute(f); register_tile(y_2=2, x_2=8)"),
    "conv2d, of filters": ("conv2d", "distribute(x); distribute(y); distribute(f); register_tile(f_2=3, x_2=8)"),
    "covariance": ("covariance", "distribute(j_3); distribute(i_3); register_tile(i_4=3, j_4=8)"),
    "doitgen": ("doitgen", "distribute(p); register_tile(p_3=8)"),
    "gemm": ("gemm", "distribute(i); register_tile(i_2=3, j_2=8)"),
    "gemm, of deep tiles": ("gemm", "distribute(i); tile(k=4); register_tile(i_2=2, j_2=16); parallel(i_2_t)"),
    "gemm, one row": ("gemm", "distribute(i); interchange(k, j_2); register_tile(j_2=8)"),
    "matmul": ("matmul", "register_tile(i=4, j=8); parallel(j_t)"),
    "matmul-float32": ("matmul-float32", "register_tile(i=3, j=16)"),
    "mttkrp": ("mttkrp", "distribute(j); distribute(i); register_tile(i_2=3, j_2=8)"),
    "symm": ("symm", "autoschedule(); register_tile(k_2=3, j_2=8)"),
    "syr2k": ("syr2k", "distribute(i); register_tile(i_2=9, j_2=8)"),
    "syrk": ("syrk", "distribute(i); register_tile(i_2=9, j_2=8)"),
    "trmm": ("trmm", "distribute(j); distribute(i); register_tile(i=3, j=8)"),
}
"""What is tried -> kernel and schedule."""


def tiled_source(nest: Nest, schedule: str, lanes: int) -> str:
    """Code of a legal schedule, which has a register tile."""
    tree = parse_schedule(schedule).apply(nest)
    assert judge(Model(nest), tree).legal is Legal.YES
    with lanes_of_doubles(lanes):
        source = code(nest, tree)
    assert f"def {nest.name}_tile(" in source
    return source


def inputs(name: str, numbers: tuple[int, ...]) -> dict[str, Any]:
    sizes = dict(zip(catalog.load(name).SIZES["mini"], numbers, strict=False))
    return catalog.load(name).make_inputs(**sizes, rng=np.random.default_rng(5))


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("case", KERNELS)
def test_tiles_give_the_bits_of_the_original_as_plain_python(case: str, lanes: int) -> None:
    name, schedule = KERNELS[case]
    assert_plain_code_is_exact(name, tiled_source(nest_named(name), schedule, lanes))


def test_rows_that_write_the_same_elements_have_no_masks_of_their_own() -> None:
    """Tiles of tiles: each row of the register tile is another part of the same columns."""
    source = tiled_source(nest_named("trmm"), "distribute(j); tile(j=3); register_tile(j_t=3, j=2)", 2)
    assert "mask" not in tile_function(source)
    assert_plain_code_is_exact("trmm", source)


def assert_plain_code_is_exact(name: str, source: str) -> None:
    nest = nest_named(name)
    original = module_function(nest.original, nest.name)
    for numbers in SIZES_OF.get(name, SIZES):
        expected = run(original, inputs(name, numbers))
        for form in (Form.WATCHED, Form.BACKWARD) if "prange" in source else (Form.PLAIN,):
            got = run(plain_function(source, "candidate", nest.name, form), inputs(name, numbers))
            assert_same_bits(got, expected, f"{name} at {numbers}")


NESTS: dict[str, tuple[str, str, str]] = {
    "above the diagonal": ("i in range(n); j in range(i, n); k in range(n)", "Float64", ""),
    "below the diagonal": ("i in range(n); j in range(i + 1); k in range(n)", "Float64", ""),
    "a band": ("i in range(n); j in range(max(0, i - 9), min(n, i + 10)); k in range(n)", "Float64", ""),
    "fewer columns for each step": ("i in range(n); k in range(n); j in range(k, n)", "Float64", ""),
    "more columns for each step": ("i in range(n); k in range(n); j in range(k + 1)", "Float64", ""),
    "fewer steps for each row": ("i in range(n); j in range(n); k in range(i, n)", "Float64", ""),
    "fewer steps for each row and column": ("i in range(n); j in range(n); k in range(max(i, j), n)", "Float64", ""),
    "not from 0": ("i in range(3, n + 2); j in range(5, n + 1); k in range(1, n)", "Float64", ""),
    "a skewed tile": ("i in range(n); j in range(n); k in range(n)", "Float64", "skew(j, by=i); "),
    "int32": ("i in range(n); j in range(i, n); k in range(n)", "Int32", ""),
    "int64": ("i in range(n); j in range(n); k in range(i, n)", "Int64", ""),
    "float32": ("i in range(n); j in range(i + 1); k in range(n)", "Float32", ""),
}
"""Shapes of loops, types, and what is done before tiles are made."""
BODY = "C[i, j] += A[i, k] * B[k, j]; D[i, j] = max(D[i, j], C[i, j] - B[k, j + 1])"
ORDERS = (0, 1, 2, 7, 8, 9, 17)


def arrays(n: int, dtype: str) -> dict[str, Any]:
    """Of `product`; floating-point numbers are rounded at every step."""
    rng = np.random.default_rng(n)
    numbers = (rng.uniform(-9, 9, (2 * n + 9, 2 * n + 9)) for _ in "ABCD")
    return {"n": n} | dict(zip("ABCD", (each.astype(dtype.lower()) for each in numbers), strict=True))


@pytest.mark.parametrize("name", NESTS)
def test_loops_of_any_shape(name: str, tmp_path: Path) -> None:
    loops, dtype, before = NESTS[name]
    nest = nest_of(tmp_path, product(BODY, loops, dtype))
    rows, columns = (3, 16) if "32" in dtype else (3, 8)
    source = tiled_source(nest, f"{before}register_tile(i={rows}, j={columns})", 4)
    original, candidate = module_function(nest.original, nest.name), plain_function(source, "candidate", nest.name)
    for n in ORDERS:
        expected = run(original, arrays(n, dtype))
        assert_same_bits(run(candidate, arrays(n, dtype)), expected, f"{name} at {n}")


# Compiled.

COMPILED_SIZES = ((1, 2, 1), (2, 1, 3), (7, 9, 8), (9, 23, 2), (24, 25, 5), (31, 50, 7))
COMPILED = {"gemm, of deep tiles": 4, "matmul-float32": 8, "symm": 8, "syrk": 2, "trmm": 4}
"""What is compiled -> its lanes."""


@pytest.mark.parametrize("case", COMPILED)
def test_compiled_tiles_give_the_bits_of_the_original_and_stay_inside_arrays(case: str) -> None:
    name, schedule = KERNELS[case]
    nest = nest_named(name)
    original = numba.njit(module_function(nest.original, nest.name), error_model="numpy")
    candidate = module_function(tiled_source(nest, schedule, COMPILED[case]), nest.name)
    written = {access.array for statement in nest.statements for access in statement.accesses if access.is_write}
    for numbers in COMPILED_SIZES:
        expected = run(original, inputs(name, numbers))
        guarded = GuardedArguments(inputs(name, numbers))
        for threads in (1, 2) if "prange" in str(candidate.py_func) else (1,):
            with on_threads(threads):
                guarded.restore()
                candidate(*guarded.arguments)
            assert_same_bits({"returned": None} | guarded.values, expected, f"{case} at {numbers}")
            assert guarded.overrun() is None
            assert guarded.modified(written) is None


@contextmanager
def on_threads(count: int) -> Generator[None]:
    before = numba.get_num_threads()
    numba.set_num_threads(min(count, before))
    try:
        yield
    finally:
        numba.set_num_threads(before)


@pytest.mark.parametrize("layout", [strided, np.asfortranarray])
def test_arrays_that_are_not_contiguous(layout: Any, tmp_path: Path) -> None:
    loops, dtype, _ = NESTS["above the diagonal"]
    nest = nest_of(tmp_path, product(BODY, loops, dtype))
    original = module_function(nest.original, nest.name)
    candidate = module_function(tiled_source(nest, "register_tile(i=2, j=8)", 4), nest.name)
    for n in ORDERS:
        expected = run(original, arrays(n, dtype))
        got = run(candidate, {k: layout(v) if isinstance(v, np.ndarray) else v for k, v in arrays(n, dtype).items()})
        assert_same_bits(got, expected, f"at {n}")


def test_integers_are_rounded_to_the_type_of_their_array_at_every_step(tmp_path: Path) -> None:
    """Sums that overflow: a register has the array's type, and what is computed from it a wider one."""
    loops, dtype, _ = NESTS["int32"]
    nest = nest_of(tmp_path, product("C[i, j] = min(C[i, j] * A[i, k] + B[k, j], 1000000)", loops, dtype))
    original = numba.njit(module_function(nest.original, nest.name))
    candidate = module_function(tiled_source(nest, "register_tile(i=2, j=8)", 4), nest.name)
    for n in ORDERS:
        large = {k: v * 12345 if isinstance(v, np.ndarray) else v for k, v in arrays(n, dtype).items()}
        expected = run(original, copy.deepcopy(large))
        assert_same_bits(run(candidate, large), expected, f"at {n}")
