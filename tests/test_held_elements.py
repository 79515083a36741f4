"""Elements that variables stand for while an innermost loop runs: which ones, and that nothing changes."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optimizer.codegen.affine import number, variable
from optimizer.codegen.backend import CodeOptions, FloatingPoint
from optimizer.codegen.held_elements import hold_elements
from optimizer.codegen.loop_ast import Bind, Block, Call, For, walk
from optimizer.codegen.numba_source import NumbaBackend, module_parts
from optimizer.polyhedral.frontend import nest_of_file
from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.schedule import parse_schedule

HEAD = """
import numpy as np
from jaxtyping import Float32, Float64, Int64
"""
MATVEC = """
def kernel(A: Float64[np.ndarray, "n m"], x: Float64[np.ndarray, "m"], y: Float64[np.ndarray, "n"]):
    n, m = A.shape
    for i in range(n):
        for j in range(m):
            y[i] += A[i, j] * x[j]
"""
SOLVE = """
def kernel(n: int, L: Float64[np.ndarray, "n n"], x: Float64[np.ndarray, "n"]):
    for i in range(n):
        for j in range(i):
            x[i] -= L[i, j] * x[j]
        x[i] = x[i] / L[i, i]
"""
LAST = """
def kernel(n: int, A: Float64[np.ndarray, "n"], x: Float64[np.ndarray, "n"]):
    for i in range(n):
        x[n - 1] += A[i]
"""


def nest_of(tmp_path: Path, text: str) -> Nest:
    file = tmp_path / "kernel.py"
    file.write_text(HEAD + text, encoding="utf-8")
    return nest_of_file(f"{file}:kernel")


def loop_code(nest: Nest, schedule: str = "") -> str:
    return module_parts(nest, parse_schedule(schedule).apply(nest), CodeOptions()).function


def test_a_sum_stays_in_a_variable_behind_a_guard(tmp_path: Path) -> None:
    code = loop_code(nest_of(tmp_path, MATVEC))
    assert code.endswith(
        """\
    for i in range(n):
        if 0 < m:
            y_0 = y[i]
            for j in range(m):
                y_0 += A[i, j] * x[j]
            y[i] = y_0
""".rstrip("\n")
    )


def test_each_row_of_a_group_has_its_own(tmp_path: Path) -> None:
    code = loop_code(nest_of(tmp_path, MATVEC), "unroll_and_jam(i, 2)")
    assert "y_0 = y[at(2 * i_t)]" in code
    assert "y_1 += A[at(2 * i_t + 1), j] * x[j]" in code
    assert "y[at(2 * i_t + 1)] = y_1" in code


def test_a_triangle_proves_that_what_is_read_is_another_element(tmp_path: Path) -> None:
    code = loop_code(nest_of(tmp_path, SOLVE))
    assert "x_0 -= L[i, j] * x[j]" in code


@pytest.mark.parametrize(
    "text",
    [
        # What is read may be the element itself.
        'def kernel(n: int, A: Float64[np.ndarray, "n n"], x: Float64[np.ndarray, "n"]):\n'
        "    for i in range(n):\n        for j in range(n):\n            x[i] += A[i, j] * x[j]\n",
        # Two elements that are the same one in the middle.
        'def kernel(n: int, A: Float64[np.ndarray, "n n"], x: Float64[np.ndarray, "n"]):\n'
        "    for i in range(n):\n        for j in range(n):\n            x[i] += A[i, j]\n"
        "            x[n - 1 - i] -= A[j, i]\n",
        # A variable would be wider than the element.
        'def kernel(n: int, A: Float64[np.ndarray, "n n"], x: Float32[np.ndarray, "n"]):\n'
        "    for i in range(n):\n        for j in range(n):\n            x[i] += A[i, j]\n",
        'def kernel(n: int, A: Int64[np.ndarray, "n n"], x: Int64[np.ndarray, "n"]):\n'
        "    for i in range(n):\n        for j in range(n):\n            x[i] += A[i, j]\n",
        # The loop moves on.
        'def kernel(n: int, A: Float64[np.ndarray, "n n"], x: Float64[np.ndarray, "n"]):\n'
        "    for i in range(n):\n        for j in range(n):\n            x[j] += A[i, j]\n",
    ],
)
def test_what_is_not_proved_stays_in_memory(tmp_path: Path, text: str) -> None:
    assert "x_0" not in loop_code(nest_of(tmp_path, text))


def test_a_scalar_that_became_an_array_is_held_too(tmp_path: Path) -> None:
    code = loop_code(
        nest_of(
            tmp_path,
            'def kernel(A: Float64[np.ndarray, "n m"], x: Float64[np.ndarray, "n"]):\n    n, m = A.shape\n'
            "    for i in range(n):\n        total = 0.0\n        for j in range(m):\n            total += A[i, j]\n"
            "        x[i] = total / m\n",
        ),
        "tile(i=8); distribute(i); unroll_and_jam(i_2, 2)",
    )
    assert "total_0 = total[at(2 * i_2_t)]" in code
    assert "total_1 += A[at(2 * i_2_t + 1), j]" in code


def test_a_name_that_is_bound_again_proves_nothing_about_its_first_value(tmp_path: Path) -> None:
    nest = nest_of(
        tmp_path,
        'def kernel(n: int, A: Float64[np.ndarray, "n n"], x: Float64[np.ndarray, "n"]):\n'
        "    for i in range(n):\n        for j in range(n):\n            x[i] += A[i, j] * x[j]\n",
    )
    body = Call("S0", (number(0), variable("j")))
    loop = For("j", "j", number(0), variable("n"), 1, body)
    block = Block((Bind("rest", number(1)), Bind("rest", number(2)), loop))
    held = hold_elements(block, nest, frozenset(), frozenset())
    assert not any(inner.held for inner in walk(held) if isinstance(inner, For))


def test_a_parallel_loop_shares_no_variable(tmp_path: Path) -> None:
    code = loop_code(nest_of(tmp_path, MATVEC), "interchange(i, j); unroll_and_jam(j, 2)")
    assert "prange" not in code
    code = loop_code(nest_of(tmp_path, MATVEC), "parallel(i)")
    assert code.index("prange") < code.index("y_0 = y[i]")


@pytest.mark.parametrize("schedule", ["", "unroll_and_jam(i, 4)", "parallel(i)", "tile(i=3, j=2)", "reverse(i)"])
@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (1, 1), (7, 5), (8, 9)])
def test_results_are_the_same_bits(tmp_path: Path, schedule: str, shape: tuple[int, int]) -> None:
    nest = nest_of(tmp_path, MATVEC)
    rng = np.random.default_rng(3)
    A, x, y = rng.standard_normal(shape), rng.standard_normal(shape[1]), rng.standard_normal(shape[0])
    expected, found = y.copy(), y.copy()
    plain(tmp_path, (tmp_path / "kernel.py").read_text(), "original")(A, x, expected)
    plain(tmp_path, code_of(nest, schedule), "candidate")(A, x, found)
    assert found.tobytes() == expected.tobytes()


def test_an_empty_loop_touches_nothing(tmp_path: Path) -> None:
    """Without the guard the element before the first would be read."""
    code, empty, x = code_of(nest_of(tmp_path, LAST), ""), np.zeros(0), np.zeros(0)
    assert "if 0 < n:\n        x_0 = x[" in code
    plain(tmp_path, code, "candidate")(0, empty, x)
    assert x.size == 0
    with pytest.raises((IndexError, OverflowError)):
        plain(tmp_path, code.replace("if 0 < n:", "if True:"), "unguarded")(0, empty, x)


def code_of(nest: Nest, schedule: str) -> str:
    return NumbaBackend().source(nest, parse_schedule(schedule).apply(nest), CodeOptions(FloatingPoint.STRICT))


def plain(folder: Path, text: str, name: str) -> Any:
    """The module's function as Python runs it."""
    file = folder / f"{name}.py"
    file.write_text(text, encoding="utf-8")
    specification = importlib.util.spec_from_file_location(name, file)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return getattr(module.kernel, "py_func", module.kernel)
