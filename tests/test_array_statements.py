"""Array statements mean what NumPy makes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from optimizer.polyhedral.frontend import nest_of_source
from optimizer.polyhedral.nest import Nest
from tests.array_programs import ARGUMENTS, random_program
from tests.nest_interpreter import run

SIZES = ({"n": 5, "m": 4}, {"n": 3, "m": 6}, {"n": 4, "m": 4})


def inputs(types: dict[str, str], sizes: dict[str, int], seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    found: dict[str, Any] = {"a": 1.25}
    for name, shape in ARGUMENTS.items():
        values = rng.uniform(-2, 2, tuple(sizes[dimension] for dimension in shape))
        found[name] = np.round(values * 3).astype(types[name]) if types[name] == "int64" else values.astype(types[name])
    return found


def assert_same(nest: Nest, text: str, arguments: dict[str, Any]) -> None:
    space: dict[str, Any] = {}
    exec(text, space)
    mine = {name: np.array(value) if isinstance(value, np.ndarray) else value for name, value in arguments.items()}
    theirs = {name: np.array(value) if isinstance(value, np.ndarray) else value for name, value in arguments.items()}
    with np.errstate(all="ignore"):
        expected, got = space["f"](**theirs), run(nest, mine)
    for name, value in theirs.items():
        if isinstance(value, np.ndarray):
            np.testing.assert_allclose(mine[name], value, rtol=2e-4, atol=1e-4, err_msg=f"{name}\n{text}")
    if expected is not None:
        np.testing.assert_allclose(got, expected, rtol=2e-4, atol=1e-4, err_msg=text)


def check(seed: int) -> None:
    program = random_program(seed)
    text = program.text()
    sizes = SIZES[seed % len(SIZES)]
    assert_same(nest_of_source(text, "f", "random.py"), text, inputs(program.types, sizes, seed))


@pytest.mark.parametrize("first", range(0, 120, 40))
def test_random_statements(first: int) -> None:
    for seed in range(first, first + 40):
        check(seed)


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 3000, 100))
def test_many_random_statements(first: int) -> None:
    for seed in range(first, first + 100):
        check(seed)
