"""A call of a `numba.stencil` kernel means what Numba computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from optimizer.errors import SourceError
from optimizer.measure.loading import plain_function
from optimizer.polyhedral.frontend import nest_of_source
from tests.plain_comparison import IMPORTS, assert_equal, assert_same_as_python, numbers

KERNELS = """\
EDGE = 1.5
@stencil
def mean(a):
    return 0.25 * (a[-1, 0] + a[1, 0] + a[0, -1] + a[0, 1])
@stencil(cval=EDGE)
def ahead(a):
    return a[1] - a[0]
@stencil("constant", neighborhood=((-2, 2),), cval=-1.0)
def window(a, w):
    s = 0.0
    for k in range(-2, 3):
        s += w * a[k]
    return s
@stencil(standard_indexing=("w",))
def weighted(a, b, w):
    d = a[0] - b[-1]
    if d > 0:
        d = d * w[0]
    return d + w[1]
@stencil
def whole(a):
    return a[-1] + a[1]
@stencil
def longer(a):
    return a[0] > a[-1]
@stencil
def early(a):
    if a[0] > 0:
        return 1.0
    return a[-1]
@stencil
def moving(a, k):
    return a[k]
@stencil
def writing(a):
    a[0] = 1.0
    return a[-1]
"""

CASES = {
    "two dimensions": ("B = mean(A)\nreturn B", "A"),
    "border": ("y = ahead(x)\nreturn y", "x"),
    "neighborhood": ("y = window(x, 0.5)\nreturn y", "x"),
    "neighborhood of a variable": ("c = 0.5\nc = c * 2.0\ny = window(x, c)\nreturn y", "x"),
    "several arrays": ("z = weighted(x, y, w)\nreturn z", "xyw"),
    "whole numbers": ("m = whole(n)\nreturn m", "n"),
    "truth": ("m = longer(x)\nreturn m", "x"),
    "out": ("mean(A, out=B)", "AB"),
    "out with a border": ("ahead(x, out=y)", "xy"),
    "steps": ("for t in range(3):\n    mean(A, out=B)\n    mean(B, out=A)", "AB"),
    "in an expression": ("x[:] = 2.0 * ahead(x) + x", "x"),
    "part": ("y = ahead(x[1:])\nreturn y", "x"),
}


def arguments(names: str, n: int) -> dict[str, Any]:
    made = {
        "A": numbers((n, n + 1), seed=1),
        "B": numbers((n, n + 1), seed=2),
        "x": numbers((n,), seed=3),
        "y": numbers((n,), seed=4),
        "w": numbers((2,), seed=5),
        "n": numbers((n,), seed=6, dtype="int32"),
    }
    return {name: made[name] for name in names}


@pytest.mark.parametrize("case", CASES)
def test_calls_of_stencils(case: str) -> None:
    body, names = CASES[case]
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    text = f"{KERNELS}def f({', '.join(names)}):\n{lines}"
    sizes = {"part": (4, 7), "truth": (5, 2, 3)}.get(case, (5, 1, 0, 2, 3))
    cases = [arguments(names, n) for n in sizes]
    nest = assert_same_as_python(text, cases, plain=reference(text, cases[0]))
    assert "stencil" not in nest.preamble
    assert "neighborhood=(" in nest.original


def reference(text: str, given: dict[str, Any]) -> Any:
    """The untouched function as plain Python."""
    nest = nest_of_source(IMPORTS + text, "f", "people.py", given)
    return plain_function(nest.original, "people.py", "f")


def test_numba_computes_the_same() -> None:
    """What stands in for Numba's stencils here and in measurements is what Numba does."""
    for body, names in (CASES["two dimensions"], CASES["border"], CASES["several arrays"], CASES["whole numbers"]):
        text = f"{KERNELS}def f({', '.join(names)}):\n" + "".join(f"    {line}\n" for line in body.splitlines())
        space: dict[str, Any] = {}
        exec(IMPORTS + text, space)
        for n in (5, 2, 1):
            given = arguments(names, n)
            assert_equal(space["f"](**given), reference(text, given)(**given))


REFUSED = {
    "early return": ("y = early(x)", "must return a number in its last line"),
    "distance": ("y = moving(x, 1)", "a distance is not a constant"),
    "write": ("y = writing(x)", "writes to an array"),
    "dimensions": ("y = mean(x)", "needs an array of 2 dimensions"),
    "arguments": ("y = ahead(x, x)", "do not fit the stencil `ahead(a)`"),
    "out of an expression": ("y = ahead(x, out=x[1:])", "`out` must be the name of an array"),
    "result of out": ("y = x + ahead(x, out=x)", "writes to its arguments within an expression"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_stencils_that_are_refused(case: str) -> None:
    body, message = REFUSED[case]
    with pytest.raises(SourceError) as caught:
        nest_of_source(f"{IMPORTS}{KERNELS}def f(x):\n    {body}\n    return y\n", "f", "people.py", {"x": np.ones(4)})
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("decorator", "message"),
    [
        ("@stencil(neighborhood=((1, 2),))", "must be pairs like"),
        ("@stencil(standard_indexing=('a',))", "must name arguments other than the first"),
        ("@stencil('wrap')", "only `cval`, `neighborhood` and `standard_indexing`"),
        ("@stencil(cval=unknown)", "is not a number that is fixed in this module"),
    ],
)
def test_decorators_that_are_refused(decorator: str, message: str) -> None:
    text = f"{IMPORTS}{decorator}\ndef near(a):\n    return a[1]\ndef f(x):\n    y = near(x)\n    return y\n"
    with pytest.raises(SourceError) as caught:
        nest_of_source(text, "f", "people.py", {"x": np.ones(4)})
    assert message in caught.value.message
