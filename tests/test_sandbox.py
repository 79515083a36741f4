"""The sandbox: limits hold, secrets stay out, nothing survives, nobody waits for the program."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from optimizer.errors import InfrastructureError
from optimizer.sandbox import Sandbox, SandboxLimits, missing_protection
from tests.sandboxed import is_alive, run, told
from verifiers.sandbox import run_once

LINUX_ONLY = pytest.mark.skipif(sys.platform != "linux", reason="other systems cannot")


def test_request_and_answer() -> None:
    assert told("answer(value=request['text'])") == "hello"


@pytest.mark.parametrize(
    ("limit", "most"),
    [("RLIMIT_CORE", 0), ("RLIMIT_NOFILE", 1024), ("RLIMIT_FSIZE", 1 << 28), ("RLIMIT_CPU", 10_000)],
)
def test_limits_are_set_for_good(limit: str, most: int) -> None:
    soft, hard = told(f"import resource; answer(value=resource.getrlimit(resource.{limit}))")
    assert 0 <= soft == hard <= most


@LINUX_ONLY
def test_address_space_and_processes_are_limited() -> None:
    script = (
        "import resource; answer(value=[resource.getrlimit(n)[1] for n in (resource.RLIMIT_AS, resource.RLIMIT_NPROC)])"
    )
    address, processes = told(script)
    assert 0 < address <= max(1 << 30, psutil.virtual_memory().total)
    assert 0 < processes < 1 << 20


def test_the_status_is_the_programs() -> None:
    assert run("sys.exit(3)").returncode == 3
    assert run("os.abort()").returncode == -signal.SIGABRT
    assert run("os.kill(os.getpid(), 9)").returncode == -signal.SIGKILL
    assert "SIGABRT: bye" in run("print('bye', flush=True); os.abort()").describe()


@LINUX_ONLY
def test_everything_dies_with_the_parent(tmp_path: Path) -> None:
    note = tmp_path / "pids"
    script = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from optimizer.sandbox import Sandbox, SandboxLimits\n"
        f"shell = 'setsid sleep 600 & echo $! $$ > {note}; wait'\n"
        "sandbox = Sandbox(['/bin/sh', '-c', shell], SandboxLimits(1 << 30), output=sys.stderr.buffer)\n"
        "time.sleep(600)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parent.parent), "TMPDIR": str(tmp_path)}
    parent = subprocess.Popen([sys.executable, "-c", script], env=environment)
    while not note.exists() or len(note.read_text().split()) < 2:
        assert parent.poll() is None
        time.sleep(0.02)
    parent.kill()
    parent.wait()
    assert not any(is_alive(int(number)) for number in note.read_text().split())
    end = time.monotonic() + 5
    while list(tmp_path.glob("loopwright-*")):
        assert time.monotonic() < end, "the temporary folder is left"
        time.sleep(0.02)


def test_a_forgotten_program_is_ended_and_its_folder_removed(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as output:
        sandbox = Sandbox(["/bin/sleep", "600"], SandboxLimits(1 << 30), output=output, scratch_parent=tmp_path)
    number = sandbox.process_id
    assert len(list(tmp_path.glob("loopwright-*"))) == 1
    del sandbox
    assert not psutil.pid_exists(number)
    assert not list(tmp_path.glob("loopwright-*"))


def test_ending_twice_is_fine_and_nothing_is_waited_for(tmp_path: Path) -> None:
    deaf = [
        sys.executable,
        "-c",
        "import signal, time\nfor n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\ntime.sleep(99)",
    ]
    with (tmp_path / "log").open("wb") as output:
        sandbox = Sandbox(deaf, SandboxLimits(1 << 30), output=output)
    assert sandbox.wait(0.2) is None
    start = time.monotonic()
    sandbox.end()
    sandbox.end()
    assert time.monotonic() - start < 2
    assert sandbox.poll() is not None


def test_what_cannot_be_started(tmp_path: Path) -> None:
    ended = run_once([str(tmp_path / "missing")], 5)
    assert ended.returncode == 127
    assert "cannot be started" in ended.output
    with pytest.raises(InfrastructureError, match="cannot start"):
        run_once([sys.executable], 5, directory=tmp_path / "missing")


def test_missing_protection_is_told_in_sentences() -> None:
    assert all(sentence.endswith(".") for sentence in missing_protection())
    assert json.dumps(missing_protection())
