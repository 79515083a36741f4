"""Runs the nest of a function and the function itself on the same arguments, and compares every bit."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from optimizer.polyhedral.frontend import check_bounds, nest_of_source
from optimizer.polyhedral.nest import Nest
from tests.nest_interpreter import run, sizes_of

IMPORTS = "import math\nimport numpy as np\nimport numba\nfrom numba import njit, prange, stencil\n"


def assert_same_as_python(
    text: str, cases: Iterable[Mapping[str, Any]], function: str = "f", *, plain: Any = None
) -> Nest:
    """Compares on each case (arguments by name); `plain` is what is called when the text itself cannot be run."""
    cases = [dict(case) for case in cases]
    nest = nest_of_source(IMPORTS + text, function, "people.py", cases[0])
    if plain is None:
        space: dict[str, Any] = {}
        exec(IMPORTS, space)
        space["njit"] = _undecorated
        exec(text, space)
        plain = space[function]
    for case in cases:
        expected, got = copy.deepcopy(case), copy.deepcopy(case)
        with np.errstate(all="ignore"):
            result = plain(**expected)
            check_bounds(nest, sizes_of(nest, got))
            ours = run(nest, got)
        assert_equal(ours, result)
        for name in case:
            assert_equal(got[name], expected[name])
    return nest


def assert_equal(left: Any, right: Any) -> None:
    """The same values, types of arrays and bits of them; numbers compare by value."""
    if isinstance(right, tuple):
        assert isinstance(left, tuple)
        assert len(left) == len(right)
        for one, other in zip(left, right, strict=True):
            assert_equal(one, other)
    elif isinstance(right, np.ndarray):
        assert (left.dtype, left.shape) == (right.dtype, right.shape)
        assert left.tobytes() == right.tobytes(), (left, right)
    else:
        assert left == right or (left != left and right != right)


def vectors(*names: str, sizes: Iterable[int] = (5, 0, 1, 4), dtype: str = "float64") -> list[dict[str, Any]]:
    """Arguments with vectors of one size each, of both signs."""
    return [{name: numbers((n,), seed=n + 7 * k, dtype=dtype) for k, name in enumerate(names)} for n in sizes]


def numbers(shape: tuple[int, ...], *, seed: int = 0, dtype: str = "float64") -> Any:
    drawn = np.random.default_rng(seed).uniform(-4, 4, shape)
    return drawn.astype(dtype) if dtype.startswith("float") else np.rint(drawn).astype(dtype)


def _undecorated(function: Any = None, **_options: Any) -> Any:
    return function or (lambda inner: inner)
