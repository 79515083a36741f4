"""What a code generator is: a nest and a schedule go in, the text of a module comes out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from optimizer.polyhedral.nest import Nest
from optimizer.polyhedral.tree import Node


class FloatingPoint(StrEnum):
    """What the compiler may change about floating-point results. NaN and infinities mean something in all of them."""

    STRICT = "strict"
    """Nothing: results are bit-identical to the source's."""
    CONTRACT = "contract"
    """A multiplication and an addition may become one operation that rounds once."""
    REASSOCIATE = "reassociate"
    """Sums may be reordered as well, and signed zeros mixed up."""

    @property
    def fastmath(self) -> tuple[str, ...]:
        """LLVM's names of the flags that permit it, for Numba's `fastmath`."""
        match self:
            case FloatingPoint.STRICT:
                return ()
            case FloatingPoint.CONTRACT:
                return ("contract",)
            case FloatingPoint.REASSOCIATE:
                return ("arcp", "contract", "nsz", "reassoc")


@dataclass(frozen=True, slots=True)
class CodeOptions:
    fp: FloatingPoint = FloatingPoint.CONTRACT
    function_name: str | None = None
    """None: the original's."""
    is_cached: bool = False
    """Whether compiled code is kept on disk between processes."""


class Backend(Protocol):
    def source(self, nest: Nest, tree: Node, options: CodeOptions) -> str:
        """The text of a module whose function runs the nest in the tree's order.

        It has the original's arguments and results; it raises ValueError for arrays of other shapes than the nest's
        and for a written array that may overlap another one. The tree must be legal: nothing is checked here.
        Raises CandidateError when no code of bounded size can be made.
        """
        ...
