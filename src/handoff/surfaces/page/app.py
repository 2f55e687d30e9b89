"""The page as one application: the pages there are, its buttons, its routes and the guard around it."""

from __future__ import annotations

import os
import secrets
from collections import OrderedDict
from contextlib import asynccontextmanager, closing

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from handoff.base.errors import HandoffError, UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.tasks.tasks import LANDINGS
from handoff.engine.app import App
from handoff.engine.outcome import whole_check
from handoff.engine.session import agents
from handoff.engine.work.act import Act
from handoff.engine.work.tasks import projects
from handoff.surfaces.acting import ActResult, on_thread, perform_apart
from handoff.surfaces.page.access import COOKIE_SECONDS, Access, LinkRefused
from handoff.surfaces.page.drawing import HERE, draw
from handoff.surfaces.page.guard import FORM, VISITOR, PageGuard, routes_with_own_proof
from handoff.surfaces.page.live import FRAGMENTS, MOST_VIEWERS, LivePage, fragment
from handoff.surfaces.page.past_pages import read_figures, read_journal, read_timeline
from handoff.surfaces.page.task_pages import read_diff, read_session, read_task
from handoff.surfaces.page.work_pages import list_batches, list_flows, read_batch, read_board, read_feature, read_flow

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
    from typing import Any

    from starlette.requests import Request

    from handoff.base.clock import Clock
    from handoff.base.settings import Settings
    from handoff.surfaces.http.places import Listener
    from handoff.surfaces.page.access import Visitor


NAV = (
    ("/", "Now"),
    ("/board", "Board"),
    ("/journal", "Journal"),
    ("/batches", "Batches"),
    ("/flows", "Flows"),
    ("/timeline", "Timeline"),
    ("/feature", "Feature"),
    ("/agents", "Agents"),
)

KEYS = (
    ("j k", "the next card or line, the one before"),
    ("g G", "the first, the last"),
    ("⏎", "open what is chosen"),
    ("n", "the next that needs you"),
    ("a", "answer what is chosen"),
    ("r", "let it try again"),
    ("t", "take a task over"),
    ("A", "add a task"),
    ("d", "what it has changed"),
    ("c", "copy its command"),
    ("/", "filter or search; esc shows all again"),
    ("+ - ← →", "on the timeline: closer, farther, earlier, later"),
    ("L", "the journal"),
    ("1 … 9", "the pages, in their order above"),
    ("?", "these keys"),
)
"""The keys of the board that a page has too; static/keys.js does what they say."""


class PageQuery(Record):
    """What a request asks for: of which project, by which words of its path and its query."""

    limit: str
    """The project whose things alone may be seen; empty for all."""
    scope: str
    """The project whose lists are shown; empty for all."""
    path: Mapping[str, str]
    query: Mapping[str, str]

    @property
    def project(self) -> str:
        """The project an address names, if this page shows it."""
        named = self.path.get("project", self.scope)
        if self.limit and named != self.limit:
            raise UserError(f"This page is of the project '{self.limit}'.", f"handoff page --project {named}")
        return named

    def word(self, name: str) -> str:
        return self.query.get(name, "")[:200]


class SitePage(Record):
    """One kind of page."""

    path: str
    template: str
    title: str
    read: Callable[[App, PageQuery], Any]


PAGES = (
    SitePage(
        "/board",
        "board.html",
        "Board",
        lambda app, asked: read_board(
            app, project=asked.scope, words=asked.word("q"), state=asked.word("state"), span=asked.word("span")
        ),
    ),
    SitePage(
        "/task/{project}/{label:path}",
        "task.html",
        "Task",
        lambda app, asked: read_task(app, project=asked.project, label=asked.path["label"]),
    ),
    SitePage(
        "/diff/{project}/{label:path}",
        "diff.html",
        "Diff",
        lambda app, asked: read_diff(
            app, project=asked.project, label=asked.path["label"], at=asked.word("at"), view=asked.word("view")
        ),
    ),
    SitePage(
        "/session/{project}/{id}",
        "session.html",
        "Session",
        lambda app, asked: read_session(app, project=asked.project, id=asked.path["id"]),
    ),
    SitePage("/batches", "batches.html", "Batches", lambda app, asked: list_batches(app, project=asked.scope)),
    SitePage(
        "/batch/{project}/{name}",
        "batch.html",
        "Batch",
        lambda app, asked: read_batch(app, project=asked.project, name=asked.path["name"]),
    ),
    SitePage("/flows", "flows.html", "Flows", lambda app, asked: list_flows(app, project=asked.scope)),
    SitePage(
        "/flow/{project}/{name}",
        "flow.html",
        "Flow",
        lambda app, asked: read_flow(app, project=asked.project, name=asked.path["name"]),
    ),
    SitePage(
        "/timeline",
        "timeline.html",
        "Timeline",
        lambda app, asked: read_timeline(app, project=asked.scope, span=asked.word("span"), to=asked.word("to")),
    ),
    SitePage("/agents", "agents.html", "Agents", lambda app, asked: read_figures(app, project=asked.scope)),
    *(
        SitePage(path, "feature.html", "Feature", lambda app, asked: read_feature(app, name=asked.path.get("name", "")))
        for path in ("/feature", "/feature/{name}")
    ),
    SitePage(
        "/journal",
        "journal.html",
        "Journal",
        lambda app, asked: read_journal(app, project=asked.scope, words=asked.word("q"), before=asked.word("before")),
    ),
)


# Buttons: each is an act of the engine, with the words of its form; what came of it is shown with the command that does the same.

_KEPT = 100
_LONGEST = 4000


ACTS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "yes": ("answer", ("yes",), "reason"),
    "no": ("answer", ("no",), "reason"),
    "edit": ("answer", ("edit",), "text"),
    "say": ("answer", (), ""),
    "retry": ("retry", (), ""),
    "again": ("retry", (), "note"),
    "cancel": ("cancel", (), "reason"),
    "pause": ("pause", (), ""),
    "resume": ("resume", (), ""),
    "agent": ("agent retry", (), ""),
    "seen": ("incident seen", (), ""),
    "comment": ("task comment", (), ""),
    "tell": ("session say", (), ""),
    "stop": ("session stop", (), "reason"),
    "take": ("take", (), ""),
    "land": ("land", (), ""),
    "undo": ("undo", (), ""),
    "add": ("task add", (), ""),
    "work": ("work", (), ""),
}
"""Each button: its act, the words after the address, and the option that takes the text of the form."""
WHOLE = ("pause", "resume", "add", "work")
"""What may be about a project and nothing of it; without a project about everything."""
NEEDS_TEXT = {
    "comment": "Say what the next session is to mind.",
    "no": "Say why: the next session reads it.",
    "edit": "The text is empty: nothing was answered.",
    "say": "The answer is empty: nothing was answered.",
    "tell": "Write your words first: nothing was sent.",
    "add": "Say what is to be done: no task was written.",
}
HURTS = ("cancel",)
"""What asks once more: its form has a box to tick."""
OWN_CHECK = "own"
"""A command to run never comes by network: a form says that the project's own tests check it, or nothing."""


class Offer(Record):
    """What the form of a new task offers."""

    agents: tuple[str, ...]
    check: str
    """The command of the project's own tests; empty where there are none, or several projects."""


def offers(app: App, project: str) -> Offer:
    """What there is to choose from for a task of this project, or of any."""
    try:
        check = whole_check.found(app, projects.checkout(app, project)) if project else ""
        return Offer(tuple(agents.find_installed(app)), check)
    except HandoffError:
        return Offer((), "")  # whoever adds a task is told why


class Acts:
    """Runs what buttons ask for, and remembers for a while what came of it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._results: OrderedDict[str, list[ActResult]] = OrderedDict()

    def result(self, name: str) -> list[ActResult]:
        return self._results.get(name, [])

    async def respond(self, request: Request, allowed: Collection[str], *, limited: bool) -> Response:
        """Do it; a script is told at once, a browser without one is sent back to where it was."""
        fields: list[tuple[str, str]] = request.scope[FORM]
        form = dict(fields)
        addresses = [value for name, value in fields if name == "of"]
        try:
            asked = [await on_thread(self._act, form, address, allowed, limited) for address in addresses]
            results = [await on_thread(perform_apart, self._settings, act) for act in asked]
        except HandoffError as error:
            results = [ActResult("", 2, "\n".join(filter(None, (error.message, error.hint))))]
        if request.headers.get("accept", "").startswith("application/json"):
            said = [{"command": one.command, "code": one.code, "text": _short(one)} for one in results]
            return JSONResponse({"results": said})
        name = secrets.token_urlsafe(8)
        self._results[name] = results
        while len(self._results) > _KEPT:
            self._results.popitem(last=False)
        back = _local(form.get("back", "/")).partition("?")[0]
        return RedirectResponse(f"{back}?result={name}", 303)

    def _act(self, form: dict[str, str], address: str, allowed: Collection[str], limited: bool) -> Act:
        act, text = form.get("act", ""), form.get("text", "").replace("\r\n", "\n").strip()
        project, _, name = address.partition("/")
        bound = act in WHOLE and not name
        if (
            act not in ACTS
            or not (name or act in WHOLE)
            or name.startswith("-")
            or (project and project not in allowed)
            or (bound and not project and limited)
        ):
            raise UserError("This page knows no such button.", "Reload the page and try again.")
        if act in NEEDS_TEXT and not text:
            raise UserError(NEEDS_TEXT[act])
        if act in HURTS and form.get("sure") != "yes":
            raise UserError("Tick the box if you mean it: nothing was changed.")
        verb, words, option = ACTS[act]
        options: dict[str, Any] = {option: text} if option and text else {}
        if act == "comment":
            words, options = (form.get("place", ""), text), {"quote": form.get("quote", "")}
        elif act in ("say", "tell"):
            words = (text,)
            options |= {"now": True} if act == "tell" and form.get("now") == "yes" else {}
        elif act == "add":
            words, options = (text,), self._new_task(form, project)
        elif act == "work":
            options = {"agent": form.get("agent", "").strip(), "all_projects": not project, "detach": True}
        elif act == "again":
            given = {key: form.get(key, "").strip() for key in ("agent", "model")}
            options |= {key: value for key, value in given.items() if value}
        elif act == "take" and form.get("to", "").strip():
            options["to"] = form["to"].strip()
        elif act == "stop" and form.get("hold") == "yes":
            options["hold"] = True
        if bound and not project and act in ("pause", "resume"):
            options["everything"] = True
        return Act(verb, (name, *words) if name else words, options, project)

    def _new_task(self, form: dict[str, str], project: str) -> dict[str, Any]:
        found = {"agent": form.get("agent", "").strip(), "landing": form.get("landing", "")}
        if found["landing"] not in ("", *LANDINGS):
            raise UserError("This page knows no such landing.", "Reload the page and try again.")
        if form.get("check") == OWN_CHECK:
            with closing(App(self._settings)) as app:
                found["check"] = whole_check.found(app, projects.checkout(app, project))
        return {key: value for key, value in found.items() if value}


def _short(one: ActResult) -> str:
    return one.text.strip()[:_LONGEST] or "Done."


def as_values(results: list[ActResult]) -> list[dict[str, Any]]:
    """For a template."""
    return [{"command": one.command, "good": one.code == 0, "text": _short(one)} for one in results]


# --- buttons ------------------------------------------------------------------------------------------------

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
            *routes_with_own_proof(self.settings),
        ]

    # --- who comes in ------------------------------------------------------------------------------------------

    async def enter_form(self, request: Request) -> Response:
        """A link that is only looked at, by a program that shows previews, stays good: it is used by a button."""
        asked = request.query_params
        return HTMLResponse(draw("enter.html", word=asked.get("link", ""), to=_local(asked.get("to", "/"))))

    async def enter(self, request: Request) -> Response:
        form = dict(request.scope[FORM])
        try:
            value = await run_in_threadpool(self.access.enter, form.get("link", ""))
        except LinkRefused as error:
            return self.refuse(429 if error.slow else 403, error.message, error.hint)
        answer = RedirectResponse(_local(form.get("to", "/")), 303)
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
            with closing(App(self.settings, self.clock)) as app:
                return reading(app)

        return await run_in_threadpool(with_app)

    async def on_error(self, request: Request, error: Exception) -> Response:
        """Our own errors in our own words."""
        del request
        assert isinstance(error, HandoffError)  # noqa: S101 - what it is asked for
        return self.refuse(404, error.message, error.hint)

    async def not_found(self, request: Request, error: Exception) -> Response:
        del error
        return self.refuse(404, f"There is no page {request.url.path}.", "Begin at the first: /")


def _local(path: str) -> str:
    """A path of this page; the first one for an address that would lead elsewhere."""
    return path if path.startswith("/") and not path.startswith(("//", "/\\")) else "/"


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
