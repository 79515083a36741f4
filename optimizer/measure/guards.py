"""Arguments whose arrays lie between guard zones, so that a write outside of an array is seen."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimizer.measure.inputs import Values

ZONE_BYTES = 1 << 16
ALIGNMENT = 64
CANARY = np.uint32(0xFFF8BEEF)
"""Read as a float of either width it is a NaN, so that reading a zone shows in the results too."""


class GuardedArguments:
    """One set of arguments, each array in a buffer of its own with a zone of canaries on both sides."""

    def __init__(self, pristine: Values) -> None:
        self._pristine = pristine
        self._zones: dict[str, tuple[NDArray[Any], NDArray[Any]]] = {}
        self.values: Values = {}
        for name, value in pristine.items():
            self.values[name] = self._guarded(name, value) if isinstance(value, np.ndarray) else value
        self.restore()

    @property
    def arguments(self) -> tuple[Any, ...]:
        return tuple(self.values.values())

    def restore(self, names: Collection[str] | None = None) -> None:
        """Make the arrays of these names (None: all) what they were in the beginning."""
        for name in self._zones if names is None else names:
            np.copyto(self.values[name], self._pristine[name])

    def overrun(self) -> str | None:
        """The name of an array outside of which something was written."""
        return next(
            (name for name, zones in self._zones.items() if any((zone != CANARY).any() for zone in zones)), None
        )

    def modified(self, written: Collection[str]) -> str | None:
        """The name of an array that changed although it is not among those that may be `written`."""
        for name, value in self._pristine.items():
            if isinstance(value, np.ndarray) and name not in written:
                now = self.values[name]
                if not np.array_equal(now.reshape(-1).view(np.uint8), value.reshape(-1).view(np.uint8)):
                    return name
        return None

    def _guarded(self, name: str, array: NDArray[Any]) -> NDArray[Any]:
        buffer = np.empty(2 * ZONE_BYTES + array.nbytes + 2 * ALIGNMENT, np.uint8)
        start = ZONE_BYTES + -(buffer.ctypes.data + ZONE_BYTES) % ALIGNMENT
        end = start + array.nbytes
        # Rounded up to a whole canary, for arrays of one-byte elements.
        behind = end + -end % CANARY.itemsize
        self._zones[name] = (
            buffer[start - ZONE_BYTES : start].view(np.uint32),
            buffer[behind : behind + ZONE_BYTES].view(np.uint32),
        )
        for zone in self._zones[name]:
            zone[:] = CANARY
        return buffer[start:end].view(array.dtype).reshape(array.shape)
