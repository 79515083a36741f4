"""Every step: the tree before and after, and the order of the iterations it means."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from math import floor
from typing import Any

import pytest

from kernels import catalog
from optimizer.polyhedral.frontend import nest_of_file
from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.order import timed_leaves
from optimizer.polyhedral.schedule import parse_schedule
from optimizer.polyhedral.steps import STEPS
from optimizer.polyhedral.steps.fuse import Fuse
from optimizer.polyhedral.steps.split import Split
from optimizer.polyhedral.steps.tile import Tile
from optimizer.polyhedral.tree import Leaf, Loop, Node, inconsistencies, show
from tests.hand_nests import gemm, lu, row_sum

DOITGEN = nest_of_file(f"{catalog.load('doitgen').__file__}:doitgen")
NESTS = {"gemm": gemm(), "lu": lu(), "row_sum": replace(row_sum(), reassociates=True), "doitgen": DOITGEN}

BEFORE = {
    "gemm": """\
for i
  for j
    S0: i = i, j = j
  for k
    for j_2
      S1: i = i, k = k, j_2 = j_2""",
    "lu": """\
for i
  for j
    for k
      S0: i = i, j = j, k = k
    S1: i = i, j = j
  for j_2
    for k_2
      S2: i = i, j_2 = j_2, k_2 = k_2""",
    "row_sum": """\
for i
  S0: i = i
  for j
    S1: i = i, j = j
  S2: i = i""",
    "doitgen": """\
for r
  for q
    for p
      S0: r = r, q = q, p = p
      for s
        S1: r = r, q = q, p = p, s = s
    for p_2
      S2: r = r, q = q, p_2 = p_2""",
}

AFTER = [
    (
        "gemm",
        "interchange(k, j_2)",
        """\
for i
  for j
    S0: i = i, j = j
  for j_2
    for k
      S1: i = i, k = k, j_2 = j_2""",
    ),
    (
        "gemm",
        "distribute(i); reorder(j_2, i_2, k)",
        """\
for i
  for j
    S0: i = i, j = j
for j_2
  for i_2
    for k
      S1: i_2 = i, k = k, j_2 = j_2""",
    ),
    (
        "gemm",
        "distribute(i); interchange(i_2, j_2)",
        """\
for i
  for j
    S0: i = i, j = j
for j_2
  for k
    for i_2
      S1: i_2 = i, k = k, j_2 = j_2""",
    ),
    (
        "gemm",
        "distribute(i); tile(j_2=8, i_2=32)",
        """\
for i
  for j
    S0: i = i, j = j
for j_2_t
  for i_2_t
    for i_2
      for k
        for j_2
          S1: i_2 = i, k = k, j_2 = j_2, j_2_t = floor(j_2/8), i_2_t = floor(i/32)""",
    ),
    (
        "gemm",
        "distribute(i); tile(i=32); tile(i_t=4); tile(i=8)",
        """\
for i_tt
  for i_t
    for i_t_2
      for i
        for j
          S0: i = i, j = j, i_t = floor(i/32), i_tt = floor(floor(i/32)/4), i_t_2 = floor(i/8)
for i_2
  for k
    for j_2
      S1: i_2 = i, k = k, j_2 = j_2""",
    ),
    (
        "row_sum",
        "tile(i=32)",
        """\
for i_t
  for i
    S0: i = i, i_t = floor(i/32)
    for j
      S1: i = i, j = j, i_t = floor(i/32)
    S2: i = i, i_t = floor(i/32)""",
    ),
    (
        "row_sum",
        "skew(j, by=i, factor=-2); skew(j, by=i)",
        """\
for i
  S0: i = i
  for j
    S1: i = i, j = j - 2*i + i
  S2: i = i""",
    ),
    (
        "lu",
        "fuse(k, S1); shift(S1, k, j - 1)",
        """\
for i
  for j
    for k
      S0: i = i, j = j, k = k
      S1: i = i, j = j, k = j - 1
  for j_2
    for k_2
      S2: i = i, j_2 = j_2, k_2 = k_2""",
    ),
    (
        "row_sum",
        "tile(i=4); shift(S2, i, n - 2*i_t); shift(S0, i, -3)",
        """\
for i_t
  for i
    S0: i = i - 3, i_t = floor(i/4)
    for j
      S1: i = i, j = j, i_t = floor(i/4)
    S2: i = i + (n - 2*floor(i/4)), i_t = floor(i/4)""",
    ),
    (
        "row_sum",
        "skew(j, by=i); reverse(j); reverse(i)",
        """\
for i
  S0: i = -i
  for j
    S1: i = -i, j = -(j + i)
  S2: i = -i""",
    ),
    (
        "lu",
        "fuse(j, j_2)",
        """\
for i
  for j
    for k
      S0: i = i, j = j, k = k
    S1: i = i, j = j
    for k_2
      S2: i = i, j = j_2, k_2 = k_2""",
    ),
    (
        "row_sum",
        "fuse(S0, j); fuse(j, S2)",
        """\
for i
  for j
    S0: i = i, j = 0
    S1: i = i, j = j
    S2: i = i, j = 0""",
    ),
    (
        "row_sum",
        "distribute(i)",
        """\
for i
  S0: i = i
for i_2
  for j
    S1: i_2 = i, j = j
for i_3
  S2: i_3 = i""",
    ),
    (
        "row_sum",
        "reorder_statements(S2, S1)",
        """\
for i
  S0: i = i
  S2: i = i
  for j
    S1: i = i, j = j""",
    ),
    (
        "lu",
        "reorder_statements(j_2, S0)",
        """\
for i
  for j_2
    for k_2
      S2: i = i, j_2 = j_2, k_2 = k_2
  for j
    for k
      S0: i = i, j = j, k = k
    S1: i = i, j = j""",
    ),
    (
        "row_sum",
        "reorder_statements(S2, j, S0)",
        """\
for i
  S2: i = i
  for j
    S1: i = i, j = j
  S0: i = i""",
    ),
    (
        "gemm",
        "split(i, at=ni//2)",
        """\
for i
  for j
    S0: i = i, j = j where i < floor(ni/2)
  for k
    for j_2
      S1: i = i, k = k, j_2 = j_2 where i < floor(ni/2)
for i_2
  for j_3
    S0: i_2 = i, j_3 = j where i >= floor(ni/2)
  for k_2
    for j_4
      S1: i_2 = i, k_2 = k, j_4 = j_2 where i >= floor(ni/2)""",
    ),
    # The part below the diagonal has no S2, the part from it on has nothing else: no leaf without iterations stays.
    (
        "lu",
        "fuse(j, j_2); split(j, at=i)",
        """\
for i
  for j
    for k
      S0: i = i, j = j, k = k where j < i
    S1: i = i, j = j where j < i
  for j_3
    for k_3
      S2: i = i, j_3 = j_2, k_3 = k_2 where j_2 >= i""",
    ),
    (
        "row_sum",
        "parallel(i)",
        """\
for i parallel
  S0: i = i
  for j
    S1: i = i, j = j
  S2: i = i""",
    ),
    (
        "row_sum",
        "parallel(i, chunk=2)",
        """\
for i parallel in chunks of 2
  S0: i = i
  for j
    S1: i = i, j = j
  S2: i = i""",
    ),
    (
        "gemm",
        "wavefront(k, j_2)",
        """\
for i
  for j
    S0: i = i, j = j
  for k
    for j_2 parallel
      S1: i = i, k = k + j_2, j_2 = j_2""",
    ),
    (
        "row_sum",
        "unroll(j, 4)",
        """\
for i
  S0: i = i
  for j unroll 4
    S1: i = i, j = j
  S2: i = i""",
    ),
    (
        "gemm",
        "vectorize(j); distribute(i); vectorize(j_2, 4)",
        """\
for i
  for j vector 0
    S0: i = i, j = j
for i_2
  for k
    for j_2 vector 4
      S1: i_2 = i, k = k, j_2 = j_2""",
    ),
    (
        "gemm",
        "distribute(i); tile(k=256); register_tile(i_2=8, j_2=24)",
        """\
for i
  for j
    S0: i = i, j = j
for i_2_t
  for j_2_t
    for k_t
      for k
        for i_2 unroll 0
          for j_2 unroll 0 vector 0
            S1: i_2 = i, k = k, j_2 = j_2, k_t = floor(k/256), i_2_t = floor(i/8), j_2_t = floor(j_2/24)""",
    ),
    (
        "gemm",
        "distribute(i); register_tile(i_2=8, j_2=24); pack(A, before=j_2_t); pack(B, before=i_2_t)",
        """\
for i
  for j
    S0: i = i, j = j
for i_2_t packs B
  for j_2_t packs A
    for k
      for i_2 unroll 0
        for j_2 unroll 0 vector 0
          S1: i_2 = i, k = k, j_2 = j_2, i_2_t = floor(i/8), j_2_t = floor(j_2/24)""",
    ),
    (
        "doitgen",
        "distribute(p); vectorize(p); stream(sum)",
        """\
for r
  for q
    for p vector 0 streams sum
      S0: r = r, q = q, p = p
    for p_3
      for s
        S1: r = r, q = q, p_3 = p, s = s
    for p_2
      S2: r = r, q = q, p_2 = p_2""",
    ),
    (
        "gemm",
        "unroll(j); unroll_and_jam(k, 4)",
        """\
for i
  for j unroll 0
    S0: i = i, j = j
  for k_t
    for j_2
      for k unroll 4
        S1: i = i, k = k, j_2 = j_2, k_t = floor(k/4)""",
    ),
    (
        "doitgen",
        "privatize(sum, q); parallel(r)",
        """\
for r parallel
  for q
    for p
      S0: r = r, q = q, p = p with its own sum for each q
      for s
        S1: r = r, q = q, p = p, s = s with its own sum for each q
    for p_2
      S2: r = r, q = q, p_2 = p_2 with its own sum for each q
    for element
      S_sum_q: r = r, q = q, element = sum_q_0 with its own sum for each q""",
    ),
    (
        "row_sum",
        "reduce(j, 2); vectorize(j)",
        """\
for i
  S0: i = i
  for j vector 0 reduces 2
    S1: i = i, j = j
  S2: i = i""",
    ),
]


@pytest.mark.parametrize("name", NESTS)
def test_the_trees_before_any_step(name: str) -> None:
    assert show(NESTS[name].tree) == BEFORE[name]


@pytest.mark.parametrize(("name", "text", "after"), AFTER, ids=[text for _, text, _ in AFTER])
def test_tree_after(name: str, text: str, after: str) -> None:
    tree = parse_schedule(text).apply(NESTS[name])
    assert show(tree) == after
    assert inconsistencies(tree) == ()
    assert show(NESTS[name].tree) == BEFORE[name], "a step must not change the tree it is given"


def test_every_step_has_a_golden_tree() -> None:
    shown = {call.split("(")[0].strip() for _, text, _ in AFTER for call in text.split(";")}
    assert shown == set(STEPS) - {"autoschedule"}


# What a step means for the order, checked by running through all iterations of small sizes.


def iterations(nest: Nest, tree: Node, sizes: dict[str, int]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Every iteration of every statement in the order of the tree, from the texts alone."""
    timed: list[tuple[tuple[int, ...], str, tuple[int, ...]]] = []
    for entry in timed_leaves(tree):
        statement = nest.statement(entry.leaf.statement)
        condition = statement.domain.rpartition(":")[2].rstrip(" }")
        span = range(max(sizes.values()) + 1)
        for point in itertools.product(span, repeat=len(statement.iterators)):
            names: dict[str, Any] = {**sizes, **dict(zip(statement.iterators, point, strict=True)), "floor": floor}
            if eval(condition, names) and all(eval(where, names) for where in entry.leaf.where):
                timed.append((tuple(eval(text, names) for text in entry.time), statement.name, point))
    for _, name, point in sorted(timed):
        yield name, point


SIZES = {"ni": 5, "nj": 4, "nk": 6, "n": 6, "m": 5}


def order(name: str, text: str) -> list[tuple[str, tuple[int, ...]]]:
    nest = NESTS[name]
    return list(iterations(nest, parse_schedule(text).apply(nest), SIZES))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("row_sum", "skew(j, by=i, factor=2)"),
        ("lu", "skew(k, by=j); skew(j, by=i, factor=-1)"),
        ("lu", "tile(i=2)"),
        ("lu", "tile(k_2=4); tile(k_2_t=2)"),
        ("lu", "split(i, at=3)"),
        ("lu", "split(j, at=i//2); split(i, at=n - 2)"),
        ("gemm", "shift(S1, k, 3); shift(S1, i, 0 - 0 + 1); shift(S0, i, 1)"),
        ("gemm", "parallel(i); unroll(j, 4)"),
        ("lu", "reverse(k); reverse(k)"),
        ("row_sum", "distribute(i); fuse(i, i_2); fuse(i, i_3)"),
    ],
)
def test_steps_that_keep_the_order(name: str, text: str) -> None:
    assert order(name, text) == order(name, "")


def s1_of_gemm(text: str) -> list[tuple[int, ...]]:
    """The iterations (i, k, j) of gemm's update."""
    return [point for statement, point in order("gemm", text) if statement == "S1"]


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("interchange(k, j_2)", lambda i, k, j: (i, j, k)),
        ("distribute(i); reorder(j_2, i_2, k)", lambda i, k, j: (j, i, k)),
        ("distribute(i); tile(i_2=2, j_2=3)", lambda i, k, j: (i // 2, j // 3, i, k, j)),
        ("reverse(k)", lambda i, k, j: (i, -k, j)),
        ("wavefront(k, j_2)", lambda i, k, j: (i, k + j, j)),
        ("unroll_and_jam(k, 2)", lambda i, k, j: (i, k // 2, j, k)),
        ("skew(j_2, by=k); interchange(k, j_2)", lambda i, k, j: (i, j + k, k)),
        ("split(k, at=i)", lambda i, k, j: (i, k >= i, k, j)),
    ],
)
def test_order_of_the_iterations(text: str, key: Any) -> None:
    assert s1_of_gemm(text) == sorted(s1_of_gemm(""), key=lambda point: key(*point))


def test_a_statement_is_sunk_and_shifted_to_the_iteration_asked_for() -> None:
    row = [step for step in order("lu", "fuse(k, S1); shift(S1, k, j)") if step[1][:2] == (5, 3)]
    assert row == [("S0", (5, 3, 0)), ("S0", (5, 3, 1)), ("S0", (5, 3, 2)), ("S1", (5, 3))]


def test_the_text_of_the_blocked_right_looking_lu_gives_its_loops() -> None:
    text = (
        "fuse(k, S1); shift(S1, k, j); fuse(j, j_2); fuse(k, k_2); reorder(k, i, j); tile(k=32); reorder(i, j, k); "
        "split(i, at=32*k_t + 32); reorder(k, i, j); split(j_3, at=32*k_t + 32); parallel(i_2)"
    )
    tree = parse_schedule(text).apply(NESTS["lu"])
    outline = [line for line in show(tree).splitlines() if "for" in line]
    assert outline == [
        "for k_t",
        "  for k",
        "    for i",
        "      for j",
        "  for i_2 parallel",
        "    for j_3",
        "      for k_3",
        "    for j_4",
        "      for k_4",
    ]
    assert [line.split(":")[0].strip() for line in show(tree).splitlines() if "for" not in line] == [
        *("S0", "S1", "S2"),
        *("S0", "S1"),
        *("S0", "S2"),
    ]


def test_a_statement_in_several_parts_is_reordered_in_each_copy() -> None:
    tree = parse_schedule("fuse(k, S1); split(k, at=2); reorder_statements(S1, S0)").apply(NESTS["lu"])
    statements = [line.split(":")[0].strip() for line in show(tree).splitlines() if "for" not in line]
    assert statements == ["S1", "S0", "S0", "S2"]


def test_new_names_avoid_everything_the_kernel_has() -> None:
    nest = gemm()
    tree = Loop("C", Loop("ni_2", Leaf("S0", {"C": "i", "ni_2": "j"})))
    assert show(Tile((("C", 4),)).apply(nest, tree)).startswith("for C_t\n")
    split = Split("ni_2", "2").apply(nest, tree)
    assert [line.strip() for line in show(split).splitlines() if "for" in line] == ["for C", "for ni_2", "for ni_3"]


def test_steps_are_values() -> None:
    assert Fuse("i", "i_2") == Fuse("i", "i_2")
    assert len({Tile((("i", 32),)), Tile((("i", 32),))}) == 1


def test_inconsistencies_are_found() -> None:
    tree = Loop("i", Loop("i", Leaf("S0", {"i": "i", "j": "j"}), is_parallel=True), is_parallel=True)
    assert inconsistencies(tree) == (
        "two loops are called i",
        "i is parallel inside a parallel loop",
        "S0 is in loops ['i'] and has values of ['i', 'j']",
    )
