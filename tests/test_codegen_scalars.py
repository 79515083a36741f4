"""Where scalar variables are kept: plain variables where one value lives at a time, arrays elsewhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from optimizer.codegen.affine import Comparison, Relation, number, variable
from optimizer.codegen.backend import CodeOptions
from optimizer.codegen.loop_ast import Block, Call, For, If
from optimizer.codegen.numba_source import NumbaBackend
from optimizer.codegen.python_text import expression_text
from optimizer.codegen.scalars import scalar_arrays
from optimizer.codegen.schedule_tree import generate_loops
from optimizer.measure.commands import Form
from optimizer.measure.loading import plain_function
from optimizer.polyhedral.nest import Array, Nest, Role, SourceLoop, Statement
from optimizer.polyhedral.schedule import parse_schedule
from optimizer.polyhedral.tree import Leaf, Loop, Sequence
from tests.hand_nests import array, parameter, read, row_sum, value, write


def scheduled(nest: Nest, schedule: str) -> str:
    return NumbaBackend().source(nest, parse_schedule(schedule).apply(nest), CodeOptions())


def assert_row_sums(source: str) -> None:
    function = plain_function(source, "generated.py", "row_sum", Form.BACKWARD)
    for n, m in [(0, 0), (0, 3), (1, 1), (3, 0), (5, 7), (9, 8), (8, 9)]:
        A, x = np.random.default_rng(n).uniform(size=(n, m)), np.empty(n)
        function(n, m, A, x)
        expected = [sum(row.tolist(), 0.0) for row in A]
        assert x.tolist() == expected


ONE_AT_A_TIME = (
    "",
    "reverse(i)",
    "parallel(i)",
    "tile(i=4)",
    "tile(i=4); parallel(i_t)",
    "tile(j=4)",
    "split(i, at=3)",
    "split(i, at=3); parallel(i); parallel(i_2)",
    "split(j, at=4); unroll(j_2, 4)",
)
SEVERAL_AT_ONCE = (
    "distribute(i)",
    "distribute(i); interchange(i_2, j)",
    "distribute(i); interchange(i_2, j); tile(i_2=4)",
    "distribute(i); parallel(i); parallel(i_2); parallel(i_3)",
    "shift(S2, i, 1)",
    "tile(i=4); distribute(i)",
)


@pytest.mark.parametrize("schedule", ONE_AT_A_TIME)
def test_one_value_at_a_time_is_a_variable(schedule: str) -> None:
    source = scheduled(row_sum(), schedule)
    assert "s = 0.0" in source
    assert "np.empty" not in source
    assert_row_sums(source)


@pytest.mark.parametrize("schedule", SEVERAL_AT_ONCE)
def test_several_values_at_once_are_an_array(schedule: str) -> None:
    source = scheduled(row_sum(), schedule)
    assert "s = np.empty(n)" in source
    assert_row_sums(source)


def shifted_domain() -> Nest:
    """`for i in range(2, n): for j in range(i, m): t = A[j, i]; x[j, i] = t`, the scalar expanded over both loops."""
    source = (
        "def copy(n, m, A, x):\n    for i in range(2, n):\n        for j in range(i, m):\n"
        "            t = A[j, i]\n            x[j, i] = t\n"
    )
    domain = "[n, m] -> {{ {}[i, j] : 2 <= i < n and i <= j < m }}"
    return Nest(
        name="copy",
        arguments=(parameter("n"), parameter("m"), array("A"), array("x")),
        parameters=("n", "m"),
        extents=(),
        context="[n, m] -> { : n >= 0 and m >= 0 }",
        arrays=(
            Array("A", "float32", ("m", "n"), Role.ARGUMENT),
            Array("x", "float32", ("m", "n"), Role.ARGUMENT),
            Array("t", "float32", (), Role.SCALAR),
        ),
        statements=(
            Statement(
                "S0", ("i", "j"), domain.format("S0"), (read("A", "j", "i"), write("t", "i", "j")), "t = A[j, i]", 4
            ),
            Statement(
                "S1", ("i", "j"), domain.format("S1"), (read("t", "i", "j"), write("x", "j", "i")), "x[j, i] = t", 5
            ),
        ),
        tree=Loop("i", Loop("j", Sequence((Leaf("S0", {"i": "i", "j": "j"}), Leaf("S1", {"i": "i", "j": "j"}))))),
        loops=(SourceLoop("i", 2), SourceLoop("j", 3)),
        prologue=(),
        epilogue=(),
        preamble="",
        original=source,
    )


def test_an_array_starts_at_the_least_subscript() -> None:
    nest = shifted_domain()
    tree = parse_schedule("distribute(j); skew(j_2, by=i); parallel(i)").apply(nest)
    (place,) = scalar_arrays(nest, tree, generate_loops(nest, tree))
    assert [expression_text(lower) for lower in place.lower] == ["2", "2"]
    source = NumbaBackend().source(nest, tree, CodeOptions())
    assert "dtype=np.float32)" in source
    assert "t[at(j - 2)] = A[at(j), i]" in source, "each i has its own row"
    function = plain_function(source, "generated.py", "copy")
    for n, m in [(0, 0), (2, 5), (3, 3), (5, 9), (9, 4)]:
        A = np.random.default_rng(n).uniform(size=(m, n)).astype(np.float32)
        x = np.zeros_like(A)
        function(n, m, A, x)
        assert (x == np.where(np.arange(m)[:, None] >= np.arange(n), A, 0) * (np.arange(n) >= 2)).all()


def last_value(kept: bool) -> Nest:
    """`total` comes in, changes in some iterations of a parallel loop and, if kept, is returned."""
    return Nest(
        name="first",
        arguments=(parameter("n"), value("total"), array("A")),
        parameters=("n",),
        extents=(),
        context="[n] -> { : n >= 0 }",
        arrays=(
            Array("A", "float64", ("n",), Role.ARGUMENT),
            Array("total", "float64", (), Role.SCALAR, returned=kept),
        ),
        statements=(
            Statement(
                "S0",
                ("i",),
                "[n] -> { S0[i] : 0 <= i < n and i mod 4 = 3 }",
                (read("total"), read("A", "i"), write("total")),
                "total += A[i]",
                3,
            ),
            Statement(
                "S1", ("i",), "[n] -> { S1[i] : 0 <= i < n }", (read("A", "i"), write("A", "i")), "A[i] += 1.0", 4
            ),
        ),
        tree=Loop("i", Sequence((Leaf("S0", {"i": "i"}), Leaf("S1", {"i": "i"}))), is_parallel=True),
        loops=(SourceLoop("i", 2),),
        prologue=(),
        epilogue=("return total",) if kept else (),
        preamble="",
        original="def first(n, total, A): ...\n",
    )


def test_a_shared_scalar_under_a_parallel_loop_is_no_reduction_to_numba() -> None:
    source = NumbaBackend().source(last_value(kept=True), last_value(kept=True).tree, CodeOptions())
    assert "total_cell = np.empty(1)\n    total_cell[0] = total\n" in source
    assert "total_cell[0] += A[i]" in source
    assert "total = total_cell[0]\n    return total" in source
    function = plain_function(source, "generated.py", "first")
    assert function(4, 10.0, np.arange(4.0)) == 13.0
    assert function(3, 10.0, np.arange(3.0)) == 10.0


def test_a_read_that_no_assignment_dominates_needs_an_array() -> None:
    """Numba would see a reduction in a variable that is assigned under one `if` and read under the next."""
    nest = row_sum()
    is_small = Comparison(variable("i"), Relation.LESS, number(3))
    first, second = Call("S0", (variable("i"),)), Call("S2", (variable("i"),))

    def stored(*parts: Any) -> bool:
        body = Block(parts)
        loop = For("i", "i", number(0), variable("n"), 1, body, is_parallel=True)
        return bool(scalar_arrays(nest, replace_parallel(nest), loop))

    def replace_parallel(nest: Nest) -> Any:
        assert isinstance(nest.tree, Loop)
        return replace(nest.tree, is_parallel=True)

    assert not stored(first, second)
    assert not stored(If(is_small, Block((first, second))))
    assert stored(If(is_small, first), If(is_small, second))
    assert not stored(If(is_small, first, first), second)
    assert stored(For("j", "j", number(0), variable("m"), 1, first), second)
