"""Judge one schedule, outside any run."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from optimizer.candidate import Candidate
from optimizer.judging import judge
from optimizer.registry import make_verifiers
from optimizer.services import Closable
from optimizer.verdict import Verdict

if TYPE_CHECKING:
    from optimizer.kernel_problem import KernelProblem


def verdicts_on(
    problem: KernelProblem, candidate: Candidate, seed: int, timing: bool, waiting: Callable[[str], None]
) -> tuple[Verdict, ...]:
    """What the verifiers say of one schedule, the cheapest first; `waiting` is told why nothing moves for a while."""
    chosen = {"seed": seed, "with_timing": timing}
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="loopwright-check-")))
        verifiers = make_verifiers(problem, directory, chosen, waiting)
        for verifier in verifiers:
            if isinstance(verifier, Closable):
                stack.callback(verifier.close)
        return judge(problem, candidate, verifiers)
