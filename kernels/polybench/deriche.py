"""deriche: edge detection by a recursive filter, along rows and then along columns (PolyBench/C 4.2.1, medley)."""

import math
from typing import Any

import numpy as np
from jaxtyping import Float64

SIZES: dict[str, dict[str, int]] = {
    "mini": {"w": 64, "h": 64},
    "small": {"w": 192, "h": 128},
    "medium": {"w": 720, "h": 480},
    "large": {"w": 4096, "h": 2160},
    "extralarge": {"w": 7680, "h": 4320},
}
OUTPUTS = ("imgOut",)


def deriche(
    w: int,
    h: int,
    alpha: float,
    imgIn: Float64[np.ndarray, "w h"],
    imgOut: Float64[np.ndarray, "w h"],
    y1: Float64[np.ndarray, "w h"],
    y2: Float64[np.ndarray, "w h"],
) -> None:
    k = (
        (1.0 - math.exp(-alpha))
        * (1.0 - math.exp(-alpha))
        / (1.0 + 2.0 * alpha * math.exp(-alpha) - math.exp(2.0 * alpha))
    )
    a1 = k
    a5 = k
    a2 = k * math.exp(-alpha) * (alpha - 1.0)
    a6 = a2
    a3 = k * math.exp(-alpha) * (alpha + 1.0)
    a7 = a3
    a4 = -k * math.exp(-2.0 * alpha)
    a8 = a4
    b1 = math.pow(2.0, -alpha)
    b2 = -math.exp(-2.0 * alpha)
    c1 = 1.0
    c2 = 1.0
    for i in range(w):
        ym1 = 0.0
        ym2 = 0.0
        xm1 = 0.0
        for j in range(h):
            y1[i, j] = a1 * imgIn[i, j] + a2 * xm1 + b1 * ym1 + b2 * ym2
            xm1 = imgIn[i, j]
            ym2 = ym1
            ym1 = y1[i, j]
    for i in range(w):
        yp1 = 0.0
        yp2 = 0.0
        xp1 = 0.0
        xp2 = 0.0
        for j in range(h - 1, -1, -1):
            y2[i, j] = a3 * xp1 + a4 * xp2 + b1 * yp1 + b2 * yp2
            xp2 = xp1
            xp1 = imgIn[i, j]
            yp2 = yp1
            yp1 = y2[i, j]
    for i in range(w):
        for j in range(h):
            imgOut[i, j] = c1 * (y1[i, j] + y2[i, j])
    for j in range(h):
        tm1 = 0.0
        ym1 = 0.0
        ym2 = 0.0
        for i in range(w):
            y1[i, j] = a5 * imgOut[i, j] + a6 * tm1 + b1 * ym1 + b2 * ym2
            tm1 = imgOut[i, j]
            ym2 = ym1
            ym1 = y1[i, j]
    for j in range(h):
        tp1 = 0.0
        tp2 = 0.0
        yp1 = 0.0
        yp2 = 0.0
        for i in range(w - 1, -1, -1):
            y2[i, j] = a7 * tp1 + a8 * tp2 + b1 * yp1 + b2 * yp2
            tp2 = tp1
            tp1 = imgOut[i, j]
            yp2 = yp1
            yp1 = y2[i, j]
    for i in range(w):
        for j in range(h):
            imgOut[i, j] = c2 * (y1[i, j] + y2[i, j])


def make_inputs(w: int, h: int, rng: np.random.Generator | None = None) -> dict[str, Any]:
    """PolyBench's initial values; with `rng`, a random image of values in [0, 1)."""
    if rng is not None:
        return {
            "w": w,
            "h": h,
            "alpha": 0.25,
            "imgIn": rng.uniform(0.0, 1.0, (w, h)),
            "imgOut": rng.uniform(0.0, 1.0, (w, h)),
            "y1": rng.uniform(0.0, 1.0, (w, h)),
            "y2": rng.uniform(0.0, 1.0, (w, h)),
        }
    i, j = np.ogrid[:w, :h]
    return {
        "w": w,
        "h": h,
        "alpha": 0.25,
        "imgIn": (313 * i + 991 * j) % 65536 / 65535.0,
        "imgOut": np.zeros((w, h)),
        "y1": np.zeros((w, h)),
        "y2": np.zeros((w, h)),
    }
