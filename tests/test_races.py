"""Races in parallel loops are found by what the iterations use, whatever results they give."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
import pytest

from optimizer.measure.commands import Form
from optimizer.measure.loading import plain_function
from optimizer.measure.races import RaceError, WatchedFunction


def plain(body: str, form: Form) -> Any:
    """A function of `x`, `y` (arrays of `n` numbers) and the matrix `a`."""
    head = (
        "import numpy as np\nfrom numba import njit, prange\n"
        "from optimizer.codegen.simd import gather, load as load_2, scatter, store\n\n"
        "@njit(parallel=True)\ndef f(n, x, y, a):\n"
    )
    return plain_function(head + textwrap.indent(textwrap.dedent(body), "    "), "f.py", "f", form)


def watched(body: str) -> WatchedFunction:
    function = plain(body, Form.WATCHED)
    assert isinstance(function, WatchedFunction)
    return function


def run(body: str, n: int = 4) -> Any:
    x = np.arange(1.0, n + 1)
    return watched(body)(n, x, x.copy(), np.ones((n, n)))


@pytest.mark.parametrize(
    ("body", "witness"),
    [
        ("for i in prange(n):\n    x[0] = 1.0", r"iteration 1 .* writes x\[0\], which 0 writes"),
        ("for i in prange(n):\n    x[0] += y[i]", r"iteration 1 .* x\[0\], which 0 writes"),
        ("for i in prange(1, n):\n    x[i] = x[i - 1]", r"iteration 2 .* reads x\[1\], which 1 writes"),
        ("for i in prange(n - 1):\n    x[i] = x[i + 1]", r"iteration 1 .* writes x\[1\], which 0 reads"),
        ("for i in prange(n):\n    x[n - 1 - i] = x[i]", r"iteration 2 .* reads x\[2\], which 1 writes"),
        ("for i in prange(n):\n    a[i, 0] = a[-1, 0]", r"iteration 3 .* a\[3, 0\], which 0 reads"),
        ("for i in prange(n):\n    for j in range(n):\n        a[0, j] = 1.0", r"iteration 1 .* a\[0, 0\], which 0"),
        ("for i in prange(n):\n    a[:, 0] = 1.0", r"iteration 1 .* a\[.*, 0\], which 0 writes"),
        ("z = x\nfor i in prange(1, n):\n    x[i] = z[i - 1]", r"reads z\[1\], which 1 writes"),
        ("z = x[1:]\nfor i in prange(n - 1):\n    x[i] = z[i]", r"writes x\[1\], which 0 reads"),
        ("cell = np.empty(1)\nfor i in prange(n):\n    cell[0] = x[i]\n    y[i] = cell[0]", r"writes cell\[0\]"),
        (
            "for t in range(2):\n    for i in prange(n):\n        for j in prange(2):\n            x[j] = 1.0",
            r"writes x",
        ),
        ("for i in prange(n):\n    store(x, 0, load_2(y, 0, 2))", r"iteration 1 .* writes x\[0\], which 0 writes"),
        ("for i in prange(n - 1):\n    store(x, i, load_2(y, i, 2))", r"iteration 1 .* writes x\[1\], which 0 writes"),
        ("for i in prange(n - 1):\n    x[i] = 1.0\n    y[i] = sum(load_2(x, i, 2))", r"writes x\[1\], which 0 reads"),
        ("for i in prange(1, n):\n    x[i] = sum(load_2(x, 0, i))", r"iteration 2 .* reads x\[1\], which 1 writes"),
        ("for i in prange(n):\n    a[i, i] = sum(gather(a, (0, 2), (1, 0), n))", r"a\[2, 2\], which 0 reads"),
        ("for i in prange(n):\n    scatter(a, (0, i), (1, 0), gather(a, (0, 0), (1, 0), n))", r"a\[0, 0\], which 0"),
    ],
)
def test_two_iterations_that_use_one_element_race(body: str, witness: str) -> None:
    with pytest.raises(RaceError, match=witness):
        run(body)


@pytest.mark.parametrize(
    "body",
    [
        "for i in prange(n):\n    x[i] = x[i] + y[n - 1 - i]",
        "for i in prange(n):\n    for j in range(n):\n        a[i, 0] += a[i, j]",
        "for i in range(1, n):\n    x[i] = x[i - 1]",
        "for i in prange(n):\n    x[i] = 1.0\nfor i in prange(n):\n    y[i] = x[n - 1 - i]",
        "for i in prange(1):\n    for j in prange(1, n):\n        x[j] = x[j - 1]",
        "for i in prange(n):\n    own = np.zeros(2)\n    own[0] = x[i]\n    y[i] = own[0]",
        "for i in prange(n):\n    row = a[i]\n    row[0] = x[i]",
        "for i in prange(n):\n    s = 0.0\n    for j in range(n):\n        s += a[i, j]\n    x[i] = s",
        "for i in prange(n):\n    store(a, (i, 0), load_2(a, (i, 0), 4) * load_2(x, 0, 4) + y[i])",
        "for i in prange(n):\n    scatter(a, (0, i), (1, 0), gather(a, (n - 1, i), (-1, 0), 4))",
        "for i in prange(2):\n    store(x, 2 * i, load_2(y, 1, 2))",
        "store(x, 0, load_2(y, 0, 4))\nfor i in prange(n):\n    y[i] = sum(load_2(x, 0, 4))",
    ],
)
def test_iterations_that_keep_to_their_own_do_not(body: str) -> None:
    """And what they leave behind is what they leave behind unwatched."""
    seen, unseen = ((np.arange(1.0, 5.0), np.arange(1.0, 5.0), np.ones((4, 4))) for _ in range(2))
    watched(body)(4, *seen)
    plain(body, Form.PLAIN)(4, *unseen)
    assert all(np.array_equal(one, other) for one, other in zip(seen, unseen, strict=True))


@pytest.mark.parametrize(
    "body",
    [
        "s = 0.0\nfor i in prange(n):\n    y[i] = s\n    s = x[i]",
        "for i in prange(n):\n    if i == 0:\n        s = 1.0\n    x[i] = s",
        "s = 0.0\nfor i in prange(n):\n    s += x[i]\n    y[i] = s",
        "for i in prange(n):\n    s = x[i]\ny[0] = s",
        "for i in prange(n):\n    x[i] = 1.0\ny[0] = i",
    ],
)
def test_a_variable_belongs_to_its_iteration(body: str) -> None:
    with pytest.raises(UnboundLocalError):
        run(body)


@pytest.mark.parametrize("update", ["s += x[i]", "s = s + x[i]", "s = max(s, x[i])"])
def test_a_reduction_is_no_race(update: str) -> None:
    total = run(f"s = 0.0\nfor i in prange(n):\n    {update}\nreturn s")
    assert total == (4.0 if "max" in update else 10.0)


def test_a_loop_that_had_one_iteration_was_not_watched() -> None:
    function = watched("for i_t in prange((n + 31) // 32):\n    x[0] += 1.0")
    for n in (0, 1, 32):
        function(n, np.zeros(64), np.zeros(64), np.zeros((1, 1)))
        assert not function.watch.has_seen_all
    with pytest.raises(RaceError):
        function(33, np.zeros(64), np.zeros(64), np.zeros((1, 1)))
    assert function.watch.has_seen_all


def test_a_vector_longer_than_the_loop_was_not_watched() -> None:
    body = "for i in prange(n):\n    for j in range(0, n - 3, 4):\n        store(a, (i, j), load_2(x, j, 4))"
    function = watched(body)
    for n in (2, 3, 4):
        assert not function.watch.has_seen_all
        function(n, np.ones(n), np.ones(n), np.ones((n, n)))
    assert function.watch.has_seen_all


def test_a_call_begins_anew_after_a_race() -> None:
    function = watched("for i in prange(n):\n    x[min(i, 1)] = 1.0")
    with pytest.raises(RaceError):
        function(3, np.zeros(3), np.zeros(3), np.zeros((1, 1)))
    function(2, np.zeros(3), np.zeros(3), np.zeros((1, 1)))


@pytest.mark.parametrize(("dtype", "expected"), [("float64", "nan"), ("float32", "nan"), ("int64", "-87")])
@pytest.mark.parametrize("form", [Form.PLAIN, Form.WATCHED, Form.BACKWARD])
def test_new_memory_shows_that_it_was_read_unwritten(form: Form, dtype: str, expected: str) -> None:
    text = f"import numpy as np\n\ndef f():\n    return np.empty((2, 2), dtype=np.{dtype})\n"
    returned = plain_function(text, "f.py", "f", form)()
    assert returned.dtype == dtype
    assert [str(number) for number in returned.flat] == [expected] * 4
