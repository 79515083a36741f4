"""jacobi-2d: five-point average in the plane, two arrays in turn (PolyBench/C 4.2.1, stencils)."""

# t only counts, but a schedule names the loop by it.
# pyright: reportUnusedVariable=false

from typing import Any

import numpy as np
from jaxtyping import Float64

SIZES: dict[str, dict[str, int]] = {
    "mini": {"tsteps": 20, "n": 30},
    "small": {"tsteps": 40, "n": 90},
    "medium": {"tsteps": 100, "n": 250},
    "large": {"tsteps": 500, "n": 1300},
    "extralarge": {"tsteps": 1000, "n": 2800},
}
OUTPUTS = ("A",)


def jacobi_2d(tsteps: int, n: int, A: Float64[np.ndarray, "n n"], B: Float64[np.ndarray, "n n"]) -> None:
    for t in range(tsteps):
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                B[i, j] = 0.2 * (A[i, j] + A[i, j - 1] + A[i, j + 1] + A[i + 1, j] + A[i - 1, j])
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                A[i, j] = 0.2 * (B[i, j] + B[i, j - 1] + B[i, j + 1] + B[i + 1, j] + B[i - 1, j])


def make_inputs(tsteps: int, n: int, rng: np.random.Generator | None = None) -> dict[str, Any]:
    """PolyBench's initial values; with `rng`, uniform random values in [-1, 1)."""
    if rng is not None:
        return {
            "tsteps": tsteps,
            "n": n,
            "A": rng.uniform(-1.0, 1.0, (n, n)),
            "B": rng.uniform(-1.0, 1.0, (n, n)),
        }
    i, j = np.ogrid[:n, :n]
    return {
        "tsteps": tsteps,
        "n": n,
        "A": (i * (j + 2.0) + 2.0) / n,
        "B": (i * (j + 3.0) + 3.0) / n,
    }
