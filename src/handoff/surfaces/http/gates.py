"""A gate answered over HTTP at `/gates`, with the one-time code a person was given. The code is the whole proof.

A program posts JSON. A person opens the link of a notification, sees what is asked and presses a button: looking uses nothing up.
"""

from __future__ import annotations

import asyncio
import json
from typing import Protocol
from urllib.parse import parse_qsl

from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse

from handoff.base.errors import Conflict, HandoffError, UserError
from handoff.base.record import TYPE_CHECKING
from handoff.engine.app import App
from handoff.engine.session.endpoints import GATES
from handoff.engine.work import acts

if TYPE_CHECKING:
    from typing import Any

    from starlette.requests import Request

    from handoff.base.settings import Settings
    from handoff.board.gates import Waiting

MOST_BYTES = 256 * 1024
_FIELDS = ("code", "answer", "text", "by")
_FORM = "application/x-www-form-urlencoded"
_OK, _CONFUSED = 200, 400
_MOST_SLOWED = 64
_SLOW_SECONDS = 1.0
_HEADERS = {
    "referrer-policy": "same-origin",  # the code stands in the address, and goes nowhere else
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
}


class GateLook(Protocol):
    """How what a link shows is drawn; whoever serves it says."""

    policy: str
    """What a browser may do with it."""

    def asked(self, app: App, *, waiting: Waiting, code: str, to: str) -> str: ...

    def told(self, message: str, hint: str = "", *, good: bool) -> str: ...


class Answers:
    """Takes answers. A right code is heard at once, however many wrong ones come; a wrong one waits for its refusal."""

    def __init__(self, settings: Settings, look: GateLook) -> None:
        self.settings, self.look = settings, look
        self._slowed = 0

    async def respond(self, request: Request, receive: Any) -> Any:
        """Show what a link asks, or take one answer: {"code": …, "answer": "yes" | "no" | "edit", "text": …, "by": …}."""
        if request.method == "GET":
            status, said = await run_in_threadpool(self._on_app, self._show, request.query_params.get("code", ""))
            return await self._slowly(status, self._page(said, status))
        if request.method != "POST":
            return PlainTextResponse("Only GET and POST.\n", 405, {"allow": "GET, POST"})
        try:
            wrong, body = await read_body(receive, most=MOST_BYTES)
        except Gone:
            return PlainTextResponse("", _CONFUSED)  # nobody hears it
        if wrong:
            words = f"At most {MOST_BYTES} bytes.\n" if wrong == TOO_LARGE else "Nested too deep.\n"
            return PlainTextResponse(words, wrong)
        kind = request.headers.get("content-type", "").partition(";")[0].strip()
        status, told = await run_in_threadpool(self._on_app, _answer, _fields(body, kind))
        if kind == _FORM:
            words = told.get("error") or f"{told['task']} is {told['state']}. You may close this page."
            return await self._slowly(status, self._page(self.look.told(words, good=status == _OK), status))
        return await self._slowly(status, JSONResponse(told, status))

    def _page(self, text: str, status: int) -> HTMLResponse:
        return HTMLResponse(text, status, {**_HEADERS, "content-security-policy": self.look.policy})

    def _show(self, app: App, code: str) -> tuple[int, str]:
        """The page a link opens: words of agents are text here, whatever they hold."""
        try:
            found = acts.gate_behind(app, code)
            return _OK, self.look.asked(app, waiting=found, code=code, to=GATES)
        except HandoffError as error:
            return _status(error), self.look.told(error.message, error.hint, good=False)

    def _on_app(self, act: Any, given: Any) -> Any:
        app = App(self.settings)
        try:
            return act(app, given)
        finally:
            app.close()

    async def _slowly(self, status: int, answer: Any) -> Any:
        """Guessing takes time, but does not keep connections in numbers that would lock others out."""
        if status != _OK and self._slowed < _MOST_SLOWED:
            self._slowed += 1
            try:
                await asyncio.sleep(_SLOW_SECONDS)
            finally:
                self._slowed -= 1
        return answer


def _fields(body: bytes, kind: str) -> dict[str, str] | None:
    try:
        if kind == _FORM:
            pairs = parse_qsl(
                body.decode("ascii"), keep_blank_values=True, max_num_fields=len(_FIELDS), errors="strict"
            )
            return {name: text.replace("\r\n", "\n") for name, text in pairs}
        value = json.loads(body) if kind == "application/json" else None
    except ValueError:
        return None
    plain = isinstance(value, dict) and all(isinstance(value.get(name, ""), str) for name in _FIELDS)
    return value if plain else None


def _answer(app: App, fields: dict[str, str] | None) -> tuple[int, dict[str, str]]:
    if fields is None:
        return _CONFUSED, {"error": "Send JSON with code, answer and perhaps text and by."}
    code, word, text, by = (fields.get(name, "") for name in _FIELDS)
    try:
        (task,) = acts.answer_code(app, code, word, text=text, by=by).tasks
    except HandoffError as error:
        return _status(error), {"error": error.message}
    return _OK, {"task": task.label, "project": task.project, "state": task.state}


def _status(error: HandoffError) -> int:
    if isinstance(error, Conflict):
        return 409
    return _CONFUSED if isinstance(error, UserError) else 403


# --- What a request brings: not too much, not nested until a reader breaks, and never half of it

TOO_LARGE, NO_SENSE, NOT_JSON = 413, 400, 415


class Gone(Exception):
    """The caller hung up before it had said all: nothing is answered."""


async def read_body(receive: Any, *, most: int) -> tuple[int, bytes]:
    """A request's whole body, or the status that is answered instead."""
    body = bytearray()
    while True:
        piece = await receive()
        if piece["type"] != "http.request":
            raise Gone
        body += piece.get("body", b"")
        if len(body) > most:
            return TOO_LARGE, b""
        if not piece.get("more_body"):
            break
    try:
        json.loads(body)
    except RecursionError:
        return NO_SENSE, b""
    except ValueError:
        return 0, bytes(body)  # told in the words of whoever is asked
    return 0, bytes(body)


async def read_json(request: Request, receive: Any, *, most: int) -> tuple[int, Any]:
    """The value a request brings, an empty object where it brings nothing; or a status and what is wrong."""
    status, body = await read_body(receive, most=most)
    if status:
        return status, f"At most {most} bytes." if status == TOO_LARGE else "Nested too deep."
    if not body:
        return 0, {}
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return NOT_JSON, "Send JSON, and say so: Content-Type: application/json"
    try:
        return 0, json.loads(body)
    except ValueError:
        return NO_SENSE, "This is no JSON."
