"""The transport against a scripted model: real SDK, real HTTP on loopback, every way in which an answer can end."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from optimizer.errors import UserError
from optimizer.llm.anthropic_transport import AnthropicTransport
from optimizer.llm.messages import CallFailed, Failure, Message, Outcome, Request, Usage
from tests.model_rules import canonical
from tests.model_server import AnyReply, ApiError, Fault, Hang, ModelServer, Page, Reply, call, calls, say, think

KEY = "sk-ant-test-not-a-key-123456"
TOOLS = (
    {"name": "evaluate", "description": "Judge.", "input_schema": {"type": "object", "properties": {}}},
    {"name": "inspect", "description": "Look.", "input_schema": {"type": "object", "properties": {}}},
)


@pytest.fixture(autouse=True)
def _no_key_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("ANTHROPIC_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


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


# Answers


@pytest.mark.parametrize(
    ("stop_reason", "outcome"),
    [
        ("tool_use", Outcome.TOOL_USE),
        ("end_turn", Outcome.END_TURN),
        ("max_tokens", Outcome.MAX_TOKENS),
        ("stop_sequence", Outcome.STOP_SEQUENCE),
        ("refusal", Outcome.REFUSAL),
        ("pause_turn", Outcome.PAUSE_TURN),
        ("model_context_window_exceeded", Outcome.CONTEXT_FULL),
        ("something_new", Outcome.UNKNOWN),
    ],
)
def test_every_stop_reason_has_its_outcome(stop_reason: str, outcome: Outcome) -> None:
    with served(say("Hm.", stop_reason=stop_reason)) as (_, transport):
        answer = transport.send(request())
    assert (answer.outcome, answer.stop_reason) == (outcome, stop_reason)
    assert answer.content == ({"type": "text", "text": "Hm."},)
    assert answer.model == "claude-sonnet-5-5"
    assert answer.seconds > 0


def test_a_refusal_may_be_empty() -> None:
    with served(Reply([], stop_reason="refusal")) as (_, transport):
        answer = transport.send(request())
    assert (answer.content, answer.outcome) == ((), Outcome.REFUSAL)


def test_the_request_holds_what_it_should_and_nothing_that_current_models_refuse() -> None:
    with served(say("Yes."), say("Yes.")) as (server, transport):
        transport.send(request(effort="high"))
        transport.send(request(tools=(), system=""))
    first, second = server.requests
    assert first["system"] == [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    assert "cache_control" not in first["tools"][0]
    assert first["tools"][1] == {**TOOLS[1], "cache_control": {"type": "ephemeral"}}
    assert first["output_config"] == {"effort": "high"}
    assert first["stream"] is True
    assert set(first) == {"model", "max_tokens", "messages", "system", "tools", "output_config", "stream"}
    assert set(second) == {"model", "max_tokens", "messages", "stream"}
    assert server.exchanges[0].headers["authorization"] == f"Bearer {KEY}"


def test_thoughts_before_tool_calls_come_back_unchanged() -> None:
    arguments = {"schedule": "tile(i=32)", "numbers": [1, 2.0, -3e-7, None, True], "text": 'é "quoted" \\ \n', "o": {}}
    first = think("I could tile. " * 20, then=calls(("evaluate", arguments), ("inspect", {})))
    second = Reply(
        [
            {"type": "redacted_thinking", "data": "c2VjcmV0"},
            {"type": "thinking", "thinking": ""},
            {"type": "novel_block", "payload": {"z": 1, "a": [2.5, None]}, "extra": True},
            {"type": "text", "text": "And now:", "citations": None},
            {"type": "tool_use", "name": "inspect", "input": {"what": "nest"}, "caller": {"type": "direct"}},
        ]
    )
    with served(first, second, say("Done.")) as (server, transport):
        history = [user("Begin.")]
        for _ in range(2):
            answer = transport.send(request(*history))
            assert answer.outcome is Outcome.TOOL_USE
            history += [{"role": "assistant", "content": list(answer.content)}, results(answer.content)]
        transport.send(request(*history))
    sent = [exchange.content for exchange in server.exchanges[:2]]
    returned = [message["content"] for message in server.requests[2]["messages"] if message["role"] == "assistant"]
    assert [canonical(content).encode() for content in returned] == [canonical(content).encode() for content in sent]
    assert [exchange.refused for exchange in server.exchanges] == [None, None, None]


def test_a_changed_thought_would_be_refused() -> None:
    with served(think("Tile.", then=call("inspect")), say("Unreached.")) as (_, transport):
        answer = transport.send(request())
        without = [block for block in answer.content if block["type"] != "thinking"]
        history = (user("Begin."), {"role": "assistant", "content": without}, results(without))
        with pytest.raises(CallFailed, match="cannot be modified") as caught:
            transport.send(request(*history))
    assert caught.value.failure is Failure.REFUSED


def test_blank_texts_of_the_model_are_not_handed_back() -> None:
    blank = {"type": "text", "text": "\n"}
    with served(Reply([blank, *call("inspect").content]), Reply([blank]), say("Done.")) as (server, transport):
        answer = transport.send(request())
        assert answer.content[0] == blank
        history = [user("Begin."), {"role": "assistant", "content": answer.content}, results(answer.content)]
        answer = transport.send(request(*history))
        history += [{"role": "assistant", "content": answer.content}, user("Call a tool.")]
        assert transport.send(request(*history)).outcome is Outcome.END_TURN
    assert [message["role"] for message in server.requests[2]["messages"]] == ["user", "assistant", "user", "user"]


def test_usage_says_what_was_written_to_the_cache_and_read_from_it() -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    opening = user({"type": "text", "text": "The nest. " * 100, **mark})
    with served(call("inspect"), say("Done.")) as (server, transport):
        first = transport.send(request(opening))
        assistant: Message = {"role": "assistant", "content": list(first.content)}
        last = results(first.content)["content"]
        second = transport.send(request(opening, assistant, user({**last[0], **mark})))
    assert first.usage.cache_read == first.usage.input == 0
    assert first.usage.cache_write > 250
    assert second.usage.cache_read == first.usage.cache_write
    assert 0 < second.usage.cache_write < 100
    usage = server.exchanges[1].usage
    assert usage is not None
    assert second.usage.output == usage["output_tokens"]


def test_a_call_that_is_cut_off_by_the_limit_says_so() -> None:
    cut = {"type": "tool_use", "name": "evaluate", "input": {}, "partial_json": '{"schedule": "tile(i=3'}
    with served(Reply([cut], stop_reason="max_tokens")) as (_, transport):
        answer = transport.send(request())
    assert answer.outcome is Outcome.MAX_TOKENS
    assert answer.content[0]["input"] == {}


# Errors that are worth another try, or for the engine to handle


@pytest.mark.parametrize(
    ("status", "failure"),
    [
        (408, Failure.TIMED_OUT),
        (409, Failure.SERVER_ERROR),
        (413, Failure.TOO_LARGE),
        (429, Failure.RATE_LIMITED),
        (500, Failure.SERVER_ERROR),
        (502, Failure.SERVER_ERROR),
        (504, Failure.TIMED_OUT),
        (529, Failure.OVERLOADED),
    ],
)
def test_every_error_status_has_its_failure(status: int, failure: Failure) -> None:
    error = failure_of(ApiError(status, "No luck."))
    assert (error.failure, error.usage, error.attempts) == (failure, Usage(), 1)
    assert str(status) in str(error)
    assert "No luck." in str(error)


@pytest.mark.parametrize(
    ("kind", "failure"),
    [
        ("overloaded_error", Failure.OVERLOADED),
        ("api_error", Failure.SERVER_ERROR),
        ("rate_limit_error", Failure.RATE_LIMITED),
        ("timeout_error", Failure.TIMED_OUT),
        ("some_new_error", Failure.SERVER_ERROR),
    ],
)
@pytest.mark.parametrize("after", [0, 1, 4])
def test_an_error_within_a_stream_counts_like_its_status(kind: str, failure: Failure, after: int) -> None:
    error = failure_of(say("It begins.", fault=Fault.ERROR, after=after, error=kind))
    assert error.failure is failure
    assert (error.usage.prompt > 0) == (after == 4)


def test_an_overload_that_comes_as_a_500_is_an_overload() -> None:
    assert failure_of(ApiError(500, kind="overloaded_error")).failure is Failure.OVERLOADED


@pytest.mark.parametrize("after", range(7))
@pytest.mark.parametrize("fault", [Fault.CUT, Fault.ENDED])
def test_a_stream_that_breaks_off_is_no_answer(fault: Fault, after: int) -> None:
    """The stream has 8 events; the seventh already holds the stop reason, and still the last one is missing."""
    error = failure_of(say("Short text.", fault=fault, after=after))
    assert error.failure is Failure.UNREACHABLE
    assert (error.usage.prompt > 0) == (after > 2)


def test_what_broke_off_is_counted_with_an_estimate_of_its_output() -> None:
    error = failure_of(say("word " * 400, fault=Fault.CUT, after=60))
    assert 200 < error.usage.output < 500


def test_an_event_that_is_no_json_is_malformed() -> None:
    assert failure_of(say("A.", fault=Fault.GARBAGE, after=2)).failure is Failure.MALFORMED


def test_tool_arguments_that_are_no_json_are_malformed() -> None:
    broken = {"type": "tool_use", "name": "evaluate", "input": {}, "partial_json": '{"schedule": tile}'}
    assert failure_of(Reply([broken])).failure is Failure.MALFORMED


def test_tool_arguments_that_are_no_object_are_malformed() -> None:
    broken = {"type": "tool_use", "name": "evaluate", "input": {}, "partial_json": "[1, 2]"}
    error = failure_of(Reply([broken]))
    assert error.failure is Failure.MALFORMED
    assert error.usage.prompt > 0


@pytest.mark.parametrize(
    "message",
    [
        "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000",
        "This model's maximum context length is 4096 tokens",
        "the request exceeds the available context size",
    ],
)
def test_a_prompt_that_is_too_long_is_too_large(message: str) -> None:
    assert failure_of(ApiError(400, message)).failure is Failure.TOO_LARGE


def test_the_window_of_the_model_is_felt() -> None:
    with served(say("Unreached."), window=1000) as (_, transport), pytest.raises(CallFailed) as caught:
        transport.send(request(user("word " * 1000)))
    assert caught.value.failure is Failure.TOO_LARGE


def test_retry_after_is_read_as_seconds_and_as_a_date() -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    assert failure_of(ApiError(429, headers={"retry-after": "7.5"})).retry_after == 7.5
    assert failure_of(ApiError(529, headers={"retry-after": soon})).retry_after == pytest.approx(60, abs=5)
    for useless in ("", "soon", "-3", "0", "nan", "inf", "Wed, 21 Oct 2015 07:28:00 GMT"):
        assert failure_of(ApiError(429, headers={"retry-after": useless})).retry_after is None


def test_a_server_that_is_silent_times_out() -> None:
    error = failure_of(Hang(), timeout=0.2)
    assert error.failure is Failure.TIMED_OUT


def test_silence_within_a_stream_times_out() -> None:
    """A server of two sockets, because the scripted one never stops in the middle."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with AnthropicTransport(KEY, f"http://127.0.0.1:{port}", timeout=0.3) as transport:
            connections: list[socket.socket] = []

            def answer() -> None:
                connection, _ = listener.accept()
                connections.append(connection)
                connection.recv(65536)
                connection.sendall(
                    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\nevent: ping\ndata: {}\n\n"
                )

            thread = threading.Thread(target=answer)
            thread.start()
            with pytest.raises(CallFailed) as caught:
                transport.send(request())
            thread.join()
            connections[0].close()
    assert caught.value.failure is Failure.TIMED_OUT


def test_a_refused_connection_names_the_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with (
        AnthropicTransport(KEY, f"http://127.0.0.1:{port}", timeout=2) as transport,
        pytest.raises(CallFailed) as caught,
    ):
        transport.send(request())
    assert caught.value.failure is Failure.UNREACHABLE
    assert f"http://127.0.0.1:{port}" in str(caught.value)


# Errors that only the user can mend


def test_a_wrong_key_says_what_to_do() -> None:
    with served(say("Unreached."), right_key="another") as (_, transport), pytest.raises(UserError) as caught:
        transport.send(request())
    assert "ANTHROPIC_API_KEY" in str(caught.value)
    assert "--policy polyhedral" in str(caught.value)


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 422])
def test_keys_are_never_shown(status: int) -> None:
    message = users_error_of(ApiError(status, f"bad key {KEY} (sk-proj-0123456789) given"))
    assert KEY not in message
    assert "0123456789" not in message
    assert f"answered {status}" in message


def test_a_token_of_any_form_is_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "gateway:token/42\n")
    script = ApiError(401, "no such token gateway:token/42")
    with served(script, key=None) as (server, transport), pytest.raises(UserError) as caught:
        transport.send(request())
    assert "gateway:token" not in str(caught.value)
    assert server.exchanges[0].headers["authorization"] == "Bearer gateway:token/42"


def test_an_unknown_model_is_told_the_nearest_known_ones() -> None:
    with served(say("Unreached."), models=["claude-sonnet-5-5"]) as (_, transport), pytest.raises(UserError) as caught:
        transport.send(request(model="claude-sonet-5.5"))
    assert "claude-sonet-5.5" in str(caught.value)
    assert "did you mean claude-sonnet-5-5" in str(caught.value)


@pytest.mark.parametrize(
    "body",
    [
        '{"error": "model \\"qwen\\" not found"}',
        '{"object": "error", "message": "The model `qwen` does not exist."}',
        '{"error": {"message": "no such model: qwen"}}',
    ],
)
def test_other_servers_say_in_their_own_way_that_there_is_no_such_model(body: str) -> None:
    message = users_error_of(Page(body, status=404, type="application/json"), model="qwen")
    assert "has no model 'qwen'" in message
    assert "claude-sonnet-5-5" in message


def test_other_refusals_are_told_in_the_servers_words() -> None:
    message = users_error_of(say("Unreached."), effort="gigantic")
    assert "output_config.effort" in message
    assert "--effort" in message


def test_a_refusal_after_an_answer_is_not_the_users() -> None:
    assert failure_of(say("Good."), ApiError(400, "odd request")).failure is Failure.REFUSED


def test_a_key_that_is_revoked_later_is_still_the_users() -> None:
    with served(say("Good."), ApiError(401)) as (_, transport):
        transport.send(request())
        with pytest.raises(UserError, match="revoked"):
            transport.send(request())


@pytest.mark.parametrize(
    "page", [Page("<html>\n\n<p>Welcome</p></html>"), Page('{"a": 1}', type="application/json"), Page("")]
)
def test_a_page_in_place_of_the_api_is_a_wrong_address(page: Page) -> None:
    with served(page) as (server, transport), pytest.raises(UserError) as caught:
        transport.send(request())
    assert server.url in str(caught.value)
    assert "--base-url" in str(caught.value)


def test_a_page_after_an_answer_is_malformed() -> None:
    assert failure_of(say("Good."), Page("<html></html>")).failure is Failure.MALFORMED


def test_a_page_with_404_is_a_wrong_address_and_one_with_502_is_trouble() -> None:
    message = users_error_of(Page("<html>Not found</html>", status=404))
    assert "--base-url" in message
    assert "<html>" not in message
    error = failure_of(Page("<html>Bad gateway</html>", status=502))
    assert error.failure is Failure.SERVER_ERROR
    assert "<html>" not in str(error)


def test_a_path_too_many_in_the_address_is_a_wrong_address() -> None:
    with served(path="/v1") as (_, transport), pytest.raises(UserError, match="part before /v1/messages"):
        transport.send(request())


@pytest.mark.parametrize(
    "url", ["localhost:8080", "ftp://host", "http://", "http://host:99999", "http://[::1", "http://h:0"]
)
def test_what_is_no_address_is_refused_at_once(url: str) -> None:
    with pytest.raises(UserError, match="--base-url"):
        AnthropicTransport(KEY, url)


def test_names_and_passwords_in_the_address_are_not_shown() -> None:
    with AnthropicTransport(KEY, "https://me:secret@host.example/api/?q=1") as transport:
        assert transport.address == "https://host.example/api"


def test_a_text_that_cannot_be_sent_is_told() -> None:
    with served() as (_, transport), pytest.raises(UserError, match="no proper text"):
        transport.send(request(user("caf\udce9.py")))


# Keys


def test_no_key_at_all_says_how_to_set_one_or_do_without() -> None:
    with pytest.raises(UserError) as caught:
        AnthropicTransport()
    for part in ("ANTHROPIC_API_KEY", "--policy polyhedral", "--policy external"):
        assert part in str(caught.value)


def test_a_missing_sdk_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(UserError, match="pip install"):
        AnthropicTransport(KEY)


def test_a_server_of_the_users_own_needs_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    with ModelServer([say("Hello.")]) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        with AnthropicTransport() as transport:
            assert transport.send(request()).content[0]["text"] == "Hello."


def test_the_key_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "from-the-environment\n")
    with served(say("Hello."), key=None, right_key="from-the-environment") as (_, transport):
        assert transport.send(request()).outcome is Outcome.END_TURN


@pytest.mark.parametrize("key", ["two words", "schlüssel", "line\nbreak", "  "])
def test_a_key_that_cannot_be_one_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(UserError, match="copy it again") as caught:
        AnthropicTransport(key)
    assert key.strip() not in str(caught.value) or not key.strip()


# The scripted model itself keeps the rules of the API


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
