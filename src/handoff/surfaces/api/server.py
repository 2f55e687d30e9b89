"""The API: every request is matched, its token known and its words held against the document before anything is done."""

from __future__ import annotations

import asyncio
import json
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from http import HTTPStatus

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, StreamingResponse

from handoff.base.errors import Away, Conflict, HandoffError, Refused, UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.events import journal
from handoff.board.tokens import may
from handoff.engine.app import App
from handoff.engine.session import endpoints
from handoff.notify.channels import envelope
from handoff.surfaces.acting import on_thread
from handoff.surfaces.api import calls, forges, routes, shapes
from handoff.surfaces.api.calls import ApiRequest, NotThere, event_shape
from handoff.surfaces.http.gates import Gone, read_body, read_json

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from typing import Any, TypeVar

    from starlette.responses import Response

    from handoff.base.settings import Settings
    from handoff.board.events.journal import Event
    from handoff.engine.session.endpoints import HttpCaller
    from handoff.surfaces.api.routes import ApiOperation

    _Found = TypeVar("_Found")

MOST_BYTES = 64 * 1024
_MOST_ACTS, _MOST_SLOWED = 4, 64


class ApiLimits(Record):
    """How often a token may ask: so many requests at once, and so many a second after that; how long a wrong one waits."""

    at_once: float = 100.0
    a_second: float = 20.0
    wrong_seconds: float = 1.0


class Problem(Exception):
    """An answer that is a problem."""

    def __init__(self, status: int, detail: str, hint: str = "", **headers: str) -> None:
        super().__init__(detail)
        self.status, self.detail, self.hint, self.headers = status, detail, hint, headers

    @property
    def response(self) -> Response:
        body = {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            "hint": self.hint,
        }
        return JSONResponse(body, self.status, self.headers, media_type="application/problem+json")


class Api:
    """The application behind `/api/v1`. Whoever mounts it has checked Host and Origin."""

    def __init__(self, settings: Settings, limits: ApiLimits | None = None) -> None:
        self._settings, self._limits = settings, limits or ApiLimits()
        self._feed = Feed(settings)
        self._pace: dict[str, tuple[float, float]] = {}
        self._slowed = 0
        self._acts: asyncio.Semaphore | None = None
        self._table = [
            (re.compile(re.sub(r"\{([a-z]+)\}", r"(?P<\1>[^/]+)", one.path)), one) for one in routes.OPERATIONS
        ]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request."""
        request = Request(scope)
        try:
            answer = await self._answer(request, receive)
        except Gone:
            return
        except Problem as problem:
            answer = problem.response
        except HandoffError as error:
            answer = _as_problem(error).response
        await answer(scope, receive, send)

    async def _answer(self, request: Request, receive: Any) -> Response:
        path = request.scope["path"].removeprefix(request.scope.get("root_path", "")).removeprefix(routes.PREFIX)
        if path == routes.DOCUMENT and request.method == "GET":
            return JSONResponse(routes.document())
        if (hook := forges.PATH.fullmatch(path)) and request.method == "POST":
            return await self._deliver(request, receive, *hook.groups())
        operation, named = self._match(request.method, path)
        caller = await self._caller(request)
        if not may(caller.scope, operation.scope):
            raise Problem(
                403,
                f"The token '{caller.name}' may {caller.scope}; this needs one that may {operation.scope}.",
                f"handoff token new NAME --scope {operation.scope}",
            )
        asked = _query(operation, request)
        if operation.method == "POST":
            asked |= _body(operation, *await read_json(request, receive, most=MOST_BYTES))
        if caller.project and asked.get("project", caller.project) != caller.project:
            raise Problem(403, f"The token '{caller.name}' is for the project '{caller.project}' alone.")
        if operation.path == routes.STREAM:
            return await self._stream(request, caller, asked)
        return await self._act(operation, named, asked, caller, request.headers.get(calls.KEY_HEADER, ""))

    def _match(self, method: str, path: str) -> tuple[ApiOperation, dict[str, Any]]:
        found = {one.method: (one, match) for pattern, one in self._table if (match := pattern.fullmatch(path))}
        if not found:
            raise Problem(404, f"There is nothing at {path}.", f"See {routes.PREFIX}{routes.DOCUMENT}")
        if method not in found:
            raise Problem(405, f"{method} is not known here.", Allow=", ".join(found))
        operation, match = found[method]
        return operation, {name: _read(name, text, routes.NAMED[name]) for name, text in match.groupdict().items()}

    async def _deliver(self, request: Request, receive: Any, forge: str, project: str) -> Response:
        """What a forge sends: its signature is the proof, and no token is asked for."""
        status, body = await read_body(receive, most=forges.MOST_BYTES)
        if status:
            raise Problem(status, f"At most {forges.MOST_BYTES} bytes, and not nested too deep.")
        try:
            self._keep_pace(f"hook {project}")
            return JSONResponse(await on_thread(_take, self._settings, forge, project, dict(request.headers), body))
        except forges.Forged as error:
            await self._slow()
            raise Problem(401, error.message, error.hint) from error

    # --- who asks, and how often -------------------------------------------------------------------------------

    async def _caller(self, request: Request) -> HttpCaller:
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        found = None
        if kind.lower() == "bearer":
            found = await run_in_threadpool(_identify, self._settings, token.strip())
        if found is None:
            await self._slow()
            raise Problem(
                401, "A token of this relay is needed.", "handoff token new NAME", **{"WWW-Authenticate": "Bearer"}
            )
        self._keep_pace(found.name)
        return found

    async def _slow(self) -> None:
        """Guessing takes time, but does not keep connections in numbers that would lock others out."""
        if self._slowed < _MOST_SLOWED:
            self._slowed += 1
            try:
                await asyncio.sleep(self._limits.wrong_seconds)
            finally:
                self._slowed -= 1

    def _keep_pace(self, name: str) -> None:
        """A bucket for each token."""
        now = asyncio.get_running_loop().time()
        left, at = self._pace.get(name, (self._limits.at_once, now))
        left = min(self._limits.at_once, left + (now - at) * self._limits.a_second)
        if left < 1:
            self._pace[name] = (left, now)
            raise Problem(429, f"The token '{name}' asks too often.", "Wait a second.", **{"Retry-After": "1"})
        self._pace[name] = (left - 1, now)

    # --- doing it ----------------------------------------------------------------------------------------------

    async def _act(
        self, one: ApiOperation, named: dict[str, Any], asked: dict[str, Any], caller: HttpCaller, once: str
    ) -> Response:
        if one.method == "GET":
            found = await run_in_threadpool(_perform, one, named, asked, caller)
            return PlainTextResponse(found) if one.media == "text/plain" else JSONResponse(found)
        if self._acts is None:
            self._acts = asyncio.Semaphore(_MOST_ACTS)
        async with self._acts:
            return JSONResponse(await on_thread(_perform, one, named, asked, caller, once))

    async def _stream(self, request: Request, caller: HttpCaller, asked: dict[str, Any]) -> Response:
        last = request.headers.get("last-event-id", "")
        after = int(last) if last.isdigit() and len(last) <= len(str(shapes.KEY["maximum"])) else asked.get("after")
        token = request.headers["authorization"].partition(" ")[2].strip()
        lines = await self._feed.open(caller.project or asked.get("project", ""), after, token)
        if lines is None:
            raise Problem(429, "Too many follow the journal.", "Wait a second.", **{"Retry-After": "1"})
        return StreamingResponse(lines, media_type="text/event-stream", headers={"Cache-Control": "no-store"})


def _perform(
    one: ApiOperation, named: dict[str, Any], asked: dict[str, Any], caller: HttpCaller, once: str = ""
) -> Any:
    with closing(App(caller.settings)) as app:
        assert one.act is not None  # noqa: S101 - the stream is answered before
        return one.act(
            ApiRequest(app=app, named=named, asked=asked, project=caller.project, caller=caller.name, once=once)
        )


def _take(settings: Settings, forge: str, project: str, headers: dict[str, str], body: bytes) -> dict[str, Any]:
    environment = {**settings.environment, "USER": f"hook {forge}"}  # for the journal
    with closing(App(settings._replace(environment=environment))) as app:
        return forges.take(app, forge, project, headers, body)


def _identify(settings: Settings, token: str) -> HttpCaller | None:
    with closing(App(settings)) as app:
        return endpoints.caller_of(app, token=token)


def _query(operation: ApiOperation, request: Request) -> dict[str, Any]:
    asked: dict[str, Any] = {}
    for name, text in request.query_params.multi_items():
        if name not in operation.query or name in asked:
            raise Problem(
                400, f"'{name}' is not asked for here, or twice.", f"Known: {', '.join(operation.query) or 'nothing'}"
            )
        asked[name] = _read(name, text, operation.query[name])
    for name in operation.required if operation.method == "GET" else ():
        if name not in asked:
            raise Problem(400, f"'{name}' is missing.")
    return asked


def _read(name: str, text: str, schema: dict[str, Any]) -> Any:
    value: Any = text
    if schema["type"] == "integer" and re.fullmatch("-?[0-9]{1,20}", text):
        value = int(text)
    if problem := shapes.problem_with(value, schema):
        raise Problem(400, f"'{name}' {problem}.")
    return value


def _body(operation: ApiOperation, status: int, said: Any) -> dict[str, Any]:
    if status:
        raise Problem(status, said)
    asked, problem = shapes.read_as(operation.body, said)
    if problem:
        raise Problem(400, problem, f"Known: {', '.join(operation.body.model_fields) or 'nothing'}")
    return asked


def _as_problem(error: HandoffError) -> Problem:
    kinds: list[tuple[type[HandoffError], int]] = [
        (NotThere, 404),
        (Away, 503),
        (Refused, 403),
        (Conflict, 409),
        (UserError, 400),
    ]
    status = next((status for kind, status in kinds if isinstance(error, kind)), 400)
    return Problem(status, error.message, error.hint)


# --- the stream --------------------------------------------------------------------------------------------------


MOST = 200
ALIVE_SECONDS = 15.0
"""How often a follower hears that we live, and we ask whether its token still opens something."""
_LOOK_SECONDS = 0.25
_AT_ONCE, _BEHIND = 500, 2_000


class Feed:
    """Everybody who follows. Rows are read on one thread, because a database belongs to the thread that opened it."""

    def __init__(self, settings: Settings, *, alive: float = ALIVE_SECONDS) -> None:
        self._settings, self._alive = settings, alive
        self._app: App | None = None
        self._thread = ThreadPoolExecutor(1, "journal")
        self._followers: set[asyncio.Queue[Event]] = set()
        self._watching: asyncio.Task[None] | None = None

    async def open(self, project: str, after: int | None, token: str) -> AsyncIterator[str] | None:
        """The lines of one stream, from `after` on or from now on; nothing where too many follow already."""
        if len(self._followers) >= MOST:
            return None
        queue: asyncio.Queue[Event] = asyncio.Queue(_BEHIND)
        self._followers.add(queue)
        try:
            last = await self._read(lambda app: journal.mark(app.database))
        except HandoffError:
            self._followers.discard(queue)
            raise
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch(last))
        return self._lines(queue, project, last if after is None else after, token)

    async def _lines(self, queue: asyncio.Queue[Event], project: str, seq: int, token: str) -> AsyncIterator[str]:
        source, clock = await self._read(endpoints.source), asyncio.get_running_loop().time
        heard, behind = clock(), True
        try:
            yield ": the journal\n\n"
            while (
                behind or queue in self._followers or not queue.empty()
            ):  # who cannot keep up is let go, and comes back
                found = await (self._since(seq, project) if behind else self._next(queue))
                behind = behind and bool(found)
                for event in found:
                    if event.seq > seq and project in ("", event.project):
                        seq = event.seq
                        yield _line(event, source)
                if clock() - heard >= self._alive:  # however much there is to tell
                    if not await self._read(lambda app: endpoints.caller_of(app, token=token)):
                        return  # withdrawn meanwhile, or over
                    heard = clock()
                    yield ": alive\n\n"
        finally:
            self._followers.discard(queue)

    async def _next(self, queue: asyncio.Queue[Event]) -> list[Event]:
        """What comes next, if anything comes while one waits."""
        try:
            return [await asyncio.wait_for(queue.get(), self._alive)]
        except TimeoutError:
            return []

    async def _watch(self, seq: int) -> None:
        """Read each new line once; end when nobody follows."""
        while self._followers:
            with suppress(HandoffError):  # the database is away: it is asked again
                while found := await self._since(seq, ""):
                    seq = found[-1].seq
                    for event in found:
                        self._hand_out(event)
            await asyncio.sleep(_LOOK_SECONDS)

    def _hand_out(self, event: Event) -> None:
        for queue in list(self._followers):
            try:
                queue.put_nowait(event)
            except asyncio.QueueFull:
                self._followers.discard(queue)

    async def _since(self, seq: int, project: str) -> list[Event]:
        return await self._read(lambda app: journal.since(app.database, seq=seq, project=project, limit=_AT_ONCE))

    async def _read(self, act: Callable[[App], _Found]) -> _Found:
        def on_thread() -> _Found:
            if self._app is None:
                self._app = App(self._settings)
            return act(self._app)

        return await asyncio.get_running_loop().run_in_executor(self._thread, on_thread)


def _line(event: Event, source: str) -> str:
    """CloudEvents 1.0 in JSON; `id` is the number with which a reader comes back."""
    subject = f"{event.project}/{event.task_id}" if event.task_id else event.project
    told = envelope(
        str(event.seq), kind=event.kind, at=event.at, subject=subject, source=source, data=event_shape(event)
    )
    return f"id: {event.seq}\nevent: {told['type']}\ndata: {json.dumps(told)}\n\n"
