"""The wider types in which the rounding of results is judged."""

from __future__ import annotations

from typing import Any

import numpy as np

WIDER = {np.dtype(np.float32): np.dtype(np.float64), np.dtype(np.float64): np.dtype(np.longdouble)}
HAS_WIDE_FLOAT64 = bool(np.finfo(np.longdouble).eps < np.finfo(np.float64).eps)
"""Whether this platform has a type in which float64 arithmetic can be judged."""


def widened(dtype: Any) -> Any:
    """The type in which values of `dtype` are judged."""
    return WIDER.get(np.dtype(dtype), np.dtype(dtype))
