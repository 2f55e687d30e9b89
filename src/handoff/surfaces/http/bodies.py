"""What a request brings: not too much, not nested until a reader breaks, and never half of it."""

from __future__ import annotations

import json

from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from starlette.requests import Request


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
