"""atax: y = A.T @ (A @ x) (PolyBench/C 4.2.1, linear-algebra/kernels)."""

from typing import Any

import numpy as np
from jaxtyping import Float64

SIZES: dict[str, dict[str, int]] = {
    "mini": {"m": 38, "n": 42},
    "small": {"m": 116, "n": 124},
    "medium": {"m": 390, "n": 410},
    "large": {"m": 1900, "n": 2100},
    "extralarge": {"m": 1800, "n": 2200},
}
OUTPUTS = ("y",)


def atax(
    m: int,
    n: int,
    A: Float64[np.ndarray, "m n"],
    x: Float64[np.ndarray, "n"],
    y: Float64[np.ndarray, "n"],
    tmp: Float64[np.ndarray, "m"],
) -> None:
    for i in range(n):
        y[i] = 0.0
    for i in range(m):
        tmp[i] = 0.0
        for j in range(n):
            tmp[i] += A[i, j] * x[j]
        for j in range(n):
            y[j] += A[i, j] * tmp[i]


def make_inputs(m: int, n: int, rng: np.random.Generator | None = None) -> dict[str, Any]:
    """PolyBench's initial values; with `rng`, uniform random values in [-1, 1)."""
    if rng is not None:
        return {
            "m": m,
            "n": n,
            "A": rng.uniform(-1.0, 1.0, (m, n)),
            "x": rng.uniform(-1.0, 1.0, n),
            "y": rng.uniform(-1.0, 1.0, n),
            "tmp": rng.uniform(-1.0, 1.0, m),
        }
    i, j = np.ogrid[:m, :n]
    return {
        "m": m,
        "n": n,
        "A": (i + j) % n / (5 * m),
        "x": 1.0 + np.arange(n) / n,
        "y": np.zeros(n),
        "tmp": np.zeros(m),
    }
