"""A live function as a file from which its run can be resumed."""

from typing import Any

import numpy as np
import pytest

from optimizer.function_file import kernel_file_text
from optimizer.polyhedral.frontend import nest_of_function, nest_of_source
from optimizer.polyhedral.nest import Nest

WEIGHT = 0.25


def half(x: float) -> float:
    return WEIGHT * x


def weigh(A, x, alpha, k=3):
    n, m = A.shape
    for i in range(n):
        for j in range(m):
            A[i, j] = alpha * A[i, j] + half(x[j]) + k


def count(table, n):
    for i in range(1, n):
        table[i] = table[i - 1] + 1


def written_again(function: Any, **arguments: Any) -> tuple[Nest, Nest]:
    nest = nest_of_function(function, arguments)
    return nest, nest_of_source(kernel_file_text(nest), nest.name, "kernel.py")


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", "int64"])
def test_types_shapes_constants_and_helpers_survive(dtype: str) -> None:
    nest, again = written_again(weigh, A=np.ones((3, 4), dtype), x=np.ones(4, dtype), alpha=1.0)
    assert again.arguments == nest.arguments
    assert again.arrays == nest.arrays
    assert (again.parameters, again.context) == (nest.parameters, nest.context)
    assert again.statements[0].accesses == nest.statements[0].accesses
    names: dict[str, Any] = {}
    exec(again.original, names)
    expected, actual = np.arange(6, dtype=dtype).reshape(2, 3), np.arange(6, dtype=dtype).reshape(2, 3)
    weigh(expected, np.ones(3, dtype), 2.0)
    names["weigh"](actual, np.ones(3, dtype), 2.0)
    assert np.array_equal(expected, actual)


def test_integer_arguments_stay_parameters() -> None:
    nest, again = written_again(count, table=np.zeros(5, np.int32), n=5)
    assert "n" in again.parameters
    assert again.arguments == nest.arguments
