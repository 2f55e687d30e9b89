"""Where the page is served: by its own command, or beside a supervisor. The port is open at once; the rest is built at the first call."""

from __future__ import annotations

import threading
from importlib.util import find_spec
from urllib.parse import urlsplit

from handoff.base.errors import UserError
from handoff.base.errors import need as need_package
from handoff.base.record import TYPE_CHECKING
from handoff.engine.app import App
from handoff.engine.session import endpoints
from handoff.surfaces.http.places import ListenAddress, Listener
from handoff.surfaces.page.access import own_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from handoff.base.settings import Settings

PORT = 8642
"""The one a person can remember; where it is taken any free one is."""
_PACKAGES = ("starlette", "uvicorn", "jinja2")


class PageServer:
    """The page of a project, or of all, at one place."""

    def __init__(self, settings: Settings, place: ListenAddress, *, project: str) -> None:
        self._settings, self._project = settings._replace(folder=settings.here), project
        app = App(settings)
        if place.is_here and not place.certificate:
            place = place._replace(names=(*place.names, own_name(app)))
        self._listener = Listener(place, ports=[*endpoints.ports_before(app, kind=endpoints.PAGES), PORT])
        by_address = urlsplit(self._listener.url)
        named = by_address._replace(netloc=f"{place.names[0]}:{by_address.port}") if place.names else by_address
        self.url = named.geturl()

    def publish(self) -> None:
        """Let `handoff page` know that it is served here."""
        port = self._listener.port
        endpoints.publish(App(self._settings), url=self.url, port=port, kind=endpoints.PAGES, project=self._project)

    def run(self) -> None:
        """Wait for the first caller, then serve until the process ends."""
        self._listener.wait()
        from handoff.surfaces.page.app import page_app

        app = page_app(self._settings, self._listener, project=self._project)
        self._listener.server(app).run(sockets=self._listener.sockets)

    def beside(self) -> None:
        """The same in a thread of its own."""
        threading.Thread(target=self.run, name="page", daemon=True).start()


def address(app: App, *, project: str) -> str:
    """Where the page of a project, or of all, is served on this machine; empty when it is not."""
    return endpoints.address(app, kind=endpoints.PAGES, project=project)


def need() -> None:
    """Say what is missing before anything is begun."""
    for name in _PACKAGES:
        need_package(name, "The page")


def start_beside(settings: Settings, *, project: str, tell: Callable[[str], None]) -> None:
    """Open the page of a supervisor on the loopback; a machine without the packages or a free port works without."""
    if any(find_spec(name) is None for name in _PACKAGES) or address(App(settings), project=project):
        return
    try:
        served = PageServer(settings, ListenAddress(), project=project)
    except UserError as error:
        tell(f"No page beside this supervisor: {error.message}")
        return
    served.publish()
    served.beside()
