"""What the API hears, as models: the document is made of them, and every request is held against them.

None of them has a place for a command to run: what comes by network names workflows and the project's own tests alone.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

_KEY = 1 << 53
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


def read(body: type[Body], said: Any) -> tuple[dict[str, Any], str]:
    """What was said of it, and why it cannot be understood, or nothing."""
    try:
        return body.model_validate(said).model_dump(exclude_unset=True), ""
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(one)[:80] for one in first["loc"]) or "the body"
        return {}, f"'{place}': {first['msg']}."
