"""What vectors can do besides sums of products: choices, extremes, columns, one value for a whole row."""

import math

import numpy as np
from jaxtyping import Float64


def clipped(
    n: int,
    m: int,
    low: float,
    x: Float64[np.ndarray, "n m"],
    y: Float64[np.ndarray, "m n"],
    scale: Float64[np.ndarray, "n"],
    out: Float64[np.ndarray, "n m"],
    base: Float64[np.ndarray, "n m"],
):
    for i in range(n):
        for j in range(m):
            least = max(x[i, j], low)
            out[i, j] = least * scale[i] if least < y[j, i] else math.sqrt(abs(y[j, i])) - least
            base[i, j] = scale[i]
