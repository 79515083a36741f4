"""The model of a kernel: arrays, statements with domains and accesses, and the code around them.

Sets and relations are isl texts, so a nest pickles and goes to other processes; `model.py` turns them into isl objects
once. An iterator has the value that the source's loop variable has: `for i in range(n - 1, -1, -1)` gives
`S0[i]` with `0 <= i < n` and the loop value `-i` in the tree; a step of 2 gives a stride constraint in the domain.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum

from optimizer.polyhedral.tree import Node, Private

ANYWHERE = "*"
"""A subscript that data decide; isl reads it as every number."""


class Role(StrEnum):
    ARGUMENT = "argument"
    """An array the caller hands in; what is written to it is a result."""
    LOCAL = "local"
    """An array made inside the function (`np.zeros`, `np.empty`, ...); a result only if it is returned."""
    SCALAR = "scalar"
    """A scalar variable that statements write. With subscripts it is expanded: one element for each iteration of the
    loops within which every read sees a write of the same iteration (so each iteration could have its own copy)."""


@dataclass(frozen=True, slots=True)
class Array:
    """Something in memory that statements read and write; a scalar is an array of rank 0 (or expanded, see `Role`)."""

    name: str
    dtype: str
    """NumPy's name: float64, float32, int64, int32, ..., bool."""
    shape: tuple[str, ...]
    """One affine expression over the nest's parameters for each dimension. Of a scalar, expanded or not: (); the extent
    of an expanded one is the bounding box of what is accessed."""
    role: Role
    fill: str = ""
    """Of a local array: `empty`, `zeros` or `ones`."""
    returned: bool = False
    """Whether its final contents are a result although it is no argument (a returned local array or scalar)."""
    private: Private | None = None
    """Of an array that each iteration of a loop has in the place of another one: which. Its first subscripts are the
    loops of the source around that, and that loop."""


@dataclass(frozen=True, slots=True)
class Access:
    """One textual read or write of a statement."""

    array: str
    subscripts: tuple[str, ...]
    """One quasi-affine isl expression over the statement's iterators and the parameters for each dimension; `*` where
    data decide, which stands for all of them."""
    is_write: bool

    @property
    def is_exact(self) -> bool:
        """Whether it is known which element that is."""
        return ANYWHERE not in self.subscripts


@dataclass(frozen=True, slots=True)
class Statement:
    """One assignment of the source, or an opaque piece of it, with the set of iterations that run it."""

    name: str
    """`S0`, `S1`, ... in source order."""
    iterators: tuple[str, ...]
    """The enclosing loops of the source, outermost first, by their unique names."""
    domain: str
    """isl set: `[n] -> { S0[i, j] : 0 <= i < n and 0 <= j < i }`."""
    accesses: tuple[Access, ...]
    body: str
    """Python source of the assignment; iterators, parameters, arrays and scalars stand in it by their names here."""
    line: int
    opaque: str = ""
    """Of a piece of the source that is one step whatever it does inside (`frontend/opaque.py`): why. Its body is any
    one statement of Python, and each of its writes of an element, which it may leave out, is among its reads too."""


@dataclass(frozen=True, slots=True)
class SourceLoop:
    """One `for` of the source."""

    name: str
    line: int
    is_prange: bool = False


class ArgumentKind(StrEnum):
    ARRAY = "array"
    PARAMETER = "parameter"
    """An integer that appears in bounds, subscripts or shapes."""
    VALUE = "value"
    """Any other scalar: only read."""


@dataclass(frozen=True, slots=True)
class Argument:
    name: str
    kind: ArgumentKind
    dtype: str
    default: str | None = None
    """Source text of its default value."""
    is_assumed: bool = False
    """Whether its type is only what its use shows."""


@dataclass(frozen=True, slots=True)
class Nest:
    """A whole function: its loop nests in sequence and everything needed to print it again."""

    name: str
    """The function's name."""
    arguments: tuple[Argument, ...]
    parameters: tuple[str, ...]
    """All symbols of domains, subscripts and shapes: integer arguments and named array extents."""
    extents: tuple[tuple[str, str, int], ...]
    """(parameter, array, dimension) for each parameter that is no argument: it is read off that array's shape."""
    context: str
    """isl set of the admissible sizes: `[n, m] -> { : n >= 0 and m >= 0 }`."""
    arrays: tuple[Array, ...]
    statements: tuple[Statement, ...]
    tree: Node
    """The original schedule."""
    loops: tuple[SourceLoop, ...]
    prologue: tuple[str, ...]
    """Source lines that run before the nests: names bound once, from arguments only (`float_n = float(n)`)."""
    epilogue: tuple[str, ...]
    """Source lines that run after: the `return`."""
    preamble: str
    """Module-level source that the bodies need: imports of numpy and math, constants, undecorated helper functions."""
    original: str
    """A stand-alone module (preamble and the untouched function without decorators and annotations)."""
    file: str = "<function>"
    free_sums: tuple[str, ...] = ()
    """Statements whose sums or products have no order of their own in the source: `np.sum`, `@` and their like."""
    is_decorated: bool = False
    """Whether the source itself has it compiled, by `njit` and the like."""
    has_array_statements: bool = False
    """Whether statements over whole arrays became loops, so that Numba may not know the original's functions."""
    reassociates: bool = False
    """Whether floating-point numbers may be combined in another order than the source's: the caller's choice."""

    @property
    def digest(self) -> str:
        """Identifies the kernel: the first 16 hexadecimal digits of the SHA-256 of its source, types and shapes."""
        types = (*((a.name, a.dtype, a.default) for a in self.arguments), *((a.name, a.shape) for a in self.arrays))
        return hashlib.sha256(f"{self.original}\n{types}".encode()).hexdigest()[:16]

    def statement(self, name: str) -> Statement:
        return next(statement for statement in self.statements if statement.name == name)

    def array(self, name: str) -> Array:
        return next(array for array in self.arrays if array.name == name)
