"""What the vector registers of this machine hold."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from optimizer.codegen.loop_ast import For, calls
from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.tree import WIDEST_VECTOR


@dataclass(frozen=True, slots=True)
class VectorUnit:
    bytes: int
    """Of a register."""
    registers: int


UNITS = {"avx512f": VectorUnit(64, 32), "avx": VectorUnit(32, 16), "neon": VectorUnit(16, 32)}
"""By the feature of the processor that brings it; the best first."""
LEAST_UNIT = VectorUnit(16, 16)
"""SSE2."""


@cache
def host_unit() -> VectorUnit:
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    return next((unit for feature, unit in UNITS.items() if features.get(feature)), LEAST_UNIT)


def host_lanes(nest: Nest, loop: For) -> int:
    """How many of the widest numbers that the loop touches a register of this machine holds."""
    touched = {access.array for call in calls(loop.body) for access in nest.statement(call.statement).accesses}
    return _lanes(nest, touched)


def register_tile_shape(nest: Nest) -> tuple[int, int]:
    """Rows and columns of which a tile's sums and all else that it needs are in registers: three vectors a row."""
    rows = 8 if host_unit().registers >= 32 else 4
    return rows, 3 * _lanes(nest, {array.name for array in nest.arrays})


def _lanes(nest: Nest, arrays: set[str]) -> int:
    bits = max((int(array.dtype[-2:]) for array in nest.arrays if array.name in arrays), default=64)
    return min(8 * host_unit().bytes // bits, WIDEST_VECTOR)
