"""Layers of neural networks."""

import numpy as np
from jaxtyping import Float32, Float64

SIZES = {"n": 512, "m": 768, "k": 640}


def dense_relu(X: Float32[np.ndarray, "n k"], W: Float32[np.ndarray, "k m"], b: Float32[np.ndarray, "m"]) -> np.ndarray:
    return np.maximum(X @ W + b, 0.0)


def softmax(X: Float64[np.ndarray, "n m"]) -> Float64[np.ndarray, "n m"]:
    E = np.exp(X - X.max(axis=1, keepdims=True))
    return E / E.sum(axis=1, keepdims=True)


def layer_norm(X: Float64[np.ndarray, "n m"], g: Float64[np.ndarray, "m"], b: Float64[np.ndarray, "m"]) -> np.ndarray:
    mean = X.mean(axis=1, keepdims=True)
    variance = np.mean((X - mean) ** 2, axis=1, keepdims=True)
    return (X - mean) / np.sqrt(variance + 1e-5) * g + b


def gelu(X: Float32[np.ndarray, "n m"]) -> Float32[np.ndarray, "n m"]:
    return 0.5 * X * (1.0 + np.tanh(0.7978846 * (X + 0.044715 * X * X * X)))


def attention_scores(Q: Float64[np.ndarray, "n k"], K: Float64[np.ndarray, "m k"]) -> Float64[np.ndarray, "n m"]:
    S = Q @ K.T / np.sqrt(Q.shape[1])
    S -= S.max(axis=1)[:, None]
    P = np.exp(S)
    return P / np.sum(P, axis=1)[:, None]


def adam_step(
    w: Float64[np.ndarray, "n m"],
    g: Float64[np.ndarray, "n m"],
    m1: Float64[np.ndarray, "n m"],
    v: Float64[np.ndarray, "n m"],
) -> None:
    m1[:] = 0.9 * m1 + 0.1 * g
    v[:] = 0.999 * v + 0.001 * g * g
    w -= 0.001 * m1 / (np.sqrt(v) + 1e-8)


def cross_entropy(P: Float64[np.ndarray, "n m"], Y: Float64[np.ndarray, "n m"]) -> float:
    return -np.sum(Y * np.log(P + 1e-9)) / P.shape[0]


def batch_norm(X: Float64[np.ndarray, "n m"], g: Float64[np.ndarray, "m"], b: Float64[np.ndarray, "m"]) -> None:
    X[:] = (X - X.mean(axis=0)) / np.sqrt(X.var(axis=0) + 1e-5) * g + b


def max_pool(out: Float64[np.ndarray, "n m"], X: Float64[np.ndarray, "2*n 2*m"]) -> None:
    out[:] = np.maximum(np.maximum(X[::2, ::2], X[1::2, ::2]), np.maximum(X[::2, 1::2], X[1::2, 1::2]))
