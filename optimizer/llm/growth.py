"""What prompts come to with compaction, next to what they would have come to without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from optimizer.llm.trace import Call


@dataclass(frozen=True, slots=True)
class Growth:
    """What the prompts would have come to had each call repeated all before it.

    A chain of K calls would have read K c1 + d K(K-1)/2 tokens: c1 is the prompt of its first answered call, d the
    growth from call to call, measured over all chains from their first call to the last before the first compaction.
    """

    per_call: float
    """d, in tokens."""
    without: float
    """Prompt tokens of all chains without compaction."""
    paid: int
    """Prompt tokens that were really read."""


def growth_of(chains: Sequence[Sequence[Call]]) -> Growth | None:
    """From the calls of each chain; None when no chain made two calls before its first compaction."""
    answered = [[call.answer.usage.prompt for call in calls if call.answer] for calls in chains]
    first = [_before_compaction(calls) for calls in chains]
    pairs = sum(len(prompts) - 1 for prompts in first if prompts)
    if not pairs:
        return None
    per_call = max(0.0, sum(prompts[-1] - prompts[0] for prompts in first if prompts) / pairs)
    without = sum(
        len(prompts) * prompts[0] + per_call * len(prompts) * (len(prompts) - 1) / 2 for prompts in answered if prompts
    )
    return Growth(per_call, without, sum(map(sum, answered)))


def _before_compaction(calls: Sequence[Call]) -> list[int]:
    """The prompts of a chain's answered calls as long as each request repeats all of the one before."""
    prompts: list[int] = []
    length = 0
    for call in calls:
        if call.kept < length:
            break
        length = call.kept + len(call.messages)
        if call.answer:
            prompts.append(call.answer.usage.prompt)
    return prompts
