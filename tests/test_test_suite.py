"""Tests as the verifier: they are locked, absent is not passed, and cheats are found out."""

from __future__ import annotations

from pathlib import Path

import pytest

from optimizer.candidate import Candidate
from optimizer.errors import UserError
from optimizer.registry import make_problem
from optimizer.suite_problem import SuiteProblem
from optimizer.verdict import Verdict
from verifiers.test_suite import TestSuite, suite_verifiers

GOOD = "def double(x):\n    return 2 * x\n"
BAD = "def double(x):\n    return x * x\n"
TESTS = """\
import pytest
from thing import double

@pytest.mark.parametrize("x", [0, 2, 3])
def test_double(x):
    assert double(x) == 2 * x

class TestMore:
    def test_text(self):
        assert double("ab") == "abab"
"""


def write_files(folder: Path) -> Path:
    (folder / "tests").mkdir()
    (folder / "thing.py").write_text(BAD)
    (folder / "tests" / "test_thing.py").write_text(TESTS)
    (folder / "tests" / "data.txt").write_text("data")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_files(tmp_path)


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> tuple[SuiteProblem, TestSuite]:
    """A problem that no test changes, and its verifier, which counts its tests once."""
    folder = write_files(tmp_path_factory.mktemp("suite"))
    return SuiteProblem.from_files(folder / "thing.py", folder / "tests"), TestSuite(plugins=False)


@pytest.fixture
def problem(folder: Path) -> SuiteProblem:
    return SuiteProblem.from_files(folder / "thing.py", folder / "tests")


def judge(problem: SuiteProblem, text: str) -> Verdict:
    return TestSuite(plugins=False).verify(problem, Candidate(text))


def test_the_score_is_the_part_that_passes(standing: tuple[SuiteProblem, TestSuite]) -> None:
    problem, suite = standing
    bad, good = suite.verify(problem, Candidate(BAD)), suite.verify(problem, Candidate(GOOD))
    assert bad.measurement is not None
    assert good.measurement is not None
    assert (bad.measurement.score, good.measurement.score) == (0.5, 1.0)
    assert good.assurance == "tested only: 4 of 4 tests pass"
    assert "test_double[3]: failure assert 9 ==" in bad.detail
    assert good.measurement.unit == "tests"
    assert (problem.root / "thing.py").read_text() == BAD


def test_the_problem_is_made_again_from_its_specification(problem: SuiteProblem) -> None:
    again = make_problem(problem.specification())
    assert isinstance(again, SuiteProblem)
    assert again == problem
    assert set(problem.locked) == {"tests/data.txt", "tests/test_thing.py"}


def test_configuration_beside_the_tests_is_locked_too(folder: Path) -> None:
    (folder / "conftest.py").write_text("")
    problem = SuiteProblem.from_files(folder / "thing.py", folder / "tests")
    assert "conftest.py" in problem.locked
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -k nothing\n")
    with pytest.raises(UserError, match=r"pytest\.ini"):
        judge(problem, GOOD)


def test_a_single_test_file_beside_the_code(folder: Path) -> None:
    (folder / "tests" / "test_thing.py").rename(folder / "test_thing.py")
    problem = SuiteProblem.from_files(folder / "thing.py", folder / "test_thing.py")
    verdict = judge(problem, GOOD)
    assert verdict.measurement is not None
    assert verdict.measurement.score == 1


def test_a_broken_set_up_is_the_users_error(folder: Path) -> None:
    with pytest.raises(UserError, match="there is no"):
        SuiteProblem.from_files(folder / "nothing.py", folder / "tests")
    with pytest.raises(UserError, match="is one of the tests"):
        SuiteProblem.from_files(folder / "tests" / "test_thing.py", folder / "tests")
    (folder / "thing.py").write_text("def (")
    with pytest.raises(UserError, match="no Python file that can be parsed"):
        SuiteProblem.from_files(folder / "thing.py", folder / "tests")
    with pytest.raises(UserError, match="deadline"):
        TestSuite(deadline=-1)


def test_tests_that_cannot_be_collected_are_the_users_error(folder: Path) -> None:
    (folder / "thing.py").write_text("other = 1\n")
    problem = SuiteProblem.from_files(folder / "thing.py", folder / "tests")
    with pytest.raises(UserError, match="cannot be used"):
        suite_verifiers(problem, folder, lambda _: None, plugins=False)
    (folder / "tests" / "test_thing.py").write_text("")
    problem = SuiteProblem.from_files(folder / "thing.py", folder / "tests")
    with pytest.raises(UserError, match="cannot be used"):
        suite_verifiers(problem, folder, lambda _: None, plugins=False)
