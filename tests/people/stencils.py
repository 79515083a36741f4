"""Stencils by slices."""

import numpy as np
from jaxtyping import Float32, Float64

SIZES = {"steps": 20, "n": 1000, "m": 1200, "k": 60}


def jacobi(steps: int, A: Float64[np.ndarray, "n m"], B: Float64[np.ndarray, "n m"]) -> None:
    for _ in range(steps):
        B[1:-1, 1:-1] = 0.2 * (A[1:-1, 1:-1] + A[1:-1, :-2] + A[1:-1, 2:] + A[2:, 1:-1] + A[:-2, 1:-1])
        A[1:-1, 1:-1] = 0.2 * (B[1:-1, 1:-1] + B[1:-1, :-2] + B[1:-1, 2:] + B[2:, 1:-1] + B[:-2, 1:-1])


def heat_rod(steps: int, rate: float, u: Float64[np.ndarray, "n"]) -> None:
    for _ in range(steps):
        u[1:-1] = u[1:-1] + rate * (u[:-2] - 2.0 * u[1:-1] + u[2:])


def heat_plate(steps: int, rate: float, u: Float64[np.ndarray, "n m"]) -> Float64[np.ndarray, "n m"]:
    v = u.copy()
    for _ in range(steps):
        v[1:-1, 1:-1] = v[1:-1, 1:-1] + rate * (
            v[2:, 1:-1] + v[:-2, 1:-1] + v[1:-1, 2:] + v[1:-1, :-2] - 4.0 * v[1:-1, 1:-1]
        )
    return v


def heat_cube(steps: int, A: Float64[np.ndarray, "k k k"], B: Float64[np.ndarray, "k k k"]) -> None:
    for _ in range(steps):
        B[1:-1, 1:-1, 1:-1] = A[1:-1, 1:-1, 1:-1] + 0.125 * (
            A[2:, 1:-1, 1:-1] + A[:-2, 1:-1, 1:-1] + A[1:-1, 2:, 1:-1] + A[1:-1, :-2, 1:-1] + A[1:-1, 1:-1, 2:]
            + A[1:-1, 1:-1, :-2] - 6.0 * A[1:-1, 1:-1, 1:-1]
        )  # fmt: skip
        A[:] = B


def wave(steps: int, c: float, u: Float64[np.ndarray, "n m"], before: Float64[np.ndarray, "n m"]) -> None:
    for _ in range(steps):
        after = 2.0 * u - before
        after[1:-1, 1:-1] += c * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4.0 * u[1:-1, 1:-1])
        before[:] = u
        u[:] = after


def advection(steps: int, c: Float32[np.ndarray, "n m"], u: Float32[np.ndarray, "n m"]) -> None:
    for _ in range(steps):
        u[1:, 1:] -= c[1:, 1:] * (u[1:, 1:] - u[:-1, 1:]) + c[1:, 1:] * (u[1:, 1:] - u[1:, :-1])


def gradient(u: Float64[np.ndarray, "n m"], spacing: float) -> tuple[np.ndarray, np.ndarray]:
    across = (u[:, 2:] - u[:, :-2]) / (2.0 * spacing)
    along = (u[2:, :] - u[:-2, :]) / (2.0 * spacing)
    return across, along


def laplacian_energy(u: Float64[np.ndarray, "n m"]) -> float:
    laplacian = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4.0 * u[1:-1, 1:-1]
    return np.sum(laplacian * laplacian)
