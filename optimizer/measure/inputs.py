"""The values that a workload's function is called with: the same for the same workload and seed, on every machine."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernels import catalog
from optimizer.errors import UserError
from optimizer.measure.workload import ArgumentKind, ArgumentSpec, CatalogInputs, FileInputs, Workload

DOMINANT_FROM = 100
"""Rows of random square matrices from which on the diagonal dominates: without that, factorizations and solvers lose
their digits at the sizes that are timed. Small ones, on which results are compared, have elements of one magnitude."""

Values = dict[str, Any]
"""Arguments by name, in the order of the signature: C-contiguous arrays, Python ints, floats and bools."""


class ValueKind(StrEnum):
    """Which values the floating-point arrays hold."""

    USUAL = "usual"
    """What the workload's inputs say."""
    SIGNS = "signs"
    """Zeros of both signs and small numbers of both signs."""
    ZEROS = "zeros"
    """Whole arrays of zeros of one sign among usual ones."""
    EXTREMES = "extremes"
    """Huge, tiny and denormal magnitudes among usual ones."""
    NONFINITE = "nonfinite"
    """Infinities, NaN and zeros among usual ones."""


def make_values(workload: Workload, seed: int, kind: ValueKind = ValueKind.USUAL) -> Values:
    """Fresh arguments for one call; raises `UserError` when the inputs are not what the workload says."""
    rng = np.random.default_rng(seed)
    inputs = workload.inputs
    if isinstance(inputs, CatalogInputs):
        given = catalog.load(inputs.kernel).make_inputs(**workload.sizes, rng=rng)
    elif isinstance(inputs, FileInputs):
        given = _read_file(inputs.path)
    else:
        given = {spec.name: _random_value(spec, workload.sizes, rng) for spec in workload.arguments}
    missing = [spec.name for spec in workload.arguments if spec.name not in given]
    if missing:
        raise UserError(f"the inputs of {workload.function} lack: {', '.join(missing)}")
    values = {spec.name: _plain_value(given[spec.name]) for spec in workload.arguments}
    if kind is ValueKind.USUAL:
        return values
    return {name: _with_special(value, kind, rng) for name, value in values.items()}


def perturbed(values: Values, seed: int) -> Values:
    """The same arguments, each floating-point number changed in its last bit."""
    rng = np.random.default_rng(seed)
    return {name: _perturbed(value, rng) for name, value in values.items()}


def _perturbed(value: Any, rng: np.random.Generator) -> Any:
    if isinstance(value, float):
        return float(np.nextafter(value, rng.choice([-np.inf, np.inf])))
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
        return value
    towards = rng.choice(np.array([-np.inf, np.inf], value.dtype), value.shape)
    # Zeros stay what they are: they are seldom results of rounding, and often what a loop skips. So do infinities,
    # which would become finite.
    return np.where((value == 0) | np.isinf(value), value, np.nextafter(value, towards))


def bytes_of(values: Values) -> int:
    """What the arrays take."""
    return sum(value.nbytes for value in values.values() if isinstance(value, np.ndarray))


def _read_file(path: str) -> Values:
    try:
        with np.load(path, allow_pickle=False) as archive:
            return dict(archive)
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise UserError(f"the arguments in {path} cannot be read: {error}") from error


def _plain_value(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.ndim > 0:
        return np.ascontiguousarray(value)
    return value.item() if isinstance(value, np.ndarray | np.generic) else value


def _random_value(spec: ArgumentSpec, sizes: Mapping[str, int], rng: np.random.Generator) -> Any:
    if spec.kind is ArgumentKind.PARAMETER:
        return sizes[spec.name]
    shape = tuple(max(0, int(eval(text, {"__builtins__": {}}, dict(sizes)))) for text in spec.shape)
    dtype = np.dtype(spec.dtype)
    if dtype.kind == "f":
        if not shape:
            return float(rng.uniform(0.5, 1.5))
        values = rng.uniform(0.5, 1.5, shape).astype(dtype)
        if len(shape) == 2 and shape[0] == shape[1] >= DOMINANT_FROM:
            values += shape[0] * np.eye(shape[0], dtype=dtype)
        return values
    most = 2 if dtype.kind == "b" else 10
    if spec.limit:
        most = max(1, int(eval(spec.limit, {"__builtins__": {"min": min}}, dict(sizes))))
    drawn = rng.integers(0, most, shape).astype(dtype)
    if spec.is_ascending:
        drawn.sort()
    return drawn if shape else drawn.item()


def _with_special(value: Any, kind: ValueKind, rng: np.random.Generator) -> Any:
    if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
        return value
    if kind is ValueKind.SIGNS:
        return rng.choice(np.array([0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.0], value.dtype), value.shape)
    if kind is ValueKind.ZEROS:
        return value * rng.choice(np.array([0.0, -0.0, 1.0], value.dtype))
    # One element in four: with more of them every result is a NaN, and tests nothing.
    chosen = rng.random(value.shape) < 0.25
    special = rng.choice(_special_numbers(kind, value.dtype), value.shape)
    return np.where(chosen, special, value)


def _special_numbers(kind: ValueKind, dtype: np.dtype[Any]) -> NDArray[Any]:
    limits = np.finfo(dtype)
    if kind is ValueKind.NONFINITE:
        return np.array([np.inf, -np.inf, np.nan, 0.0], dtype)
    return np.array(
        [limits.max, -limits.max / 4, limits.tiny, -limits.tiny, limits.smallest_subnormal, limits.eps, 0.0], dtype
    )
