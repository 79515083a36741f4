"""The linter: planted faults are found at their places, with their iterations; code without faults is left alone.

In the texts `⟦` stands before the place at which a fault must be found.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels import catalog
from optimizer.cli import main
from optimizer.lint import Finding, Rule, lint_file, lint_source
from optimizer.polyhedral.frontend import nest_of_source
from optimizer.polyhedral.legality import parallel_loops
from optimizer.polyhedral.model import Model

ROOT = Path(__file__).resolve().parents[1]
HEADER = "import numpy as np\nfrom jaxtyping import Float64\nfrom numba import njit, prange\n\n\n"
DATA = Path(__file__).parent / "data" / "lint"


def found(code: str) -> tuple[Finding, ...]:
    return lint_source(HEADER + code, "code.py").findings


def cases(file: str) -> dict[str, tuple[list[str], str]]:
    """Name -> (what the line with the name says besides, code) of each part of a file that begins with `===`."""
    parts = (DATA / file).read_text(encoding="utf-8").split("=== ")[1:]
    split = [(part.partition("\n")[0].split(" | "), part.partition("\n")[2]) for part in parts]
    return {name: (said, code) for (name, *said), code in split}


FAULTS = cases("faults.txt")
FINE = cases("fine.txt")


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found_in_its_place(name: str) -> None:
    (rule, message), code = FAULTS[name]
    text = HEADER + code
    before, after = text.split("⟦")
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n") - 1
    (finding,) = lint_source(before + after, "code.py").findings
    assert (finding.rule, finding.place) == (rule, (line, column)), finding
    assert message in finding.message


@pytest.mark.parametrize("name", FINE)
def test_what_is_not_surely_wrong_is_left_alone(name: str) -> None:
    assert found(FINE[name][1]) == ()


@pytest.mark.parametrize("name", catalog.names())
def test_silent_on_bundled_kernels(name: str) -> None:
    assert lint_file(str(catalog.entry(name).load().__file__)).findings == ()


def test_silent_on_examples() -> None:
    files = sorted((ROOT / "examples").rglob("*.py"))
    assert files
    assert [finding for file in files for finding in lint_file(str(file)).findings] == []


LOOPS = """
def f(n: int, A: Float64[np.ndarray, "n n"], B: Float64[np.ndarray, "n n"], x: Float64[np.ndarray, "n"]):
    for i in range(1, n - 1):
        for j in range(1, n - 1):
            {statement}
"""
SUBSCRIPTS = st.tuples(st.sampled_from(["i", "j"]), st.sampled_from(["i", "j"]), st.integers(-1, 1), st.integers(-1, 1))


def element(array: str, subscripts: tuple[str, str, int, int]) -> str:
    first, second, a, b = subscripts
    return f"{array}[{first} + {a}, {second} + {b}]".replace("+ -", "- ")


@settings(max_examples=40, deadline=None)
@given(SUBSCRIPTS, SUBSCRIPTS, st.sampled_from(["A", "B"]), st.booleans())
def test_race_is_said_of_no_loop_that_is_proved_parallel(
    written: tuple[str, str, int, int], read: tuple[str, str, int, int], array: str, is_sum: bool
) -> None:
    """And of every one that is not, where the sizes cannot change that."""
    statement = f"{element('A', written)} {'+=' if is_sum else '='} {element(array, read)} * x[i]"
    code = HEADER + LOOPS.format(statement=statement)
    nest = nest_of_source(code, "f", "code.py")
    parallel = parallel_loops(Model(nest), nest.tree)
    for loop in ("i", "j"):
        marked = code.replace(f"for {loop} in range", f"for {loop} in prange")
        is_race = Rule.RACE in {finding.rule for finding in lint_source(marked, "code.py").findings}
        assert is_race == (loop not in parallel), marked


@pytest.mark.parametrize("name", catalog.names())
def test_marking_a_legal_loop_of_a_kernel_adds_no_race(name: str) -> None:
    file = Path(str(catalog.entry(name).load().__file__))
    text = file.read_text(encoding="utf-8")
    nest = nest_of_source(text, catalog.entry(name).function, str(file))
    parallel, lines = parallel_loops(Model(nest), nest.tree), text.splitlines()
    for loop in nest.loops:
        line = lines[loop.line - 1]
        if loop.name in parallel and " in range(" in line:
            marked = [*lines[: loop.line - 1], line.replace(" in range(", " in numba.prange("), *lines[loop.line :]]
            report = lint_source("import numba\n" + "\n".join(marked), str(file))
            assert [f for f in report.findings if f.rule in (Rule.RACE, Rule.NOT_A_REDUCTION)] == [], loop


RACE = HEADER + FAULTS["neighbour"][1].replace("⟦", "")


def lint(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, ["lint", *arguments])
    return result.exit_code, result.stdout, result.stderr


def test_the_command_prints_place_line_and_caret(tmp_path: Path) -> None:
    file = tmp_path / "code.py"
    file.write_text(RACE, encoding="utf-8")
    status, shown, _ = lint(str(file))
    first, line, caret, hint = shown.splitlines()
    assert status == 1
    assert first.startswith(f"{file}:8:14: race: ")
    assert line[caret.index("^") :].startswith("prange(1, len(x))")
    assert "range" in hint


def test_json_has_the_iterations(tmp_path: Path) -> None:
    file = tmp_path / "code.py"
    file.write_text(RACE + "\n\ndef g(x):\n    while x:\n        x.pop()\n", encoding="utf-8")
    status, shown, _ = lint("--json", str(file))
    data: dict[str, Any] = json.loads(shown)
    (finding,) = data["findings"]
    assert status == 1
    assert (finding["file"], finding["line"], finding["column"], finding["rule"]) == (str(file), 8, 14, "race")
    assert finding["function"] == "f"
    assert (finding["witness"]["source_iteration"], finding["witness"]["sink_iteration"]) == ({"i": 1}, {"i": 2})
    assert finding["witness"]["element"] == [1]
    assert data["files"] == [str(file)]
    assert [skipped["function"] for skipped in data["skipped"]] == ["g"]


def test_rules_are_chosen_by_name(tmp_path: Path) -> None:
    file = tmp_path / "code.py"
    file.write_text(RACE, encoding="utf-8")
    assert lint("--rule", "dead-store", str(file)) == (0, "", "")
    assert lint("--rule", "dead-store", "--rule", "race", str(file))[0] == 1
    status, _, said = lint("--rule", "raze", str(file))
    assert status == 2
    assert "not-a-reduction" in said


def test_what_cannot_be_read_is_told_on_request(tmp_path: Path) -> None:
    file = tmp_path / "code.py"
    file.write_text("def f(x):\n    while x[0] > 0:\n        x[0] -= 1\n", encoding="utf-8")
    assert lint(str(file)) == (0, "", "")
    status, shown, said = lint("--verbose", str(file))
    assert (status, shown) == (0, "")
    assert "`while`" in said


def test_no_file_and_no_python(tmp_path: Path) -> None:
    assert lint(str(tmp_path / "nothing.py"))[0] == 2
    file = tmp_path / "code.py"
    file.write_text("def f(:\n", encoding="utf-8")
    status, shown, said = lint(str(file))
    assert (status, shown) == (2, "")
    assert "syntax error" in said


def test_every_rule_is_documented_and_planted() -> None:
    text = (ROOT / "docs" / "lint.md").read_text(encoding="utf-8")
    assert {said[0] for said, _ in FAULTS.values()} == set(Rule)
    assert [rule for rule in Rule if f"`{rule}`" not in text] == []
