"""Functions of NumPy, sizes without names and buffers that change places, each as people write them."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from optimizer.errors import SourceError
from optimizer.polyhedral.frontend import nest_of_source
from tests.nest_interpreter import run
from tests.plain_comparison import IMPORTS, numbers

A = numbers((4, 5), seed=1)
B = numbers((5, 3), seed=2)
S = numbers((4, 4), seed=3)
X = numbers((6,), seed=4)
Y = numbers((6,), seed=5)
V = numbers((5,), seed=6)

CASES: dict[str, tuple[str, list[Any]]] = {
    "add into": ("np.add(a, b, out=c)", [X, Y, Y + 1]),
    "multiply into": ("np.multiply(a, b, c)", [X, Y, Y + 1]),
    "product into": ("np.dot(a, b, out=c)", [S, S + 1, S + 2]),
    "product into itself": ("np.dot(a, b, out=a)", [S, S + 1]),
    "fill": ("a.fill(2)\na[1:] += 1", [X]),
    "copy to": ("np.copyto(a, b)", [X, Y]),
    "one size": ("return a @ b + 1", [A, B]),
    "one row for all": ("return a + b", [A, V]),
    "one column for all": ("return a * b", [A, numbers((4, 1))]),
    "one size of slices": ("a[1:-1] = b[2:] - b[:-2]", [X, Y]),
    "norm": ("return np.linalg.norm(a), np.linalg.norm(b, axis=1)", [X, A]),
    "running sum": ("return np.cumsum(a), np.cumprod(a)", [X]),
    "running sum of rows": ("return np.cumsum(a, axis=1), np.cumsum(a, axis=0)", [A]),
    "count": ("return np.count_nonzero(a > 0), np.sum(a > 1)", [X]),
    "wider sum": ("return np.sum(a, dtype=np.float64), np.mean(a, axis=0, dtype=np.float64)", [A.astype("float32")]),
    "sample variance": ("return np.var(a, ddof=1), np.std(b, axis=0, ddof=1)", [X, A]),
    "clip": ("return np.clip(a, 0.5, None), a.clip(-1, 1)", [X]),
    "differences": ("return np.diff(a), np.diff(b)", [X, A]),
    "diagonal": ("return np.diag(a) * 1, np.trace(a), np.diag(b)", [S, X]),
    "flip": ("return np.flip(a) * 1, np.fliplr(b) * 1", [X, A]),
    "roll": ("return np.roll(a, 2), np.roll(a, -1), np.roll(b, 1, axis=1)", [X, A]),
    "join": ("return np.concatenate((a, b, a)), np.concatenate((c, c), axis=1)", [X, V, A]),
    "new dimensions": ("return a.reshape(-1, 1) * b.reshape(1, -1) + np.expand_dims(a, 1)", [X, V]),
    "outer": ("return np.subtract.outer(a, b)", [X, V]),
    "points": ("return np.linspace(0.5, 2.0, len(a)) * a", [X]),
    "chosen": ("a[a > 0.5] = 0.0\nb[a < 0] += 2.0", [X, Y]),
    "flat copy": ("c = a.flatten()\nc[0] = 3.0\nreturn c", [X]),
    "flat view": ("c = a.ravel()\nc[0] = 3.0\nreturn c * 1", [X]),
    "transposed": ("return np.transpose(a, (1, 0)) * 2", [A]),
    "power": ("for t in range(3):\n    b = a @ b\n    b = b / np.linalg.norm(b)\nreturn b", [S, numbers((4,))]),
    "leapfrog": ("for t in range(3):\n    a = a + 0.1 * b\n    b = b - 0.1 * a\nreturn a, b", [X, Y]),
    "handed on": (
        "for t in range(3):\n    c = a.copy()\n    c[1:-1] = a[1:-1] + 0.1 * (a[2:] - a[:-2])\n    a = c\nreturn a",
        [X],
    ),
    "numbers handed on": ("s = 1.0\nfor i in range(len(a)):\n    r = s * a[i]\n    s = r\nreturn s", [X]),
}


def indented(body: str) -> str:
    return "".join(f"    {line}\n" for line in body.splitlines())


def assert_near(mine: Any, theirs: Any) -> None:
    if isinstance(theirs, tuple):
        for one, other in zip(mine, theirs, strict=True):
            assert_near(one, other)
    elif theirs is not None:
        assert np.asarray(mine).dtype == np.asarray(theirs).dtype
        np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-7)


def assert_same(body: str, values: list[Any]) -> None:
    names = "abcd"[: len(values)]
    text = f"{IMPORTS}def f({', '.join(names)}):\n{indented(body)}"
    space: dict[str, Any] = {}
    exec(text, space)
    nest = nest_of_source(text, "f", "people.py", dict(zip(names, values, strict=True)))
    mine, theirs = (dict(zip(names, copy.deepcopy(values), strict=True)) for _ in "ab")
    assert_near(run(nest, mine), space["f"](**theirs))
    for name in names:
        assert_near(mine[name], theirs[name])


@pytest.mark.parametrize("case", CASES)
def test_as_numpy_does_it(case: str) -> None:
    assert_same(*CASES[case])


SWAPS = {
    "two": "b[1:-1] = 0.5 * (a[:-2] + a[2:])\na, b = b, a",
    "by a third name": "b[1:-1] = 0.5 * (a[:-2] + a[2:])\nc = a\na = b\nb = c",
    "first": "a, b = b, a\nb[1:-1] = t + a[:-2]",
    "with its number": "b[0] = a[1] * t\na, b = b, a\na[1] += b[2]",
}


@pytest.mark.parametrize("case", SWAPS)
@pytest.mark.parametrize("steps", [0, 1, 2, 5])
@pytest.mark.parametrize("end", ["", "return a", "s = a.sum()\nreturn s, b"])
def test_two_buffers(case: str, steps: int, end: str) -> None:
    loop = f"for t in range(1, {1 + steps}):\n{indented(SWAPS[case])}"
    assert_same(loop + end, [X, Y])
    assert_same(
        f"for t in range(d):\n{indented(SWAPS[case])}{end}".replace("d)", "len(c) - 3)"), [X, Y, V[: 3 + steps]]
    )


@pytest.mark.parametrize("steps", range(5))
def test_three_buffers(steps: int) -> None:
    loop = "c[1:-1] = 2.0 * b[1:-1] - a[1:-1] + 0.1 * (b[2:] - b[:-2])\na, b, c = b, c, a"
    assert_same(f"for t in range({steps}):\n{indented(loop)}return b", [X, Y, X + Y])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("for t in range(3):\n    a, b = b, a\na[0] = 1.0", "is read here and changed by the same assignment"),
        ("return a.reshape(2, 3)", "a new shape may only add or drop dimensions of size 1"),
        ("return sum(a)", "`sum` of Python is not supported"),
        ("assert len(a) == 3\nreturn a + b", "a kernel that may raise is not supported"),
        ("return a + np.random.rand(3)", "gives another number each time"),
        ("c = a\nfor t in range(2):\n    d = b * 2\n    c = d\nreturn c", "stands for several parts of arrays"),
    ],
)
def test_what_is_refused(body: str, message: str) -> None:
    text = f"{IMPORTS}def f(a, b):\n{indented(body)}"
    with pytest.raises(SourceError, match=message):
        nest_of_source(text, "f", "people.py", {"a": X, "b": Y})
