"""Every refusal of a step: why, and what would work."""

from __future__ import annotations

import pytest

from optimizer.errors import StepError
from optimizer.polyhedral.schedule import parse_schedule
from tests.hand_nests import gemm, lu, row_sum

NESTS = {"gemm": gemm(), "lu": lu(), "row_sum": row_sum()}
REFUSALS = [
    ("lu", "tile(q=32)", "there is no loop q; the loops are i, j, k, j_2, k_2", ()),
    ("lu", "parallel(j2)", "there is no loop j2; the loops are i, j, k, j_2, k_2", ("j_2", "j")),
    ("lu", "interchange(j, k)", "k is not perfectly nested in j: j has several parts", ("distribute(j)",)),
    ("lu", "reorder(k_2, j_2, i)", "k_2 is not perfectly nested in i: i has several parts", ("distribute(i)",)),
    ("lu", "tile(i=8, j=8)", "j is not perfectly nested in i: i has several parts", ("distribute(i)",)),
    ("lu", "interchange(k, k_2)", "k_2 and k are not nested in one another: k_2 is in i j_2", ()),
    ("gemm", "distribute(i); interchange(i, i_2)", "i_2 and i are not nested in one another: i_2 is an outermost", ()),
    ("lu", "interchange(i, i)", "interchange takes two different loops, not i twice", ()),
    ("lu", "reorder(i)", "reorder takes two or more different loops, not (i)", ()),
    ("gemm", "reorder(k, j_2)", "k, j_2 are in this order already", ()),
    ("lu", "tile()", "tile needs a loop and a size, such as tile(i=32)", ()),
    ("lu", "tile(i=0)", "the tile size of i must be from 2 to 1000000, not 0", ("tile(i=32)",)),
    ("lu", "tile(i=1)", "the tile size of i must be from 2 to 1000000, not 1", ("tile(i=32)",)),
    ("lu", "tile(i=-4)", "the tile size of i must be from 2 to 1000000, not -4", ("tile(i=32)",)),
    ("lu", "tile(i=2000000)", "the tile size of i must be from 2 to 1000000, not 2000000", ("tile(i=32)",)),
    ("lu", "skew(k, by=k_2)", "k_2 is not a loop around k", ("skew(k, by=i)", "skew(k, by=j)")),
    ("lu", "skew(j, by=i, factor=0)", "the factor of a skew must be from 1 to 1000, or negative, not 0", ()),
    ("lu", "shift(S1, k, 1)", "S1 is not in loop k, which has S0", ("shift(S1, i, 1)", "shift(S1, j, 1)")),
    ("lu", "shift(S1, j, 0)", "shifting by 0 changes nothing", ()),
    ("lu", "shift(S0, j, j)", "j in the amount is neither a size nor another loop around S0; those are i, k, n", ()),
    ("lu", "shift(S0, j, k_2)", "k_2 in the amount is neither", ()),
    ("lu", "fuse(j, j)", "fuse takes two different parts, not j twice", ()),
    ("lu", "fuse(S1, S9)", "there is no loop or statement S9; there are i, j, k, j_2, k_2, S0, S1, S2", ()),
    ("lu", "fuse(j_2, j)", "j is before j_2", ("fuse(j, j_2)",)),
    ("lu", "fuse(k, k_2)", "k and k_2 are not neighbours in one loop", ("fuse(k, S1)",)),
    (
        "row_sum",
        "distribute(i); fuse(i, i_3)",
        "not neighbours, between them is i_2",
        ("reorder_statements(i, i_3, i_2)",),
    ),
    (
        "row_sum",
        "reorder_statements(S2, j); fuse(S0, S2)",
        "S0 and S2 are statements: one of the two must be a loop",
        (),
    ),
    ("gemm", "distribute(i); parallel(i); fuse(i, i_2)", "i and i_2 differ in their marks: fuse them before", ()),
    ("lu", "distribute(k)", "the body of k is one part", ("distribute(i)", "distribute(j)")),
    ("lu", "reorder_statements(S0)", "reorder_statements takes two or more different parts, not (S0)", ()),
    ("lu", "reorder_statements(S0, S9)", "there is no loop or statement S9", ()),
    ("lu", "reorder_statements(S0, S1)", "S0, S1 are in this order already", ()),
    (
        "lu",
        "reorder_statements(k, k_2)",
        "k, k_2 are not parts of one sequence",
        ("reorder_statements(j_2, j)", "reorder_statements(S1, k)"),
    ),
    ("lu", "split(j, at=k)", "k in the bound is neither a size nor a loop around j; those are i, n", ()),
    ("lu", "split(j, at=n)", "no iteration has j >= n: there is nothing to split", ()),
    ("lu", "split(j, at=-1)", "no iteration has j < -1: there is nothing to split", ()),
    ("lu", "parallel(i, chunk=-1)", "parallel: chunk must be at least 1, not -1", ()),
    (
        "lu",
        "parallel(i, share=ends, chunk=4)",
        "parallel: threads either take chunks in turn or share from both ends: leave one out",
        (),
    ),
    ("lu", "parallel(i); parallel(i)", "i is parallel already", ()),
    ("lu", "parallel(i); parallel(k_2)", "i around k_2 is parallel already: only one of them can be", ()),
    ("lu", "parallel(k_2); parallel(j_2)", "k_2 inside j_2 is parallel already: only one of them can be", ()),
    ("lu", "unroll(k, 4); parallel(k)", "k is unrolled, so it cannot be parallel", ()),
    ("lu", "wavefront(j_2, j_2)", "wavefront takes two different loops, not j_2 twice", ()),
    ("lu", "wavefront(k_2, j_2)", "k_2 is inside j_2", ("wavefront(j_2, k_2)",)),
    ("lu", "wavefront(j, k)", "k is not perfectly nested in j", ("distribute(j)",)),
    ("lu", "parallel(i); wavefront(j_2, k_2)", "i around k_2 is parallel already", ()),
    ("lu", "unroll(j_2, 4)", "j_2 is not innermost, k_2 is inside it", ("unroll(k_2, 4)",)),
    ("lu", "unroll(k, 1)", "the factor of unroll must be from 2 to 16, not 1", ()),
    ("lu", "unroll(k, 4); unroll(k, 4)", "k is unrolled like that already", ()),
    ("lu", "parallel(k); unroll(k, 4)", "k is parallel, so it cannot be unrolled", ()),
    ("lu", "unroll_and_jam(k, 4)", "k is innermost already", ("unroll(k, 4)",)),
    ("lu", "unroll_and_jam(j, 4)", "j has several parts", ("distribute(j)",)),
    ("lu", "distribute(i); unroll_and_jam(i, 4)", "j inside i has several parts", ("distribute(j)",)),
    ("lu", "unroll_and_jam(j_2, 32)", "the factor of unroll_and_jam must be from 2 to 16, not 32", ()),
    ("lu", "parallel(j_2); unroll_and_jam(j_2, 2)", "j_2 is parallel: unroll and jam it before marking", ()),
    ("gemm", "unroll_and_jam(k, 2); interchange(k, j_2); unroll_and_jam(k, 2)", "k is unrolled already", ()),
]


@pytest.mark.parametrize(("name", "text", "message", "near"), REFUSALS, ids=[text for _, text, _, _ in REFUSALS])
def test_refusal(name: str, text: str, message: str, near: tuple[str, ...]) -> None:
    with pytest.raises(StepError) as caught:
        parse_schedule(text).apply(NESTS[name])
    assert message in caught.value.message
    assert caught.value.near == near


@pytest.mark.parametrize(
    ("name", "text", "near"),
    [(name, text, near) for name, text, _, all_near in REFUSALS for near in all_near if "(" in near],
)
def test_what_a_refusal_proposes_works(name: str, text: str, near: str) -> None:
    before = text.rpartition(";")[0]
    assert parse_schedule(f"{before}; {near}").apply(NESTS[name])
