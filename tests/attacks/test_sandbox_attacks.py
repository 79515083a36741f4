"""A program that tries to get out of its sandbox, to outlive it, to stall its parent or to forge what it answers."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from optimizer.sandbox import ENDING_SECONDS, Sandbox, SandboxLimits, missing_protection
from tests.sandboxed import is_alive, run, told
from verifiers.sandbox import run_once

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems protect from less")


def test_control_an_honest_program_is_heard() -> None:
    assert told("answer(value=request['text'])") == "hello"


FORGED = {
    "noise": "os.write(pipe, b'x' * 100)",
    "an empty object": "send(b'{}')",
    "a list": "send(b'[]')",
    "a guessed nonce": "request['nonce'] = '0' * 32; answer(value=1)",
    "the nonce as a list": "request['nonce'] = [request['nonce']]; answer(value=1)",
    "ten thousand brackets within each other": "send(b'[' * 10000)",
    "a number of ten thousand digits": "send(b'{\"value\": ' + b'9' * 10000 + b'}')",
    "no text at all": "send(b'\\xff\\xfe{}')",
    "a pickle": "import pickle; send(pickle.dumps({'nonce': request['nonce'], 'value': 1}))",
    "four gigabytes are announced": "os.write(pipe, b'\\xff\\xff\\xff\\xff')",
    "on standard output": "sys.stdout.buffer.write(json.dumps({'nonce': request['nonce'], 'value': 1}).encode())",
    "a wrong answer first and the true one after it": "send(b'{}'); answer(value=1)",
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
def test_a_forged_answer_is_none(forged: str) -> None:
    ended = run(forged)
    assert (ended.answer, ended.returncode, ended.timed_out) == (None, 0, False)


def test_of_two_answers_the_second_changes_nothing() -> None:
    assert told("answer(value=1); answer(value=2)") == 1


def test_an_answer_that_never_ends_costs_the_deadline() -> None:
    start = time.monotonic()
    ended = run("import time\nos.write(pipe, b'\\x00\\x00\\xff\\xff{')\ntime.sleep(30)", deadline=0.7)
    assert (ended.answer, ended.timed_out) == (None, True)
    assert time.monotonic() - start < 4


def test_secrets_of_the_environment_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "secret")
    assert told("answer(value='secret' in str(dict(os.environ)))") is False
    # Nor in that of the guard, which runs as the same user.
    assert told("answer(value=b'secret' in open(f'/proc/{os.getppid()}/environ', 'rb').read())") is False


def test_home_is_an_empty_folder_that_goes() -> None:
    home, files = told("home = os.path.expanduser('~'); answer(value=[home, os.listdir(home)])")
    assert Path(home) != Path.home()
    assert files == []
    assert not Path(home).exists()


def test_descriptors_of_the_parent_are_not_inherited(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    with (tmp_path / "secret").open("rb") as file:
        os.set_inheritable(file.fileno(), True)
        script = """
links = {int(fd): os.readlink(f'/proc/self/fd/{fd}') for fd in os.listdir('/proc/self/fd') if
         os.path.exists(f'/proc/self/fd/{fd}')}
answer(value=[sorted(set(links) - {0, 1, 2, pipe}), any('secret' in link for link in links.values())])
"""
        assert told(script) == [[], False]


def test_standard_input_ends() -> None:
    assert told("answer(value=os.read(0, 10).decode())") == ""


def the_system_lets_the_network_go() -> bool:
    """By the system's own tool, so that a fault of ours does not pass for a lack of the system's."""
    command = shutil.which("unshare")
    ways = [["--net"], ["--map-root-user", "--net"]] if command else []
    return any(subprocess.run([str(command), *way, "true"], capture_output=True).returncode == 0 for way in ways)


def test_a_listener_outside_cannot_be_reached() -> None:
    if not the_system_lets_the_network_go():
        assert any("network" in sentence for sentence in missing_protection())
        pytest.skip("the system lets no user give the network up")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        script = f"""
import socket
try:
    socket.create_connection(("127.0.0.1", {port}), 1).close()
    answer(value="connected")
except OSError:
    answer(value="refused")
"""
        assert told(script) == "refused"
        assert told(script, network=True) == "connected"


FLOODS = {
    "standard output": "while True: os.write(1, b'x' * (1 << 20))",
    "a file": "f = os.open('f', os.O_CREAT | os.O_WRONLY)\nwhile True: os.write(f, b'x' * (1 << 22))",
    "a file with a hole": "os.truncate(os.open('f', os.O_CREAT | os.O_WRONLY), 1 << 40)",
}


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
def test_a_flood_ends_at_the_largest_file(flood: str) -> None:
    ended = run(f"import signal; signal.signal(signal.SIGXFSZ, signal.SIG_DFL)\n{flood}", deadline=20.0)
    assert ended.returncode == -signal.SIGXFSZ
    assert len(ended.output) <= 4000


def limited(script: str, tmp_path: Path, limits: SandboxLimits, seconds: float = 20.0) -> tuple[int | None, str]:
    with (tmp_path / "log").open("w+b") as output:
        sandbox = Sandbox([sys.executable, "-c", script], limits, output=output, scratch_parent=tmp_path)
        status = sandbox.wait(seconds)
        sandbox.end()
    return status, (tmp_path / "log").read_text()


def test_a_hog_of_memory_ends_at_its_limit(tmp_path: Path) -> None:
    script = "kept = []\nwhile len(kept) < 40: kept.append(bytearray(1 << 26))\nprint('unbounded')"
    status, output = limited(script, tmp_path, SandboxLimits(1 << 29))
    assert status == 1
    assert "MemoryError" in output


def test_a_loop_ends_at_its_limit_of_processor_time(tmp_path: Path) -> None:
    script = "import time\nend = time.monotonic() + 15\nwhile time.monotonic() < end: pass"
    status, _ = limited(script, tmp_path, SandboxLimits(1 << 30, cpu_seconds=1))
    assert status in (-signal.SIGXCPU, -signal.SIGKILL)


def test_open_files_end_at_their_limit(tmp_path: Path) -> None:
    script = "kept = []\nwhile len(kept) < 500: kept.append(open('/dev/null'))"
    status, output = limited(script, tmp_path, SandboxLimits(1 << 30, open_files=64))
    assert status == 1
    assert "Too many open files" in output


NOTED = """
import subprocess, time
def wait_for(note, count):
    while not os.path.exists(note) or len(open(note).read().split()) < count:
        time.sleep(0.01)
"""


@pytest.mark.parametrize(
    "ending", ["answer(value=[])", "sys.exit(0)", "time.sleep(60)"], ids=["answer", "exit", "stay"]
)
def test_grandchildren_in_sessions_of_their_own_do_not_survive(ending: str, tmp_path: Path) -> None:
    """Twice forked, in another session, without the environment, and deaf to polite signals."""
    note = tmp_path / "pids"
    script = f"""{NOTED}
hidden = ["/bin/sh", "-c", "trap '' TERM HUP INT; echo $$ >> {note}; exec sleep 60"]
for number in range(3):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.close(pipe)
            os.execve(hidden[0], hidden, {{}})
        os._exit(0)
wait_for({str(note)!r}, 3)
{ending}
"""
    start = time.monotonic()
    run(script, deadline=2.0)
    assert time.monotonic() - start < 5
    assert [number for number in note.read_text().split() if is_alive(int(number))] == []


def test_a_killed_guard_takes_the_program_with_it(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    script = f"""{NOTED}
import signal
if os.fork() == 0:
    os.setsid()
    open({str(note)!r}, "w").write(str(os.getpid()))
    time.sleep(60)
wait_for({str(note)!r}, 1)
os.kill(os.getppid(), signal.SIGKILL)
time.sleep(60)
"""
    ended = run(script, deadline=5.0)
    assert (ended.answer, ended.returncode) == (None, -signal.SIGKILL)
    assert not is_alive(int(note.read_text()))


HIDDEN = """{NOTED}
import signal
if os.fork() == 0:
    os.setsid()
    os.close(pipe)
    os.execve("/bin/sh", ["/bin/sh", "-c", "echo $$ > {note}; exec sleep 20"], {{}})
wait_for({note!r}, 1)
os.kill(os.getppid(), signal.{signal})
answer(value=1)
time.sleep(20)
"""


def test_a_stopped_guard_costs_seconds_and_hides_nothing(tmp_path: Path) -> None:
    """Its children are found although they have lost the mark of the sandbox."""
    note = str(tmp_path / "pid")
    start = time.monotonic()
    ended = run(HIDDEN.format(NOTED=NOTED, note=note, signal="SIGSTOP"), deadline=5.0)
    assert time.monotonic() - start < ENDING_SECONDS + 5
    assert ended.answer is not None
    assert not is_alive(int(Path(note).read_text()))


@pytest.mark.xfail(
    strict=True,
    reason="who kills the guard and has thrown off session, group and environment is not found any more",
)
def test_a_killed_guard_hides_no_process_without_a_mark(tmp_path: Path) -> None:
    note = str(tmp_path / "pid")
    run(HIDDEN.format(NOTED=NOTED, note=note, signal="SIGKILL"), deadline=5.0)
    hidden = int(Path(note).read_text())
    survived = is_alive(hidden)
    if survived:
        os.kill(hidden, signal.SIGKILL)
    assert not survived


STORMS = {
    "all at once": """
for number in range(200):
    if os.fork() == 0:
        time.sleep(5)
        os._exit(0)
""",
    "each starts the next": """
for number in range(200):
    if os.fork() != 0:
        time.sleep(5)
        os._exit(0)
    os.setsid()
time.sleep(5)
""",
}


@pytest.mark.parametrize("storm", STORMS.values(), ids=STORMS)
def test_a_storm_of_processes_is_cleared(storm: str) -> None:
    """Two hundred processes of five seconds and no more, whatever the defence does."""
    mark = f"storm{time.monotonic_ns()}"
    script = f"import time\nMARK = {mark!r}\n{storm}\nanswer(value=1)\ntime.sleep(5)"
    start = time.monotonic()
    run(script, deadline=2.0)
    assert time.monotonic() - start < 4.5
    assert not any(mark.encode() in command for command in commands())


def commands() -> list[bytes]:
    """The command lines of all processes."""
    found: list[bytes] = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(entry.read_bytes())
        except OSError:
            continue
    return found


DEBRIS = {
    "a thousand folders within each other": "for _ in range(1500): os.mkdir('d'); os.chdir('d')",
    "paths that are too long": "for _ in range(60): os.mkdir('d' * 200); os.chdir('d' * 200)",
    "three thousand files": "for number in range(3000): open(f'f{number}', 'w').close()",
    "a pipe nobody reads and a socket": "import socket; os.mkfifo('p'); socket.socket(socket.AF_UNIX).bind('s')",
    "folders closed to everybody": "os.makedirs('a/b/c'); os.chmod('a/b', 0); os.chmod('a', 0); os.chmod('.', 0o500)",
    "names that are no text": "os.mkdir(b'\\xff\\xfe'); open(b'\\xff\\xfe/\\x01\\n', 'w').close()",
    "links in a circle and out of it": "os.symlink('.', 'here'); os.symlink('/', 'root'); os.symlink('x', 'x')",
}


@pytest.mark.parametrize("debris", DEBRIS.values(), ids=DEBRIS)
def test_whatever_a_program_leaves_in_its_folder_is_removed(debris: str) -> None:
    home = str(told(f"home = os.environ['HOME']; os.chdir(home)\n{debris}\nanswer(value=home)"))
    assert home.startswith(tempfile.gettempdir())
    assert not os.path.lexists(home)


def test_a_folder_that_became_a_link_takes_nothing_with_it(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("x")
    script = f"home = os.environ['HOME']; os.rmdir(home); os.symlink({str(tmp_path)!r}, home); answer(value=home)"
    home = str(told(script))
    assert not os.path.lexists(home)
    assert (tmp_path / "precious").read_text() == "x"


def test_the_end_of_the_thread_that_started_it_does_not_end_a_program(tmp_path: Path) -> None:
    started: list[Sandbox] = []
    with (tmp_path / "log").open("wb") as output:

        def start() -> None:
            started.append(Sandbox(["/bin/sleep", "30"], SandboxLimits(1 << 30), output=output))

        thread = threading.Thread(target=start)
        thread.start()
        thread.join()
    assert started[0].wait(0.5) is None
    started[0].end()
    assert started[0].poll() is not None


def test_a_program_that_ignores_every_signal_ends_at_its_deadline() -> None:
    start = time.monotonic()
    ended = run_once(
        [
            sys.executable,
            "-c",
            "import signal, time\nfor n in set(signal.valid_signals()) - {9, 19}: signal.signal(n, signal.SIG_IGN)\n"
            "time.sleep(30)",
        ],
        0.7,
    )
    assert (ended.timed_out, ended.answer) == (True, None)
    assert time.monotonic() - start < 4
