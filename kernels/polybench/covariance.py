"""covariance: covariance matrix of the columns of a data set (PolyBench/C 4.2.1, datamining)."""

from typing import Any

import numpy as np
from jaxtyping import Float64

SIZES: dict[str, dict[str, int]] = {
    "mini": {"m": 28, "n": 32},
    "small": {"m": 80, "n": 100},
    "medium": {"m": 240, "n": 260},
    "large": {"m": 1200, "n": 1400},
    "extralarge": {"m": 2600, "n": 3000},
}
OUTPUTS = ("cov",)


def covariance(
    m: int,
    n: int,
    float_n: float,
    data: Float64[np.ndarray, "n m"],
    cov: Float64[np.ndarray, "m m"],
    mean: Float64[np.ndarray, "m"],
) -> None:
    for j in range(m):
        mean[j] = 0.0
        for i in range(n):
            mean[j] += data[i, j]
        mean[j] /= float_n
    for i in range(n):
        for j in range(m):
            data[i, j] -= mean[j]
    for i in range(m):
        for j in range(i, m):
            cov[i, j] = 0.0
            for k in range(n):
                cov[i, j] += data[k, i] * data[k, j]
            cov[i, j] /= float_n - 1.0
            cov[j, i] = cov[i, j]


def make_inputs(m: int, n: int, rng: np.random.Generator | None = None) -> dict[str, Any]:
    """PolyBench's initial values; with `rng`, uniform random values in [-1, 1)."""
    if rng is not None:
        return {
            "m": m,
            "n": n,
            "float_n": float(n),
            "data": rng.uniform(-1.0, 1.0, (n, m)),
            "cov": rng.uniform(-1.0, 1.0, (m, m)),
            "mean": rng.uniform(-1.0, 1.0, m),
        }
    i, j = np.ogrid[:n, :m]
    return {
        "m": m,
        "n": n,
        "float_n": float(n),
        "data": i * j / m,
        "cov": np.zeros((m, m)),
        "mean": np.zeros(m),
    }
