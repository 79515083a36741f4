"""3mm: G = (A @ B) @ (C @ D) (PolyBench/C 4.2.1, linear-algebra/kernels)."""

from typing import Any

import numpy as np
from jaxtyping import Float64

SIZES: dict[str, dict[str, int]] = {
    "mini": {"ni": 16, "nj": 18, "nk": 20, "nl": 22, "nm": 24},
    "small": {"ni": 40, "nj": 50, "nk": 60, "nl": 70, "nm": 80},
    "medium": {"ni": 180, "nj": 190, "nk": 200, "nl": 210, "nm": 220},
    "large": {"ni": 800, "nj": 900, "nk": 1000, "nl": 1100, "nm": 1200},
    "extralarge": {"ni": 1600, "nj": 1800, "nk": 2000, "nl": 2200, "nm": 2400},
}
OUTPUTS = ("G",)


def three_mm(
    ni: int,
    nj: int,
    nk: int,
    nl: int,
    nm: int,
    E: Float64[np.ndarray, "ni nj"],
    A: Float64[np.ndarray, "ni nk"],
    B: Float64[np.ndarray, "nk nj"],
    F: Float64[np.ndarray, "nj nl"],
    C: Float64[np.ndarray, "nj nm"],
    D: Float64[np.ndarray, "nm nl"],
    G: Float64[np.ndarray, "ni nl"],
) -> None:
    for i in range(ni):
        for j in range(nj):
            E[i, j] = 0.0
            for k in range(nk):
                E[i, j] += A[i, k] * B[k, j]
    for i in range(nj):
        for j in range(nl):
            F[i, j] = 0.0
            for k in range(nm):
                F[i, j] += C[i, k] * D[k, j]
    for i in range(ni):
        for j in range(nl):
            G[i, j] = 0.0
            for k in range(nj):
                G[i, j] += E[i, k] * F[k, j]


def make_inputs(ni: int, nj: int, nk: int, nl: int, nm: int, rng: np.random.Generator | None = None) -> dict[str, Any]:
    """PolyBench's initial values; with `rng`, uniform random values in [-1, 1)."""
    if rng is not None:
        return {
            "ni": ni,
            "nj": nj,
            "nk": nk,
            "nl": nl,
            "nm": nm,
            "E": rng.uniform(-1.0, 1.0, (ni, nj)),
            "A": rng.uniform(-1.0, 1.0, (ni, nk)),
            "B": rng.uniform(-1.0, 1.0, (nk, nj)),
            "F": rng.uniform(-1.0, 1.0, (nj, nl)),
            "C": rng.uniform(-1.0, 1.0, (nj, nm)),
            "D": rng.uniform(-1.0, 1.0, (nm, nl)),
            "G": rng.uniform(-1.0, 1.0, (ni, nl)),
        }
    i, j, k, m = (np.arange(size)[:, None] for size in (ni, nj, nk, nm))
    column_j, column_k, column_l, column_m = (np.arange(size) for size in (nj, nk, nl, nm))
    return {
        "ni": ni,
        "nj": nj,
        "nk": nk,
        "nl": nl,
        "nm": nm,
        "E": np.zeros((ni, nj)),
        "A": (i * column_k + 1) % ni / (5 * ni),
        "B": (k * (column_j + 1) + 2) % nj / (5 * nj),
        "F": np.zeros((nj, nl)),
        "C": j * (column_m + 3) % nl / (5 * nl),
        "D": (m * (column_l + 2) + 2) % nk / (5 * nk),
        "G": np.zeros((ni, nl)),
    }
