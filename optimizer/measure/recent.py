"""A small memory of values that are costly to make."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class Recent(Generic[T]):
    """Keeps the most recently used values."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._values: OrderedDict[Hashable, T] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value kept under `key`, made first if there is none."""
        if key not in self._values:
            self._values[key] = make()
            if len(self._values) > self._capacity:
                self._values.popitem(last=False)
        self._values.move_to_end(key)
        return self._values[key]
