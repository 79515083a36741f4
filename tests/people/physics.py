"""Physics with temporaries."""

import numpy as np
from jaxtyping import Float64

SIZES = {"n": 1500, "m": 1000, "steps": 20}


def gravity(p: Float64[np.ndarray, "n 2"], mass: Float64[np.ndarray, "n"], force: Float64[np.ndarray, "n 2"]) -> None:
    for i in range(p.shape[0]):
        dx = p[:, 0] - p[i, 0]
        dy = p[:, 1] - p[i, 1]
        r2 = dx * dx + dy * dy + 0.01
        strength = mass * mass[i] / (r2 * np.sqrt(r2))
        force[i, 0] = np.sum(strength * dx)
        force[i, 1] = np.sum(strength * dy)


def black_scholes(
    price: Float64[np.ndarray, "n m"],
    strike: Float64[np.ndarray, "n m"],
    years: Float64[np.ndarray, "n m"],
    rate: float,
) -> Float64[np.ndarray, "n m"]:
    root = 0.3 * np.sqrt(years)
    d1 = (np.log(price / strike) + (rate + 0.045) * years) / root
    d2 = d1 - root
    n1 = 1.0 / (1.0 + np.exp(-1.702 * d1))
    n2 = 1.0 / (1.0 + np.exp(-1.702 * d2))
    return price * n1 - strike * np.exp(-rate * years) * n2


def leapfrog(steps: int, dt: float, x: Float64[np.ndarray, "n"], v: Float64[np.ndarray, "n"]) -> None:
    for _ in range(steps):
        a = -x - 0.1 * x * x * x
        v += dt * a
        x += dt * v


def shallow_water(
    steps: int, h: Float64[np.ndarray, "n m"], u: Float64[np.ndarray, "n m"], v: Float64[np.ndarray, "n m"]
) -> None:
    for _ in range(steps):
        u[:, 1:] -= 0.1 * (h[:, 1:] - h[:, :-1])
        v[1:, :] -= 0.1 * (h[1:, :] - h[:-1, :])
        h[:-1, :-1] -= 0.1 * (u[:-1, 1:] - u[:-1, :-1] + v[1:, :-1] - v[:-1, :-1])


def kinetic_energy(mass: Float64[np.ndarray, "n"], v: Float64[np.ndarray, "n m"]) -> float:
    speeds = np.sum(v * v, axis=1)
    return 0.5 * np.sum(mass * speeds)


def ising_field(s: Float64[np.ndarray, "n m"], coupling: float) -> Float64[np.ndarray, "n m"]:
    field = np.zeros_like(s)
    field[1:, :] += s[:-1, :]
    field[:-1, :] += s[1:, :]
    field[:, 1:] += s[:, :-1]
    field[:, :-1] += s[:, 1:]
    return np.tanh(coupling * field)
