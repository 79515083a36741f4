"""The sandbox: limits hold, secrets stay out, nothing survives, nobody waits for the program."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from optimizer.errors import InfrastructureError
from optimizer.sandbox import Sandbox, SandboxLimits, missing_protection
from verifiers.sandbox import Ended, run_once

LINUX_ONLY = pytest.mark.skipif(sys.platform != "linux", reason="other systems cannot")
ANSWER = """
import json, os, sys
request, pipe = json.loads(sys.stdin.read()), int(sys.argv[-1])
def answer(**message):
    body = json.dumps({"nonce": request["nonce"], **message}).encode()
    os.write(pipe, len(body).to_bytes(4, "big") + body)
"""


def run(script: str, deadline: float = 10.0, *, network: bool = False) -> Ended:
    return run_once([sys.executable, "-c", ANSWER + script], deadline, request={"text": "hello"}, network=network)


def told(script: str, **options: bool) -> Any:
    """What the script answers as `value`."""
    ended = run(script, **options)
    assert ended.answer is not None, ended
    return ended.answer["value"]


def is_alive(process_id: int) -> bool:
    """Whether a process goes on, some moments after it should have been killed."""
    for _ in range(50):
        try:
            if psutil.Process(process_id).status() == psutil.STATUS_ZOMBIE:
                return False
        except psutil.NoSuchProcess:
            return False
        time.sleep(0.02)
    return True


def test_request_and_answer() -> None:
    assert told("answer(value=request['text'])") == "hello"


@pytest.mark.parametrize(
    "forged",
    [
        "os.write(pipe, b'x' * 100)",
        "os.write(pipe, b'\\x00\\x00\\x00\\x02{}')",
        "request['nonce'] = 'guess'; answer(value=1)",
        "os.write(pipe, b'\\x00\\x00\\x00\\x02[]')",
    ],
    ids=["noise", "no nonce", "another nonce", "no object"],
)
def test_an_answer_without_the_nonce_is_none(forged: str) -> None:
    ended = run(forged)
    assert (ended.answer, ended.returncode, ended.timed_out) == (None, 0, False)


def test_an_answer_that_never_ends_costs_the_deadline() -> None:
    start = time.monotonic()
    ended = run("import time\nos.write(pipe, b'\\x00\\x00\\xff\\xff{')\ntime.sleep(60)", deadline=0.7)
    assert (ended.answer, ended.timed_out) == (None, True)
    assert time.monotonic() - start < 4


def test_environment_has_no_secrets_and_home_is_temporary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret")
    script = "answer(value=[sorted(os.environ), os.path.expanduser('~'), os.getcwd()])"
    names, home, folder = told(script)
    assert "SOME_API_KEY" not in names
    assert home == folder != str(Path.home())
    assert not Path(home).exists()


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


def test_a_flood_of_output_is_bounded() -> None:
    script = "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_DFL)\nwhile True: os.write(1, b'x' * (1 << 20))"
    ended = run(script, deadline=20.0)
    assert len(ended.output) <= 4000
    assert ended.returncode == -signal.SIGXFSZ


def test_the_status_is_the_programs() -> None:
    assert run("sys.exit(3)").returncode == 3
    assert run("os.abort()").returncode == -signal.SIGABRT
    assert run("os.kill(os.getpid(), 9)").returncode == -signal.SIGKILL
    assert "SIGABRT: bye" in run("print('bye', flush=True); os.abort()").describe()


@LINUX_ONLY
@pytest.mark.parametrize("ending", ["answer(value=[])", "sys.exit(0)", "import time; time.sleep(600)"])
def test_grandchildren_in_sessions_of_their_own_do_not_survive(ending: str, tmp_path: Path) -> None:
    """Twice forked, in another session, without the environment, and deaf to polite signals."""
    note = tmp_path / "pids"
    script = f"""
import subprocess
hidden = ["/bin/sh", "-c", "trap '' TERM HUP INT; echo $$ >> {note}; exec sleep 600"]
for number in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.close(pipe)
            os.execve(hidden[0], hidden, {{}})
        os._exit(0)
import time
while not os.path.exists({str(note)!r}) or len(open({str(note)!r}).read().split()) < 3:
    time.sleep(0.01)
{ending}
"""
    start = time.monotonic()
    run(script, deadline=2.0)
    assert time.monotonic() - start < 5
    survivors = [number for number in note.read_text().split() if is_alive(int(number))]
    assert survivors == []


@LINUX_ONLY
def test_a_killed_guard_takes_the_program_with_it(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    script = f"""
import signal, time
child = os.fork()
if child == 0:
    os.setsid()
    open({str(note)!r}, "w").write(str(os.getpid()))
    time.sleep(600)
while not os.path.exists({str(note)!r}) or not open({str(note)!r}).read():
    time.sleep(0.01)
os.kill(os.getppid(), signal.SIGKILL)
time.sleep(600)
"""
    ended = run(script, deadline=5.0)
    assert (ended.answer, ended.returncode) == (None, -signal.SIGKILL)
    assert not is_alive(int(note.read_text()))


def test_a_bounded_storm_of_processes_is_cleared(tmp_path: Path) -> None:
    """Two hundred short-lived processes and no more, whatever the defence does."""
    note = tmp_path / "pids"
    script = f"""
import time
pids = []
for number in range(200):
    pid = os.fork()
    if pid == 0:
        time.sleep(20)
        os._exit(0)
    pids.append(pid)
open({str(note)!r}, "w").write(" ".join(map(str, pids)))
answer(value=len(pids))
"""
    assert told(script) == 200
    assert not any(is_alive(int(number)) for number in note.read_text().split())


def the_system_lets_the_network_go() -> bool:
    """By the system's own tool, so that a fault of ours does not pass for a lack of the system's."""
    command = shutil.which("unshare")
    ways = [["--net"], ["--map-root-user", "--net"]] if command else []
    return any(subprocess.run([str(command), *way, "true"], capture_output=True).returncode == 0 for way in ways)


@LINUX_ONLY
def test_the_network_can_be_taken_away() -> None:
    if not the_system_lets_the_network_go():
        assert any("network" in sentence for sentence in missing_protection())
        pytest.skip("the system lets no user give it up")
    script = "import socket; answer(value=[name for _, name in socket.if_nameindex()])"
    assert told(script) == ["lo"]
    connecting = """
import socket
try:
    socket.create_connection(("127.0.0.1", 9), 1)
except ConnectionRefusedError:
    answer(value="reachable")
except OSError:
    answer(value="unreachable")
"""
    assert told(connecting) == "unreachable"
    assert told(connecting, network=True) == "reachable"


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
