"""A nest means what its function does: executed iteration by iteration, it gives the same bits."""

from __future__ import annotations

import copy
import importlib
import math
import random
from collections.abc import Callable
from typing import Any

import islpy as isl
import numpy as np
import pytest

from kernels import catalog
from optimizer.polyhedral.frontend import check_bounds, nest_of_file, nest_of_source
from optimizer.polyhedral.nest import Nest, Role
from tests.nest_interpreter import accessed, instances, run, sizes_of

HEADER = """\
import math
from math import sqrt
import numpy as np
from numba import njit, prange
from jaxtyping import Bool, Float32, Float64, Int32, Int64
HALO = 1
SCALE = 2.0 * math.pi
"""

IN_ELEMENTS = ("ludcmp",)
"""Kernels with elements in the place of scalars, which their nests touch more often than they do themselves."""


def same_bits(left: Any, right: Any) -> bool:
    if isinstance(left, tuple):
        return len(left) == len(right) and all(same_bits(a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()
    return left == right or (left != left and right != right)


def assert_same(nest: Nest, function: Callable[..., Any], arguments: dict[str, Any]) -> None:
    expected, got = copy.deepcopy(arguments), copy.deepcopy(arguments)
    with np.errstate(all="ignore"):
        result, ours = function(**expected), run(nest, got)
    assert same_bits(ours, result)
    for name in arguments:
        assert same_bits(got[name], expected[name]), name


class Watched(np.ndarray):
    """Notes every element that is read or written."""

    log: list[tuple[str, tuple[int, ...], bool]]
    name: str

    def __getitem__(self, index: Any) -> Any:
        self.log.append((self.name, index if isinstance(index, tuple) else (index,), False))
        return self.view(np.ndarray)[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self.log.append((self.name, index if isinstance(index, tuple) else (index,), True))
        self.view(np.ndarray)[index] = value


def watched(arguments: dict[str, Any], log: list[tuple[str, tuple[int, ...], bool]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in copy.deepcopy(arguments).items():
        if isinstance(value, np.ndarray):
            value = value.view(Watched)
            value.log, value.name = log, name
        found[name] = value
    return found


@pytest.mark.parametrize("name", catalog.names())
@pytest.mark.parametrize("start", [3, 5])
def test_every_bundled_kernel_runs_as_its_nest_says(name: str, start: int) -> None:
    module = catalog.load(name)
    entry = catalog.entry(name)
    nest = nest_of_file(str(module.__file__))
    sizes = {parameter: start + k % 3 for k, parameter in enumerate(module.SIZES["mini"])}
    arguments = module.make_inputs(**sizes, rng=np.random.default_rng(3))
    check_bounds(nest, sizes_of(nest, arguments))
    assert_same(nest, getattr(module, entry.function), arguments)


@pytest.mark.parametrize("name", [name for name in catalog.names() if name not in IN_ELEMENTS])
def test_every_bundled_kernel_touches_what_its_nest_says(name: str) -> None:
    """The same elements in the same order; reads that a conditional expression skips may be in the nest only."""
    module = catalog.load(name)
    entry = catalog.entry(name)
    nest = nest_of_file(str(module.__file__))
    sizes = {parameter: 4 + k % 2 for k, parameter in enumerate(module.SIZES["mini"])}
    arguments = module.make_inputs(**sizes, rng=np.random.default_rng(3))
    log: list[tuple[str, tuple[int, ...], bool]] = []
    with np.errstate(all="ignore"):
        getattr(module, entry.function)(**watched(arguments, log))
    ours = {array.name for array in nest.arrays if array.role is Role.ARGUMENT}
    known = sizes_of(nest, arguments)
    position = 0
    for statement, values in instances(nest, known):
        touched = [item for item in accessed(nest, known, statement, values) if item[0] in ours]
        while position < len(log) and not log[position][2] and log[position] in touched:
            position += 1
        for item in touched:
            if item[2]:
                assert log[position] == item, (statement, values)
                position += 1
    assert position == len(log)


FEATURES: dict[str, tuple[str, dict[str, Any]]] = {}


def feature(text: str, **arguments: Any) -> None:
    """Registers a function with arguments to try it on."""
    name = text.rpartition("def ")[2].partition("(")[0]
    assert name not in FEATURES
    FEATURES[name] = (text, arguments)


rng = np.random.default_rng(5)
square = rng.uniform(-1, 1, (6, 6))
row = rng.uniform(0.5, 1, 7)

feature(
    """
def steps(n: int, x: Float64[np.ndarray, "n"]) -> None:
    for i in range(0, n, 2):
        x[i] += 1.0
    for i in range(n - 1, 0, -3):
        x[i] = x[i] * 2.0 + i
    for i in range(n - 1, -1, -1):
        for j in range(1, n - i, 2):
            x[i + j] = x[i + j] - 0.5 * x[j]
""",
    n=7,
    x=row,
)
feature(
    """
def trapezoid(n: int, m: int, A: Float64[np.ndarray, "n n"]) -> None:
    for t in range(max(0, m - n), min(n, m + 2)):
        for j in range(max(t - 1, 0), min(t + 3, n, m)):
            A[t, j] += 1.0
    for i in range(min(n, m), n):
        A[i, 0] = 3.0
    for i in range(n - 1, max(-1, m - 4), -2):
        A[i, i] = 0.25
""",
    n=6,
    m=5,
    A=square,
)
feature(
    """
def choices(n: int, A: Float64[np.ndarray, "n n"]) -> None:
    for i in range(n):
        for j in range(n):
            if i < j and not (i == 0 or j % 2 == 1):
                A[i, j] = 1.0
            elif 0 < i <= j < n - 1 or i // 2 == j // 2:
                A[i, j] *= 2.0
                if i != j:
                    A[j, i] = A[i, j]
            else:
                A[i, j] = A[i, j] if A[i, j] > 0.0 else -A[i, j]
            if i % 2:
                pass
            else:
                A[i, j] -= 0.125
""",
    n=6,
    A=square,
)
feature(
    """
def wrap(n: int, x: Float64[np.ndarray, "n"], y: Float64[np.ndarray, "2*n+1"]) -> None:
    for i in range(n):
        y[2 * i + 1] = x[i // 2] + x[(i + 1) % 3] + x[max(i - 1, 0)] + x[min(i + 1, n - 1)] + x[abs(i - 2)]
        y[-1] = x[-1] + x[-2]
        x[i] = x[i - 1] if i > 0 else 0.5
        x[i] = x[i] + 1.0 if i > 0 and x[i - 1] > 0.6 else x[i]
""",
    n=7,
    x=row,
    y=np.zeros(15),
)
feature(
    """
@njit(parallel=True)
def decorated(A: Float64[np.ndarray, "n m"], B: Float32[np.ndarray, "n m"], alpha: float = 2.0):
    '''Rows of A, scaled.'''
    n, m = A.shape
    k = len(A) - 1
    weights = np.zeros(m)
    ones = np.ones((n, m), dtype=np.float32)
    like = np.empty_like(B)
    total = 0.0
    for i in prange(n):
        for j in range(m):
            weights[j] += A[i, j] * alpha
            like[i, j] = B[i, j] * ones[k - i, j]
            total += A[i][j] / m
    for j in range(A.shape[1]):
        A[k, j] = weights[j]
    return weights, like, total / n, alpha, k
""",
    A=square,
    B=square.astype(np.float32),
    alpha=3.0,
)
feature(
    """
def clamp(x, low, high):
    if x < low:
        return low
    return min(x, high)


def smooth(x, y):
    d = x - y
    d *= SCALE
    return clamp(d, -0.5, math.fabs(y) + sqrt(HALO))


def helpers(n: int, alpha: float, x: Float64[np.ndarray, "n"], y: Float64[np.ndarray, "n"]):
    h = math.exp(-alpha)
    h2 = h * h / n
    best = -math.inf
    for i in range(HALO, n - HALO):
        y[i] = smooth(x[i - HALO], x[i + HALO]) * h2 + np.tanh(x[i]) + math.floor(x[i]) + float(i)
        best = max(best, y[i])
    h3 = h2 + alpha
    for i in range(n):
        y[i] += h3 if y[i] < best else clamp(h, 0.0, 1.0) ** 2
    return best
""",
    n=7,
    alpha=0.5,
    x=row,
    y=np.zeros(7),
)
feature(
    """
def webs(n: int, s: float, A: Float64[np.ndarray, "n n"], x: Float64[np.ndarray, "n"]):
    count = 0
    for i in range(n):
        x[i] = s
        t = A[i, 0]
        for j in range(n):
            t = t + A[i, j]
            if j < i:
                t *= 0.5
        x[i] += t
        t = x[i] * 2.0
        s = s + t
        for j in range(i):
            t = A[i, j]
            A[i, j] = t + s
        count += 1
    t, u = s, 1.5
    for i in range(n):
        x[i] -= t * u
        a = b = x[i]
        x[i] = a + b
    return s, count
""",
    n=6,
    s=0.75,
    A=square,
    x=row[:6],
)
feature(
    """
def affine_names(n: int, A: Float64[np.ndarray, "n n"]):
    m: int = n - 1
    half = n // 2
    two = 2
    for i in range(m):
        k = i + 1
        for j in range(half):
            r = m - j
            A[k, r] += A[i, two * j] ** two + k
    return m
""",
    n=6,
    A=square,
)
feature(
    """
def whole(n: int, path: Int32[np.ndarray, "n n"], seen: Bool[np.ndarray, "n"], big: Int64[np.ndarray, "n"]):
    hits = 0
    for i in range(n):
        least = path[i, 0]
        for j in range(1, n):
            least = path[i, j] if path[i, j] < least else least
        seen[i] = least < 3 and not least == 1
        big[i] = (least << 2) | (i & 1) ^ (n // (i + 1))
        hits += 1 if seen[i] else 0
    return hits
""",
    n=5,
    path=rng.integers(0, 9, (5, 5), dtype=np.int32),
    seen=np.zeros(5, dtype=bool),
    big=np.zeros(5, dtype=np.int64),
)
feature(
    """
def top_level(n: int, x: Float64[np.ndarray, "n"]):
    x[0] = 2.0
    if n > 3:
        x[3] = 1.0
    s = x[0]
    for i in range(1, n):
        x[i] += s
    x[n - 1] = s * x[-2]
    return x
""",
    n=7,
    x=row,
)


@pytest.mark.parametrize("name", FEATURES)
def test_every_feature_runs_as_its_nest_says(name: str) -> None:
    text, arguments = FEATURES[name]
    nest = nest_of_source(HEADER + text, name, "feature.py")
    check_bounds(nest, sizes_of(nest, arguments))
    space: dict[str, Any] = {}
    exec((HEADER + text).replace("@njit(parallel=True)\n", ""), space)
    assert_same(nest, space[name], arguments)


@pytest.mark.parametrize("name", FEATURES)
def test_the_original_runs_alone(name: str) -> None:
    text, arguments = FEATURES[name]
    nest = nest_of_source(HEADER + text, name, "feature.py")
    assert "jaxtyping" not in nest.original
    assert "@" not in nest.original
    assert "numba" not in nest.preamble
    alone: dict[str, Any] = {}
    exec(nest.original, alone)
    assert_same(nest, alone[name], arguments)


def test_the_original_of_every_bundled_kernel_runs_alone() -> None:
    for name in catalog.names():
        entry = catalog.entry(name)
        module = importlib.import_module(entry.module)
        nest = nest_of_file(str(module.__file__))
        alone: dict[str, Any] = {}
        exec(nest.original, alone)
        arguments = module.make_inputs(**dict.fromkeys(module.SIZES["mini"], 4), rng=np.random.default_rng(1))
        assert_same(nest, alone[entry.function], arguments)
        assert nest.name == entry.function


def test_the_feature_table_needs_no_rounding_excuse() -> None:
    assert same_bits(math.nan, math.nan)
    assert not same_bits(np.zeros(2), -np.zeros(2))


def random_kernel(seed: int) -> str:
    """A function of random loops, conditions and assignments to an array of 6 x 6 and three scalars."""
    chance = random.Random(seed)

    def index(loops: list[str]) -> str:
        parts = [f"{chance.choice([1, 1, 2, -1])} * {name}" for name in chance.sample(loops, min(2, len(loops)))]
        return f"({' + '.join([*parts, str(chance.randint(-3, 7))])}) % 6"

    def value(loops: list[str], depth: int = 2) -> str:
        if depth == 0:
            leaves = [chance.choice("stu"), f"A[{index(loops)}, {index(loops)}]", "0.5", "n", *loops]
            return chance.choice(leaves)
        left, right = value(loops, depth - 1), value(loops, depth - 1)
        if chance.random() < 0.25:
            return f"({left} if {condition(loops)} else {right})"
        return f"({left} {chance.choice(['+', '-', '*'])} {right})"

    def condition(loops: list[str]) -> str:
        left, right = (chance.choice([*loops, "n", "m", "2", "3"]) for _ in range(2))
        text = f"{left} {chance.choice(['<', '<=', '==', '!=', '>'])} {right} + {chance.randint(-2, 2)}"
        match chance.randint(0, 4):
            case 0:
                return f"not ({text} and {right} % 2 == 0)"
            case 1:
                return f"({text} or {left} // 2 > 1)"
            case _:
                return text

    def loop_range(loops: list[str]) -> str:
        low, high = chance.choice(["0", "1", "-2", *loops]), chance.choice(["n", "m + 1", "4", *loops])
        match chance.randint(0, 4):
            case 0:
                return f"range({high}, {low}, -{chance.randint(1, 3)})"
            case 1:
                return f"range({low}, {high}, {chance.randint(1, 3)})"
            case 2:
                return f"range(max({low}, m - 3), min({high}, n, 5))"
            case 3:
                return f"range(min({low}, m), max({high}, 2))"
            case _:
                return f"range({low}, {high})"

    def block(loops: list[str], depth: int) -> list[str]:
        lines: list[str] = []
        for _ in range(chance.randint(1, 3)):
            kind = chance.random()
            if kind < 0.45 and depth:
                name = next(name for name in "ijk" if name not in loops)
                inner = block([*loops, name], depth - 1)
                lines += [f"for {name} in {loop_range(loops)}:", *(f"    {line}" for line in inner)]
            elif kind < 0.6 and depth:
                lines += [f"if {condition(loops)}:", *(f"    {line}" for line in block(loops, depth - 1))]
                if chance.random() < 0.5:
                    lines += ["else:", *(f"    {line}" for line in block(loops, depth - 1))]
            else:
                target = chance.choice(["s", "t", "u", f"A[{index(loops)}, {index(loops)}]"])
                lines.append(f"{target} {chance.choice(['=', '=', '+=', '*='])} {value(loops)}")
        return lines

    body = ["t = 0.25", "u = A[0, 1]", "for i in range(n):", *(f"    {line}" for line in block(["i"], 2))]
    body += [*block([], 3), "return s, t"]
    return "def f(n: int, m: int, s: float, A: Float64[np.ndarray, '6 6']):\n" + "".join(f"    {x}\n" for x in body)


@pytest.mark.parametrize("seed", range(24))
def test_random_kernels_run_as_their_nests_say(seed: int) -> None:
    text = HEADER + random_kernel(seed)
    nest = nest_of_source(text, "f", "random.py")
    assert isl.Set("[n, m] -> { : }").is_subset(isl.Set(nest.context))
    space: dict[str, Any] = {}
    exec(text, space)
    for n, m in ((5, 3), (2, 6)):
        matrix = np.random.default_rng(seed).uniform(-1, 1, (6, 6))
        assert_same(nest, space["f"], {"n": n, "m": m, "s": 0.75, "A": matrix})
