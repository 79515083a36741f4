"""Image filters."""

import numpy as np
from jaxtyping import Float32, Float64

SIZES = {"n": 1500, "m": 2000, "w": 5}


def box_blur(image: Float64[np.ndarray, "n m"]) -> Float64[np.ndarray, "n m"]:
    out = image.copy()
    rows = (image[:, :-2] + image[:, 1:-1] + image[:, 2:]) / 3.0
    out[1:-1, 1:-1] = (rows[:-2] + rows[1:-1] + rows[2:]) / 3.0
    return out


def sobel(image: Float64[np.ndarray, "n m"]) -> Float64[np.ndarray, "n m"]:
    out = np.zeros_like(image)
    across = (
        image[:-2, 2:]
        + 2.0 * image[1:-1, 2:]
        + image[2:, 2:]
        - image[:-2, :-2]
        - 2.0 * image[1:-1, :-2]
        - image[2:, :-2]
    )
    along = (
        image[2:, :-2]
        + 2.0 * image[2:, 1:-1]
        + image[2:, 2:]
        - image[:-2, :-2]
        - 2.0 * image[:-2, 1:-1]
        - image[:-2, 2:]
    )
    out[1:-1, 1:-1] = np.sqrt(across * across + along * along)
    return out


def threshold(image: Float32[np.ndarray, "n m"], low: float, high: float) -> Float32[np.ndarray, "n m"]:
    return np.where(image < low, np.float32(0.0), np.where(image > high, np.float32(1.0), image))


def contrast(image: Float32[np.ndarray, "n m"]) -> Float32[np.ndarray, "n m"]:
    low, high = image.min(), image.max()
    return (image - low) / (high - low)


def convolve(
    image: Float64[np.ndarray, "n m"], kernel: Float64[np.ndarray, "w w"], out: Float64[np.ndarray, "n m"]
) -> None:
    for i in range(kernel.shape[0], image.shape[0] - kernel.shape[0]):
        for j in range(kernel.shape[0], image.shape[1] - kernel.shape[0]):
            out[i, j] = np.sum(image[i : i + kernel.shape[0], j : j + kernel.shape[0]] * kernel)


def gamma(image: Float64[np.ndarray, "n m"], exponent: float) -> None:
    image[:] = np.clip(image, 0.0, 1.0) ** exponent


def mirror(image: Float32[np.ndarray, "n m"]) -> Float32[np.ndarray, "n m"]:
    return 0.5 * (image + image[:, ::-1])
