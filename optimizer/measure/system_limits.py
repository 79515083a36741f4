"""What the operating system cannot do for measuring, and so does not hold on it."""

from __future__ import annotations

import platform
from collections.abc import Mapping

MISSING: Mapping[str, tuple[str, ...]] = {
    "Linux": (),
    "Darwin": (
        "Threads cannot be kept to their processors: times vary more, and a busy neighbour shows in them.",
        "The system does not hold a process to a limit of its memory: a candidate that takes all of it slows the "
        "machine down until its time is over.",
        "A worker in the middle of a call outlives a parent that was killed, until that call returns.",
        "Instruction sets and cache sizes are not read off the system: machines that differ only there pass for one.",
    ),
    "Windows": (
        "Kernels are not measured on Windows itself, which has neither process groups nor limits of this kind: use "
        "Linux in WSL 2, where all of it holds.",
    ),
}
UNKNOWN = ("Nothing is known of this system: what holds on Linux may not hold here.",)


def missing_here(system: str | None = None) -> tuple[str, ...]:
    """Sentences for a system as `platform.system()` calls it; this one by default. Empty where everything holds."""
    return MISSING.get(system or platform.system(), UNKNOWN)


def can_measure(system: str | None = None) -> bool:
    """Whether there is a worker to measure in."""
    return (system or platform.system()) != "Windows"
