"""The relay's tools for any client that speaks the Model Context Protocol; `handoff mcp` serves them over standard input."""

from __future__ import annotations

from contextvars import ContextVar
from functools import wraps

from handoff import __version__
from handoff.base.errors import HandoffError, MissingPackage
from handoff.base.record import TYPE_CHECKING
from handoff.engine.app import App
from handoff.engine.clients import tools
from handoff.engine.features import prompts
from handoff.engine.sessions import endpoints, hooks

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
CALLER: ContextVar[Settings] = ContextVar("caller")
"""Who speaks at the moment, where one server answers many; otherwise it is whoever started the server."""
INSTRUCTIONS = "Call `task` first: it says what you hold and what you may change. Report with `finish` or `block`."


def need() -> None:
    """The library, or an error that says how to get it."""
    try:
        import mcp.server  # noqa: F401 - a second of importing
    except ImportError:
        raise MissingPackage("The MCP server needs the package 'mcp'.") from None


def build(settings: Settings) -> Any:
    """The server with its tools, the baton as a resource and the continue prompt."""
    need()
    from mcp.server import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError

    class ToolServer(MCPServer):  # type: ignore[misc, unused-ignore]
        """The library passes over arguments that a tool does not have, so a task named in the wrong one was another task."""

        async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
            if why := unknown_arguments(name, arguments):
                raise ToolError(why)
            return await super().call_tool(name, arguments, context)

    server: Any = ToolServer("handoff", version=__version__, instructions=INSTRUCTIONS, log_level="ERROR")
    for verb in TOOLS:
        server.tool(name=verb.__name__, description=verb.__doc__)(_bound(settings, verb))
    server.resource("handoff://baton", name="baton", mime_type="text/markdown", description=tools.task.__doc__)(
        _bound(settings, tools.task)
    )
    server.prompt(name="continue", description="The prompt for the next session of the active feature.")(
        _bound(settings, _continue)
    )

    async def hear(context: Any, call_next: Any) -> Any:
        """Whatever is said first is the handshake: `initialize`, or any request of clients that need none."""
        endpoints.call_in(CALLER.get(settings))
        return await call_next(context)

    server.middleware.append(hear)
    return server


def unknown_arguments(name: str, arguments: dict[str, Any]) -> str:
    """What is wrong with the names of a call's arguments; nothing where all are known."""
    verb = next((one for one in TOOLS if one.__name__ == name), None)
    if verb is None:
        return ""  # the library says that there is no such tool
    known = verb.__code__.co_varnames[1 : verb.__code__.co_argcount]
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
