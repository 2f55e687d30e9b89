"""Traces: a task's life as spans, sent by the real SDK to a real receiver, once, whoever sends them and whatever is away."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from handoff.base.settings import from_environment
from handoff.board import gates
from handoff.board.events import journal
from handoff.board.sessions import leases
from handoff.board.sessions.sessions import SessionIdentity
from handoff.board.tasks import outcomes, tasks
from handoff.engine.app import App
from handoff.engine.supervisor import notifications
from receivers import Receiver

RED, GREEN = ({"check": {"command": "true", "green": green, "seconds": 1.5}} for green in (False, True))


@pytest.fixture
def receiver():
    made = Receiver(200)
    yield made
    made.close()


@pytest.fixture
def relay(place, database, receiver, monkeypatch):
    monkeypatch.setenv("HANDOFF_DATABASE_URL", place.url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://{receiver.host}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    made = App(from_environment())
    made._database = database
    return made


def _claim(database, task, session):
    who = SessionIdentity(id=session, kind="agent", agent="scripted", host="here", boot="b")
    return leases.claim(database, key=task.key, who=who, lease_seconds=60.0)


def _live(database):
    """Red once, then asked about, then green and landed."""
    task = tasks.add(database, project="shop", id="mail", brief="x")
    claim = _claim(database, task, "session-1")
    with database.transaction() as transaction:
        journal.append(transaction, "task.rejected", task=claim.task, session="session-1", **RED)
    leases.hand_back(
        database, task=claim.task, reason="the check is red, key sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"
    )
    claim = _claim(database, task, "session-2")
    gates.ask(database, key=task.key, question="May I?", fence=claim.fence)
    gates.approve(database, key=task.key, answered_by="me")
    claim = _claim(database, task, "session-3")
    with database.transaction(write=False) as transaction:
        judged = transaction.now()
    check = {**GREEN["check"], "judged_at": judged}
    outcomes.finish(
        database, key=task.key, fence=claim.fence, evidence={"check": check, "landed": {"commit": "c0ffee"}}
    )
    return task


def _spans(receiver):
    found = []
    for _, body in receiver.got:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            assert {one.key: one.value.string_value for one in resource.resource.attributes}[
                "service.name"
            ] == "handoff"
            found += [span for scope in resource.scope_spans for span in scope.spans]
    return found


def _words(span):
    return {one.key.removeprefix("handoff."): one.value.string_value for one in span.attributes}


def test_the_life_of_a_task_is_one_trace_that_is_sent_once_and_made_again_the_same(relay, database, receiver):
    _live(database)
    assert notifications.trace_or_tell(relay) == []
    spans = _spans(receiver)
    assert [span.name for span in spans] == [
        "waiting", "check", "session", "waiting", "session", "gate", "waiting", "check", "landing", "session", "task mail",
    ]  # fmt: skip
    root = spans[-1]
    assert (root.parent_span_id, {span.trace_id for span in spans}) == (b"", {root.trace_id})
    assert {span.parent_span_id for span in spans[:-1]} == {root.span_id}
    assert len({span.span_id for span in spans}) == len(spans)
    assert all(root.start_time_unix_nano <= span.end_time_unix_nano <= root.end_time_unix_nano for span in spans)
    assert [_words(span)["result"] for span in spans if span.name == "check"] == ["red", "green"]
    failed = [span for span in spans if span.status.code == 2]
    assert [span.name for span in failed] == ["check", "session"]
    assert "sk-ant" not in failed[1].status.message
    assert (_words(spans[2])["agent"], _words(spans[2])["host"]) == ("scripted", "here")
    assert notifications.trace_or_tell(relay) == []
    assert len(_spans(receiver)) == len(spans)
    with database.transaction() as transaction:  # as if the mark were lost in a crash
        transaction.execute("renew_channel", name=notifications.TRACES, place="another")
    held = journal.take_channel(database, name=notifications.TRACES, place="another", force=True)
    journal.keep_progress(database, held, now=held._replace(seq=0), done=True)
    notifications.trace_or_tell(relay)
    again = _spans(receiver)[len(spans) :]
    assert [(span.span_id, span.start_time_unix_nano, span.end_time_unix_nano) for span in again] == [
        (span.span_id, span.start_time_unix_nano, span.end_time_unix_nano) for span in spans
    ]


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_a_collector_that_is_away_stops_nothing_and_gets_the_spans_when_it_is_back(
    relay, database, receiver, monkeypatch
):
    receiver.script[:] = [400]
    _live(database)
    (trouble,) = notifications.trace_or_tell(relay)
    assert trouble.startswith("Traces: the collector at ")
    assert notifications.trace_or_tell(relay) == [], "it is not asked again before its pause is over"
    receiver.script[:] = [200]
    before = len(receiver.got)
    database.shift += 60.0
    assert notifications.trace_or_tell(relay) == []
    assert len(receiver.got) > before
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    own = App(from_environment())
    own._database = database
    outcomes.finish(database, key=tasks.add(database, project="shop", id="other", brief="x").key)
    (trouble,) = notifications.trace_or_tell(own)
    assert "OTLP over HTTP alone" in trouble


def test_nothing_of_the_sdk_is_loaded_where_nobody_asks_for_traces():
    code = (
        "import sys; from handoff.engine.app import App; from handoff.base.settings import from_environment;"
        "from handoff.engine.supervisor import notifications;"
        "assert notifications.trace_or_tell(App(from_environment())) == [];"
        "assert not [one for one in sys.modules if one.startswith('opentelemetry')]"
    )
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    subprocess.run([sys.executable, "-c", code], check=True, env=clean)
