"""The kernel that the session improves: a product of matrices, in the order in which it is usually written down."""

import numpy as np
from jaxtyping import Float64


def product(
    n: int, m: int, p: int, A: Float64[np.ndarray, "n p"], B: Float64[np.ndarray, "p m"], C: Float64[np.ndarray, "n m"]
):
    for i in range(n):
        for j in range(m):
            for k in range(p):
                C[i, j] += A[i, k] * B[k, j]
