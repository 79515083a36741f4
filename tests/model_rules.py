"""What the Messages API refuses, and how it counts tokens and its prompt cache, as far as our requests depend on it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

KNOWN_KEYS = {
    "model",
    "max_tokens",
    "messages",
    "system",
    "tools",
    "tool_choice",
    "stream",
    "output_config",
    "metadata",
}
EFFORTS = ("low", "medium", "high", "xhigh", "max")
MOST_MARKS = 4
LOOK_BACK = 20
"""How many blocks before a mark the cache looks for a prefix that it knows."""


class Refused(Exception):
    """What the API answers instead of the model."""

    def __init__(self, message: str, status: int = 400, kind: str = "invalid_request_error") -> None:
        self.status, self.kind = status, kind
        super().__init__(message)


def canonical(value: Any) -> str:
    """One text for equal JSON values."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def tokens_of(value: Any) -> int:
    """A quarter of the characters: rough, but the same for all."""
    return math.ceil(len(canonical(value)) / 4)


def blocks_of(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def signature_of(thinking: str) -> str:
    """Proof that the server itself wrote a thought."""
    return "signed-" + hashlib.sha256(thinking.encode()).hexdigest()[:24]


@dataclass
class Rules:
    """Judges requests; remembers what was sent, because thoughts have to come back unchanged."""

    window: int = 1_000_000
    models: Sequence[str] | None = None
    _thoughts: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Id of a tool call -> the thoughts of its answer."""
    _paused: set[str] = field(default_factory=set[str])
    """Answers that ended with `pause_turn`: those are handed back as the last message."""

    def remember(self, content: Sequence[Mapping[str, Any]], stop_reason: str) -> None:
        """Note an answer of the model."""
        if stop_reason == "pause_turn":
            self._paused.add(canonical(content))
        thoughts = [canonical(block) for block in content if _is_thought(block)]
        for block in content:
            if block["type"] == "tool_use":
                self._thoughts[block["id"]] = thoughts

    def check(self, request: Mapping[str, Any]) -> None:
        """Raises `Refused`."""
        for key in ("model", "max_tokens", "messages"):
            _require(key in request, f"{key}: Field required")
        if self.models is not None and request["model"] not in self.models:
            raise Refused(f"model: {request['model']}", 404, "not_found_error")
        for key in ("temperature", "top_p", "top_k"):
            _require(key not in request, f"`{key}` is not supported by this model")
        _require("thinking" not in request, "`thinking` cannot be set for this model")
        for key in request:
            _require(key in KNOWN_KEYS, f"{key}: Extra inputs are not permitted")
        limit = request["max_tokens"]
        _require(isinstance(limit, int) and limit > 0, "max_tokens: must be greater than 0")
        choice = request.get("tool_choice", {"type": "auto"})
        _require(choice["type"] in ("auto", "none"), f"tool_choice: `{choice['type']}` is not supported by this model")
        effort = request.get("output_config", {}).get("effort", "medium")
        _require(effort in EFFORTS, f"output_config.effort: Input should be one of {', '.join(EFFORTS)}")
        _check_tools(request.get("tools", []))
        _check_marks(request)
        self._check_messages(request["messages"])
        length = sum(tokens_of(part) for part, _ in parts_of(request))
        _require(length <= self.window, f"prompt is too long: {length} tokens > {self.window} maximum")

    def _check_messages(self, messages: Sequence[Mapping[str, Any]]) -> None:
        _require(bool(messages), "messages: at least one message is required")
        _require(messages[0]["role"] == "user", "messages: first message must use the `user` role")
        last = messages[-1]
        may_end = last["role"] == "user" or canonical(blocks_of(last)) in self._paused
        _require(may_end, "This model does not support assistant message prefill")
        for place, message in enumerate(messages):
            _require(message["role"] in ("user", "assistant"), f"messages.{place}.role: unexpected value")
            _require(set(message) == {"role", "content"}, f"messages.{place}: Extra inputs are not permitted")
            blocks = blocks_of(message)
            _require(bool(blocks), f"messages.{place}: all messages must have non-empty content")
            for number, block in enumerate(blocks):
                _check_block(block, message["role"], f"messages.{place}.content.{number}")
        _check_calls(messages)
        self._check_thoughts(messages)

    def _check_thoughts(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Within the turn that is going on, the thoughts before each tool call are those that were sent."""
        turn = max(place for place, message in enumerate(messages) if _is_question(message))
        for place, message in enumerate(messages):
            if message["role"] != "assistant" or place < turn:
                continue
            blocks = blocks_of(message)
            thoughts = [canonical(block) for block in blocks if _is_thought(block)]
            for block in blocks:
                sent = self._thoughts.get(block.get("id", ""), thoughts)
                _require(
                    sent == thoughts,
                    f"messages.{place}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot"
                    " be modified. These blocks must remain as they were in the original response.",
                )


@dataclass
class PromptCache:
    """Remembers every marked prefix for ever; the longest known one is what a request reads."""

    _known: set[str] = field(default_factory=set[str])

    def count(self, request: Mapping[str, Any]) -> dict[str, int]:
        """The input side of `usage`, and remember the prefixes that this request marks."""
        parts = list(parts_of(request))
        sizes = [tokens_of(part) for part, _ in parts]
        prefixes = _digests(request["model"], [part for part, _ in parts])
        marks = [place for place, (_, marked) in enumerate(parts) if marked]
        reachable = {place for mark in marks for place in range(max(0, mark - LOOK_BACK), mark + 1)}
        read = max((place + 1 for place in reachable if prefixes[place] in self._known), default=0)
        written = max((mark + 1 for mark in marks), default=0)
        self._known.update(prefixes[mark] for mark in marks)
        return {
            "input_tokens": sum(sizes[max(read, written) :]),
            "cache_creation_input_tokens": sum(sizes[read:written]),
            "cache_read_input_tokens": sum(sizes[:read]),
        }


def parts_of(request: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], bool]]:
    """Everything that the model reads, in its order, and whether a cache mark stands there."""
    system = request.get("system", [])
    texts = [{"type": "text", "text": system}] if isinstance(system, str) else system
    yield from (_unmarked(tool) for tool in request.get("tools", []))
    yield from (_unmarked(text) for text in texts)
    for message in request["messages"]:
        for block in blocks_of(message):
            part, marked = _unmarked(block)
            yield {"role": message["role"], **part}, marked


def _unmarked(part: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    return {key: value for key, value in part.items() if key != "cache_control"}, bool(part.get("cache_control"))


def _digests(model: str, parts: Sequence[Any]) -> list[str]:
    running = hashlib.sha256(model.encode())
    digests: list[str] = []
    for part in parts:
        running.update(canonical(part).encode())
        digests.append(running.hexdigest())
    return digests


def _check_tools(tools: Sequence[Mapping[str, Any]]) -> None:
    names = [tool["name"] for tool in tools]
    _require(len(names) == len(set(names)), "tools: Tool names must be unique.")
    for place, tool in enumerate(tools):
        _require(set(tool) <= {"name", "description", "input_schema", "cache_control"}, f"tools.{place}: extra inputs")
        _require(tool["input_schema"].get("type") == "object", f"tools.{place}.input_schema.type: must be `object`")


def _check_marks(request: Mapping[str, Any]) -> None:
    found = sum(marked for _, marked in parts_of(request))
    _require(
        found <= MOST_MARKS, f"A maximum of {MOST_MARKS} blocks with cache_control may be provided. Found {found}."
    )


def _check_block(block: Mapping[str, Any], role: str, place: str) -> None:
    kind = block["type"]
    if kind == "text":
        _require(bool(block["text"].strip()), f"{place}: text content blocks must contain non-whitespace text")
    if kind == "tool_use":
        _require(role == "assistant", f"{place}: `tool_use` blocks can only be in `assistant` messages")
        _require(isinstance(block["input"], dict), f"{place}.input: Input should be an object")
    if kind == "tool_result":
        _require(role == "user", f"{place}: `tool_result` blocks can only be in `user` messages")
    if _is_thought(block):
        _require(role == "assistant", f"{place}: thinking blocks can only be in `assistant` messages")
        _require("cache_control" not in block, f"{place}.cache_control: Extra inputs are not permitted")
    if kind == "thinking":
        authentic = block.get("signature") == signature_of(block["thinking"])
        _require(authentic, f"{place}: Invalid `signature` in `thinking` block")


def _check_calls(messages: Sequence[Mapping[str, Any]]) -> None:
    """Every tool call is answered in the next message, before any text, and nothing else is."""
    seen: set[str] = set()
    open_calls: list[str] = []
    for place, message in enumerate(messages):
        blocks = blocks_of(message)
        answered = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        missing, strange = set(open_calls) - set(answered), set(answered) - set(open_calls)
        _require(
            not missing,
            f"messages.{place}: `tool_use` ids were found without `tool_result` blocks immediately after:"
            f" {', '.join(sorted(missing))}",
        )
        _require(not strange, f"messages.{place}: unexpected `tool_use_id` found in `tool_result` blocks: {strange}")
        _require(len(answered) == len(set(answered)), f"messages.{place}: each tool_use must have a single result")
        first = [block["type"] == "tool_result" for block in blocks]
        _require(first == sorted(first, reverse=True), f"messages.{place}: `tool_result` blocks must come first")
        open_calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        _require(len(open_calls) == len({*open_calls} - seen), f"messages.{place}: `tool_use` ids must be unique")
        seen.update(open_calls)


def _is_thought(block: Mapping[str, Any]) -> bool:
    return block["type"] in ("thinking", "redacted_thinking")


def _is_question(message: Mapping[str, Any]) -> bool:
    """A message of the user that begins a turn, and does not only answer tool calls."""
    return message["role"] == "user" and not any(block["type"] == "tool_result" for block in blocks_of(message))


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise Refused(message)
