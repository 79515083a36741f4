"""What a person or a program may write to answer a turn, and the answer that it means.

The plainest forms come first; a whole message of the Messages API is taken as well, so that a program which asks a
model somewhere can hand its answer on as it came.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn, cast

from optimizer.llm.messages import Answer, Block, Outcome, Request, Usage
from optimizer.names import nearest

LARGEST_BYTES = 4_000_000
FORMS: tuple[Any, ...] = (
    {"evaluate": "the candidate", "rationale": "why"},
    {"inspect": {"what": "..."}},
    {"finish": "why"},
    [{"inspect": {"what": "..."}}, {"evaluate": "the candidate"}],
    {"text": "prose"},
    {
        "content": [{"type": "text", "text": "a message of the Messages API, as it came"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 0, "output_tokens": 0},
    },
)
"""How a turn can be answered."""
MESSAGE_FIELDS = ("content", "stop_reason", "usage", "model")
IGNORED_FIELDS = ("id", "type", "role", "stop_sequence", "stop_details", "container", "context_management")
"""Of a message of the Messages API: they say nothing that is needed here."""
USAGE_FIELDS = {
    "input": "input_tokens",
    "output": "output_tokens",
    "cache_write": "cache_creation_input_tokens",
    "cache_read": "cache_read_input_tokens",
}


class UnusableAnswer(Exception):
    """What was written is no answer: what is wrong with it."""


def answer_of(content: bytes, request: Request, name: str) -> Answer:
    """The answer that a file's content means; `name` makes the ids of its calls unique.

    Raises `UnusableAnswer` for content that is not JSON, or none of `FORMS`.
    """
    data = _json(content)
    if isinstance(data, Mapping) and "content" in data:
        return _message(cast("Mapping[str, Any]", data), request, name)
    turns = cast("Sequence[Any]", data if isinstance(data, list) else [data])
    if not turns:
        _refuse("an empty list says nothing")
    blocks = tuple(_block(turn, request, f"call_{name}_{number}") for number, turn in enumerate(turns, start=1))
    return Answer(blocks, _outcome(None, blocks), Usage(), request.model)


def _json(content: bytes) -> Any:
    if len(content) > LARGEST_BYTES:
        _refuse(f"the file has {len(content)} bytes; at most {LARGEST_BYTES} are read")

    def no_number(name: str) -> NoReturn:
        _refuse(f"{name} is no JSON")

    try:
        data = json.loads(content.decode("utf-8-sig"), parse_constant=no_number)
        # A journal could not keep half of a character.
        json.dumps(data, ensure_ascii=False).encode()
    except (UnicodeDecodeError, UnicodeEncodeError) as error:
        raise UnusableAnswer(f"the file is not UTF-8 text: {error.reason}") from None
    except RecursionError:
        raise UnusableAnswer("the JSON is nested too deeply") from None
    except ValueError as error:
        raise UnusableAnswer(f"this is not (yet) JSON: {error}") from None
    return data


def _block(turn: Any, request: Request, call: str) -> Block:
    """The block of one of the plain forms."""
    if not isinstance(turn, Mapping):
        _refuse(f"an answer is a JSON object or a list of them, not {_shown(turn)}")
    fields = dict(cast("Mapping[str, Any]", turn))
    if set(fields) == {"text"}:
        if not isinstance(fields["text"], str) or not fields["text"].strip():
            _refuse("text is a text that is not empty")
        return {"type": "text", "text": fields["text"]}
    rationale = fields.pop("rationale", None)
    if len(fields) != 1:
        _refuse(f"an answer names one thing to do, not {', '.join(fields) or 'nothing'}")
    ((tool, given),) = fields.items()
    arguments: dict[str, Any] = dict(_arguments(tool, given, request))
    if rationale is not None:
        arguments["rationale"] = rationale
    return {"type": "tool_use", "id": call, "name": tool, "input": arguments}


def _arguments(tool: str, given: Any, request: Request) -> Mapping[str, Any]:
    """The arguments of a tool: an object of them, or only the first that it needs. The engine validates them."""
    schemas: dict[str, Mapping[str, Any]] = {schema["name"]: schema["input_schema"] for schema in request.tools}
    if tool not in schemas:
        known = ", ".join([*schemas, "text"])
        _refuse(f"nothing is called {tool!r}{nearest(tool, schemas)} (there are {known})")
    if isinstance(given, Mapping):
        return cast("Mapping[str, Any]", given)
    schema = schemas[tool]
    first = next(iter([*schema.get("required", ()), *schema.get("properties", ())]), None)
    if first is None:
        _refuse(f'{tool} takes no arguments: write {{"{tool}": {{}}}}')
    return {first: given}


def _message(data: Mapping[str, Any], request: Request, name: str) -> Answer:
    for field in data:
        if field not in (*MESSAGE_FIELDS, *IGNORED_FIELDS):
            _refuse(f"a message has no {field!r}{nearest(field, MESSAGE_FIELDS)}")
    stop_reason, model = data.get("stop_reason"), data.get("model", request.model)
    if not isinstance(stop_reason, str | None) or not isinstance(model, str):
        _refuse("stop_reason and model are texts")
    blocks = tuple(_message_blocks(data["content"], name))
    if not blocks and stop_reason is None:
        _refuse("the content is empty, and there is no stop_reason that says why")
    return Answer(blocks, _outcome(stop_reason, blocks), _usage(data.get("usage")), model, stop_reason=stop_reason)


def _message_blocks(content: Any, name: str) -> Iterator[Block]:
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list):
        _refuse(f"content is a list of blocks or a text, not {_shown(content)}")
    for number, block in enumerate(cast("Sequence[Any]", content), start=1):
        if not isinstance(block, Mapping) or not isinstance(cast("Mapping[str, Any]", block).get("type"), str):
            _refuse(f"block {number} of the content is no object with a type")
        fields = dict(cast("Mapping[str, Any]", block))
        if fields["type"] == "text" and not (isinstance(fields.get("text"), str) and fields["text"]):
            _refuse(f"block {number} of the content has no text")
        if fields["type"] == "tool_use":
            fields.setdefault("id", f"call_{name}_{number}")
            if not all(isinstance(fields[key], str) for key in ("id", "name") if key in fields) or "name" not in fields:
                _refuse(f"block {number} of the content names no tool")
            if not isinstance(fields.get("input"), Mapping):
                _refuse(f"block {number} of the content: the input of a tool is an object")
        yield fields


def _outcome(stop_reason: str | None, blocks: Sequence[Block]) -> Outcome:
    if stop_reason is None:
        return Outcome.TOOL_USE if any(block["type"] == "tool_use" for block in blocks) else Outcome.END_TURN
    return Outcome(stop_reason) if stop_reason in set(Outcome) else Outcome.UNKNOWN


def _usage(data: Any) -> Usage:
    if data is None:
        return Usage()
    if not isinstance(data, Mapping):
        _refuse(f"usage is an object, not {_shown(data)}")
    given = cast("Mapping[str, Any]", data)
    counts = {name: given.get(field) or 0 for name, field in USAGE_FIELDS.items()}
    for name, count in counts.items():
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            _refuse(f"usage: {USAGE_FIELDS[name]} is a number of tokens, not {_shown(count)}")
    return Usage(**counts)


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def _refuse(message: str) -> NoReturn:
    raise UnusableAnswer(message)
