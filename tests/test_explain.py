"""The analysis behind `loopwright explain`."""

from dataclasses import replace

import pytest

from optimizer.polyhedral.explain import Dependence, dependences, explain, permutable_bands, scalars
from optimizer.polyhedral.model import Model
from optimizer.polyhedral.nest import Nest, SourceLoop, Statement
from optimizer.polyhedral.tree import Leaf, Loop, Sequence
from optimizer.polyhedral.witness import Kind
from tests.hand_nests import array, gemm, lu, parameter, read, row_sum, write


def time_stepped(read_offset: int) -> Nest:
    """`for t: for i: A[i] = A[i + read_offset]`: in place, one dimension."""
    source = "def step(steps, n, A): ..."
    return Nest(
        name="step",
        arguments=(parameter("steps"), parameter("n"), array("A")),
        parameters=("steps", "n"),
        extents=(),
        context="[steps, n] -> { : steps >= 0 and n >= 2 }",
        arrays=(replace(gemm().array("C"), name="A", shape=("n",)),),
        statements=(
            Statement(
                "S0",
                ("t", "i"),
                "[steps, n] -> { S0[t, i] : 0 <= t < steps and 1 <= i < n - 1 }",
                (read("A", f"i + {read_offset}"), write("A", "i")),
                f"A[i] = A[i + {read_offset}]",
                3,
            ),
        ),
        tree=Loop("t", Loop("i", Leaf("S0", {"t": "t", "i": "i"}))),
        loops=(SourceLoop("t", 1), SourceLoop("i", 2)),
        prologue=(),
        epilogue=(),
        preamble="",
        original=source,
    )


def test_gemm() -> None:
    nest = gemm()
    found = explain(Model(nest), nest.tree)
    assert found.parallel == ("i", "j", "j_2")
    assert found.permutable == (("k", "j_2"),)
    assert Dependence("C", Kind.RAW, "S1", "S1", ("k",), False) in found.dependences
    assert Dependence("C", Kind.RAW, "S0", "S1", (), True) in found.dependences
    assert {d.array for d in found.dependences} == {"C"}, "A and B are only read"


def test_lu_is_carried_by_its_outer_loop() -> None:
    nest = lu()
    found = explain(Model(nest), nest.tree)
    assert found.parallel == ("j_2",)
    assert Dependence("A", Kind.RAW, "S2", "S1", ("i",), False) in found.dependences


def test_anti_and_output_dependences_count() -> None:
    nest = time_stepped(read_offset=1)
    kinds = {d.kind: d.carried_by for d in dependences(Model(nest), nest.tree)}
    assert kinds[Kind.WAR] == ("t", "i")
    assert kinds[Kind.WAW] == ("t",)
    assert kinds[Kind.RAW] == ("t",)


@pytest.mark.parametrize(("offset", "bands"), [(-1, []), (0, [("t", "i")]), (1, [])])
def test_a_dependence_that_goes_back_ends_a_band(offset: int, bands: list[tuple[str, ...]]) -> None:
    nest = time_stepped(offset)
    assert list(permutable_bands(Model(nest), nest.tree)) == bands


def test_skewing_makes_the_band() -> None:
    nest = time_stepped(read_offset=1)
    skewed = Loop("t", Loop("i", Leaf("S0", {"t": "t", "i": "i + t"})))
    assert list(permutable_bands(Model(nest), skewed)) == [("t", "i")]


def test_a_sequence_ends_a_band() -> None:
    nest = gemm()
    bands = list(permutable_bands(Model(nest), Sequence((nest.tree,))))
    assert bands == [("k", "j_2")]


def test_scalars_say_whether_they_can_be_copied() -> None:
    assert scalars(row_sum()) == {"s": ("i",)}
    carried = row_sum()
    plain = tuple(
        replace(s, accesses=tuple(replace(a, subscripts=()) if a.array == "s" else a for a in s.accesses))
        for s in carried.statements
    )
    assert scalars(replace(carried, statements=plain)) == {"s": None}
