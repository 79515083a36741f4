"""The guard between us and a program that may do anything: `sandbox_main.py SETTINGS PROGRAM ARGUMENT...`

Started by `sandbox.Sandbox` only, with its settings as JSON. Starts the program in a session of its own, within
limits, waits for it, and ends with the status it had. When the program has ended, or the parent closes its end of a
pipe (as its death does too), everything that the program started is killed, whatever group or session it moved to. It
stands alone and imports little, so that it starts in milliseconds.
"""

import ctypes
import json
import os
import resource
import select
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
IS_LINUX = sys.platform == "linux"
CLEARING_SECONDS = 5.0
"""How long a storm of new processes is fought before the parent is told that the program has ended."""
CANNOT_START = 127


def main() -> NoReturn:
    settings: dict[str, Any] = json.loads(sys.argv[1])
    life: int = settings["life"]
    if IS_LINUX:
        # Orphans of the program become children of this process, so that none is out of sight.
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    wake, woken = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(woken, False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    child = os.fork()
    if child == 0:
        for descriptor in (life, wake, woken):
            os.close(descriptor)
        _become(settings, sys.argv[2:])
    for descriptor in settings["descriptors"]:
        os.close(descriptor)
    status = _watch(child, life, wake)
    _clear(child)
    if os.getppid() != settings["parent"]:
        # Nobody else is left to do it. Imported here because it takes longer than all else; by path, as nothing of ours
        # can be imported by name.
        import runpy

        removal = runpy.run_path(str(Path(__file__).with_name("removal.py")))
        removal["remove_tree"](Path(settings["scratch"]))
    _end(status)


def _become(settings: dict[str, Any], command: list[str]) -> NoReturn:
    """Turn this process into the program."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        if not settings["network"]:
            leave_network()
        if IS_LINUX:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        for name, most in settings["limits"].items():
            _limit(getattr(resource, name), most)
        os.execve(command[0], command, os.environ)
    except BaseException as error:
        os.write(2, f"{command[0]} cannot be started: {error}\n".encode())
        os._exit(CANNOT_START)


def _limit(limit: int, most: int) -> None:
    hard = resource.getrlimit(limit)[1]
    value = most if hard == resource.RLIM_INFINITY else min(most, hard)
    # macOS refuses a limit on address space; the deadline is then the only guard.
    with suppress(*() if IS_LINUX else (ValueError, OSError)):
        resource.setrlimit(limit, (value, value))


def leave_network() -> bool:
    """Give up all network interfaces for good; False where the system does not let this user do so."""
    if not IS_LINUX:
        return False
    unshare = ctypes.CDLL(None).unshare
    user, group = os.getuid(), os.getgid()
    if unshare(CLONE_NEWNET) == 0:
        return True
    if unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0:
        return False
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    return True


def _watch(child: int, life: int, wake: int) -> int | None:
    """The program's status; None when it has to be ended because the parent says so or is gone."""
    while True:
        with suppress(ChildProcessError):
            while True:
                ended, status = os.waitpid(-1, os.WNOHANG)
                if ended == child:
                    return status
                if ended == 0:
                    break
        ready, _, _ = select.select([life, wake], [], [])
        if life in ready:
            return None
        with suppress(BlockingIOError):
            while os.read(wake, 512):
                pass


def _clear(child: int) -> None:
    """Kill all that is left, again and again, because it may be starting more."""
    end = time.monotonic() + CLEARING_SECONDS
    while time.monotonic() < end:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        for process in _descendants():
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.001)


def _descendants() -> list[int]:
    """Of this process, as far as the system tells."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir() if IS_LINUX else ():
        if entry.name.isdigit():
            with suppress(OSError):
                # The name before the last parenthesis may hold anything.
                parent = int((entry / "stat").read_bytes().rpartition(b")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found = list(children.get(os.getpid(), ()))
    for process in found:
        found += children.get(process, ())
    return found


def _end(status: int | None) -> NoReturn:
    """End as the program did, so that the parent sees what killed it."""
    if status is not None and os.WIFSIGNALED(status):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        number = os.WTERMSIG(status)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status) if status is not None else 0)


if __name__ == "__main__":
    main()
