"""The scripted model itself keeps the rules of the API."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from optimizer.llm.anthropic_transport import AnthropicTransport
from tests.model_server import AnyReply, ModelServer, call, say
from tests.served_model import KEY, forget_keys, request, served, user


@pytest.fixture(autouse=True)
def _no_key_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    forget_keys(monkeypatch, tmp_path)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"temperature": 0.5}, "temperature"),
        ({"tool_choice": {"type": "any"}}, "tool_choice"),
        ({"thinking": {"type": "enabled", "budget_tokens": 2000}}, "thinking"),
        ({"max_tokens": None}, "max_tokens"),
        ({"messages": [{"role": "assistant", "content": "Hi"}]}, "first message"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": ""}]}]}, "non-whitespace"),
        ({"messages": [user("A."), {"role": "assistant", "content": "Hi"}]}, "prefill"),
        (
            {
                "messages": [
                    user(*({"type": "text", "text": "t", "cache_control": {"type": "ephemeral"}} for _ in range(5)))
                ]
            },
            "maximum of 4",
        ),
        ({"messages": [user({"type": "tool_result", "tool_use_id": "t", "content": "c"})]}, "unexpected `tool_use_id`"),
        (
            {
                "messages": [
                    user("A."),
                    {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "n", "input": {}}]},
                    user("B."),
                ]
            },
            "without `tool_result`",
        ),
    ],
)
def test_the_scripted_model_refuses_what_the_api_refuses(changes: dict[str, Any], why: str) -> None:
    import httpx2

    body = {"model": "claude-sonnet-5-5", "max_tokens": 10, "messages": [user("Hi.")], **changes}
    body = {key: value for key, value in body.items() if value is not None}
    with ModelServer([say("Unreached.")]) as server:
        response = httpx2.post(f"{server.url}/v1/messages", json=body, headers={"x-api-key": "k"})
    assert response.status_code == 400
    assert why in response.json()["error"]["message"]


def test_the_scripted_model_also_answers_without_streaming() -> None:
    import httpx2

    body = {"model": "m", "max_tokens": 10, "messages": [user("Hi.")]}
    with ModelServer([call("inspect", what="nest")]) as server:
        response = httpx2.post(f"{server.url}/v1/messages", json=body, headers={"x-api-key": "k"})
    answer = json.loads(response.text)
    assert answer["stop_reason"] == "tool_use"
    assert answer["content"][0]["input"] == {"what": "nest"}


def test_an_error_in_a_script_is_not_lost() -> None:
    def script(request: dict[str, Any], number: int) -> AnyReply:
        raise AssertionError("not what was expected")

    server = ModelServer(script)
    with pytest.raises(AssertionError, match="not what"), server, AnthropicTransport(KEY, server.url) as transport:
        transport.send(request())


def test_a_late_answer_is_still_one() -> None:
    started = time.monotonic()
    with served(say("Late.", delay=0.05)) as (_, transport):
        transport.send(request())
    assert time.monotonic() - started >= 0.05
