"""What the API says and hears: shapes as JSON Schema and bodies as models. The document is made of them, and every request is held against them.

None of the bodies has a place for a command to run: what comes by network names workflows and the project's own tests alone.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from handoff.base.record import TYPE_CHECKING
from handoff.board.tasks import states
from handoff.engine.place import pulse
from handoff.engine.work.tasks.search import KINDS
from handoff.engine.work.tasks.search import MOST as MOST_HITS
from handoff.surfaces.vocabulary import LOOKS

if TYPE_CHECKING:
    from typing import Any

    Schema = dict[str, Any]


MOST = 500
_KEY = 1 << 53
TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "integer"}
MOMENT: Schema = {"type": ["string", "null"], "description": "UTC, for example 2026-11-15T08:30:00Z"}
KEY: Schema = {"type": "integer", "minimum": 0, "maximum": _KEY}
ID: Schema = {"type": "string", "minLength": 1, "maxLength": 80, "pattern": "^[a-z0-9-]+$"}
WORDS: Schema = {"type": "string", "maxLength": 4000, "pattern": "^[^\\u0000]*$"}
FLAG: Schema = {"type": "string", "enum": ["true", "false"]}
LIMIT: Schema = {"type": "integer", "minimum": 1, "maximum": MOST}

PROJECT = {"project": {**ID, "description": "only this project; a token of one project sees no other"}}
PAGE = {"after": {**KEY, "description": "the `next` of the page before"}, "limit": LIMIT}
ENDED = {"include_ended": {**FLAG, "description": "also what has ended"}}
STATE = {"state": {"type": "string", "enum": list(states.STATES)}}
KIND = {"kind": {"type": "string", "enum": list(KINDS)}}
HITS = {**LIMIT, "maximum": MOST_HITS}


def record(**fields: Schema) -> Schema:
    """An object that always has these fields, and perhaps more in a later version."""
    return {"type": "object", "properties": fields, "required": list(fields)}


def page_of(name: str, key: Schema) -> Schema:
    """A page: its items, and what to give as `after` for the next one."""
    more = {"type": [key["type"], "null"], "description": "what to give for the next page; null at the end"}
    return record(items={"type": "array", "items": {"$ref": f"#/components/schemas/{name}"}}, next=more)


_OVER = "the task says running and its session has ended: `ended` while somebody concludes it, `left` where nobody does; else empty"
_LOOK = "how people are shown it: its state, and besides whether its session is quiet or has ended, it is held or paused, its work is green or landed"
_TASK = {
    "key": KEY, "task": TEXT, "project": TEXT, "kind": TEXT, "state": STATE["state"], "reason": TEXT, "title": TEXT,
    "agent": TEXT, "role": TEXT, "attempt": NUMBER, "priority": NUMBER, "batch": {"type": ["integer", "null"]},
    "held_by": {"type": ["string", "null"]}, "result": TEXT, "created_at": MOMENT, "changed_at": MOMENT, "ended_at": MOMENT,
    "look": {"type": "string", "enum": list(LOOKS), "description": _LOOK},
    "ended": {"type": "string", "enum": ["", pulse.ENDED, pulse.LEFT], "description": _OVER},
}  # fmt: skip
SCHEMAS: dict[str, Schema] = {
    "Task": record(**_TASK),
    "TaskDetails": record(
        **_TASK,
        brief=TEXT,
        owns={"type": "array", "items": TEXT},
        check=TEXT,
        needs={"type": "array", "items": {"type": "object"}},
        gate={"type": ["integer", "null"], "description": "the key of the gate it waits at"},
        evidence={"type": "object"},
    ),
    "Batch": record(
        key=KEY, batch=TEXT, project=TEXT, state=TEXT, total=NUMBER, remaining=NUMBER, created_at=MOMENT, ended_at=MOMENT
    ),
    "BatchDetails": record(
        key=KEY, batch=TEXT, project=TEXT, state=TEXT, total=NUMBER, remaining=NUMBER, created_at=MOMENT, ended_at=MOMENT,
        parts={"type": "array", "items": {"$ref": "#/components/schemas/Task"}}, rationale=TEXT,
    ),
    "Flow": record(
        key=KEY, flow=TEXT, project=TEXT, workflow=TEXT, request=TEXT, phase=TEXT, cycle=NUMBER, state=TEXT, reason=TEXT,
        task={"type": ["integer", "null"]}, branch=TEXT, created_at=MOMENT, changed_at=MOMENT, ended_at=MOMENT,
    ),
    "Session": record(
        id=TEXT, kind=TEXT, project=TEXT, agent=TEXT, host=TEXT, task={"type": ["integer", "null"]}, started_at=MOMENT,
        seen_at=MOMENT, ended_at=MOMENT, ending=TEXT, alive={"type": "boolean"},
    ),
    "SessionLog": record(session=TEXT, lines={"type": "array", "items": TEXT}),
    "Messages": record(
        session=TEXT,
        messages={"type": "array", "items": record(text=TEXT, by=TEXT, at=MOMENT, state=TEXT, session=TEXT)},
    ),
    "Gate": record(
        key=KEY, task=TEXT, project=TEXT, question=TEXT, subject=TEXT, state=TEXT, fallback=TEXT, opened_at=MOMENT,
        due_at=MOMENT, answered_at=MOMENT, answered_by=TEXT, reason=TEXT, answer=TEXT, choices={"type": "array", "items": TEXT},
        open_ended={"type": "boolean"},
    ),
    "Event": record(
        seq=KEY, at=MOMENT, kind=TEXT, project=TEXT, task=TEXT, task_key={"type": ["integer", "null"]}, session=TEXT,
        body={"type": "object"},
    ),
    "Hit": record(
        kind=KIND["kind"], project=TEXT, task=TEXT, who=TEXT, at=MOMENT, text=TEXT, look=TEXT, seq=KEY, event=TEXT
    ),
    "Made": record(kind=TEXT, key=KEY, id=TEXT, state=TEXT),
    "Claimed": record(
        session=TEXT, fence=KEY, lease_seconds={"type": "number"}, key=KEY, task=TEXT, project=TEXT, brief=TEXT, attempt=NUMBER,
        workspace=TEXT, check=TEXT, repeated={"type": "boolean"},
    ),
    "Done": record(command={**TEXT, "description": "the same on a command line"}, text=TEXT),
    "Problem": record(
        type=TEXT, title=TEXT, status=NUMBER, detail={**TEXT, "description": "what is wrong, in a sentence"}, hint=TEXT
    ),
}  # fmt: skip


def problem_with(value: Any, schema: Schema) -> str:
    """Why a value does not fit; nothing if it does. As much of JSON Schema as the requests here use."""
    kind = schema.get("type")
    right: dict[Any, Any] = {"string": str, "integer": int}
    if not isinstance(value, right[kind]):
        return f"is no {kind}"
    if "enum" in schema and value not in schema["enum"]:
        return f"is none of {', '.join(schema['enum'])}"
    if kind == "integer" and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        return f"is not between {schema['minimum']} and {schema['maximum']}"
    if kind == "string":
        return _problem_with_text(value, schema)
    return ""


def _problem_with_text(value: str, schema: Schema) -> str:
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        return f"has not {schema.get('minLength', 0)} to {schema['maxLength']} characters"
    if "pattern" in schema and not re.search(schema["pattern"].replace("$", r"\Z"), value):
        return f"does not match {schema['pattern']}"
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return "is not UTF-8"
    return ""


Words = Annotated[str, Field(max_length=4000, pattern=r"^[^\u0000]*$")]
Brief = Annotated[str, Field(min_length=1, max_length=50_000, pattern=r"^[^\u0000]*$")]
Name = Annotated[str, Field(min_length=2, max_length=60, pattern=r"^[a-z0-9-]+$")]
Names = Annotated[list[Name], Field(max_length=50)]
Paths = Annotated[list[Words], Field(max_length=200)]
Agent = Annotated[str, Field(max_length=80, pattern=r"^[^\u0000]*$", description="who works on it; empty is any")]
Model = Annotated[
    str, Field(max_length=200, pattern=r"^[^\u0000]*$", description="the model; empty is the client's own choice")
]
Number = Annotated[int, Field(ge=0, le=_KEY)]
Why = Annotated[Words, Field(description="why, for the journal and the next session")]
Note = Annotated[Words, Field(description="the person's words to the next session")]
Landing = Literal["", "auto", "review", "branch"]


class Body(BaseModel):
    """What a request brings; this one brings nothing."""

    model_config = ConfigDict(extra="forbid", strict=True)


class AnswerBody(Body):
    """To a gate."""

    answer: Annotated[
        Words, Field(min_length=1, description="yes, no, edit, or where open_ended is true any other words")
    ]
    text: Words = ""


class SayBody(Body):
    """To a session."""

    text: Annotated[Words, Field(min_length=1, description="the person's words, read after its next tool call")]
    now: Annotated[bool, Field(description="end its turn and start again with the words")] = False


class ReasonBody(Body):
    """Why."""

    reason: Why = ""


class NoteAlone(Body):
    """What the next session is to mind."""

    note: Note = ""


class Again(NoteAlone):
    """How it is tried again."""

    agent: Agent = ""
    model: Model = ""


class EditBody(Again):
    """What it is to do from now on."""

    brief: Annotated[Brief, Field(description="what it is to do now")] = ""


class InProject(Body):
    """For a token of every project: which one."""

    project: Name | None = None


class Ordered(InProject):
    """What every new work has."""

    id: Annotated[Name | None, Field(description="its name; else one is made of its first words")] = None
    agent: Agent = ""


class TaskOrder(Ordered):
    """A new task."""

    brief: Brief
    model: Model = ""
    landing: Annotated[Landing, Field(description="what becomes of green work; empty is as the settings say")] = ""
    checked: Annotated[bool, Field(description="whether the project's own tests are its check")] = True
    after: Names = []
    owns: Paths = []
    labels: Names = []
    priority: Annotated[int, Field(ge=-1000, le=1000)] = 0


class Owned(Body):
    """What a part may change."""

    type: Literal["exact", "prefix", "glob"]
    path: Annotated[Words, Field(min_length=1)]


class Part(Body):
    """One part of a batch."""

    id: Name
    brief: Brief
    file_ownership: Annotated[list[Owned], Field(min_length=1, max_length=200)]
    depends_on: Names = []
    agent: Agent = ""
    role: Words = ""
    labels: Names = []


class BatchOrder(InProject):
    """A new batch; the project's own tests judge the whole."""

    batch_id: Name
    fan_in_task: Name
    goal: Words = ""
    split_rationale: Words = ""
    agent: Agent = ""
    land: Literal["all", "in-order", "review", "branch"] | None = None
    sub_tasks: Annotated[list[Part], Field(min_length=2, max_length=100)]


class FlowOrder(Ordered):
    """A workflow to run, of those that handoff or the project has."""

    workflow: Name
    request: Brief


class ClaimBody(InProject):
    """A program that does the work itself takes a task: the next, or the one of that key."""

    agent: Agent = ""
    role: Words = ""
    labels: Names = []
    key: Number | None = None
    session: Annotated[
        str | None, Field(pattern=r"^session-[a-z0-9-]{8,60}$", description="of the same claim asked again")
    ] = None
    lease_seconds: Annotated[int, Field(ge=0, le=86_400, description="0 is as the settings say")] = 0


class HeldBody(Body):
    """Whose task it is: as the claim was answered."""

    session: Annotated[str, Field(pattern=r"^session-[a-z0-9-]{8,60}$")]
    fence: Number


class FinishBody(HeldBody):
    """How it ended: done is believed by its check alone."""

    outcome: Literal["done", "blocked", "released"]
    text: Annotated[Words, Field(description="what was done, or what is missing")] = ""


def schema_of(body: type[Body]) -> dict[str, Any]:
    """It as JSON Schema, whole in itself."""
    found = body.model_json_schema()
    models = found.pop("$defs", {})
    if models:
        models["Part"]["properties"]["file_ownership"]["items"] = models["Owned"]
        found["properties"]["sub_tasks"]["items"] = models["Part"]
    return found


def read_as(body: type[Body], said: Any) -> tuple[dict[str, Any], str]:
    """What was said of it, and why it cannot be understood, or nothing."""
    try:
        return body.model_validate(said).model_dump(exclude_unset=True), ""
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(one)[:80] for one in first["loc"]) or "the body"
        return {}, f"'{place}': {first['msg']}."
