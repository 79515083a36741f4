"""A kernel with what the bundled ones lack: float min and max, local arrays, returned arrays and a returned scalar."""

import numpy as np
from jaxtyping import Float64


def limited_rows(
    n: int,
    m: int,
    low: float,
    x: Float64[np.ndarray, "n m"],
    y: Float64[np.ndarray, "n m"],
    weight: Float64[np.ndarray, "m"],
):
    rows = np.zeros((n, m))
    total = np.zeros(n)
    for i in range(n):
        for j in range(m):
            rows[i, j] = min(x[i, j], weight[j]) - max(low, y[i, j]) * weight[j]
            total[i] += rows[i, j] * x[i, j]
    largest = 0.0
    for i in range(n):
        largest = largest if largest > total[i] else total[i]
    return rows, total, largest
