"""The columns of each row are counted up into a row of partial sums, which the next row uses again."""

import numpy as np
from jaxtyping import Float64


def row_parts(
    n: int,
    m: int,
    A: Float64[np.ndarray, "n m"],
    norm: Float64[np.ndarray, "n"],
) -> None:
    parts = np.zeros(m)
    for i in range(n):
        for j in range(m):
            parts[j] = A[i, j] * A[i, j]
        norm[i] = 0.0
        for k in range(m):
            norm[i] += parts[k] * A[i, k]
