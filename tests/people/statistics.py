"""Statistics by reductions over an axis."""

import numpy as np
from jaxtyping import Float64

SIZES = {"n": 3000, "m": 400, "steps": 20}


def covariance(X: Float64[np.ndarray, "n m"]) -> Float64[np.ndarray, "m m"]:
    centred = X - X.mean(axis=0)
    return centred.T @ centred / (X.shape[0] - 1.0)


def correlation(X: Float64[np.ndarray, "n m"]) -> Float64[np.ndarray, "m m"]:
    standard = (X - np.mean(X, axis=0)) / np.std(X, axis=0)
    return standard.T @ standard / X.shape[0]


def standardize(X: Float64[np.ndarray, "n m"]) -> None:
    X -= X.mean(axis=0)
    X /= X.std(axis=0)


def ranges(X: Float64[np.ndarray, "n m"]) -> Float64[np.ndarray, "m"]:
    return X.max(axis=0) - X.min(axis=0)


def weighted_mean(X: Float64[np.ndarray, "n m"], w: Float64[np.ndarray, "n"]) -> Float64[np.ndarray, "m"]:
    return np.sum(X * w[:, None], axis=0) / np.sum(w)


def distances(X: Float64[np.ndarray, "n m"], centre: Float64[np.ndarray, "m"]) -> Float64[np.ndarray, "n"]:
    return np.sqrt(np.sum((X - centre) ** 2, axis=1))


def share_above(X: Float64[np.ndarray, "n m"], limit: float) -> Float64[np.ndarray, "m"]:
    return np.mean(limit < X, axis=0)


def moments(x: Float64[np.ndarray, "n"]) -> tuple[float, float, float]:
    mean = np.mean(x)
    d = x - mean
    return mean, np.mean(d * d), np.mean(d * d * d)
