"""How busy the machine is with other things, and keeping to some of its processors."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

IDLE = ("idle", "iowait", "guest", "guest_nice")
"""Processor times that nobody used, or that are counted elsewhere too."""


class OtherLoad:
    """Measures, from its making on, how many processors work for others than this process."""

    def __init__(self, other: int | None = None) -> None:
        """`other` is a process that this one started, and whose work counts as this one's own, also if it is killed."""
        self._other = other
        self._reaped = _reaped_seconds()
        self._start, self._busy, self._own = self._now()

    def processors(self) -> float:
        """The average since the start; time that a hypervisor took away counts."""
        now, busy, own = self._now()
        if now - self._start < 0.05:
            # The system counts in hundredths of a second.
            return 0.0
        return max(0.0, (busy - self._busy) - (own - self._own)) / (now - self._start)

    def _now(self) -> tuple[float, float, float]:
        times = psutil.cpu_times()._asdict()
        busy = sum(seconds for kind, seconds in times.items() if kind not in IDLE)
        own = os.times()
        return time.perf_counter(), busy, own.user + own.system + self._spent_by_other()

    def _spent_by_other(self) -> float:
        if self._other is None:
            return 0.0
        try:
            spent = psutil.Process(self._other).cpu_times()
        except psutil.Error:
            # It has ended since; the system has added what it took to what all ended children took.
            return _reaped_seconds() - self._reaped
        return spent.user + spent.system


def _reaped_seconds() -> float:
    """What ended children of this process, and theirs, have taken of the processors."""
    times = os.times()
    return times.children_user + times.children_system


@dataclass(frozen=True, slots=True)
class Scheduling:
    """What the system did with one thread so far, in seconds."""

    executed: float
    waited: float
    """For a processor, ready to run."""

    def since(self, earlier: Scheduling) -> Scheduling:
        return Scheduling(self.executed - earlier.executed, self.waited - earlier.waited)


def scheduling(process: int, thread: int) -> Scheduling:
    """Of a thread of a process, by the system's own account; all zero where it keeps none."""
    try:
        executed, waited, _ = Path(f"/proc/{process}/task/{thread}/schedstat").read_text().split()
    except (OSError, ValueError):
        return Scheduling(0.0, 0.0)
    return Scheduling(int(executed) * 1e-9, int(waited) * 1e-9)


def keep_to(process: int, processors: int | None) -> None:
    """Let all threads of a process run on so many of this process's processors only, where the system can do that.

    Always the same ones; None is all of them. The process, or one of its threads, may end meanwhile.
    """
    if not hasattr(os, "sched_setaffinity"):
        return
    allowed = sorted(os.sched_getaffinity(0))[:processors]
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{process}/task").iterdir():
            with contextlib.suppress(OSError):
                os.sched_setaffinity(int(thread.name), allowed)


def is_pinned(threads: int) -> bool:
    """Whether this process keeps to so many processors."""
    return hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) <= threads
