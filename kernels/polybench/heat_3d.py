"""heat-3d: heat equation in space, two arrays in turn (PolyBench/C 4.2.1, stencils)."""

# t only counts, but a schedule names the loop by it.
# pyright: reportUnusedVariable=false

from typing import Any

import numpy as np
from jaxtyping import Float64

SIZES: dict[str, dict[str, int]] = {
    "mini": {"tsteps": 20, "n": 10},
    "small": {"tsteps": 40, "n": 20},
    "medium": {"tsteps": 100, "n": 40},
    "large": {"tsteps": 500, "n": 120},
    "extralarge": {"tsteps": 1000, "n": 200},
}
OUTPUTS = ("A",)


def heat_3d(
    tsteps: int,
    n: int,
    A: Float64[np.ndarray, "n n n"],
    B: Float64[np.ndarray, "n n n"],
) -> None:
    for t in range(1, tsteps + 1):
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                for k in range(1, n - 1):
                    B[i, j, k] = (
                        0.125 * (A[i + 1, j, k] - 2.0 * A[i, j, k] + A[i - 1, j, k])
                        + 0.125 * (A[i, j + 1, k] - 2.0 * A[i, j, k] + A[i, j - 1, k])
                        + 0.125 * (A[i, j, k + 1] - 2.0 * A[i, j, k] + A[i, j, k - 1])
                        + A[i, j, k]
                    )
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                for k in range(1, n - 1):
                    A[i, j, k] = (
                        0.125 * (B[i + 1, j, k] - 2.0 * B[i, j, k] + B[i - 1, j, k])
                        + 0.125 * (B[i, j + 1, k] - 2.0 * B[i, j, k] + B[i, j - 1, k])
                        + 0.125 * (B[i, j, k + 1] - 2.0 * B[i, j, k] + B[i, j, k - 1])
                        + B[i, j, k]
                    )


def make_inputs(tsteps: int, n: int, rng: np.random.Generator | None = None) -> dict[str, Any]:
    """PolyBench's initial values; with `rng`, uniform random values in [-1, 1)."""
    if rng is not None:
        return {
            "tsteps": tsteps,
            "n": n,
            "A": rng.uniform(-1.0, 1.0, (n, n, n)),
            "B": rng.uniform(-1.0, 1.0, (n, n, n)),
        }
    i, j, k = np.ogrid[:n, :n, :n]
    initial = (i + j + (n - k)) * 10 / n
    return {"tsteps": tsteps, "n": n, "A": initial, "B": initial.copy()}
