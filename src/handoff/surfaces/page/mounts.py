"""What answers beside the pages, each with its own proof of who calls; names, origins and headers are checked before it."""

from __future__ import annotations

from starlette.routing import Mount, Route

from handoff.base.record import TYPE_CHECKING
from handoff.engine.session.endpoints import GATES
from handoff.surfaces.api.routes import PREFIX
from handoff.surfaces.api.server import Api
from handoff.surfaces.http.gates import Answers
from handoff.surfaces.page.pages.gate import GatePages

if TYPE_CHECKING:
    from typing import Any

    from starlette.requests import Request
    from starlette.routing import BaseRoute

    from handoff.base.settings import Settings

PATHS = (f"{PREFIX}/", GATES)
"""The beginnings of their paths: no cookie is asked for below them."""


def routes(settings: Settings) -> list[BaseRoute]:
    """A route for each of the paths above: the API, and gates for whoever has the code of one."""
    answers = Answers(settings, GatePages())

    async def gate(request: Request) -> Any:
        return await answers.respond(request, request.receive)

    return [Mount(PREFIX, Api(settings)), Route(GATES, gate, methods=["GET", "POST"])]
