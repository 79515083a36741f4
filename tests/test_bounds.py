"""Subscripts stay inside their arrays: proved for all sizes, or refused with the iteration that leaves."""

from __future__ import annotations

from typing import Any

import islpy as isl
import numpy as np
import pytest

from kernels import catalog
from optimizer.codegen.backend import CodeOptions
from optimizer.codegen.numba_source import NumbaBackend
from optimizer.errors import SourceError, UserError
from optimizer.polyhedral.frontend import check_bounds, nest_of_file, nest_of_source
from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.schedule import parse_schedule
from tests import hand_nests

HEADER = "import numpy as np\nfrom jaxtyping import Float64\n"
ARGUMENTS = 'n: int, m: int, A: Float64[np.ndarray, "n m"], x: Float64[np.ndarray, "n"]'


def kernel(body: str, arguments: str = ARGUMENTS) -> Nest:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return nest_of_source(f"{HEADER}def f({arguments}):\n{lines}", "f", "kernel.py")


def is_safe_everywhere(nest: Nest) -> bool:
    """Whether nothing but the existence of the arrays is asked of sizes."""
    extents = " and ".join(f"{extent} >= 0" for array in nest.arrays for extent in array.shape)
    return isl.Set(f"[{', '.join(nest.parameters)}] -> {{ : {extents} }}").is_subset(isl.Set(nest.context))


@pytest.mark.parametrize(
    "body",
    [
        "for i in range(n):\n    x[i] = A[i, m - 1] if m > 0 else 0.0",
        "for i in range(1, n - 1):\n    x[i] = x[i - 1] + x[i + 1]",
        "for i in range(n):\n    x[i] = x[i - 1] if i > 0 else x[n - 1]",
        "for i in range(n):\n    x[i] = 0.0 if i == 0 or x[i - 1] > 0.0 else 1.0",
        "for i in range(n):\n    x[i] = 1.0 if i + 1 < n and x[i + 1] > 0.0 else 0.0",
        "for i in range(n):\n    if i >= 2:\n        x[i] = x[i - 2]",
        "for i in range(n):\n    x[i // 2] = x[n - 1 - i]",
        "for i in range(n - 1, 0, -1):\n    x[i] = x[i - 1]",
        "for i in range(0, n - 1, 2):\n    x[i] = x[i + 1]",
        "for i in range(min(n, m)):\n    A[i, i] = x[i]",
        "for i in range(n):\n    x[min(i + 1, n - 1)] = x[max(i - 1, 0)]",
        "t = np.zeros(n + 1)\nfor i in range(n):\n    x[i] = t[i + 1]",
    ],
)
def test_proved_for_all_sizes(body: str) -> None:
    nest = kernel(body)
    assert is_safe_everywhere(nest)
    check_bounds(nest)
    for size in (0, 1, 2, 7):
        check_bounds(nest, {"n": size, "m": 3})


@pytest.mark.parametrize(
    ("body", "line", "column", "message"),
    [
        ("for i in range(n):\n    x[i] = x[i + 1]", 5, 15, "S0 at i=0 reads x[1], but x has the shape [n], here [1]"),
        ("for i in range(n):\n    x[i - 1] = 2.0", 5, 8, "S0 at i=0 writes x[-1], but x has the shape [n], here [1]"),
        ("for i in range(n + 1):\n    x[0] = x[i]", 5, 15, "S0 at i=0 reads x[0], but x has the shape [n], here [0]"),
        ("for i in range(n):\n    x[2 * i] += 2.0", 5, 8, "S0 at i=1 writes x[2], but x has the shape [n], here [2]"),
        ("for i in range(n):\n    x[i] = 1.0\nx[n] = 2.0", 6, 4, "S1 writes x[0], but x has the shape [n], here [0]"),
        (
            "for i in range(n):\n    for j in range(m):\n        x[i] += 2.0 * A[i, j] + A[i - 1, j]",
            6,
            36,
            "S0 at i=0, j=0 reads A[-1, 0], but A has the shape [n, m], here [1, 1]",
        ),
        (
            "for i in range(n):\n    x[i] = x[i - 1] if i < 3 else 0.0",
            5,
            15,
            "S0 at i=0 reads x[-1], but x has the shape [n], here [1]",
        ),
        (
            "for i in range(n):\n    for j in range(m):\n        A[i][j] = x[i] + A[i][j + 1]",
            6,
            29,
            "S0 at i=0, j=0 reads A[0, 1], but A has the shape [n, m], here [1, 1]",
        ),
    ],
)
def test_what_always_leaves_is_refused_at_once(body: str, line: int, column: int, message: str) -> None:
    with pytest.raises(SourceError) as caught:
        kernel(body)
    assert caught.value.message == message
    assert (caught.value.line, caught.value.column) == (line, column)


@pytest.mark.parametrize(
    ("body", "fine", "wrong", "message"),
    [
        (
            "for i in range(n):\n    A[i, i] = 0.0",
            (3, 3),
            (4, 3),
            r"S0 at i=3 writes A\[3, 3\], .*\[n, m\], here \[4, 3\]",
        ),
        ("for i in range(m):\n    x[i] = 0.0", (3, 3), (3, 4), r"S0 at i=3 writes x\[3\]"),
        ("x[0] = 1.0\nfor i in range(n):\n    x[i] *= 2.0", (1, 0), (0, 0), r"S0 writes x\[0\], .* here \[0\]"),
        ("for i in range(n):\n    x[i] = A[i, -1]", (2, 1), (2, 0), r"S0 at i=0 reads A\[0, -1\]"),
        ("for i in range(n):\n    x[i] += A[0, 4]", (3, 5), (3, 4), r"S0 at i=0 reads A\[0, 4\]"),
        ("for i in range(m):\n    x[3 * i] = 0.0", (7, 3), (6, 3), r"S0 at i=2 writes x\[6\]"),
        ("for i in range(m - n):\n    x[i] = 0.0", (4, 8), (4, 9), r"S0 at i=4 writes x\[4\]"),
    ],
)
def test_what_depends_on_sizes_is_refused_at_those_sizes(
    body: str, fine: tuple[int, int], wrong: tuple[int, int], message: str
) -> None:
    nest = kernel(body)
    check_bounds(nest)
    check_bounds(nest, dict(zip("nm", fine, strict=True)))
    with pytest.raises(UserError, match=r"kernel\.py:\d+: " + message):
        check_bounds(nest, dict(zip("nm", wrong, strict=True)))
    safe = isl.Set(nest.context)
    for sizes, is_inside in ((fine, True), (wrong, False)):
        here = isl.Set(f"[n, m] -> {{ : n = {sizes[0]} and m = {sizes[1]} }}")
        assert here.is_subset(safe) is is_inside


def test_generated_code_refuses_sizes_at_which_the_original_leaves_its_arrays() -> None:
    nest = kernel("for i in range(m):\n    x[3 * i] = 1.0")
    tree = parse_schedule("tile(i=4); parallel(i_t)").apply(nest)
    space: dict[str, Any] = {}
    exec(NumbaBackend().source(nest, tree, CodeOptions()).replace("@njit", "# @njit"), space)
    for n, m, is_fine in ((7, 3, True), (6, 3, False), (0, 1, False), (0, 0, True)):
        matrix, vector = np.zeros((n, m)), np.zeros(n)
        if is_fine:
            space["f"](n, m, matrix, vector)
            assert vector.sum() == m
        else:
            with pytest.raises(ValueError, match=r"f needs n \+ 2 >= 3 \* m"):
                space["f"](n, m, matrix, vector)


def test_a_partial_size_leaves_the_others_free() -> None:
    nest = kernel("for i in range(n):\n    A[i, i] = 0.0")
    with pytest.raises(UserError, match=r"here \[5, 0\]"):
        check_bounds(nest, {"n": 5})
    check_bounds(nest, {"n": 0})


def test_extents_without_names_are_compared_with_the_loops() -> None:
    nest = kernel(
        "for i in range(n):\n    x[i] += y[i]", 'n: int, x: Float64[np.ndarray, "_"], y: Float64[np.ndarray, "_"]'
    )
    assert nest.parameters == ("n", "x_0", "y_0")
    check_bounds(nest, {"n": 3, "x_0": 3, "y_0": 4})
    with pytest.raises(UserError, match=r"S0 at i=2 reads y\[2\], but y has the shape \[y_0\], here \[2\]"):
        check_bounds(nest, {"n": 3, "x_0": 3, "y_0": 2})


def test_a_small_fixed_array_is_not_refused_for_large_sizes_in_general() -> None:
    nest = kernel("for i in range(n):\n    c[i] = 0.0", 'n: int, c: Float64[np.ndarray, "3"]')
    check_bounds(nest, {"n": 3})
    with pytest.raises(UserError, match=r"S0 at i=3 writes c\[3\], but c has the shape \[3\]"):
        check_bounds(nest, {"n": 4})


@pytest.mark.parametrize("nest", [hand_nests.gemm(), hand_nests.lu(), hand_nests.row_sum()], ids=lambda nest: nest.name)
def test_hand_written_nests_are_safe(nest: Nest) -> None:
    assert is_safe_everywhere(nest)
    assert check_bounds(nest) is None


@pytest.mark.parametrize("name", catalog.names())
def test_bundled_kernels_are_safe_at_their_sizes(name: str) -> None:
    module = catalog.load(name)
    nest = nest_of_file(str(module.__file__))
    for sizes in module.SIZES.values():
        check_bounds(nest, {name: value for name, value in sizes.items() if name in nest.parameters})
    needs_one = {"correlation", "durbin", "fdtd-2d"}
    assert is_safe_everywhere(nest) is (name not in needs_one)
