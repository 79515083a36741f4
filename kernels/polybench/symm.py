"""symm: C = alpha A B + beta C, A symmetric, stored as its lower triangle (PolyBench/C 4.2.1, linear-algebra/blas)."""

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
OUTPUTS = ("C",)


def symm(
    m: int,
    n: int,
    alpha: float,
    beta: float,
    C: Float64[np.ndarray, "m n"],
    A: Float64[np.ndarray, "m m"],
    B: Float64[np.ndarray, "m n"],
) -> None:
    for i in range(m):
        for j in range(n):
            temp2 = 0.0
            for k in range(i):
                C[k, j] += alpha * B[i, j] * A[i, k]
                temp2 += B[k, j] * A[i, k]
            C[i, j] = beta * C[i, j] + alpha * B[i, j] * A[i, i] + alpha * temp2


def make_inputs(m: int, n: int, rng: np.random.Generator | None = None) -> dict[str, Any]:
    """PolyBench's initial values; with `rng`, uniform random values in [-1, 1). A's upper triangle is never read."""
    if rng is not None:
        return {
            "m": m,
            "n": n,
            "alpha": rng.uniform(0.5, 1.5),
            "beta": rng.uniform(0.5, 1.5),
            "C": rng.uniform(-1.0, 1.0, (m, n)),
            "A": rng.uniform(-1.0, 1.0, (m, m)),
            "B": rng.uniform(-1.0, 1.0, (m, n)),
        }
    i, j = np.ogrid[:m, :n]
    row, column = np.ogrid[:m, :m]
    return {
        "m": m,
        "n": n,
        "alpha": 1.5,
        "beta": 1.2,
        "C": (i + j) % 100 / m,
        "A": np.where(column <= row, (row + column) % 100 / m, -999.0),
        "B": (n + i - j) % 100 / m,
    }
