"""What register tiles compute: bit by bit what the original does, at sizes that fill tiles and at others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from kernels import catalog
from optimizer.codegen import vector_unit
from optimizer.codegen.vector_unit import VectorUnit
from optimizer.measure.commands import Form
from optimizer.measure.guards import GuardedArguments
from optimizer.measure.loading import plain_function
from optimizer.polyhedral.legality import Legal, judge
from optimizer.polyhedral.model import Model
from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.schedule import parse_schedule
from tests.test_random_schedules import assert_same_bits, module_function, nest_named, run
from tests.test_vectorize import code, nest_of, strided

LANES = (2, 4, 8)
SIZES = ((1, 2, 1, 3, 1), (7, 9, 8, 2, 3), (25, 17, 5, 4, 2), (8, 24, 7, 3, 4))
"""Of the loops in the order of a kernel's sizes; few are a multiple of a tile's."""


@contextmanager
def lanes_of_doubles(lanes: int) -> Iterator[None]:
    """As on a machine whose registers hold so many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vector_unit, "host_unit", lambda: VectorUnit(8 * lanes, 32))
        yield


KERNELS: dict[str, tuple[str, str]] = {
    "conv2d": ("conv2d", "distribute(x); distribute(y); distribute(f); register_tile(y_2=2, x_2=8)"),
    "conv2d, of filters": ("conv2d", "distribute(x); distribute(y); distribute(f); register_tile(f_2=3, x_2=8)"),
    "covariance": ("covariance", "distribute(j_3); distribute(i_3); register_tile(i_4=3, j_4=8)"),
    "doitgen": ("doitgen", "distribute(p); register_tile(p_3=8)"),
    "gemm": ("gemm", "distribute(i); register_tile(i_2=3, j_2=8)"),
    "gemm, deep tiles": ("gemm", "distribute(i); tile(k=4); register_tile(i_2=2, j_2=16); parallel(i_2_t)"),
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
    nest = nest_named(name)
    source = tiled_source(nest, schedule, lanes)
    original = module_function(nest.original, nest.name)
    for numbers in SIZES:
        expected = run(original, inputs(name, numbers))
        for form in (Form.WATCHED, Form.BACKWARD) if "prange" in source else (Form.PLAIN,):
            got = run(plain_function(source, "candidate", nest.name, form), inputs(name, numbers))
            assert_same_bits(got, expected, f"{case} at {numbers}")
