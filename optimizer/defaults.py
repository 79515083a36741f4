"""What a run does where its user does not say."""

from __future__ import annotations

from optimizer.budget import Limits

SIZE = "large"
"""Of bundled kernels; a user's own kernel has no size until it is given one."""
STEPS = 30
"""Of a chain, when neither steps nor a budget are given."""
STEPS_PER_EVALUATION = 20
"""With a budget of evaluations and no number of steps: duplicates cost a step and no evaluation."""
UNLIMITED_STEPS = 1_000_000
"""With a budget of seconds alone."""


def steps_for(steps: int | None, limits: Limits) -> int:
    """The steps of a chain: those asked for, or as many as the budget could need."""
    if steps is not None:
        return steps
    if limits.evaluations is not None:
        return STEPS_PER_EVALUATION * limits.evaluations
    return STEPS if limits.seconds is None else UNLIMITED_STEPS


def size_for(kernel: str, size: str | None) -> str | None:
    """The size asked for, or the default one of a bundled kernel."""
    from kernels import catalog

    return SIZE if size is None and kernel in catalog.names() else size
