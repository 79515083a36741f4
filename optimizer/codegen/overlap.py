"""Whether arrays share memory, in Python and for what Numba compiles: once in a process for each pair of types."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.extending import register_jitable


def address_range(array: Any) -> Any:
    """The addresses of an array's first byte and of the first byte after it, whatever its strides."""
    first = np.int64(array.ctypes.data)
    last = first + array.itemsize
    for k in range(array.ndim):
        span = (array.shape[k] - 1) * array.strides[k]
        first += min(span, 0)
        last += max(span, 0)
    return first, last


def may_overlap(a: Any, b: Any) -> Any:
    if a.size == 0 or b.size == 0:
        return False
    a_first, a_last = address_range(a)
    b_first, b_last = address_range(b)
    return a_first < b_last and b_first < a_last


register_jitable(address_range)
register_jitable(may_overlap)
