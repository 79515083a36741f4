"""Reductions in any order: which statements are some, when a loop may have partial results, and its code."""

from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optimizer.codegen.backend import CodeOptions, FloatingPoint
from optimizer.codegen.export import ExportHeader, export_module
from optimizer.codegen.numba_source import NumbaBackend
from optimizer.errors import CandidateError, StepError
from optimizer.kernel_problem import KernelProblem
from optimizer.measure.commands import Form
from optimizer.measure.loading import plain_function
from optimizer.polyhedral.frontend import nest_of_source
from optimizer.polyhedral.legality import Legal, judge
from optimizer.polyhedral.model import Model
from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.reductions import free_reduction, reduction_of
from optimizer.polyhedral.repair import repair
from optimizer.polyhedral.schedule import parse_schedule
from optimizer.polyhedral.witness import Fault
from tests import oracle
from tests.vector_units import lanes_of_doubles

HEAD = """
import numpy as np
from jaxtyping import Float32, Float64, Int32, Int64

"""
ARRAYS = 'n: int, x: Float64[np.ndarray, "n"], a: Float64[np.ndarray, "n"], k: Int64[np.ndarray, "n"], '
ARRAYS += 'h: Int32[np.ndarray, "n"], f: Float32[np.ndarray, "n"]'


def nest_from(body: str, signature: str = ARRAYS) -> Nest:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return nest_of_source(f"{HEAD}\ndef kernel({signature}) -> None:\n{lines}", None, "example.py")


def loop_over(statement: str) -> Nest:
    return nest_from(f"for i in range(n):\n    for j in range(n):\n        {statement}")


@pytest.mark.parametrize(
    ("statement", "value"),
    [
        ("x[i] += a[j]", "+ a[j]"),
        ("x[i] -= a[j] * a[i]", "- a[j] * a[i]"),
        ("x[i] *= a[j]", "* a[j]"),
        ("x[i] = a[j] + x[i]", "+ a[j]"),
        ("x[i] = x[i] - a[j] + 2.0 * a[i]", "+ -a[j] + 2.0 * a[i]"),
        ("x[i] = 2.0 * x[i] * a[j]", "* 2.0 * a[j]"),
        ("x[i] = min(x[i], a[j])", "min a[j]"),
        ("x[i] = max(x[i], abs(a[j]))", "max abs(a[j])"),
        ("x[i] += a[j] * x[j]", "+ a[j] * x[j]"),
        ("x[i] /= a[j]", None),
        ("x[i] = a[j] - x[i]", None),
        ("x[i] = x[i] + x[i]", None),
        ("x[i] += a[j] * x[i]", None),
        ("x[i] += a[j] * x[i + 0]", None),
        ("x[i] = min(a[j], x[i])", None),
        ("x[i] = max(x[i], a[j], 0.0)", None),
        ("x[i] = a[j]", None),
    ],
)
def test_which_statements_reduce(statement: str, value: str | None) -> None:
    nest = loop_over(statement)
    found = reduction_of(nest, nest.statements[0])
    text = found and f"{'-' if found.is_subtracted else found.operator} {found.value}"
    assert text == value
    assert found is None or (found.element, found.array) == ("x[i]", "x")
    assert free_reduction(nest, nest.statements[0]) is None
    assert free_reduction(replace(nest, reassociates=True), nest.statements[0]) == found


@pytest.mark.parametrize(
    ("statement", "is_free"),
    [
        ("k[i] += k[j] * h[j] - 3", True),
        ("h[i] -= k[j]", True),
        ("h[i] *= h[j]", True),
        ("k[i] = max(k[i], k[j])", True),
        ("k[i] += j", True),
        ("k[i] += a[j]", False),
        ("h[i] = min(h[i], k[j])", False),
        ("k[i] = min(k[i], k[j] + 1)", False),
        ("f[i] += f[j]", False),
    ],
)
def test_whole_numbers_are_free_where_nothing_is_cut_off(statement: str, is_free: bool) -> None:
    nest = loop_over(statement)
    assert (free_reduction(nest, nest.statements[0]) is not None) is is_free


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("x[i] += a[j]", "S0 (line 9) is reduced in j, but the order in which it is rounded is only free with"),
        ("k[i] += a[j]", "what it combines does not always stay within whole numbers of that type"),
        ("x[j] += a[i]", "no statement in j adds to an element that j does not move"),
    ],
)
def test_refusals(statement: str, reason: str) -> None:
    with pytest.raises(StepError) as caught:
        parse_schedule("reduce(j)").apply(loop_over(statement))
    assert reason in str(caught.value)


def test_refusals_of_numbers_and_of_marks() -> None:
    nest = replace(loop_over("x[i] += a[j]"), reassociates=True)
    with pytest.raises(StepError, match="from 2 to 256 partial results, not 1"):
        parse_schedule("reduce(j, 1)")
    with pytest.raises(StepError, match="marked like that already"):
        parse_schedule("reduce(j, 4); reduce(j, 4)").apply(nest)


DOT = nest_from("for i in range(n):\n    x[i] = 0.0\n    for j in range(n):\n        x[i] += a[j] * x[j]")
SEEN = nest_from("for j in range(n):\n    x[0] += a[j]\n    a[j] = x[0]")
COUNTS = nest_from("for i in range(n):\n    for j in range(n):\n        k[j // 2] += 1")
LAST = nest_from("for j in range(n):\n    x[0] += a[j]\n    if j == n - 1:\n        f[0] = x[0]")
BOTH = nest_from("for j in range(n):\n    x[0] += a[j]\n    x[0] -= f[j]\n    x[0] *= 2.0")
LATER = nest_from("for j in range(n):\n    x[0] += a[j]\nfor i in range(n):\n    a[i] = x[0]")
VERDICTS: list[tuple[Nest, str, Fault | None]] = [
    (LATER, "reduce(j); parallel(j)", None),
    (LATER, "reduce(j); vectorize(j)", None),
    (LATER, "reduce(j); reverse(j)", None),
    (LATER, "reverse(j)", Fault.ORDER),
    (LATER, "parallel(j)", Fault.RACE),
    (LATER, "vectorize(j)", Fault.LANES),
    (LATER, "reduce(j); tile(j=4); parallel(j_t)", Fault.RACE),
    (LATER, "tile(j=4); reduce(j_t); parallel(j_t)", None),
    (LATER, "tile(j=4); reduce(j); reverse(j_t)", Fault.ORDER),
    (DOT, "reduce(j); vectorize(j)", Fault.LANES),
    (LAST, "reduce(j); vectorize(j)", Fault.PARTIAL),
    (LAST, "reduce(j); parallel(j)", Fault.RACE),
    (LAST, "split(j, at=n-1); reduce(j); vectorize(j)", None),
    (SEEN, "reduce(j); parallel(j)", Fault.RACE),
    (SEEN, "reduce(j); vectorize(j)", Fault.LANES),
    (SEEN, "reduce(j)", None),
    (BOTH, "reduce(j); parallel(j)", Fault.RACE),
    (COUNTS, "reduce(i); parallel(i)", None),
    (COUNTS, "parallel(i)", Fault.RACE),
    (COUNTS, "reduce(j); interchange(i, j); parallel(j)", None),
    (COUNTS, "reduce(i); interchange(i, j)", Fault.ORDER),
    (COUNTS, "reduce(j); vectorize(j)", Fault.LANES),
]


@pytest.mark.parametrize(("nest", "text", "fault"), VERDICTS, ids=[text for _, text, _ in VERDICTS])
def test_verdicts(nest: Nest, text: str, fault: Fault | None) -> None:
    nest = replace(nest, reassociates=True)
    tree = parse_schedule(text).apply(nest)
    run = oracle.trace(nest, {"n": 5})
    judgement = judge(Model(nest), tree)
    assert judgement.legal is (Legal.NO if fault else Legal.YES)
    assert oracle.is_legal(run, tree) is (fault is None)
    if fault:
        assert judgement.witness is not None
        assert judgement.witness.fault is fault
        assert oracle.is_violated(nest, tree, judgement.witness)


def test_lanes_that_share_a_moving_element_are_refused_in_either_direction() -> None:
    """The mark lets the loop run backward, and what runs at once is then broken the other way round."""
    nest = nest_from("for j in range(n):\n    k[j // 2] += 1\n    k[0] += 1")
    for text in ("reduce(j); vectorize(j)", "reduce(j); reverse(j); vectorize(j)"):
        tree = parse_schedule(text).apply(nest)
        assert judge(Model(nest), tree).legal is Legal.NO
        assert not oracle.is_legal(oracle.trace(nest, {"n": 5}), tree)


def test_repair_reduces_where_that_is_all_that_is_in_the_way() -> None:
    nest = replace(LATER, reassociates=True)
    for text in ("parallel(j)", "vectorize(j)", "reverse(j)"):
        schedule = parse_schedule(text)
        judgement = judge(Model(nest), schedule.apply(nest))
        assert str(repair(Model(nest), schedule, judgement)) == f"{text}; reduce(j)"


def over(bounds: str, *statements: str) -> str:
    """Statements in two loops, the inner one with these bounds."""
    inside = "".join(f"        {statement}\n" for statement in statements)
    return f"for i in range(n):\n    for j in range({bounds}):\n{inside}"


SCALAR = "for i in range(n):\n    s = 1.0\n    for j in range(n):\n        s {} a[j]\n    x[i] = s"
SEVERAL = over("n", "x[0] += a[j]", "x[0] -= f[j]", "k[j] += 2")
CODES = [
    (over("n", "x[0] += a[j] * f[i]"), "reduce(j); vectorize(j)"),
    (over("n", "x[0] += a[j] * f[i]"), "reduce(i, 3); parallel(i)"),
    (over("n", "x[0] += a[j] * f[i]"), "reduce(j, 2); parallel(j)"),
    (over("n", "x[0] += a[j] * f[i]"), "reduce(i, 3); parallel(i); reduce(j, 2); vectorize(j)"),
    (over("i", "x[j] -= a[j] * f[i]"), "reduce(i, 3); parallel(i)"),
    (over("i", "x[i] -= a[j] * f[i]"), "reduce(j); vectorize(j)"),
    (over("n", "x[i] -= a[j]"), "unroll_and_jam(i, 3); reduce(j); vectorize(j)"),
    (over("n", "f[i] += a[j] * a[n - 1]"), "reduce(j); parallel(j)"),
    (over("n - 1, -1, -1", "f[i] += a[j]"), "reduce(j); vectorize(j)"),
    (over("n", "h[i] += k[j] - 1"), "reduce(j); vectorize(j)"),
    (over("n", "h[j] *= k[i]"), "reduce(i, 4); parallel(i); vectorize(j)"),
    (over("1, n", "k[0] = max(k[0], k[j])"), "reduce(i); parallel(i)"),
    (over("1, n", "k[0] = max(k[0], k[j])"), "reduce(j); vectorize(j)"),
    (over("n", "x[i] = min(x[i], a[j])"), "reduce(j, 2); vectorize(j)"),
    (over("n", "x[i] = a[j] * x[i]"), "reduce(j, 2); vectorize(j)"),
    (over("n", "k[j // 2] += 1 + i"), "reduce(j); interchange(i, j); parallel(j)"),
    (SCALAR.format("+="), "reduce(j); vectorize(j)"),
    (SCALAR.format("*="), "reduce(j); parallel(j)"),
    (SEVERAL, "reduce(j); vectorize(j)"),
    (SEVERAL, "reduce(j, 2); parallel(j)"),
    (SEVERAL, "split(j, at=3); reduce(j); reduce(j_2, 2); parallel(j); vectorize(j_2)"),
    (
        over("n", "x[j] += a[i]"),
        "tile(i=2); reduce(i_t, 3); parallel(i_t); interchange(i, j); reduce(i, 2); vectorize(i, 2)",
    ),
]


def arguments(n: int) -> dict[str, Any]:
    rng = np.random.default_rng(7)
    floats, wholes = rng.uniform(-1, 1, (3, n)), rng.integers(-3, 4, (2, n))
    return {
        "n": n,
        "x": floats[0].copy(),
        "a": floats[1].copy(),
        "k": wholes[0].copy(),
        "h": wholes[1].astype(np.int32),
        "f": floats[2].astype(np.float32),
    }


def assert_close(got: dict[str, Any], expected: dict[str, Any], what: str) -> None:
    """Whole numbers to the bit, others but for their rounding."""
    for name, value in expected.items():
        if isinstance(value, np.ndarray):
            tolerance = {"float64": 1e-12, "float32": 2e-4}.get(str(value.dtype), 0.0)
            scale = float(np.abs(value).max(initial=1.0)) if tolerance else 0.0
            wrong = np.abs(got[name] - value) > tolerance * scale if tolerance else got[name] != value
            assert not wrong.any(), f"{what}: {name}"


@pytest.mark.parametrize(
    ("body", "text"), CODES, ids=[f"{body.split('    ')[-1].strip()} {text}" for body, text in CODES]
)
def test_code_gives_the_results_of_the_original(body: str, text: str) -> None:
    nest = replace(nest_from(body), reassociates=True)
    tree = parse_schedule(text).apply(nest)
    assert judge(Model(nest), tree).legal is Legal.YES
    with lanes_of_doubles(2):
        source = NumbaBackend().source(nest, tree, CodeOptions(FloatingPoint.REASSOCIATE))
    assert "_part" in source or "_lanes = " in source
    assert ("Not vectorized" in source) is ("jam" in text), "but for what is left over of several rows"
    for form in (Form.WATCHED, Form.BACKWARD) if "prange" in source else (Form.PLAIN,):
        for n in (0, 1, 2, 3, 5, 8, 13):
            expected, got = arguments(n), arguments(n)
            with np.errstate(all="ignore"):
                plain_function(nest.original, "original", nest.name, Form.PLAIN)(*expected.values())
                plain_function(source, "candidate", nest.name, form)(*got.values())
            assert_close(got, expected, f"{text} at {n}, {form}")


def test_partial_results_take_no_more_than_the_largest_argument() -> None:
    problem = KernelProblem.load("gemm", "large", fp="reassociate", threads=2)
    candidate = problem.parse("distribute(i); reduce(k, 200); interchange(i_2, k); parallel(k)")
    assert problem.judge(candidate).legal is Legal.YES
    with pytest.raises(CandidateError, match="the partial results C_part would take 1760 MB, more than the largest"):
        problem.code(candidate)


def test_another_precision_is_named_where_it_would_do() -> None:
    problem = KernelProblem.load("atax", "mini", threads=2)
    assert problem.freer(problem.parse("vectorize(j)")) == "reduce(j)"
    assert problem.freer(problem.parse("reverse(j)")) == "reduce(j)"
    assert problem.freer(problem.parse("parallel(i_2)")) == "reduce(i_2)"
    assert problem.freer(problem.parse("distribute(i_2)")) == "", "it is legal as it is"


def test_templates_reduce_on_threads_where_that_is_free() -> None:
    free = KernelProblem.load("atax", "large", fp="reassociate", threads=2)
    assert any("reduce(i_2_t, 2); parallel(i_2_t)" in str(schedule) for schedule in free.templates())
    bound = KernelProblem.load("atax", "large", threads=2)
    assert not any("reduce" in str(schedule) for schedule in bound.templates())


HEADER = ExportHeader("", "here", {}, "not measured", "proved", "2026-11-30")
LOOPS = ("j", "j_2", "j_3", "j_4", "j_5")
EVERYTHING = """\
for i in range(n):
    for j in range(n):
        x[0] += a[j] * a[i]
for j in range(n):
    f[0] -= a[j]
for j in range(1, n):
    k[0] = max(k[0], k[j])
for j in range(n - 1, 0, -1):
    h[0] = min(h[0], h[j])
for j in range(2, n):
    x[1] *= 1.0 + x[j] * 0.01
"""


def test_compiled_code_gives_the_results_of_the_original(tmp_path: Path) -> None:
    """Each operator and each type; compiled once, with threads."""
    nest = replace(nest_from(EVERYTHING), reassociates=True)
    text = "reduce(i, 3); parallel(i); " + "; ".join(f"reduce({j}); vectorize({j}, 4)" for j in LOOPS)
    tree = parse_schedule(text).apply(nest)
    assert judge(Model(nest), tree).legal is Legal.YES
    source = export_module(nest, tree, CodeOptions(FloatingPoint.REASSOCIATE), HEADER)
    (tmp_path / "reduced.py").write_text(source)
    module = runpy.run_path(str(tmp_path / "reduced.py"), run_name="reduced")
    for n in (2, 3, 4, 9, 31, 64):
        expected, got = arguments(n), arguments(n)
        for values in (expected, got) if n == 9 else ():
            values["k"][:] = np.iinfo(np.int64).min
        plain_function(nest.original, "original", nest.name, Form.PLAIN)(*expected.values())
        module[nest.name](*got.values())
        assert_close(got, expected, f"at {n}")
