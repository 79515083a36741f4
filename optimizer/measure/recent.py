"""A small memory of values that are costly to make."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Recent(Generic[T]):
    """Keeps the most recently used values, as many as fit; the last one always does."""

    def __init__(self, capacity: int, size: Callable[[T], int] | None = None) -> None:
        """`size` says how much of the capacity a value takes; without it each takes one."""
        self._capacity = capacity
        self._size = size or (lambda _: 1)
        self._filled = 0
        self._values: OrderedDict[Hashable, T] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value kept under `key`, made first if there is none."""
        if key not in self._values:
            self._values[key] = value = make()
            self._filled += self._size(value)
            while self._filled > self._capacity and len(self._values) > 1:
                self._filled -= self._size(self._values.popitem(last=False)[1])
        self._values.move_to_end(key)
        return self._values[key]
