"""A gate answered over HTTP: `POST /gates` with the one-time code a person was given. The code is the whole proof."""

from __future__ import annotations

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


async def respond(request: Any, settings: Settings) -> Any:
    """Take one answer: {"code": …, "answer": "yes" | "no" | "edit", "text": …, "by": …}."""
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import JSONResponse

    if request.method != "POST":
        return JSONResponse({"error": "Only POST."}, 405, {"allow": "POST"})
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            return JSONResponse({"error": "The answer is too long."}, 413)
    status, said = await run_in_threadpool(_answer, settings, body, request.headers.get("content-type", ""))
    return JSONResponse(said, status)


def _answer(settings: Settings, body: bytes, kind: str) -> tuple[int, dict[str, str]]:
    import json

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
