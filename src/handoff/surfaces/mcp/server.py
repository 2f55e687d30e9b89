"""The relay's tools for any client that speaks the Model Context Protocol; `handoff mcp` serves them over standard input."""

from __future__ import annotations

import inspect
from contextlib import contextmanager
from functools import wraps
from typing import Annotated, Any, Literal, get_type_hints

from mcp.server import MCPServer
from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.mcpserver import Context  # noqa: TC002 - the library reads annotations
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.resolve import Elicit, Resolve
from pydantic import BaseModel, Field, create_model

from handoff import __version__
from handoff.base.errors import HandoffError, UserError
from handoff.base.ids import on_one_line
from handoff.base.record import TYPE_CHECKING
from handoff.board.gates import OPEN, Gate, Waiting
from handoff.board.sessions import sessions
from handoff.board.tasks import tasks
from handoff.engine.app import App
from handoff.engine.app.home import find_project, person
from handoff.engine.features import prompts
from handoff.engine.session import endpoints, hooks
from handoff.engine.work import acts, tools
from handoff.engine.work.act import refuse_sessions
from handoff.engine.work.review import by_risk
from handoff.engine.work.tasks import admin
from handoff.surfaces.mcp import CALLER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from handoff.base.settings import Settings

TOOLS = (
    tools.task,
    tools.claim,
    tools.note,
    tools.finish,
    tools.block,
    tools.ask_human,
    tools.request_path,
    tools.status,
    tools.checks,
    tools.handoff,
    tools.open_batch,
)
_ADDED_BY_CLIENTS = ("wait_for_previous",)
"""Gemini CLI gives every tool this argument, for its own use, and sends it on."""
INSTRUCTIONS = "Call `task` first: it says what you hold and what you may change. Report with `finish` or `block`."


def build(settings: Settings) -> Any:
    """The server with its tools, the baton as a resource and the continue prompt."""

    class ToolServer(MCPServer):  # type: ignore[misc, unused-ignore]
        """The library passes over arguments that a tool does not have, so a task named in the wrong one was another task."""

        async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
            found = next((tool for tool in await super().list_tools() if tool.name == name), None)
            if found is not None and (
                why := unknown_arguments(name, arguments, list(found.input_schema["properties"]))
            ):
                raise ToolError(why)  # without `found` the library says that there is no such tool
            return await super().call_tool(name, arguments, context)

        async def list_tools(self) -> list[Any]:
            """A session that handoff started is not offered what only a person does."""
            started = CALLER.get(settings).get("HANDOFF_TOKEN")
            persons = (answer.__name__, say.__name__)
            return [tool for tool in await super().list_tools() if not started or tool.name not in persons]

    server: Any = ToolServer("handoff", version=__version__, instructions=INSTRUCTIONS, log_level="ERROR")
    for verb in TOOLS:
        server.tool(name=verb.__name__, description=verb.__doc__)(_bound(settings, verb))
    for persons in (answer, say):
        server.tool(description=persons.__doc__)(persons)
    server.resource("handoff://baton", name="baton", mime_type="text/markdown", description=tools.task.__doc__)(
        _bound(settings, tools.task)
    )
    server.prompt(name="continue", description="The prompt for the next session of the active feature.")(
        _bound(settings, _continue)
    )

    async def hear(context: Any, call_next: Any) -> Any:
        """Whatever is said first is the handshake: `initialize`, or any request of clients that need none."""
        CALLER.set(CALLER.get(settings))
        endpoints.call_in(CALLER.get())
        return await call_next(context)

    server.middleware.append(hear)
    return server


def unknown_arguments(name: str, arguments: dict[str, Any], known: list[str]) -> str:
    """What is wrong with the names of a call's arguments; nothing where all are known."""
    foreign = [word for word in arguments if word not in known and word not in _ADDED_BY_CLIENTS]
    if not foreign:
        return ""
    return f"`{name}` has no argument {', '.join(map(repr, foreign))}. It takes: {', '.join(known) or 'none'}. Nothing was done."


def serve(settings: Settings) -> None:
    """Speak until the client hangs up."""
    build(settings).run("stdio")


def _continue(app: App) -> str:
    if hooks.read_permissions(app) is not None:  # a session of ours goes on with its task
        return tools.task(app)
    return prompts.build(app, kind="continue", record=True, caller=("mcp", "")).text


@contextmanager
def _app_of(caller: Settings) -> Iterator[App]:
    """The relay in the caller's name, for one call; what it refuses is told as a tool's error."""
    app = App(caller)
    try:
        yield app
    except HandoffError as error:
        raise ToolError(f"{error.message} {error.hint}".strip()) from None
    finally:
        app.close()


def _bound(settings: Settings, verb: Callable[..., str]) -> Callable[..., str]:
    """The verb without its app: each call composes its own, because calls come on any thread."""

    @wraps(verb)
    def call(*given: Any, **named: Any) -> str:
        with _app_of(CALLER.get(settings)) as app:
            said = verb(app, *given, **named)
            return "\n\n".join([said, *app.notes])

    hints = get_type_hints(verb, localns={"App": App})
    signature = inspect.signature(verb)
    parameters = [
        parameter.replace(annotation=hints[parameter.name]) for parameter in list(signature.parameters.values())[1:]
    ]
    call.__signature__ = signature.replace(parameters=parameters, return_annotation=str)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters} | {"return": str}
    del call.__wrapped__
    return call


# --- the tools with which a person speaks in their own client: a form there, and nobody else's words

_WITHOUT_CHANNEL = "2026-07-28"
"""From this protocol on a question is part of the tool's result, so a server that keeps no connection can ask too."""


def waiting(name: str) -> tuple[Waiting | None, int]:
    """The question that is meant, or the first that waits in the project if one does, and how many more wait."""
    with _app_of(CALLER.get()) as app:
        refuse_sessions(app, "answers")
        found = [one.waiting for one in by_risk(app, admin.waiting(app, project=find_project(app).name))]
        if name:
            task, _ = acts.find_asking(app, name)
            gate = admin.gate_of(app, task)
            if gate.state != OPEN:
                raise UserError(f"'{task.label}' asks nothing any more: the question is {gate.state}.")
            return Waiting(gate, task.project, task.label), sum(one.gate.key != gate.key for one in found)
        return found[0] if found else None, max(0, len(found) - 1)


def form(gate: Gate) -> type[BaseModel]:
    """The fields a person fills in: one of the choices, or their own words; yes or no where handoff itself asks."""
    words: Any = (str, Field(default="", title="Your answer", description="In your own words"))
    if not gate.open_ended:
        why: Any = (str, Field(default="", title="Why", description="The next session reads it"))
        word: Any = (Literal["yes", "no"], Field(title="Your answer"))
        return create_model("Answer", answer=word, why=why)
    if not gate.offered:
        return create_model("Answer", words=(str, Field(title="Your answer", min_length=1)))
    choice: Any = (Literal[gate.offered] | None, Field(default=None, title="Your choice"))
    return create_model("Answer", choice=choice, words=words)


def question(
    context: Context, found: Annotated[tuple[Waiting | None, int], Resolve(waiting)]
) -> Elicit[BaseModel] | str:
    """What the person is asked; where their client cannot ask, the commands that answer."""
    one = found[0]
    if one is None:
        return "Nothing waits for the person's answer."
    gate, head = one.gate, f"{one.task} (question {one.gate.key} of project {one.project})"
    text = f"{head}: {gate.question}" + (f"\n\n{gate.subject}" if gate.subject else "")
    if _can_ask(context):
        return Elicit(text, form(gate))
    program = CALLER.get().program
    commands = "\n".join(f"  {program} {line}" for line in gate.commands(one.task))
    return (
        f"This client cannot ask the person. Show them the question; they answer in a terminal:\n{commands}\n\n{text}"
    )


def _can_ask(context: Context) -> bool:
    offered = context.client_capabilities.elicitation if context.client_capabilities else None
    if offered is None or (offered.form is None and offered.url is not None):
        return False
    return context.session.can_send_request or (context.protocol_version or "") >= _WITHOUT_CHANNEL


def answer(
    found: Annotated[tuple[Waiting | None, int], Resolve(waiting)],
    said: Annotated[ElicitationResult[Any], Resolve(question)],
    name: str = "",
) -> str:
    """Let the person answer what waits for them: they see the question in this client and answer it there. You cannot answer for them. `name` is the task that asks; without it the first that waits."""
    del name
    given, (one, more) = said.data if isinstance(said, AcceptedElicitation) else None, found
    if isinstance(given, str):
        return given
    filled = given.model_dump() if given is not None else {}
    word = filled.get("words", "").strip() or filled.get("choice") or filled.get("answer")
    if one is None or not word:
        return "The person did not answer. The question goes on waiting."
    with _app_of(CALLER.get()) as app:
        done = acts.answer_code(app, one.gate.code, word, text=filled.get("why", ""), by=person(app))
        rest = f"{more} more wait: call `answer` again." if more else ""
        said_so = f"The person said: {on_one_line(word)}"
        return "\n".join(filter(None, (said_so, done.text, done.hint, *app.notes, rest)))


# --- a word to a session ---------------------------------------------------------------------------------------------


def at_work(name: str) -> dict[str, str]:
    """The sessions of agents that work in the project, or the one that is meant, each with what it works on."""
    with _app_of(CALLER.get()) as app:
        refuse_sessions(app, "says something to a session")
        running = [
            one for one in sessions.at_work(app.database, project=find_project(app).name) if one.kind == sessions.AGENT
        ]
        labels = [tasks.get(app.database, key=one.task).label if one.task is not None else one.id for one in running]
        named = [(label, one) for label, one in zip(labels, running, strict=True) if name in ("", one.id, label)]
        return {f"{label} ({one.agent})": one.id for label, one in named}


def words_for(context: Context, running: Annotated[dict[str, str], Resolve(at_work)]) -> Elicit[BaseModel] | str:
    """What the person fills in: to whom, where several work, and what."""
    if not running:
        return "No agent works in this project now, or none under that name."
    if not _can_ask(context):
        lines = "\n".join(f"  {CALLER.get().program} session say {one} TEXT" for one in running.values())
        return f"This client cannot ask the person. They say it in a terminal:\n{lines}"
    to: Any = (Literal[tuple(running)], Field(title="To"))
    words: Any = (str, Field(title="Your words", min_length=1, description="It reads them after its next tool call"))
    fields = {"to": to} if len(running) > 1 else {}
    return Elicit(f"What shall {' or '.join(running)} hear?", create_model("Words", **fields, words=words))


def say(
    running: Annotated[dict[str, str], Resolve(at_work)],
    said: Annotated[ElicitationResult[Any], Resolve(words_for)],
    name: str = "",
) -> str:
    """Let the person say something to an agent while it works: they write it in a form of this client. You cannot speak for them. `name` is its task or session; without it they choose."""
    del name
    given = said.data if isinstance(said, AcceptedElicitation) else None
    if isinstance(given, str):
        return given
    filled = given.model_dump() if given is not None else {}
    to, words = running.get(filled.get("to") or next(iter(running), "")), filled.get("words", "").strip()
    if not to or not words:
        return "The person said nothing."
    with _app_of(CALLER.get()) as app:
        done = acts.say(app, to, words)
        return "\n".join(filter(None, (f"The person said: {on_one_line(words)}", done.text, done.hint, *app.notes)))
