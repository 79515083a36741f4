"""layernorm: each row is brought to mean 0 and variance 1, then scaled and shifted by feature."""

import math
from typing import Any

import numpy as np
from jaxtyping import Float64

SIZES: dict[str, dict[str, int]] = {
    "mini": {"rows": 12, "features": 20},
    "small": {"rows": 60, "features": 96},
    "medium": {"rows": 1024, "features": 768},
    "large": {"rows": 8192, "features": 2048},
    "extralarge": {"rows": 16384, "features": 4096},
}
OUTPUTS = ("normalized",)


def layernorm(
    rows: int,
    features: int,
    epsilon: float,
    x: Float64[np.ndarray, "rows features"],
    scale: Float64[np.ndarray, "features"],
    shift: Float64[np.ndarray, "features"],
    normalized: Float64[np.ndarray, "rows features"],
) -> None:
    for i in range(rows):
        mean = 0.0
        for j in range(features):
            mean += x[i, j]
        mean = mean / features
        variance = 0.0
        for j in range(features):
            variance += (x[i, j] - mean) * (x[i, j] - mean)
        variance = variance / features
        factor = 1.0 / math.sqrt(variance + epsilon)
        for j in range(features):
            normalized[i, j] = (x[i, j] - mean) * factor * scale[j] + shift[j]


def make_inputs(rows: int, features: int, rng: np.random.Generator | None = None) -> dict[str, Any]:
    """Simple fractions; with `rng`, uniform random values, the scale in [0.5, 1.5), all others in [-1, 1)."""
    if rng is not None:
        return {
            "rows": rows,
            "features": features,
            "epsilon": 1e-5,
            "x": rng.uniform(-1.0, 1.0, (rows, features)),
            "scale": rng.uniform(0.5, 1.5, features),
            "shift": rng.uniform(-1.0, 1.0, features),
            "normalized": rng.uniform(-1.0, 1.0, (rows, features)),
        }
    i, j = np.ogrid[:rows, :features]
    return {
        "rows": rows,
        "features": features,
        "epsilon": 1e-5,
        "x": (i * j + i + j) % features / features,
        "scale": 1.0 + np.arange(features) / features,
        "shift": np.arange(features) % 5 / 5,
        "normalized": np.zeros((rows, features)),
    }
