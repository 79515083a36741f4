"""The server's side of the engine's process: start it, give it one job at a time, cancel a job, say why it died."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

import optimizer
from optimizer.errors import LoopwrightError
from optimizer.mcp.confinement import Root

LONGEST_LINE = 2**28
"""Bytes of an answer; a journal is one answer."""
CANCEL_SECONDS = 60.0
"""What a cancelled job may take to save its work."""
EXIT_SECONDS = 10.0
GONE = (
    anyio.EndOfStream,
    anyio.IncompleteRead,
    anyio.DelimiterNotFound,
    anyio.BrokenResourceError,
    anyio.ClosedResourceError,
)
"""What a pipe raises whose other end is closed, or sends no line."""

Tell = Callable[[str, float | None, float | None], Awaitable[None]]
"""Told a message, how much is done, and out of how much."""


class JobFailed(LoopwrightError):
    """The job has no answer; the message is for the client."""


class Engine:
    """Does one job at a time for any number of callers; the others wait and are told so.

    The process starts with the first job, and again after it died.
    """

    def __init__(self, root: Root) -> None:
        self._root = root
        self._process: Process | None = None
        self._replies: BufferedByteReceiveStream | None = None
        self._number = 0
        self._turn = anyio.Lock()
        self._at_work = ""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            await self._end()

    async def ask(self, job: str, arguments: Mapping[str, Any], tell: Tell) -> Any:
        """The job's answer. Raises `JobFailed`. When the caller is cancelled, the job is ended cleanly first."""
        if self._turn.locked():
            await tell(f"waiting: the engine does one thing at a time, and {self._at_work} is under way", None, None)
        async with self._turn:
            self._at_work = job
            self._number += 1
            try:
                return await self._exchange(self._number, job, arguments, tell)
            except JobFailed:
                raise
            except GONE:
                status = await self._end()
                raise JobFailed(
                    f"the engine stopped unexpectedly in {job} (exit status {status}); its last words are in the "
                    "server's log, and the next call starts a new one"
                ) from None
            except BaseException:  # the caller is cancelled, or cannot be told anything any more
                with anyio.CancelScope(shield=True):
                    await self._cancel(self._number)
                raise

    async def _exchange(self, number: int, job: str, arguments: Mapping[str, Any], tell: Tell) -> Any:
        if self._process is None:
            await self._start()
        with anyio.CancelScope(shield=True):
            await self._send({"number": number, "job": job, "arguments": dict(arguments)})
        while True:
            reply = await self._receive()
            if reply.get("number") != number:
                continue
            if "error" in reply:
                raise JobFailed(reply["error"])
            if "answer" in reply:
                return reply["answer"]
            await tell(reply["message"], reply["done"], reply["total"])

    async def _cancel(self, number: int) -> None:
        """Let the job save its work; kill the process when that takes too long, because isl cannot be interrupted."""
        if self._process is None:
            return
        with anyio.move_on_after(CANCEL_SECONDS):
            try:
                await self._send({"cancel": number})
                while True:
                    reply = await self._receive()
                    if reply.get("number") == number and ("error" in reply or "answer" in reply):
                        return
            except GONE:
                pass
        await self._end()

    async def _start(self) -> None:
        places = [str(Path(optimizer.__file__).resolve().parent.parent), os.environ.get("PYTHONPATH", "")]
        try:
            self._process = await anyio.open_process(
                # -P: nothing in the folder where the server was started may pass for a module.
                [sys.executable, "-P", "-m", "optimizer.mcp.engine_main", str(self._root.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=None,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, places))},
                start_new_session=True,
            )
        except OSError as error:
            raise JobFailed(f"the engine cannot be started: {error}") from error
        assert self._process.stdout is not None
        self._replies = BufferedByteReceiveStream(self._process.stdout)

    async def _send(self, message: Mapping[str, Any]) -> None:
        if self._process is None or self._process.stdin is None:
            raise anyio.ClosedResourceError
        await self._process.stdin.send(json.dumps(message).encode() + b"\n")

    async def _receive(self) -> dict[str, Any]:
        if self._replies is None:
            raise anyio.ClosedResourceError
        return json.loads(await self._replies.receive_until(b"\n", LONGEST_LINE))

    async def _end(self) -> int | None:
        """End the process, gently at first; its exit status."""
        process, self._process, self._replies = self._process, None, None
        if process is None:
            return None
        if process.stdin is not None:
            await process.stdin.aclose()
        with anyio.move_on_after(EXIT_SECONDS):
            await process.wait()
        if process.returncode is None:
            process.kill()
            await process.wait()
        await process.aclose()
        return process.returncode
