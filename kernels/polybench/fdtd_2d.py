"""fdtd-2d: electromagnetic fields in the plane by finite differences in time (PolyBench/C 4.2.1, stencils)."""

from typing import Any

import numpy as np
from jaxtyping import Float64

SIZES: dict[str, dict[str, int]] = {
    "mini": {"tmax": 20, "nx": 20, "ny": 30},
    "small": {"tmax": 40, "nx": 60, "ny": 80},
    "medium": {"tmax": 100, "nx": 200, "ny": 240},
    "large": {"tmax": 500, "nx": 1000, "ny": 1200},
    "extralarge": {"tmax": 1000, "nx": 2000, "ny": 2600},
}
OUTPUTS = ("ex", "ey", "hz")


def fdtd_2d(
    tmax: int,
    nx: int,
    ny: int,
    ex: Float64[np.ndarray, "nx ny"],
    ey: Float64[np.ndarray, "nx ny"],
    hz: Float64[np.ndarray, "nx ny"],
    _fict_: Float64[np.ndarray, "tmax"],
) -> None:
    for t in range(tmax):
        for j in range(ny):
            ey[0, j] = _fict_[t]
        for i in range(1, nx):
            for j in range(ny):
                ey[i, j] = ey[i, j] - 0.5 * (hz[i, j] - hz[i - 1, j])
        for i in range(nx):
            for j in range(1, ny):
                ex[i, j] = ex[i, j] - 0.5 * (hz[i, j] - hz[i, j - 1])
        for i in range(nx - 1):
            for j in range(ny - 1):
                hz[i, j] = hz[i, j] - 0.7 * (ex[i, j + 1] - ex[i, j] + ey[i + 1, j] - ey[i, j])


def make_inputs(tmax: int, nx: int, ny: int, rng: np.random.Generator | None = None) -> dict[str, Any]:
    """PolyBench's initial values; with `rng`, uniform random values in [-1, 1)."""
    if rng is not None:
        return {
            "tmax": tmax,
            "nx": nx,
            "ny": ny,
            "ex": rng.uniform(-1.0, 1.0, (nx, ny)),
            "ey": rng.uniform(-1.0, 1.0, (nx, ny)),
            "hz": rng.uniform(-1.0, 1.0, (nx, ny)),
            "_fict_": rng.uniform(-1.0, 1.0, tmax),
        }
    i, j = np.ogrid[:nx, :ny]
    return {
        "tmax": tmax,
        "nx": nx,
        "ny": ny,
        "ex": i * (j + 1) / nx,
        "ey": i * (j + 2) / ny,
        "hz": i * (j + 3) / nx,
        "_fict_": np.arange(tmax, dtype=np.float64),
    }
