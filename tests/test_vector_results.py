"""Vector code gives what the original gives: as plain Python, compiled, on threads, judged and exported."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from kernels import catalog
from optimizer.codegen.backend import CodeOptions, FloatingPoint
from optimizer.codegen.export import ExportHeader, export_module
from optimizer.codegen.numba_source import NumbaBackend
from optimizer.errors import UserError
from optimizer.kernel_problem import KernelProblem
from optimizer.measure.bench import Bench, TimeLimits
from optimizer.measure.lane import TimingLane
from optimizer.measure.loading import plain_function
from optimizer.polyhedral.legality import Legal, judge
from optimizer.polyhedral.model import model_of
from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.schedule import apply_step, parse_schedule
from optimizer.polyhedral.steps.vectorize import Vectorize
from optimizer.polyhedral.tree import Node
from optimizer.verdict import Status
from tests.test_random_schedules import assert_same_bits, module_function, nest_named, run
from tests.test_vectorize import ONE, code, nest_of
from verifiers.equivalence import Equivalence

LANES = (2, 4, 8, 16)
SIZES = (19, 21, 18, 23, 20)
"""Of which only some are a multiple of some lanes."""


def inputs(name: str) -> dict[str, Any]:
    sizes = {key: SIZES[k % len(SIZES)] for k, key in enumerate(catalog.load(name).SIZES["mini"])}
    sizes |= {key: 3 for key in sizes if key in ("tsteps", "tmax")}
    return catalog.load(name).make_inputs(**sizes, rng=np.random.default_rng(5))


def vectorized(nest: Nest, tree: Node, lanes: int) -> tuple[Node, int]:
    """Every innermost loop that allows it with that many lanes."""
    count = 0
    for option in tuple(Vectorize.options(nest, tree)):
        after = apply_step(nest, tree, Vectorize(option.loop, lanes))
        if judge(model_of(nest), after).legal is Legal.YES:
            tree, count = after, count + 1
    return tree, count


KERNELS: dict[str, str] = {
    "atax": "",
    "bicg": "",
    "correlation": "",
    "deriche": "",
    "doitgen": "",
    "durbin": "",
    "fdtd-2d": "",
    "floyd-warshall": "split(j, at=k)",
    "gemm": "unroll_and_jam(k, 2)",
    "gemver": "interchange(i, j); reverse(i)",
    "gramschmidt": "",
    "heat-3d": "tile(k=16)",
    "jacobi-1d": "",
    "jacobi-2d": "tile(i=8, j=16)",
    "lcs": "skew(j_2, by=i_2); interchange(i_2, j_2)",
    "lu": "interchange(j_2, k_2)",
    "matmul": "interchange(j, k)",
    "matmul-float32": "interchange(j, k)",
    "mvt": "interchange(i, j)",
    "seidel-2d": "skew(i, by=t); skew(j, by=t); skew(j, by=i); skew(j, by=i); interchange(i, j)",
    "syr2k": "",
    "trmm": "distribute(j); interchange(k, j)",
}
"""Kernel -> what is done before its innermost loops are vectorized."""


COMPILED = ("bicg", "floyd-warshall", "gemm", "gramschmidt", "jacobi-2d", "lu", "matmul-float32", "seidel-2d")
"""Of these one width is compiled in each ordinary test run; every kernel with every width takes minutes."""
USUAL_LANES = {name: LANES[place % len(LANES)] for place, name in enumerate(KERNELS)}


def every_width(kernels: Collection[str]) -> pytest.MarkDecorator:
    """All kernels with vectors of all lengths, of which some kernels with one are not long."""
    usual = {(name, USUAL_LANES[name]) for name in kernels}
    cases = [(name, lanes) for name in KERNELS for lanes in LANES]
    marked = [pytest.param(*case, marks=[] if case in usual else [pytest.mark.long]) for case in cases]
    return pytest.mark.parametrize(("name", "lanes"), marked)


def vector_source(name: str, lanes: int) -> str:
    nest = nest_named(name)
    tree, count = vectorized(nest, parse_schedule(KERNELS[name]).apply(nest), lanes)
    assert count > 0
    assert judge(model_of(nest), tree).legal is Legal.YES
    return code(nest, tree)


@every_width(KERNELS)
def test_vectors_give_the_bits_of_the_original_as_plain_python(name: str, lanes: int) -> None:
    nest = nest_named(name)
    expected = run(module_function(nest.original, nest.name), inputs(name))
    source = vector_source(name, lanes)
    assert_same_bits(run(plain_function(source, "candidate", nest.name), inputs(name)), expected, name)


@every_width(COMPILED)
def test_compiled_vectors_give_the_bits_of_the_original(name: str, lanes: int) -> None:
    nest = nest_named(name)
    expected = run(numba.njit(module_function(nest.original, nest.name), error_model="numpy"), inputs(name))
    function = module_function(vector_source(name, lanes), nest.name)
    assert_same_bits(run(function, inputs(name)), expected, f"{name} with {lanes} lanes")


def test_vectors_on_threads() -> None:
    nest = nest_named("gemver")
    expected = run(module_function(nest.original, nest.name), inputs("gemver"))
    tree, _ = vectorized(nest, parse_schedule("parallel(i); parallel(i_3)").apply(nest), 4)
    function = module_function(code(nest, tree), nest.name)
    before = numba.get_num_threads()
    try:
        for threads in (1, numba.config.NUMBA_NUM_THREADS):
            numba.set_num_threads(threads)
            for _ in range(5):
                assert_same_bits(run(function, inputs("gemver")), expected, f"{threads} threads")
    finally:
        numba.set_num_threads(before)


def strided(array: np.ndarray) -> np.ndarray:
    """The same elements, neither contiguous nor in one direction."""
    place = np.zeros(tuple(2 * extent for extent in array.shape), array.dtype)
    view = place[tuple(slice(None, None, -2) for _ in array.shape)]
    view[...] = array
    return view


@pytest.mark.parametrize(("name", "layout"), [("gemver", strided), ("gemver", np.asfortranarray), ("lcs", strided)])
def test_arrays_that_are_not_contiguous(name: str, layout: Any) -> None:
    nest = nest_named(name)
    expected = run(numba.njit(module_function(nest.original, nest.name), error_model="numpy"), inputs(name))
    arguments = {k: layout(v) if isinstance(v, np.ndarray) else v for k, v in inputs(name).items()}
    got = run(module_function(vector_source(name, 4), nest.name), arguments)
    for key, value in expected.items():
        np.testing.assert_array_equal(got[key], value)


CHOOSING = """
def kernel(n: int, lower: float, a: Float64[np.ndarray, "n"], b: Float64[np.ndarray, "n"]) -> None:
    for j in range(n):
        t = max(a[j], lower, b[j])
        a[j] = math.sqrt(abs(t)) if a[j] < b[j] <= 2.0 and not b[j] == 0.5 or a[j] != a[j] else min(0.5, -t) / b[j]
"""


def test_choices_extremes_and_special_values(tmp_path: Path) -> None:
    nest = nest_of(tmp_path, CHOOSING)
    source = code(nest, parse_schedule("vectorize(j, 4)").apply(nest))
    assert "t_vector = maximum(maximum(load(a, j, 4), lower), load(b, j, 4))" in source
    rng = np.random.default_rng(1)
    special = [0.0, -0.0, 0.5, 2.0, np.inf, -np.inf, np.nan, 1e308, 5e-324]
    original = numba.njit(module_function(nest.original, nest.name), error_model="numpy")
    compiled, plain = module_function(source, nest.name), plain_function(source, "candidate", nest.name)
    for _ in range(20):
        a, b = rng.choice(special, 31), rng.choice(special, 31)
        results = [a.copy(), a.copy(), a.copy()]
        with np.errstate(all="ignore"):
            for function, result in zip((original, compiled, plain), results, strict=True):
                function(31, -1.0, result, b)
        for result in results[1:]:
            np.testing.assert_array_equal(np.signbit(result), np.signbit(results[0]))
            np.testing.assert_array_equal(result, results[0])


@pytest.mark.parametrize("fp", FloatingPoint)
def test_every_precision_compiles(fp: FloatingPoint) -> None:
    nest = nest_named("jacobi-1d")
    tree, _ = vectorized(nest, nest.tree, 4)
    expected = run(module_function(nest.original, nest.name), inputs("jacobi-1d"))
    got = run(module_function(NumbaBackend().source(nest, tree, CodeOptions(fp)), nest.name), inputs("jacobi-1d"))
    np.testing.assert_allclose(got["A"], expected["A"], rtol=1e-13)


# The stand-alone module.

HEADER = ExportHeader("vectorize(j, 4)", "a machine", {}, "never", "none", "2026-01-01")
NAMES = """
def kernel(n: int, load: Float64[np.ndarray, "n"], store: Float64[np.ndarray, "n"], value: float) -> None:
    for j in range(n):
        store[j] = load[j] * value + store[j]
"""


def test_an_exported_module_stands_alone(tmp_path: Path) -> None:
    nest = nest_of(tmp_path, NAMES)
    text = export_module(nest, parse_schedule("vectorize(j, 4)").apply(nest), CodeOptions(FloatingPoint.STRICT), HEADER)
    assert "store_2(store, j, load_2(load, j, 4) * value + load_2(store, j, 4))" in text
    assert "optimizer" not in text
    assert "def gather" not in text, "only what is needed"
    file = tmp_path / "exported.py"
    file.write_text(text, encoding="utf-8")
    finished = subprocess.run([sys.executable, "-I", file], capture_output=True, text=True, timeout=120, cwd=tmp_path)
    assert finished.returncode == 0, finished.stderr
    assert "agrees with the original" in finished.stdout


def test_a_file_that_uses_a_name_of_the_exported_vectors_is_refused(tmp_path: Path) -> None:
    text = f"types = 2.0\n\ndef kernel({ONE}) -> None:\n    for j in range(n):\n        a[j] = b[j] * types\n"
    nest = nest_of(tmp_path, text)
    tree = parse_schedule("vectorize(j, 4)").apply(nest)
    assert "types" in code(nest, tree)
    with pytest.raises(UserError, match="defines types, which it needs itself"):
        export_module(nest, tree, CodeOptions(), HEADER)


# The whole check.


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    directory = tmp_path_factory.mktemp("bench")
    with Bench(directory, threads=2, limits=TimeLimits(), lane=TimingLane(directory / "lane")) as bench:
        yield bench


MIXED = """
def kernel(
    n: int,
    m: int,
    factor: float,
    A: Float32[np.ndarray, "n m"],
    x: Float32[np.ndarray, "m"],
    y: Float64[np.ndarray, "m"],
) -> None:
    for i in range(n):
        for j in range(m):
            lower = min(x[j], 0.1)
            third = 0.3
            A[i, j] = A[i, j] * factor + lower * third - abs(x[j]) / 3.0 if x[j] < 0.7 else lower * y[j]
"""
"""Numbers of three precisions, and constants that take the type of what they meet."""


LONG = pytest.mark.long


@pytest.mark.parametrize(
    "schedule",
    [
        "vectorize(j)",
        pytest.param("parallel(i); vectorize(j, 4)", marks=LONG),
        pytest.param("vectorize(j, 16)", marks=LONG),
    ],
)
def test_numbers_of_several_precisions_pass_every_check(tmp_path: Path, bench: Bench, schedule: str) -> None:
    nest_of(tmp_path, MIXED)
    problem = KernelProblem.load(f"{tmp_path / 'kernel.py'}:kernel", "n=40,m=50", fp="strict", threads=2)
    verdict = Equivalence(bench, repeats=3).verify(problem, problem.parse(schedule))
    assert verdict.status is Status.OK, verdict
    assert verdict.assurance.startswith("bit-exact on ")


@pytest.mark.parametrize(
    ("name", "schedule", "fp"),
    [
        ("matmul-float32", "interchange(j, k); tile(i=8, j=16); vectorize(j)", "contract"),
        pytest.param("matmul-float32", "interchange(j, k); parallel(i); vectorize(j)", "strict", marks=LONG),
        pytest.param("jacobi-2d", "parallel(i); vectorize(j, 4); vectorize(j_2, 2)", "strict", marks=LONG),
    ],
)
def test_vectors_pass_every_check(bench: Bench, name: str, schedule: str, fp: str) -> None:
    problem = KernelProblem.load(name, "mini", fp=fp, threads=2)
    verdict = Equivalence(bench, repeats=3).verify(problem, problem.parse(schedule))
    assert verdict.status is Status.OK, verdict


@pytest.mark.parametrize(
    ("name", "schedule", "found"),
    [
        ("seidel-2d", "vectorize(j, 4)", "as plain Python"),
        ("mvt", "interchange(i, j); parallel(j); vectorize(i, 2)", "of a parallel loop reads x1"),
    ],
)
def test_vectors_past_the_proof_fail_the_check(bench: Bench, name: str, schedule: str, found: str) -> None:
    problem = KernelProblem.load(name, "mini", fp="strict", threads=2)
    candidate = problem.parse(schedule)
    assert problem.judge(candidate).legal is Legal.NO
    verdict = Equivalence(bench).verify(problem, candidate)
    assert verdict.status is Status.REJECTED
    assert found in verdict.detail
