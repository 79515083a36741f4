"""trisolv: solve L @ x = b by forward substitution (PolyBench/C 4.2.1, linear-algebra/solvers)."""

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
OUTPUTS = ("x",)


def trisolv(
    n: int,
    L: Float64[np.ndarray, "n n"],
    x: Float64[np.ndarray, "n"],
    b: Float64[np.ndarray, "n"],
) -> None:
    for i in range(n):
        x[i] = b[i]
        for j in range(i):
            x[i] -= L[i, j] * x[j]
        x[i] = x[i] / L[i, i]


def make_inputs(n: int, rng: np.random.Generator | None = None) -> dict[str, Any]:
    """PolyBench's initial values; with `rng`, a random system with a dominant diagonal."""
    if rng is not None:
        return {
            "n": n,
            "L": rng.uniform(-1.0, 1.0, (n, n)) + n * np.eye(n),
            "x": rng.uniform(-1.0, 1.0, n),
            "b": rng.uniform(-1.0, 1.0, n),
        }
    i, j = np.ogrid[:n, :n]
    return {
        "n": n,
        "L": np.tril((i + n - j + 1) * 2 / n),
        "x": np.full(n, -999.0),
        "b": np.arange(n, dtype=np.float64),
    }
