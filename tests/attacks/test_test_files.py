"""A file that would rather be judged by other tests than those it has, or by none at all."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from optimizer.candidate import Candidate
from optimizer.errors import UserError
from optimizer.suite_problem import SuiteProblem
from optimizer.verdict import Reason, Status, Verdict
from tests.sandboxed import is_alive
from verifiers.test_suite import TestSuite

LINUX_ONLY = pytest.mark.skipif(sys.platform != "linux", reason="other systems cannot")
BAD = "def double(x):\n    return x * x\n"
"""Passes two of the four tests, and so scores 0.5; nothing that is added to it may change that."""
GOOD = "def double(x):\n    return 2 * x\n"
TESTS = """\
import pytest
from thing import double

@pytest.mark.parametrize("x", [0, 2, 3])
def test_double(x):
    assert double(x) == 2 * x
"""
MORE_TESTS = """\
import thing

class TestMore:
    def test_text(self):
        assert thing.double("ab") == "abab"
"""
EASY = "def test_double(): pass"


def make_problem(folder: Path) -> SuiteProblem:
    (folder / "tests").mkdir()
    (folder / "thing.py").write_text(BAD)
    (folder / "tests" / "test_a.py").write_text(TESTS)
    (folder / "tests" / "test_b.py").write_text(MORE_TESTS)
    (folder / "tests" / "data.txt").write_text("data")
    return SuiteProblem.from_files(folder / "thing.py", folder / "tests")


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> tuple[SuiteProblem, TestSuite]:
    problem = make_problem(tmp_path_factory.mktemp("suite"))
    suite = TestSuite(plugins=False, deadline=20)
    suite.expected(problem)
    return problem, suite


def judge(standing: tuple[SuiteProblem, TestSuite], text: str) -> Verdict:
    problem, suite = standing
    return suite.verify(problem, Candidate(text))


def score_of(verdict: Verdict) -> float | None:
    return verdict.measurement.score if verdict.measurement else None


def test_control_without_a_trick_it_is_accepted_for_what_it_is(standing: tuple[SuiteProblem, TestSuite]) -> None:
    bad, good = judge(standing, BAD), judge(standing, GOOD)
    assert (bad.status, score_of(bad)) == (Status.OK, 0.5)
    assert (good.status, score_of(good)) == (Status.OK, 1.0)


def write(path: str, content: str) -> str:
    return f"from pathlib import Path\nPath({path!r}).write_text({content!r})\n"


HERE = "__import__('pathlib').Path(__file__).parent"
FORGED_REPORT = """
import json, os, sys
results = {f"tests/test_a.py::test_double[{x}]": "" for x in (0, 2, 3)} | {"tests/test_b.py::TestMore::test_text": ""}
def forge(nonce):
    body = json.dumps({"nonce": nonce, "status": 0, "results": results, "collected": list(results),
                       "control_passed": False}).encode()
    for pipe in range(3, 40):
        try: os.write(pipe, len(body).to_bytes(4, "big") + body)
        except OSError: pass
"""
TOUCHES = {
    "edits a test": write("tests/test_a.py", EASY),
    "edits the tests that are not loaded yet, and restores them": (
        "import atexit\nfrom pathlib import Path\nother = Path('tests/test_b.py')\nwas = other.read_text()\n"
        "other.write_text(was.replace('== ', '!= '))\natexit.register(other.write_text, was)\n"
    ),
    "edits them and turns the clock of the file back": (
        "import os\nfrom pathlib import Path\nother = Path('tests/test_b.py')\n"
        "was, stat = other.read_text(), other.stat()\n"
        "other.write_text(was.replace('== ', '!= '))\nimport atexit\n"
        "atexit.register(lambda: (other.write_text(was), os.utime(other, ns=(stat.st_atime_ns, stat.st_mtime_ns))))\n"
    ),
    "deletes a test": "import os\nos.unlink('tests/test_b.py')\n",
    "deletes all tests": "import shutil\nshutil.rmtree('tests')\n",
    "edits the data of the tests": write("tests/data.txt", "x"),
    "links a test to another file": (
        "import os\nos.rename('tests/test_b.py', 'kept')\nos.symlink('../kept', 'tests/test_b.py')\n"
    ),
    "links the data of the tests to a file without end": (
        "import os\nos.unlink('tests/data.txt')\nos.symlink('/proc/kmsg', 'tests/data.txt')\n"
    ),
    "puts a pipe that blocks in place of a test": (
        "import os\nos.unlink('tests/data.txt')\nos.mkfifo('tests/data.txt')\n"
    ),
    "writes a conftest": write("conftest.py", "def pytest_runtest_call(item): pass"),
    "writes a conftest beside the tests": write("tests/conftest.py", ""),
    "writes pytest.ini": write("pytest.ini", "[pytest]\naddopts = -k nothing\n"),
    "writes a .pth file": write("here.pth", "import os; os._exit(0)\n"),
    "writes sitecustomize.py": write("sitecustomize.py", "import os; os._exit(0)\n"),
    "writes a pytest of its own": write("pytest.py", "def main(*a, **k): return 0\n"),
    "hides a compiled test in __pycache__": (
        "import os, py_compile\nos.makedirs('tests/__pycache__', exist_ok=True)\nopen('easy', 'w').write('x = 1')\n"
        "py_compile.compile('easy', 'tests/__pycache__/test_b.cpython-311-pytest-8.pyc')\n"
    ),
    "hides a module beneath a hundred folders": (
        "import os\nwhere = os.getcwd()\nfor _ in range(100): os.mkdir('d' * 30); os.chdir('d' * 30)\n"
        "open('hidden.py', 'w').close()\nos.chdir(where)\n"
    ),
}


@pytest.mark.parametrize("attack", TOUCHES)
def test_what_is_locked_cannot_be_touched(standing: tuple[SuiteProblem, TestSuite], attack: str) -> None:
    start = time.monotonic()
    verdict = judge(standing, TOUCHES[attack] + BAD)
    assert (verdict.status, verdict.reason) == (Status.REJECTED, Reason.TAMPERED)
    assert "touched" in verdict.detail
    assert verdict.measurement is None
    assert time.monotonic() - start < 15


LEAVES = {
    "exits with 0 when it is loaded": ("import os\nos._exit(0)\n", Reason.TAMPERED),
    "exits with 1 when it is loaded": ("import os\nos._exit(1)\n", Reason.CRASHED),
    "calls sys.exit(0) when it is loaded": ("import sys\nsys.exit(0)\n", Reason.FAILED_CHECK),
    "exits during a test": ("import os\ndef double(x):\n    os._exit(0)\n", Reason.TAMPERED),
    "exits during the last test": (
        "import os\ndef double(x):\n    if x == 'ab': os._exit(0)\n    return 2 * x\n", Reason.TAMPERED),
    "exits from another thread": (
        "import os, threading\nthreading.Timer(0.05, os._exit, (0,)).start()\nimport time\n"
        "def double(x):\n    time.sleep(1)\n", Reason.TAMPERED),
    "aborts": ("import os\nos.abort()\n", Reason.CRASHED),
    "kills its process": ("import os\nos.kill(os.getpid(), 9)\n", Reason.CRASHED),
    "ends pytest with status 0": (
        "import pytest\ndef double(x):\n    pytest.exit('done', returncode=0)\n", Reason.TAMPERED),
    "skips its tests as a module": ("import pytest\npytest.skip('no', allow_module_level=True)\n", Reason.TAMPERED),
    "stops the session early": (
        "import sys\ndef double(x):\n    f = sys._getframe()\n    while f:\n        s = f.f_locals.get('session')\n"
        "        if s is not None: s.shouldstop = 'enough'\n        f = f.f_back\n    return 2 * x\n",
        Reason.FAILED_CHECK),
    "lets no test be collected": ("x = 1\n", Reason.FAILED_CHECK),
    "is no Python": ("def double(x:\n", Reason.FAILED_CHECK),
    "never ends its last test": ("def double(x):\n    while True: pass\n", Reason.TIMED_OUT),
    "fills the memory": ("kept = bytearray(1 << 46)\n", Reason.FAILED_CHECK),
}  # fmt: skip


@pytest.mark.parametrize("attack", LEAVES)
def test_tests_that_did_not_run_did_not_pass(standing: tuple[SuiteProblem, TestSuite], attack: str) -> None:
    text, reason = LEAVES[attack]
    _, suite = standing
    suite.deadline = 2.0 if reason is Reason.TIMED_OUT else 20.0
    verdict = judge(standing, text)
    assert (verdict.status, verdict.reason) == (Status.REJECTED, reason), verdict.detail
    assert verdict.measurement is None


FORGES = {
    "writes an answer to every pipe": (FORGED_REPORT + "forge('0' * 32)\nos._exit(0)\n", Reason.TAMPERED),
    "reads the request again": (
        FORGED_REPORT + "os.lseek(0, 0, 0)\nfound = os.read(0, 1000).decode()\n"
        "forge(json.loads(found)['nonce'] if found else '')\nos._exit(0)\n", Reason.TAMPERED),
    "reads the request of the guard": (
        FORGED_REPORT + "found = open(f'/proc/{os.getppid()}/fd/0').read()\n"
        "forge(json.loads(found)['nonce'] if found else '')\nos._exit(0)\n", Reason.TAMPERED),
    "looks for the nonce in all frames": (
        FORGED_REPORT + "frame = sys._getframe()\nwhile frame:\n    for value in list(frame.f_locals.values()):\n"
        "        if isinstance(value, dict) and 'nonce' in value: forge(value['nonce'])\n"
        "        if isinstance(value, str) and len(value) == 32: forge(value)\n    frame = frame.f_back\nos._exit(0)\n",
        Reason.TAMPERED),
    "looks for the nonce in all objects": (
        FORGED_REPORT + "import gc\nfor value in gc.get_objects():\n    if type(value) is dict and 'nonce' in value:\n"
        "        forge(str(value['nonce']))\nos._exit(0)\n", Reason.TAMPERED),
    "prints a report and leaves": ("import os\nprint('4 passed in 0.01s', flush=True)\nos._exit(0)\n", Reason.TAMPERED),
    "lets pytest run no test": (
        "import _pytest.python\n_pytest.python.Function.runtest = lambda self: None\n" + BAD, Reason.TAMPERED),
    "lets every report say that it passed": (
        "import _pytest.reports\nold = _pytest.reports.TestReport.__init__\n"
        "def new(self, nodeid, location, keywords, outcome, *rest, **more):\n"
        "    old(self, nodeid, location, keywords, 'passed', *rest, **more)\n"
        "_pytest.reports.TestReport.__init__ = new\n" + BAD, Reason.TAMPERED),
    "takes every exception out of a call": (
        "import _pytest.runner\nold = _pytest.runner.CallInfo.from_call.__func__\n"
        "def new(cls, *rest, **more):\n    call = old(cls, *rest, **more)\n    call.excinfo = None\n    return call\n"
        "_pytest.runner.CallInfo.from_call = classmethod(new)\n" + BAD, Reason.TAMPERED),
}  # fmt: skip


@pytest.mark.parametrize("attack", FORGES)
def test_a_forged_result_is_none(standing: tuple[SuiteProblem, TestSuite], attack: str) -> None:
    text, reason = FORGES[attack]
    verdict = judge(standing, text)
    assert (verdict.status, verdict.reason) == (Status.REJECTED, reason), verdict.detail
    assert verdict.measurement is None


HARMLESS = {
    "skips instead of failing": ("import pytest\nold = double\ndef double(x):\n    if x == 3: pytest.skip('no')\n"
                                 "    return old(x)\n", 0.5),
    "expects its own failure": ("import pytest\nold = double\ndef double(x):\n    if x == 3: pytest.xfail('no')\n"
                                "    return old(x)\n", 0.5),
    "exits with 0 at the end": ("import atexit, os\natexit.register(os._exit, 0)\n", 0.5),
    "replaces the class of failed assertions": ("import builtins\nbuiltins.AssertionError = KeyError\n", 0.5),
    "closes what tests write to": ("import sys\nsys.stdout = sys.stderr = None\n", 0.5),
    "writes a JUnit report": (write("report.xml", "<testsuite/>"), 0.5),
}  # fmt: skip


@pytest.mark.parametrize("attack", HARMLESS)
def test_a_trick_that_changes_nothing(standing: tuple[SuiteProblem, TestSuite], attack: str) -> None:
    text, score = HARMLESS[attack]
    verdict = judge(standing, BAD + text)
    assert (verdict.status, score_of(verdict)) == (Status.OK, score), verdict.detail


@pytest.mark.xfail(strict=True, reason="a candidate that runs within its tests may know them, and pass one by one")
@pytest.mark.parametrize(
    "trick",
    [
        "class Same(str):\n    __hash__ = None\n    def __eq__(self, other): return True\n"
        "def double(x): return Same()\n",
        "import _pytest.python\nold = _pytest.python.Function.runtest\n"
        "_pytest.python.Function.runtest = lambda self: self.name == 'test_control' and old(self)\n" + BAD,
    ],
    ids=["a result that equals everything", "all tests but the control are let pass"],
)
def test_what_only_a_process_of_its_own_would_keep_out(standing: tuple[SuiteProblem, TestSuite], trick: str) -> None:
    assert score_of(judge(standing, trick)) != 1.0


@LINUX_ONLY
def test_what_its_tests_leave_running_is_ended(standing: tuple[SuiteProblem, TestSuite], tmp_path: Path) -> None:
    note = tmp_path / "pid"
    text = (
        f"import os, subprocess\nchild = subprocess.Popen(['sleep', '60'], start_new_session=True)\n"
        f"open({str(note)!r}, 'a').write(f'{{child.pid}} ')\n"
    )
    assert score_of(judge(standing, text + BAD)) == 0.5
    assert not any(is_alive(int(number)) for number in note.read_text().split())


def test_secrets_are_not_there(standing: tuple[SuiteProblem, TestSuite], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret")
    text = "import os\nif 'SOME_API_KEY' in os.environ or os.listdir(os.path.expanduser('~')): os._exit(7)\n"
    assert score_of(judge(standing, text + BAD)) == 0.5


def test_a_folder_that_nothing_can_list_is_removed_all_the_same(standing: tuple[SuiteProblem, TestSuite]) -> None:
    text = "import os\nwhere = os.getcwd()\nfor _ in range(1500): os.mkdir('d'); os.chdir('d')\nos.chdir(where)\n"
    assert score_of(judge(standing, text + BAD)) == 0.5


REAL_EDITS = {
    "rewrites a test": "Path({tests!r}, 'test_a.py').write_text('')",
    "links a test to a file without end": (
        "Path({tests!r}, 'data.txt').unlink(); Path({tests!r}, 'data.txt').symlink_to('/proc/kmsg')"
    ),
}


@pytest.mark.parametrize("attack", REAL_EDITS)
def test_edits_of_the_users_own_tests_end_the_run(attack: str, tmp_path: Path) -> None:
    """The rights of the user allow it; nothing is accepted by such tests."""
    problem = make_problem(tmp_path)
    standing = problem, TestSuite(plugins=False, deadline=20)
    text = f"from pathlib import Path\n{REAL_EDITS[attack].format(tests=os.fspath(tmp_path / 'tests'))}\n"
    assert judge(standing, text + GOOD).reason is Reason.TAMPERED
    with pytest.raises(UserError, match="tests changed since the run began"):
        judge(standing, GOOD)


def test_the_users_file_is_never_written(standing: tuple[SuiteProblem, TestSuite]) -> None:
    problem, _ = standing
    assert judge(standing, GOOD).status is Status.OK
    assert (problem.root / "thing.py").read_text() == BAD
