"""The step `vectorize`: its text, what is legal, and its code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from optimizer.codegen import vector_unit
from optimizer.codegen.backend import CodeOptions, FloatingPoint
from optimizer.codegen.numba_source import NumbaBackend, module_parts
from optimizer.errors import CandidateError, StepError
from optimizer.polyhedral.frontend import nest_of_file
from optimizer.polyhedral.legality import Legal, judge
from optimizer.polyhedral.model import Model
from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.repair import repair
from optimizer.polyhedral.schedule import parse_schedule
from optimizer.polyhedral.steps.vectorize import Vectorize
from optimizer.polyhedral.tree import Node, find_loop, inconsistencies
from optimizer.polyhedral.witness import Fault
from tests.hand_nests import gemm, lu
from tests.test_random_schedules import nest_named

HEAD = """
import math
import numpy as np
from jaxtyping import Float32, Float64, Int32, Int64, UInt8
"""


def nest_of(tmp_path: Path, text: str) -> Nest:
    file = tmp_path / "kernel.py"
    file.write_text(HEAD + text, encoding="utf-8")
    return nest_of_file(f"{file}:kernel")


def code(nest: Nest, tree: Node) -> str:
    return NumbaBackend().source(nest, tree, CodeOptions(FloatingPoint.STRICT))


def loop_code(nest: Nest, schedule: str) -> str:
    return module_parts(nest, parse_schedule(schedule).apply(nest), CodeOptions()).function


# The step.


@pytest.mark.parametrize("text", ["vectorize(j)", "vectorize(j, 4)"])
def test_the_text_is_read_and_written(text: str) -> None:
    schedule = parse_schedule(text)
    assert str(schedule) == text
    loop = find_loop(schedule.apply(gemm()), "j")
    assert loop is not None
    assert loop.vector == (4 if "4" in text else 0)


@pytest.mark.parametrize(
    ("make", "text", "message", "near"),
    [
        (gemm, "vectorize(k)", "k is not innermost, j_2 is inside it", ("vectorize(j_2)",)),
        (gemm, "vectorize(i, 4)", "i is not innermost, j is inside it", ("vectorize(j, 4)", "vectorize(j_2, 4)")),
        (gemm, "vectorize(j, 3)", "vectorize takes 2, 4, 8 or 16 lanes, not 3", ("vectorize(j)",)),
        (gemm, "vectorize(j, 1)", "vectorize takes 2, 4, 8 or 16 lanes, not 1", ("vectorize(j)",)),
        (gemm, "vectorize(x)", "there is no loop x; the loops are i, j, k, j_2", ()),
        (gemm, "vectorize(j); vectorize(j)", "j is vectorized like that already", ()),
        (gemm, "parallel(j); vectorize(j)", "j is parallel, so it cannot be vectorized", ()),
        (gemm, "unroll(j, 2); vectorize(j)", "j is unrolled, so it cannot be vectorized", ()),
        (gemm, "vectorize(j); parallel(j)", "j is vectorized, so it cannot be parallel", ()),
        (gemm, "vectorize(j); unroll(j, 2)", "j is vectorized, so it cannot be unrolled", ()),
        (lu, "vectorize(k, 2); fuse(k, k_2)", "k and k_2 are not neighbours", None),
        (
            gemm,
            "vectorize(j_2); interchange(k, j_2)",
            "j_2 is vectorized, and k would be inside it: vectorize when it is innermost",
            (),
        ),
    ],
)
def test_what_stands_in_the_way_is_said(make: Any, text: str, message: str, near: tuple[str, ...] | None) -> None:
    nest = make()
    with pytest.raises(StepError) as caught:
        parse_schedule(text).apply(nest)
    assert message in str(caught.value)
    if near is not None:
        assert caught.value.near == near


def test_options_are_the_innermost_loops_that_are_plain() -> None:
    nest = gemm()
    assert [str(option) for option in Vectorize.options(nest, nest.tree)] == ["vectorize(j)", "vectorize(j_2)"]
    tree = parse_schedule("unroll(j, 2); vectorize(j_2)").apply(nest)
    assert not list(Vectorize.options(nest, tree))
    assert inconsistencies(tree) == ()


def test_a_loop_around_a_jammed_one_is_an_option() -> None:
    nest = gemm()
    tree = parse_schedule("distribute(i); unroll_and_jam(i_2, 4)").apply(nest)
    assert "vectorize(j_2)" in [str(option) for option in Vectorize.options(nest, tree)]


@pytest.mark.parametrize(
    ("annotation", "body", "reason"),
    [
        ("Float64", "y[j] = math.sin(x[j])", "`math.sin(x[j])` in S0 has no vector form"),
        ("Float64", "y[j] = x[j] ** 2.5", "`x[j] ** 2.5` in S0 has no vector form"),
        ("Int64", "y[j] = x[j] // 3", "`x[j] // 3` in S0 has no vector form"),
        ("Int64", "y[j] %= 3", "has no vector form"),
        ("UInt8", "y[j] = x[j]", "S0 uses x, which is of type uint8"),
    ],
)
def test_a_body_without_vector_form_is_refused(tmp_path: Path, annotation: str, body: str, reason: str) -> None:
    arguments = f'n: int, x: {annotation}[np.ndarray, "n"], y: {annotation}[np.ndarray, "n"]'
    nest = nest_of(tmp_path, f"def kernel({arguments}) -> None:\n    for j in range(n):\n        {body}\n")
    assert not list(Vectorize.options(nest, nest.tree))
    with pytest.raises(StepError) as caught:
        parse_schedule("vectorize(j)").apply(nest)
    assert reason in str(caught.value)


# Legality.

ONE = 'n: int, a: Float64[np.ndarray, "n"], b: Float64[np.ndarray, "n"], c: Float64[np.ndarray, "n"]'

DISTANCES: list[tuple[str, dict[str, bool]]] = [
    ("for j in range(4, n):\n        a[j] = a[j - 4] + b[j]", {"": False, "8": False, "4": True, "2": True}),
    ("for j in range(16, n):\n        a[j] = a[j - 16] + b[j]", {"": True, "16": True, "8": True}),
    ("for j in range(15, n):\n        a[j] = a[j - 15] + b[j]", {"": False, "16": False, "8": True}),
    ("for j in range(n - 1):\n        a[j] = a[j + 1] + b[j]", {"": False, "2": False}),
    ("for j in range(1, n):\n        a[j] = b[j]\n        c[j] = a[j - 1]", {"": True, "2": True}),
    ("for j in range(1, n):\n        c[j] = a[j - 1]\n        a[j] = b[j]", {"": False, "2": False}),
    ("for j in range(n - 1):\n        c[j] = a[j + 1]\n        a[j] = b[j]", {"": True, "2": True}),
    ("for j in range(n - 1):\n        a[j] = b[j]\n        c[j] = a[j + 1]", {"": False, "2": False}),
    ("for j in range(n):\n        a[0] = b[j]", {"": False, "2": False}),
    ("for j in range(n):\n        a[j // 4] = b[j]", {"2": False}),
    ("for j in range(n):\n        a[n - 1 - j] = b[j]", {"": True}),
    ("for j in range(n):\n        t = a[j] * 2.0\n        b[j] = t + c[j]", {"": True}),
    ("t = 0.0\n    for j in range(n):\n        b[j] = t\n        t = a[j] * 2.0", {"": False, "2": False}),
]


@pytest.mark.parametrize(("body", "legal"), DISTANCES)
def test_iterations_of_one_vector_must_not_need_each_other(tmp_path: Path, body: str, legal: dict[str, bool]) -> None:
    nest = nest_of(tmp_path, f"def kernel({ONE}) -> None:\n    {body}\n")
    for lanes, expected in legal.items():
        tree = parse_schedule(f"vectorize(j, {lanes})" if lanes else "vectorize(j)").apply(nest)
        judgement = judge(Model(nest), tree)
        assert (judgement.legal is Legal.YES) == expected, f"{lanes or 'machine'}: {judgement}"
        if not expected:
            witness = judgement.witness
            assert witness is not None
            assert (witness.fault, witness.loop, witness.is_race) == (Fault.LANES, "j", False)
            distance = witness.sink_iteration["j"] - witness.source_iteration["j"]
            assert 0 < distance < int(lanes or 16)
            assert "as two lanes of one vector" in str(witness)


def test_the_repair_has_fewer_lanes_or_none(tmp_path: Path) -> None:
    near = nest_of(tmp_path, f"def kernel({ONE}) -> None:\n    {DISTANCES[0][0]}\n")
    for text, repaired in (("vectorize(j)", "vectorize(j, 4)"), ("vectorize(j, 8)", "vectorize(j, 4)")):
        schedule = parse_schedule(text)
        judgement = judge(Model(near), schedule.apply(near))
        assert str(repair(Model(near), schedule, judgement)) == repaired
    nest = gemm()
    schedule = parse_schedule("interchange(k, j_2); vectorize(k); parallel(i)")
    judgement = judge(Model(nest), schedule.apply(nest))
    assert judgement.legal is Legal.NO
    assert str(repair(Model(nest), schedule, judgement)) == "interchange(k, j_2); parallel(i)"


def test_a_later_step_does_not_keep_an_earlier_proof() -> None:
    """What is innermost and free at first need not be so at the end: the finished schedule is judged."""
    nest = nest_named("jacobi-1d")
    legal = parse_schedule("vectorize(i)").apply(nest)
    assert judge(Model(nest), legal).legal is Legal.YES
    skewed = parse_schedule("vectorize(i); vectorize(i_2, 2); shift(S1, i_2, 1)").apply(nest)
    fused = parse_schedule("vectorize(i, 4); vectorize(i_2, 4); fuse(i, i_2)").apply(nest)
    assert judge(Model(nest), skewed).legal is Legal.YES
    assert judge(Model(nest), fused).legal is Legal.NO


# Code.


def test_the_text_reads_like_the_source() -> None:
    text = loop_code(nest_named("gemver"), "vectorize(j, 4)")
    assert "store(A, (i, j), load(A, (i, j), 4) + u1[i] * load(v1, j, 4) + u2[i] * load(v2, j, 4))" in text
    assert "for j in range(j_rest, n, 4):\n            mask = lanes_between(j, j, n, 4)\n" in text
    assert "load_masked(A, (i, j), mask) + u1[i] * load_masked(v1, j, mask)" in text


def test_columns_are_gathered_and_scattered() -> None:
    nest = nest_named("gemver")
    text = loop_code(nest, "interchange(i, j); vectorize(i, 4)")
    assert "scatter(A, (i, j), (1, 0), gather(A, (i, j), (1, 0), 4)" in text
    assert "load(u1, i, 4) * v1[j]" in text
    assert "mask" not in text, "what is left over of columns runs one by one"
    assert "A[at(i), j] = A[at(i), j] + u1[at(i)] * v1[j]" in text


def test_a_loop_that_runs_downwards_has_its_lanes_upwards(tmp_path: Path) -> None:
    nest = nest_of(tmp_path, f"def kernel({ONE}) -> None:\n    for j in range(n - 1, -1, -1):\n        a[j] = b[j]\n")
    text = loop_code(nest, "vectorize(j, 4)")
    assert "store(a, j - 3, load(b, j - 3, 4))" in text
    assert "mask = lanes_between(j - 3, 0, j + 1, 4)" in text


def test_the_lanes_are_those_of_the_machine_and_the_type(monkeypatch: pytest.MonkeyPatch) -> None:
    import llvmlite.binding

    monkeypatch.setattr(vector_unit, "host_unit", vector_unit.host_unit.__wrapped__)
    for features, doubles in (({"avx512f": True, "avx": True}, 8), ({"avx": True, "avx512f": False}, 4), ({}, 2)):
        monkeypatch.setattr(llvmlite.binding, "get_host_cpu_features", lambda features=features: features)
        assert f"load(A, (i, j), {doubles})" in loop_code(nest_named("gemver"), "vectorize(j)")
        single = loop_code(nest_named("matmul-float32"), "interchange(j, k); vectorize(j)")
        assert f"load(B, (k, j), {2 * doubles})" in single


def test_a_part_that_has_no_vector_form_stays_scalar_and_says_why(tmp_path: Path) -> None:
    text = f"""
def kernel({ONE}) -> None:
    for j in range(n):
        a[j] = b[j]
        if j < 3:
            c[j] = b[j] * 2.0
"""
    nest = nest_of(tmp_path, text)
    whole = loop_code(nest, "vectorize(j, 4)")
    assert "store(a, j, load(b, j, 4))" in whole
    assert "# Not vectorized: it has at most 3 iterations, a vector 4 lanes." in whole


REFUSED = [
    ("a[j] = b[j] * j", "`j` is computed with, not only a subscript"),
    ("a[j] = b[j // 2]", "the subscript `j // 2` does not grow evenly"),
    ("a[j] = b[j] if n > 5 else c[j]", "the condition `n > 5` is the same in all lanes"),
    ("a[j] = b[j] if b[j] > 0.0 and n > 5 else c[j]", "the condition `n > 5` is the same in all lanes"),
    ("a[j] = b[j - 1] if j > 0 else 0.0", "is computed with, not only a subscript"),
    ("a[j] = 1.0 if b[j] > 0.0 else 0.0", "has no vector form"),
]


@pytest.mark.parametrize(("body", "reason"), REFUSED)
def test_code_that_would_have_no_vectors_at_all_is_refused(tmp_path: Path, body: str, reason: str) -> None:
    nest = nest_of(tmp_path, f"def kernel({ONE}) -> None:\n    for j in range(n):\n        {body}\n")
    tree = parse_schedule("vectorize(j, 4)").apply(nest)
    assert judge(Model(nest), tree).legal is Legal.YES
    with pytest.raises(CandidateError) as caught:
        code(nest, tree)
    assert "j cannot be vectorized" in str(caught.value)
    assert reason in str(caught.value)
