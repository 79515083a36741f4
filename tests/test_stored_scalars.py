"""Scalars that are loaded from an element and stored to it: the element takes their place, or it must not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernels import catalog
from optimizer.polyhedral.frontend import nest_of_file, nest_of_source
from optimizer.polyhedral.nest import Nest, Role
from optimizer.polyhedral.tree import show
from tests.test_frontend_semantics import assert_same

HEADER = "import numpy as np\nfrom jaxtyping import Float32, Float64\n"
ARGUMENTS = 'n: int, A: Float64[np.ndarray, "n"], B: Float64[np.ndarray, "n"]'
WITHIN = "    for i in range(n):\n        w = A[i]\n        for k in range(n):\n            w += B[k]\n"
STORED = f"{WITHIN}        A[i] = w\n"


def nest_and_function(body: str, arguments: str = ARGUMENTS) -> tuple[Nest, Any]:
    text = f"{HEADER}def f({arguments}) -> None:\n{body}"
    module: dict[str, Any] = {}
    exec(text, module)
    return nest_of_source(text, "f", "kernel.py"), module["f"]


def scalars(nest: Nest) -> list[str]:
    return [array.name for array in nest.arrays if array.role is Role.SCALAR]


def values(n: int = 5) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    return {"n": n, "A": rng.normal(size=n), "B": rng.normal(size=n)}


def test_a_sum_in_a_scalar_is_a_sum_in_its_element() -> None:
    nest, function = nest_and_function(STORED)
    assert [statement.body for statement in nest.statements] == ["A[i] += B[k]"]
    assert show(nest.tree) == "for i\n  for k\n    S1: i = i, k = k"
    assert not scalars(nest)
    assert_same(nest, function, values())


def test_a_store_of_something_else_stays() -> None:
    nest, function = nest_and_function(f"{WITHIN}        A[i] = w / B[i]\n")
    assert [statement.body for statement in nest.statements] == ["A[i] += B[k]", "A[i] = A[i] / B[i]"]
    assert_same(nest, function, values())


def test_one_element_may_be_summed_up_in_all_loops() -> None:
    nest, function = nest_and_function(
        "    for t in range(1, n):\n        w = A[0]\n        for i in range(1, n):\n            w += A[i] * B[t]\n"
        "        A[0] = w\n"
    )
    assert [statement.body for statement in nest.statements] == ["A[0] += A[i] * B[t]"]
    assert_same(nest, function, values())


def test_ludcmp_eliminates_in_place() -> None:
    nest = nest_of_file(str(catalog.load("ludcmp").__file__))
    assert [statement.body for statement in nest.statements[:3]] == [
        "A[i, j] -= A[i, k] * A[k, j]",
        "A[i, j] = A[i, j] / A[j, j]",
        "A[i, j_2] -= A[i, k_2] * A[k_2, j_2]",
    ]
    assert scalars(nest) == ["w_3", "w_4"]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(STORED.replace("B[k]", "A[k]"), id="the element is read in between"),
        pytest.param(STORED.replace("+= B[k]", "+= 1.0\n            A[k] = 2.0"), id="it is written in between"),
        pytest.param(STORED.replace("= w", "= w + A[i]"), id="the store reads it"),
        pytest.param(STORED.replace("A[i] = w", "A[n - 1 - i] = w"), id="another element is stored"),
        pytest.param(STORED.replace("w = A[i]", "w = 2.0 * A[i]"), id="something else is loaded"),
        pytest.param(STORED.replace("A[i] = w", "if i < 3:\n            A[i] = w"), id="not always stored"),
        pytest.param(f"{STORED}        B[i] = w\n", id="used after the store"),
        pytest.param(STORED.replace("        A[i] = w", "            A[i] = w"), id="stored again and again"),
    ],
)
def test_a_scalar_stays_one(body: str) -> None:
    nest, function = nest_and_function(body)
    assert scalars(nest) == ["w"]
    assert_same(nest, function, values())


def test_a_scalar_that_no_innermost_loop_would_hold_stays_one() -> None:
    nest, _ = nest_and_function(STORED, ARGUMENTS.replace("Float64", "Float32"))
    assert scalars(nest) == ["w"]
