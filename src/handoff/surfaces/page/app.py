"""The page as one application: the guard around it, its routes, its buttons, and where it is served."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from handoff.base.errors import HandoffError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.engine.app import App
from handoff.engine.workspaces import projects
from handoff.surfaces.page import mounts
from handoff.surfaces.page.access import COOKIE_SECONDS, Access, LinkRefused
from handoff.surfaces.page.buttons import Acts, as_values, offers
from handoff.surfaces.page.contents import KEYS, NAV, PAGES, PageQuery
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


ALL = "*"
"""Every project, as an address says it."""


class Chosen(Record):
    """Whose lists a visitor looks at, and what they may choose from."""

    scope: str
    """The project; empty for all."""
    limit: str
    """The project they are bound to; empty for a visitor who may see all."""
    projects: tuple[str, ...] = ()


class PageSite:
    """Everything behind the guard."""

    def __init__(self, settings: Settings, *, project: str, secure: bool, clock: Clock | None = None) -> None:
        self.settings, self.project, self.secure, self.clock = settings, project, secure, clock
        self.access = Access(App(settings, clock), project=project)
        self.lives: dict[str, LivePage] = {}
        self.acts = Acts(settings)

    def routes(self) -> list[Any]:
        return [
            Route("/", self.now),
            Route("/events", self.events),
            *(Route(page.path, self.shown(page)) for page in PAGES),
            Route("/act", self.act, methods=["POST"]),
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
        return self._with_cookie(answer, self.access.cookie_name, value)

    def _with_cookie(self, answer: Response, name: str, value: str) -> Response:
        answer.set_cookie(
            name, value, max_age=COOKIE_SECONDS, httponly=True, samesite="lax", secure=self.secure, path="/"
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

    # --- which project -----------------------------------------------------------------------------------------

    async def chosen(self, request: Request) -> Chosen:
        """The project of the address, else of the last choice of this browser, else of the page."""
        visitor: Visitor = request.scope[VISITOR]
        if self.project and not visitor.everywhere:
            return Chosen(self.project, self.project)
        known = await self.read(lambda app: [one.name for one in projects.listing(app) if one.tasks or one.folders])
        names = tuple(sorted({*known, self.project} - {""}))
        asked = request.query_params.get("project") or request.cookies.get(self.choice, "")
        return Chosen("" if asked == ALL else asked if asked in names else self.project, "", names)

    @property
    def choice(self) -> str:
        """The cookie that keeps it: of this page, and worth nothing to anybody."""
        return f"{self.access.cookie_name}-project"

    def live(self, scope: str) -> LivePage:
        """What follows the rows of a project, or of all."""
        if scope not in self.lives:
            self.lives[scope] = LivePage(lambda: App(self.settings, self.clock), project=scope)
        return self.lives[scope]

    # --- pages -------------------------------------------------------------------------------------------------

    async def now(self, request: Request) -> Response:
        chosen = await self.chosen(request)
        view = await self.live(chosen.scope).fresh()
        visitor: Visitor = request.scope[VISITOR]
        parts = {name: fragment(name, view, visitor.rights, visitor.csrf) for name in FRAGMENTS}
        offer = await self.read(lambda app: offers(app, chosen.scope)) if visitor.steers else None
        return self.page(request, chosen, "now.html", title="Now", drawn=parts, of="now", view=view, offer=offer)

    def shown(self, page: SitePage) -> Callable[[Request], Awaitable[Response]]:
        """What answers for one kind of page."""

        async def answer(request: Request) -> Response:
            chosen = await self.chosen(request)
            asked = PageQuery(chosen.limit, chosen.scope, dict(request.path_params), dict(request.query_params))
            found = await self.read(lambda app: page.read(app, asked))
            title = getattr(found, "address", page.title)
            await self.live(chosen.scope).fresh()
            return self.page(request, chosen, page.template, title=title, found=found, of="page")

        return answer

    async def events(self, request: Request) -> Response:
        """The stream of a page that is open."""
        if sum(one.viewers for one in self.lives.values()) >= MOST_VIEWERS:
            return Response("Too many look on.\n", 503)
        visitor: Visitor = request.scope[VISITOR]
        live = self.live((await self.chosen(request)).scope)
        since = request.headers.get("last-event-id") or request.query_params.get("since", "")
        return StreamingResponse(
            live.events(request.query_params.get("of", ""), visitor.rights, since), media_type="text/event-stream"
        )

    async def icon(self, request: Request) -> Response:
        """The mark of the tab, with how many things wait."""
        count = request.query_params.get("n", "")
        count = count if count.isdigit() and len(count) < 4 else ""  # noqa: PLR2004 - what fits
        return Response(draw("icon.svg", count="" if count == "0" else count), media_type="image/svg+xml")

    async def act(self, request: Request) -> Response:
        """Do what a button asks for."""
        chosen = await self.chosen(request)
        allowed = (chosen.limit,) if chosen.limit else chosen.projects
        return await self.acts.respond(request, allowed, limited=bool(chosen.limit))

    def page(self, request: Request, chosen: Chosen, template: str, **values: Any) -> Response:
        """A whole page: what every one has, and its own values."""
        visitor: Visitor = request.scope[VISITOR]
        live = self.live(chosen.scope)
        view = live.view
        answer = HTMLResponse(
            draw(
                template,
                nav=NAV,
                shown_keys=KEYS,
                path=request.url.path,
                at=live.at,
                csrf=visitor.csrf,
                steers=visitor.steers,
                project=chosen.scope,
                projects=chosen.projects,
                program=self.settings.program,
                waiting=view.totals["needs you"] if view else 0,
                results=as_values(self.acts.result(request.query_params.get("result", ""))),
                **{"of": "", **values},
            )
        )
        if chosen.projects and "project" in request.query_params:
            return self._with_cookie(answer, self.choice, chosen.scope or ALL)
        return answer

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
        for live in site.lives.values():
            live.close()

    log = os.path.join(settings.home, "pages", "fault.txt")
    inner = Starlette(
        routes=site.routes(), lifespan=life, exception_handlers={HandoffError: site.on_error, 404: site.not_found}
    )
    return PageGuard(inner, access=site.access, names=place.every_name, refuse=site.refuse, log=log)
