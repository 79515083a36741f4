"""adi: heat equation by alternating direction implicit steps (PolyBench/C 4.2.1, stencils)."""

# t only counts, but a schedule names the loop by it.
# pyright: reportUnusedVariable=false

from typing import Any

import numpy as np
from jaxtyping import Float64

SIZES: dict[str, dict[str, int]] = {
    "mini": {"tsteps": 20, "n": 20},
    "small": {"tsteps": 40, "n": 60},
    "medium": {"tsteps": 100, "n": 200},
    "large": {"tsteps": 500, "n": 1000},
    "extralarge": {"tsteps": 1000, "n": 2000},
}
OUTPUTS = ("u",)


def adi(
    tsteps: int,
    n: int,
    u: Float64[np.ndarray, "n n"],
    v: Float64[np.ndarray, "n n"],
    p: Float64[np.ndarray, "n n"],
    q: Float64[np.ndarray, "n n"],
) -> None:
    DX = 1.0 / n
    DY = 1.0 / n
    DT = 1.0 / tsteps
    B1 = 2.0
    B2 = 1.0
    mul1 = B1 * DT / (DX * DX)
    mul2 = B2 * DT / (DY * DY)
    a = -mul1 / 2.0
    b = 1.0 + mul1
    c = a
    d = -mul2 / 2.0
    e = 1.0 + mul2
    f = d
    for t in range(1, tsteps + 1):
        for i in range(1, n - 1):
            v[0, i] = 1.0
            p[i, 0] = 0.0
            q[i, 0] = v[0, i]
            for j in range(1, n - 1):
                p[i, j] = -c / (a * p[i, j - 1] + b)
                q[i, j] = (-d * u[j, i - 1] + (1.0 + 2.0 * d) * u[j, i] - f * u[j, i + 1] - a * q[i, j - 1]) / (
                    a * p[i, j - 1] + b
                )
            v[n - 1, i] = 1.0
            for j in range(n - 2, 0, -1):
                v[j, i] = p[i, j] * v[j + 1, i] + q[i, j]
        for i in range(1, n - 1):
            u[i, 0] = 1.0
            p[i, 0] = 0.0
            q[i, 0] = u[i, 0]
            for j in range(1, n - 1):
                p[i, j] = -f / (d * p[i, j - 1] + e)
                q[i, j] = (-a * v[i - 1, j] + (1.0 + 2.0 * a) * v[i, j] - c * v[i + 1, j] - d * q[i, j - 1]) / (
                    d * p[i, j - 1] + e
                )
            u[i, n - 1] = 1.0
            for j in range(n - 2, 0, -1):
                u[i, j] = p[i, j] * u[i, j + 1] + q[i, j]


def make_inputs(tsteps: int, n: int, rng: np.random.Generator | None = None) -> dict[str, Any]:
    """PolyBench's initial values; with `rng`, uniform random values in [-1, 1)."""
    if rng is not None:
        return {
            "tsteps": tsteps,
            "n": n,
            "u": rng.uniform(-1.0, 1.0, (n, n)),
            "v": rng.uniform(-1.0, 1.0, (n, n)),
            "p": rng.uniform(-1.0, 1.0, (n, n)),
            "q": rng.uniform(-1.0, 1.0, (n, n)),
        }
    i, j = np.ogrid[:n, :n]
    return {
        "tsteps": tsteps,
        "n": n,
        "u": (i + n - j) / n,
        "v": np.zeros((n, n)),
        "p": np.zeros((n, n)),
        "q": np.zeros((n, n)),
    }
