"""The API and the answers by code as routes, for any port of ours that has pages of its own; Host and Origin are checked before."""

from __future__ import annotations

from starlette.routing import Mount, Route

from handoff.base.record import TYPE_CHECKING
from handoff.engine.sessions.endpoints import GATES
from handoff.surfaces.api.routes import PREFIX
from handoff.surfaces.api.server import Api
from handoff.surfaces.http.gates import Answers

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import BaseRoute

    from handoff.base.settings import Settings

PATHS = (f"{PREFIX}/", GATES)
"""The beginnings of their paths: no cookie is asked for below them."""


def routes(settings: Settings) -> list[BaseRoute]:
    """Each knows its callers itself: by a token, or by the code of a gate."""
    answers = Answers(settings)

    async def answer(request: Request) -> Response:
        answered: Response = await answers.respond(request, request.receive)
        return answered

    return [Mount(PREFIX, app=Api(settings)), Route(GATES, answer, methods=["GET", "POST"])]
