"""Errors of the API that only the user can mend: each says what to do, and none shows a key."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from optimizer.errors import UserError
from optimizer.llm.anthropic_transport import AnthropicTransport
from optimizer.llm.messages import Failure, Outcome
from tests.model_server import ApiError, ModelServer, Page, say
from tests.served_model import KEY, failure_of, forget_keys, request, served, user, users_error_of


@pytest.fixture(autouse=True)
def _no_key_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    forget_keys(monkeypatch, tmp_path)


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
