"""The life of a task as spans of one trace, made from its lines of the journal alone, and sent through OpenTelemetry's own SDK.

Ids are made of the task and of the line that opens a span: whoever makes a span again, on any machine, makes the same one."""

from __future__ import annotations

import hashlib
import logging

from handoff.base.errors import PACKAGE, MissingPackage, UserError
from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, Protocol

    class Line(Protocol):
        """What spans need of a line of the journal."""

        @property
        def seq(self) -> int: ...
        @property
        def at(self) -> float: ...
        @property
        def kind(self) -> str: ...
        @property
        def session(self) -> str: ...
        @property
        def fence(self) -> int: ...
        @property
        def body(self) -> dict[str, Any]: ...

    Exporter = Any

TASK, WAITING, SESSION, CHECK, GATE, LANDING = "task", "waiting", "session", "check", "gate", "landing"
_READY = ("task.readied", "task.retried", "task.released", "task.expired", "task.revived", "task.sent_back")
_ENDS = ("task.finished", "task.cancelled")
_STOPS = (*_ENDS, "task.blocked", "gate.opened")
_FAILED = ("task.expired", "task.blocked")
_ANSWERED = ("gate.approved", "gate.rejected")


class Span(Record):
    """One stretch of a task's life. `closed_by` is the number of the line that ended it; a line ends it once."""

    trace: str
    id: str
    parent: str
    name: str
    start: float
    end: float
    closed_by: int
    failed: str = ""
    about: Mapping[str, Any] = {}


class TracedTask(Record):
    """What all spans of a task have in common."""

    key: int
    project: str
    name: str
    created: float
    evidence: Mapping[str, Any]
    batch: int | None = None

    @property
    def trace(self) -> str:
        return hashlib.sha256(f"{self.project}\n{self.key}\n{self.created!r}".encode()).hexdigest()[:32]


def spans_of(task: TracedTask, lines: Iterable[Line]) -> list[Span]:
    """Every stretch that has come to its end, in that order."""
    life = _Life(task)
    for line in lines:
        life.hear(line)
    return life.spans


class _Life:
    def __init__(self, task: TracedTask) -> None:
        self.task, self.spans = task, []  # type: tuple[TracedTask, list[Span]]
        self._open: dict[str, tuple[int, float, dict[str, Any]]] = {WAITING: (0, task.created, {})}

    def hear(self, line: Line) -> None:
        """One more line."""
        if line.kind == "task.claimed":
            self._close(WAITING, line)
            self._open[SESSION] = (line.seq, line.at, {"session": line.session, "fence": line.fence})
        if "check" in line.body:  # red, or green and kept for a person
            self._check(line, line.body)
        if line.kind == "task.finished":
            self._check(line, self.task.evidence)
            self._landing(line)
        if line.kind in _READY or line.kind in _STOPS:
            self._close(SESSION, line, failed=str(line.body.get("reason", "")) if line.kind in _FAILED else "")
        if line.kind in _STOPS:
            self._close(WAITING, line)
        if line.kind in _ANSWERED:
            self._close(GATE, line, answer=line.kind.partition(".")[2])
        if line.kind == "gate.opened":
            self._open[GATE] = (line.seq, line.at, {})
        elif line.kind in _READY or line.kind in _ANSWERED:
            self._open.setdefault(WAITING, (line.seq, line.at, {}))
        if line.kind in _ENDS:
            self._open.pop(WAITING, None)
            self._add(TASK, 0, self.task.created, line, {"outcome": line.kind.partition(".")[2]})

    def _close(self, name: str, line: Line, *, failed: str = "", **about: Any) -> None:
        if name in self._open:
            opened, start, known = self._open.pop(name)
            self._add(name, opened, start, line, {**known, **about}, failed=failed)

    def _check(self, line: Line, record: Mapping[str, Any]) -> None:
        check = record.get("check")
        if isinstance(check, dict) and "green" in check:
            end = min(line.at, float(check.get("judged_at", line.at)))
            green = bool(check["green"])
            about = {"result": "green" if green else "red", "command": str(check.get("command", ""))}
            start = end - float(check.get("seconds", 0.0))
            self._add(CHECK, line.seq, start, line, about, end=end, failed="" if green else "the check is red")

    def _landing(self, line: Line) -> None:
        check = self.task.evidence.get("check")
        judged = check.get("judged_at") if isinstance(check, dict) else None
        if judged and self.task.evidence.get("landed"):
            self._add(LANDING, line.seq, min(float(judged), line.at), line, {})

    def _add(
        self,
        name: str,
        opened: int,
        start: float,
        line: Line,
        about: dict[str, Any],
        *,
        end: float = 0.0,
        failed: str = "",
    ) -> None:
        trace = self.task.trace
        root = _span_id(trace, TASK, 0)
        self.spans.append(
            Span(
                trace=trace,
                id=_span_id(trace, name, opened),
                parent="" if name == TASK else root,
                name=name,
                start=start,
                end=max(end or line.at, start),
                closed_by=line.seq,
                failed=failed,
                about=about,
            )
        )


def _span_id(trace: str, name: str, opened: int) -> str:
    return hashlib.sha256(f"{trace}\n{name}\n{opened}".encode()).hexdigest()[:16]


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
