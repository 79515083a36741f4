"""The covariance of the columns of a matrix, spelled in three ways."""

import numpy as np
from jaxtyping import Float64

SIZES = {"n": 3000, "m": 400}


def covariance_by_loops(X: Float64[np.ndarray, "n m"]) -> Float64[np.ndarray, "m m"]:
    mean = np.zeros(X.shape[1])
    centred = np.empty(X.shape)
    result = np.empty((X.shape[1], X.shape[1]))
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            mean[j] += X[i, j]
    for j in range(X.shape[1]):
        mean[j] /= X.shape[0]
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            centred[i, j] = X[i, j] - mean[j]
    for i in range(X.shape[1]):
        for j in range(i, X.shape[1]):
            result[i, j] = 0.0
            for k in range(X.shape[0]):
                result[i, j] += centred[k, i] * centred[k, j]
            result[i, j] /= X.shape[0] - 1.0
            result[j, i] = result[i, j]
    return result


def covariance_by_slices(X: Float64[np.ndarray, "n m"]) -> Float64[np.ndarray, "m m"]:
    mean = np.zeros(X.shape[1])
    result = np.zeros((X.shape[1], X.shape[1]))
    for i in range(X.shape[0]):
        mean += X[i, :]
    mean /= X.shape[0]
    centred = X - mean
    for i in range(X.shape[1]):
        for j in range(i, X.shape[1]):
            result[i, j] = np.sum(centred[:, i] * centred[:, j]) / (X.shape[0] - 1.0)
            result[j, i] = result[i, j]
    return result


def covariance_by_product(X: Float64[np.ndarray, "n m"]) -> Float64[np.ndarray, "m m"]:
    centred = X - X.mean(axis=0)
    return centred.T @ centred / (X.shape[0] - 1.0)
