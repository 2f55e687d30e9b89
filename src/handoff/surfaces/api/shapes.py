"""What the API says and hears, as JSON Schema: the document is made of it, and every request is held against it."""

from __future__ import annotations

import re

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
