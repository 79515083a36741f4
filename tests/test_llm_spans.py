"""The trace of a run as spans: what they hold, the file, and the way to a collector."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Generator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from optimizer.cli import INFRASTRUCTURE_FAILED, WRONG_INPUT, main
from optimizer.llm.messages import Usage
from optimizer.llm.otlp import BATCH, otlp_json
from optimizer.llm.spans import Span, spans_of
from optimizer.llm.trace import trace_of
from tests.model_journal import BEGAN, MODEL, ModelJournal, accepted, run_folder, whole_run


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["trace", *arguments])


def spans(journal: ModelJournal | None = None) -> tuple[Span, ...]:
    return spans_of(trace_of((journal or whole_run()).events), "matmul", "llm", "identity")


def test_spans_nest_in_time_and_by_parent() -> None:
    found = {span.span_id: span for span in spans()}
    assert len(found) == len(spans()), "no id occurs twice"
    root, *others = spans()
    assert (root.name, root.parent_id) == ("run matmul", "")
    assert (root.start, root.end) == (round(BEGAN * 1e9), round((BEGAN + 13.5) * 1e9))
    for span in others:
        parent = found[span.parent_id]
        assert parent.start <= span.start <= span.end <= parent.end, span.name
    names = [span.name for span in spans()]
    assert names.count(f"chat {MODEL}") == 4
    assert names.count("execute_tool evaluate") == 2, "the fallback's trial is no tool call"
    assert names.count("legality") == 3


def test_a_call_s_span_follows_the_conventions() -> None:
    from opentelemetry.semconv._incubating.attributes import gen_ai_attributes

    known = {value for name, value in vars(gen_ai_attributes).items() if name.startswith("GEN_AI_")}
    used = {name for span in spans() for name in span.attributes if name.startswith("gen_ai.")}
    assert used <= known
    call = next(span for span in spans() if span.attributes.get("loopwright.is_repair"))
    assert call.is_client
    assert call.attributes["gen_ai.usage.input_tokens"] == 1300, "cached tokens are input as well"
    assert call.attributes["gen_ai.usage.cache_read.input_tokens"] == 1000
    assert call.attributes["loopwright.prompt.system"] == 900
    failed = next(span for span in spans() if span.error)
    assert (failed.attributes["error.type"], failed.error) == ("overloaded", "the service is overloaded")


def test_spans_of_a_run_keep_their_ids_as_it_goes_on() -> None:
    journal = whole_run()
    before = {span.span_id for span in spans(journal)}
    journal.call(1, 2, Usage(10))
    assert before < {span.span_id for span in spans(journal)}
    other = spans_of(trace_of(journal.events), "matmul", "llm", "another run")
    assert other[0].trace_id != spans(journal)[0].trace_id


def test_spans_hold_neither_prompts_nor_answers() -> None:
    journal = whole_run()
    journal.call(0, 3, content=[{"type": "text", "text": "my secret plan"}], outcome="end_turn")
    text = otlp_json(spans(journal))
    assert "secret" not in text
    assert "go on" not in text


def test_the_file_is_otlp_json(tmp_path: Path) -> None:
    from google.protobuf.json_format import Parse
    from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

    run, file = run_folder(tmp_path, whole_run()), tmp_path / "spans.jsonl"
    result = invoke(str(run), "--otel", str(file))
    assert result.exit_code == 0, result.output
    (line,) = file.read_text().splitlines()
    data = Parse(line, TracesData())
    written = data.resource_spans[0].scope_spans[0].spans
    expected = spans_of(trace_of(whole_run().events), "matmul", "llm", (run / "run.json").read_text())
    assert [span.name for span in written] == [span.name for span in expected]
    assert [span.start_time_unix_nano for span in written] == [span.start for span in expected]
    raw = json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert [span["spanId"] for span in raw] == [span.span_id for span in expected]
    assert all(len(span["traceId"]) == 32 for span in raw)
    unwritable = invoke(str(run), "--otel", str(tmp_path / "none" / "file"))
    assert unwritable.exit_code == WRONG_INPUT


class _Collector(BaseHTTPRequestHandler):
    """Keeps what is posted to it."""

    received: list[tuple[str, str, bytes]]
    status = 200

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        type(self).received.append((self.path, self.headers["Content-Type"], body))
        self.send_response(self.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def collector() -> Generator[tuple[str, type[_Collector]]]:
    handler = type("Collector", (_Collector,), {"received": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1/traces", handler
        finally:
            server.shutdown()
            thread.join()


def attributes_of(span: Any) -> Mapping[str, Any]:
    values = {one.key: one.value for one in span.attributes}
    return {key: getattr(value, value.WhichOneof("value")) for key, value in values.items()}


def test_a_collector_gets_the_spans(tmp_path: Path, collector: tuple[str, type[_Collector]]) -> None:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    url, handler = collector
    journal = whole_run()
    for step in range(3, 3 + BATCH // 4):
        journal.trial(accepted(2.0), 0, step, seconds=2.0)
    run = run_folder(tmp_path, journal)
    result = invoke(str(run), "--otlp", url)
    assert result.exit_code == 0, result.output
    assert len(handler.received) == 2, "so many spans go in two requests"
    got: list[Any] = []
    for path, content_type, body in handler.received:
        assert (path, content_type) == ("/v1/traces", "application/x-protobuf")
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            assert {one.key: one.value.string_value for one in resource.resource.attributes} == {
                "service.name": "loopwright"
            }
            got += [span for scope in resource.scope_spans for span in scope.spans]
    expected = spans_of(trace_of(journal.events), "matmul", "llm", (run / "run.json").read_text())
    assert [span.span_id.hex() for span in got] == [span.span_id for span in expected]
    assert [span.parent_span_id.hex() for span in got] == [span.parent_id for span in expected]
    assert [(s.start_time_unix_nano, s.end_time_unix_nano) for s in got] == [(s.start, s.end) for s in expected]
    call = next(span for span in got if span.name == f"chat {MODEL}")
    assert attributes_of(call)["gen_ai.usage.output_tokens"] == 100
    assert [span.status.message for span in got if span.status.code == 2] == ["the service is overloaded"]


def test_a_collector_that_refuses_is_one_message(tmp_path: Path, collector: tuple[str, type[_Collector]]) -> None:
    url, handler = collector
    handler.status = 400
    result = invoke(str(run_folder(tmp_path, whole_run())), "--otlp", url)
    assert result.exit_code == INFRASTRUCTURE_FAILED
    assert "did not take the spans" in result.output
    assert "400" in result.output, "why is a part of the message"
    assert len(result.output.splitlines()) == 1
    assert invoke(str(tmp_path), "--otlp", "localhost:4318").exit_code == WRONG_INPUT


def test_without_the_extra_one_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    result = invoke(str(run_folder(tmp_path, whole_run())), "--otlp", "http://127.0.0.1:9/v1/traces")
    assert result.exit_code == WRONG_INPUT
    assert "pip install 'loopwright[trace]'" in result.output
    assert invoke(str(tmp_path), "--otel", str(tmp_path / "spans.jsonl")).exit_code == 0
