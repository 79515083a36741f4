"""Dynamic programming, with loops where one row needs the one before."""

import numpy as np
from jaxtyping import Float64, Int64

SIZES = {"n": 1500, "m": 1500}


def cheapest_path(cost: Float64[np.ndarray, "n m"], best: Float64[np.ndarray, "n m"]) -> None:
    best[0] = cost[0]
    for i in range(1, cost.shape[0]):
        best[i, 0] = cost[i, 0] + best[i - 1, 0]
        best[i, 1:] = cost[i, 1:] + np.minimum(best[i - 1, 1:], best[i - 1, :-1])


def all_pairs(D: Float64[np.ndarray, "n n"]) -> None:
    for k in range(D.shape[0]):
        D[:] = np.minimum(D, D[:, k][:, None] + D[k])


def edit_distance(a: Int64[np.ndarray, "n"], b: Int64[np.ndarray, "m"], D: Int64[np.ndarray, "n+1 m+1"]) -> None:
    D[:, 0] = np.arange(len(a) + 1)
    D[0, :] = np.arange(len(b) + 1)
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            differs = 0 if a[i - 1] == b[j - 1] else 1
            D[i, j] = min(D[i - 1, j] + 1, D[i, j - 1] + 1, D[i - 1, j - 1] + differs)


def forward_algorithm(
    T: Float64[np.ndarray, "m m"], E: Float64[np.ndarray, "n m"], p: Float64[np.ndarray, "n m"]
) -> None:
    p[0] = E[0]
    for t in range(1, E.shape[0]):
        p[t] = (p[t - 1] @ T) * E[t]


def prefix_sums(A: Float64[np.ndarray, "n m"]) -> None:
    for i in range(1, A.shape[0]):
        A[i] += A[i - 1]
