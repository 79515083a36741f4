"""An `if` that depends on data means what Python does."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from optimizer.errors import SourceError
from optimizer.polyhedral.frontend import nest_of_source
from tests.plain_comparison import IMPORTS, assert_same_as_python, numbers, vectors

VECTOR_BODIES = {
    "one assignment": "if x[i] > 0:\n    y[i] = x[i]",
    "augmented": "if x[i] > 0:\n    y[i] += 2.0 * x[i]",
    "else": "if x[i] > 0:\n    y[i] = 1.0\nelse:\n    y[i] = -x[i]",
    "else only": "if x[i] > 0:\n    pass\nelse:\n    y[i] = 3.0",
    "other targets": "if x[i] > y[i]:\n    y[i] = x[i]\nelse:\n    x[i] = y[i]",
    "test is overwritten": "if x[i] > 0:\n    x[i] = -1.0\n    y[i] = x[i]\nelse:\n    y[i] = 5.0",
    "elif": (
        "if x[i] > 1:\n"
        "    y[i] = 1.0\n"
        "elif x[i] > 0:\n"
        "    y[i] = 2.0\n"
        "elif x[i] > -1:\n"
        "    x[i] = 0.0\n"
        "else:\n"
        "    y[i] = 4.0"
    ),
    "nested": (
        "if x[i] > 0:\n"
        "    y[i] = 7.0\n"
        "    if y[i] > x[i]:\n"
        "        x[i] = 2.0\n"
        "    else:\n"
        "        y[i] -= 1.0\n"
        "    x[i] += 1.0"
    ),
    "own variable": "if x[i] > 0:\n    t = x[i] * 2.0\n    y[i] = t + t",
    "own variable that may fail": "if x[i] != 0:\n    t = 1.0 / x[i]\n    y[i] = t * t",
    "own variables of both": (
        "if x[i] > 0:\n    t = x[i] * 2.0\n    y[i] = t\nelse:\n    x[i] = 1.0\n    t = y[i] - 1.0\n    x[i] += t * t"
    ),
    "the same variable": "if x[i] > 0:\n    t = x[i]\nelse:\n    t = -1.0\ny[i] = t",
    "truth of a number": "if x[i]:\n    y[i] = 1.0",
    "and": "if x[i] > 0 and y[i] > 0:\n    y[i] = -y[i]",
    "or, not": "if not (x[i] > 0 or y[i] > 0):\n    y[i] = 9.0",
    "guarded by the loop": "if i > 0 and x[i - 1] > 0:\n    y[i] = x[i - 1]",
    "guarded by the loop, else": "if i > 0 and x[i - 1] > 0:\n    y[i] = x[i - 1]\nelse:\n    y[i] = 0.5",
    "or with the loop": "if i == 0 or x[i - 1] > 0:\n    y[i] = 8.0",
    "an `if` of the loop inside": "if x[i] > 0:\n    if i > 0:\n        y[i] = y[i - 1]\n    else:\n        y[i] = 2.0",
    "loop inside": "if x[i] > 0:\n    for j in range(i):\n        y[j] += x[i]",
    "own variable in a loop": "if x[i] > 0:\n    for j in range(i):\n        t = y[j] * x[i]\n        y[j] = t - x[j]",
    "two targets": "if x[i] > 0:\n    x[i], y[i] = 1.0, 2.0",
    "own array": "if x[i] > 0:\n    z = np.empty(2)\n    z[0] = x[i]\n    z[1] = 1.0 / x[i]\n    y[i] = z[0] + z[1]",
    "own array of values": "if x[i] > 0:\n    z = x * 2.0\n    y[i] = z[i] + z[0]",
    "own name of a part": "if x[i] > 0:\n    z = y[:2]\n    z[0] = x[i]\n    z[1] += 1.0",
    "own name of what the test reads": "if x[i] > 0:\n    z = x[:]\n    z[i] = -1.0\n    y[i] = 7.0",
    "parts in a loop": "if x[i] > 0:\n    for v in y[:2]:\n        x[i] += v",
    "own position": "if x[i] > 0:\n    k = i // 2\n    y[k] = x[i]",
    "division": "if x[i] != 0:\n    y[i] = 1.0 / x[i]\nelse:\n    y[i] = 0.0",
}


@pytest.mark.parametrize("case", VECTOR_BODIES)
def test_elements(case: str) -> None:
    body = "".join(f"        {line}\n" for line in VECTOR_BODIES[case].splitlines())
    sizes = (5, 2, 4) if "[:2]" in body else (5, 0, 1, 4)
    assert_same_as_python(f"def f(x, y):\n    for i in range(len(x)):\n{body}", vectors("x", "y", sizes=sizes))


SCALARS = {
    "largest": (
        "best = -9.0\n"
        "where = -1\n"
        "for i in range(len(x)):\n"
        "    if x[i] > best:\n"
        "        best = x[i]\n"
        "        where = i\n"
        "return best, where"
    ),
    "count": "c = 0\nfor i in range(len(x)):\n    if x[i] > 0:\n        c += 1\nreturn c",
    "sum of some": (
        "s = 0.0\nfor i in range(len(x)):\n    if x[i] > 0:\n        s += x[i]\n    else:\n        s -= 1.0\nreturn s"
    ),
    "carried": (
        "t = 1.0\n"
        "for i in range(len(x)):\n"
        "    if x[i] > 0:\n"
        "        t = x[i]\n"
        "        x[i] = t * 2.0\n"
        "    else:\n"
        "        x[i] = t\n"
        "return t"
    ),
    "before the loops": "if a > 0:\n    s = 1.0\nelse:\n    s = 2.0\nfor i in range(len(x)):\n    x[i] += s",
    "test of a variable": (
        "t = 1.0\nfor i in range(len(x)):\n    if t > 0:\n        t = x[i]\n    else:\n        t = 3.0\n    x[i] = t"
    ),
}


@pytest.mark.parametrize("case", SCALARS)
def test_variables(case: str) -> None:
    body = "".join(f"    {line}\n" for line in SCALARS[case].splitlines())
    cases = [{**arguments, "a": a} for arguments, a in zip(vectors("x"), (1.0, -1.0, 2.0, -2.0), strict=True)]
    assert_same_as_python(f"def f(x, a):\n{body}", cases)


def test_rows_in_a_branch() -> None:
    text = """\
def f(A, x):
    for i in range(len(x)):
        if x[i] > 0:
            for row in A:
                row[0] = x[i]
                x[i] += row[1]
"""
    assert_same_as_python(text, [{"A": numbers((n, 3), seed=n), "x": numbers((n,), seed=n + 1)} for n in (4, 0, 1)])


def test_whole_rows() -> None:
    text = """\
def f(A, x):
    for i in range(len(x)):
        if x[i] > 0:
            A[i, :] = x[i]
        else:
            A[i] += 1.0
"""
    cases = [{"A": numbers((n, 3), seed=n), "x": numbers((n,), seed=n + 1)} for n in (4, 0, 1)]
    assert_same_as_python(text, cases)


@pytest.mark.parametrize("dtype", ["int64", "uint64", "int32", "float32", "bool", "uint8"])
def test_elements_that_stay_lose_nothing(dtype: str) -> None:
    """A choice between an integer and a float would be a float."""
    text = "def f(x, y):\n    for i in range(len(x)):\n        if x[i] > 0:\n            y[i] = x[i]\n"
    large = [2**63 + 1, 2**53 + 1, 3, 5] if dtype == "uint64" else [2**62 + 1, 2**53 + 1, 3, 5]
    x = np.array([-1.0, 2.0, -2.0, 3.5])
    y = np.array(large, dtype=object).astype("uint64").astype(dtype)
    nest = assert_same_as_python(text, [{"x": x, "y": y}])
    is_cast = f"np.{dtype}(x[i])" in nest.statements[0].body
    assert is_cast == (dtype not in {"float32", "bool"})


def test_memory_that_holds_nothing_is_not_kept() -> None:
    text = (
        "def f(x):\n"
        "    y = np.empty(len(x))\n"
        "    for i in range(len(x)):\n"
        "        if x[i] > 0:\n"
        "            y[i] = 1.0\n"
        "    return y\n"
    )
    with pytest.raises(SourceError, match=r"`y\[i\]` keeps what it held.*for example when x_0 = 1") as caught:
        nest_of_source(IMPORTS + text, "f", "people.py", {"x": np.ones(3)})
    assert caught.value.line == IMPORTS.count("\n") + 5
    for filled in ("np.zeros(len(x))", "np.ones(len(x))"):
        assert_same_as_python(text.replace("np.empty(len(x))", filled), vectors("x"))
    written = text.replace("    for i", "    for j in range(len(x)):\n        y[j] = x[j]\n    for i")
    assert_same_as_python(written, vectors("x"))


REFUSED = {
    "return": "if $x[i] > 0:\n    return x",
    "while": "if $x[i] > 0:\n    while x[i] > 0:\n        x[:] -= 1.0",
    "break": "if $x[i] > 0:\n    break",
    "array": "if $x[i] > 0:\n    x = y",
    "effect": "if $x[i] > 0:\n    print(i)",
}


@pytest.mark.parametrize("case", REFUSED)
def test_branches_that_do_more_than_assign_are_refused(case: str) -> None:
    body = "".join(f"        {line}\n" for line in REFUSED[case].splitlines())
    text = f"{IMPORTS}def f(x, y):\n    for i in range(len(x)):\n{body.replace('$', '')}"
    with pytest.raises(SourceError, match=r"whether `x\[i\] > 0` holds is not known") as caught:
        nest_of_source(text, "f", "people.py", {"x": np.ones(3), "y": np.ones(3)})
    assert caught.value.column == body.index("$")
    assert "branch" in caught.value.hint


def random_function(seed: int) -> str:
    chance = random.Random(seed)

    def element() -> str:
        return f"{chance.choice('xy')}[({chance.choice('ij')} + {chance.randint(0, 3)}) % 5]"

    def value() -> str:
        left, right = (chance.choice([element(), "s", "t", "0.5", "i"]) for _ in range(2))
        return f"{left} {chance.choice('+-*')} {right}"

    def test() -> str:
        data = (
            f"{chance.choice([element(), 's', 't'])} {chance.choice(['<', '>='])} {chance.choice([element(), '0.1'])}"
        )
        size = f"i {chance.choice(['<', '>'])} {chance.choice(['j', '2'])}"
        forms = [data, data, f"{data} and {size}", f"{size} and {data}", f"not ({data} or {size})", f"{data} or {size}"]
        return chance.choice([*forms, size])

    def block(depth: int) -> list[str]:
        lines: list[str] = []
        for _ in range(chance.randint(1, 3)):
            if depth and chance.random() < 0.5:
                lines += [f"if {test()}:", *(f"    {line}" for line in block(depth - 1))]
                if chance.random() < 0.6:
                    lines += ["else:", *(f"    {line}" for line in block(depth - 1))]
            elif chance.random() < 0.3:
                lines += [f"r = {value()}", f"{element()} = r * 0.5"]
            else:
                lines.append(
                    f"{chance.choice([element(), element(), 's', 't'])} {chance.choice(['=', '+='])} {value()}"
                )
        return lines

    inner = "".join(f"            {line}\n" for line in block(3))
    return (
        f"def f(x, y, s):\n    t = 0.25\n    for i in range(4):\n        for j in range(3):\n{inner}    return s, t\n"
    )


@pytest.mark.parametrize("seed", range(40))
def test_random_branches(seed: int) -> None:
    cases: list[dict[str, Any]] = [
        {"x": numbers((5,), seed=k), "y": numbers((5,), seed=9 + k), "s": 0.5} for k in range(2)
    ]
    assert_same_as_python(random_function(seed), cases)
