"""Whether two results agree: to the bit, or as well as rounding lets them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimizer.measure.inputs import Values

Results = dict[str, NDArray[Any]]
"""What a call left behind: every array it may write, and what it returned."""

ERROR_MULTIPLE = 8.0
"""How many times the original's own rounding error a candidate's may be."""
ULPS_OF_SCALE = 8.0
"""What is allowed besides, because the original's error may be zero by luck: units of the array's largest value."""
POOLED_ERROR_POWER = 0.75
"""The original's relative error seen in other cases counts up to the type's precision to this power (2e-12 for
float64): far below what a computation in half the width would show."""
RETURNED = "the returned value"


@dataclass(frozen=True, slots=True)
class Difference:
    """The first element that is not as it should be."""

    array: str
    index: tuple[int, ...]
    got: str
    expected: str

    def __str__(self) -> str:
        place = f"[{', '.join(map(str, self.index))}]" if self.index else ""
        return f"{self.array}{place} is {self.got} where the original gives {self.expected}"


def arrays_of(values: Values, written: tuple[str, ...], *, copy: bool = True) -> Results:
    """The written arrays; without `copy` good until the next call only."""
    return {name: np.array(values[name], copy=True if copy else None) for name in written}


def named_results(parts: Sequence[Any], *, is_tuple: bool) -> Results:
    """What a call returned, its parts by name."""
    if is_tuple:
        return {f"{RETURNED} {number}": np.asarray(part) for number, part in enumerate(parts)}
    return {RETURNED: np.asarray(parts[0])} if parts else {}


def bit_difference(got: Results, expected: Results) -> Difference | None:
    """The first element whose bits differ; one NaN is as good as another."""
    for name, exact in {**got, **expected}.items():
        if difference := _mismatch_of_form(name, got, expected):
            return difference
        if got[name].dtype == exact.dtype and np.array_equal(_bytes(got[name]), _bytes(exact)):
            continue
        if difference := _first(name, got[name], exact, ~_same_bits(got[name], exact)):
            return difference
    return None


def scale_difference(got: Results, expected: Results, tolerances: Mapping[np.dtype[Any], float]) -> Difference | None:
    """The first element that is off by more than a tolerance times the largest magnitude in its array."""
    for name, exact in {**got, **expected}.items():
        if difference := _mismatch_of_form(name, got, expected):
            return difference
        allowed = tolerances.get(exact.dtype, 0.0) * scale_of(exact)
        if difference := _first(name, got[name], exact, ~_near(got[name], exact, exact, allowed)):
            return difference
    return None


class RoundingJudge:
    """Judges candidates by a wider evaluation of the original, whose own error sets the measure.

    The error of a single case may be tiny by luck, so the largest relative error seen in any case of an array counts
    for all cases of it.
    """

    def __init__(self) -> None:
        self._errors: dict[str, float] = {}

    def learn(self, original: Results, wide: Results) -> None:
        """Take note of the original's error in one case."""
        for name, exact in wide.items():
            if exact.dtype.kind == "f" and (scale := scale_of(exact)) > 0:
                error = largest_deviation(original[name], exact) / scale
                self._errors[name] = max(self._errors.get(name, 0.0), error)

    def difference(
        self, got: Results, original: Results, wide: Results | None, sensitivity: Mapping[str, float]
    ) -> Difference | None:
        """The first element of `got` whose error no rounding explains.

        `sensitivity` is how much each result changes with the last bit of the inputs. Without a wide evaluation (too
        costly at this size, or no wider type) the original stands in for it, with twice the allowance, because both
        then err.
        """
        for name, base in {**got, **original}.items():
            if difference := _mismatch_of_form(name, got, original):
                return difference
            if base.dtype.kind != "f":
                wrong = got[name] != base
            else:
                exact = base if wide is None else wide[name]
                allowed = self._allowed(name, base, exact, sensitivity.get(name, 0.0))
                wrong = ~_near(got[name], exact, base, allowed * (2.0 if wide is None else 1.0))
            if difference := _first(name, got[name], base, wrong):
                return difference
        return None

    def _allowed(self, name: str, original: NDArray[Any], exact: NDArray[Any], sensitivity: float) -> float:
        precision = float(np.finfo(original.dtype).eps)
        pooled = min(self._errors.get(name, 0.0), precision**POOLED_ERROR_POWER)
        scale = scale_of(exact)
        own = max(largest_deviation(original, exact), pooled * scale, sensitivity)
        return ERROR_MULTIPLE * own + ULPS_OF_SCALE * precision * scale


def scale_of(array: NDArray[Any]) -> float:
    """The largest finite magnitude."""
    finite = array[np.isfinite(array)] if array.dtype.kind == "f" else array
    return float(np.abs(finite).max()) if finite.size else 0.0


def largest_deviation(values: NDArray[Any], exact: NDArray[Any]) -> float:
    """The largest finite difference between two arrays of one shape."""
    with np.errstate(all="ignore"):
        error = np.abs(values.astype(exact.dtype) - exact)
    return scale_of(error)


def _near(got: NDArray[Any], exact: NDArray[Any], original: NDArray[Any], allowed: float) -> NDArray[np.bool_]:
    """Where `got` is within `allowed` of `exact`, or as infinite or undefined as the original."""
    if original.dtype.kind != "f":
        return np.asarray(got == original)
    with np.errstate(all="ignore"):
        near = np.abs(got.astype(exact.dtype) - exact) <= allowed
    return np.asarray(np.where(np.isfinite(original) & np.isfinite(exact), near, _same_bits(got, original)))


def _same_bits(got: NDArray[Any], expected: NDArray[Any]) -> NDArray[np.bool_]:
    """Where the bits agree, or both are NaN."""
    if expected.dtype.kind != "f":
        return np.asarray(got == expected)
    equal = (got == expected) & (np.signbit(got) == np.signbit(expected))
    return np.asarray(equal | (np.isnan(got) & np.isnan(expected)))


def _bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _mismatch_of_form(name: str, got: Results, expected: Results) -> Difference | None:
    if name not in got:
        return Difference(name, (), "missing", "a value")
    if name not in expected:
        return Difference(name, (), "a value", "none")
    mine, theirs = got[name], expected[name]
    # Python has one width for scalars, so of those only the kind has to agree.
    same_type = mine.dtype == theirs.dtype or (theirs.ndim == 0 and mine.dtype.kind == theirs.dtype.kind)
    if mine.shape != theirs.shape or not same_type:
        return Difference(name, (), f"{mine.dtype}{list(mine.shape)}", f"{theirs.dtype}{list(theirs.shape)}")
    return None


def _first(
    name: str, got: NDArray[Any], expected: NDArray[Any], wrong: NDArray[np.bool_] | np.bool_
) -> Difference | None:
    if not np.any(wrong):
        return None
    place = np.unravel_index(int(np.argmax(wrong)), expected.shape) if expected.ndim else ()
    index = tuple(int(part) for part in place)
    return Difference(name, index, repr(got[index].item()), repr(expected[index].item()))
