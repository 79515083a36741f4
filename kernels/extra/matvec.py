"""matvec: y = A @ x."""

from typing import Any

import numpy as np
from jaxtyping import Float64

SIZES: dict[str, dict[str, int]] = {
    "mini": {"m": 38, "n": 42},
    "small": {"m": 116, "n": 124},
    "medium": {"m": 1000, "n": 1100},
    "large": {"m": 6000, "n": 7000},
    "extralarge": {"m": 12000, "n": 14000},
}
OUTPUTS = ("y",)


def matvec(
    m: int,
    n: int,
    A: Float64[np.ndarray, "m n"],
    x: Float64[np.ndarray, "n"],
    y: Float64[np.ndarray, "m"],
) -> None:
    for i in range(m):
        y[i] = 0.0
        for j in range(n):
            y[i] += A[i, j] * x[j]


def make_inputs(m: int, n: int, rng: np.random.Generator | None = None) -> dict[str, Any]:
    """Simple fractions and y = 0; with `rng`, uniform random values in [-1, 1)."""
    if rng is not None:
        return {
            "m": m,
            "n": n,
            "A": rng.uniform(-1.0, 1.0, (m, n)),
            "x": rng.uniform(-1.0, 1.0, n),
            "y": rng.uniform(-1.0, 1.0, m),
        }
    i, j = np.ogrid[:m, :n]
    return {
        "m": m,
        "n": n,
        "A": (i + j) % n / n,
        "x": 1.0 + np.arange(n) / n,
        "y": np.zeros(m),
    }
