"""Spans on their way out: to a file of OTLP JSON, or to a collector, which needs the extra `trace`."""

from __future__ import annotations

import json
import logging
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from optimizer.errors import InfrastructureError, UserError
from optimizer.llm.spans import Span, Value

SCOPE = "loopwright"
BATCH = 512
"""Spans sent at once."""
LONGEST_REASON = 300
"""Characters of what the exporter says of a failure."""
EXTRA = "sending spans needs OpenTelemetry: pip install 'loopwright[trace]' (--otel FILE writes them without it)"


def otlp_json(spans: Sequence[Span]) -> str:
    """One line of the OTLP JSON file format, which holds all spans."""
    scope = {"scope": {"name": SCOPE}, "spans": [_span_json(span) for span in spans]}
    resource = {"attributes": _attributes_json({"service.name": SCOPE})}
    return json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}, allow_nan=False)


def send(spans: Sequence[Span], url: str) -> None:
    """Send spans to a collector, as OTLP over HTTP; `url` is complete, such as `http://localhost:4318/v1/traces`.

    Headers, certificates and timeouts come from the `OTEL_EXPORTER_OTLP_*` variables of the environment.
    Raises `UserError` for an address that is none or without the extra, `InfrastructureError` when they are not taken.
    """
    if not url.startswith(("http://", "https://")):
        raise UserError(f"--otlp takes an address such as http://localhost:4318/v1/traces, not {url!r}")
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.sdk.trace.export import SpanExportResult
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope
        from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags
    except ImportError as error:
        raise UserError(f"{EXTRA}; {error}") from None

    resource, scope = Resource({"service.name": SCOPE}), InstrumentationScope(SCOPE)

    def context(trace_id: str, span_id: str) -> SpanContext:
        return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=False, trace_flags=TraceFlags(1))

    readable = [
        ReadableSpan(
            name=span.name,
            context=context(span.trace_id, span.span_id),
            parent=context(span.trace_id, span.parent_id) if span.parent_id else None,
            resource=resource,
            attributes=span.attributes,
            kind=SpanKind.CLIENT if span.is_client else SpanKind.INTERNAL,
            status=Status(StatusCode.UNSET) if span.error is None else Status(StatusCode.ERROR, span.error),
            start_time=span.start,
            end_time=span.end,
            instrumentation_scope=scope,
        )
        for span in spans
    ]
    exporter = OTLPSpanExporter(endpoint=url)
    with _said(OTLPSpanExporter.__module__) as said:
        try:
            for start in range(0, len(readable), BATCH):
                if exporter.export(readable[start : start + BATCH]) is not SpanExportResult.SUCCESS:
                    why = f" ({said[0][:LONGEST_REASON]})" if said else ""
                    raise InfrastructureError(
                        f"the collector at {url} did not take the spans{why}: is it up, and is the path right, "
                        "most often /v1/traces?"
                    )
        finally:
            exporter.shutdown()


@contextmanager
def _said(logger_name: str) -> Generator[list[str]]:
    """What a logger says meanwhile, instead of letting it write to the terminal."""
    said: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    logger, handler = logging.getLogger(logger_name), Keep()
    propagated, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield said
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagated


def _span_json(span: Span) -> dict[str, Any]:
    parent = {"parentSpanId": span.parent_id} if span.parent_id else {}
    status = {"code": 2, "message": span.error} if span.error is not None else {}
    return {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        **parent,
        "name": span.name,
        "kind": 3 if span.is_client else 1,
        "startTimeUnixNano": str(span.start),
        "endTimeUnixNano": str(span.end),
        "attributes": _attributes_json(span.attributes),
        "status": status,
    }


def _attributes_json(attributes: Mapping[str, Value]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value_json(value)} for key, value in attributes.items()]


def _value_json(value: Value) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case str():
            return {"stringValue": value}
        case _:
            return {"arrayValue": {"values": [_value_json(item) for item in value]}}
