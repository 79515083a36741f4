"""gramschmidt: A = Q @ R by the modified Gram-Schmidt process (PolyBench/C 4.2.1, linear-algebra/solvers).

PolyBench's sizes have more columns than rows, so the columns from `m` on have no direction left: their part of Q, and
the rows of R from `m` on, hold rounding noise in any implementation. Q @ R equals the original A all the same.
"""

import math
from typing import Any

import numpy as np
from jaxtyping import Float64

SIZES: dict[str, dict[str, int]] = {
    "mini": {"m": 20, "n": 30},
    "small": {"m": 60, "n": 80},
    "medium": {"m": 200, "n": 240},
    "large": {"m": 1000, "n": 1200},
    "extralarge": {"m": 2000, "n": 2600},
}
OUTPUTS = ("R", "Q")


def gramschmidt(
    m: int,
    n: int,
    A: Float64[np.ndarray, "m n"],
    R: Float64[np.ndarray, "n n"],
    Q: Float64[np.ndarray, "m n"],
) -> None:
    for k in range(n):
        nrm = 0.0
        for i in range(m):
            nrm += A[i, k] * A[i, k]
        R[k, k] = math.sqrt(nrm)
        for i in range(m):
            Q[i, k] = A[i, k] / R[k, k]
        for j in range(k + 1, n):
            R[k, j] = 0.0
            for i in range(m):
                R[k, j] += Q[i, k] * A[i, j]
            for i in range(m):
                A[i, j] = A[i, j] - Q[i, k] * R[k, j]


def make_inputs(m: int, n: int, rng: np.random.Generator | None = None) -> dict[str, Any]:
    """PolyBench's initial values; with `rng`, a random matrix of full rank.

    The first min(m, n) random columns are well apart (a dominant diagonal is added), so what is determined at all is
    determined well.
    """
    if rng is not None:
        return {
            "m": m,
            "n": n,
            "A": rng.uniform(-1.0, 1.0, (m, n)) + m * np.eye(m, n),
            "R": np.triu(rng.uniform(-1.0, 1.0, (n, n))),
            "Q": rng.uniform(-1.0, 1.0, (m, n)),
        }
    i, j = np.ogrid[:m, :n]
    return {
        "m": m,
        "n": n,
        "A": i * j % m / m * 100 + 10,
        "R": np.zeros((n, n)),
        "Q": np.zeros((m, n)),
    }
