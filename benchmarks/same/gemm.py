"""`C = alpha A B + beta C`, spelled in three ways."""

import numpy as np
from jaxtyping import Float64

SIZES = {"n": 1000, "m": 1100, "k": 900}


def gemm_by_loops(
    alpha: float,
    beta: float,
    C: Float64[np.ndarray, "n m"],
    A: Float64[np.ndarray, "n k"],
    B: Float64[np.ndarray, "k m"],
) -> None:
    for i in range(A.shape[0]):
        for j in range(B.shape[1]):
            C[i, j] *= beta
            for p in range(A.shape[1]):
                C[i, j] += alpha * A[i, p] * B[p, j]


def gemm_by_slices(
    alpha: float,
    beta: float,
    C: Float64[np.ndarray, "n m"],
    A: Float64[np.ndarray, "n k"],
    B: Float64[np.ndarray, "k m"],
) -> None:
    C[:] *= beta
    for i in range(A.shape[0]):
        for p in range(A.shape[1]):
            C[i, :] += alpha * A[i, p] * B[p, :]


def gemm_by_product(
    alpha: float,
    beta: float,
    C: Float64[np.ndarray, "n m"],
    A: Float64[np.ndarray, "n k"],
    B: Float64[np.ndarray, "k m"],
) -> None:
    C[:] = alpha * (A @ B) + beta * C
