"""floyd-warshall: lengths of the shortest paths between all pairs of nodes (PolyBench/C 4.2.1, medley)."""

from typing import Any

import numpy as np
from jaxtyping import Int32

SIZES: dict[str, dict[str, int]] = {
    "mini": {"n": 60},
    "small": {"n": 180},
    "medium": {"n": 500},
    "large": {"n": 2800},
    "extralarge": {"n": 5600},
}
OUTPUTS = ("path",)


def floyd_warshall(n: int, path: Int32[np.ndarray, "n n"]) -> None:
    for k in range(n):
        for i in range(n):
            for j in range(n):
                path[i, j] = path[i, j] if path[i, j] < path[i, k] + path[k, j] else path[i, k] + path[k, j]


def make_inputs(n: int, rng: np.random.Generator | None = None) -> dict[str, Any]:
    """PolyBench's initial values; with `rng`, random edge lengths from 1 to 999."""
    if rng is not None:
        return {"n": n, "path": rng.integers(1, 1000, (n, n), dtype=np.int32)}
    i, j = np.ogrid[:n, :n]
    total = i + j
    far = (total % 13 == 0) | (total % 7 == 0) | (total % 11 == 0)
    return {"n": n, "path": np.where(far, 999, i * j % 7 + 1).astype(np.int32)}
