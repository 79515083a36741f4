"""mvt: x1 = x1 + A @ y_1 and x2 = x2 + A.T @ y_2 (PolyBench/C 4.2.1, linear-algebra/kernels)."""

from typing import Any

import numpy as np
from jaxtyping import Float64

SIZES: dict[str, dict[str, int]] = {
    "mini": {"n": 40},
    "small": {"n": 120},
    "medium": {"n": 400},
    "large": {"n": 2000},
    "extralarge": {"n": 4000},
}
OUTPUTS = ("x1", "x2")


def mvt(
    n: int,
    x1: Float64[np.ndarray, "n"],
    x2: Float64[np.ndarray, "n"],
    y_1: Float64[np.ndarray, "n"],
    y_2: Float64[np.ndarray, "n"],
    A: Float64[np.ndarray, "n n"],
) -> None:
    for i in range(n):
        for j in range(n):
            x1[i] = x1[i] + A[i, j] * y_1[j]
    for i in range(n):
        for j in range(n):
            x2[i] = x2[i] + A[j, i] * y_2[j]


def make_inputs(n: int, rng: np.random.Generator | None = None) -> dict[str, Any]:
    """PolyBench's initial values; with `rng`, uniform random values in [-1, 1)."""
    if rng is not None:
        return {
            "n": n,
            "x1": rng.uniform(-1.0, 1.0, n),
            "x2": rng.uniform(-1.0, 1.0, n),
            "y_1": rng.uniform(-1.0, 1.0, n),
            "y_2": rng.uniform(-1.0, 1.0, n),
            "A": rng.uniform(-1.0, 1.0, (n, n)),
        }
    i, j = np.ogrid[:n, :n]
    position = np.arange(n)
    return {
        "n": n,
        "x1": position / n,
        "x2": (position + 1) % n / n,
        "y_1": (position + 3) % n / n,
        "y_2": (position + 4) % n / n,
        "A": i * j % n / n,
    }
