"""The language around arrays: loops over them, functions called with them, tuples of sizes, arguments."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest

from optimizer.errors import SourceError
from optimizer.polyhedral.frontend import nest_of_function, nest_of_source
from tests.plain_comparison import IMPORTS, assert_same_as_python, numbers, vectors

stencil: Any = vars(numba)["stencil"]


def indented(body: str) -> str:
    return "".join(f"    {line}\n" for line in body.splitlines())


LOOPS = {
    "elements": "s = 0.0\nfor v in x:\n    s += v * v\nreturn s",
    "element is a copy": "for v in x:\n    x[0] = 1.0\n    y[0] = v",
    "enumerate": "for i, v in enumerate(x):\n    y[i] = v + i",
    "enumerate from": "for i, v in enumerate(x, 1):\n    y[i - 1] = v * i",
    "enumerate from by name": "for i, v in enumerate(x, start=2):\n    y[i - 2] = v * i",
    "zip": "s = 0.0\nfor a, b in zip(x, y):\n    s += a * b\nreturn s",
    "zip of other lengths": "s = 0.0\nfor a, b in zip(x, z):\n    s += a * b\nreturn s",
    "enumerate zip": "for i, (a, b) in enumerate(zip(x, y)):\n    y[i] = a - b",
    "zip of a range": "for i, v in zip(range(len(x)), x):\n    y[i] = v",
    "zip of a range with a start": "for i, v in zip(range(1, 4), x):\n    z[i - 1] = v",
    "reversed": "s = 1.0\nfor v in reversed(x):\n    s = s * 0.5 + v\nreturn s",
    "part": "s = 0.0\nfor v in z[1:]:\n    s += v\nreturn s",
    "the element changes": "for v in x:\n    v = v + 1.0\n    y[0] = v",
    "after another loop": "for v in x:\n    y[0] += v\nfor v in y:\n    x[0] -= v",
    "reversed range": "for i in reversed(range(len(x))):\n    y[0] = y[0] * 0.5 + x[i]",
    "reversed range from": "for i in reversed(range(1, len(x))):\n    x[i] += x[i - 1]",
    "reversed range of steps": "for i in reversed(range(1, len(x), 2)):\n    y[0] = y[0] * 0.5 + x[i]",
    "reversed range downwards": "for i in reversed(range(len(x) - 1, -1, -2)):\n    y[0] = y[0] * 0.5 + x[i]",
    "choice inside": "for i, v in enumerate(x):\n    if v > 0:\n        y[i] = v",
}


@pytest.mark.parametrize("case", LOOPS)
def test_loops_over_arrays(case: str) -> None:
    needs_one = "[0]" in LOOPS[case]
    cases = [{**c, "z": numbers((3,), seed=5)} for c in vectors("x", "y", sizes=(5, 1, 2) if needs_one else (5, 0, 1))]
    assert_same_as_python(f"def f(x, y, z):\n{indented(LOOPS[case])}", cases)


ROWS = {
    "read": "for i, row in enumerate(A):\n    for j in range(len(row)):\n        y[i] += row[j]",
    "written": "for row in A:\n    for j in range(row.shape[0]):\n        row[j] *= 2.0",
    "whole": "for row in A:\n    row[:] = row * 2.0 + 1.0",
    "in place": "for row in A:\n    row += 1.0",
    "elements of rows": "for i, row in enumerate(A):\n    for v in row:\n        y[i] += v",
    "zip": (
        "for i, (row, other) in enumerate(zip(A, B)):\n"
        "    for j in range(A.shape[1]):\n"
        "        y[i] += row[j] * other[j]"
    ),
    "columns": "for column in A.T:\n    for i, v in enumerate(column):\n        y[i] += v",
    "size and number of dimensions": (
        "for row in A:\n    for j in range(row.size):\n        row[j] += row.ndim + A.ndim"
    ),
}


@pytest.mark.parametrize("case", ROWS)
def test_loops_over_rows(case: str) -> None:
    cases = [
        {"A": numbers((n, m), seed=n), "B": numbers((n, m), seed=m), "y": numbers((n,), seed=3)}
        for n, m in ((3, 4), (0, 2), (2, 0), (1, 1))
    ]
    assert_same_as_python(f"def f(A, B, y):\n{indented(ROWS[case])}", cases)


HELPERS = """\
SIZE = 4
@njit
def total(v):
    s = 0.0
    for i in range(len(v)):
        s += v[i]
    return s
def scale(v, factor=2.0):
    for i in range(len(v)):
        v[i] *= factor
@njit(cache=True)
def moments(v, *, shift=0.0):
    s = 0.0
    q = 0.0
    for e in v:
        d = e - shift
        s += d
        q += d * d
    return s, q
def shifted(v, by):
    out = np.empty_like(v)
    for i, e in enumerate(v):
        out[i] = e + by
    return out
def both(a, b):
    scale(a)
    return total(a) + total(b)
def clamp(a):
    return min(max(a, -1.0), 1.0)
def first(v):
    return v[0]
def doubled(v):
    v *= 2.0
    return 1.0
def again(v):
    return again(v[1:])
def early(v):
    for i in range(len(v)):
        return v[i]
def one(s):
    s = s + 1.0
    return s * SIZE
"""

CALLS = {
    "result": "s = total(x)\nfor i in range(len(x)):\n    y[i] = s",
    "in an expression": (
        "for i in range(len(x)):\n    y[i] = 2.0 * x[i] + clamp(x[i])\ns = total(x) * 2.0 + total(y)\nreturn s"
    ),
    "effect": "scale(x)\nscale(y, 3.0)",
    "effect by name": "scale(factor=0.5, v=x)",
    "several results": "a, b = moments(x)\nc, d = moments(y, shift=1.0)\nreturn a, b, c, d",
    "array result": "z = shifted(x, 1.0)\nfor i in range(len(x)):\n    y[i] = z[i]",
    "array result in an expression": "for i in range(len(y)):\n    y[i] += 1.0\nw = total(shifted(x, 2.0))\nreturn w",
    "returned": "for i in range(len(x)):\n    x[i] += 1.0\nreturn total(x)",
    "calls of calls": "s = both(x, y)\nreturn s",
    "twice": "s = total(x)\ns = s + total(y)\nreturn s",
    "same names": "i = 3.0\ns = total(x)\nq = i + s\nreturn q",
    "part": "s = total(x[1:])\nreturn s",
    "expression for an argument": "t = 0.5\nz = shifted(x, t * 2.0)\nreturn total(z)",
    "in a test": "if total(x) > 0:\n    scale(y)",
    "in a branch": "for i in range(len(x)):\n    if x[i] > 0:\n        scale(y, 0.5)",
    "in a loop": "for k in range(2):\n    scale(x)\n    y[0] = total(x)",
    "numbers stay calls": "for i in range(len(x)):\n    y[i] = one(x[i])",
    "one expression": (
        "for i in range(len(y)):\n    y[i] += first(x)\n"
        "s = 1.0 + first(x)\ns += first(y)\nif first(x) > 0:\n    s = first(x)\nreturn s"
    ),
    "computed argument": "s = total(x * 2.0 + x)\nreturn s",
    "in place by name": "s = doubled(x)\nreturn s",
}


@pytest.mark.parametrize("case", CALLS)
def test_functions_that_work_on_arrays(case: str) -> None:
    nest = assert_same_as_python(f"{HELPERS}def f(x, y):\n{indented(CALLS[case])}", vectors("x", "y", sizes=(3, 1, 4)))
    assert ("one(" in nest.statements[0].body) == (case == "numbers stay calls")


def test_rows_as_arguments() -> None:
    text = (
        f"{HELPERS}def f(A, y):\n"
        "    for i in range(len(A)):\n"
        "        y[i] = total(A[i]) + total(A[i, 1:])\n"
        "        scale(A[i])\n"
    )
    cases = [{"A": numbers((n, 3), seed=n), "y": numbers((n,), seed=1)} for n in (3, 0, 1)]
    assert_same_as_python(text, cases)


REFUSED_CALLS = {
    "recursion": ("s = $again(x)", "`again` calls itself", "loops"),
    "early return": ("s = $early(x)", "returns before its last line", "last line"),
    "too few": ("$scale()", "do not fit `scale(v, factor=2.0)`", ""),
    "unknown name": ("$scale(x, by=2.0)", "do not fit `scale(v, factor=2.0)`", ""),
    "given twice": ("$scale(x, v=y)", "do not fit", ""),
    "star": ("$scale(*x)", "any number of arguments", ""),
    "nothing returned": ("s = $scale(x)", "`scale` returns nothing", "by itself"),
    "writes within": ("s = x[0] + $doubled(x)", "writes to its arguments within an expression", "statement of its own"),
    "writes before": ("x[0] += $doubled(x)", "writes to its arguments within an expression", "statement of its own"),
    "not always called": ("s = 1.0 if x[0] > 0 else $total(x)", "is not always called here", "before"),
    "other meaning": ("SIZE = 2.0\ns = $total(x)\nt = named(x)", "`SIZE` means something else in `f`", "another name"),
}


@pytest.mark.parametrize("case", REFUSED_CALLS)
def test_calls_that_are_refused(case: str) -> None:
    body, message, hint = REFUSED_CALLS[case]
    helpers = HELPERS + "def named(v):\n    return v[0] * SIZE\n"
    text = (
        f"{IMPORTS}{helpers}def f(x, y):\n"
        f"{indented(body.replace('$', ''))}    for i in range(len(x)):\n"
        "        x[i] = 1.0\n"
    )
    with pytest.raises(SourceError) as caught:
        nest_of_source(text, "f", "people.py", {"x": np.ones(3), "y": np.ones(3)})
    assert message in caught.value.message
    assert hint in caught.value.hint


TUPLES = {
    "of the module": "for i in range(len(x)):\n    y[i] = WEIGHTS[0] * x[i] + WEIGHTS[-1] + len(WEIGHTS)",
    "unpacked": "a, b, c = WEIGHTS\nfor i in range(len(x)):\n    y[i] = a * x[i] + b - c",
    "shape": "shape = A.shape\nfor i in range(shape[0]):\n    for j in range(shape[1]):\n        A[i, j] *= 2.0",
    "shape unpacked": (
        "shape = A.shape\nn, m = shape\nfor i in range(n):\n    for j in range(m):\n        A[i, j] *= 2.0"
    ),
    "part of a shape": "n, = A.shape[:1]\nfor i in range(n):\n    for j in range(A.shape[-1]):\n        A[i, j] *= 2.0",
    "made from a shape": (
        "B = np.zeros(A.shape)\n"
        "for i in range(len(A)):\n"
        "    for j in range(A.shape[1]):\n"
        "        B[i, j] = A[i, j]\n"
        "return B"
    ),
    "made from a part": (
        "B = np.zeros(A.shape[1:])\n"
        "for j in range(len(B)):\n"
        "    for i in range(len(A)):\n"
        "        B[j] += A[i, j]\n"
        "return B"
    ),
    "made from a tuple": (
        "size = (A.shape[1], len(A))\n"
        "B = np.zeros(size)\n"
        "for i in range(size[1]):\n"
        "    for j in range(size[0]):\n"
        "        B[j, i] = A[i, j]\n"
        "return B"
    ),
    "constant shape": (
        "B = np.ones(SHAPE)\nfor i in range(SHAPE[0]):\n    for j in range(SHAPE[1]):\n        B[i, j] += j\nreturn B"
    ),
}


@pytest.mark.parametrize("case", TUPLES)
def test_tuples(case: str) -> None:
    cases = [
        {"A": numbers((n, m), seed=n), "x": numbers((n,), seed=1), "y": numbers((n,), seed=2)}
        for n, m in ((3, 2), (0, 3), (1, 1))
    ]
    header = "WEIGHTS = (0.25, 0.5, 1 / 3)\nSHAPE = (2, 3)\n"
    assert_same_as_python(f"{header}def f(A, x, y):\n{indented(TUPLES[case])}", cases)


def test_a_tuple_of_variables_that_change_is_refused() -> None:
    text = (
        f"{IMPORTS}def f(x):\n"
        "    a = 1.0\n"
        "    t = (a, 2.0)\n"
        "    a = 3.0\n"
        "    for i in range(len(x)):\n"
        "        x[i] = t[0]\n"
    )
    with pytest.raises(SourceError, match="is not supported in a kernel"):
        nest_of_source(text, "f", "people.py", {"x": np.ones(3)})


SIGNATURES = {
    "text": '@njit("void(float32[:,:], int64, f8)")',
    "types": "@njit(numba.void(numba.float32[:, ::1], numba.int64, numba.types.float64))",
    "list": '@njit(["(float32[:,:], int64, double)"], cache=True)',
    "by name": '@numba.jit(signature_or_function="(f4[:,:],i8,f8)", nopython=True, fastmath=True)',
    "several alike": '@njit(["(float32[:,:], int64, float64)", "(float32[:,::1], int64, float64)"])',
}


@pytest.mark.parametrize("case", SIGNATURES)
def test_types_from_numba_signatures(case: str) -> None:
    text = f"{IMPORTS}{SIGNATURES[case]}\ndef f(A, k, c):\n    for i in range(k):\n        A[i, 0] = c\n"
    nest = nest_of_source(text, "f", "people.py")
    assert [argument.dtype for argument in nest.arguments] == ["float32", "int64", "float64"]
    assert nest.array("A").shape == ("A_0", "A_1")
    assert nest.parameters == ("k", "A_0", "A_1")


@pytest.mark.parametrize(
    ("decorator", "message"),
    [
        ('@njit("(float64[:], float64)")', "has 2 types for 1 arguments"),
        ('@njit("(complex128[:],)")', "argument `x` has no type"),
        ('@njit(["(float64[:],)", "(float32[:],)"])', "argument `x` has no type"),
        ("@njit(locals={'s': numba.float32})", "may change what the function does"),
    ],
)
def test_numba_options_that_are_refused(decorator: str, message: str) -> None:
    with pytest.raises(SourceError) as caught:
        nest_of_source(
            f"{IMPORTS}{decorator}\ndef f(x):\n    for i in range(len(x)):\n        x[i] = 1.0\n", "f", "a.py"
        )
    assert message in caught.value.message


def test_keyword_arguments_and_defaults() -> None:
    text = (
        "START = 2.5\ndef f(x, *, a=START, n: int = 3, b: float = 1.0):\n    for i in range(n):\n        x[i] = a * b\n"
    )
    nest = assert_same_as_python(text, [{"x": np.zeros(4), "a": 1.5, "n": n, "b": 3.0} for n in (2, 0, 4)])
    assert [(argument.name, argument.default) for argument in nest.arguments][1:] == [
        ("a", "START"),
        ("n", "3"),
        ("b", "1.0"),
    ]
    space: dict[str, Any] = {}
    exec(nest.original, space)
    x = np.zeros(4)
    space["f"](x, 2.0, n=1)
    assert list(x) == [2.0, 0.0, 0.0, 0.0]
    assert "START = 2.5" in nest.preamble


def test_keyword_only_arguments_that_cannot_be_given_in_order_are_refused() -> None:
    text = f"{IMPORTS}def f(x, a=1.0, *, b: float):\n    for i in range(len(x)):\n        x[i] = a * b\n"
    with pytest.raises(SourceError, match=r"`b`.*without a default"):
        nest_of_source(text, "f", "people.py", {"x": np.zeros(2)})


SWAPS = {
    "variables": "a = 1.0\nb = 1.0\nfor i in range(len(x)):\n    a, b = b, a + x[i]\nreturn a, b",
    "elements": "for i in range(len(x) - 1):\n    x[i], x[i + 1] = x[i + 1], x[i]",
    "by another name": "y = x[:]\nfor i in range(len(x) - 1):\n    y[i], s = x[i + 1], x[i]\n    x[i + 1] = s",
    "in a branch": "for i in range(len(x) - 1):\n    if x[i] > x[i + 1]:\n        x[i], x[i + 1] = x[i + 1], x[i]",
    "three": "a = 0.0\nb = 1.0\nfor i in range(len(x)):\n    a, b, x[i] = b, x[i], a\nreturn a, b",
}


@pytest.mark.parametrize("case", SWAPS)
def test_values_that_change_places(case: str) -> None:
    assert_same_as_python(f"def f(x):\n{indented(SWAPS[case])}", vectors("x"))


BOUNDS = {
    "lower of two": "for i in range(n if n < m else m):\n    x[i] += y[i]",
    "greater of two": "for i in range(n - m if n - m > 0 else 0, n):\n    x[i] += 1.0",
    "subscript": "for i in range(n):\n    x[i] += y[i if i <= m - 1 else m - 1]",
}


@pytest.mark.parametrize("case", BOUNDS)
def test_choices_between_sizes(case: str) -> None:
    cases = [{"x": numbers((n,), seed=1), "y": numbers((m,), seed=2)} for n, m in ((3, 5), (5, 3), (2, 2), (0, 1))]
    assert_same_as_python(f"def f(x, y):\n    n = len(x)\n    m = len(y)\n{indented(BOUNDS[case])}", cases)


def test_other_choices_in_bounds_are_refused() -> None:
    text = f"{IMPORTS}def f(x, y):\n    for i in range(3 if len(x) > 5 else 1):\n        x[i] = 1.0\n"
    with pytest.raises(SourceError, match="the bound of this loop is not affine"):
        nest_of_source(text, "f", "people.py", {"x": np.zeros(2), "y": np.zeros(2)})


def test_a_live_function_brings_its_tuples_and_stencils() -> None:
    weights = (0.25, 0.5)

    @stencil(cval=1.0)
    def near(a: Any) -> Any:
        return a[0] + a[1]

    def f(x: Any) -> None:
        y = near(x)
        for i in range(len(x)):
            x[i] = y[i] * weights[0]

    nest = nest_of_function(f, {"x": np.ones(3)})
    assert nest.statements[-1].body == "x[i] = y[i] * 0.25"
    assert "weights = (0.25, 0.5)" in nest.original
