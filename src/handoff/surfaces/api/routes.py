"""The table of what the API can do, and the OpenAPI document that is made of it."""

from __future__ import annotations

from handoff import __version__
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.tokens import ANSWER, READ, SCOPES, STEER
from handoff.surfaces.api import acting, metrics, reading, shapes

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from handoff.surfaces.api.reading import ApiRequest
    from handoff.surfaces.api.shapes import Schema

PREFIX = "/api/v1"
STREAM, DOCUMENT, METRICS = "/stream", "/openapi.json", "/metrics"
_PROBLEMS = {
    400: "the request cannot be understood, or what it asks for cannot be done",
    401: "no token, or one that opens nothing",
    403: "the token may not do this, or a guard said no",
    404: "it is not there",
    409: "somebody was faster, or it is not in a state for this",
    413: "the request is too large",
    415: "the request is no JSON",
    429: "too many requests; Retry-After says how long to wait",
    503: "the database is away",
}


class ApiOperation(Record):
    """One thing the API can do."""

    method: str
    path: str
    scope: str
    summary: str
    answers: Schema
    act: Callable[[ApiRequest], Any] | None = None
    query: dict[str, Schema] = {}  # noqa: RUF012 - never changed
    body: dict[str, Schema] = {}  # noqa: RUF012 - never changed
    required: tuple[str, ...] = ()
    media: str = "application/json"

    @property
    def names(self) -> list[str]:
        """What its path names."""
        return [part[1:-1] for part in self.path.split("/") if part.startswith("{")]

    @property
    def id(self) -> str:
        parts = [part for part in self.path.split("/") if part and not part.startswith("{")]
        return f"{self.method.lower()}-{'-'.join(parts)}{'-one' if self.path.endswith('}') else ''}"


NAMED: dict[str, Schema] = {"key": shapes.KEY, "id": shapes.ID, "project": shapes.ID}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _reads() -> list[ApiOperation]:
    listed, number = {**shapes.PROJECT, **shapes.PAGE}, shapes.NUMBER
    ended = {**listed, **shapes.ENDED}
    by_id = {**ended, "after": {**shapes.ID, "description": "the `next` of the page before"}}
    search = {
        "q": {**shapes.WORDS, "minLength": 1, "maxLength": 400, "description": "words that must all be there"},
        **shapes.PROJECT, **shapes.KIND, "limit": shapes.HITS, "before": {**shapes.KEY, "description": "the `next` of the page before"},
    }  # fmt: skip
    rows = [
        ("/tasks", "tasks, live ones unless all are asked for", shapes.page_of("Task", number), reading.list_tasks,
         {**ended, **shapes.STATE, "id": {**shapes.ID, "description": "of this name"}}),
        ("/tasks/{key}", "one task", _ref("TaskDetails"), reading.get_task, {}),
        ("/batches", "batches, open ones unless all are asked for", shapes.page_of("Batch", number), reading.list_batches, ended),
        ("/batches/{key}", "one batch with its parts", _ref("BatchDetails"), reading.get_batch, {}),
        ("/flows", "flows, running ones unless all are asked for", shapes.page_of("Flow", number), reading.list_flows, ended),
        ("/flows/{key}", "one flow", _ref("Flow"), reading.get_flow, {}),
        ("/sessions", "sessions, those that live unless all are asked for", shapes.page_of("Session", shapes.TEXT),
         reading.list_sessions, by_id),
        ("/sessions/{id}", "one session", _ref("Session"), reading.get_session, {}),
        ("/sessions/{id}/log", "what a session of this machine said, its last lines", _ref("SessionLog"),
         reading.get_session_log, {"limit": shapes.LIMIT}),
        ("/sessions/{id}/messages", "what a person said to a session, and how far it got", _ref("Messages"), reading.get_messages, {}),
        ("/gates", "gates, open ones unless all are asked for", shapes.page_of("Gate", number), reading.list_gates, ended),
        ("/gates/{key}", "one gate", _ref("Gate"), reading.get_gate, {}),
        ("/journal", "the journal after a line", shapes.page_of("Event", number), reading.list_events, listed),
        ("/search", "one search over all that was written or said", shapes.page_of("Hit", number), reading.find, search),
    ]  # fmt: skip
    return [
        ApiOperation(
            method="GET", path=path, scope=READ, summary=text, answers=answers, act=act, query=query,
            required=("q",) if "q" in query else (),
        )
        for path, text, answers, act, query in rows
    ]  # fmt: skip


def _acts() -> list[ApiOperation]:
    said = {
        "retry": "let it try again", "cancel": "take it back", "pause": "let nothing new be taken of it",
        "resume": "let it be taken again", "release": "take it from the session that holds it; the next one gets it as it is",
        "edit": "change it while nobody works on it",
    }  # fmt: skip
    made = [
        ApiOperation(
            method="POST", path="/gates/{key}/answer", scope=ANSWER, summary="answer a gate", answers=_ref("Done"), act=acting.answer,
            body={"answer": shapes.ANSWER, "text": shapes.WORDS}, required=("answer",),
        ),
        ApiOperation(
            method="POST", path="/sessions/{id}/say", scope=STEER, summary="say something to a session that runs", answers=_ref("Done"),
            act=acting.say, body=shapes.SAY, required=("text",),
        ),
    ]  # fmt: skip
    kinds = {"task": ("/tasks/{key}", acting.TASK), "batch": ("/batches/{key}", acting.BATCH), "flow": ("/flows/{key}", acting.FLOW),
             "project": ("/projects/{project}", acting.PROJECT)}  # fmt: skip
    for kind, (path, acts) in kinds.items():
        for word, act in acts.items():
            body = {name: shapes.SAID[name] for name in acting.TAKES.get(word, {}).get(kind, ())}
            made.append(
                ApiOperation(
                    method="POST",
                    path=f"{path}/{word}",
                    scope=STEER,
                    summary=f"{kind}: {said[word]}",
                    answers=_ref("Done"),
                    act=act,
                    body=body,
                )
            )
    return made


def _streams() -> list[ApiOperation]:
    since = {
        **shapes.KEY,
        "description": "begin after this line; Last-Event-ID goes before it; without both: from now on",
    }
    return [
        ApiOperation(
            method="GET", path=METRICS, scope=READ, answers=shapes.TEXT, media="text/plain", query=shapes.PROJECT, act=metrics.show,
            summary="figures in the text format of Prometheus",
        ),
        ApiOperation(
            method="GET", path=STREAM, scope=READ, answers=shapes.TEXT, media="text/event-stream", query={**shapes.PROJECT, "after": since},
            summary="the journal as server-sent events, each a CloudEvent whose id is its number",
        )
    ]  # fmt: skip


OPERATIONS = (*_reads(), *_acts(), *_streams())


def document() -> dict[str, Any]:
    """The OpenAPI document."""
    paths: dict[str, Any] = {}
    for one in OPERATIONS:
        paths.setdefault(one.path, {})[one.method.lower()] = _described(one)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "handoff",
            "version": __version__,
            "description": "The relay between AI coding sessions. Tokens are made by: handoff token new NAME --scope read|answer|steer",
        },
        "servers": [{"url": PREFIX}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": shapes.SCHEMAS,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": f"scopes, each with those before it: {', '.join(SCOPES)}"}
            },
        },
    }  # fmt: skip


def _described(one: ApiOperation) -> dict[str, Any]:
    statuses = [
        400,
        401,
        403,
        429,
        503,
        *([404] if one.names else []),
        *([409, 413, 415] if one.method == "POST" else []),
    ]
    problem = {"application/problem+json": {"schema": _ref("Problem")}}
    told: dict[str, Any] = {
        "operationId": one.id,
        "summary": one.summary,
        "description": f"Needs a token that may {one.scope}.",
        "parameters": [
            *({"name": name, "in": "path", "required": True, "schema": NAMED[name]} for name in one.names),
            *(
                {"name": name, "in": "query", "required": name in one.required, "schema": schema}
                for name, schema in one.query.items()
            ),
        ],
        "responses": {
            "200": {"description": "as asked", "content": {one.media: {"schema": one.answers}}},
            **{str(status): {"description": _PROBLEMS[status], "content": problem} for status in sorted(statuses)},
        },
    }
    if one.method == "POST":
        schema = {
            "type": "object",
            "properties": one.body,
            "required": list(one.required),
            "additionalProperties": False,
        }
        told["requestBody"] = {"required": bool(one.required), "content": {"application/json": {"schema": schema}}}
    return told
