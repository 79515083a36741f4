"""conv2d: one convolution layer on one image: 3x3 filters over all channels, without padding."""

from typing import Any

import numpy as np
from jaxtyping import Float64

SIZES: dict[str, dict[str, int]] = {
    "mini": {"filters": 3, "channels": 2, "height": 12, "width": 14},
    "small": {"filters": 8, "channels": 4, "height": 24, "width": 28},
    "medium": {"filters": 16, "channels": 16, "height": 64, "width": 64},
    "large": {"filters": 64, "channels": 64, "height": 112, "width": 112},
    "extralarge": {"filters": 128, "channels": 128, "height": 160, "width": 160},
}
OUTPUTS = ("output",)


def conv2d(
    filters: int,
    channels: int,
    height: int,
    width: int,
    output: Float64[np.ndarray, "filters height width"],
    image: Float64[np.ndarray, "channels height+2 width+2"],
    weight: Float64[np.ndarray, "filters channels 3 3"],
) -> None:
    for f in range(filters):
        for y in range(height):
            for x in range(width):
                output[f, y, x] = 0.0
                for c in range(channels):
                    for r in range(3):
                        for s in range(3):
                            output[f, y, x] += image[c, y + r, x + s] * weight[f, c, r, s]


def make_inputs(
    filters: int, channels: int, height: int, width: int, rng: np.random.Generator | None = None
) -> dict[str, Any]:
    """Simple fractions and output = 0; with `rng`, uniform random values in [-1, 1).

    `height` and `width` are the output's; the image is two pixels larger in both directions.
    """
    if rng is not None:
        return {
            "filters": filters,
            "channels": channels,
            "height": height,
            "width": width,
            "output": rng.uniform(-1.0, 1.0, (filters, height, width)),
            "image": rng.uniform(-1.0, 1.0, (channels, height + 2, width + 2)),
            "weight": rng.uniform(-1.0, 1.0, (filters, channels, 3, 3)),
        }
    c, y, x = np.ogrid[:channels, : height + 2, : width + 2]
    f, d, r, s = np.ogrid[:filters, :channels, :3, :3]
    return {
        "filters": filters,
        "channels": channels,
        "height": height,
        "width": width,
        "output": np.zeros((filters, height, width)),
        "image": (c + y * x) % 256 / 255,
        "weight": ((f + d + r * s) % 7 - 3) / 9,
    }
