"""durbin: solve the Yule-Walker equations of a Toeplitz matrix (PolyBench/C 4.2.1, linear-algebra/solvers)."""

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
OUTPUTS = ("y",)


def durbin(n: int, r: Float64[np.ndarray, "n"], y: Float64[np.ndarray, "n"]) -> None:
    z = np.empty(n)
    y[0] = -r[0]
    beta = 1.0
    alpha = -r[0]
    for k in range(1, n):
        beta = (1.0 - alpha * alpha) * beta
        sum = 0.0
        for i in range(k):
            sum += r[k - i - 1] * y[i]
        alpha = -(r[k] + sum) / beta
        for i in range(k):
            z[i] = y[i] + alpha * y[k - i - 1]
        for i in range(k):
            y[i] = z[i]
        y[k] = alpha


def make_inputs(n: int, rng: np.random.Generator | None = None) -> dict[str, Any]:
    """PolyBench's initial values; with `rng`, random autocorrelations that fall off with the square of the lag.

    Their magnitudes sum to less than 1/2: the Toeplitz matrix has a dominant diagonal and the recursion is stable.
    """
    if rng is not None:
        lag = np.arange(1, n + 1)
        return {"n": n, "r": rng.uniform(-1.0, 1.0, n) / (4.0 * lag * lag), "y": rng.uniform(-1.0, 1.0, n)}
    return {"n": n, "r": n + 1.0 - np.arange(n), "y": np.zeros(n)}
