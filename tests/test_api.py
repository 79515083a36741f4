"""The Python API, on tiny problems: everything that it does needs one real run."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import njit
from numpy.typing import NDArray

import optimizer
from optimizer.api import Result
from optimizer.budget import Limits
from optimizer.errors import UserError
from optimizer.plan import StopReason
from optimizer.run import resume

Matrix = NDArray[np.float64]


def multiply(C, A, B, alpha=1.0):
    for i in range(C.shape[0]):
        for j in range(C.shape[1]):
            for k in range(A.shape[1]):
                C[i, j] += alpha * A[i, k] * B[k, j]


@njit
def compiled(C, A, B):
    for i in range(C.shape[0]):
        for j in range(C.shape[1]):
            for k in range(A.shape[1]):
                C[i, j] += A[i, k] * B[k, j]


def matrices(n: int = 24) -> tuple[Matrix, Matrix, Matrix]:
    rng = np.random.default_rng(1)
    return np.zeros((n, n)), rng.uniform(size=(n, n)), rng.uniform(size=(n, n))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def result(home: Path) -> Result:
    """One real run, on one thread so that its module compiles quickly."""
    return optimizer.optimize(multiply, args=matrices(), budget=2, threads=1, fp="strict", run_dir=home / "run", seed=3)


def test_result_has_a_speedup_with_interval_and_assurance(result: Result) -> None:
    assert result.speedup >= 1.0
    assert result.interval[0] <= result.speedup <= result.interval[1]
    assert result.stop_reason is StopReason.BUDGET_EVALUATIONS
    assert len(result.trials) >= 3
    assert result.trials[0].candidate.text == ""
    assert result.run_dir.joinpath("journal.jsonl").is_file()
    if result.schedule:
        assert "proved" in result.assurance
        assert "bit-exact" in result.assurance


def test_function_computes_what_the_original_does(result: Result) -> None:
    (expected, a, b), (actual, _, _) = matrices(9), matrices(9)
    multiply(expected, a, b, 0.5)
    result.function(actual, a, b, 0.5)
    assert np.array_equal(expected, actual)


def test_export_stands_alone(result: Result, tmp_path: Path) -> None:
    path = result.export(tmp_path / "fast.py")
    assert path.read_text(encoding="utf-8") == result.source
    assert "optimizer" not in result.source
    done = subprocess.run([sys.executable, str(path)], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "agrees with the original" in done.stdout
    with pytest.raises(UserError, match="cannot write"):
        result.export(tmp_path / "missing" / "fast.py")


def test_html_is_a_small_table_without_open_markup(result: Result) -> None:
    shown = result._repr_html_()
    assert shown.startswith("<table>")
    assert f"{result.speedup:.2f}x" in shown
    assert "<script" not in shown


def test_the_run_resumes_from_its_folder_alone(result: Result) -> None:
    again = resume(result.run_dir)
    assert again.result.winner == result.run.result.winner
    assert [t.candidate for t in again.result.trials] == [t.candidate for t in result.trials]


def test_the_arguments_are_left_alone(home: Path) -> None:
    arguments = dict(zip("CAB", matrices(8), strict=True))
    before = {name: value.copy() for name, value in arguments.items()}
    found = optimizer.optimize(compiled, args=arguments, budget=Limits(evaluations=1), threads=1, run_dir=home / "left")
    assert found.speedup >= 1.0
    assert all(np.array_equal(before[name], arguments[name]) for name in before)


def refuse(message: str, function: Callable[..., Any] | str = multiply, **options: Any) -> None:
    with pytest.raises(UserError, match=message):
        optimizer.optimize(function, budget=1, **options)


def test_overlapping_arguments_are_refused() -> None:
    whole = np.ones((8, 8))
    refuse("C and A may overlap", args=(whole, whole, np.ones((8, 8))))
    refuse("C and B may overlap", args=(whole[:4], np.ones((4, 8)), whole[2:].T))


def test_wrong_arguments_are_refused() -> None:
    c, a, b = matrices(4)
    refuse("not both", args=(c, a, b), size={"n": 4})
    refuse("do not fit", args=(c, a))
    refuse("has no type")
    refuse("go with a function", "matmul", args=(c, a, b))
    refuse("no bundled kernel is called 'matmull'; did you mean matmul", "matmull")
    refuse("did you mean random", "matmul", size="mini", policy="randm")


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    refuse("run_dir", args=matrices(4), run_dir=tmp_path / "file" / "run")
