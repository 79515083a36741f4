"""The transport against a scripted model: real SDK, real HTTP on loopback, every way in which an answer can end."""

from __future__ import annotations

import socket
import threading
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from optimizer.llm.anthropic_transport import AnthropicTransport
from optimizer.llm.messages import CallFailed, Failure, Message, Outcome, Usage
from tests.model_rules import canonical
from tests.model_server import ApiError, Fault, Hang, Reply, call, calls, say, think
from tests.served_model import KEY, TOOLS, failure_of, forget_keys, request, results, served, user


@pytest.fixture(autouse=True)
def _no_key_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    forget_keys(monkeypatch, tmp_path)


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
