"""trmm: B = alpha * A.T @ B, A lower triangular with unit diagonal (PolyBench/C 4.2.1, linear-algebra/blas)."""

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
OUTPUTS = ("B",)


def trmm(
    m: int,
    n: int,
    alpha: float,
    A: Float64[np.ndarray, "m m"],
    B: Float64[np.ndarray, "m n"],
) -> None:
    for i in range(m):
        for j in range(n):
            for k in range(i + 1, m):
                B[i, j] += A[k, i] * B[k, j]
            B[i, j] = alpha * B[i, j]


def make_inputs(m: int, n: int, rng: np.random.Generator | None = None) -> dict[str, Any]:
    """PolyBench's initial values; with `rng`, uniform random values in [-1, 1). A is read below its diagonal."""
    if rng is not None:
        return {
            "m": m,
            "n": n,
            "alpha": rng.uniform(0.5, 1.5),
            "A": rng.uniform(-1.0, 1.0, (m, m)),
            "B": rng.uniform(-1.0, 1.0, (m, n)),
        }
    i, j = np.ogrid[:m, :n]
    row, column = np.ogrid[:m, :m]
    return {
        "m": m,
        "n": n,
        "alpha": 1.5,
        "A": np.tril((row + column) % m / m, -1) + np.eye(m),
        "B": (n + (i - j)) % n / n,
    }
