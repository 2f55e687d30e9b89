"""The ring around every answer of the page: names, origins, sizes, cookies, and headers that let nothing foreign run."""

from __future__ import annotations

import traceback
from contextlib import suppress
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.routing import Mount, Route

from handoff.base.errors import HandoffError
from handoff.base.files import write_atomic
from handoff.base.record import TYPE_CHECKING
from handoff.engine.session.endpoints import GATES
from handoff.surfaces.api.routes import PREFIX
from handoff.surfaces.api.server import Api
from handoff.surfaces.http.gates import Answers
from handoff.surfaces.page.access import same
from handoff.surfaces.page.task_pages import GatePages

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from starlette.routing import BaseRoute

    from handoff.base.settings import Settings
    from handoff.surfaces.page.access import Access, Visitor


VISITOR, FORM = "handoff.visitor", "handoff.form"
"""Where a request keeps who asks, and the fields of a form that was sent."""
CSRF = "csrf"
MOST_BYTES = 256 * 1024
OPEN = ("/enter", "/static/", "/icon.svg")
"""What is answered to anybody who knows our name: nothing of the rows stands there."""
OWN_PROOF = (f"{PREFIX}/", GATES)
"""The beginnings of paths beside the pages: what answers there knows its callers itself, and no cookie is asked for."""
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class PageGuard:
    """Every request passes here first. `refuse` draws what a person sees who may not pass."""

    def __init__(
        self,
        inner: Any,
        *,
        access: Access,
        names: Sequence[str],
        refuse: Callable[[int, str, str], Any],
        log: str,
    ) -> None:
        self._log = log
        self._inner, self._access, self._refuse = inner, access, refuse
        self._names = frozenset(name.lower() for name in names)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request, or the server's own beginning and end."""
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        answer = await self._first_look(Request(scope), receive)
        shown = _with_headers(scope, send)
        try:
            await (answer or self._inner)(scope, receive, shown)
        except Exception as fault:  # noqa: BLE001 - a person sees what happened, and no line is drawn over a board
            self._note(fault)
            with suppress(RuntimeError):  # it had begun to answer
                refusal = self._refuse(
                    500, f"This page has a fault: {type(fault).__name__}.", f"It is kept in {self._log}"
                )
                await refusal(scope, receive, shown)

    def _note(self, fault: Exception) -> None:
        """Keep the last fault for whoever looks for it."""
        with suppress(HandoffError):
            write_atomic(self._log, "".join(traceback.format_exception(fault)), mode=0o600, sync=False)

    async def _first_look(self, request: Request, receive: Any) -> Any:
        """What is answered instead, if anything is wrong."""
        host, path = request.headers.get("host", ""), request.url.path
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        if name.lower() not in self._names:
            return self._refuse(
                421, "This page is not served under that name.", "Another name: handoff page --name HOST"
            )
        origin = request.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            return self._refuse(403, "Another page asked for this.", "Open it here yourself.")
        if path.startswith(OWN_PROOF):
            return None
        request.scope[VISITOR] = visitor = self._access.visitor(_cookies(request).get(self._access.cookie_name, ""))
        if request.method == "POST":
            return await self._form(request, receive, visitor)
        if visitor is None and not path.startswith(OPEN):
            return self._refuse(401, "You are not known here.", "A link that lets you in: handoff page")
        return None

    async def _form(self, request: Request, receive: Any, visitor: Visitor | None) -> Any:
        kind = request.headers.get("content-type", "").partition(";")[0].strip()
        if kind != "application/x-www-form-urlencoded":
            return self._refuse(415, "Only forms are taken here.", "Use the page, or: handoff --help")
        body = bytearray()
        more = True
        while more:
            piece = await receive()
            body += piece.get("body", b"")
            more = piece.get("more_body", False)
            if len(body) > MOST_BYTES or piece["type"] != "http.request":
                return self._refuse(413, f"At most {MOST_BYTES} bytes.", "Say it shorter.")
        try:
            fields = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=500, errors="strict")
        except ValueError:
            return self._refuse(400, "This is no form.", "Use the page.")
        request.scope[FORM] = fields
        if request.url.path.startswith(OPEN):
            return None
        if visitor is None:
            return self._refuse(401, "You are not known here.", "A link that lets you in: handoff page")
        if not same(visitor.csrf, dict(fields).get(CSRF, "")):
            return self._refuse(403, "This form is not from a page of yours.", "Reload the page and try again.")
        if not visitor.steers:
            return self._refuse(403, "Your link lets you look, not steer.", "A link that steers: handoff page")
        return None


def _cookies(request: Request) -> dict[str, str]:
    jar: SimpleCookie = SimpleCookie()
    try:
        jar.load(request.headers.get("cookie", ""))
    except CookieError:
        return {}
    return {name: one.value for name, one in jar.items()}


def _with_headers(scope: Any, send: Any) -> Any:
    """Every answer, also a refusal, says what a browser may do with it."""

    async def answer(message: Any) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            still = scope["path"].startswith(OPEN[1:])
            headers.setdefault("cache-control", "no-cache" if still else "no-store")
        await send(message)

    return answer


def routes_with_own_proof(settings: Settings) -> list[BaseRoute]:
    """What answers below `OWN_PROOF`: the API, and gates for whoever has the code of one."""
    answers = Answers(settings, GatePages())

    async def gate(request: Request) -> Any:
        return await answers.respond(request, request.receive)

    return [Mount(PREFIX, Api(settings)), Route(GATES, gate, methods=["GET", "POST"])]
