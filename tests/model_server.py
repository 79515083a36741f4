"""A scripted model behind the real Messages API: HTTP on loopback, streaming or not, with its rules and its cache.

    with ModelServer([call("evaluate", schedule="tile(i=32)"), say("done")]) as server:
        ...  # point the client at server.url
    assert server.requests[1]["messages"][-1]["role"] == "user"

The script is a list of replies, in the order of the requests, or a function `(request, number) -> reply` that is called
for each request, from several threads at once. A reply is one of

    say("text"), call("tool", argument=1), think("why", then=call("tool")), Reply([any blocks], stop_reason=...)
    ApiError(429, headers={"retry-after": "1"}), ApiError(529), Page("<html>...</html>"), Hang()
    Reply(..., delay=0.1)              answers late
    Reply(..., fault=Fault.CUT, after=n)    cuts the connection after n events of the stream
    Reply(..., fault=Fault.ENDED, after=n)  ends the stream properly after n events, too early
    Reply(..., fault=Fault.ERROR, after=n)  sends an error event (`error`, such as overloaded_error) after n events;
                                            `message_start` is the first one, so that 1 is before any content
    Reply(..., fault=Fault.GARBAGE, after=n) sends an event that is no JSON

A request against the rules of the API (see `model_rules`) gets the API's 400 and uses up its reply; so does a
request after the end of the list. The calls of a reply get fresh ids, and its thoughts their signatures. A call that
`max_tokens` cuts off is a block `{"type": "tool_use", "name": ..., "input": {}, "partial_json": '{"schedule": "ti'}`.
An exception in the script, or in the server, is raised again when the `with` block ends.
"""

from __future__ import annotations

import itertools
import json
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from tests.model_replies import (
    AnyReply,
    ApiError,
    Block,
    Fault,
    Hang,
    Page,
    Reply,
    Script,
    call,
    calls,
    events_of,
    say,
    think,
)
from tests.model_rules import PromptCache, Refused, Rules, signature_of, tokens_of

__all__ = [
    "AnyReply",
    "ApiError",
    "Block",
    "Exchange",
    "Fault",
    "Hang",
    "ModelServer",
    "Page",
    "Reply",
    "Script",
    "call",
    "calls",
    "say",
    "think",
]
KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}


@dataclass(slots=True)
class Exchange:
    """One request and what became of it."""

    number: int
    request: dict[str, Any]
    headers: dict[str, str]
    """With names in lower case."""
    content: list[Block] | None = None
    """The blocks that were sent, or were to be sent; None when there was an error instead."""
    usage: dict[str, int] | None = None
    refused: str | None = None
    """Why the API would refuse this request."""


class ModelServer:
    """See the module's docstring.

    `window` is the longest prompt in tokens. The model's name and the key are checked against `models` and `right_key`
    when those are given.
    """

    def __init__(
        self,
        script: Script,
        *,
        window: int = 1_000_000,
        models: Sequence[str] | None = None,
        right_key: str | None = None,
    ) -> None:
        self.exchanges: list[Exchange] = []
        self.most_at_once = 0
        """The highest number of requests that were being answered at the same time."""
        self.closing = threading.Event()
        self.failures: list[BaseException] = []
        self._script, self._right_key = script, right_key
        self._rules, self._cache = Rules(window, models), PromptCache()
        self._lock = threading.Lock()
        self._at_once = 0
        self._ids = itertools.count(1)
        self._http = _Listener(self)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def requests(self) -> list[dict[str, Any]]:
        """The bodies of all requests, in the order in which they came."""
        return [exchange.request for exchange in self.exchanges]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.closing.set()
        self._http.shutdown()
        self._http.drop_connections()
        self._http.server_close()
        self._thread.join()
        if self.failures:
            raise self.failures[0]

    def arrive(self, request: dict[str, Any], headers: dict[str, str]) -> Exchange:
        """Note a request; it counts as being answered until `leave`."""
        with self._lock:
            exchange = Exchange(len(self.exchanges), request, headers)
            self.exchanges.append(exchange)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            return exchange

    def leave(self) -> None:
        with self._lock:
            self._at_once -= 1

    def decide(self, exchange: Exchange) -> AnyReply:
        """The reply to a request, with what the server itself adds to it."""
        try:
            self._check(exchange)
        except Refused as refusal:
            exchange.refused = str(refusal)
            return ApiError(refusal.status, str(refusal), kind=refusal.kind)
        reply = self._scripted(exchange)
        return self._completed(reply, exchange) if isinstance(reply, Reply) else reply

    def _check(self, exchange: Exchange) -> None:
        given = exchange.headers.get("x-api-key") or exchange.headers.get("authorization", "").removeprefix("Bearer ")
        if not given or (self._right_key is not None and given != self._right_key):
            raise Refused("invalid x-api-key", 401, "authentication_error")
        with self._lock:
            self._rules.check(exchange.request)

    def _scripted(self, exchange: Exchange) -> AnyReply:
        if callable(self._script):
            return self._script(exchange.request, exchange.number)
        if exchange.number < len(self._script):
            return self._script[exchange.number]
        return ApiError(400, f"the script has {len(self._script)} replies, and this is one more request")

    def _completed(self, reply: Reply, exchange: Exchange) -> Reply:
        content = [dict(block) for block in reply.content]
        with self._lock:
            for block in content:
                if block["type"] == "tool_use":
                    block.setdefault("id", f"toolu_{next(self._ids):06d}")
                if block["type"] == "thinking":
                    block.setdefault("signature", signature_of(block["thinking"]))
            stop_reason = reply.stop_reason or (
                "tool_use" if any(block["type"] == "tool_use" for block in content) else "end_turn"
            )
            self._rules.remember(content, stop_reason)
            exchange.content = content
            exchange.usage = {
                **self._cache.count(exchange.request),
                "output_tokens": sum(tokens_of(block) for block in content),
            }
        return replace(reply, content=content, stop_reason=stop_reason)


class _Listener(ThreadingHTTPServer):
    daemon_threads = False
    request_queue_size = 128

    def __init__(self, model: ModelServer) -> None:
        self.model = model
        self._open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", 0), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def drop_connections(self) -> None:
        """Wake the threads that wait for the next request of a connection."""
        for connection in list(self._open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:  # it is closed already
                continue

    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exception()
        if error is not None and not isinstance(error, ConnectionError):
            self.model.failures.append(error)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    _is_answering = False

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed."""

    @property
    def _model(self) -> ModelServer:
        assert isinstance(self.server, _Listener)
        return self.server.model

    def do_GET(self) -> None:
        self._send_error(ApiError(404, "Not Found"))

    def do_POST(self) -> None:
        model = self._model
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path.partition("?")[0] != "/v1/messages":
            self._send_error(ApiError(404, "Not Found"))
            return
        exchange = model.arrive(json.loads(body), {name.lower(): value for name, value in self.headers.items()})
        self._is_answering = True
        try:
            self._answer(exchange, model.decide(exchange))
        finally:
            self._leave()

    def _leave(self) -> None:
        """Called before the last bytes go out, because the client may send its next request as soon as it has them."""
        if self._is_answering:
            self._is_answering = False
            self._model.leave()

    def _answer(self, exchange: Exchange, reply: AnyReply) -> None:
        match reply:
            case ApiError():
                self._leave()
                self._send_error(reply)
            case Page():
                self._leave()
                self._send(reply.status, reply.type, reply.text.encode())
            case Hang():
                self._model.closing.wait()
                self.close_connection = True
            case Reply():
                self._model.closing.wait(reply.delay)
                self._send_answer(exchange, reply)

    def _send_answer(self, exchange: Exchange, reply: Reply) -> None:
        assert exchange.usage is not None
        message = {
            "id": f"msg_{exchange.number:06d}",
            "type": "message",
            "role": "assistant",
            "model": exchange.request["model"],
            "content": list(reply.content),
            "stop_reason": reply.stop_reason,
            "stop_sequence": None,
            "usage": exchange.usage,
        }
        if not exchange.request.get("stream"):
            self._leave()
            self._send(200, "application/json", json.dumps(message).encode())
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        self._stream(events_of(message), reply)

    def _stream(self, events: Sequence[dict[str, Any]], reply: Reply) -> None:
        cut = len(events) if reply.fault is None else reply.after
        for event in events[:cut]:
            if event["type"] == "message_stop":
                self._leave()
            self._send_event(event["type"], json.dumps(event))
        self._leave()
        match reply.fault:
            case Fault.CUT:
                self.close_connection = True
                return
            case Fault.ERROR:
                self._send_event("error", _error_text(reply.error, "scripted"))
            case Fault.GARBAGE:
                self._send_event("content_block_delta", '{"type": "content_bl')
            case _:
                pass
        self._send_chunk(b"")

    def _send_event(self, name: str, data: str) -> None:
        self._send_chunk(f"event: {name}\ndata: {data}\n\n".encode())

    def _send_chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def _send_error(self, error: ApiError) -> None:
        kind = error.kind or KINDS.get(error.status, "api_error")
        self._send(error.status, "application/json", _error_text(kind, error.message).encode(), error.headers)

    def _send(self, status: int, kind: str, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"content-type": kind, "content-length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def _error_text(kind: str, message: str) -> str:
    return json.dumps({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_scripted"})
