"""mttkrp: A[i, j] = sum over k and l of B[i, k, l] * C[k, j] * D[l, j] (matricized tensor times Khatri-Rao product)."""

from typing import Any

import numpy as np
from jaxtyping import Float64

SIZES: dict[str, dict[str, int]] = {
    "mini": {"ni": 10, "nj": 8, "nk": 12, "nl": 14},
    "small": {"ni": 24, "nj": 20, "nk": 28, "nl": 30},
    "medium": {"ni": 80, "nj": 32, "nk": 90, "nl": 100},
    "large": {"ni": 256, "nj": 32, "nk": 240, "nl": 250},
    "extralarge": {"ni": 500, "nj": 64, "nk": 480, "nl": 490},
}
OUTPUTS = ("A",)


def mttkrp(
    ni: int,
    nj: int,
    nk: int,
    nl: int,
    A: Float64[np.ndarray, "ni nj"],
    B: Float64[np.ndarray, "ni nk nl"],
    C: Float64[np.ndarray, "nk nj"],
    D: Float64[np.ndarray, "nl nj"],
) -> None:
    for i in range(ni):
        for j in range(nj):
            A[i, j] = 0.0
            for k in range(nk):
                for l in range(nl):
                    A[i, j] += B[i, k, l] * C[k, j] * D[l, j]


def make_inputs(ni: int, nj: int, nk: int, nl: int, rng: np.random.Generator | None = None) -> dict[str, Any]:
    """Simple fractions and A = 0; with `rng`, uniform random values in [-1, 1)."""
    if rng is not None:
        return {
            "ni": ni,
            "nj": nj,
            "nk": nk,
            "nl": nl,
            "A": rng.uniform(-1.0, 1.0, (ni, nj)),
            "B": rng.uniform(-1.0, 1.0, (ni, nk, nl)),
            "C": rng.uniform(-1.0, 1.0, (nk, nj)),
            "D": rng.uniform(-1.0, 1.0, (nl, nj)),
        }
    i, k, l = np.ogrid[:ni, :nk, :nl]
    row_k, row_l = (np.arange(size)[:, None] for size in (nk, nl))
    column_j = np.arange(nj)
    return {
        "ni": ni,
        "nj": nj,
        "nk": nk,
        "nl": nl,
        "A": np.zeros((ni, nj)),
        "B": (i * k + l) % nl / nl,
        "C": (row_k * column_j + 1) % nk / nk,
        "D": (row_l * column_j + 2) % nl / nl,
    }
