"""Functions as people write them mean, as nests, what NumPy makes of them."""

from __future__ import annotations

import importlib
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import islpy as isl
import numpy as np
import pytest

from optimizer.polyhedral.data_subscripts import Subscripts, arrays_of_subscripts
from optimizer.polyhedral.frontend import nest_of_file
from optimizer.polyhedral.nest import ArgumentKind, Nest
from tests.nest_interpreter import run, sizes_of

FOLDER = Path(__file__).parent / "people"
FIELDS = sorted(file.stem for file in FOLDER.glob("*.py") if file.stem != "__init__")
LENGTHS = (5, 0, 1, 2, 7)
"""Of the first dimension; the others are odd ones near it."""
TOLERANCE = {"float32": 2e-4}


def module_of(field: str) -> ModuleType:
    return importlib.import_module(f"tests.people.{field}")


FUNCTIONS = [
    (field, name)
    for field in FIELDS
    for name, value in vars(module_of(field)).items()
    if callable(value) and getattr(value, "__module__", "") == f"tests.people.{field}"
]


def inputs(nest: Nest, length: int, names: list[str]) -> dict[str, Any]:
    rng = np.random.default_rng(length)
    sizes = {name: max(0, length + step) for step, name in enumerate(names)}
    sizes = {name: 2 if name == "steps" else size for name, size in sizes.items()}
    arrays = {array.name: array for array in nest.arrays}
    subscripts = arrays_of_subscripts(nest)
    found: dict[str, Any] = {}
    for argument in nest.arguments:
        if argument.kind is ArgumentKind.ARRAY:
            shape = tuple(eval(extent, {}, sizes) for extent in arrays[argument.name].shape)
            if argument.name in subscripts:
                found[argument.name] = drawn_subscripts(subscripts[argument.name], shape, sizes, rng)
                continue
            values = rng.uniform(0.5, 1.5, shape)
            found[argument.name] = (
                (values * 3).astype(argument.dtype) if "int" in argument.dtype else values.astype(argument.dtype)
            )
        else:
            found[argument.name] = sizes.get(argument.name, 7 if argument.dtype == "int64" else 0.1)
    return found


def drawn_subscripts(subscripts: Subscripts, shape: tuple[int, ...], sizes: dict[str, int], rng: Any) -> Any:
    drawn = rng.integers(0, max(1, eval(subscripts.limit, {}, sizes)), shape)
    return np.sort(drawn) if subscripts.is_ascending else drawn


@pytest.mark.parametrize(("field", "name"), FUNCTIONS)
def test_a_function_means_what_numpy_makes_of_it(field: str, name: str) -> None:
    module = module_of(field)
    nest = nest_of_file(f"{FOLDER / field}.py:{name}")
    names = list(module.SIZES)
    compared = 0
    for length in LENGTHS:
        arguments = inputs(nest, length, names)
        if isl.Set(nest.context).intersect(_at(nest, arguments)).is_empty():
            continue
        mine, theirs = (
            {key: np.array(v) if isinstance(v, np.ndarray) else v for key, v in arguments.items()} for _ in "ab"
        )
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # A mean of nothing, for example.
            try:
                expected, got = getattr(module, name)(**theirs), run(nest, mine)
            except (ValueError, IndexError, ZeroDivisionError):
                continue
        compared += 1
        for key, value in theirs.items():
            if isinstance(value, np.ndarray):
                assert_near(mine[key], value, f"{key} at {length}")
        parts = (expected, got) if isinstance(expected, tuple) else ((expected,), (got,))
        for one, other in zip(*parts, strict=True):
            if one is not None:
                assert_near(np.asarray(other), np.asarray(one), f"the result at {length}")
    assert compared >= 3


def _at(nest: Nest, arguments: dict[str, Any]) -> isl.Set:
    values = sizes_of(nest, arguments)
    conditions = " and ".join(f"{name} = {value}" for name, value in values.items())
    return isl.Set(f"[{', '.join(nest.parameters)}] -> {{ : {conditions} }}")


def assert_near(got: np.ndarray[Any, Any], expected: np.ndarray[Any, Any], what: str) -> None:
    assert got.shape == expected.shape, what
    tolerance = TOLERANCE.get(expected.dtype.name, 1e-10)
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance, err_msg=what)
