"""matmul: C = C + A @ B, the teaching example of three loops."""

from typing import Any

import numpy as np
from jaxtyping import Float64

SIZES: dict[str, dict[str, int]] = {
    "mini": {"ni": 20, "nj": 25, "nk": 30},
    "small": {"ni": 60, "nj": 70, "nk": 80},
    "medium": {"ni": 200, "nj": 220, "nk": 240},
    "large": {"ni": 800, "nj": 900, "nk": 1000},
    "extralarge": {"ni": 2000, "nj": 2300, "nk": 2600},
}
OUTPUTS = ("C",)


def matmul(
    A: Float64[np.ndarray, "ni nk"],
    B: Float64[np.ndarray, "nk nj"],
    C: Float64[np.ndarray, "ni nj"],
) -> None:
    ni, nj = C.shape
    nk = len(B)
    for i in range(ni):
        for j in range(nj):
            for k in range(nk):
                C[i, j] += A[i, k] * B[k, j]


def make_inputs(ni: int, nj: int, nk: int, rng: np.random.Generator | None = None) -> dict[str, Any]:
    """Simple fractions and C = 0; with `rng`, uniform random values in [-1, 1)."""
    if rng is not None:
        return {
            "A": rng.uniform(-1.0, 1.0, (ni, nk)),
            "B": rng.uniform(-1.0, 1.0, (nk, nj)),
            "C": rng.uniform(-1.0, 1.0, (ni, nj)),
        }
    i, k = (np.arange(size)[:, None] for size in (ni, nk))
    column_j, column_k = (np.arange(size) for size in (nj, nk))
    return {
        "A": (i * column_k + 1) % ni / ni,
        "B": (k * column_j + 2) % nj / nj,
        "C": np.zeros((ni, nj)),
    }
