"""The examples do what their READMEs say, and cheats on them are rejected."""

from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path

import pytest

from optimizer.budget import Limits
from optimizer.plan import StopReason
from optimizer.run import RunSpecification, replay, rescore, resume, start
from optimizer.text_problem import TextProblem

EXAMPLES = Path(__file__).parents[1] / "examples"
CHECK = EXAMPLES / "function_check" / "check.py"


def repair_specification() -> RunSpecification:
    return runpy.run_path(str(EXAMPLES / "test_suite" / "repair.py"))["repair"]()


def test_the_check_is_a_whole_verifier_in_15_lines() -> None:
    assert len(CHECK.read_text().splitlines()) <= 15


def test_mutate_improves_the_text_of_a_one_function_verifier(tmp_path: Path) -> None:
    problem = TextProblem.from_file(EXAMPLES / "function_check" / "start.txt")
    specification = RunSpecification(
        problem.specification(),
        "mutate",
        verifier_options={"check": f"{CHECK}:check"},
        limits=Limits(evaluations=40),
    )
    run = start(specification, tmp_path / "run")
    baseline, best = run.result.trials[0].score, run.result.winner.score
    assert baseline is not None
    assert best is not None
    assert best > 2 * baseline
    assert run.result.used.evaluations == 40
    assert resume(run.directory).result.trials == run.result.trials
    assert replay(run.directory, tmp_path / "again").result.winner.candidate == run.result.winner.candidate
    assert all(old.score == new.score for old, new in rescore(run.directory, tmp_path / "rescored").pairs)


def test_mutate_repairs_the_planted_bug_until_six_tests_pass(tmp_path: Path) -> None:
    run = start(repair_specification(), tmp_path / "run")
    winner = run.result.winner
    assert run.result.trials[0].score == pytest.approx(1 / 6)
    assert run.result.stop_reason is StopReason.TARGET_REACHED
    assert winner.assurance == "tested only: 6 of 6 tests pass"
    assert run.result.used.evaluations <= 100
    assert "# the planted bug" in winner.candidate.text  # comments survive
    assert "!= 0" in (EXAMPLES / "test_suite" / "middle.py").read_text()
    assert resume(run.directory).result.trials == run.result.trials
    assert replay(run.directory, tmp_path / "again").result.winner.candidate == winner.candidate
    pairs = rescore(run.directory, tmp_path / "rescored").pairs
    assert [old.score for old, _ in pairs] == [new.score for _, new in pairs]


def test_cheats_on_the_tests_are_rejected(tmp_path: Path) -> None:
    good = "def median(values):\n    s = sorted(values)\n    return (s[(len(s) - 1) // 2] + s[len(s) // 2]) / 2\n"
    edit = "from pathlib import Path\nPath('tests/test_middle.py').write_text('def test(): pass')\n"
    leave = "import os\nos._exit(0)\n"
    chains = [[edit + good, leave + good, good]]
    specification = replace(repair_specification(), policy="replay", policy_options={"chains": chains})
    result = start(specification, tmp_path / "run").result
    assert [trial.outcome for trial in result.trials[1:]] == ["tampered", "tampered", "ok"]
    assert [trial.score for trial in result.trials[1:]] == [None, None, 1.0]
    assert "tests/test_middle.py" in result.trials[1].feedback
