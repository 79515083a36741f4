"""What a verifier answers: a verdict, possibly with a measurement."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

LARGEST = sys.float_info.max
"""Any score is a float."""


class Status(StrEnum):
    OK = "ok"
    REJECTED = "rejected"
    """The candidate's fault."""
    ERROR = "error"
    """Not the candidate's fault: retried and reported, never a score."""


class Reason(StrEnum):
    """Why a candidate was not accepted."""

    UNPARSABLE = "unparsable"
    INVALID_STEP = "invalid_step"
    ILLEGAL = "illegal"
    UNKNOWN_LEGALITY = "unknown_legality"
    BUILD_FAILED = "build_failed"
    WRONG_RESULT = "wrong_result"
    NONDETERMINISTIC = "nondeterministic"
    MODIFIED_INPUT = "modified_input"
    OUT_OF_BOUNDS = "out_of_bounds"
    CRASHED = "crashed"
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"
    TOO_SLOW = "too_slow"
    SUSPICIOUS = "suspicious"
    DUPLICATE = "duplicate"
    FAILED_CHECK = "failed_check"
    """A user's own check said no."""
    TAMPERED = "tampered"
    """The candidate touched what it must not touch, such as the tests that judge it."""
    INFRASTRUCTURE = "infrastructure"
    """With `Status.ERROR`: the harness could not tell."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """A score (higher is better) with its 95% interval; for kernels the score is the speedup over the original."""

    score: float
    interval: tuple[float, float]
    samples: int
    unit: str = "x"
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What the unit needs besides, as JSON: for kernels `seconds` and `baseline_seconds`."""

    def __post_init__(self) -> None:
        # Compared, because a whole number may be too large even to ask whether it is finite.
        if any(isinstance(value, bool) or not abs(value) <= LARGEST for value in (self.score, *self.interval)):
            raise ValueError(f"a score must be a finite number, not {self.score!r} with interval {self.interval!r}")


@dataclass(frozen=True, slots=True)
class Verdict:
    """One verifier's answer about one candidate."""

    status: Status
    verifier: str
    reason: Reason | None = None
    detail: str = ""
    """What a person or a model can act on."""
    witness: Mapping[str, Any] | None = None
    """The evidence, as JSON."""
    repair: str | None = None
    """The text of a near candidate that this verifier would accept."""
    assurance: str = ""
    """What an `ok` establishes, for example `proved` or `bit-exact on 24 checks`."""
    measurement: Measurement | None = None
    seconds: float = 0.0
    """What the verdict cost."""

    def __post_init__(self) -> None:
        if (self.status is Status.OK) != (self.reason is None):
            raise ValueError(f"a verdict has a reason exactly when it is not ok: {self.status}, {self.reason}")
