"""doitgen: A[r, q, :] = A[r, q, :] @ C4 for every r and q (PolyBench/C 4.2.1, linear-algebra/kernels).

PolyBench calls the third size `np`; it is `ns` here because `np` is NumPy.
"""

from typing import Any

import numpy as np
from jaxtyping import Float64

SIZES: dict[str, dict[str, int]] = {
    "mini": {"nq": 8, "nr": 10, "ns": 12},
    "small": {"nq": 20, "nr": 25, "ns": 30},
    "medium": {"nq": 40, "nr": 50, "ns": 60},
    "large": {"nq": 140, "nr": 150, "ns": 160},
    "extralarge": {"nq": 220, "nr": 250, "ns": 270},
}
OUTPUTS = ("A",)


def doitgen(
    nr: int,
    nq: int,
    ns: int,
    A: Float64[np.ndarray, "nr nq ns"],
    C4: Float64[np.ndarray, "ns ns"],
    sum: Float64[np.ndarray, "ns"],
) -> None:
    for r in range(nr):
        for q in range(nq):
            for p in range(ns):
                sum[p] = 0.0
                for s in range(ns):
                    sum[p] += A[r, q, s] * C4[s, p]
            for p in range(ns):
                A[r, q, p] = sum[p]


def make_inputs(nr: int, nq: int, ns: int, rng: np.random.Generator | None = None) -> dict[str, Any]:
    """PolyBench's initial values; with `rng`, uniform random values in [-1, 1)."""
    if rng is not None:
        return {
            "nr": nr,
            "nq": nq,
            "ns": ns,
            "A": rng.uniform(-1.0, 1.0, (nr, nq, ns)),
            "C4": rng.uniform(-1.0, 1.0, (ns, ns)),
            "sum": rng.uniform(-1.0, 1.0, ns),
        }
    r, q, p = np.ogrid[:nr, :nq, :ns]
    i, j = np.ogrid[:ns, :ns]
    return {
        "nr": nr,
        "nq": nq,
        "ns": ns,
        "A": (r * q + p) % ns / ns,
        "C4": i * j % ns / ns,
        "sum": np.zeros(ns),
    }
