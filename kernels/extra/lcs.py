"""lcs: length of the longest common subsequence of every pair of prefixes of two sequences, by dynamic programming."""

from typing import Any

import numpy as np
from jaxtyping import Int32

SIZES: dict[str, dict[str, int]] = {
    "mini": {"m": 40, "n": 50},
    "small": {"m": 180, "n": 200},
    "medium": {"m": 1000, "n": 1100},
    "large": {"m": 6000, "n": 7000},
    "extralarge": {"m": 12000, "n": 14000},
}
OUTPUTS = ("table",)


def lcs(
    m: int,
    n: int,
    a: Int32[np.ndarray, "m"],
    b: Int32[np.ndarray, "n"],
    table: Int32[np.ndarray, "m+1 n+1"],
) -> None:
    for i in range(m + 1):
        table[i, 0] = 0
    for j in range(n + 1):
        table[0, j] = 0
    for i in range(1, m + 1):
        for j in range(1, n + 1):
            table[i, j] = table[i - 1, j - 1] + 1 if a[i - 1] == b[j - 1] else max(table[i - 1, j], table[i, j - 1])


def make_inputs(m: int, n: int, rng: np.random.Generator | None = None) -> dict[str, Any]:
    """Two regular sequences of the letters 0 to 3; with `rng`, two random ones."""
    if rng is not None:
        return {
            "m": m,
            "n": n,
            "a": rng.integers(0, 4, m, dtype=np.int32),
            "b": rng.integers(0, 4, n, dtype=np.int32),
            "table": rng.integers(0, 100, (m + 1, n + 1), dtype=np.int32),
        }
    i, j = np.arange(m), np.arange(n)
    return {
        "m": m,
        "n": n,
        "a": (i * i % 7 % 4).astype(np.int32),
        "b": ((j * j + 2 * j) % 5 % 4).astype(np.int32),
        "table": np.zeros((m + 1, n + 1), dtype=np.int32),
    }
