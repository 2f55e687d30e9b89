"""The table of what the API can do, and the OpenAPI document that is made of it."""

from __future__ import annotations

from handoff import __version__
from handoff.base.errors import Conflict, UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board import gates
from handoff.board.tasks import batches, flows, tasks
from handoff.board.tokens import ANSWER, READ, SCOPES, STEER
from handoff.engine.acts import Act
from handoff.surfaces.acting import perform, report
from handoff.surfaces.api import metrics, reading, shapes

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
            method="POST", path="/gates/{key}/answer", scope=ANSWER, summary="answer a gate", answers=_ref("Done"), act=answer,
            body={"answer": shapes.ANSWER, "text": shapes.WORDS}, required=("answer",),
        )
    ]  # fmt: skip
    kinds = {"task": ("/tasks/{key}", TASK), "batch": ("/batches/{key}", BATCH), "flow": ("/flows/{key}", FLOW),
             "project": ("/projects/{project}", PROJECT)}  # fmt: skip
    for kind, (path, acts) in kinds.items():
        for word, act in acts.items():
            body = {name: shapes.SAID[name] for name in TAKES.get(word, {}).get(kind, ())}
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


# --- What the API changes: acts, done in the name of the token that asked for them

_RELEASE, _EDIT = "task release", "task edit"
_KINDS: dict[str, tuple[Callable[[ApiRequest], Any], Callable[..., Any]]] = {
    "task": (reading.one_task, tasks.find),
    "batch": (reading.one_batch, batches.find),
    "flow": (reading.one_flow, flows.find),
}


def answer(request: ApiRequest) -> Any:
    """Answer a gate: yes, no with a reason, edit with the text as it is to be, or in the person's own words."""
    waiting = reading.one_gate(request)
    gate, said, text = waiting.gate, request.asked["answer"], request.asked.get("text", "")
    if gate.state != gates.OPEN:
        by = f" by {gate.answered_by}" if gate.answered_by else ""
        raise Conflict(f"The gate of '{waiting.task}' was already {gate.state}{by}.", "See the open ones: GET /gates")
    if said in ("no", "edit") and not text.strip():
        raise UserError(
            "Say why: the next session reads it." if said == "no" else "An edit needs the text as it is to be."
        )
    options = {"text" if said == "edit" else "reason": text} if text else {}
    return _perform(request, Act("answer", (waiting.task, said), options, waiting.project))


def _on(kind: str, verb: str) -> Callable[[ApiRequest], Any]:
    """One of our acts on the task, batch or flow of a key, if its name still means that one."""
    one, find = _KINDS[kind]

    def act(request: ApiRequest) -> Any:
        meant = one(request)
        name = meant.label if kind == "task" else meant.id
        if find(request.app.database, project=meant.project, id=name).key != meant.key:
            raise Conflict(f"The {kind} of that key has ended; '{name}' is another one by now.")
        if verb == _RELEASE:
            options = {"session": str(meant.held_by), "fence": meant.fence, **_reason(request)}
            return _perform(request, Act(verb, (name,), options, meant.project))
        word = name if verb == _EDIT else f"{kind}:{name}"
        return _perform(request, Act(verb, (word,), dict(request.asked), meant.project))

    return act


def _on_project(word: str) -> Callable[[ApiRequest], Any]:
    def act(request: ApiRequest) -> Any:
        if request.project not in ("", request.named["project"]):
            raise reading.NotThere("There is no project of that name.", "Projects are named in every list.")
        return _perform(request, Act(word, (), _reason(request), request.named["project"]))

    return act


def _reason(request: ApiRequest) -> dict[str, Any]:
    reason = request.asked.get("reason", "")
    return {"reason": reason} if reason else {}


def _perform(request: ApiRequest, act: Act) -> Any:
    done = perform(request.app, act)
    text = report(request.app, done)
    if not done.ok:
        raise UserError(text)
    return {"command": act.line(request.app.settings.program), "text": text}


TASK, BATCH, FLOW = (
    {word: _on(kind, word) for word in ("retry", "cancel", "pause", "resume")} for kind in ("task", "batch", "flow")
)
TASK["release"] = _on("task", _RELEASE)
PROJECT = {word: _on_project(word) for word in ("pause", "resume")}
TASK["edit"] = _on("task", _EDIT)
# A command to run never comes by network: the check of a task is changed in a terminal.
_REASON, _AGAIN = ("reason",), ("note", "agent", "model")
TAKES: dict[str, dict[str, tuple[str, ...]]] = {
    "cancel": {"task": _REASON, "batch": _REASON, "flow": _REASON},
    "pause": {"task": _REASON, "batch": _REASON, "project": _REASON},
    "release": {"task": _REASON},
    "retry": {"task": _AGAIN, "batch": _AGAIN, "flow": ("note",)},
    "edit": {"task": ("brief", *_AGAIN)},
}
