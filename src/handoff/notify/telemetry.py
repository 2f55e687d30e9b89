"""Spans to a collector of OpenTelemetry, through its own SDK: only where the standard variables ask for it."""

from __future__ import annotations

import logging

from handoff.base.errors import PACKAGE, MissingPackage, UserError
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from handoff.notify.spans import Span, TracedTask

    Exporter = Any

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_HTTP = "http/protobuf"
_NANO = 1_000_000_000


def place(variable: Callable[[str], str]) -> str:
    """Where spans go; empty when nobody asked for them."""
    if variable("OTEL_SDK_DISABLED").strip().lower() == "true" or variable("OTEL_TRACES_EXPORTER") == "none":
        return ""
    return next((found for name in _ENDPOINTS if (found := variable(name).strip())), "")


def open_exporter(variable: Callable[[str], str]) -> Exporter:
    """The SDK's own exporter: addresses, headers, certificates and patience are what its variables say."""
    protocol = next((found for name in _PROTOCOLS if (found := variable(name).strip())), _HTTP)
    exporter = variable("OTEL_TRACES_EXPORTER").strip()
    if protocol != _HTTP or exporter not in ("", "otlp"):
        raise UserError(
            "Traces go by OTLP over HTTP alone.",
            f"Set OTEL_EXPORTER_OTLP_PROTOCOL={_HTTP} and OTEL_TRACES_EXPORTER=otlp.",
        )
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError:
        raise MissingPackage("Traces need the SDK of OpenTelemetry.", f"{PACKAGE}[otel]") from None
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # whoever runs us is told by us, once
    return OTLPSpanExporter()


def send(exporter: Exporter, found: Sequence[tuple[TracedTask, Span]], *, version: str) -> bool:
    """Send spans once; whether the collector took them."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExportResult
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags

    resource = Resource.create()
    if str(resource.attributes.get("service.name", "")).startswith("unknown_service"):
        resource = resource.merge(Resource({"service.name": "handoff", "service.version": version}))

    def context(trace: str, span: str) -> Any:
        flags = TraceFlags(TraceFlags.SAMPLED)
        return SpanContext(int(trace, 16), int(span, 16), is_remote=False, trace_flags=flags)

    made = [
        ReadableSpan(
            name=f"task {task.name}" if not span.parent else span.name,
            context=context(span.trace, span.id),
            parent=context(span.trace, span.parent) if span.parent else None,
            resource=resource,
            attributes=_attributes(task, span),
            status=Status(StatusCode.ERROR, span.failed) if span.failed else Status(StatusCode.UNSET),
            start_time=int(span.start * _NANO),
            end_time=int(span.end * _NANO),
            instrumentation_scope=InstrumentationScope("handoff", version),
        )
        for task, span in found
    ]
    return bool(exporter.export(made) is SpanExportResult.SUCCESS)


def _attributes(task: TracedTask, span: Span) -> dict[str, Any]:
    common = {"handoff.project": task.project, "handoff.task": task.name, "handoff.task.key": task.key}
    if task.batch is not None:
        common["handoff.batch.key"] = task.batch
    return {**common, **{f"handoff.{name}": value for name, value in span.about.items()}}
