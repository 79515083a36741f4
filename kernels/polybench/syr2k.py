"""syr2k: C = alpha * (A @ B.T + B @ A.T) + beta * C on the lower triangle (PolyBench/C 4.2.1, linear-algebra/blas)."""

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


def syr2k(
    n: int,
    m: int,
    alpha: float,
    beta: float,
    C: Float64[np.ndarray, "n n"],
    A: Float64[np.ndarray, "n m"],
    B: Float64[np.ndarray, "n m"],
) -> None:
    for i in range(n):
        for j in range(i + 1):
            C[i, j] *= beta
        for k in range(m):
            for j in range(i + 1):
                C[i, j] += A[j, k] * alpha * B[i, k] + B[j, k] * alpha * A[i, k]


def make_inputs(n: int, m: int, rng: np.random.Generator | None = None) -> dict[str, Any]:
    """PolyBench's initial values; with `rng`, uniform random values in [-1, 1)."""
    if rng is not None:
        return {
            "n": n,
            "m": m,
            "alpha": rng.uniform(0.5, 1.5),
            "beta": rng.uniform(0.5, 1.5),
            "C": rng.uniform(-1.0, 1.0, (n, n)),
            "A": rng.uniform(-1.0, 1.0, (n, m)),
            "B": rng.uniform(-1.0, 1.0, (n, m)),
        }
    i, j = np.ogrid[:n, :m]
    row, column = np.ogrid[:n, :n]
    return {
        "n": n,
        "m": m,
        "alpha": 1.5,
        "beta": 1.2,
        "C": (row * column + 3) % n / m,
        "A": (i * j + 1) % n / n,
        "B": (i * j + 2) % m / m,
    }
