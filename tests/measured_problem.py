"""A problem whose candidates are module texts, so that tests can inject whatever they like into the bench."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from optimizer.candidate import Candidate
from optimizer.errors import CandidateError
from optimizer.measure.workload import (
    ArgumentKind,
    ArgumentSpec,
    CatalogInputs,
    FileInputs,
    RandomInputs,
    Workload,
)

SCALE_SUM = """
def scale_sum(n, m, factor, A, B, total):
    for i in range(n):
        total[i] = 0.0
        for j in range(m):
            A[i, j] = factor * A[i, j] + B[i, j]
            total[i] += A[i, j] * B[i, j]
"""
"""Writes A and total, reads B; a sum that contraction and reordering round differently."""

ARGUMENTS = (
    ArgumentSpec("n", ArgumentKind.PARAMETER, "int64"),
    ArgumentSpec("m", ArgumentKind.PARAMETER, "int64"),
    ArgumentSpec("factor", ArgumentKind.VALUE, "float64"),
    ArgumentSpec("A", ArgumentKind.ARRAY, "float64", ("n", "m")),
    ArgumentSpec("B", ArgumentKind.ARRAY, "float64", ("n", "m")),
    ArgumentSpec("total", ArgumentKind.ARRAY, "float64", ("n",)),
)
SMALL: tuple[Mapping[str, int], ...] = ({"n": 0, "m": 1}, {"n": 1, "m": 1}, {"n": 5, "m": 7}, {"n": 33, "m": 20})


def module(body: str, options: str = "error_model='numpy', fastmath={'contract'}", head: str = "") -> str:
    """A candidate's module: `scale_sum` with another body."""
    lines = "\n".join(f"    {line}" for line in body.strip("\n").splitlines())
    return (
        f"import numpy as np\nfrom numba import njit, prange\n{head}\n\n"
        f"@njit({options})\ndef scale_sum(n, m, factor, A, B, total):\n{lines}\n"
    )


ORIGINAL_BODY = "\n".join(line[4:] for line in SCALE_SUM.strip("\n").splitlines()[1:])
COMPILED_ONLY = """
from numba.extending import overload

def is_compiled():
    return False

@overload(is_compiled)
def is_compiled_by_numba():
    return lambda: True
"""
"""Head of a module whose mischief must not show in the checks as plain Python."""
PARALLEL = "parallel=True, error_model='numpy', fastmath={'contract'}"
PARALLEL_BODY = ORIGINAL_BODY.replace("for i in range", "for i in prange")


@dataclass(frozen=True)
class TextProblem:
    """Candidates are the texts of modules; a text that starts with `!` cannot be turned into code."""

    fastmath: tuple[str, ...] = ("contract",)
    sizes: Mapping[str, int] = field(default_factory=lambda: {"n": 300, "m": 300})
    name: str = "scale_sum"
    source: str = SCALE_SUM
    arguments: tuple[ArgumentSpec, ...] = ARGUMENTS
    written: tuple[str, ...] = ("A", "total")
    inputs: CatalogInputs | RandomInputs | FileInputs = RandomInputs()
    small: Sequence[Mapping[str, int]] = SMALL
    work: tuple[float, float] = (0.0, 0.0)

    def workload(self, size: Literal["timing"] | Mapping[str, int]) -> Workload:
        sizes = self.sizes if isinstance(size, str) else size
        return Workload(self.source, self.name, self.fastmath, self.arguments, self.written, dict(sizes), self.inputs)

    def code(self, candidate: Candidate) -> str:
        if candidate.text.startswith("!"):
            raise CandidateError(candidate.text[1:])
        return candidate.text

    def check_sizes(self, candidate: Candidate) -> Sequence[Mapping[str, int]]:
        return self.small

    def flops_and_bytes(self) -> tuple[float, float]:
        return self.work
