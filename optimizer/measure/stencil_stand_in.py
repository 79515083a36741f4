"""`numba.stencil` as plain Python: every inner point by itself, where nothing is compiled."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np


class Neighbours:
    """An array as seen from a point: `[-1, 0]` is the element before it in the first dimension."""

    def __init__(self, array: Any, point: tuple[int, ...]) -> None:
        self.array, self.point = array, point

    def __getitem__(self, index: Any) -> Any:
        distances = index if isinstance(index, tuple) else (index,)
        return self.array[tuple(at + distance for at, distance in zip(self.point, distances, strict=True))]


def stencil(
    mode: str = "constant",
    *,
    neighborhood: tuple[tuple[int, int], ...],
    cval: Any = None,
    standard_indexing: tuple[str, ...] | list[str] | str = (),
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The decorator, with the neighborhood said, which Numba finds out by itself."""
    if mode != "constant":
        raise ValueError(f"stencils have no mode {mode!r}")

    def decorated(kernel: Callable[..., Any]) -> Callable[..., Any]:
        code = kernel.__code__  # type: ignore[attr-defined]
        names = code.co_varnames[: code.co_argcount]

        def applied(*arguments: Any, out: Any = None) -> Any:
            def value_at(point: tuple[int, ...]) -> Any:
                seen = (
                    Neighbours(argument, point)
                    if isinstance(argument, np.ndarray) and name not in standard_indexing
                    else argument
                    for name, argument in zip(names, arguments, strict=True)
                )
                return kernel(*seen)

            shape = arguments[0].shape
            inner = [range(-low, size - high) for (low, high), size in zip(neighborhood, shape, strict=True)]
            if out is None:
                values = {point: value_at(point) for point in product(*inner)}
                result = np.full(shape, 0 if cval is None else cval, _dtype(values, arguments[0]))
                for point, value in values.items():
                    result[point] = value
                return result
            if cval is not None:
                out[...] = cval
            for point in product(*inner):
                out[point] = value_at(point)
            return out

        return applied

    return decorated


def _dtype(values: dict[tuple[int, ...], Any], array: Any) -> Any:
    """The type that holds all values; whole numbers have 64 bits, as Numba computes them."""
    found = np.result_type(*values.values()) if values else array.dtype
    return np.dtype("int64") if found.kind == "i" else found
