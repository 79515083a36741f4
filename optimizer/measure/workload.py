"""What is run: the original, its arguments and where their values come from. JSON-able, so that it can be sent."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum


class ArgumentKind(StrEnum):
    """What an argument is; the values are those of the front end's `ArgumentKind`."""

    ARRAY = "array"
    PARAMETER = "parameter"
    """A size: its value stands in `Workload.sizes`."""
    VALUE = "value"


@dataclass(frozen=True, slots=True)
class ArgumentSpec:
    """One argument of the function."""

    name: str
    kind: ArgumentKind
    dtype: str
    """NumPy's name."""
    shape: tuple[str, ...] = ()
    """Of an array: one Python expression over the sizes for each dimension."""
    limit: str = ""
    """Of whole numbers that are subscripts: the expression over the sizes that they are below, from 0 on."""
    is_ascending: bool = False
    """Whether they are drawn in ascending order, as where the rows of a sparse matrix begin."""


@dataclass(frozen=True, slots=True)
class CatalogInputs:
    """Values from a bundled kernel's own `make_inputs`."""

    kernel: str
    """Its name in `kernels.catalog`."""


@dataclass(frozen=True, slots=True)
class RandomInputs:
    """Random values by the argument specifications: floats in [0.5, 1.5), integers in [0, 10) or below their limit,
    booleans.

    The diagonal of a large square matrix of floats dominates.
    """


@dataclass(frozen=True, slots=True)
class FileInputs:
    """The arguments as they stand in an `.npz` file (scalars as arrays of rank 0), whatever the seed."""

    path: str


@dataclass(frozen=True, slots=True)
class Workload:
    """One function at one size."""

    source: str
    """The stand-alone original module: imports, constants, helper functions and the undecorated function."""
    function: str
    """The function's name, in the original and in every candidate's module."""
    fastmath: tuple[str, ...]
    """LLVM's fast-math flags of original and candidates: none is strict, `contract` allows fused multiply-add, and
    `reassoc` reordered reductions."""
    arguments: tuple[ArgumentSpec, ...]
    """In the order of the signature."""
    written: tuple[str, ...]
    """The array arguments that the function writes; every other one must stay as it is."""
    sizes: Mapping[str, int]
    """A value for each symbol in the shapes and for each argument that is a parameter."""
    inputs: CatalogInputs | RandomInputs | FileInputs
    has_array_statements: bool = False
    """Whether the original may call what Numba cannot compile: it runs as plain Python on NumPy then."""
    result_types: tuple[str, ...] = ()
    """What NumPy makes of its arrays, if it is written for NumPy: where Numba makes other ones, such as float64 of a
    float32 array and a number, it runs as plain Python on NumPy, too."""
    data_decide: bool = False
    """Whether data decide which elements the original touches: then inputs are of use only if its subscripts stay
    inside its arrays when they are checked."""
    has_free_sums: bool = False
    """Whether the original adds up in an order that nothing says, as NumPy does."""

    @property
    def is_strict(self) -> bool:
        """Whether a candidate must give the original's bits."""
        return not self.fastmath

    @property
    def may_reassociate(self) -> bool:
        return "reassoc" in self.fastmath

    @property
    def is_reordered(self) -> bool:
        """Whether a candidate's sums may have another order than the original's."""
        return self.may_reassociate or self.has_free_sums

    @property
    def key(self) -> str:
        """Identifies function, flags, arguments and size: 16 hexadecimal digits."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:16]

    def at(self, sizes: Mapping[str, int]) -> Workload:
        """The same function at another size."""
        return replace(self, sizes=dict(sizes))


def size_text(sizes: Mapping[str, int]) -> str:
    """`n=5, m=7`."""
    return ", ".join(f"{name}={value}" for name, value in sizes.items())
