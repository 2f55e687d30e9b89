"""The page as one application: the guard around it, its routes, its buttons, and where it is served."""

from __future__ import annotations

import os
import secrets
from collections import OrderedDict
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from handoff.base.errors import HandoffError, UserError
from handoff.base.record import TYPE_CHECKING
from handoff.engine.acts import Act
from handoff.engine.app import App
from handoff.surfaces.acting import ActResult, on_thread, perform_apart
from handoff.surfaces.page import mounts
from handoff.surfaces.page.access import COOKIE_SECONDS, Access, LinkRefused
from handoff.surfaces.page.contents import KEYS, NAV, PAGES, Asked
from handoff.surfaces.page.drawing import HERE, draw
from handoff.surfaces.page.guard import FORM, VISITOR, PageGuard
from handoff.surfaces.page.live import FRAGMENTS, MOST_VIEWERS, LivePage, fragment

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from typing import Any

    from starlette.requests import Request

    from handoff.base.clock import Clock
    from handoff.base.settings import Settings
    from handoff.surfaces.http.places import Listener
    from handoff.surfaces.page.access import Visitor
    from handoff.surfaces.page.contents import SitePage


class PageSite:
    """Everything behind the guard."""

    def __init__(self, settings: Settings, *, project: str, secure: bool, clock: Clock | None = None) -> None:
        self.settings, self.project, self.secure, self.clock = settings, project, secure, clock
        self.access = Access(App(settings, clock), project=project)
        self.live = LivePage(lambda: App(settings, clock), project=project)
        self.acts = Acts(settings, project=project)

    def routes(self) -> list[Any]:
        return [
            Route("/", self.now),
            Route("/events", self.events),
            *(Route(page.path, self.shown(page)) for page in PAGES),
            Route("/act", self.acts.respond, methods=["POST"]),
            Route("/enter", self.enter_form),
            Route("/enter", self.enter, methods=["POST"]),
            Route("/leave", self.leave, methods=["POST"]),
            Route("/icon.svg", self.icon),
            Mount("/static", StaticFiles(directory=os.path.join(HERE, "static"))),
            *mounts.routes(self.settings),
        ]

    # --- who comes in ------------------------------------------------------------------------------------------

    async def enter_form(self, request: Request) -> Response:
        """A link that is only looked at, by a program that shows previews, stays good: it is used by a button."""
        return HTMLResponse(draw("enter.html", word=request.query_params.get("link", ""), to=_local(request)))

    async def enter(self, request: Request) -> Response:
        form = dict(request.scope[FORM])
        try:
            value = await run_in_threadpool(self.access.enter, form.get("link", ""))
        except LinkRefused as error:
            return self.refuse(429 if error.slow else 403, error.message, error.hint)
        to = form.get("to", "/")
        answer = RedirectResponse(to if _is_local(to) else "/", 303)
        answer.set_cookie(
            self.access.cookie_name,
            value,
            max_age=COOKIE_SECONDS,
            httponly=True,
            samesite="lax",
            secure=self.secure,
            path="/",
        )
        return answer

    async def leave(self, request: Request) -> Response:
        del request
        answer = self.refuse(200, "You have left.", "A link that lets you in again: handoff page")
        answer.delete_cookie(self.access.cookie_name, path="/")
        return answer

    def refuse(self, status: int, message: str, hint: str) -> Response:
        """What a person sees who may not pass."""
        return HTMLResponse(draw("refused.html", message=message, hint=hint), status)

    # --- pages -------------------------------------------------------------------------------------------------

    async def now(self, request: Request) -> Response:
        view = await self.live.fresh()
        visitor: Visitor = request.scope[VISITOR]
        parts = {name: fragment(name, view, visitor.rights, visitor.csrf) for name in FRAGMENTS}
        return self.page(request, "now.html", title="Now", drawn=parts, of="now", view=view)

    def shown(self, page: SitePage) -> Callable[[Request], Awaitable[Response]]:
        """What answers for one kind of page."""

        async def answer(request: Request) -> Response:
            asked = Asked(self.project, dict(request.path_params), dict(request.query_params))
            found = await self.read(lambda app: page.read(app, asked))
            title = getattr(found, "address", page.title)
            await self.live.fresh()
            return self.page(request, page.template, title=title, found=found, of="page")

        return answer

    async def events(self, request: Request) -> Response:
        """The stream of a page that is open."""
        if self.live.viewers >= MOST_VIEWERS:
            return Response("Too many look on.\n", 503)
        visitor: Visitor = request.scope[VISITOR]
        since = request.headers.get("last-event-id") or request.query_params.get("since", "")
        return StreamingResponse(
            self.live.events(request.query_params.get("of", ""), visitor.rights, since), media_type="text/event-stream"
        )

    async def icon(self, request: Request) -> Response:
        """The mark of the tab, with how many things wait."""
        count = request.query_params.get("n", "")
        count = count if count.isdigit() and len(count) < 4 else ""  # noqa: PLR2004 - what fits
        return Response(draw("icon.svg", count="" if count == "0" else count), media_type="image/svg+xml")

    def page(self, request: Request, template: str, **values: Any) -> Response:
        """A whole page: what every one has, and its own values."""
        visitor: Visitor = request.scope[VISITOR]
        view = self.live.view
        return HTMLResponse(
            draw(
                template,
                nav=NAV,
                shown_keys=KEYS,
                path=request.url.path,
                at=self.live.at,
                csrf=visitor.csrf,
                steers=visitor.steers,
                project=self.project,
                program=self.settings.program,
                waiting=view.totals["needs you"] if view else 0,
                results=as_values(self.acts.result(request.query_params.get("result", ""))),
                **{"of": "", **values},
            )
        )

    async def read(self, reading: Callable[[App], Any]) -> Any:
        """Read rows in a thread of its own; a database belongs to the thread that opened it."""

        def with_app() -> Any:
            app = App(self.settings, self.clock)
            try:
                return reading(app)
            finally:
                app.close()

        return await run_in_threadpool(with_app)

    async def on_error(self, request: Request, error: Exception) -> Response:
        """Our own errors in our own words."""
        del request
        assert isinstance(error, HandoffError)  # noqa: S101 - what it is asked for
        return self.refuse(404, error.message, error.hint)

    async def not_found(self, request: Request, error: Exception) -> Response:
        del error
        return self.refuse(404, f"There is no page {request.url.path}.", "Begin at the first: /")


def _is_local(path: str) -> bool:
    return path.startswith("/") and not path.startswith(("//", "/\\"))


def _local(request: Request) -> str:
    to = request.query_params.get("to", "/")
    return to if _is_local(to) else "/"


def page_app(settings: Settings, listener: Listener, *, project: str = "", clock: Clock | None = None) -> Any:
    """The page of a project, or of all, as it is served at this place; pictures of it have a clock that stands still."""
    place = listener.place
    site = PageSite(
        settings._replace(folder=settings.here),
        project=project,
        secure=bool(place.certificate),
        clock=clock,
    )

    @asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        del app
        yield
        site.live.close()

    log = os.path.join(settings.home, "pages", "fault.txt")
    inner = Starlette(
        routes=site.routes(), lifespan=life, exception_handlers={HandoffError: site.on_error, 404: site.not_found}
    )
    return PageGuard(inner, access=site.access, names=place.every_name, refuse=site.refuse, log=log)


# --- buttons -----------------------------------------------------------------------------------------------------


_KEPT = 100
_LONGEST = 4000


ACTS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "yes": ("answer", ("yes",), "reason"),
    "no": ("answer", ("no",), "reason"),
    "edit": ("answer", ("edit",), "text"),
    "say": ("answer", (), ""),
    "retry": ("retry", (), ""),
    "cancel": ("cancel", (), "reason"),
    "pause": ("pause", (), ""),
    "resume": ("resume", (), ""),
    "agent": ("agent retry", (), ""),
    "seen": ("incident seen", (), ""),
}
"""Each button: its act, the words after the address, and the option that takes the text of the form."""
COMMENT, AGAIN = "comment", "again"
NEEDS_TEXT = {
    COMMENT: "Say what the next session is to mind.",
    "no": "Say why: the next session reads it.",
    "edit": "The text is empty: nothing was answered.",
    "say": "The answer is empty: nothing was answered.",
}
HURTS = ("cancel",)
"""What asks once more: its form has a box to tick."""


class Acts:
    """Runs what buttons ask for, and remembers for a while what came of it."""

    def __init__(self, settings: Settings, *, project: str) -> None:
        self._settings, self._project = settings, project
        self._results: OrderedDict[str, list[ActResult]] = OrderedDict()

    def result(self, name: str) -> list[ActResult]:
        return self._results.get(name, [])

    async def respond(self, request: Request) -> Response:
        """Do it; a script is told at once, a browser without one is sent back to where it was."""
        fields: list[tuple[str, str]] = request.scope[FORM]
        form = dict(fields)
        addresses = [value for name, value in fields if name == "of"]
        try:
            asked = [self._act(form, address) for address in addresses]
            results = [await on_thread(perform_apart, self._settings, act) for act in asked]
        except UserError as error:
            results = [ActResult("", 2, error.message)]
        if request.headers.get("accept", "").startswith("application/json"):
            said = [{"command": one.command, "code": one.code, "text": _short(one)} for one in results]
            return JSONResponse({"results": said})
        name = secrets.token_urlsafe(8)
        self._results[name] = results
        while len(self._results) > _KEPT:
            self._results.popitem(last=False)
        back = form.get("back", "/")
        back = back.partition("?")[0] if back.startswith("/") and not back.startswith(("//", "/\\")) else "/"
        return RedirectResponse(f"{back}?result={name}", 303)

    def _act(self, form: dict[str, str], address: str) -> Act:
        act, text = form.get("act", ""), form.get("text", "").replace("\r\n", "\n").strip()
        project, _, name = address.partition("/")
        if (
            act not in (*ACTS, COMMENT, AGAIN)
            or not name
            or name.startswith("-")
            or (self._project and project not in ("", self._project))
        ):
            raise UserError("This page knows no such button.")
        if act in NEEDS_TEXT and not text:
            raise UserError(NEEDS_TEXT[act])
        if act in HURTS and form.get("sure") != "yes":
            raise UserError("Tick the box if you mean it: nothing was changed.")
        if act == COMMENT:
            return Act("task comment", (name, form.get("place", ""), text), {"quote": form.get("quote", "")}, project)
        if act == AGAIN:
            given = {name: form.get(name, "").strip() for name in ("agent", "model")} | {"note": text}
            return Act("retry", (name,), {name: value for name, value in given.items() if value}, project)
        verb, words, option = ACTS[act]
        words = (text,) if act == "say" else words
        return Act(verb, (name, *words), {option: text} if option and text else {}, project)


def _short(one: ActResult) -> str:
    return one.text.strip()[:_LONGEST] or "Done."


def as_values(results: list[ActResult]) -> list[dict[str, Any]]:
    """For a template."""
    return [{"command": one.command, "good": one.code == 0, "text": _short(one)} for one in results]
