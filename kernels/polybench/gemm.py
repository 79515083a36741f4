"""gemm: C = alpha * A @ B + beta * C (PolyBench/C 4.2.1, linear-algebra/blas)."""

from typing import Any

import numpy as np
from jaxtyping import Float64

SIZES: dict[str, dict[str, int]] = {
    "mini": {"ni": 20, "nj": 25, "nk": 30},
    "small": {"ni": 60, "nj": 70, "nk": 80},
    "medium": {"ni": 200, "nj": 220, "nk": 240},
    "large": {"ni": 1000, "nj": 1100, "nk": 1200},
    "extralarge": {"ni": 2000, "nj": 2300, "nk": 2600},
}
OUTPUTS = ("C",)


def gemm(
    ni: int,
    nj: int,
    nk: int,
    alpha: float,
    beta: float,
    C: Float64[np.ndarray, "ni nj"],
    A: Float64[np.ndarray, "ni nk"],
    B: Float64[np.ndarray, "nk nj"],
) -> None:
    for i in range(ni):
        for j in range(nj):
            C[i, j] *= beta
        for k in range(nk):
            for j in range(nj):
                C[i, j] += alpha * A[i, k] * B[k, j]


def make_inputs(ni: int, nj: int, nk: int, rng: np.random.Generator | None = None) -> dict[str, Any]:
    """PolyBench's initial values; with `rng`, uniform random values in [-1, 1)."""
    if rng is not None:
        return {
            "ni": ni,
            "nj": nj,
            "nk": nk,
            "alpha": rng.uniform(0.5, 1.5),
            "beta": rng.uniform(0.5, 1.5),
            "C": rng.uniform(-1.0, 1.0, (ni, nj)),
            "A": rng.uniform(-1.0, 1.0, (ni, nk)),
            "B": rng.uniform(-1.0, 1.0, (nk, nj)),
        }
    i, k = (np.arange(size)[:, None] for size in (ni, nk))
    column_j, column_k = (np.arange(size) for size in (nj, nk))
    return {
        "ni": ni,
        "nj": nj,
        "nk": nk,
        "alpha": 1.5,
        "beta": 1.2,
        "C": (i * column_j + 1) % ni / ni,
        "A": i * (column_k + 1) % nk / nk,
        "B": k * (column_j + 2) % nj / nj,
    }
