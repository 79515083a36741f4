"""A scripted model behind real HTTP on loopback, and the transport to it."""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from optimizer.errors import UserError
from optimizer.llm.anthropic_transport import AnthropicTransport
from optimizer.llm.messages import CallFailed, Message, Request
from tests.model_server import AnyReply, ModelServer

KEY = "sk-ant-test-not-a-key-123456"
TOOLS = (
    {"name": "evaluate", "description": "Judge.", "input_schema": {"type": "object", "properties": {}}},
    {"name": "inspect", "description": "Look.", "input_schema": {"type": "object", "properties": {}}},
)


def forget_keys(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """So that no key of this machine is found, whether in the environment or in a file."""
    for name in [name for name in os.environ if name.startswith("ANTHROPIC_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))


def user(*content: Any) -> Message:
    return {
        "role": "user",
        "content": [{"type": "text", "text": part} if isinstance(part, str) else part for part in content],
    }


def results(answer_content: Sequence[Any]) -> Message:
    """The next message of the user: a result for each tool call."""
    ids = [block["id"] for block in answer_content if block["type"] == "tool_use"]
    return user(*({"type": "tool_result", "tool_use_id": each, "content": "legal"} for each in ids))


def request(*messages: Message, **changes: Any) -> Request:
    options: dict[str, Any] = {
        "model": "claude-sonnet-5-5",
        "system": "Be brief.",
        "tools": TOOLS,
        "max_tokens": 500,
        **changes,
    }
    return Request(messages=messages or (user("Begin."),), **options)


@contextmanager
def served(
    *script: AnyReply, key: str | None = KEY, timeout: float = 5, path: str = "", **options: Any
) -> Generator[tuple[ModelServer, AnthropicTransport]]:
    """A scripted model and the way to it; `options` are the server's."""
    with ModelServer(script, **options) as server, AnthropicTransport(key, server.url + path, timeout) as transport:
        yield server, transport


def failure_of(*script: AnyReply, timeout: float = 5) -> CallFailed:
    """What is raised for the last reply of a script; those before it are good answers."""
    with served(*script, timeout=timeout) as (_, transport):
        for _ in script[:-1]:
            transport.send(request())
        with pytest.raises(CallFailed) as caught:
            transport.send(request())
    return caught.value


def users_error_of(reply: AnyReply, **changes: Any) -> str:
    with served(reply) as (_, transport), pytest.raises(UserError) as caught:
        transport.send(request(**changes))
    return str(caught.value)
