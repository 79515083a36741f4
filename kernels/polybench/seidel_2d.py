"""seidel-2d: nine-point average in the plane, in place (PolyBench/C 4.2.1, stencils)."""

# t only counts, but a schedule names the loop by it.
# pyright: reportUnusedVariable=false

from typing import Any

import numpy as np
from jaxtyping import Float64

SIZES: dict[str, dict[str, int]] = {
    "mini": {"tsteps": 20, "n": 40},
    "small": {"tsteps": 40, "n": 120},
    "medium": {"tsteps": 100, "n": 400},
    "large": {"tsteps": 500, "n": 2000},
    "extralarge": {"tsteps": 1000, "n": 4000},
}
OUTPUTS = ("A",)


def seidel_2d(tsteps: int, n: int, A: Float64[np.ndarray, "n n"]) -> None:
    for t in range(tsteps):
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                A[i, j] = (
                    A[i - 1, j - 1]
                    + A[i - 1, j]
                    + A[i - 1, j + 1]
                    + A[i, j - 1]
                    + A[i, j]
                    + A[i, j + 1]
                    + A[i + 1, j - 1]
                    + A[i + 1, j]
                    + A[i + 1, j + 1]
                ) / 9.0


def make_inputs(tsteps: int, n: int, rng: np.random.Generator | None = None) -> dict[str, Any]:
    """PolyBench's initial values; with `rng`, uniform random values in [-1, 1)."""
    if rng is not None:
        return {"tsteps": tsteps, "n": n, "A": rng.uniform(-1.0, 1.0, (n, n))}
    i, j = np.ogrid[:n, :n]
    return {"tsteps": tsteps, "n": n, "A": (i * (j + 2.0) + 2.0) / n}
