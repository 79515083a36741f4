"""What prompts come to with compaction, next to what they would have come to without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

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
    compactions: int
    """How often a call did not repeat all of the one before it in its chain."""


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
    return Growth(per_call, without, sum(map(sum, answered)), sum(map(_compactions, chains)))


def _before_compaction(calls: Sequence[Call]) -> list[int]:
    """The prompts of a chain's answered calls up to its first compaction."""
    together = list(accumulate(_is_compacted(calls), max))
    return [
        call.answer.usage.prompt for call, is_past in zip(calls, together, strict=True) if call.answer and not is_past
    ]


def _compactions(calls: Sequence[Call]) -> int:
    return sum(_is_compacted(calls))


def _is_compacted(calls: Sequence[Call]) -> list[bool]:
    """For each call of a chain, whether it leaves out messages of the one before it."""
    lengths = [0, *(call.kept + len(call.messages) for call in calls)]
    return [call.kept < before for call, before in zip(calls, lengths, strict=False)]
