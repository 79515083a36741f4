"""Sums of each row in scalars that each iteration has to itself."""

import math

import numpy as np
from jaxtyping import Float64


def row_norms(
    n: int, m: int, A: Float64[np.ndarray, "n m"], norm: Float64[np.ndarray, "n"], mean: Float64[np.ndarray, "n"]
):
    for i in range(n):
        square = 0.0
        plain = 0.0
        for j in range(m):
            square += A[i, j] * A[i, j]
            plain += A[i, j]
        norm[i] = math.sqrt(square)
        mean[i] = plain / m
