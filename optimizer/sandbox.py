"""Where everything runs that we do not trust: a process with limits, without secrets, that leaves nothing behind.

The program runs below a guard (`sandbox_main.py`) in a session of its own, with limits on processor time, address
space, the size of files, open files and processes, in a temporary folder that is its home too, and without the
network where the system lets us take it away. It is no prison: a program that wants to do harm has the rights of the
user. On Linux nothing that it starts survives it, whatever group or session that moved to; on macOS what left its
group does, and address space is not limited.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

from optimizer.errors import InfrastructureError
from optimizer.removal import remove_tree

KEPT_VARIABLES = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""All that a program inherits of the environment: no keys, no tokens, no home."""
MARK = "LOOPWRIGHT_SANDBOX"
"""The variable by which what a killed guard left behind is found."""
ENDING_SECONDS = 10.0
"""What the guard may take to end everything before it is killed itself."""


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """What a program may use; a limit of the user's own that is lower stands."""

    address_bytes: int
    file_bytes: int = 64 << 20
    """Of the largest file it may write, its output included."""
    open_files: int = 1024
    more_processes: int = 512
    """Processes and threads on top of what the user has by now; the system does not hold root to it."""
    cpu_seconds: int | None = None
    """Of all threads of one process together; None is no limit."""
    network: bool = False
    """Whether it keeps the network."""

    def as_settings(self) -> Mapping[str, int]:
        """Name of each limit of the system -> its value."""
        limits = {
            "RLIMIT_AS": self.address_bytes,
            "RLIMIT_FSIZE": self.file_bytes,
            "RLIMIT_NOFILE": self.open_files,
            "RLIMIT_NPROC": _tasks_of_user() + self.more_processes,
            "RLIMIT_CORE": 0,
        }
        return limits if self.cpu_seconds is None else {**limits, "RLIMIT_CPU": self.cpu_seconds}


class Sandbox:
    """A program that runs, until it ends or is ended."""

    def __init__(
        self,
        command: Sequence[str],
        limits: SandboxLimits,
        *,
        output: IO[bytes],
        stdin: IO[bytes] | None = None,
        directory: Path | None = None,
        scratch_parent: Path | None = None,
        descriptors: Sequence[int] = (),
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """Start `command`, whose first part is the path of a program.

        It runs in `directory`, or else in a temporary folder, which is made in `scratch_parent` and is its home in any
        case. It prints into `output` and inherits `descriptors`. Raises `InfrastructureError` if it cannot start.
        """
        life_read, life = os.pipe()
        scratch = ""
        try:
            scratch = tempfile.mkdtemp(prefix="loopwright-", dir=scratch_parent)
            mark = secrets.token_hex(16)
            settings = {
                "life": life_read,
                "parent": os.getpid(),
                "scratch": scratch,
                "limits": limits.as_settings(),
                "network": limits.network,
                "descriptors": list(descriptors),
            }
            guard = [sys.executable, "-I", "-S", str(Path(__file__).with_name("sandbox_main.py")), json.dumps(settings)]
            process = subprocess.Popen(
                [*guard, *command],
                cwd=directory or scratch,
                env=_environment(scratch, mark, variables or {}),
                stdin=stdin or subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(life_read, *descriptors),
                start_new_session=True,
            )
        except OSError as error:
            os.close(life)
            if scratch:
                remove_tree(Path(scratch))
            raise InfrastructureError(f"cannot start {command[0]}: {error.strerror or error}") from error
        finally:
            os.close(life_read)
        self._process = process
        self._end = weakref.finalize(self, _end, process, life, scratch, mark)

    @property
    def process_id(self) -> int:
        """Of the guard, which lives as long as the program does."""
        return self._process.pid

    def poll(self) -> int | None:
        """The program's exit status, negative for a signal; None while it runs."""
        return self._process.poll()

    def wait(self, seconds: float) -> int | None:
        """The same, after waiting for it."""
        with suppress(subprocess.TimeoutExpired):
            return self._process.wait(max(0.0, seconds))
        return None

    def end(self) -> None:
        """Kill the program with everything that it started and remove its folder; never waits on what it does.

        Also done when this object is forgotten.
        """
        self._end()


def total_memory() -> int:
    """Bytes of the machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def missing_protection() -> tuple[str, ...]:
    """What the sandbox cannot do on this system, one sentence each."""
    missing: list[str] = []
    if sys.platform != "linux":
        missing.append("Address space of candidates is not limited here; only the deadline stops a memory hog.")
        missing.append("A process that leaves the group of the candidate that started it survives.")
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import sandbox_main; sys.exit(not sandbox_main.leave_network())"
    )
    command = [sys.executable, "-I", "-S", "-c", script, str(Path(__file__).parent)]
    if subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
        missing.append("Candidates can reach the network: the system lets no user give it up.")
    if hasattr(os, "getuid") and os.getuid() == 0:
        missing.append("The number of processes is not limited for root: run as another user.")
    return tuple(missing)


def _environment(scratch: str, mark: str, variables: Mapping[str, str]) -> dict[str, str]:
    return {
        **{name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ},
        "HOME": scratch,
        "TMPDIR": scratch,
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        MARK: mark,
        **variables,
    }


def _tasks_of_user() -> int:
    """Processes and threads that count towards this user's limit."""
    if sys.platform != "linux":
        return len(psutil.pids())
    count = 0
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with suppress(OSError):
                found = Path(entry.path, "task").stat()
                count += (found.st_nlink - 2) * (found.st_uid == os.getuid())
    return count


def _end(process: subprocess.Popen[bytes], life: int, scratch: str, mark: str) -> None:
    started = [] if sys.platform == "linux" or process.poll() is not None else _children(process.pid)
    os.close(life)
    try:
        process.wait(ENDING_SECONDS)
    except subprocess.TimeoutExpired:
        # The program stopped its guard, whose children are all that it started as long as the guard is not dead.
        started += _children(process.pid)
        process.kill()
        process.wait()
    if process.returncode == -signal.SIGKILL:
        # Either the program was killed, or it killed its guard, which then could not clear up.
        started += _marked(mark)
    for child in started:
        with suppress(psutil.Error):
            child.kill()
    remove_tree(Path(scratch))


def _children(process_id: int) -> list[psutil.Process]:
    with suppress(psutil.Error):
        return psutil.Process(process_id).children(recursive=True)
    return []


def _marked(mark: str) -> list[psutil.Process]:
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.environ().get(MARK) == mark:
                found.append(process)
    return found
