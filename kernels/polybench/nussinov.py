"""nussinov: the most base pairs that an RNA sequence can fold into (PolyBench/C 4.2.1, medley)."""

from typing import Any

import numpy as np
from jaxtyping import Int32

SIZES: dict[str, dict[str, int]] = {
    "mini": {"n": 60},
    "small": {"n": 180},
    "medium": {"n": 500},
    "large": {"n": 2500},
    "extralarge": {"n": 5500},
}
OUTPUTS = ("table",)


def nussinov(n: int, seq: Int32[np.ndarray, "n"], table: Int32[np.ndarray, "n n"]) -> None:
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            if j - 1 >= 0:
                table[i, j] = max(table[i, j], table[i, j - 1])
            if i + 1 < n:
                table[i, j] = max(table[i, j], table[i + 1, j])
            if j - 1 >= 0 and i + 1 < n:
                if i < j - 1:
                    table[i, j] = max(table[i, j], table[i + 1, j - 1] + (1 if seq[i] + seq[j] == 3 else 0))
                else:
                    table[i, j] = max(table[i, j], table[i + 1, j - 1])
            for k in range(i + 1, j):
                table[i, j] = max(table[i, j], table[i, k] + table[k + 1, j])


def make_inputs(n: int, rng: np.random.Generator | None = None) -> dict[str, Any]:
    """PolyBench's initial values; with `rng`, a random sequence of the bases 0 to 3 (0 pairs with 3, 1 with 2)."""
    table = np.zeros((n, n), dtype=np.int32)
    if rng is not None:
        return {"n": n, "seq": rng.integers(0, 4, n, dtype=np.int32), "table": table}
    return {"n": n, "seq": ((np.arange(n) + 1) % 4).astype(np.int32), "table": table}
