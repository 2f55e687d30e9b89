"""What answers beside the pages, each with its own proof of who calls; names, origins and headers are checked before it."""

from __future__ import annotations

from starlette.routing import Mount

from handoff.base.record import TYPE_CHECKING
from handoff.surfaces.api.routes import PREFIX
from handoff.surfaces.api.server import Api

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

    from handoff.base.settings import Settings

PATHS = (f"{PREFIX}/",)
"""The beginnings of their paths: no cookie is asked for below them."""


def routes(settings: Settings) -> list[BaseRoute]:
    """A `Mount` for each of the paths above."""
    return [Mount(PREFIX, Api(settings))]
