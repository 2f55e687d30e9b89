"""A gate answered over HTTP: `POST /gates` with the one-time code a person was given. The code is the whole proof."""

from __future__ import annotations

import asyncio
import json

from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse

from handoff.base.errors import Conflict, HandoffError, UserError
from handoff.base.record import TYPE_CHECKING
from handoff.engine.app import App
from handoff.engine.tasks import admin

if TYPE_CHECKING:
    from typing import Any

    from handoff.base.settings import Settings

PATH = "/gates"
MOST_BYTES = 256 * 1024
_FIELDS = ("code", "answer", "text", "by")
_OK = 200
_MOST_SLOWED = 64
_SLOW_SECONDS = 1.0


class Answers:
    """Takes answers. A right code is heard at once, however many wrong ones come; a wrong one waits for its refusal."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._slowed = 0

    async def respond(self, body: bytes, kind: str) -> Any:
        """Take one answer: {"code": …, "answer": "yes" | "no" | "edit", "text": …, "by": …}."""
        status, said = await run_in_threadpool(_answer, self.settings, body, kind)
        if status != _OK:
            await self._slow()
        return JSONResponse(said, status)

    async def _slow(self) -> None:
        """Guessing takes time, but does not keep connections in numbers that would lock others out."""
        if self._slowed >= _MOST_SLOWED:
            return
        self._slowed += 1
        try:
            await asyncio.sleep(_SLOW_SECONDS)
        finally:
            self._slowed -= 1


def _answer(settings: Settings, body: bytes, kind: str) -> tuple[int, dict[str, str]]:
    try:
        value = json.loads(body)
    except ValueError:
        value = None
    plain = isinstance(value, dict) and all(isinstance(value.get(name, ""), str) for name in _FIELDS)
    if not plain or not kind.startswith("application/json"):  # a page of a browser cannot send this kind by itself
        return 400, {"error": "Send JSON with code, answer and perhaps text and by."}
    code, word, text, by = (value.get(name, "") for name in _FIELDS)
    app = App(settings)
    try:
        outcome = admin.answer(app, code=code, word=word, text=text, by=by)
    except Conflict as error:
        return 409, {"error": error.message}
    except UserError as error:
        return 400, {"error": error.message}
    except HandoffError as error:
        return 403, {"error": error.message}
    finally:
        app.close()
    return 200, {"task": outcome.task.label, "project": outcome.task.project, "state": outcome.task.state}
