"""Linear algebra by `@` and slices."""

import numpy as np
from jaxtyping import Float32, Float64

SIZES = {"n": 600, "m": 700, "k": 500, "steps": 20}


def gemm(
    alpha: float,
    beta: float,
    C: Float64[np.ndarray, "n m"],
    A: Float64[np.ndarray, "n k"],
    B: Float64[np.ndarray, "k m"],
) -> None:
    C[:] = alpha * (A @ B) + beta * C


def quadratic_form(x: Float64[np.ndarray, "n"], A: Float64[np.ndarray, "n n"]) -> float:
    return x @ A @ x


def normal_equations(A: Float64[np.ndarray, "n k"], b: Float64[np.ndarray, "n"]) -> tuple[np.ndarray, np.ndarray]:
    return A.T @ A, A.T @ b


def power_iteration(steps: int, A: Float64[np.ndarray, "n n"], x: Float64[np.ndarray, "n"]) -> float:
    length = 0.0
    for _ in range(steps):
        y = A @ x
        length = np.sqrt(np.sum(y * y))
        x[:] = y / length
    return length


def rank_two_update(A: Float64[np.ndarray, "n m"], u: Float64[np.ndarray, "n"], v: Float64[np.ndarray, "m"]) -> None:
    A += np.outer(u, v)
    A -= 0.5 * np.outer(u * u, v)


def lu(A: Float64[np.ndarray, "n n"]) -> None:
    for k in range(A.shape[0]):
        A[k + 1 :, k] /= A[k, k]
        A[k + 1 :, k + 1 :] -= np.outer(A[k + 1 :, k], A[k, k + 1 :])


def forward_substitution(L: Float64[np.ndarray, "n n"], b: Float64[np.ndarray, "n"]) -> Float64[np.ndarray, "n"]:
    x = np.zeros_like(b)
    for i in range(len(b)):
        x[i] = (b[i] - L[i, :i] @ x[:i]) / L[i, i]
    return x


def gram_schmidt(A: Float64[np.ndarray, "n k"], Q: Float64[np.ndarray, "n k"]) -> None:
    for j in range(A.shape[1]):
        Q[:, j] = A[:, j] / np.sqrt(np.sum(A[:, j] * A[:, j]))
        for l in range(j + 1, A.shape[1]):
            A[:, l] -= np.sum(Q[:, j] * A[:, l]) * Q[:, j]


def scaled_product(A: Float32[np.ndarray, "n k"], B: Float32[np.ndarray, "m k"]) -> Float32[np.ndarray, "n m"]:
    return A @ B.T / np.float32(2.0)
