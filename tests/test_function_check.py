"""A user's own function as the verifier: every kind of answer, and every way to misbehave."""

from __future__ import annotations

from pathlib import Path

import pytest

from optimizer.candidate import Candidate
from optimizer.errors import UserError
from optimizer.text_problem import TextProblem
from optimizer.verdict import Reason, Status, Verdict
from verifiers.function_check import FunctionCheck, function_verifiers

CHECK = """\
import os, subprocess, sys, threading, time
import numpy as np
from sibling import HELPED


class Strange:
    def __float__(self):
        return 1.0


def check(text):
    if text.startswith("run "):
        return eval(text[4:])
    exec(text)
    return True
"""


@pytest.fixture(scope="module")
def check_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("check")
    (folder / "sibling.py").write_text("HELPED = True\n")
    (folder / "my_check.py").write_text(CHECK)
    return folder / "my_check.py"


@pytest.fixture(scope="module")
def check(check_file: Path) -> FunctionCheck:
    return FunctionCheck(f"{check_file}:check", deadline=5)


def judge(check: FunctionCheck, text: str) -> Verdict:
    return check.verify(TextProblem("text", ""), Candidate(text))


@pytest.mark.parametrize(
    ("expression", "score", "note"),
    [
        ("True", 1.0, ""),
        ("2", 2.0, ""),
        ("-0.5", -0.5, ""),
        ("(0.25, 'near')", 0.25, "near"),
        ("np.float32(1.5)", 1.5, ""),
        ("np.bool_(True)", 1.0, ""),
        ("(np.int64(3), 'x')", 3.0, "x"),
        ("HELPED", 1.0, ""),
    ],
)
def test_what_accepts(check: FunctionCheck, expression: str, score: float, note: str) -> None:
    verdict = judge(check, f"run {expression}")
    assert verdict.status is Status.OK
    assert verdict.measurement is not None
    assert verdict.measurement.score == score
    assert verdict.detail == note
    assert verdict.assurance == "tested only"


@pytest.mark.parametrize(
    ("text", "reason", "detail"),
    [
        ("run False", Reason.FAILED_CHECK, "the check says no"),
        ("run (False, 'too long')", Reason.FAILED_CHECK, "too long"),
        ("run float('nan')", Reason.FAILED_CHECK, "no finite score"),
        ("run float('-inf')", Reason.FAILED_CHECK, "no finite score"),
        ("run 10 ** 400", Reason.FAILED_CHECK, "no finite score"),
        ("run None", Reason.FAILED_CHECK, "neither a truth value nor a score"),
        ("run 'yes'", Reason.FAILED_CHECK, "but 'yes'"),
        ("run Strange()", Reason.FAILED_CHECK, "but Strange"),
        ("run 1 / 0", Reason.FAILED_CHECK, "ZeroDivisionError: division by zero"),
        ("raise SystemExit(0)", Reason.FAILED_CHECK, "SystemExit"),
        ("os._exit(0)", Reason.CRASHED, "ended with status 0"),
        ("print('last words', flush=True); os.abort()", Reason.CRASHED, "SIGABRT: last words"),
        ("os.kill(os.getpid(), 9)", Reason.CRASHED, "SIGKILL"),
        ("x = 'a' * 10**13", Reason.OUT_OF_MEMORY, "memory"),
    ],
)
def test_what_rejects(check: FunctionCheck, text: str, reason: Reason, detail: str) -> None:
    verdict = judge(check, text)
    assert (verdict.status, verdict.reason) == (Status.REJECTED, reason)
    assert detail in verdict.detail
    assert verdict.measurement is None


def test_a_verdict_of_the_users_own(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "from optimizer.verdict import *\n"
        "def check(text):\n"
        "    if text == 'ok':\n"
        "        return Verdict(Status.OK, 'mine', measurement=Measurement(2.5, (2.0, 3.0), 7))\n"
        "    return Verdict(Status.REJECTED, 'mine', Reason.ILLEGAL, 'no', {'at': 3}, repair='ok')\n"
    )
    root = str(Path(__file__).parents[1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", root)
        check = FunctionCheck(f"{tmp_path / 'own.py'}:check")
        accepted, rejected = judge(check, "ok"), judge(check, "else")
    assert accepted.measurement is not None
    assert accepted.measurement.interval == (2.0, 3.0)
    assert (rejected.reason, rejected.witness, rejected.repair) == (Reason.ILLEGAL, {"at": 3}, "ok")
    assert rejected.verifier == "function-check"


@pytest.mark.parametrize(
    ("content", "place", "message"),
    [
        (None, "missing.py:check", r"no file .*missing\.py"),
        ("x = 1", "mine.py:check", "no function check in it; there are: none"),
        ("def chekc(text): pass", "mine.py:check", "there are: chekc"),
        ("def check(:", "mine.py:check", "SyntaxError"),
        ("import no_such_module", "mine.py:check", "no_such_module"),
        ("import os; os._exit(0)", "mine.py:check", "loading it ended with status 0"),
        ("x = 1", "mine.py", "FILE.py:FUNCTION"),
        ("x = 1", "mine.py:", "FILE.py:FUNCTION"),
    ],
)
def test_a_broken_set_up_is_the_users_error(tmp_path: Path, content: str | None, place: str, message: str) -> None:
    if content is not None:
        (tmp_path / "mine.py").write_text(content)
    with pytest.raises(UserError, match=message):
        FunctionCheck(str(tmp_path / place))


def test_options_are_checked(check_file: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="deadline"):
        FunctionCheck(f"{check_file}:check", deadline=0)
    with pytest.raises(UserError, match="--verifier"):
        function_verifiers(TextProblem("text", ""), tmp_path, lambda _: None)
