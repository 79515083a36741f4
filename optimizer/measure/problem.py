"""What the measuring verifiers need to know of a problem."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from optimizer.candidate import Candidate
from optimizer.measure.workload import Workload

TIMING: Literal["timing"] = "timing"


class MeasuredProblem(Protocol):
    """A problem whose candidates are code that can be run against an original."""

    @property
    def name(self) -> str: ...

    @property
    def sizes(self) -> Mapping[str, int]:
        """The size that is asked for."""
        ...

    def workload(self, size: Literal["timing"] | Mapping[str, int]) -> Workload:
        """The original with inputs at the size asked for, or at another one."""
        ...

    def code(self, candidate: Candidate) -> str:
        """The module text of a candidate, with the original's function name; raises `CandidateError`."""
        ...

    def check_sizes(self, candidate: Candidate) -> Sequence[Mapping[str, int]]:
        """The sizes at which a candidate is compared with the original: tiny ones (up to 9, where both also run as
        plain Python), and some around the candidate's tile sizes, small enough for the original to take milliseconds.
        """
        ...

    def flops_and_bytes(self) -> tuple[float, float]:
        """At the size asked for: floating-point operations, and bytes that must move at least once."""
        ...
