"""The calls of a chain as its journal has them: from them alone a conversation goes on after the process died."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from optimizer.candidate import digest_of
from optimizer.llm.messages import Answer, Block, CallFailed, Message, Outcome, Request
from optimizer.trial import Cost

PREFIX, CALL, FALLBACK, MEMORY = "prefix", "call", "fallback", "memory"
"""The events of such a chain."""


@dataclass(frozen=True, slots=True)
class PastCall:
    """A call that was answered."""

    step: int
    """Of the chain: the step whose proposal it was made for."""
    messages: tuple[Message, ...]
    """All that were sent, without cache marks."""
    content: tuple[Block, ...]
    outcome: Outcome
    is_repair: bool
    """Whether it asked again because of an answer that could not be used."""


def past_calls(notes: Iterable[Mapping[str, Any]]) -> list[PastCall]:
    """The answered calls of one chain, in order. Raises `KeyError` or `ValueError` for notes that are none of ours."""
    found: list[PastCall] = []
    for note, messages in _sent(notes):
        answer = note["answer"]
        if answer is None:
            continue
        outcome = Outcome(answer["outcome"])
        found.append(PastCall(note["step"], messages, tuple(answer["content"]), outcome, note["is_repair"]))
    return found


def paid_calls(notes: Iterable[Mapping[str, Any]]) -> list[tuple[int, Cost]]:
    """The step of every call of a chain, answered or not, with what it cost."""
    return [(note["step"], _cost(note)) for note in notes if note["event"] == CALL]


def _cost(note: Mapping[str, Any]) -> Cost:
    amount, answer = note["amount"], note["answer"]
    return Cost(answer["seconds"] if answer else 0.0, amount["calls"], amount["tokens"], amount["usd"])


def last_sent(notes: Iterable[Mapping[str, Any]]) -> tuple[Message, ...]:
    """The messages of a chain's last call, answered or not; none before the first."""
    sent = [messages for _, messages in _sent(notes)]
    return sent[-1] if sent else ()


def _sent(notes: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], tuple[Message, ...]]]:
    """Every call with all of its messages: the journal has those that are not in the call before it."""
    messages: tuple[Message, ...] = ()
    for note in notes:
        if note["event"] == CALL:
            messages = (*messages[: note["request"]["kept"]], *note["request"]["messages"])
            yield note, messages


def prefix_fields(request: Request) -> dict[str, Any]:
    """The event that holds what all requests of a chain begin with."""
    return {"digest": _prefix_digest(request), "system": request.system, "tools": list(request.tools)}


def call_fields(
    step: int,
    request: Request,
    before: Sequence[Message],
    result: Answer | CallFailed,
    attempts: int,
    is_repair: bool,
    manifest: Sequence[Mapping[str, Any]],
    left_out: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """The event of a call; `before` holds the messages of the chain's call before it, as they stand in the journal."""
    kept = next(
        (k for k, (old, new) in enumerate(zip(before, request.messages, strict=False)) if old != new),
        min(len(before), len(request.messages)),
    )
    failure = {"kind": result.failure.value, "message": str(result)} if isinstance(result, CallFailed) else None
    return {
        "step": step,
        "request": {
            "model": request.model,
            "max_tokens": request.max_tokens,
            "effort": request.effort,
            "prefix": _prefix_digest(request),
            "kept": kept,
            "messages": list(request.messages[kept:]),
        },
        "answer": None if isinstance(result, CallFailed) else _answer_json(result),
        "failure": failure,
        "attempts": attempts,
        "is_repair": is_repair,
        "manifest": list(manifest),
        "left_out": list(left_out),
    }


def _answer_json(answer: Answer) -> dict[str, Any]:
    return {
        "content": list(answer.content),
        "outcome": answer.outcome.value,
        "stop_reason": answer.stop_reason,
        "model": answer.model,
        "usage": asdict(answer.usage),
        "seconds": answer.seconds,
    }


def _prefix_digest(request: Request) -> str:
    return digest_of(json.dumps([request.system, list(request.tools)], sort_keys=True))
