"""jacobi-1d: three-point average on a line, two arrays in turn (PolyBench/C 4.2.1, stencils)."""

# t only counts, but a schedule names the loop by it.
# pyright: reportUnusedVariable=false

from typing import Any

import numpy as np
from jaxtyping import Float64

SIZES: dict[str, dict[str, int]] = {
    "mini": {"tsteps": 20, "n": 30},
    "small": {"tsteps": 40, "n": 120},
    "medium": {"tsteps": 100, "n": 400},
    "large": {"tsteps": 500, "n": 2000},
    "extralarge": {"tsteps": 1000, "n": 4000},
}
OUTPUTS = ("A",)


def jacobi_1d(tsteps: int, n: int, A: Float64[np.ndarray, "n"], B: Float64[np.ndarray, "n"]) -> None:
    for t in range(tsteps):
        for i in range(1, n - 1):
            B[i] = 0.33333 * (A[i - 1] + A[i] + A[i + 1])
        for i in range(1, n - 1):
            A[i] = 0.33333 * (B[i - 1] + B[i] + B[i + 1])


def make_inputs(tsteps: int, n: int, rng: np.random.Generator | None = None) -> dict[str, Any]:
    """PolyBench's initial values; with `rng`, uniform random values in [-1, 1)."""
    if rng is not None:
        return {"tsteps": tsteps, "n": n, "A": rng.uniform(-1.0, 1.0, n), "B": rng.uniform(-1.0, 1.0, n)}
    return {"tsteps": tsteps, "n": n, "A": (np.arange(n) + 2.0) / n, "B": (np.arange(n) + 3.0) / n}
