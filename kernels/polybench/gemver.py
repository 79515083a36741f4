"""gemver: A += u1 v1.T + u2 v2.T, x += beta A.T y + z, w += alpha A x (PolyBench/C 4.2.1, linear-algebra/blas)."""

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
OUTPUTS = ("w",)


def gemver(
    n: int,
    alpha: float,
    beta: float,
    A: Float64[np.ndarray, "n n"],
    u1: Float64[np.ndarray, "n"],
    v1: Float64[np.ndarray, "n"],
    u2: Float64[np.ndarray, "n"],
    v2: Float64[np.ndarray, "n"],
    w: Float64[np.ndarray, "n"],
    x: Float64[np.ndarray, "n"],
    y: Float64[np.ndarray, "n"],
    z: Float64[np.ndarray, "n"],
) -> None:
    for i in range(n):
        for j in range(n):
            A[i, j] = A[i, j] + u1[i] * v1[j] + u2[i] * v2[j]
    for i in range(n):
        for j in range(n):
            x[i] = x[i] + beta * A[j, i] * y[j]
    for i in range(n):
        x[i] = x[i] + z[i]
    for i in range(n):
        for j in range(n):
            w[i] = w[i] + alpha * A[i, j] * x[j]


def make_inputs(n: int, rng: np.random.Generator | None = None) -> dict[str, Any]:
    """PolyBench's initial values; with `rng`, uniform random values in [-1, 1)."""
    if rng is not None:
        return {
            "n": n,
            "alpha": rng.uniform(0.5, 1.5),
            "beta": rng.uniform(0.5, 1.5),
            "A": rng.uniform(-1.0, 1.0, (n, n)),
            "u1": rng.uniform(-1.0, 1.0, n),
            "v1": rng.uniform(-1.0, 1.0, n),
            "u2": rng.uniform(-1.0, 1.0, n),
            "v2": rng.uniform(-1.0, 1.0, n),
            "w": rng.uniform(-1.0, 1.0, n),
            "x": rng.uniform(-1.0, 1.0, n),
            "y": rng.uniform(-1.0, 1.0, n),
            "z": rng.uniform(-1.0, 1.0, n),
        }
    i, j = np.ogrid[:n, :n]
    ramp = (np.arange(n) + 1) / n
    return {
        "n": n,
        "alpha": 1.5,
        "beta": 1.2,
        "A": i * j % n / n,
        "u1": np.arange(n, dtype=np.float64),
        "v1": ramp / 4.0,
        "u2": ramp / 2.0,
        "v2": ramp / 6.0,
        "w": np.zeros(n),
        "x": np.zeros(n),
        "y": ramp / 8.0,
        "z": ramp / 9.0,
    }
