"""correlation: correlation matrix of the columns of a data set (PolyBench/C 4.2.1, datamining)."""

import math
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
OUTPUTS = ("corr",)


def correlation(
    m: int,
    n: int,
    float_n: float,
    data: Float64[np.ndarray, "n m"],
    corr: Float64[np.ndarray, "m m"],
    mean: Float64[np.ndarray, "m"],
    stddev: Float64[np.ndarray, "m"],
) -> None:
    eps = 0.1
    for j in range(m):
        mean[j] = 0.0
        for i in range(n):
            mean[j] += data[i, j]
        mean[j] /= float_n
    for j in range(m):
        stddev[j] = 0.0
        for i in range(n):
            stddev[j] += (data[i, j] - mean[j]) * (data[i, j] - mean[j])
        stddev[j] /= float_n
        stddev[j] = math.sqrt(stddev[j])
        stddev[j] = 1.0 if stddev[j] <= eps else stddev[j]
    for i in range(n):
        for j in range(m):
            data[i, j] -= mean[j]
            data[i, j] /= math.sqrt(float_n) * stddev[j]
    for i in range(m - 1):
        corr[i, i] = 1.0
        for j in range(i + 1, m):
            corr[i, j] = 0.0
            for k in range(n):
                corr[i, j] += data[k, i] * data[k, j]
            corr[j, i] = corr[i, j]
    corr[m - 1, m - 1] = 1.0


def make_inputs(m: int, n: int, rng: np.random.Generator | None = None) -> dict[str, Any]:
    """PolyBench's initial values; with `rng`, uniform random values in [-1, 1), whose deviation is far above `eps`."""
    if rng is not None:
        return {
            "m": m,
            "n": n,
            "float_n": float(n),
            "data": rng.uniform(-1.0, 1.0, (n, m)),
            "corr": rng.uniform(-1.0, 1.0, (m, m)),
            "mean": rng.uniform(-1.0, 1.0, m),
            "stddev": rng.uniform(-1.0, 1.0, m),
        }
    i, j = np.ogrid[:n, :m]
    return {
        "m": m,
        "n": n,
        "float_n": float(n),
        "data": i * j / m + i,
        "corr": np.zeros((m, m)),
        "mean": np.zeros(m),
        "stddev": np.zeros(m),
    }
