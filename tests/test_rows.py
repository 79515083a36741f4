"""Temporaries in loops over rows: each iteration has its own, as small as the schedule allows."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from optimizer.errors import CandidateError
from optimizer.kernel_problem import KernelProblem
from optimizer.measure.loading import plain_function
from optimizer.polyhedral.contraction import contraction
from optimizer.polyhedral.legality import Legal
from optimizer.polyhedral.nest import Array, Role
from tests.test_people import assert_near

SAME = Path(__file__).parent.parent / "benchmarks" / "same" / "layer_norm.py"
SPELLINGS = ("loops", "rows", "sums", "axis")
HEAD = "import numpy as np\nfrom jaxtyping import Float32, Float64\n\n\n"
TWO = 'X: Float64[np.ndarray, "n m"], Y: Float64[np.ndarray, "n m"]'
ROWS = {
    "layer norm": f"def f({TWO}) -> None:\n    for i in range(X.shape[0]):\n        d = X[i] - np.mean(X[i])\n"
    "        Y[i] = d / np.sqrt(np.mean(d * d) + 1e-5)\n",
    "softmax": f"def f({TWO}) -> None:\n    for i in range(X.shape[0]):\n        e = np.exp(X[i] - np.max(X[i]))\n"
    "        Y[i] = e / np.sum(e)\n",
    "inner columns": f"def f({TWO}) -> None:\n    for i in range(X.shape[0]):\n        e = np.exp(X[i, 1:])\n"
    "        Y[i, 1:] = e / np.sum(e)\n",
    "in place": f"def f({TWO}) -> None:\n    for i in range(X.shape[0]):\n        d = X[i] - Y[i, 0]\n"
    "        X[i] = 2.0 * d\n        Y[i] = d + X[i]\n",
    "neighbours": f"def f({TWO}) -> None:\n    for i in range(1, X.shape[0]):\n        d = X[i - 1] * 0.5\n"
    "        X[i] = X[i] - d\n        Y[i] = d * d\n",
}
INPUTS = [(1, 1), (1, 5), (5, 1), (3, 7), (9, 35), (17, 8)]


def problem(folder: Path, text: str) -> KernelProblem:
    file = folder / "example.py"
    file.write_text(HEAD + text, encoding="utf-8")
    return KernelProblem.load(f"{file}:f", {"n": 500, "m": 600}, threads=2)


def matrices(n: int, m: int) -> tuple[Any, Any]:
    random = np.random.default_rng(n * 100 + m)
    return random.standard_normal((n, m)), random.standard_normal((n, m))


@pytest.mark.parametrize("name", ROWS)
def test_rows_have_the_results_of_numpy(tmp_path: Path, name: str) -> None:
    kernel = problem(tmp_path, ROWS[name])
    original = plain_function(kernel.nest.original, "original.py", "f")
    done = 0
    for schedule in (kernel.baseline, *(kernel.parse(str(each)) for each in kernel.templates()[:6])):
        assert kernel.judge(schedule).legal is Legal.YES
        try:
            code = kernel.code(schedule)
        except CandidateError:
            continue
        generated = plain_function(code, "generated.py", "f")
        for n, m in INPUTS:
            mine, theirs = matrices(n, m), matrices(n, m)
            if name == "inner columns" and m == 1:
                continue
            generated(*mine)
            original(*theirs)
            for one, other in zip(mine, theirs, strict=True):
                assert_near(one, other, f"{schedule.text} at {n}, {m}")
        done += 1
    assert done >= 3


@pytest.mark.parametrize("name", ["layer norm", "softmax", "inner columns"])
def test_the_first_templates_give_rows_to_threads(tmp_path: Path, name: str) -> None:
    kernel = problem(tmp_path, ROWS[name])
    first = [kernel.parse(str(schedule)) for schedule in kernel.templates()[:3]]
    codes = [kernel.code(candidate) for candidate in first if kernel.has_code(candidate)]
    assert "prange(n)" in codes[0]
    assert "np.empty((n, m)" not in codes[0]
    assert any("sum_of_lanes" in code and "prange(n)" in code for code in codes)


def test_a_row_belongs_to_the_iteration_of_threads(tmp_path: Path) -> None:
    kernel = problem(tmp_path, ROWS["softmax"])
    code = kernel.code(kernel.parse("parallel(i)"))
    assert code.index("prange(n)") < code.index("e = np.empty(m)")
    tree = kernel.tree(kernel.parse("parallel(i)"))
    (row,) = [array for array in kernel.nest.arrays if array.name == "e"]
    found = contraction(kernel.nest, tree, row, 2)
    assert (found.left_out, found.owner) == ((0,), "i")
    apart = kernel.tree(kernel.parse("distribute(i)"))
    assert contraction(kernel.nest, apart, row, 2).left_out == ()


def test_what_one_iteration_leaves_for_the_next_is_shared(tmp_path: Path) -> None:
    """The first read of `d` sees what the iteration before has written, so that threads cannot have the rows."""
    text = (
        f"def f({TWO}) -> None:\n    d = X[0] * 1.0\n    for i in range(1, X.shape[0]):\n"
        "        Y[i] = d + X[i]\n        d[:] = np.exp(X[i] - d)\n"
    )
    kernel = problem(tmp_path, text)
    assert kernel.judge(kernel.parse("parallel(i)")).legal is not Legal.YES


def test_a_value_is_computed_again_only_where_it_is_the_same(tmp_path: Path) -> None:
    kept = problem(tmp_path, ROWS["in place"])
    assert any(array.name == "d" for array in kept.nest.arrays), "X is written between"
    cheap = problem(tmp_path, ROWS["layer norm"])
    assert not any(array.name == "d" for array in cheap.nest.arrays)
    assert any("(X[i, i_4] - sum / m) * (X[i, i_4] - sum / m)" in s.body for s in cheap.nest.statements)


def test_costly_values_are_kept(tmp_path: Path) -> None:
    kernel = problem(tmp_path, ROWS["softmax"])
    assert any(array.name == "e" and array.role is Role.SCALAR for array in kernel.nest.arrays)


def test_arrays_of_narrow_numbers_are_rows_too(tmp_path: Path) -> None:
    """They stay arrays, because a variable would not round: the memory is contracted all the same."""
    text = (
        'def f(X: Float32[np.ndarray, "n m"]):\n    E = np.exp(X - X.max(axis=1, keepdims=True))\n'
        "    return E / E.sum(axis=1, keepdims=True)\n"
    )
    kernel = problem(tmp_path, text)
    whole = [array for array in kernel.nest.arrays if _is_whole(array)]
    assert whole
    first = next(c for c in (kernel.parse(str(s)) for s in kernel.templates()) if kernel.has_code(c))
    code = kernel.code(first)
    assert code.count("np.empty((n, m)") == 1, "the result alone"
    function = plain_function(code, "generated.py", "f")
    original = plain_function(kernel.nest.original, "original.py", "f")
    for n, m in INPUTS:
        values = matrices(n, m)[0].astype(np.float32)
        assert_near(function(values), original(values), f"{first.text} at {n}, {m}")


def _is_whole(array: Array) -> bool:
    return array.role is Role.LOCAL and array.shape == ("n", "m") and not array.returned


@pytest.mark.parametrize("name", SPELLINGS)
def test_spellings_of_a_layer_norm_mean_the_same(name: str) -> None:
    plain = runpy.run_path(str(SAME))
    kernel = KernelProblem.load(f"{SAME}:{name}", plain["SIZES"], threads=2)
    code = next(kernel.code(kernel.parse(str(s))) for s in kernel.templates() if kernel.has_code(kernel.parse(str(s))))
    assert "np.empty((n, m)" not in code
    generated = plain_function(code, "generated.py", name)
    for n, m in INPUTS:
        X, out = matrices(n, m)
        g, b, expected = X[0] + 1.0, X[-1] - 1.0, out.copy()
        generated(X, g, b, out)
        plain["axis"](X, g, b, expected)
        assert_near(out, expected, f"{name} at {n}, {m}")


def test_a_schedule_that_keeps_the_temporaries_of_all_steps_is_refused(tmp_path: Path) -> None:
    """Each step has its own `d`; taken apart, the statements of a step would need those of all steps at once."""
    text = (
        'def f(steps: int, X: Float64[np.ndarray, "n"], Y: Float64[np.ndarray, "n"]) -> None:\n'
        "    for t in range(steps):\n        d = np.exp(X) * t\n        Y[:] = Y + d\n"
    )
    file = tmp_path / "example.py"
    file.write_text(HEAD + text, encoding="utf-8")
    kernel = KernelProblem.load(f"{file}:f", {"steps": 3000, "n": 20000}, threads=2)
    assert "np.empty(n)" in kernel.code(kernel.baseline)
    apart = kernel.parse("distribute(t)")
    assert kernel.judge(apart).legal is Legal.YES
    with pytest.raises(CandidateError, match="values of d would take 480 MB"):
        kernel.code(apart)
