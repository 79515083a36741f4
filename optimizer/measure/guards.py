"""Arguments whose arrays lie between guard zones, so that a write outside of an array is seen.

All arguments of a call lie in one block of bytes, so that they can be handed to another process and back as they are.
Both sides find them by `Segment`s.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimizer.measure.inputs import Values

ZONE_BYTES = 1 << 16
ALIGNMENT = 64
CANARIES = {4: np.uint32(0x7FA0BEEF), 8: np.uint64(0x7FF4BEEF7FF4BEEF)}
"""By the bytes of an element. As floats they are signalling NaN: reading one shows in the results, and arithmetic with
one, as in `x += y` outside of an array, leaves other bits (of a quiet NaN it would leave the same)."""
LARGEST_CANARY = max(CANARIES)
POISON = np.uint8(0xA5)

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Segment:
    """Where one argument lies in the block; an array with a zone on both sides."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    size: int
    """Bytes, zones included."""
    is_array: bool

    @property
    def array_bytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * np.dtype(self.dtype).itemsize

    def array(self, segment: Bytes) -> NDArray[Any]:
        """The argument as an array (of rank 0: a scalar), given the bytes of its segment."""
        start = ZONE_BYTES if self.is_array else 0
        return segment[start : start + self.array_bytes].view(self.dtype).reshape(self.shape)

    @property
    def canary(self) -> np.unsignedinteger[Any]:
        return CANARIES.get(np.dtype(self.dtype).itemsize, CANARIES[4])

    def zones(self, segment: Bytes) -> tuple[NDArray[Any], NDArray[Any]]:
        # Rounded up to a whole canary, for arrays of one-byte elements.
        behind = _rounded_up(ZONE_BYTES + self.array_bytes, self.canary.itemsize)
        kind = self.canary.dtype
        return segment[:ZONE_BYTES].view(kind), segment[behind : behind + ZONE_BYTES].view(kind)


def segments_of(values: Values) -> tuple[Segment, ...]:
    """Where the arguments lie, in their order."""
    segments: list[Segment] = []
    start = 0
    for name, value in values.items():
        array = np.asarray(value)
        is_array = isinstance(value, np.ndarray)
        size = _rounded_up(array.nbytes + (2 * ZONE_BYTES + LARGEST_CANARY) * is_array, ALIGNMENT)
        segments.append(Segment(name, array.dtype.str, array.shape, start, size, is_array))
        start += size
    return tuple(segments)


def aligned_bytes(size: int) -> Bytes:
    """New memory that begins at a multiple of `ALIGNMENT`."""
    memory = np.empty(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size]


class GuardedArguments:
    """One set of arguments, each array with a zone of canaries on both sides."""

    def __init__(self, pristine: Values) -> None:
        self._pristine = pristine
        self.segments = segments_of(pristine)
        self.content = aligned_bytes(sum(segment.size for segment in self.segments))
        """All arguments, to be sent and received."""
        self.values: Values = {}
        self._zones: dict[str, tuple[NDArray[Any], NDArray[Any]]] = {}
        for segment in self.segments:
            part = self.part(segment)
            array = segment.array(part)
            if segment.is_array:
                self._zones[segment.name] = segment.zones(part)
                for zone in self._zones[segment.name]:
                    zone[:] = segment.canary
                self.values[segment.name] = array
            else:
                array[...] = pristine[segment.name]
                self.values[segment.name] = pristine[segment.name]
        self.restore()

    @property
    def arguments(self) -> tuple[Any, ...]:
        return tuple(self.values.values())

    def part(self, segment: Segment) -> Bytes:
        """The bytes of one segment."""
        return self.content[segment.start : segment.start + segment.size]

    def restore(self, names: Collection[str] | None = None) -> None:
        """Make the arrays of these names (None: all) what they were in the beginning."""
        for name in self._zones if names is None else names:
            np.copyto(self.values[name], self._pristine[name])

    def poison(self) -> None:
        """Fill the arrays with what no result looks like."""
        for segment in self.segments:
            if segment.is_array:
                self.part(segment)[ZONE_BYTES : ZONE_BYTES + segment.array_bytes] = POISON

    def overrun(self) -> str | None:
        """The name of an array outside of which something was written."""
        for segment in self.segments:
            zones = self._zones.get(segment.name, ())
            if any((zone != segment.canary).any() for zone in zones):
                return segment.name
        return None

    def modified(self, written: Collection[str]) -> str | None:
        """The name of an argument that changed although it is not among those that may be `written`."""
        for segment in self.segments:
            if segment.name not in written:
                now, before = segment.array(self.part(segment)), np.asarray(self._pristine[segment.name])
                if not np.array_equal(_raw(now), _raw(before)):
                    return segment.name
        return None


class OwnArguments:
    """The other side: the same arguments in memory of this process, each array in a block of its own."""

    def __init__(self, segments: tuple[Segment, ...]) -> None:
        self.segments = segments
        self._blocks = {segment.name: aligned_bytes(segment.size) for segment in segments}
        self._arrays = {segment.name: segment.array(self._blocks[segment.name]) for segment in segments}
        self._pristine: dict[str, NDArray[Any]] = {}

    def take(self, content: Bytes, kept: Collection[str] = ()) -> None:
        """Copy all arguments, with their zones, from the block of bytes that was sent; some are kept for `restore`."""
        for segment in self.segments:
            np.copyto(self._blocks[segment.name], content[segment.start : segment.start + segment.size])
        self._pristine = {name: self._arrays[name].copy() for name in kept}

    def give(self, content: Bytes, names: Collection[str]) -> None:
        """Copy the arguments of these names, with their zones, back."""
        for segment in self.segments:
            if segment.name in names:
                content[segment.start : segment.start + segment.size] = self._blocks[segment.name]

    def restore(self) -> None:
        """Make the arrays that were kept what they were."""
        for name, pristine in self._pristine.items():
            np.copyto(self._arrays[name], pristine)

    def arguments(self) -> tuple[Any, ...]:
        """Arrays, and Python's own scalars (NumPy's where the type is wider)."""
        return tuple(
            self._arrays[segment.name] if segment.is_array else self._arrays[segment.name].item()
            for segment in self.segments
        )


def _raw(array: NDArray[Any]) -> Bytes:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _rounded_up(size: int, multiple: int) -> int:
    return size + -size % multiple
