"""bicg: s = A.T @ r and q = A @ p, the products of a BiCG step (PolyBench/C 4.2.1, linear-algebra/kernels)."""

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
OUTPUTS = ("s", "q")


def bicg(
    m: int,
    n: int,
    A: Float64[np.ndarray, "n m"],
    s: Float64[np.ndarray, "m"],
    q: Float64[np.ndarray, "n"],
    p: Float64[np.ndarray, "m"],
    r: Float64[np.ndarray, "n"],
) -> None:
    for i in range(m):
        s[i] = 0.0
    for i in range(n):
        q[i] = 0.0
        for j in range(m):
            s[j] += r[i] * A[i, j]
            q[i] += A[i, j] * p[j]


def make_inputs(m: int, n: int, rng: np.random.Generator | None = None) -> dict[str, Any]:
    """PolyBench's initial values; with `rng`, uniform random values in [-1, 1)."""
    if rng is not None:
        return {
            "m": m,
            "n": n,
            "A": rng.uniform(-1.0, 1.0, (n, m)),
            "s": rng.uniform(-1.0, 1.0, m),
            "q": rng.uniform(-1.0, 1.0, n),
            "p": rng.uniform(-1.0, 1.0, m),
            "r": rng.uniform(-1.0, 1.0, n),
        }
    i, j = np.ogrid[:n, :m]
    return {
        "m": m,
        "n": n,
        "A": i * (j + 1) % n / n,
        "s": np.zeros(m),
        "q": np.zeros(n),
        "p": np.arange(m) / m,
        "r": np.arange(n) / n,
    }
