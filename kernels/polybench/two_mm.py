"""2mm: D = alpha * A @ B @ C + beta * D (PolyBench/C 4.2.1, linear-algebra/kernels)."""

from typing import Any

import numpy as np
from jaxtyping import Float64

SIZES: dict[str, dict[str, int]] = {
    "mini": {"ni": 16, "nj": 18, "nk": 22, "nl": 24},
    "small": {"ni": 40, "nj": 50, "nk": 70, "nl": 80},
    "medium": {"ni": 180, "nj": 190, "nk": 210, "nl": 220},
    "large": {"ni": 800, "nj": 900, "nk": 1100, "nl": 1200},
    "extralarge": {"ni": 1600, "nj": 1800, "nk": 2200, "nl": 2400},
}
OUTPUTS = ("D",)


def two_mm(
    ni: int,
    nj: int,
    nk: int,
    nl: int,
    alpha: float,
    beta: float,
    tmp: Float64[np.ndarray, "ni nj"],
    A: Float64[np.ndarray, "ni nk"],
    B: Float64[np.ndarray, "nk nj"],
    C: Float64[np.ndarray, "nj nl"],
    D: Float64[np.ndarray, "ni nl"],
) -> None:
    for i in range(ni):
        for j in range(nj):
            tmp[i, j] = 0.0
            for k in range(nk):
                tmp[i, j] += alpha * A[i, k] * B[k, j]
    for i in range(ni):
        for j in range(nl):
            D[i, j] *= beta
            for k in range(nj):
                D[i, j] += tmp[i, k] * C[k, j]


def make_inputs(ni: int, nj: int, nk: int, nl: int, rng: np.random.Generator | None = None) -> dict[str, Any]:
    """PolyBench's initial values; with `rng`, uniform random values in [-1, 1)."""
    if rng is not None:
        return {
            "ni": ni,
            "nj": nj,
            "nk": nk,
            "nl": nl,
            "alpha": rng.uniform(0.5, 1.5),
            "beta": rng.uniform(0.5, 1.5),
            "tmp": rng.uniform(-1.0, 1.0, (ni, nj)),
            "A": rng.uniform(-1.0, 1.0, (ni, nk)),
            "B": rng.uniform(-1.0, 1.0, (nk, nj)),
            "C": rng.uniform(-1.0, 1.0, (nj, nl)),
            "D": rng.uniform(-1.0, 1.0, (ni, nl)),
        }
    i, j, k = (np.arange(size)[:, None] for size in (ni, nj, nk))
    column_j, column_k, column_l = (np.arange(size) for size in (nj, nk, nl))
    return {
        "ni": ni,
        "nj": nj,
        "nk": nk,
        "nl": nl,
        "alpha": 1.5,
        "beta": 1.2,
        "tmp": np.zeros((ni, nj)),
        "A": (i * column_k + 1) % ni / ni,
        "B": k * (column_j + 1) % nj / nj,
        "C": (j * (column_l + 3) + 1) % nl / nl,
        "D": i * (column_l + 2) % nk / nk,
    }
