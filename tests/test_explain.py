"""The analysis behind `loopwright explain`."""

from collections import defaultdict
from dataclasses import replace

import pytest

from optimizer.kernel_problem import KernelProblem
from optimizer.polyhedral.explain import Dependence, dependences, explain, permutable_bands, scalars
from optimizer.polyhedral.model import Model
from optimizer.polyhedral.nest import Nest, SourceLoop, Statement
from optimizer.polyhedral.tree import Leaf, Loop, Sequence, leaves
from optimizer.polyhedral.witness import Kind
from tests.hand_nests import array, gemm, lu, parameter, read, row_sum, write
from tests.oracle import Iteration, Trace, evaluate, trace


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
    around = ("i", "k", "j_2")
    assert Dependence("C", Kind.RAW, "S1", "S1", ("k",), False, around, ((0, 1, 0),)) in found.dependences
    assert Dependence("C", Kind.RAW, "S0", "S1", (), True, ("i",), ((0,),)) in found.dependences
    assert {d.array for d in found.dependences} == {"C"}, "A and B are only read"


def test_lu_is_carried_by_its_outer_loop() -> None:
    nest = lu()
    found = explain(Model(nest), nest.tree)
    assert found.parallel == ("j_2",)
    assert Dependence("A", Kind.RAW, "S2", "S1", ("i",), False, ("i",), None) in found.dependences


def test_anti_and_output_dependences_count() -> None:
    nest = time_stepped(read_offset=1)
    kinds = {d.kind: d.carried_by for d in dependences(Model(nest), nest.tree)}
    assert kinds[Kind.WAR] == ("t", "i")
    assert kinds[Kind.WAW] == ("t",)
    assert kinds[Kind.RAW] == ("t",)


def test_distances_are_those_from_a_write_to_its_uses_up_to_the_next() -> None:
    nest = time_stepped(read_offset=1)
    found = {d.kind: d.distances for d in dependences(Model(nest), nest.tree)}
    assert found == {Kind.RAW: ((1, -1),), Kind.WAR: ((0, 1),), Kind.WAW: ((1, 0),)}


def test_distances_follow_the_schedule() -> None:
    nest = time_stepped(read_offset=1)
    skewed = Loop("t", Loop("i", Leaf("S0", {"t": "t", "i": "i + 2*t"})))
    found = {d.kind: (d.loops, d.distances) for d in dependences(Model(nest), skewed)}
    assert found[Kind.RAW] == (("t", "i"), ((1, 1),))
    tiled = Loop("t", Loop("i_t", Loop("i", Leaf("S0", {"t": "t", "i": "i", "i_t": "floor(i/8)"}))))
    assert {d.kind: d.distances for d in dependences(Model(nest), tiled)}[Kind.WAR] == ((0, 0, 1), (0, 1, 1))


def test_distances_of_a_stencil_lead_from_loop_to_loop() -> None:
    nest = KernelProblem.load("jacobi-2d", "mini").nest
    found = {(d.source, d.sink, d.kind): d for d in dependences(Model(nest), nest.tree)}
    forward = found["S0", "S1", Kind.RAW]
    assert forward.loops == ("t", "i/i_2", "j/j_2")
    assert forward.distances == ((0, -1, 0), (0, 0, -1), (0, 0, 0), (0, 0, 1), (0, 1, 0))
    assert forward.to_json()["distances"][0] == [0, -1, 0]


@pytest.mark.parametrize("kernel", ["seidel-2d", "jacobi-1d", "floyd-warshall", "lu", "nussinov", "doitgen"])
def test_distances_agree_with_a_brute_force_search(kernel: str) -> None:
    nest = KernelProblem.load(kernel, "mini").nest
    found = trace(nest, dict.fromkeys(nest.parameters, 6))
    pairs = nearest_pairs(found)
    leaf = {leaf.statement: leaf for leaf in leaves(nest.tree)}

    def place(iteration: Iteration, along: tuple[str, ...]) -> tuple[int, ...]:
        values = leaf[iteration[0]].values
        own = (next(name for name in loop.split("/") if name in values) for loop in along)
        return tuple(evaluate(values[name], found.names(iteration)) for name in own)

    told = [d for d in dependences(Model(nest), nest.tree) if d.distances is not None]
    assert told
    for d in told:
        between = pairs[d.array, d.source, d.sink, d.kind]
        ends = [(place(source, d.loops), place(sink, d.loops)) for source, sink in between]
        assert d.distances == tuple(sorted({tuple(b - a for a, b in zip(*end, strict=True)) for end in ends})), d


def nearest_pairs(found: Trace) -> dict[tuple[str, str, str, Kind], set[tuple[Iteration, Iteration]]]:
    """All pairs of iterations that touch an element, one writing it, with no iteration between them that writes it."""
    users: dict[tuple[str, tuple[int, ...]], list[tuple[Iteration, bool]]] = defaultdict(list)
    for iteration in found.iterations:
        for name, element, is_write in found.touched[iteration]:
            users[name, element].append((iteration, is_write))
    pairs: dict[tuple[str, str, str, Kind], set[tuple[Iteration, Iteration]]] = defaultdict(set)
    for (name, _), touches in users.items():
        writers = list(dict.fromkeys(iteration for iteration, is_write in touches if is_write))
        order = {iteration: k for k, iteration in enumerate(dict.fromkeys(iteration for iteration, _ in touches))}
        for iteration, is_write in touches:
            before = [writer for writer in writers if order[writer] < order[iteration]]
            after = [writer for writer in writers if order[writer] > order[iteration]]
            if before:
                pairs[name, before[-1][0], iteration[0], Kind.WAW if is_write else Kind.RAW].add(
                    (before[-1], iteration)
                )
            if after and not is_write:
                pairs[name, iteration[0], after[0][0], Kind.WAR].add((iteration, after[0]))
    return pairs


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
