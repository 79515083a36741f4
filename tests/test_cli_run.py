"""`loopwright run`, `resume`, `replay` and `rescore`, for all three kinds of problem."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kernels import catalog
from optimizer.budget import Limits
from optimizer.candidate import Candidate
from optimizer.cli import main
from optimizer.cli.run import text_specification
from optimizer.errors import InfrastructureError
from optimizer.events import Observer, TrialFinished
from optimizer.journal import read_record
from optimizer.loop import run_loop
from optimizer.plan import Plan, StopReason
from optimizer.text_problem import TextProblem
from optimizer.verdict import Verdict
from verifiers.function_check import FunctionCheck

CHECK = '''
def check(text):
    """As many points as there are a's."""
    return float(text.count("a")), "more a, please"
'''
OWN = """
import numpy as np
from jaxtyping import Float64


def scale(n: int, x: Float64[np.ndarray, "n"], y: Float64[np.ndarray, "n"]):
    for i in range(n):
        y[i] = 2.0 * x[i]
"""
SMALL = ("--size", "mini", "--threads", "1", "--policy", "random", "--seed", "5")


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def invoke_json(*arguments: str) -> dict[str, Any]:
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, (result.output, result.exception)
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def kernel_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """One real run of a kernel, exported."""
    folder = tmp_path_factory.mktemp("kernel")
    arguments = ("run", "matmul", *SMALL, "--evaluations", "3", "--chains", "2")
    data = invoke_json(*arguments, "--out", str(folder / "fast.py"), "--run-dir", str(folder / "run"))
    return folder, data


def test_run_of_a_kernel(kernel_run: tuple[Path, dict[str, Any]]) -> None:
    folder, data = kernel_run
    assert data["kernel"] == "matmul"
    assert data["size"] == catalog.load("matmul").SIZES["mini"]
    assert data["evaluations"] == 3
    assert data["stop_reason"] == "budget_evaluations"
    assert data["speedup"] >= 1.0
    assert data["interval"][0] <= data["speedup"] <= data["interval"][1]
    assert data["run_dir"] == str(folder / "run")
    assert data["export"] == str(folder / "fast.py")
    assert sum(data["outcomes"].values()) >= 3


def test_the_exported_module_agrees_with_the_original(kernel_run: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = kernel_run
    done = subprocess.run(
        [sys.executable, "fast.py"], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "agrees with" in done.stdout


def test_resume_of_a_finished_run_tells_it_again(kernel_run: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    folder, data = kernel_run
    journal = (folder / "run" / "journal.jsonl").read_bytes()
    again = invoke_json("resume", str(folder / "run"), "--out", str(tmp_path / "again.py"))
    assert {**again, "seconds": 0, "export": 0} == {**data, "seconds": 0, "export": 0}
    assert (folder / "run" / "journal.jsonl").read_bytes() == journal
    assert "def matmul(" in (tmp_path / "again.py").read_text(encoding="utf-8")


def test_rescore_judges_every_candidate_again(kernel_run: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    folder, _ = kernel_run
    data = invoke_json("rescore", str(folder / "run"), "--run-dir", str(tmp_path / "again"))
    texts = {trial.candidate.digest for trial in read_record(folder / "run").trials}
    assert len(data["trials"]) == len(texts)
    proved = {"illegal", "invalid_step"}
    for trial in data["trials"]:
        assert (trial["then"]["outcome"] in proved) == (trial["now"]["outcome"] in proved)


def test_a_file_of_the_users_resumes_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(OWN, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    first = invoke_json("run", "mine.py:scale", "--size", "n=50", "--evaluations", "1", *SMALL[2:], "--run-dir", "run")
    monkeypatch.chdir("/")
    again = invoke_json("resume", str(tmp_path / "run"))
    assert again["kernel"] == first["kernel"] == f"{tmp_path}/mine.py:scale"
    assert again["size"] == {"n": 50}
    (tmp_path / "mine.py").write_text(OWN.replace("2.0", "3.0"), encoding="utf-8")
    changed = invoke("resume", str(tmp_path / "run"))
    assert changed.exit_code == 2
    assert "was changed since this run" in changed.stderr


@pytest.fixture
def text(tmp_path: Path) -> Path:
    (tmp_path / "check.py").write_text(CHECK, encoding="utf-8")
    (tmp_path / "start.txt").write_text("a banana and a car\n", encoding="utf-8")
    return tmp_path


def text_arguments(folder: Path) -> tuple[str, ...]:
    return ("run", "--verifier", f"{folder}/check.py:check", "--seed-text", str(folder / "start.txt"))


def test_a_text_with_a_check(text: Path) -> None:
    arguments = (*text_arguments(text), "--evaluations", "6", "--run-dir", str(text / "run"))
    data = invoke_json(*arguments, "--out", str(text / "best.txt"))
    assert data["kind"] == "text"
    assert data["baseline_score"] == 7.0
    assert data["score"] >= 7.0
    assert data["evaluations"] == 6
    assert (text / "best.txt").read_text(encoding="utf-8") == data["candidate"]

    result = invoke("resume", str(text / "run"))
    assert result.exit_code == 0
    assert result.stdout.startswith("start.txt: ")
    replayed = invoke_json("replay", str(text / "run"), "--run-dir", str(text / "replayed"))
    assert replayed["candidate"] == data["candidate"]
    assert replayed["outcomes"] == data["outcomes"]
    shown = invoke("rescore", str(text / "run"), "--run-dir", str(text / "rescored"))
    assert shown.exit_code == 0
    assert ", 0 with another outcome; " in shown.stdout


def test_a_module_under_its_tests(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_middle.py").write_text(
        "from middle import middle\n\n\ndef test_odd():\n    assert middle([1, 2, 3]) == 2\n", encoding="utf-8"
    )
    (tmp_path / "middle.py").write_text("def middle(items):\n    return items[len(items) // 4]\n", encoding="utf-8")
    data = invoke_json(
        "run", "--tests", str(tmp_path / "tests"), "--seed-text", str(tmp_path / "middle.py"),
        "--evaluations", "2", "--deadline", "30", "--run-dir", str(tmp_path / "run"),
    )  # fmt: skip
    assert data["kind"] == "suite"
    assert data["evaluations"] == 2


def test_a_run_under_tests_stops_when_all_of_them_pass() -> None:
    folder = Path(__file__).parents[1] / "examples" / "test_suite"
    file, tests = str(folder / "middle.py"), str(folder / "tests")
    under_tests = text_specification(None, tests, file, None, "mutate", Plan(), Limits())
    under_check = text_specification("check.py:check", None, file, None, "mutate", Plan(), Limits())
    assert (under_tests.plan.target, under_check.plan.target) == (1.0, None)


def test_times_of_another_machine_are_not_mixed_in(kernel_run: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    folder, _ = kernel_run
    moved = tmp_path / "moved"
    shutil.copytree(folder / "run", moved)
    specification = json.loads((moved / "run.json").read_text(encoding="utf-8"))
    here = specification["machine"]["digest"]
    specification["machine"]["digest"] = "elsewhere"
    (moved / "run.json").write_text(json.dumps(specification), encoding="utf-8")
    assert invoke("resume", str(moved)).exit_code == 0  # it is over, and only told again
    lines = (moved / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (moved / "journal.jsonl").write_bytes(b"".join(lines[:3]))
    refused = invoke("resume", str(moved))
    assert refused.exit_code == 2
    assert "another machine" in refused.stderr
    invoke_json("replay", str(moved), "--run-dir", str(tmp_path / "again"))
    assert json.loads((tmp_path / "again" / "run.json").read_text(encoding="utf-8"))["machine"]["digest"] == here


def test_progress_goes_to_standard_error(text: Path) -> None:
    result = invoke(*text_arguments(text), "--evaluations", "3", "--run-dir", str(text / "run"), "--json")
    json.loads(result.stdout)
    lines = result.stderr.splitlines()
    assert lines[0] == "start.txt: 1 chain of up to 60 steps"
    assert sum(line.startswith("trial ") for line in lines) >= 3


def test_an_interrupt_saves_everything_and_says_how_to_go_on(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def impatient(*arguments: Any) -> Any:
        *first, observer = arguments

        class Impatient:
            def notify(self, event: Any) -> None:
                observer.notify(event)
                if isinstance(event, TrialFinished) and event.trial.number == 2:
                    raise KeyboardInterrupt

        watcher: Observer = Impatient()
        return run_loop(*first, watcher)

    arguments = (*text_arguments(text), "--evaluations", "5", "--run-dir", str(text / "run"))
    with monkeypatch.context() as patch:
        patch.setattr("optimizer.run.run_loop", impatient)
        result = invoke(*arguments)
    assert result.exit_code == 130
    assert f"loopwright resume {text / 'run'}" in result.stdout
    assert len(read_record(text / "run").trials) == 3
    data = invoke_json("resume", str(text / "run"))
    assert data["evaluations"] == 5
    assert data["stop_reason"] == StopReason.BUDGET_EVALUATIONS


def test_a_harness_that_fails_is_status_3(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged = FunctionCheck.verify

    def failing(self: FunctionCheck, problem: TextProblem, candidate: Candidate) -> Verdict:
        if candidate == problem.baseline:
            return judged(self, problem, candidate)
        raise InfrastructureError("the disk is full")

    monkeypatch.setattr(FunctionCheck, "verify", failing)
    result = invoke(*text_arguments(text), "--evaluations", "5", "--run-dir", str(text / "run"))
    assert result.exit_code == 3
    assert "the disk is full" in result.stdout
    assert f"go on with: loopwright resume {text / 'run'}" in result.stdout
    data = json.loads(invoke("resume", str(text / "run"), "--json").stdout)
    assert (data["stop_reason"], data["evaluations"]) == ("infrastructure_errors", 0)


def test_control_c_on_the_real_command(text: Path) -> None:
    slow = CHECK.replace("    return", "    import time\n    time.sleep(0.3)\n    return")
    (text / "check.py").write_text(slow, encoding="utf-8")
    command = [sys.executable, "-m", "optimizer.cli", *text_arguments(text), "--evaluations", "500"]
    with subprocess.Popen(
        [*command, "--run-dir", str(text / "run")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    ) as process:
        assert process.stderr is not None
        while not process.stderr.readline().startswith("trial 1"):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        started = time.monotonic()
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert time.monotonic() - started < 10
    assert "Traceback" not in err
    assert f"go on with: loopwright resume {text / 'run'}" in out
    assert len(read_record(text / "run").trials) >= 2
