"""The benchmark of functions as people write them: what is compared, and what is said of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.people import FOLDER, Row, Subject, markdown, optimized, row_of, subjects
from benchmarks.side_by_side import Contestant, Form, side_by_side
from optimizer.budget import Limits

SOURCE = """\
import numpy as np
from jaxtyping import Float64

SIZES = {"n": 64, "m": 32}


def scaled(x: Float64[np.ndarray, "n"], A: Float64[np.ndarray, "n m"]) -> Float64[np.ndarray, "m"]:
    return x @ A * 2.0


def wrong(x: Float64[np.ndarray, "n"], A: Float64[np.ndarray, "n m"]) -> Float64[np.ndarray, "m"]:
    return x @ A * 2.0001


def unknown_to_numba(x: Float64[np.ndarray, "n"], A: Float64[np.ndarray, "n m"]) -> Float64[np.ndarray, "m"]:
    return np.einsum("i,ij->j", x, A) * 2.0
"""


def scaled(folder: Path) -> Subject:
    file = folder / "tiny.py"
    file.write_text(SOURCE, encoding="utf-8")
    return subjects(file)[0]


def test_all_functions_of_a_file_are_subjects() -> None:
    found = {s.label for file in FOLDER.glob("*.py") if file.stem != "__init__" for s in subjects(file)}
    assert {"statistics.covariance", "linear_algebra.gemm", "stencils.jacobi"} <= found
    assert len(found) >= 40


def test_only_what_computes_the_same_has_a_time(tmp_path: Path) -> None:
    subject = scaled(tmp_path)
    names = ("scaled", "scaled", "wrong", "unknown_to_numba")
    forms = (Form.NUMPY, Form.PARALLEL, Form.NUMPY, Form.NJIT)
    contestants = [Contestant(subject.file, name, form) for name, form in zip(names, forms, strict=True)]
    plain, parallel, wrong, unknown = side_by_side(contestants, subject.problem().workload("timing"), 2, seconds=0.1)
    assert len(plain.seconds) == len(parallel.seconds) >= 5
    assert wrong.seconds == unknown.seconds == ()
    assert "where the original gives" in wrong.failure
    assert "einsum" in unknown.failure


@pytest.mark.long
def test_a_function_is_optimized_and_compared(tmp_path: Path) -> None:
    subject = scaled(tmp_path)
    run, exported = optimized(subject, Limits(evaluations=2), tmp_path / "run", threads=2)
    row = row_of(subject, run, exported, window=0.2)
    assert (row.failure, row.comparison, row.evaluations) == ("", "parallel", 2)
    assert min(row.numpy_ms, row.numba_parallel_ms, row.ours_ms) > 0
    assert row.low <= row.speedup <= row.high


def test_a_failure_has_no_speedup() -> None:
    rows = [
        Row("a.fast", 4.0, 2.0, "parallel", 1.0, 2.0, 1.9, 2.1),
        Row("a.slow", 4.0, 2.0, "njit", 4.0, 0.5, 0.4, 0.6),
        Row("a.wrong", failure="the returned value is 1.0 where the original gives 2.0"),
    ]
    text = markdown(rows)
    assert text.index("a.wrong") < text.index("a.slow") < text.index("a.fast")
    assert "Geometric mean 1.00x over Numba" in text
    assert "1 of 3 surely faster, 1 above 1, 1 failed" in text
