"""What machine this is: results of different ones are never compared."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

import psutil

TELLING_FLAGS = ("sse4_2", "avx", "avx2", "fma", "avx512f", "avx512bw", "amx_tile", "neon", "asimd", "sve", "sve2")
"""Instruction sets that decide how fast numerical loops can be."""
VERSIONED = ("numba", "llvmlite", "numpy")
CACHE_DIRECTORY = Path("/sys/devices/system/cpu/cpu0/cache")


@dataclass(frozen=True, slots=True)
class Machine:
    """Everything that a time depends on, besides what else the machine is doing."""

    processor: str
    cores: int
    """Physical ones."""
    processors: int
    """Those that this process may run on."""
    instruction_sets: tuple[str, ...]
    caches: tuple[str, ...]
    """`L1 Data 48K`, ...; none where the system does not tell."""
    memory_bytes: int
    system: str
    python: str
    versions: tuple[tuple[str, str], ...]
    """Of the packages that make the code."""

    @property
    def digest(self) -> str:
        """16 hexadecimal digits: equal ones, comparable times."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:16]

    def to_json(self) -> dict[str, object]:
        return {**asdict(self), "versions": dict(self.versions), "digest": self.digest}

    def __str__(self) -> str:
        sets = f" with {self.instruction_sets[-1]}" if self.instruction_sets else ""
        return (
            f"{self.processor}{sets}, {self.processors} processors, {self.memory_bytes / 2**30:.0f} GiB, {self.system}"
        )


def this_machine() -> Machine:
    """Read off the system; takes milliseconds."""
    model, flags = _processor_information()
    return Machine(
        processor=model or platform.processor() or platform.machine(),
        cores=psutil.cpu_count(logical=False) or psutil.cpu_count() or 1,
        processors=available_processors(),
        instruction_sets=tuple(name for name in TELLING_FLAGS if name in flags),
        caches=_caches(),
        memory_bytes=psutil.virtual_memory().total,
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        python=platform.python_version(),
        versions=tuple((name, metadata.version(name)) for name in VERSIONED),
    )


def available_processors() -> int:
    """How many processors this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return psutil.cpu_count() or 1


def _processor_information() -> tuple[str, frozenset[str]]:
    """Model and instruction sets; empty where there is no `/proc/cpuinfo`."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "", frozenset()
    fields = [(key.strip(), value.strip()) for key, _, value in (line.partition(":") for line in lines)]
    model = next((value for key, value in fields if key == "model name"), "")
    flags = next((value for key, value in fields if key in ("flags", "Features")), "")
    return model, frozenset(flags.split())


def _caches() -> tuple[str, ...]:
    found: list[str] = []
    for index in sorted(CACHE_DIRECTORY.glob("index*")):
        try:
            level, kind, size = ((index / name).read_text().strip() for name in ("level", "type", "size"))
        except OSError:
            continue
        found.append(f"L{level} {kind} {size}")
    return tuple(found)
