"""Carries requests to the Messages API, or to any server that speaks it, by the official SDK."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from optimizer.errors import UserError
from optimizer.llm.api_errors import (
    WITHOUT_A_KEY,
    ApiError,
    exception_for,
    not_the_api,
    shortened,
    shown_address,
)
from optimizer.llm.messages import Answer, Block, CallFailed, Failure, Message, Outcome, Request, Usage

if TYPE_CHECKING:
    import anthropic
    from anthropic.lib.streaming import MessageStream

DEFAULT_ADDRESS = "https://api.anthropic.com"
LONGEST_CONNECT = 15.0
"""Seconds until a server that does not even take the connection counts as unreachable."""
PLACEHOLDER_KEY = "none-needed"
"""For servers of the user's own, which ask for no key; the SDK sends none without one."""
NO_KEY = f"there is no API key for the model: set ANTHROPIC_API_KEY, {WITHOUT_A_KEY}"
CHARACTERS_OF_A_TOKEN = 4
CACHED = {"cache_control": {"type": "ephemeral"}}
STUMBLES = (ValueError, TypeError, LookupError, AttributeError, RuntimeError)
"""What the SDK raises on a stream whose events are not those of the API."""


class AnthropicTransport:
    """One connection pool to one server; may be used from several threads, and is to be closed.

    `base_url` is by default `ANTHROPIC_BASE_URL`, else the public API; `timeout` is the longest silence in seconds.
    The key is `api_key`, else `ANTHROPIC_API_KEY` or `ANTHROPIC_AUTH_TOKEN`, else what the SDK finds in its own
    configuration; a server other than the public API may need none. Raises `UserError` without a key, and for an
    address that cannot be one.
    """

    def __init__(self, api_key: str | None = None, base_url: str | None = None, timeout: float = 600.0) -> None:
        url = base_url or os.environ.get("ANTHROPIC_BASE_URL") or DEFAULT_ADDRESS
        self.address = shown_address(url)
        """Of the server, fit to be shown."""
        self._client = _client(api_key, url, timeout)
        self._was_answered = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def send(self, request: Request) -> Answer:
        """See `Transport`. What the server refuses before its first answer counts as an error of the set-up."""
        import anthropic
        import httpx2

        started = time.perf_counter()
        receipt = _Receipt()
        try:
            with self._client.messages.stream(**_arguments(request)) as stream:
                receipt.take(stream)
                content_type = stream.response.headers.get("content-type", "")
        except anthropic.APIStatusError as error:
            raise self._refusal(error, request.model, receipt.usage_so_far()) from error
        except (anthropic.APIConnectionError, httpx2.HTTPError) as error:
            raise self._lost_connection(error, receipt.usage_so_far()) from error
        except anthropic.CredentialsError as error:
            raise UserError(f"the SDK cannot read its API key: {shortened(str(error))}") from error
        except UnicodeEncodeError as error:
            raise UserError(f"what is to be sent to the model is no proper text: {error}") from error
        message = receipt.message
        if message is None and not content_type.startswith("text/event-stream"):
            raise not_the_api(self.address, content_type, self._was_answered)
        if message is None or not receipt.is_whole:
            said = f"the answer of {self.address} broke off"
            raise CallFailed(Failure.UNREACHABLE, said, usage=receipt.usage_so_far())
        self._was_answered = True
        return Answer(
            content=_blocks(message),
            outcome=_outcome(message.stop_reason),
            usage=_usage(message.usage),
            model=message.model,
            seconds=time.perf_counter() - started,
            stop_reason=message.stop_reason,
        )

    def _refusal(self, error: anthropic.APIStatusError, model: str, usage: Usage) -> CallFailed | UserError:
        message = _message_in(error.body)
        for secret in (self._client.api_key, self._client.auth_token):
            message = message.replace(secret, "...") if secret else message
        told = ApiError(error.status_code, error.type, message, _retry_after(error.response.headers), usage)
        return exception_for(told, model, self.address, self._was_answered)

    def _lost_connection(self, error: Exception, usage: Usage) -> CallFailed:
        import httpx2

        cause = error if isinstance(error, httpx2.HTTPError) else error.__cause__ or error
        if isinstance(cause, httpx2.TimeoutException) and not isinstance(cause, httpx2.ConnectTimeout):
            return CallFailed(Failure.TIMED_OUT, f"{self.address} was silent for too long", usage=usage)
        said = f"no connection to {self.address}: {shortened(str(cause)) or type(cause).__name__}"
        return CallFailed(Failure.UNREACHABLE, said, usage=usage)


class _Receipt:
    """What has come of an answer."""

    def __init__(self) -> None:
        self.message: Any = None
        """The SDK's message, which grows with each event; None before the first."""
        self.is_whole = False
        self._has_content = False

    def take(self, stream: MessageStream[Any]) -> None:
        """Read a stream to its end. Raises `CallFailed` for events that are not those of the API."""
        try:
            for event in stream:
                if event.type == "message_start":
                    self.message = stream.current_message_snapshot
                self._has_content = self._has_content or event.type == "content_block_start"
                self.is_whole = self.is_whole or event.type == "message_stop"
                if event.type == "content_block_stop" and event.content_block.type == "tool_use":
                    _check_arguments(event.content_block.input)
        except STUMBLES as error:
            said = f"an event of the answer cannot be read: {shortened(str(error))}"
            raise CallFailed(Failure.MALFORMED, said, usage=self.usage_so_far()) from error

    def usage_so_far(self) -> Usage:
        """Of an answer that broke off: nothing before its content began; after that, the output is an estimate."""
        if self.message is None or not self._has_content:
            return Usage()
        told = _usage(self.message.usage)
        estimate = len(json.dumps(_blocks(self.message))) // CHARACTERS_OF_A_TOKEN
        return replace(told, output=max(told.output, estimate))


def _client(api_key: str | None, url: str, timeout: float) -> anthropic.Anthropic:
    try:
        import anthropic
        import httpx2
    except ImportError as error:
        raise UserError(f"the SDK of the Messages API is missing ({error}): pip install anthropic") from error

    key = _checked_key(api_key or os.environ.get("ANTHROPIC_API_KEY"), "API key")
    token = None if key else _checked_key(os.environ.get("ANTHROPIC_AUTH_TOKEN"), "ANTHROPIC_AUTH_TOKEN")
    if not (key or token) and url.rstrip("/") != DEFAULT_ADDRESS:
        key = PLACEHOLDER_KEY
    waits = httpx2.Timeout(timeout, connect=min(timeout, LONGEST_CONNECT))
    try:
        client = anthropic.Anthropic(api_key=key, auth_token=token, base_url=url, timeout=waits, max_retries=0)
    except anthropic.CredentialsError as error:
        raise UserError(f"{NO_KEY}\n  the SDK's own configuration: {shortened(str(error))}") from error
    if client.api_key or client.auth_token or client.credentials:
        return client
    client.close()
    raise UserError(NO_KEY)


def _checked_key(key: str | None, name: str) -> str | None:
    if not key:
        return None
    cleaned = key.strip()
    if not cleaned or not cleaned.isascii() or not cleaned.isprintable() or " " in cleaned:
        raise UserError(f"the {name} holds characters that no key has, or none at all: copy it again")
    return cleaned


def _arguments(request: Request) -> dict[str, Any]:
    """The request as the SDK wants it, with the end of the tools and of the system prompt marked for caching."""
    arguments: dict[str, Any] = {
        "model": request.model,
        "max_tokens": request.max_tokens,
        "messages": list(_sendable(request.messages)),
    }
    if request.system:
        arguments["system"] = [{"type": "text", "text": request.system, **CACHED}]
    if request.tools:
        arguments["tools"] = [*request.tools[:-1], {**request.tools[-1], **CACHED}]
    if request.effort is not None:
        arguments["output_config"] = {"effort": request.effort}
    return arguments


def _sendable(messages: Sequence[Message]) -> Iterator[Message]:
    """Without the blank texts that models sometimes write, and that the API does not take back."""
    for message in messages:
        content = message["content"]
        if message["role"] == "assistant" and not isinstance(content, str):
            content = [block for block in content if block["type"] != "text" or block["text"].strip()]
        if content:
            yield {"role": message["role"], "content": content}


def _check_arguments(arguments: object) -> None:
    """The API would not take back a call whose arguments are no object."""
    if not isinstance(arguments, dict):
        raise ValueError("the arguments of a tool call are no JSON object")


def _message_in(body: object) -> str:
    """What the server says of its error. The API has it in `error.message`, other servers have it elsewhere."""
    if isinstance(body, Mapping):
        inner = body.get("error")
        body = inner.get("message") if isinstance(inner, Mapping) else inner or body.get("message")
    return body if isinstance(body, str) and body else "no message"


def _blocks(message: Any) -> tuple[Block, ...]:
    return tuple(block.to_dict(mode="json", warnings=False) for block in message.content)


def _outcome(stop_reason: str | None) -> Outcome:
    return next((outcome for outcome in Outcome if outcome == stop_reason), Outcome.UNKNOWN)


def _usage(usage: Any) -> Usage:
    """Servers other than the public API leave some counts out."""
    names = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return Usage(*(getattr(usage, name, None) or 0 for name in names))


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds, from a header that holds seconds or a date."""
    text = headers.get("retry-after", "")
    try:
        return _positive(float(text))
    except ValueError:
        pass
    try:
        return _positive(parsedate_to_datetime(text).timestamp() - time.time())
    except ValueError:
        return None


def _positive(seconds: float) -> float | None:
    return seconds if 0 < seconds < math.inf else None
