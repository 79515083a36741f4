"""The step `register_tile` and the code of its tiles: what is refused, and what may stay in registers."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from optimizer.errors import CandidateError, StepError
from optimizer.polyhedral.legality import Legal, judge
from optimizer.polyhedral.model import Model
from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.schedule import parse_schedule
from optimizer.polyhedral.steps.register_tile import RegisterTile
from optimizer.polyhedral.tree import Node, inconsistencies, loops
from tests.hand_nests import gemm, lu, row_sum
from tests.test_random_schedules import nest_named
from tests.test_vectorize import code, nest_of
from tests.vector_units import lanes_of_doubles


@pytest.fixture(autouse=True)
def four_lanes() -> Generator[None]:
    """Whatever the machine is."""
    with lanes_of_doubles(4):
        yield


# The step.


def test_tiles_stand_where_the_loops_stood_and_points_innermost() -> None:
    schedule = parse_schedule("distribute(i); tile(k=256); register_tile(i_2=8, j_2=24)")
    tree = schedule.apply(gemm())
    assert inconsistencies(tree) == ()
    assert loop_names(tree) == ["i", "j", "i_2_t", "j_2_t", "k_t", "k", "i_2", "j_2"]
    rows, columns = tuple(loops(tree))[-2:]
    assert (rows.unroll, rows.vector, columns.unroll, columns.vector) == (0, 1, 0, 0)


def loop_names(tree: Node) -> list[str]:
    return [loop.name for loop in loops(tree)]


def test_points_run_in_the_order_they_are_named() -> None:
    text = "distribute(i); reorder(j_2, k, i_2); register_tile(i_2=4, j_2=8)"
    assert loop_names(parse_schedule(text).apply(gemm())) == ["i", "j", "i_2_t", "j_2_t", "k", "i_2", "j_2"]


@pytest.mark.parametrize(
    ("make", "text", "message", "near"),
    [
        (gemm, "register_tile()", "register_tile needs loops and sizes, such as register_tile(i=8, j=24)", ()),
        (gemm, "register_tile(i=1, j=8)", "must be from 2 to 64, not 1", ("register_tile(i=2, j=8)",)),
        (gemm, "register_tile(i=8, j=65)", "the size of j in a register tile must", ("register_tile(i=8, j=64)",)),
        (gemm, "register_tile(i=64, j=70)", "must be from 2 to 64, not 70", ()),
        (gemm, "register_tile(i=64, j=32)", "a register tile has at most 1024 elements, not 2048", ()),
        (gemm, "register_tile(x=4, j=8)", "there is no loop x; the loops are i, j, k, j_2", ()),
        (gemm, "register_tile(i=4, j_2=8)", "j_2 is not perfectly nested in i: i has several", ("distribute(i)",)),
        (gemm, "register_tile(i=4)", "i has several parts", ("distribute(i)",)),
        (lu, "register_tile(k=4, j_2=8)", "j_2 and k are not nested in one another", ()),
        (row_sum, "register_tile(j=8)", "there is no other loop inside j", ()),
        (
            gemm,
            "distribute(i); register_tile(k=4, j_2=8)",
            "there is no other loop inside k: a register tile keeps what it computes for one",
            ("reorder(k, j_2, i_2)",),
        ),
        (
            gemm,
            "distribute(i); parallel(i_2); register_tile(i_2=4, j_2=8)",
            "i_2 is parallel, so it cannot be inside a register tile",
            (),
        ),
        (gemm, "distribute(i); unroll(j_2, 4); register_tile(i_2=4, j_2=8)", "j_2 is unrolled, so it cannot be", ()),
        (gemm, "distribute(i); vectorize(j_2); register_tile(i_2=4, j_2=8)", "j_2 is vectorized, so it cannot be", ()),
        (
            gemm,
            "distribute(i); register_tile(i_2=4, j_2=8); register_tile(i_2=4, j_2=8)",
            "i_2 is unrolled, so it cannot be inside a register tile",
            (),
        ),
        (
            gemm,
            "distribute(i); register_tile(i_2=4, j_2=8); interchange(k, j_2)",
            "j_2 is vectorized, and k would be inside it",
            (),
        ),
    ],
)
def test_what_stands_in_the_way_is_said(make: Any, text: str, message: str, near: tuple[str, ...]) -> None:
    with pytest.raises(StepError) as caught:
        parse_schedule(text).apply(make())
    assert message in str(caught.value)
    assert caught.value.near == near


def test_a_body_without_vector_form_is_refused(tmp_path: Path) -> None:
    nest = nest_of(tmp_path, product("C[i, j] += math.sin(A[i, k])"))
    assert not list(RegisterTile.options(nest, nest.tree))
    with pytest.raises(StepError, match="j cannot be vectorized: `math"):
        parse_schedule("register_tile(i=4, j=8)").apply(nest)


def test_options_are_loops_with_another_one_inside() -> None:
    nest = gemm()
    assert not list(RegisterTile.options(nest, nest.tree))
    tree = parse_schedule("distribute(i)").apply(nest)
    pairs = {tuple(name for name, _ in option.sizes) for option in RegisterTile.options(nest, tree)}
    assert pairs == {("i_2", "k"), ("i_2", "j_2"), ("k", "i_2"), ("j_2", "i_2")}
    assert RegisterTile((("i_2", 8), ("j_2", 24))) in RegisterTile.options(nest, tree)
    for marked in ("parallel(i_2)", "unroll(j_2, 2)", "vectorize(j_2)", "register_tile(i_2=4, j_2=16)"):
        after = parse_schedule(f"distribute(i); {marked}").apply(nest)
        assert not list(RegisterTile.options(nest, after)), marked


# Code. `product` has the loops of a matrix product.


def product(body: str, loops: str = "i in range(n); j in range(n); k in range(n)", dtype: str = "Float64") -> str:
    """A kernel: statements, and the loops around them."""
    matrices = ", ".join(f'{name}: {dtype}[np.ndarray, "2*n+9 2*n+9"]' for name in "ABCD")
    heads = [f"for {head}:" for head in loops.split("; ")]
    lines = [f"{'    ' * depth}{line}" for depth, line in enumerate(heads, 1)]
    lines += [f"{'    ' * (len(heads) + 1)}{line}" for line in body.split("; ")]
    return "\n".join([f"def kernel(n: int, {matrices}) -> None:", *lines, ""])


def tiled(nest: Nest, schedule: str = "register_tile(i=2, j=8)") -> str:
    tree = parse_schedule(schedule).apply(nest)
    assert judge(Model(nest), tree).legal is Legal.YES
    return code(nest, tree)


def tile_function(source: str) -> str:
    return source[source.index("_tile(") :].split("\n\n\n")[0]


def test_what_is_written_is_loaded_before_the_loop_and_stored_after_it() -> None:
    lines = tile_function(tiled(nest_named("gemm"), "distribute(i); register_tile(i_2=2, j_2=8)")).splitlines()
    loop = next(place for place, line in enumerate(lines) if "for k in" in line)
    loads = [place for place, line in enumerate(lines) if "load_masked(C" in line]
    stores = [place for place, line in enumerate(lines) if "store_masked(C" in line]
    assert len(loads) == len(stores) == 4
    assert max(loads) < loop < min(stores)
    inside = "\n".join(lines[loop : min(stores)])
    assert inside.count("load_masked(B") == 2, "once for both rows"
    assert inside.count("A[") == 2, "once for both vectors"


def test_no_masks_where_all_tiles_are_full(tmp_path: Path) -> None:
    nest = nest_of(tmp_path, product("C[i, j] += A[i, k] * B[k, j]", "i in range(4); j in range(16); k in range(n)"))
    source = tiled(nest)
    assert "mask" not in source
    assert "C_0 = load(C, (i, j), 4)" in source


def test_columns_are_gathered_with_masks() -> None:
    source = tiled(nest_named("syrk"), "distribute(i); register_tile(i_2=2, j_2=8)")
    assert "gather_masked(A, (j_2, k), (1, 0), mask_1)" in tile_function(source)


def test_what_cannot_be_masked_runs_from_memory_where_tiles_are_not_full(tmp_path: Path) -> None:
    """Beyond the last column of a tile that is not full lies what it reads."""
    source = tiled(nest_of(tmp_path, product("C[i, j] += A[i, k] * C[i, j + n]")))
    assert "mask" not in tile_function(source)
    assert "if 2 * i_t + 2 <= n and 8 * j_t + 8 <= n:\n                kernel_tile(" in source
    assert "else:\n                for k in range(n):" in source


def test_a_triangle_inside_the_tile_runs_from_memory() -> None:
    """Rows of B in the tile itself are read while they change."""
    source = tiled(nest_named("trmm"), "distribute(j); distribute(i); register_tile(i=3, j=8)")
    assert "for k in range(3 * i_t + 3, m):" in tile_function(source)
    assert "for k in range(3 * i_t + 1, k_full):" in source


def test_only_what_is_final_is_read_beside_registers(tmp_path: Path) -> None:
    """As in an LU factorization: columns and rows before the tile."""
    text = product("C[i, j] -= C[i, k] * C[k, j]", "k in range(n); i in range(k + 1, n); j in range(k + 1, n)")
    source = tiled(nest_of(tmp_path, text), "reorder(i, j, k); register_tile(i=2, j=8)")
    assert "for k in range(min(n - 1, 2 * i_t, 8 * j_t)):" in tile_function(source)
    assert "for k in range(k_rest, " in source


SUM = "C[i, j] += A[i, k] * B[k, j]"
TILE = "register_tile(i=2, j=8)"
LOOPS = "i in range(n); j in range(n); k in range(n)"
REFUSED = [
    ("C[i, j] += C[3, j] * A[i, k]", LOOPS, "register_tile(j=8)", "it reads what it writes of C in another place too"),
    ("C[k, j] += A[i, k] * B[i, j]", LOOPS, TILE, "k writes other elements of C each time"),
    ("t = A[i, k] * B[k, j]; C[i, j] += t", LOOPS, TILE, "t has a value of its own in each iteration"),
    (SUM, LOOPS, "register_tile(i=2, j=6)", "j has 6 iterations, and a vector 4 lanes"),
    ("C[j, i] += A[i, k] * B[k, j]", LOOPS, TILE, "its vectors do not lie along the rows of C"),
    ("C[i, 2 * j] += A[i, k] * B[k, j]", LOOPS, TILE, "its vectors do not lie along the rows of C"),
    ("C[i, j] += A[i, k] * B[k, j // 2]", LOOPS, TILE, "the subscript `j // 2` does not grow evenly"),
    ("C[i, j] += A[i, k] * j", LOOPS, TILE, "`j` is computed with, not only a subscript"),
    (SUM, "i in range(n); j in range(n); k in range(0, n, 2)", TILE, "k does not run one by one"),
    (
        SUM,
        "i in range(n); k in range(n); j in range(2 * k, n)",
        TILE,
        "which tiles are full depends on k in a way that is not simple",
    ),
]


@pytest.mark.parametrize(("body", "loops", "schedule", "reason"), REFUSED)
def test_a_schedule_without_any_register_tile_is_refused(
    tmp_path: Path, body: str, loops: str, schedule: str, reason: str
) -> None:
    nest = nest_of(tmp_path, product(body, loops))
    tree = parse_schedule(schedule).apply(nest)
    assert judge(Model(nest), tree).legal is Legal.YES
    with pytest.raises(CandidateError) as caught:
        code(nest, tree)
    assert str(caught.value) == f"there is no register tile: {reason}"


def test_tiles_of_many_statements_are_refused(tmp_path: Path) -> None:
    nest = nest_of(tmp_path, product(f"{SUM}; D[i, j] += A[i, k]"))
    assert "_tile(" in tiled(nest, "register_tile(i=32, j=16)")
    with pytest.raises(CandidateError, match="a register tile of 320 vector statements; at most 256 are allowed"):
        tiled(nest, "register_tile(i=40, j=16)")


def test_what_stays_in_registers_must_be_apart_from_the_rest(tmp_path: Path) -> None:
    """One element nearer, and the tile's last lane would be read while it changes."""
    apart = "C[i, j] += C[i, j + 8] * A[i, k]"
    nest = nest_of(tmp_path, product(apart))
    assert "load_masked(C, (i_0, j + 8), mask_1)" in tiled(nest)
    near = nest_of(tmp_path, product(apart.replace("j + 8", "j + 7")))
    tree = parse_schedule(TILE).apply(near)
    with pytest.raises(CandidateError, match="it reads what it writes of C in another place too"):
        code(near, tree)


def test_an_argument_may_be_called_like_a_builtin_function() -> None:
    source = tiled(nest_named("doitgen"), "distribute(p); register_tile(p_3=8)")
    assert "def doitgen_tile(A, C4, ns, p_3_t, q, r, sum):" in source


def test_each_tile_is_a_function_of_its_own() -> None:
    nest = nest_named("2mm")
    apart = "distribute(j); distribute(i); distribute(j_2); distribute(i_2)"
    source = tiled(nest, f"{apart}; register_tile(i_3=2, j_3=8); register_tile(i_4=2, j_4=8)")
    assert source.count("def two_mm_tile") == 2
    assert source.count("two_mm_tile(") == source.count("two_mm_tile_2(") == 2, "defined and called"
