"""lu: A = L @ U without pivoting, both factors in place of A (PolyBench/C 4.2.1, linear-algebra/solvers)."""

from typing import Any

import numpy as np
from jaxtyping import Float64

SIZES: dict[str, dict[str, int]] = {
    "mini": {"n": 40},
    "small": {"n": 120},
    "medium": {"n": 400},
    "large": {"n": 2000},
    "extralarge": {"n": 4000},
}
OUTPUTS = ("A",)


def lu(n: int, A: Float64[np.ndarray, "n n"]) -> None:
    for i in range(n):
        for j in range(i):
            for k in range(j):
                A[i, j] -= A[i, k] * A[k, j]
            A[i, j] /= A[j, j]
        for j in range(i, n):
            for k in range(i):
                A[i, j] -= A[i, k] * A[k, j]


def make_inputs(n: int, rng: np.random.Generator | None = None) -> dict[str, Any]:
    """PolyBench's initial values; with `rng`, a random matrix with a dominant diagonal.

    PolyBench multiplies a lower triangular matrix, with 1 - j/n in column j and a unit diagonal, by its transpose.
    Entry (r, s) of the product needs only a running sum up to min(r, s), taken in the order of PolyBench's loops.
    """
    if rng is not None:
        return {"n": n, "A": rng.uniform(-1.0, 1.0, (n, n)) + n * np.eye(n)}
    column = -np.arange(n) / n + 1
    sums = np.cumsum(column * column)
    row, other = np.ogrid[:n, :n]
    nearest = np.minimum(row, other)
    squares = np.concatenate(([0.0], sums))[nearest]
    return {"n": n, "A": squares + np.where(row == other, 1.0, column[nearest])}
