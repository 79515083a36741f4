"""The engine's process: reads jobs from standard input, one JSON object a line, and answers on standard output.

A process of its own, because isl belongs to one thread and holds the interpreter while it computes, and the server has
to answer meanwhile; and because a crash ends only this process. Two threads: the main one does the jobs, another one
listens, so that a job can be cancelled. To cancel is the same as an interrupt from the keyboard: a run ends with
everything saved. When the server is gone, so is the engine.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import IO, Any

from optimizer.errors import CandidateError, InfrastructureError, UserError
from optimizer.mcp.confinement import Root
from optimizer.mcp.jobs import JOBS


class Engine:
    """Does jobs one after the other."""

    def __init__(self, root: Root, answers: IO[str]) -> None:
        self._root, self._answers = root, answers
        self._jobs: queue.SimpleQueue[Mapping[str, Any] | None] = queue.SimpleQueue()
        self._cancelled: set[int] = set()
        self._working_on: int | None = None
        self._server_is_gone = threading.Event()

    def serve(self, commands: IO[str]) -> None:
        """Do jobs until `commands` ends. Only for the main thread."""
        signal.signal(signal.SIGINT, self._interrupt)
        listener = threading.Thread(target=self._listen, args=(commands,), daemon=True)
        listener.start()
        self._write({"ready": True})
        while (job := self._jobs.get()) is not None:
            self._write({"number": job["number"], **self._answer(job)})

    def _answer(self, job: Mapping[str, Any]) -> dict[str, Any]:
        number = job["number"]

        def tell(message: str, done: float | None = None, total: float | None = None) -> None:
            self._write({"number": number, "message": message, "done": done, "total": total})

        try:
            try:
                self._working_on = number
                self._interrupt()
                return {"answer": JOBS[job["job"]](self._root, tell, **job["arguments"])}
            finally:
                self._working_on = None
        except (UserError, CandidateError) as error:
            return {"error": str(error)}
        except InfrastructureError as error:
            return {"error": f"the measuring failed, not the candidate: {error}"}
        except KeyboardInterrupt:
            return {"error": "cancelled"}

    def _interrupt(self, _signal: int = 0, _frame: FrameType | None = None) -> None:
        """Python calls this in the main thread, so no job can end or begin meanwhile."""
        number = self._working_on
        if number is not None and (number in self._cancelled or self._server_is_gone.is_set()):
            self._cancelled.discard(number)
            raise KeyboardInterrupt

    def _listen(self, commands: IO[str]) -> None:
        for line in commands:
            command = json.loads(line)
            if "cancel" in command:
                self._cancelled.add(command["cancel"])
                os.kill(os.getpid(), signal.SIGINT)
            else:
                self._jobs.put(command)
        self._server_is_gone.set()
        self._jobs.put(None)
        os.kill(os.getpid(), signal.SIGINT)

    def _write(self, message: Mapping[str, Any]) -> None:
        """An interrupt waits for the end of the line, so that no line is torn."""
        working_on, self._working_on = self._working_on, None
        try:
            self._answers.write(json.dumps(message, allow_nan=False) + "\n")
            self._answers.flush()
        except BrokenPipeError:
            self._server_is_gone.set()
        self._working_on = working_on
        self._interrupt()


def main() -> None:
    """`python -m optimizer.mcp.engine_main ROOT`."""
    root = Root.at(Path(sys.argv[1]))
    os.chdir(root.path)
    commands, answers = _private(0, "r"), _private(1, "w")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    Engine(root, answers).serve(commands)


def _private(descriptor: int, mode: str) -> IO[str]:
    """A stream of our own: whatever else prints or reads here, or in a process started from here, cannot touch it."""
    return os.fdopen(os.dup(descriptor), mode, encoding="utf-8")


if __name__ == "__main__":
    main()
