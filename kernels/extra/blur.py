"""blur: 3x3 box blur of an image in two stages, along rows into `tmp` and then along columns; the border stays."""

from typing import Any

import numpy as np
from jaxtyping import Float64

SIZES: dict[str, dict[str, int]] = {
    "mini": {"height": 30, "width": 40},
    "small": {"height": 120, "width": 160},
    "medium": {"height": 720, "width": 1280},
    "large": {"height": 2160, "width": 3840},
    "extralarge": {"height": 4320, "width": 7680},
}
OUTPUTS = ("blurred",)


def blur(
    height: int,
    width: int,
    image: Float64[np.ndarray, "height width"],
    tmp: Float64[np.ndarray, "height width"],
    blurred: Float64[np.ndarray, "height width"],
) -> None:
    for y in range(height):
        for x in range(1, width - 1):
            tmp[y, x] = (image[y, x - 1] + image[y, x] + image[y, x + 1]) / 3.0
    for y in range(1, height - 1):
        for x in range(1, width - 1):
            blurred[y, x] = (tmp[y - 1, x] + tmp[y, x] + tmp[y + 1, x]) / 3.0


def make_inputs(height: int, width: int, rng: np.random.Generator | None = None) -> dict[str, Any]:
    """A pattern of grey values in [0, 1]; with `rng`, uniform random values in [0, 1)."""
    if rng is not None:
        return {
            "height": height,
            "width": width,
            "image": rng.uniform(0.0, 1.0, (height, width)),
            "tmp": rng.uniform(0.0, 1.0, (height, width)),
            "blurred": rng.uniform(0.0, 1.0, (height, width)),
        }
    y, x = np.ogrid[:height, :width]
    return {
        "height": height,
        "width": width,
        "image": (y * x + y) % 256 / 255,
        "tmp": np.zeros((height, width)),
        "blurred": np.zeros((height, width)),
    }
