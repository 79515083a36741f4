"""What a worker process does: it holds arguments and functions, calls them, and hands back what they leave behind.

It judges nothing. What a candidate does in here it can do to everything in here, so nothing that this process says is
believed unless the parent can check it.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import mmap
import os
import resource
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import FunctionType
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from optimizer.errors import InfrastructureError
from optimizer.measure.commands import (
    BuildCommand,
    CallCommand,
    CallReport,
    CollectCommand,
    Form,
    GiveCommand,
    LoadCommand,
    NoiseCommand,
    PeaksCommand,
    RunCommand,
    Task,
    from_json,
)
from optimizer.measure.failure import described_error
from optimizer.measure.guards import OwnArguments
from optimizer.measure.loading import Function, compiled_candidate, compiled_original, plain_candidate, types_of
from optimizer.measure.races import RaceError, WatchedFunction
from optimizer.measure.recent import Recent

KEPT_FUNCTIONS = 32
PLAIN_FORMS = (Form.PLAIN, Form.WATCHED, Form.BACKWARD, Form.WIDE)


class Session:
    """Runs the commands of one worker process."""

    def __init__(self, threads: int, shared_file: int) -> None:
        """`threads` is the most that any command may use; `shared_file` takes arguments and results, as bytes."""
        self._threads, self._shared_file = threads, shared_file
        self._functions: Recent[tuple[Form, Function]] = Recent(KEPT_FUNCTIONS)
        self._arguments = OwnArguments(())
        self._content = np.empty(0, np.uint8)
        self._returned: tuple[NDArray[Any], ...] = ()

    def run(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        """The answer to one command; raises `WorkerFailure` for a candidate that cannot be built."""
        command = message["command"]
        match Task(message["task"]):
            case Task.LOAD:
                return self._load(from_json(LoadCommand, command))
            case Task.RESTORE:
                self._arguments.restore()
                return {}
            case Task.BUILD:
                return self._build(from_json(BuildCommand, command))
            case Task.CALL:
                return asdict(self._call(from_json(CallCommand, command)))
            case Task.RUN:
                return asdict(self._run(from_json(RunCommand, command)))
            case Task.GIVE:
                self._arguments.give(self._content, from_json(GiveCommand, command).names)
                return {}
            case Task.COLLECT:
                return self._collect(from_json(CollectCommand, command))
            case Task.PEAKS:
                from optimizer.measure.peak_kernels import measure_peaks

                return asdict(measure_peaks(from_json(PeaksCommand, command)))
            case Task.NOISE:
                from optimizer.measure.noise_kernel import measure_noise

                return asdict(measure_noise(from_json(NoiseCommand, command), self._threads))

    def _load(self, command: LoadCommand) -> Mapping[str, Any]:
        _limit_memory(None)
        if command.segments != self._arguments.segments:
            self._returned = ()
            self._arguments = OwnArguments(())
            self._arguments = OwnArguments(command.segments)
        self._map(command.size)
        self._arguments.take(self._content, command.kept)
        return {}

    def _map(self, size: int) -> None:
        if size != self._content.size:
            self._content = np.empty(0, np.uint8)
            if size:
                self._content = np.frombuffer(mmap.mmap(self._shared_file, size), np.uint8)

    def _build(self, command: BuildCommand) -> Mapping[str, Any]:
        _limit_memory(command.memory)
        arguments = self._arguments.arguments()
        types = str(types_of(arguments)) if command.form not in PLAIN_FORMS else ""
        source = command.workload and (command.workload.source, command.workload.fastmath)
        identity = (command.form.value, command.file, command.function, source, types)
        key = hashlib.sha256(repr(identity).encode()).hexdigest()[:16]
        _, function = self._functions.get(key, lambda: (command.form, _made(command, arguments)))
        # The only place: a collection takes as long as many a call.
        gc.collect()
        return {"key": key, "is_compiled": not isinstance(function, FunctionType)}

    def _call(self, command: CallCommand) -> CallReport:
        form, function = self._functions.get(command.key, _not_built)
        _limit_memory(command.memory)
        numba.set_num_threads(command.threads)
        self._returned = ()
        arguments = self._arguments.arguments()
        if form in PLAIN_FORMS:
            # NumPy's floats divide by zero as compiled code does.
            arguments = tuple(np.float64(value) if isinstance(value, float) else value for value in arguments)
        returned, seconds = None, 0.0
        time.sleep(command.pause)
        with np.errstate(all="ignore") if form in PLAIN_FORMS else contextlib.nullcontext():
            for _ in range(command.calls):
                if command.is_restored:
                    self._arguments.restore()
                try:
                    start = time.perf_counter()
                    returned = function(*arguments)
                    seconds += time.perf_counter() - start
                except Exception as error:
                    return _raised(error)
        try:
            is_tuple = isinstance(returned, tuple)
            parts = returned if is_tuple else () if returned is None else (returned,)
            self._returned = tuple(np.asarray(part) for part in parts)
        except Exception as error:
            # What it returned makes an array of itself, and may fail to.
            return _raised(error)
        described = tuple((part.dtype.str, part.shape) for part in self._returned)
        needs_larger = isinstance(function, WatchedFunction) and not function.watch.has_seen_all
        return CallReport(seconds, described, is_tuple, needs_larger=needs_larger)

    def _run(self, command: RunCommand) -> CallReport:
        self._load(command.load)
        report = self._call(command.call)
        if not report.raised:
            self._arguments.give(self._content, [segment.name for segment in command.load.segments])
        return report

    def _collect(self, command: CollectCommand) -> Mapping[str, Any]:
        self._map(command.size)
        start = command.start
        for part in self._returned:
            raw = np.ascontiguousarray(part).reshape(-1).view(np.uint8)
            self._content[start : start + raw.size] = raw
            start += raw.size
        return {}


def _made(command: BuildCommand, arguments: tuple[Any, ...]) -> Function:
    if command.form is Form.NOTHING:
        return _nothing
    if command.form in (Form.ORIGINAL, Form.CHECKED):
        assert command.workload is not None
        file = Path(f"{command.form}_{command.workload.key}.py").absolute()
        return compiled_original(command.workload, file, arguments, is_checked=command.form is Form.CHECKED)
    file = Path(command.file)
    if command.form is Form.CANDIDATE:
        return compiled_candidate(file, command.function, arguments)
    return plain_candidate(file, command.function, command.form)


def _raised(error: Exception) -> CallReport:
    """Whatever the function raised: the parent knows what that means for what is being run."""
    return CallReport(0.0, (), False, described_error(error)[:2000], _kind(error))


def _kind(error: Exception) -> str:
    match error:
        case MemoryError():
            return "memory"
        case RaceError():
            return "race"
        case ArithmeticError() | LookupError() | ValueError() | TypeError():
            # What a function may raise at sizes or values that it cannot take.
            return "call"
        case _:
            return "other"


def _not_built() -> tuple[Form, Function]:
    raise InfrastructureError("a function was called that this process has not built")


def _nothing(*_arguments: Any) -> None:
    """What is timed to learn what a call costs besides."""


def _limit_memory(more: int | None) -> None:
    """Let this process map at most `more` bytes on top of what it has mapped; None lifts that limit."""
    mapped = _mapped_bytes()
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    limit = hard if more is None or not mapped else mapped + more
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))


def _mapped_bytes() -> int:
    """The address space in use; 0 where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (OSError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
