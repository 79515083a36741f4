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
PARALLEL = "@njit(parallel=True)\n"


def found(code: str) -> tuple[Finding, ...]:
    return lint_source(HEADER + code, "code.py").findings


def rules(code: str) -> list[Rule]:
    return [finding.rule for finding in found(code)]


FAULTS: dict[str, tuple[Rule, str, str]] = {
    "neighbour": (
        Rule.RACE,
        PARALLEL + "def f(x):\n    for i in ⟦prange(1, len(x)):\n        x[i] += x[i - 1]\n",
        "i=1 writes x[1] (line 9), i=2 reads it (line 9)",
    ),
    "shared sum of columns": (
        Rule.RACE,
        PARALLEL + "def f(A, y):\n    for i in ⟦prange(A.shape[0]):\n        for j in range(A.shape[1]):\n"
        "            y[j] += A[i, j]\n",
        "i=0, j=0 writes y[0] (line 10), i=1, j=0 reads it",
    ),
    "one element": (
        Rule.RACE,
        PARALLEL + "def f(x, y):\n    for i in ⟦prange(x.shape[0]):\n        y[0] += x[i]\n",
        "i=0 writes y[0] (line 9), i=1 reads it",
    ),
    "few buckets": (
        Rule.RACE,
        PARALLEL + "def f(x, y, n):\n    for i in ⟦prange(n):\n        y[i % 4] += x[i]\n",
        "i=0 writes y[0] (line 9), i=4 reads it",
    ),
    "reversal in place": (
        Rule.RACE,
        PARALLEL + "def f(x, n):\n    for i in ⟦prange(n):\n        x[i] = x[n - 1 - i]\n",
        "i=0 writes x[0] (line 9), i=1 reads it",
    ),
    "pivot row of an elimination": (
        Rule.RACE,
        PARALLEL + "def f(A):\n    n = A.shape[0]\n    for k in range(n):\n        for i in ⟦prange(n):\n"
        "            for j in range(n):\n                A[i, j] -= A[i, k] * A[k, j]\n",
        "k=0, i=0, j=0 writes A[0, 0] (line 12), k=0, i=1, j=0 reads it",
    ),
    "stencil in place": (
        Rule.RACE,
        PARALLEL + "def f(A):\n    for i in ⟦prange(1, A.shape[0] - 1):\n        for j in range(1, A.shape[1] - 1):\n"
        "            A[i, j] = 0.5 * (A[i - 1, j] + A[i + 1, j])\n",
        "i=1, j=1 writes A[1, 1] (line 10), i=2, j=1 reads it",
    ),
    "two halves that overlap": (
        Rule.RACE,
        PARALLEL + "def f(x, y):\n    for i in ⟦prange(len(y) - 1):\n        y[i] = x[i]\n        y[i + 1] = -x[i]\n",
        "i=0 writes y[1] (line 10), i=1 writes it (line 9)",
    ),
    "race inside a method with objects": (
        Rule.RACE,
        "class Solver:\n    def f(self, x, n):\n        while self.changed():\n            for i in ⟦prange(1, n):\n"
        "                x[i] += x[i - 1]\n",
        "i=1 writes x[1] (line 10), i=2 reads it",
    ),
    "race beside subscripts of data": (
        Rule.RACE,
        PARALLEL + "def f(x, y, where):\n    for k in range(len(where)):\n        y[where[k]] = 0.0\n"
        "    for i in ⟦prange(x.shape[0]):\n        y[0] += x[i]\n",
        "i=0 writes y[0] (line 11), i=1 reads it",
    ),
    "value of the iteration before": (
        Rule.NOT_A_REDUCTION,
        PARALLEL + "def f(x, y):\n    s = 0.0\n    for i in prange(x.shape[0]):\n        ⟦y[i] = x[i] - s\n"
        "        s = x[i]\n",
        "i=0 writes `s` (line 11), i=1 reads it (line 10)",
    ),
    "running sum": (
        Rule.NOT_A_REDUCTION,
        PARALLEL + "def f(x, y):\n    s = 0.0\n    for i in prange(x.shape[0]):\n        s += x[i]\n        ⟦y[i] = s\n",
        "i=0 writes `s` (line 10), i=1 reads it",
    ),
    "decay": (
        Rule.NOT_A_REDUCTION,
        PARALLEL + "def f(x):\n    s = 0.0\n    for i in prange(x.shape[0]):\n        ⟦s = 0.5 * s + x[i]\n    return s\n",
        "i=0 writes `s` (line 10), i=1 reads it",
    ),
    "maximum by comparison": (
        Rule.NOT_A_REDUCTION,
        PARALLEL + "def f(x):\n    s = 0.0\n    for i in prange(x.shape[0]):\n        ⟦s = x[i] if x[i] > s else s\n"
        "    return s\n",
        "i=0 writes `s` (line 10), i=1 reads it",
    ),
    "overwritten instead of accumulated": (
        Rule.NOT_A_REDUCTION,
        PARALLEL + "def f(x):\n    s = 0.0\n    for i in prange(x.shape[0]):\n        ⟦s = x[i]\n    return s\n",
        "i=0 writes `s` (line 10), i=1 writes it",
    ),
    "prange inside prange": (
        Rule.NESTED_PRANGE,
        PARALLEL + "def f(A):\n    for i in prange(A.shape[0]):\n        for j in ⟦prange(A.shape[1]):\n            A[i, j] = 1.0\n",
        "line 8",
    ),
    "prange without parallel": (
        Rule.SERIAL_PRANGE,
        "@njit(fastmath=True)\ndef f(x):\n    for i in ⟦prange(x.shape[0]):\n        x[i] = 1.0\n",
        "parallel=True",
    ),
    "three iterations": (
        Rule.SMALL_PRANGE,
        PARALLEL + "def f(x):\n    for i in ⟦prange(3):\n        x[i] = 2.0 * x[i]\n",
        "3 small statements",
    ),
    "one iteration": (
        Rule.SMALL_PRANGE,
        PARALLEL + "def f(A):\n    for i in range(A.shape[0]):\n        for j in ⟦prange(i, i + 1):\n            A[i, j] = 1.0\n",
        "at most one iteration",
    ),
    "one too far": (
        Rule.OUT_OF_BOUNDS,
        'def f(x: Float64[np.ndarray, "n"]):\n    for i in range(x.shape[0] + 1):\n        ⟦x[i] = 0.0\n',
        "i=4 writes x[4]",
    ),
    "the next one of the last": (
        Rule.OUT_OF_BOUNDS,
        "def f(x, y):\n    n = x.shape[0]\n    for i in range(n):\n        y[i] = ⟦x[i + 1] - x[i]\n",
        "i=3 reads x[4], but x has the shape [n], here [4]",
    ),
    "beyond the first one": (
        Rule.OUT_OF_BOUNDS,
        "def f(x, y):\n    n = x.shape[0]\n    for i in range(n):\n        y[i] = ⟦x[i - n - 1]\n",
        "i=0 reads x[-5]",
    ),
    "exchanged dimensions": (
        Rule.OUT_OF_BOUNDS,
        "def f(n):\n    t = np.zeros((n, n + 1))\n    for i in range(n + 1):\n        for j in range(n):\n"
        "            ⟦t[i, j] = 1.0\n    return t\n",
        "writes t[4, 0], but t has the shape [n, n + 1], here [4, 5]",
    ),
    "the one before the first": (
        Rule.NEGATIVE_SUBSCRIPT,
        "def f(x, y):\n    for i in range(x.shape[0]):\n        y[i] = x[i] - ⟦x[i - 1]\n",
        "i=0 reads x[-1]",
    ),
    "first element never written": (
        Rule.UNWRITTEN_READ,
        "def f(x):\n    n = x.shape[0]\n    t = np.empty(n)\n    for i in range(1, n):\n        t[i] = x[i] - x[i - 1]\n"
        "    s = 0.0\n    for i in range(n):\n        s += ⟦t[i]\n    return s\n",
        "i=0 reads t[0]",
    ),
    "accumulated into nothing": (
        Rule.UNWRITTEN_READ,
        "def f(A):\n    n, m = A.shape\n    t = np.empty(n)\n    for i in range(n):\n        for j in range(m):\n"
        "            ⟦t[i] += A[i, j]\n    return t\n",
        "i=0, j=0 reads t[0]",
    ),
    "border of a result": (
        Rule.UNWRITTEN_READ,
        "def f(x):\n    n = x.shape[0]\n    t = ⟦np.empty(n)\n    for i in range(1, n - 1):\n        t[i] = x[i - 1] + x[i + 1]\n"
        "    return t\n",
        "nothing was written to t[0]",
    ),
    "overwritten": (
        Rule.DEAD_STORE,
        "def f(x, y):\n    n = x.shape[0]\n    for i in range(n):\n        ⟦y[i] = 0.0\n    for i in range(n):\n"
        "        y[i] = 2.0 * x[i]\n",
        "`y` is overwritten",
    ),
    "array that nobody reads": (
        Rule.DEAD_STORE,
        "def f(x):\n    n = x.shape[0]\n    t = np.zeros(n)\n    s = 0.0\n    for i in range(n):\n        ⟦t[i] = 2.0 * x[i]\n"
        "        s += x[i]\n    return s\n",
        "nothing reads what this stores in `t`",
    ),
    "scalar that nobody reads": (
        Rule.DEAD_STORE,
        "def f(x, y):\n    for i in range(x.shape[0]):\n        ⟦q = 3.0 * x[i]\n        q = 2.0 * x[i]\n        y[i] = q\n",
        "nothing reads what this stores in `q`",
    ),
    "unused argument": (
        Rule.UNUSED_ARRAY,
        'def f(x: Float64[np.ndarray, "n"], ⟦z: Float64[np.ndarray, "n"]):\n    for i in range(x.shape[0]):\n        x[i] = 2.0\n',
        "`z`",
    ),
    "backwards without a step": (
        Rule.NEVER_RUNS,
        "def f(x, y):\n    n = x.shape[0]\n    for i in ⟦range(n - 1, 0):\n        y[i] = x[i]\n",
        "ever runs",
    ),
    "impossible condition": (
        Rule.NEVER_RUNS,
        "def f(x):\n    n = x.shape[0]\n    for i in range(n):\n        if i > n:\n            ⟦x[i] = 0.0\n        x[i] += 1.0\n",
        "never runs",
    ),
    "copy by columns": (
        Rule.COLUMN_WALK,
        "def f(A, B):\n    n, m = A.shape\n    for j in range(m):\n        for i in ⟦range(n):\n            B[i, j] = A[i, j]\n",
        "`A` and of `B`",
    ),
    "parallel columns": (
        Rule.COLUMN_WALK,
        PARALLEL + "def f(A, B):\n    for j in prange(1, A.shape[1] - 1):\n        for i in ⟦range(A.shape[0]):\n"
        "            B[i, j] = A[i, j - 1] + A[i, j + 1]\n",
        "`A` and of `B`",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found_in_its_place(name: str) -> None:
    rule, code, message = FAULTS[name]
    text = HEADER + code
    before, after = text.split("⟦")
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n") - 1
    (finding,) = lint_source(before + after, "code.py").findings
    assert (finding.rule, finding.place) == (rule, (line, column)), finding
    assert message in finding.message


FINE = {
    "reductions": PARALLEL
    + "def f(x, y):\n    s, p, m = 0.0, 1.0, 0.0\n    for i in prange(x.shape[0]):\n        s += x[i]\n        p *= x[i]\n"
    "        m = max(m, x[i])\n        t = 2.0 * x[i]\n        t += 1.0\n        y[i] = t\n    return s, p, m\n",
    "sum of rows": PARALLEL
    + "def f(A, y):\n    for i in prange(A.shape[0]):\n        s = 0.0\n        for j in range(A.shape[1]):\n"
    "            s += A[i, j]\n        y[i] = s\n",
    "reduction of an array": PARALLEL
    + "def f(A):\n    y = np.zeros(A.shape[1])\n    for i in prange(A.shape[0]):\n        y += A[i]\n    return y\n",
    "sizes that decide whether it races": PARALLEL
    + "def f(x, k, n):\n    for i in prange(n):\n        x[i] = x[i + k]\n",
    "a loop of two colours": PARALLEL
    + "def f(x):\n    for i in prange(1, x.shape[0] - 1, 2):\n        x[i] = x[i - 1] + x[i + 1]\n",
    "triangles": PARALLEL
    + "def f(A):\n    n = A.shape[0]\n    for k in range(n):\n        for i in prange(k + 1, n):\n"
    "            for j in range(k + 1, n):\n                A[i, j] -= A[i, k] * A[k, j]\n",
    "periodic": "def f(x, y):\n    n = x.shape[0]\n    for i in range(n):\n        y[i] = x[i - 1] + x[(i + 1) % n]\n",
    "options from elsewhere": "OPTIONS = {}\n\n\n@njit(**OPTIONS)\ndef f(x):\n    for i in prange(x.shape[0]):\n        x[i] = 1.0\n",
    "sizes of the caller": 'def f(A: Float64[np.ndarray, "n m"]):\n    for i in range(A.shape[0]):\n        A[i, i] = 1.0\n',
    "rows first": "def f(A, B):\n    n, m = A.shape\n    for i in range(n):\n        for j in range(m):\n            B[i, j] = A[i, j]\n",
    "transposition": "def f(A, B):\n    for j in range(B.shape[0]):\n        for i in range(B.shape[1]):\n            B[j, i] = A[i, j]\n",
    "columns in order": "def f(A):\n    n, m = A.shape\n    for j in range(1, m - 1):\n        for i in range(1, n - 1):\n"
    "            A[i, j] = A[i - 1, j] + A[i + 1, j - 1]\n",
    "border kept": "def f(x, y):\n    n = x.shape[0]\n    for i in range(n):\n        y[i] = 0.0\n    for i in range(1, n - 1):\n"
    "        y[i] = x[i - 1] + x[i + 1]\n",
    "written by part": "def f(x):\n    n = x.shape[0]\n    t = np.empty(n)\n    t[0] = 0.0\n    for i in range(1, n):\n"
    "        t[i] = t[i - 1] + x[i]\n    return t\n",
    "only small arrays": "def f(x):\n    n = x.shape[0]\n    if n == 1:\n        x[0] = 0.0\n    for i in range(n):\n        x[i] += 1.0\n",
    "array or number": "def f(x, y, s):\n    s += 1.0\n    for i in range(x.shape[0]):\n        y[i] = x[i]\n",
    "data decide": PARALLEL + "def f(x, y):\n    for i in prange(x.shape[0]):\n        if x[i] > 0.0:\n            y[0] = 1.0\n",
    "more than loops": "def f(items):\n    for item in items:\n        print(item)\n    while items:\n        items.pop()\n",
}


@pytest.mark.parametrize("name", FINE)
def test_what_is_not_surely_wrong_is_left_alone(name: str) -> None:
    assert found(FINE[name]) == ()


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
    file.write_text(RACE + "\n\ndef g(x):\n    x.sort()\n", encoding="utf-8")
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
    assert {rule for rule, _, _ in FAULTS.values()} == set(Rule)
    assert [rule for rule in Rule if f"`{rule}`" not in text] == []
