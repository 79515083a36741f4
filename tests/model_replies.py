"""What a scripted model can answer, and what that looks like as the events of a stream."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Any

Block = dict[str, Any]
PIECE, MOST_PIECES = 24, 200
"""Characters in one delta of a stream, unless that makes too many."""


class Fault(Enum):
    """What goes wrong within a stream."""

    CUT = auto()
    ENDED = auto()
    ERROR = auto()
    GARBAGE = auto()


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of the model."""

    content: Sequence[Block] = ()
    stop_reason: str | None = None
    """None: `tool_use` when a tool is called, else `end_turn`."""
    delay: float = 0.0
    """Seconds before the first byte."""
    fault: Fault | None = None
    after: int = 0
    """How many events of the stream come before the fault."""
    error: str = "overloaded_error"
    """The kind of the error event."""


@dataclass(frozen=True, slots=True)
class ApiError:
    """An answer with an error status, as the API writes it."""

    status: int
    message: str = "scripted"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    kind: str | None = None
    """None: the usual one of this status."""


@dataclass(frozen=True, slots=True)
class Page:
    """What a server that is no Messages API would answer."""

    text: str
    status: int = 200
    type: str = "text/html"


@dataclass(frozen=True, slots=True)
class Hang:
    """No answer until the server closes."""


AnyReply = Reply | ApiError | Page | Hang
Script = Sequence[AnyReply] | Callable[[dict[str, Any], int], AnyReply]


def say(text: str, **options: Any) -> Reply:
    """A reply in prose."""
    return Reply([{"type": "text", "text": text}], **options)


def call(tool: str, /, **arguments: Any) -> Reply:
    """A reply that calls one tool."""
    return calls((tool, arguments))


def calls(*tools: tuple[str, dict[str, Any]], **options: Any) -> Reply:
    """A reply that calls several tools."""
    return Reply([{"type": "tool_use", "name": name, "input": arguments} for name, arguments in tools], **options)


def think(thought: str, *, then: Reply) -> Reply:
    """The reply after a thought."""
    return replace(then, content=[{"type": "thinking", "thinking": thought}, *then.content])


def events_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    """A message as the events of a stream, with a ping after the first."""
    start = {**message, "content": [], "stop_reason": None, "usage": {**message["usage"], "output_tokens": 1}}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": start}, {"type": "ping"}]
    for index, block in enumerate(message["content"]):
        shell, deltas = _in_pieces(block)
        events.append({"type": "content_block_start", "index": index, "content_block": shell})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    ending = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    events.append(
        {"type": "message_delta", "delta": ending, "usage": {"output_tokens": message["usage"]["output_tokens"]}}
    )
    events.append({"type": "message_stop"})
    return events


def _in_pieces(block: Block) -> tuple[Block, list[dict[str, Any]]]:
    """How a block begins in a stream, and the deltas that fill it. A block of an unknown kind comes whole."""
    match block["type"]:
        case "text":
            deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"])]
            return {**block, "text": ""}, deltas
        case "tool_use":
            text = block.get("partial_json") or json.dumps(block["input"])
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in _pieces(text)]
            shell = {key: value for key, value in block.items() if key != "partial_json"}
            return {**shell, "input": {}}, deltas
        case "thinking":
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(block["thinking"])]
            signature = {"type": "signature_delta", "signature": block["signature"]}
            return {**block, "thinking": "", "signature": ""}, [*deltas, signature]
        case _:
            return block, []


def _pieces(text: str) -> list[str]:
    size = max(PIECE, len(text) // MOST_PIECES)
    return [text[start : start + size] for start in range(0, len(text), size)]
