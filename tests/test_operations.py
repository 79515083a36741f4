"""Which operations are the same: against runs of small kernels, which note what each operation is made of."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import islpy as isl
import numpy as np
import pytest

from kernels import catalog
from optimizer.polyhedral import counting, evaluation, operations
from optimizer.polyhedral.counting import compulsory_bytes, count_points, flops
from optimizer.polyhedral.frontend import nest_of_source
from optimizer.polyhedral.model import operation_limit
from optimizer.polyhedral.nest import Access, Nest, Statement
from optimizer.polyhedral.operands import OperandReader, Value
from tests import value_graph
from tests.test_counting import bundled

HEADER = "import numpy as np\nfrom jaxtyping import Float64\n"
ARGUMENTS = 'n: int, a: float, x: Float64[np.ndarray, "n"], y: Float64[np.ndarray, "n"]'


def kernel(body: str) -> tuple[Nest, Callable[..., Any]]:
    """The nest of a function of two arrays, and the function."""
    text = f"{HEADER}def f({ARGUMENTS}):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    space: dict[str, Any] = {}
    exec(text, space)
    return nest_of_source(text, "f", "k.py"), space["f"]


def run(function: Callable[..., Any], n: int, seed: int) -> value_graph.Log:
    chance = np.random.default_rng(seed)
    arrays = {name: chance.uniform(-1.0, 1.0, n) for name in "xy"}
    return value_graph.run(function, {"n": n, "a": 1.2377, **arrays})


TRIANGLE = "for i in range(n):\n    for j in range(i):\n        "


@pytest.mark.parametrize(
    "body",
    [
        # Scalars stand for what was assigned to them, in this iteration or the one before.
        TRIANGLE + "t = x[i]\n        u = t * t\n        y[j] += u * 3.5",
        "t = 0.25\nfor i in range(n):\n    y[i] = t * a + x[i]\n    t = x[i]",
        "t = 0.25\nu = 1.25\nfor i in range(n):\n    y[i] = a * t + 2.5 * u\n    u = t\n    t = x[i]",
        "s = 0.25\nfor i in range(n):\n    s += x[i] * a\nfor i in range(n):\n    y[i] = s * x[i]",
        "t = a\nfor i in range(n):\n    y[i] = t + x[i]\n    t = y[i] if i % 2 == 0 else x[i]",
        # The same operation in other statements and loops, until one of its operands is written.
        "for i in range(n):\n    y[i] = x[i] * a\nfor j in range(n):\n    x[j] += x[j] * a",
        "for i in range(n):\n    x[i] = x[i] * a\nfor j in range(n):\n    y[j] = x[j] * a",
        TRIANGLE + "y[j] += x[j] * x[i]\nfor k in range(n):\n    y[k] += x[k] * x[k]",
        "for k in range(n):\n    x[k] = y[k] + a\n    for i in range(n):\n        y[i] = x[i] * a",
        "for k in range(n):\n    for i in range(1, n - 1):\n        x[i] = x[i - 1] + x[i + 1] + x[0] * x[n - 1]",
        "for i in range(n):\n    y[i] = (x[i] - a) * (x[i] - a)\n    x[i] = x[n - 1 - i] - a",
        # Conditions on loop variables and sizes.
        "for i in range(n):\n    y[i] = x[i] * a if i < n - 2 else x[i]",
        "for i in range(n):\n    y[i] = x[i] * a + (x[i - 1] * 2.5 if i > 0 and n > 2 else a)",
        "for i in range(n):\n    y[i] = max(x[i], x[i - 1] if not i < 1 else x[0] * a) if i % 2 == 0 else x[i] / a",
        "for i in range(n):\n    if i < 2:\n        y[i] = x[i] * i\n    else:\n        y[i] = np.sqrt(x[i] * x[i])",
        # Conditions on data, both sides alike.
        "for i in range(n):\n    y[i] = x[i] + a if x[i] > 0.0 else x[i] * a",
        "for i in range(n):\n    y[i] = x[i] * (2.5 if x[i] > 0.0 else a)",
        "for i in range(n):\n    t = x[i] if x[i] > 0.0 else 0.25\n    y[i] += t",
    ],
)
def test_counts_are_those_of_runs(body: str) -> None:
    nest, function = kernel(body)
    for n in (1, 2, 3, 5, 8):
        log = run(function, n, n)
        assert flops(nest, {"n": n}) == log.operations
        assert compulsory_bytes(nest, {"n": n}) == 8 * (len(log.first_reads) + len(log.written))


@pytest.mark.parametrize(
    ("value", "fewest", "most"),
    [
        ("x[i] * x[i] + a if x[i] > 0.0 else x[i]", 0, 2),
        ("x[i] * x[i] + a if x[i] + 0.5 > 0.5 else x[i] + 2.5", 2, 3),
        ("1.0 if x[i] > 0.0 and x[i] * 2.5 > 0.0 else 0.0", 0, 1),
        ("1.0 if not (x[i] > 0.0 or x[i] * 2.5 > 0.0) else 0.0", 0, 1),
        ("x[i] * (a if x[i] > 0.0 else x[i] * x[i])", 1, 2),
        ("1.0 if -0.5 < x[i] * a < x[i] * x[i] + 0.5 else 0.0", 1, 3),
    ],
)
def test_where_data_decide_the_count_is_that_of_the_cheapest_data(value: str, fewest: int, most: int) -> None:
    nest, function = kernel(f"for i in range(n):\n    y[i] = {value}")
    found = {run(function, 3, seed).operations for seed in range(100)}
    assert (min(found), max(found)) == (3 * fewest, 3 * most)
    assert flops(nest, {"n": 3}) == 3 * fewest


@pytest.mark.parametrize(
    "body",
    [
        "for i in range(n):\n    y[i] = x[0] * (2.5 if x[i] > 0.0 else a)",
        "for i in range(n):\n    y[i] = x[i] * a if x[i] > 0.0 else x[n - 1 - i] * a",
        "for i in range(n):\n    t = x[0] if x[i] > 0.0 else y[0]\n    x[i] = t * a\n    y[i] = t * a",
        "for i in range(n):\n    y[i] = " + " + ".join(f"(a if x[i] > 0.{k} else x[i])" for k in range(8)),
    ],
)
def test_no_data_make_fewer_operations_than_are_counted(body: str) -> None:
    """The count is not the least one here: what iterations could share, or has too many outcomes, is left out."""
    nest, function = kernel(body)
    assert flops(nest, {"n": 4}) <= min(run(function, 4, seed).operations for seed in range(100))


def test_a_sum_that_a_scalar_keeps_is_new_in_every_iteration() -> None:
    """A run finds that all these sums are the same: the one case in which the count is more than that."""
    nest, function = kernel("for i in range(n):\n    s = 0.0\n    for j in range(n):\n        s += x[j]\n    y[i] = s")
    # But for the first term, which is added to zero.
    assert flops(nest, {"n": 5}) == 1 + 5 * 4
    assert run(function, 5, 0).operations == 5


def random_body(chance: random.Random) -> str:
    """Loops over two arrays and three scalars, none of which is made from an earlier value of its own."""

    def value(loops: list[str], scalars: str, depth: int) -> str:
        kind = chance.random() if depth else 0.0
        if kind < 0.2:
            loop = chance.choice(loops)
            return chance.choice([f"x[{loop}]", f"y[{loop}]", f"x[n - 1 - {loop}]", "a", "2.0191", *scalars, *scalars])
        left, right = value(loops, scalars, depth - 1), value(loops, scalars, depth - 1)
        if kind < 0.7:
            return f"({left} {chance.choice('+-*')} {right})"
        if kind < 0.8:
            return f"max({left}, {right})"
        loop = chance.choice(loops)
        second = chance.choice(["", " and y[0] > 0.0", " or y[0] * 2.5 > 0.0"])
        test = f"{loop} < n - 2" if chance.random() < 0.6 else f"x[{loop}] > 0.0{second}"
        return f"({left} if {test} else {right})"

    def block(loops: list[str]) -> list[str]:
        lines: list[str] = []
        for _ in range(chance.randint(1, 3)):
            kind = chance.random()
            if kind < 0.35 and len(loops) < 2:
                inner = block([*loops, f"{loops[0]}{loops[0]}"])
                lines += [f"for {loops[0]}{loops[0]} in range(n):", *(f"    {line}" for line in inner)]
            elif kind < 0.6:
                position = chance.randrange(3)
                lines.append(f"{'stu'[position]} = {value(loops, 'stu'[:position], 2)}")
            else:
                target = f"{chance.choice('xy')}[{chance.choice(loops)}]"
                lines.append(f"{target} {chance.choice(['=', '+='])} {value(loops, 'stu', 2)}")
        return lines

    nests = [[f"for {loop} in range(n):", *(f"    {line}" for line in block([loop]))] for loop in "ij"]
    return "\n".join(["s = 0.3137", "t = 1.717", "u = 0.0071", *nests[0], *nests[1]])


@pytest.mark.parametrize("seed", range(30))
def test_counts_of_random_kernels(seed: int) -> None:
    body = random_body(random.Random(seed))
    nest, function = kernel(body)
    is_of_data = "> 0.0" in body
    for n in (1, 2, 4):
        logs = [run(function, n, seed) for seed in range(8 if is_of_data else 1)]
        fewest = min(log.operations for log in logs)
        moved = min(8 * (len(log.first_reads) + len(log.written)) for log in logs)
        counted = flops(nest, {"n": n}), compulsory_bytes(nest, {"n": n})
        assert counted[0] <= fewest
        assert counted[1] <= moved
        assert is_of_data or counted == (fewest, moved)


def nothing_written(reader: OperandReader, statement: Statement, access: Access) -> tuple[isl.UnionMap, isl.UnionMap]:
    relation = reader.model.access_relation(statement, access)
    return relation.subtract(relation), relation


def each_iteration(group: list[Value]) -> list[isl.Set]:
    return [isl.Set.from_union_set(value.iterations) for value in group]


def one_too_many(points: isl.Set, sizes: Mapping[str, int]) -> int:
    return (count_points(points, sizes) or 0) + 1


MISCOUNTS: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], str]] = {
    "a point too many": (lambda patch: patch.setattr(counting, "count_points", one_too_many), "gemm"),
    "writes not seen": (lambda patch: patch.setattr(OperandReader, "_flow", nothing_written), "jacobi-1d"),
    "every iteration counts": (lambda patch: patch.setattr(operations, "_one_for_each", each_iteration), "seidel-2d"),
    "maxima are free": (lambda patch: patch.setattr(evaluation, "COUNTED_CALLS", frozenset({"sqrt"})), "lcs"),
    "conditions are not followed": (lambda patch: patch.setattr(evaluation, "MOST_OUTCOMES", 0), "lcs"),
    "scalars are elements": (lambda patch: patch.setattr("optimizer.polyhedral.operands.MOST_OPERANDS", -1), "deriche"),
}


@pytest.mark.parametrize("name", MISCOUNTS)
def test_a_planted_miscount_does_not_equal_a_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, of = MISCOUNTS[name]
    sizes = dict.fromkeys(catalog.load(of).SIZES["mini"], 6)
    inputs = catalog.load(of).make_inputs(**sizes, rng=np.random.default_rng(0))
    log = value_graph.run(catalog.entry(of).load_function(), inputs)
    assert flops(bundled(of), sizes) == log.operations
    plant(monkeypatch)
    assert flops(bundled(of), sizes) != log.operations


def test_what_takes_too_long_to_tell_apart_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    nest, sizes = bundled("heat-3d"), {"tsteps": 3, "n": 6}
    whole = flops(nest, sizes)
    found: list[int] = []
    for limit in (1000, 200_000):
        monkeypatch.setattr(counting, "operation_limit", partial(operation_limit, limit))
        found.append(flops(nest, sizes))
    assert 0 == found[0] < found[1] < whole
