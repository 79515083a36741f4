"""`loopwright explain`."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kernels import catalog
from optimizer.cli import main
from optimizer.polyhedral.explain import Dependence
from optimizer.polyhedral.witness import Kind
from optimizer.views.nest import MOST_DEPENDENCES, dependence_table

OWN = """
import numpy as np
from jaxtyping import Float64


def smooth(n: int, x: Float64[np.ndarray, "n"], y: Float64[np.ndarray, "n"]):
    total = 0.0
    for i in range(1, n - 1):
        s = x[i - 1] + x[i + 1]
        y[i] = 0.5 * s
    for i in range(n):
        total += y[i]
    return total
"""


LONG = """
import numpy as np
from jaxtyping import Float64


def twice(n: int, x: Float64[np.ndarray, "n"], y: Float64[np.ndarray, "n"]):
    for i in range(
        n
    ):
        y[i] = (
            x[i]
            + x[i]
        )
    return None
"""


@pytest.fixture(autouse=True)
def no_peaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's peaks take seconds to measure; what is shown of them is tested with a made-up limit."""
    monkeypatch.setattr("optimizer.cli.explain.limit_seconds", lambda *_: 0.0123)


def explained(*arguments: str) -> str:
    result = CliRunner().invoke(main, ["explain", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def explained_json(*arguments: str) -> dict[str, Any]:
    return json.loads(explained(*arguments, "--json"))


def test_names_stand_beside_the_source() -> None:
    lines = explained("gemm").splitlines()
    shown = [line.split(maxsplit=2)[1:] for line in lines if line[:5].strip().isdigit()]
    assert ["S1", "C[i, j] += alpha * A[i, k] * B[k, j]"] in shown
    assert ["j_2", "for j in range(nj):"] in shown
    assert "parallel    i, j, j_2" in lines
    assert "permutable  (k, j_2)" in lines
    assert "C      S1 -> S1    RAW+WAW+WAR  carried by k; distances (i, k, j_2): (0, 1, 0)" in lines
    assert any(line.startswith("this machine's limit at large") and line.endswith("12.3 ms") for line in lines)


def test_json_has_what_the_design_names() -> None:
    data = explained_json("lu", "--size", "mini")
    assert {"loops", "statements", "dependences", "parallel", "permutable", "limit_seconds"} <= set(data)
    assert [loop["name"] for loop in data["loops"]] == ["i", "j", "k", "j_2", "k_2"]
    assert [statement["name"] for statement in data["statements"]] == ["S0", "S1", "S2"]
    assert data["parallel"] == ["j_2"]
    assert data["limit_seconds"] == 0.0123
    carried = [d for d in data["dependences"] if d["kind"] == "RAW" and (d["source"], d["sink"]) == ("S2", "S1")]
    assert [d["carried_by"] for d in carried] == [["i"]]
    assert [d["distances"] for d in carried] == [None]


def test_statements_and_headers_over_several_lines_are_shown_whole(tmp_path: Path) -> None:
    path = tmp_path / "long.py"
    path.write_text(LONG, encoding="utf-8")
    listing = explained(str(path)).partition("\n\n")[2].partition("\n\n")[0].splitlines()
    assert [line[:9].split() for line in listing] == [["7", "i"], ["8"], ["9"], ["10", "S0"], ["11"], ["12"], ["13"]]
    assert listing[-1].endswith(")")
    assert explained("seidel-2d").count("+ A[i + 1, j + 1]") == 1


def test_a_file_needs_no_size(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(OWN, encoding="utf-8")
    data = explained_json(str(path))
    assert data["limit_seconds"] is None
    assert data["parallel"] == ["i"]
    assert data["scalars"] == {"total": None, "s": ["i"]}
    text = explained(f"{path}:smooth")
    assert "scalars     s with a copy for each i" in text
    assert "scalars     total with one value, carried along" in text


def test_a_schedule_is_explained_with_its_code() -> None:
    schedule = "reorder(i, k, j); parallel(i)"
    text = explained("matmul", "--size", "mini", "--schedule", schedule)
    assert f"after {schedule}" in text
    assert "for i parallel" in text
    assert "for i in prange(" in text
    data = explained_json("matmul", "--size", "mini", "--schedule", schedule)
    assert data["permutable"] == [["i", "k", "j"]]
    assert "prange" in data["code"]


def test_many_dependences_are_summarized() -> None:
    many = tuple(Dependence("A", Kind.RAW, f"S{k}", f"S{k + 1}", ("i",), False) for k in range(MOST_DEPENDENCES + 1))
    assert len(dependence_table(many[1:]).splitlines()) == MOST_DEPENDENCES + 1
    _, row = dependence_table((*many, Dependence("A", Kind.WAR, "S0", "S2", ("i",), False))).splitlines()
    assert row.startswith("A      among S0, S1, S2, S3")
    assert row.endswith("RAW+WAR  carried by i")
    assert dependence_table(()) == "no dependences: every order of the iterations is legal"


def test_every_kernel_is_explained_in_a_few_dozen_lines() -> None:
    for name in catalog.names():
        text = explained(name)
        dependences = text[text.index("\narray ") :] if "\narray " in text else ""
        assert len(dependences.splitlines()) < 60, name
