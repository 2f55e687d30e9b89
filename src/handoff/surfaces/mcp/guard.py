"""The guard before the relay's tools over HTTP: it knows names and tokens, and nothing of the protocol behind it."""

from __future__ import annotations

import os
from contextlib import suppress

from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from handoff.base.errors import Refused
from handoff.base.record import TYPE_CHECKING
from handoff.engine.app import App
from handoff.engine.session import endpoints
from handoff.surfaces.api.routes import PREFIX
from handoff.surfaces.api.server import Api
from handoff.surfaces.http import gates
from handoff.surfaces.http.gates import TOO_LARGE, Gone, read_body
from handoff.surfaces.mcp import CALLER
from handoff.surfaces.page.task_pages import GatePages

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from handoff.base.settings import Settings

MOST_BYTES = 1024 * 1024
FOLDER = "handoff-folder"
"""The header with which a person's client says in which checkout it works; a session's is known."""


class Guard:
    """Before anything is read of a request: its Host and Origin against rebinding, then whose token it carries."""

    def __init__(self, inner: Any, settings: Settings, names: TransportSecuritySettings) -> None:
        self.inner, self.settings = inner, settings
        self.names = TransportSecurityMiddleware(names)
        self.answers = gates.Answers(settings, GatePages())
        self.api = Api(settings)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request, or the server's own beginning and end."""
        if scope["type"] != "http":
            await self.inner(scope, receive, send)
            return
        with suppress(Gone):
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope)
        caller, body = None, b""
        refusal: Any = await self.names.validate_request(request)
        if refusal is None and request.url.path.startswith(f"{PREFIX}/"):  # it knows its callers itself
            refusal = self.api
        elif refusal is None and request.url.path == endpoints.GATES:  # its code is the proof: no token is asked for
            refusal = await self.answers.respond(request, receive)
        if refusal is None:
            caller, refusal = await self._known(request)
        if refusal is None:
            body, refusal = await _read(receive)
        if refusal is not None or caller is None:
            await refusal(scope, receive, send)
            return
        was = CALLER.set(caller)
        try:
            await self.inner(scope, _Again(body, receive), send)
        finally:
            CALLER.reset(was)

    async def _known(self, request: Request) -> tuple[Settings | None, Any]:
        """Whose token a request carries, or what is answered instead."""
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        caller, there = None, True
        try:
            if kind.lower() == "bearer":
                caller, there = await run_in_threadpool(self._who, token.strip(), request.headers.get(FOLDER, ""))
        except Refused as error:
            return None, PlainTextResponse(f"{error.message} {error.hint}\n", 403)
        if caller is None:
            words = "A token of this relay is needed: handoff mcp token\n"
            return None, PlainTextResponse(words, 401, {"www-authenticate": "Bearer"})
        if not there:
            return None, PlainTextResponse(f"There is no folder {caller.here} here.\n", 400)
        if request.method != "POST":  # every request stands for itself: there is no stream to listen to or to end
            return None, PlainTextResponse("Only POST.\n", 405, {"allow": "POST"})
        return caller, None

    def _who(self, token: str, folder: str) -> tuple[Settings | None, bool]:
        """The caller, and whether its folder is there."""
        app = App(self.settings)
        try:
            caller = endpoints.identify(app, token=token, folder=folder)
            return caller, caller is not None and os.path.isdir(caller.here)
        finally:
            app.close()


class _Again:
    """A request's body that was read, once more for whoever is behind us; after it whatever comes."""

    def __init__(self, body: bytes, receive: Any) -> None:
        self.body: bytes | None = body
        self.receive = receive

    async def __call__(self) -> Any:
        if self.body is None:
            return await self.receive()
        body, self.body = self.body, None
        return {"type": "http.request", "body": body, "more_body": False}


async def _read(receive: Any, *, most: int = MOST_BYTES) -> tuple[bytes, Any]:
    """A request's whole body, or what is answered instead."""
    status, body = await read_body(receive, most=most)
    if not status:
        return body, None
    return b"", PlainTextResponse(f"At most {most} bytes.\n" if status == TOO_LARGE else "Nested too deep.\n", status)


def security(names: Sequence[str]) -> TransportSecuritySettings:
    """Under these names it may be called, and from pages of theirs."""
    allowed = [form for name in dict.fromkeys(names) for form in (name, f"{name}:*")]
    origins = [f"{scheme}://{name}" for scheme in ("http", "https") for name in allowed]
    return TransportSecuritySettings(allowed_hosts=allowed, allowed_origins=origins)
