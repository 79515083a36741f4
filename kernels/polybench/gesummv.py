"""gesummv: y = alpha * A @ x + beta * B @ x (PolyBench/C 4.2.1, linear-algebra/blas)."""

from typing import Any

import numpy as np
from jaxtyping import Float64

SIZES: dict[str, dict[str, int]] = {
    "mini": {"n": 30},
    "small": {"n": 90},
    "medium": {"n": 250},
    "large": {"n": 1300},
    "extralarge": {"n": 2800},
}
OUTPUTS = ("y",)


def gesummv(
    n: int,
    alpha: float,
    beta: float,
    A: Float64[np.ndarray, "n n"],
    B: Float64[np.ndarray, "n n"],
    tmp: Float64[np.ndarray, "n"],
    x: Float64[np.ndarray, "n"],
    y: Float64[np.ndarray, "n"],
) -> None:
    for i in range(n):
        tmp[i] = 0.0
        y[i] = 0.0
        for j in range(n):
            tmp[i] = A[i, j] * x[j] + tmp[i]
            y[i] = B[i, j] * x[j] + y[i]
        y[i] = alpha * tmp[i] + beta * y[i]


def make_inputs(n: int, rng: np.random.Generator | None = None) -> dict[str, Any]:
    """PolyBench's initial values; with `rng`, uniform random values in [-1, 1)."""
    if rng is not None:
        return {
            "n": n,
            "alpha": rng.uniform(0.5, 1.5),
            "beta": rng.uniform(0.5, 1.5),
            "A": rng.uniform(-1.0, 1.0, (n, n)),
            "B": rng.uniform(-1.0, 1.0, (n, n)),
            "tmp": rng.uniform(-1.0, 1.0, n),
            "x": rng.uniform(-1.0, 1.0, n),
            "y": rng.uniform(-1.0, 1.0, n),
        }
    i, j = np.ogrid[:n, :n]
    return {
        "n": n,
        "alpha": 1.5,
        "beta": 1.2,
        "A": (i * j + 1) % n / n,
        "B": (i * j + 2) % n / n,
        "tmp": np.zeros(n),
        "x": np.arange(n) / n,
        "y": np.zeros(n),
    }
