"""One pass over memory: statements over whole arrays that follow each other, fused; bytes moved as the model counts."""

from __future__ import annotations

import runpy
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optimizer.codegen.backend import CodeOptions, FloatingPoint
from optimizer.codegen.export import ExportHeader, export_module
from optimizer.errors import CandidateError, UserError
from optimizer.kernel_problem import KernelProblem
from optimizer.measure.loading import plain_function
from optimizer.polyhedral.private_arrays import model_for
from optimizer.polyhedral.templates import templates
from optimizer.polyhedral.templates.draft import Draft
from optimizer.polyhedral.templates.fuse import one_pass_orders
from optimizer.polyhedral.traffic import moved_bytes
from optimizer.polyhedral.tree import Loop, Sequence, leaves, loops
from tests.test_people import FOLDER, assert_near, inputs, module_of

HEAD = "import numpy as np\nfrom jaxtyping import Float32, Float64\n\n\n"
MATRIX = 'X: Float64[np.ndarray, "n m"]'
FUNCTIONS = {
    "distance": f'def f({MATRIX}, c: Float64[np.ndarray, "m"]):\n'
    "    d = X - c\n    e = d * d\n    return np.sqrt(np.sum(e, axis=1))\n",
    "chain": f'def f({MATRIX}, Y: Float64[np.ndarray, "n m"]):\n    d = X - Y\n    e = d * d\n'
    "    return e / (1.0 + e)\n",
    "normal rows": f"def f({MATRIX}):\n"
    "    mean = X.mean(axis=1, keepdims=True)\n    v = ((X - mean) ** 2).mean(axis=1, keepdims=True)\n"
    "    return (X - mean) / np.sqrt(v + 1e-5)\n",
    "normal columns": f"def f({MATRIX}) -> None:\n    X -= X.mean(axis=0)\n    X /= X.std(axis=0)\n",
    "soft rows": f"def f({MATRIX}):\n    E = np.exp(X - X.max(axis=1, keepdims=True))\n"
    "    return E / E.sum(axis=1, keepdims=True)\n",
    "moments": 'def f(x: Float64[np.ndarray, "n"]):\n'
    "    mean = np.mean(x)\n    d = x - mean\n    return np.mean(d * d), np.mean(d * d * d)\n",
    "range": f"def f({MATRIX}):\n    low, high = X.min(), X.max()\n    return np.log(1.0 + (X - low) / (high - low))\n",
    "power": f"def f({MATRIX}) -> None:\n    X[:] = np.tanh(X) ** 3 + np.maximum(X, 0.0) ** 2\n",
}
SIZES = {"n": 3000, "m": 2000}
MATRIX_BYTES = 8 * SIZES["n"] * SIZES["m"]


def problem(folder: Path, name: str, fp: str = "contract") -> KernelProblem:
    file = folder / "example.py"
    file.write_text(HEAD + FUNCTIONS[name], encoding="utf-8")
    sizes = {"n": SIZES["n"]} if name == "moments" else SIZES
    return KernelProblem.load(f"{file}:f", sizes, fp=fp, threads=2)


@pytest.mark.parametrize(
    ("name", "read", "written"),
    [("distance", 1, 0), ("chain", 2, 1), ("normal rows", 1, 1), ("normal columns", 1, 1), ("soft rows", 1, 1)],
)
def test_each_matrix_moves_once(tmp_path: Path, name: str, read: int, written: int) -> None:
    kernel = problem(tmp_path, name)
    first = templates(kernel.model, kernel.sizes, 2)[0]
    tree = first.apply(kernel.nest)
    moved = moved_bytes(model_for(kernel.model, tree), tree, kernel.sizes)
    before = moved_bytes(kernel.model, kernel.nest.tree, kernel.sizes)
    assert moved is not None
    assert before is not None
    assert abs(moved - (read + written) * MATRIX_BYTES) < 0.02 * MATRIX_BYTES, str(first)
    assert before >= moved + MATRIX_BYTES


def test_a_chain_of_statements_is_one_loop_without_an_array(tmp_path: Path) -> None:
    kernel = problem(tmp_path, "distance")
    first = kernel.templates()[0]
    tree = first.apply(kernel.nest)
    assert isinstance(tree, Loop)
    (inner,) = [loop for loop in loops(tree) if len(tuple(leaves(loop))) == 2 and not isinstance(loop.body, Loop)][-1:]
    assert isinstance(inner.body, Sequence)
    code = kernel.code(kernel.parse(str(first)))
    assert "d = np.empty" not in code
    assert "e = np.empty" not in code
    assert "prange" in code


def test_loops_that_run_over_other_values_stay_apart(tmp_path: Path) -> None:
    """The sum of a row is read by each of its elements, which are more than it is."""
    kernel = problem(tmp_path, "normal rows")
    orders = list(one_pass_orders([Draft(kernel.model, (), kernel.nest.tree)], kernel.sizes))
    assert orders
    for order, share in orders:
        assert share < 1.0
        for loop in loops(order.tree):
            if not any(loops(loop.body)):
                ranges = {len(kernel.nest.statement(leaf.statement).iterators) for leaf in leaves(loop)}
                assert len(ranges) == 1


@pytest.mark.parametrize("name", FUNCTIONS)
def test_plain_code_gives_what_numpy_gives(tmp_path: Path, name: str) -> None:
    kernel = problem(tmp_path, name)
    original = plain_function(kernel.nest.original, "original.py", "f")
    done = 0
    for schedule in kernel.templates()[:4]:
        try:
            code = kernel.code(kernel.parse(str(schedule)))
        except CandidateError:
            continue
        generated = plain_function(code, "generated.py", "f")
        for length in (1, 2, 9, 35):
            mine, theirs = (inputs(kernel.nest, length, list(SIZES)) for _ in "ab")
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                got, expected = generated(**mine), original(**theirs)
            for one, other in zip(_parts(got, mine), _parts(expected, theirs), strict=True):
                assert_near(np.asarray(one), np.asarray(other), f"{schedule} at {length}")
        done += 1
    assert done


def _parts(result: Any, arguments: dict[str, Any]) -> list[Any]:
    returned = list(result) if isinstance(result, tuple) else [result] if result is not None else []
    return [*returned, *(value for value in arguments.values() if isinstance(value, np.ndarray))]


def test_an_exported_module_computes_functions_by_itself(tmp_path: Path) -> None:
    kernel = problem(tmp_path, "soft rows")
    first = kernel.templates()[0]
    header = ExportHeader(str(first), "m", {}, "1x", "proved", "2026-01-01")
    text = export_module(kernel.nest, first.apply(kernel.nest), CodeOptions(), header)
    assert "from optimizer" not in text
    file = tmp_path / "fast.py"
    file.write_text(text, encoding="utf-8")
    function = runpy.run_path(str(file))["f"]
    X = np.random.default_rng(1).uniform(-30.0, 30.0, (13, 29))
    E = np.exp(X - X.max(axis=1, keepdims=True))
    np.testing.assert_allclose(function(X), E / E.sum(axis=1, keepdims=True), rtol=1e-13)


def test_strict_leaves_functions_to_the_library(tmp_path: Path) -> None:
    kernel = problem(tmp_path, "range", fp="strict")
    assert not kernel.nest.free_sums, "an extreme is no sum, and keeps its order here"
    for schedule in kernel.templates():
        candidate = kernel.parse(str(schedule))
        if kernel.has_code(candidate):
            assert " log(" not in kernel.code(candidate)
    with pytest.raises(UserError, match="adds up in an order of its own"):
        problem(tmp_path, "moments", fp="strict")


@pytest.mark.parametrize("name", ["jacobi", "heat_cube"])
def test_stencils_by_slices_are_offered_tiles_of_several_sweeps(name: str) -> None:
    sizes = {key: size for key, size in module_of("stencils").SIZES.items() if key in ("steps", "n", "m", "k")}
    spec = f"{FOLDER / 'stencils'}.py:{name}"
    wanted = ("steps", "k") if name == "heat_cube" else ("steps", "n", "m")
    kernel = KernelProblem.load(spec, {key: sizes[key] for key in wanted}, threads=2)
    assert any("wavefront" in str(schedule) and "vectorize" in str(schedule) for schedule in kernel.templates()[:3])
    assert kernel.fp is FloatingPoint.CONTRACT


@pytest.mark.parametrize("name", ["moments", "range"])
def test_threads_have_vectors_of_partial_results_of_one_number(tmp_path: Path, name: str) -> None:
    kernel = problem(tmp_path, name)
    first = kernel.templates()[0]
    code = kernel.code(kernel.parse(str(first)))
    assert "prange" in code
    assert "_of_lanes(" in code
