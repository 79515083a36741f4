"""How the measuring side says that a candidate failed."""

from __future__ import annotations

from collections.abc import Mapping
from traceback import TracebackException
from typing import Any

from optimizer.errors import LoopwrightError
from optimizer.verdict import Reason, Status, Verdict


class WorkerFailure(LoopwrightError):
    """A candidate failed while it was built, checked or timed; the worker may have died of it."""

    def __init__(
        self,
        reason: Reason,
        detail: str,
        *,
        witness: Mapping[str, Any] | None = None,
        contestant: int = 0,
        seconds: float = 0.0,
    ) -> None:
        self.reason, self.detail, self.witness = reason, detail, witness
        self.contestant = contestant
        """Which of several candidates in one window it was, from 0."""
        self.seconds = seconds
        """How long the step that failed had been running, when the worker had to be killed."""
        self.other_load = 0.0
        """Processors that were busy with something else meanwhile, if it failed while it was timed."""
        self.times = 1
        """How often it was tried."""
        super().__init__(f"{reason.value}: {detail}")

    def verdict(self, verifier: str, seconds: float = 0.0) -> Verdict:
        """The same as a rejection by `verifier` that cost `seconds`."""
        return Verdict(
            Status.REJECTED, verifier, self.reason, detail=self.detail, witness=self.witness, seconds=seconds
        )


def described_error(error: Exception) -> str:
    """The kind of an exception that a candidate raised, and its text, which may be beyond making."""
    return f"{type(error).__name__}: {TracebackException(type(error), error, None)}"
