"""A layer norm in four spellings: loops over elements, loops over rows, and whole arrays in two ways."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

SIZES = {"n": 2000, "m": 2048}


def loops(
    X: Float64[np.ndarray, "n m"],
    g: Float64[np.ndarray, " m"],
    b: Float64[np.ndarray, " m"],
    out: Float64[np.ndarray, "n m"],
) -> None:
    for i in range(X.shape[0]):
        mean = 0.0
        for j in range(X.shape[1]):
            mean += X[i, j]
        mean = mean / X.shape[1]
        v = 0.0
        for j in range(X.shape[1]):
            v += (X[i, j] - mean) ** 2
        s = np.sqrt(v / X.shape[1] + 1e-5)
        for j in range(X.shape[1]):
            out[i, j] = (X[i, j] - mean) / s * g[j] + b[j]


def rows(
    X: Float64[np.ndarray, "n m"],
    g: Float64[np.ndarray, " m"],
    b: Float64[np.ndarray, " m"],
    out: Float64[np.ndarray, "n m"],
) -> None:
    for i in range(X.shape[0]):
        d = X[i] - np.mean(X[i])
        s = np.sqrt(np.mean(d * d) + 1e-5)
        out[i] = d / s * g + b


def sums(
    X: Float64[np.ndarray, "n m"],
    g: Float64[np.ndarray, " m"],
    b: Float64[np.ndarray, " m"],
    out: Float64[np.ndarray, "n m"],
) -> None:
    d = X - (np.sum(X, axis=1) / X.shape[1])[:, None]
    v = np.sum(d * d, axis=1) / X.shape[1]
    out[:] = d / np.sqrt(v + 1e-5)[:, None] * g + b


def axis(
    X: Float64[np.ndarray, "n m"],
    g: Float64[np.ndarray, " m"],
    b: Float64[np.ndarray, " m"],
    out: Float64[np.ndarray, "n m"],
) -> None:
    mean = X.mean(axis=1, keepdims=True)
    v = np.mean((X - mean) ** 2, axis=1, keepdims=True)
    out[:] = (X - mean) / np.sqrt(v + 1e-5) * g + b
