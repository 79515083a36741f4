"""The exported module stands alone: it runs, checks itself against the original and is already formatted."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from optimizer.codegen.backend import CodeOptions, FloatingPoint
from optimizer.codegen.export import ExportHeader, export_module
from optimizer.measure.loading import plain_function
from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.schedule import parse_schedule
from tests.hand_nests import gemm, lu, row_sum
from tests.test_codegen import with_everything

ROOT = Path(__file__).parent.parent


def exported(nest: Nest, schedule: str, fp: FloatingPoint = FloatingPoint.CONTRACT) -> str:
    header = ExportHeader(
        schedule=schedule,
        machine="Some Processor 9000, 2 cores",
        versions={"loopwright": "0.1.0", "python": "3.11", "numba": "0.61", "llvmlite": "0.44", "numpy": "2.0"},
        measured="2.31x (95% interval 2.20 to 2.40) over the original under serial Numba at large (ni=1000), 2 threads",
        assurance="proved legal for all sizes; within tolerance on 24 checks",
        date="2026-01-31",
    )
    return export_module(nest, parse_schedule(schedule).apply(nest), CodeOptions(fp), header)


def run(file: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", "-W", "error", file.name], cwd=file.parent, capture_output=True, text=True, check=False
    )


CASES = {
    "gemm": (gemm, "distribute(i); tile(i_2=8, k=8); parallel(i_2_t)", FloatingPoint.CONTRACT),
    "lu": (lu, "interchange(j_2, k_2); unroll(j_2, 4)", FloatingPoint.STRICT),
    "everything": (with_everything, "distribute(i); tile(j=4); unroll(i_2, 2)", FloatingPoint.REASSOCIATE),
}


@pytest.mark.parametrize("name", CASES)
def test_the_file_checks_itself(name: str, tmp_path: Path) -> None:
    make, schedule, fp = CASES[name]
    file = tmp_path / f"fast_{name}.py"
    file.write_text(exported(make(), schedule, fp), encoding="utf-8")
    result = run(file)
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"{name} agrees with the original at " in result.stdout
    assert "ms the original" in result.stdout


def test_a_wrong_file_says_so(tmp_path: Path) -> None:
    text = exported(lu(), "", FloatingPoint.STRICT).replace("A[i, j] /= A[j, j]", "A[i, j] /= 2.0 * A[j, j]", 1)
    file = tmp_path / "wrong.py"
    file.write_text(text, encoding="utf-8")
    result = run(file)
    assert result.returncode == 1
    assert "lu DIFFERS FROM the original at n=50" in result.stdout


def test_the_header_says_what_it_is() -> None:
    nest = gemm()
    head = exported(nest, "parallel(i)").split('"""')[1]
    for text in (
        nest.digest,
        "parallel(i)",
        "2.31x",
        "Some Processor 9000",
        "numba 0.61",
        "proved legal",
        "2026-01-31",
    ):
        assert text in head
    assert all(len(line) <= 120 for line in head.splitlines())


def test_a_quote_in_the_header_does_not_end_it() -> None:
    nest = row_sum()
    header = ExportHeader("", 'a """ machine \\', {"numba": "0.61"}, "1x", "tested", "2026-01-31")
    text = export_module(nest, nest.tree, CodeOptions(), header)
    assert callable(plain_function(text, "fast.py", "row_sum"))


def test_the_signature_is_the_originals() -> None:
    text = exported(with_everything(), "")
    assert "def everything(A, total, scale=2.0):" in text
    assert "def original_everything(A, total, scale=2.0):" in text
    assert 'error_model="numpy", cache=True)\ndef everything' in text


def test_sizes_for_the_check_satisfy_the_context() -> None:
    nest = replace(gemm(), context="[ni, nj, nk] -> { : 0 <= ni <= 8 and nj = 2 * nk and nk >= 0 and ni mod 2 = 0 }")
    text = export_module(nest, nest.tree, CodeOptions(), ExportHeader("", "m", {}, "1x", "t", "d"))
    values = dict(line.strip().split(" = ") for line in text.splitlines() if line.startswith("    n"))
    ni, nj, nk = (int(values[name]) for name in ("ni", "nj", "nk"))
    assert 5 <= ni <= 8
    assert ni % 2 == 0
    assert nj == 2 * nk > 0


@pytest.mark.skipif(shutil.which("ruff", path=str(Path(sys.executable).parent)) is None, reason="ruff is not installed")
@pytest.mark.parametrize("name", CASES)
def test_the_file_is_formatted(name: str, tmp_path: Path) -> None:
    make, schedule, fp = CASES[name]
    file = tmp_path / "fast.py"
    file.write_text(exported(make(), schedule, fp), encoding="utf-8")
    ruff = Path(sys.executable).parent / "ruff"
    command = [str(ruff), "format", "--diff", "--no-cache", "--config", str(ROOT / "pyproject.toml"), str(file)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout
