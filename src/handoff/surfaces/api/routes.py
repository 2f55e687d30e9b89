"""The table of what the API can do, and the OpenAPI document that is made of it."""

from __future__ import annotations

from handoff import __version__
from handoff.base.errors import Conflict, UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board import figures, gates
from handoff.board.events import journal
from handoff.board.tasks import batches, flows, states, tasks
from handoff.board.tokens import ANSWER, READ, SCOPES, STEER
from handoff.engine.work.act import Act
from handoff.surfaces.acting import perform, report
from handoff.surfaces.api import calls, shapes
from handoff.surfaces.api.shapes import Body

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from handoff.board.figures import BoardFigures
    from handoff.surfaces.api.calls import ApiRequest
    from handoff.surfaces.api.shapes import Schema

# Figures for a program that watches: the text format of Prometheus.

_OUTCOMES = {
    "task.finished": "done",
    "task.blocked": "blocked",
    "task.cancelled": "cancelled",
    "task.expired": "handed_back",
    "task.released": "released",
    "task.retried": "retried",
    "task.sent_back": "sent_back",
}


class Metric(Record):
    """What one figure is called, of which type it is and what it tells."""

    name: str
    type: str
    text: str


METRICS = {
    name: Metric(f"handoff_{name}", type_, text)
    for name, type_, text in (
        ("info", "gauge", "Always 1, with the version that answers and the kind of database."),
        ("tasks", "gauge", "Live tasks by state."),
        ("oldest_ready_seconds", "gauge", "How long the oldest task that may be taken has been ready."),
        ("leases_overdue", "gauge", "Running tasks whose lease is over and that nobody has taken back yet."),
        ("claims_total", "counter", "How often tasks were handed to a session."),
        ("leases_lost_total", "counter", "How often a task was taken from a session that gave no sign of life."),
        ("task_outcomes_total", "counter", "What came of tasks, and of tries: done, blocked, handed_back and others."),
        ("checks_total", "counter", "Checks that judged a report, red or green."),
        ("check_seconds_total", "counter", "Seconds those checks took."),
        ("task_wait_seconds", "histogram", "Seconds a task was ready before a session took it."),
        ("session_seconds", "histogram", "Seconds from a claim to the end of its agent's session."),
        ("gate_answer_seconds", "histogram", "Seconds a gate waited for its answer."),
        ("sessions_running", "gauge", "Sessions at work."),
        ("sessions_total", "counter", "Agents' sessions that ended, by how they ended."),
        ("cost_dollars_total", "counter", "What ended sessions cost, as far as it is known."),
        ("cost_unknown_sessions_total", "counter", "Ended sessions whose cost is unknown, or not known for all of it."),
        (
            "tokens_total",
            "counter",
            "Tokens that ended sessions used: input that was not cached, cached input, output.",
        ),
        ("cost_day_dollars", "gauge", "What sessions of every project cost in the last 24 hours."),
        ("gates_open", "gauge", "Gates that wait for a person."),
        ("gate_wait_seconds", "gauge", "How long the oldest open gate has waited."),
        ("agents_held", "gauge", "Agents that are not started, for no fault of their own."),
        ("paused", "gauge", "What nobody may take tasks of for now."),
        ("incidents_open", "gauge", "Incidents nobody has resolved."),
        ("supervisors", "gauge", "Supervisors that live, by host."),
        ("supervisor_silent_seconds", "gauge", "How long ago the last supervisor of a host was heard."),
        ("channel_behind_lines", "gauge", "Lines of the journal a channel of notifications has not read."),
        ("channel_dropped_total", "counter", "Notifications a channel gave up."),
        ("journal_events_total", "counter", "Lines of the journal, by kind."),
        ("uncounted_lines", "gauge", "Lines of the journal that the counters here do not know yet."),
        ("database_seconds", "gauge", "How long a small read of the database took just now, from this machine."),
        ("scrape_seconds", "gauge", "How long these figures took."),
    )
}


def show(request: ApiRequest) -> str:
    """Everything, of one project or of all."""
    database, clock = request.app.database, request.app.clock
    began = clock.monotonic()
    journal.last_seq(database)
    answered = clock.monotonic()
    found = figures.take(database, project=request.scope)
    lines: dict[str, list[str]] = {name: [] for name in METRICS}
    if not request.project:  # a token for one project does not see what all of them cost
        lines["cost_day_dollars"].append(_line(METRICS["cost_day_dollars"].name, {}, round(found.spent, 6)))
    for name, labels, value in (*_moment(found), *_past(found)):
        lines[name].append(_line(METRICS[name].name, labels, value))
    for name in ("task_wait_seconds", "session_seconds", "gate_answer_seconds"):
        lines[name] = _histogram(found, name.removesuffix("_seconds"), METRICS[name].name)
    for name, value in (("database_seconds", answered - began), ("scrape_seconds", clock.monotonic() - began)):
        lines[name].append(_line(METRICS[name].name, {}, round(value, 6)))
    lines["info"].append(_line(METRICS["info"].name, {"version": __version__, "database": database.kind}, 1))
    return "".join(
        "\n".join((f"# HELP {one.name} {one.text}", f"# TYPE {one.name} {one.type}", *lines[name])) + "\n"
        for name, one in METRICS.items()
    )


def _moment(found: BoardFigures) -> Iterator[tuple[str, dict[str, str], float]]:
    """What is now."""
    for project in found.projects:
        one = {"project": project}
        for state in states.LIVE:
            yield "tasks", {**one, "state": state}, found.tasks.get((project, state), 0)
        yield "oldest_ready_seconds", one, round(max(0.0, found.oldest_ready.get(project, 0.0)), 3)
        yield "leases_overdue", one, found.overdue.get(project, 0)
        waits = found.waits.get(project, [])
        yield "gates_open", one, len(waits)
        yield "gate_wait_seconds", one, round(max(waits, default=0.0), 3)
        yield "incidents_open", one, found.incidents.get(project, 0)
    for (project, agent, host), count in sorted(found.sessions.items()):
        yield "sessions_running", {"project": project, "agent": agent, "host": host}, count
    for agent, host in found.held:
        yield "agents_held", {"agent": agent, "host": host}, 1
    for stop in found.paused:
        yield "paused", {"scope": stop.scope, "project": stop.project, "name": stop.name}, 1
    for host in sorted({one.host for one in found.supervisors}):
        here = [one for one in found.supervisors if one.host == host]
        yield "supervisors", {"host": host}, len(here)
        yield (
            "supervisor_silent_seconds",
            {"host": host},
            round(max(0.0, min(found.now - one.seen_at for one in here)), 3),
        )
    for channel in found.channels:
        yield "channel_behind_lines", {"channel": channel.name}, max(0, found.lines - channel.seq)
        yield "channel_dropped_total", {"channel": channel.name}, channel.dropped
    yield "uncounted_lines", {}, max(0, found.lines - found.counted)


def _past(found: BoardFigures) -> Iterator[tuple[str, dict[str, str], float]]:
    """What was so far: figures that never fall."""
    for row in found.tally:
        one = {"project": row.project}
        if row.name == figures.LINES:
            yield "journal_events_total", {**one, "kind": row.label}, row.number
            if row.label == "task.claimed":
                yield "claims_total", one, row.number
            elif row.label in _OUTCOMES:
                yield "task_outcomes_total", {**one, "outcome": _OUTCOMES[row.label]}, row.number
        elif row.name == figures.CHECKS:
            yield "checks_total", {**one, "result": row.label}, row.number
            yield "check_seconds_total", {**one, "result": row.label}, round(row.total, 3)
        elif row.name == figures.SESSIONS:
            agent, host, outcome = figures.names_of(row.label)
            yield "sessions_total", {**one, "agent": agent, "host": host, "outcome": outcome}, row.number
        elif row.name == figures.COST:
            yield "cost_dollars_total", {**one, "agent": row.label}, round(row.total, 6)
        elif row.name == figures.UNPRICED:
            yield "cost_unknown_sessions_total", {**one, "agent": row.label}, row.number
        elif row.name == figures.TOKENS:
            agent, kind = figures.names_of(row.label)
            yield "tokens_total", {**one, "agent": agent, "kind": kind}, round(row.total)
        elif row.name == figures.LOST:
            yield "leases_lost_total", one, row.number


def _histogram(found: BoardFigures, name: str, shown: str) -> list[str]:
    """Buckets that each hold those below, as Prometheus wants them."""
    lines = []
    rows = [row for row in found.tally if row.name == name]
    for project in sorted({row.project for row in rows}):
        own = {row.label: row for row in rows if row.project == project}
        below = 0
        for bound in (*(f"{one:g}" for one in figures.BUCKETS), "+Inf"):
            below += own[bound].number if bound in own else 0
            lines.append(_line(f"{shown}_bucket", {"project": project, "le": bound}, below))
        lines.append(_line(f"{shown}_sum", {"project": project}, round(sum(row.total for row in own.values()), 3)))
        lines.append(_line(f"{shown}_count", {"project": project}, below))
    return lines


def _line(name: str, labels: dict[str, str], value: float) -> str:
    named = ",".join(f'{label}="{_escaped(word)}"' for label, word in labels.items())
    return f"{name}{{{named}}} {value}" if named else f"{name} {value}"


def _escaped(word: str) -> str:
    return word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


# --- figures ------------------------------------------------------------------------------------------------

# What the API changes: acts, done in the name of the token that asked for them.

_RELEASE, _EDIT = "task release", "task edit"
_KINDS: dict[str, tuple[Callable[[ApiRequest], Any], Callable[..., Any]]] = {
    "task": (calls.one_task, tasks.find),
    "batch": (calls.one_batch, batches.find),
    "flow": (calls.one_flow, flows.find),
}


def answer(request: ApiRequest) -> Any:
    """Answer a gate: yes, no with a reason, edit with the text as it is to be, or in the person's own words."""
    waiting = calls.one_gate(request)
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


def say(request: ApiRequest) -> Any:
    """Say something to a session that runs."""
    session, options = calls.one_session(request), {"now": True} if request.asked.get("now") else {}
    return _perform(request, Act("session say", (session.id, request.asked["text"]), options))


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
            raise calls.NotThere("There is no project of that name.", "Projects are named in every list.")
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
TAKES: dict[str, dict[str, type[Body]]] = {
    "cancel": {"task": shapes.ReasonBody, "batch": shapes.ReasonBody, "flow": shapes.ReasonBody},
    "pause": {"task": shapes.ReasonBody, "batch": shapes.ReasonBody, "project": shapes.ReasonBody},
    "release": {"task": shapes.ReasonBody},
    "retry": {"task": shapes.Again, "batch": shapes.Again, "flow": shapes.NoteAlone},
    "edit": {"task": shapes.EditBody},
}


# --- acts ---------------------------------------------------------------------------------------------------

PREFIX = "/api/v1"
STREAM, DOCUMENT, WATCHED = "/stream", "/openapi.json", "/metrics"
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
    body: type[Body] = Body
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
        ("/tasks", "tasks, live ones, or all with include_ended", shapes.page_of("Task", number), calls.list_tasks,
         {**ended, **shapes.STATE, "id": {**shapes.ID, "description": "of this name"}}),
        ("/tasks/{key}", "one task", _ref("TaskDetails"), calls.get_task, {}),
        ("/batches", "batches, open ones, or all with include_ended", shapes.page_of("Batch", number), calls.list_batches, ended),
        ("/batches/{key}", "one batch with its parts", _ref("BatchDetails"), calls.get_batch, {}),
        ("/flows", "flows, running ones, or all with include_ended", shapes.page_of("Flow", number), calls.list_flows, ended),
        ("/flows/{key}", "one flow", _ref("Flow"), calls.get_flow, {}),
        ("/sessions", "sessions, those that live, or all with include_ended", shapes.page_of("Session", shapes.TEXT),
         calls.list_sessions, by_id),
        ("/sessions/{id}", "one session", _ref("Session"), calls.get_session, {}),
        ("/sessions/{id}/log", "what a session of this machine said, its last lines", _ref("SessionLog"),
         calls.get_session_log, {"limit": shapes.LIMIT}),
        ("/sessions/{id}/messages", "what a person said to a session, and how far it got", _ref("Messages"), calls.get_messages, {}),
        ("/gates", "gates, open ones, or all with include_ended", shapes.page_of("Gate", number), calls.list_gates, ended),
        ("/gates/{key}", "one gate", _ref("Gate"), calls.get_gate, {}),
        ("/journal", "the journal after a line", shapes.page_of("Event", number), calls.list_events, listed),
        ("/search", "one search over all that was written or said", shapes.page_of("Hit", number), calls.find, search),
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
            body=shapes.AnswerBody,
        ),
        ApiOperation(
            method="POST", path="/sessions/{id}/say", scope=STEER, summary="say something to a session that runs", answers=_ref("Done"),
            act=say, body=shapes.SayBody,
        ),
    ]  # fmt: skip
    kinds = {"task": ("/tasks/{key}", TASK), "batch": ("/batches/{key}", BATCH), "flow": ("/flows/{key}", FLOW),
             "project": ("/projects/{project}", PROJECT)}  # fmt: skip
    for kind, (path, acts) in kinds.items():
        for word, act in acts.items():
            made.append(
                ApiOperation(
                    method="POST",
                    path=f"{path}/{word}",
                    scope=STEER,
                    summary=f"{kind}: {said[word]}",
                    answers=_ref("Done"),
                    act=act,
                    body=TAKES.get(word, {}).get(kind, Body),
                )
            )
    return [*made, *_orders()]


def _orders() -> list[ApiOperation]:
    rows = (
        ("/tasks", "a new task", "Made", calls.order, shapes.TaskOrder),
        ("/batches", "a new batch", "Made", calls.order, shapes.BatchOrder),
        ("/flows", "a new flow", "Made", calls.order, shapes.FlowOrder),
        ("/tasks/claim", "take a task for a runner of your own", "Claimed", calls.claim, shapes.ClaimBody),
        ("/tasks/{key}/heartbeat", "show that the runner lives", "Claimed", calls.beat, shapes.HeldBody),
        (
            "/tasks/{key}/finish",
            "report the task done, blocked or given back",
            "Done",
            calls.finish,
            shapes.FinishBody,
        ),
    )
    return [
        ApiOperation(method="POST", path=path, scope=STEER, summary=text, answers=_ref(name), act=act, body=body)
        for path, text, name, act, body in rows
    ]


def _streams() -> list[ApiOperation]:
    since = {
        **shapes.KEY,
        "description": "begin after this line; Last-Event-ID goes before it; without both: from now on",
    }
    return [
        ApiOperation(
            method="GET", path=WATCHED, scope=READ, answers=shapes.TEXT, media="text/plain", query=shapes.PROJECT, act=show,
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
        schema = shapes.schema_of(one.body)
        told["requestBody"] = {
            "required": bool(schema.get("required")), "content": {"application/json": {"schema": schema}}
        }  # fmt: skip
        if one.act is calls.order:
            told["parameters"].append(
                {"name": calls.KEY_HEADER, "in": "header", "required": False, "schema": calls.KEY_SCHEMA}
            )
    return told
