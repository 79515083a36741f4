"""Runs in folders: started, killed and resumed, replayed, judged again; and what users get wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from optimizer.budget import Limits
from optimizer.errors import UserError
from optimizer.events import RunStarted
from optimizer.journal import FILE_NAME, Journal, read_record
from optimizer.plan import Plan, StopReason
from optimizer.run import (
    Run,
    RunSpecification,
    read_specification,
    replay,
    rescore,
    resume,
    runs_directory,
    start,
)
from optimizer.text_problem import TextProblem
from tests.fakes import Watcher

ROOT = Path(__file__).parents[1]
CHECK = """\
import os
import time


def check(text):
    if os.path.exists(__file__ + ".slow"):
        time.sleep(0.15)
    with open(__file__ + ".calls", "a") as calls:
        calls.write(repr(text) + "\\n")
    return text.count("a") if len(text) < 12 else False
"""


@pytest.fixture
def check_file(tmp_path: Path) -> Path:
    folder = tmp_path / "check"
    folder.mkdir()
    (folder / "my_check.py").write_text(CHECK)
    return folder / "my_check.py"


@pytest.fixture
def specification(check_file: Path) -> RunSpecification:
    return RunSpecification(
        TextProblem("letters", "a b c").specification(),
        policy="mutate",
        verifier_options={"check": f"{check_file}:check"},
        plan=Plan(chains=2, steps=5, seed=3),
        limits=Limits(evaluations=8),
    )


def calls_of(check_file: Path) -> list[str]:
    return Path(f"{check_file}.calls").read_text().splitlines()


def texts_of(run: Run) -> list[str]:
    return [trial.candidate.text for trial in run.result.trials]


def test_a_run_leaves_its_folder(specification: RunSpecification, tmp_path: Path) -> None:
    run = start(specification, tmp_path / "run")
    assert run.directory == tmp_path / "run"
    assert {path.name for path in run.directory.iterdir()} == {"run.json", FILE_NAME, "code", "lock"}
    assert read_specification(run.directory) == specification
    data = json.loads((run.directory / "run.json").read_text())
    assert data["versions"]["python"].startswith("3.")
    assert data["limits"]["evaluations"] == 8
    assert run.result.stop_reason is StopReason.BUDGET_EVALUATIONS
    assert run.result.used.evaluations == 8
    assert run.result.trials[0].score == 1


def test_the_data_folder_holds_runs_without_a_given_folder(
    specification: RunSpecification, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOOPWRIGHT_HOME", str(tmp_path / "home"))
    run = start(replace(specification, limits=Limits(evaluations=1)))
    assert run.directory.parent == tmp_path / "home" / "runs" == runs_directory()
    assert "-letters-" in run.directory.name
    monkeypatch.delenv("LOOPWRIGHT_HOME")
    assert runs_directory().name == "runs"


def test_killed_at_any_time_a_run_resumes_without_repeating_or_losing(
    specification: RunSpecification, check_file: Path, tmp_path: Path
) -> None:
    whole = start(specification, tmp_path / "whole")
    Path(f"{check_file}.calls").unlink()
    Path(f"{check_file}.slow").touch()
    directory = tmp_path / "killed"
    script = (
        "import sys; from pathlib import Path\n"
        "from optimizer.run import read_specification, start\n"
        "start(read_specification(Path(sys.argv[1])), Path(sys.argv[2]))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(whole.directory), str(directory)],
        cwd=ROOT,
    )
    while not (directory / FILE_NAME).exists() or len(read_record(directory).trials) < 4:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = read_record(directory)
    time.sleep(0.3)
    assert 4 <= len(before.trials) < len(whole.result.trials)

    watcher = Watcher()
    run = resume(directory, watcher)
    assert isinstance(watcher.events[0], RunStarted)
    assert watcher.events[0].past_trials == len(before.trials)
    assert run.result.trials[: len(before.trials)] == before.trials
    assert texts_of(run) == texts_of(whole)
    assert [trial.number for trial in run.result.trials] == list(range(len(run.result.trials)))
    assert run.result.used.evaluations == whole.result.used.evaluations == 8
    assert run.result.used.seconds > before.spent.seconds
    assert run.result.winner.candidate == whole.result.winner.candidate
    # The check in flight was killed with its parent before its call was noted, so no call is noted twice.
    assert len(set(calls_of(check_file))) == len(calls_of(check_file))

    content = (directory / FILE_NAME).read_bytes()
    assert texts_of(resume(directory)) == texts_of(run)
    assert (directory / FILE_NAME).read_bytes() == content


def test_a_torn_last_line_costs_one_trial_at_most(specification: RunSpecification, tmp_path: Path) -> None:
    whole = start(specification, tmp_path / "whole")
    content = (whole.directory / FILE_NAME).read_bytes()
    torn = tmp_path / "torn"
    torn.mkdir()
    (torn / "run.json").write_bytes((whole.directory / "run.json").read_bytes())
    (torn / FILE_NAME).write_bytes(content[: len(content) * 2 // 3])
    run = resume(torn)
    assert texts_of(run) == texts_of(whole)
    assert run.result.used.evaluations == 8


def test_a_replay_makes_the_same_proposals_without_the_policy(
    specification: RunSpecification, check_file: Path, tmp_path: Path
) -> None:
    first = start(specification, tmp_path / "first")
    again = replay(first.directory, tmp_path / "again")
    assert texts_of(again) == texts_of(first)
    assert [trial.outcome for trial in again.result.trials] == [trial.outcome for trial in first.result.trials]
    assert again.specification.policy == "replay"
    assert again.specification.origin == str(first.directory)
    assert texts_of(replay(again.directory, tmp_path / "third")) == texts_of(first)


def test_a_rescore_judges_every_distinct_candidate_again(
    specification: RunSpecification, check_file: Path, tmp_path: Path
) -> None:
    first = start(specification, tmp_path / "first")
    check_file.write_text(CHECK.replace('text.count("a")', '10 * text.count("a")'))
    scored = rescore(first.directory, tmp_path / "again")
    distinct = {trial.candidate.text for trial in first.result.trials}
    assert [old.candidate for old, _ in scored.pairs] == [new.candidate for _, new in scored.pairs]
    assert {new.candidate.text for _, new in scored.pairs} == distinct
    for old, new in scored.pairs:
        assert new.score == (None if old.score is None else 10 * old.score)


def test_a_run_in_use_is_refused(specification: RunSpecification, tmp_path: Path) -> None:
    run = start(specification, tmp_path / "run")
    with Journal(run.directory), pytest.raises(UserError, match=f"in use by process {os.getpid()}"):
        resume(run.directory)


def test_a_folder_with_something_in_it_is_refused_and_left_alone(
    specification: RunSpecification, tmp_path: Path
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("precious")
    with pytest.raises(UserError, match="not empty"):
        start(specification, tmp_path / "run")
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["thesis.txt"]


def test_a_folder_that_cannot_be_written_says_what_to_do(
    specification: RunSpecification, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="--run-dir"):
        start(specification, tmp_path / "file" / "run")
    monkeypatch.setenv("LOOPWRIGHT_HOME", "/proc/nowhere")
    with pytest.raises(UserError, match="LOOPWRIGHT_HOME"):
        start(specification)


def test_a_wrong_set_up_leaves_no_folder(specification: RunSpecification, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="did you mean mutate"):
        start(replace(specification, policy="mutat"), tmp_path / "run")
    with pytest.raises(UserError, match="no file"):
        start(replace(specification, verifier_options={"check": "nothing.py:check"}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_what_is_no_run_folder_is_refused(specification: RunSpecification, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no run folder"):
        resume(tmp_path)
    run = start(specification, tmp_path / "run")
    path = run.directory / "run.json"
    data = json.loads(path.read_text())
    path.write_text(json.dumps({**data, "format": 2}))
    with pytest.raises(UserError, match=r"another version: format"):
        resume(run.directory)
    path.write_text(json.dumps({**data, "plan": {"steps": "many"}}))
    with pytest.raises(UserError, match=r"plan\.steps"):
        replay(run.directory)
    path.write_text("{")
    with pytest.raises(UserError, match="damaged"):
        rescore(run.directory)


def test_a_run_does_not_move_to_another_machine(specification: RunSpecification, tmp_path: Path) -> None:
    run = start(replace(specification, machine={"digest": "one", "sets": ("avx2",)}), tmp_path / "run")
    assert texts_of(resume(run.directory, machine={"digest": "two"})) == texts_of(run)  # it is over: nothing is judged
    journal = run.directory / FILE_NAME
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[: len(lines) // 2]))
    with pytest.raises(UserError, match="another machine"):
        resume(run.directory, machine={"digest": "two"})
    assert texts_of(resume(run.directory, machine={"digest": "one", "sets": ("avx2",)})) == texts_of(run)
    assert replay(run.directory, tmp_path / "again", machine={"digest": "two"}).specification.machine == {
        "digest": "two"
    }
