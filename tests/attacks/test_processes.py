"""Whatever a candidate does to its own process and to those around it, it costs seconds and the next one is judged."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from optimizer.errors import InfrastructureError
from optimizer.measure.bench import Bench, TimeLimits
from optimizer.measure.lane import TimingLane
from optimizer.verdict import Reason, Status
from tests.attacks.candidates import HONEST_CALL, PROBLEM, checked, is_honest_work_accepted, is_rejected, scripted
from tests.measured_problem import COMPILED_ONLY, ORIGINAL_BODY, TextProblem, module

SOON = 1.5
"""Seconds after which what hangs is ended, where something is meant to hang."""
SMALL = replace(PROBLEM, small=({"n": 2, "m": 3},))
LINUX_ONLY = pytest.mark.skipif(sys.platform != "linux", reason="other systems cannot")
ENOUGH_SECONDS = 30
"""After which what should have been stopped ends by itself."""
ENDLESS = f"end = time.monotonic() + {ENOUGH_SECONDS}\nwhile time.monotonic() < end:\n    pass"
HEAD = "import os, signal, sys, threading, time"


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    directory = tmp_path_factory.mktemp("bench")
    limits = TimeLimits(call=10, build=20, check=60)
    with Bench(directory, threads=2, limits=limits, lane=TimingLane(directory / "lane")) as bench:
        assert is_honest_work_accepted(bench, SMALL)
        yield bench


@pytest.fixture(autouse=True)
def fresh_process(bench: Bench) -> Iterator[None]:
    bench.worker.close()
    yield
    assert bench.worker.process_id is None, "others would meet what it did to its process"


@pytest.mark.parametrize(
    ("body", "reason", "said"),
    [
        pytest.param(ENDLESS, Reason.TIMED_OUT, "n=2, m=3", id="an endless loop"),
        pytest.param(
            f"for number in (1, 2, 3, 15, 24):\n    signal.signal(number, signal.SIG_IGN)\n{ENDLESS}",
            Reason.TIMED_OUT,
            "n=2, m=3",
            id="an endless loop that is deaf to signals",
        ),
        pytest.param("os.kill(os.getpid(), signal.SIGSTOP)", Reason.TIMED_OUT, "not done", id="stopping itself"),
        pytest.param(f"time.sleep({ENOUGH_SECONDS})", Reason.TIMED_OUT, "not done", id="sleeping"),
        pytest.param(
            "lock = threading.Lock()\nlock.acquire()\nlock.acquire(timeout=30)",
            Reason.TIMED_OUT,
            "not done",
            id="a deadlock",
        ),
        pytest.param("sys.exit(0)", Reason.CRASHED, "by itself with status 0", id="leaving politely"),
        pytest.param("os._exit(0)", Reason.CRASHED, "by itself with status 0", id="leaving at once"),
        pytest.param(
            "threading.Thread(target=os._exit, args=(0,)).start()\ntime.sleep(5)",
            Reason.CRASHED,
            "by itself with status 0",
            id="leaving from a thread",
        ),
        pytest.param(
            "import atexit\natexit.register(os._exit, 0)\nsys.exit(1)",
            Reason.CRASHED,
            "by itself with status 0",
            id="a status of its own at exit",
        ),
        pytest.param("raise KeyboardInterrupt", Reason.CRASHED, "", id="an interrupt that nobody sent"),
        pytest.param("raise GeneratorExit", Reason.CRASHED, "by itself", id="an exception that is none"),
        pytest.param(
            "class Odd(Exception):\n    def __str__(self): raise SystemExit(0)\nraise Odd",
            Reason.WRONG_RESULT,
            "it raises Odd",
            id="an exception that leaves when it is printed",
        ),
        pytest.param("os.abort()", Reason.CRASHED, "SIGABRT", id="aborting"),
        pytest.param("import ctypes\nctypes.string_at(0)", Reason.CRASHED, "SIGSEGV", id="a null pointer"),
        pytest.param("os.kill(os.getpid(), signal.SIGKILL)", Reason.OUT_OF_MEMORY, "", id="killing itself"),
        pytest.param(
            "os.kill(os.getppid(), signal.SIGKILL)\ntime.sleep(5)", Reason.OUT_OF_MEMORY, "", id="killing its guard"
        ),
        pytest.param(
            "sys.setrecursionlimit(10**9)\nnested = []\nfor _ in range(10**6):\n    nested = [nested]\nrepr(nested)",
            Reason.CRASHED,
            "SIGSEGV",
            id="recursion without end",
        ),
        pytest.param("waste = np.empty(10**13)\nA[0, 0] += waste[0]", Reason.OUT_OF_MEMORY, "", id="terabytes at once"),
        pytest.param(
            "waste = []\nwhile len(waste) < 400:\n    waste.append(np.empty(2**21))",
            Reason.OUT_OF_MEMORY,
            "",
            id="a growing list of arrays",
        ),
        pytest.param(
            "import mmap\nwaste = []\nwhile len(waste) < 100:\n    waste.append(mmap.mmap(-1, 2**26))",
            Reason.WRONG_RESULT,
            "Cannot allocate memory",
            id="memory mapped past Python",
        ),
        pytest.param(
            "kept = []\nwhile len(kept) < 5000:\n    kept.append(os.dup(2))",
            Reason.WRONG_RESULT,
            "Too many open files",
            id="all open files",
        ),
    ],
)
def test_what_it_does_to_its_process(
    bench: Bench, body: str, reason: Reason, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if reason is Reason.TIMED_OUT:
        monkeypatch.setattr(bench, "limits", replace(bench.limits, call=SOON))
    start = time.monotonic()
    verdict = checked(bench, scripted(body, HEAD), SMALL)
    assert is_rejected(verdict, reason), verdict
    assert said in verdict.detail
    assert time.monotonic() - start < ENOUGH_SECONDS


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("time.sleep(30)", Reason.BUILD_FAILED),
        ("os._exit(0)", Reason.CRASHED),
        ("raise SystemExit(0)", Reason.CRASHED),
        ("raise KeyboardInterrupt", Reason.CRASHED),
        ("scale_sum = None", Reason.WRONG_RESULT),
    ],
    ids=["sleeping", "leaving at once", "leaving politely", "an interrupt", "no function after all"],
)
def test_what_its_module_does_when_loaded(
    bench: Bench, line: str, reason: Reason, monkeypatch: pytest.MonkeyPatch
) -> None:
    if reason is Reason.BUILD_FAILED:
        monkeypatch.setattr(bench, "limits", replace(bench.limits, build=SOON))
    verdict = checked(bench, f"{scripted(head=HEAD)}\n{line}", SMALL)
    assert is_rejected(verdict, reason), verdict


@pytest.mark.parametrize(
    ("mischief", "reason"),
    [
        ("while True:\n    A[0, 0] += 1.0", Reason.TIMED_OUT),
        ("waste = np.empty(10**12)\nA[0, 0] += 0.0 * waste[0]", Reason.OUT_OF_MEMORY),
    ],
    ids=["an endless loop", "terabytes at once"],
)
def test_what_compiled_code_does(bench: Bench, mischief: str, reason: Reason, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Python's lock, its signals and its exceptions."""
    if reason is Reason.TIMED_OUT:
        monkeypatch.setattr(bench, "limits", replace(bench.limits, call=SOON))
    indented = mischief.replace("\n", "\n    ")
    body = f"{ORIGINAL_BODY}\nif is_compiled():\n    {indented}"
    text = module(body, "nogil=True, error_model='numpy'", COMPILED_ONLY)
    verdict = checked(bench, text, TextProblem(small=SMALL.small))
    assert is_rejected(verdict, reason), verdict
    assert "thread" in verdict.detail


@pytest.mark.parametrize(
    "body",
    [
        "print('x' * (1 << 20) * 200, flush=True)",
        "for _ in range(200):\n    os.write(2, b'x' * (1 << 20))",
        "with open('flood', 'wb') as file:\n    for _ in range(200):\n        file.write(b'x' * (1 << 20))",
    ],
    ids=["on standard output", "on standard error", "into a file"],
)
def test_a_flood_of_200_megabytes(bench: Bench, body: str) -> None:
    verdict = checked(bench, scripted(body, HEAD), SMALL)
    assert verdict.status is Status.REJECTED
    assert verdict.reason in (Reason.CRASHED, Reason.WRONG_RESULT), verdict
    assert len(verdict.detail) < 10_000
    written = sum(file.stat().st_size for file in bench.directory.rglob("*") if file.is_file())
    assert written < 100 << 20


def left_alive(note: Path) -> list[int]:
    """Processes of a list that still run, some moments after they should have been killed."""
    alive = [int(text) for text in note.read_text().split()]
    deadline = time.monotonic() + 2
    while alive and time.monotonic() < deadline:
        time.sleep(0.02)
        alive = [number for number in alive if psutil.pid_exists(number) and not is_zombie(number)]
    return alive


def is_zombie(number: int) -> bool:
    try:
        return psutil.Process(number).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@LINUX_ONLY
@pytest.mark.parametrize("ending", ["os._exit(0)", "total[:] = 0.0", "time.sleep(30)"], ids=["exit", "wrong", "late"])
def test_daemons_that_it_leaves_behind(bench: Bench, tmp_path: Path, ending: str) -> None:
    """Twice forked, in sessions of their own, deaf to polite signals; three, of ten seconds at most."""
    body = f"""
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            with open({str(tmp_path / "pids")!r}, 'a') as note:
                note.write(f'{{os.getpid()}} ')
            time.sleep(10)
        os._exit(0)
time.sleep(0.5)
{ending}
"""
    assert checked(bench, scripted(body, HEAD), SMALL).status is Status.REJECTED
    assert (tmp_path / "pids").exists()
    assert left_alive(tmp_path / "pids") == []


@LINUX_ONLY
def test_a_storm_of_processes(bench: Bench, tmp_path: Path) -> None:
    """Two hundred, of five seconds at most."""
    body = f"""
note = os.open({str(tmp_path / "pids")!r}, os.O_WRONLY | os.O_CREAT)
for _ in range(200):
    pid = os.fork()
    if pid == 0:
        time.sleep(5)
        os._exit(0)
    os.write(note, f'{{pid}} '.encode())
total[:] = 0.0
"""
    assert checked(bench, scripted(body, HEAD), SMALL).status is Status.REJECTED
    assert (tmp_path / "pids").exists()
    assert left_alive(tmp_path / "pids") == []


@LINUX_ONLY
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_the_process_of_the_original(bench: Bench, number: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who says what is right is gone: that is no verdict, and the next one gets its own."""
    assert is_honest_work_accepted(bench, SMALL)
    other = replace(PROBLEM, small=({"n": 3, "m": 2 + int(number is signal.SIGKILL)},))
    body = f"{HONEST_CALL}\nos.kill({bench.clean_worker.own_process_id}, {int(number)})"
    with monkeypatch.context() as patch:
        patch.setattr(bench, "limits", replace(bench.limits, check=8))
        with pytest.raises(InfrastructureError, match="no candidate was running"):
            checked(bench, scripted(body, HEAD), other)
    verdict = checked(bench, scripted(), other)
    assert verdict.status is Status.OK, verdict
    bench.worker.close()


@pytest.mark.parametrize(
    "body",
    [
        "import shutil\nshutil.rmtree(os.getcwd())",
        "os.chdir('/')",
        "os.symlink('/', 'outside')\nos.symlink(os.getcwd(), 'circle')",
        "os.makedirs('a/b/c')\nos.chmod('a/b', 0)\nos.chmod('a', 0)",
        "os.mkfifo('pipe')",
        "for number in range(300):\n    open(f'file{number}', 'w').close()",
    ],
    ids=["removed", "left", "links to outside", "closed folders", "a pipe with a name", "three hundred files"],
)
def test_its_folder(bench: Bench, body: str) -> None:
    """What it leaves there goes with it, and nothing that only has a link there does."""
    body += "\ntotal[:] = 0.0"
    of_others = set(bench.directory.glob("loopwright-*"))
    assert is_rejected(checked(bench, scripted(body, HEAD), SMALL), Reason.WRONG_RESULT, Reason.CRASHED)
    assert set(bench.directory.glob("loopwright-*")) <= of_others
    assert is_honest_work_accepted(bench, SMALL)
    bench.worker.close()


def test_the_files_of_the_run(bench: Bench) -> None:
    """Modules, logs and the original's source deleted: all of them are made again or not needed."""
    body = f"""
import pathlib
for file in pathlib.Path({str(bench.directory)!r}).glob('*'):
    if file.is_file():
        file.unlink()
total[:] = 0.0
"""
    assert is_rejected(checked(bench, scripted(body, HEAD), SMALL), Reason.WRONG_RESULT)
    assert is_honest_work_accepted(bench, SMALL)
    bench.worker.close()
