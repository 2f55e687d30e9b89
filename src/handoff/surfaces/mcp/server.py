"""The relay's tools for any client that speaks the Model Context Protocol; `handoff mcp` serves them over standard input."""

from __future__ import annotations

from functools import wraps

from handoff import __version__
from handoff.base.errors import HandoffError
from handoff.base.errors import need as need_package
from handoff.base.record import TYPE_CHECKING
from handoff.engine.app import App
from handoff.engine.features import prompts
from handoff.engine.session import endpoints, hooks
from handoff.engine.work import tools
from handoff.surfaces.mcp import CALLER

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

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


def need() -> None:
    """The library, or an error that says how to get it."""
    need_package("mcp", "The MCP server")


def build(settings: Settings) -> Any:
    """The server with its tools, the baton as a resource and the continue prompt."""
    need()
    from mcp.server import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError

    from handoff.surfaces.mcp.asking import answer, say

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


def _bound(settings: Settings, verb: Callable[..., str]) -> Callable[..., str]:
    """The verb without its app: each call composes its own, because calls come on any thread."""
    import inspect
    from typing import get_type_hints

    from mcp.server.mcpserver.exceptions import ToolError

    @wraps(verb)
    def call(*given: Any, **named: Any) -> str:
        app = App(CALLER.get(settings))
        try:
            said = verb(app, *given, **named)
            return "\n\n".join([said, *app.notes])
        except HandoffError as error:
            raise ToolError(f"{error.message} {error.hint}".strip()) from None
        finally:
            app.close()

    hints = get_type_hints(verb, localns={"App": App})
    signature = inspect.signature(verb)
    parameters = [
        parameter.replace(annotation=hints[parameter.name]) for parameter in list(signature.parameters.values())[1:]
    ]
    call.__signature__ = signature.replace(parameters=parameters, return_annotation=str)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters} | {"return": str}
    del call.__wrapped__
    return call
