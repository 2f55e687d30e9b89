"""The relay's tools over HTTP: every request carries a token, comes under a name we know, and is not too large.

The port is open from the start; what answers there (a second of importing) is built when the first caller knocks.
"""

from __future__ import annotations

import threading

from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING
from handoff.engine.app import App
from handoff.engine.session import endpoints
from handoff.surfaces.http.places import ListenAddress, Listener

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from handoff.base.settings import Settings


class Endpoint:
    """One listening place. `run` answers until the process ends; `beside` does the same in a thread of its own."""

    def __init__(self, settings: Settings, place: ListenAddress) -> None:
        self.settings = settings._replace(folder=settings.here)
        self._listener = Listener(place, ports=endpoints.ports_before(App(settings)))
        self.url = f"{self._listener.url}{endpoints.PATH}"

    def publish(self) -> None:
        """Let the sessions of this machine know; one with a certificate of its own is for others."""
        if not self._listener.place.certificate:
            endpoints.publish(App(self.settings), url=self.url, port=self._listener.port)

    def beside(self) -> None:
        """Answer in a thread; nothing is imported and nothing is done before somebody calls."""
        threading.Thread(target=self.run, name="mcp", daemon=True).start()

    def run(self) -> None:
        """Wait for the first caller, then serve."""
        self._listener.wait()
        self.server().run(sockets=self._listener.sockets)

    def server(self) -> Any:
        """What answers: the guard before the protocol."""
        from handoff.surfaces.mcp import guard
        from handoff.surfaces.mcp import server as mcp_server

        security = guard.security(self._listener.place.every_name)
        inner = mcp_server.build(self.settings).streamable_http_app(
            streamable_http_path=endpoints.PATH,
            stateless_http=True,
            max_request_body_size=guard.MOST_BYTES,
            transport_security=security,
        )
        return self._listener.server(guard.Guard(inner, self.settings, security))


def start_beside(settings: Settings, *, tell: Callable[[str], None]) -> None:
    """Open the endpoint of a supervisor on the loopback; a machine without the extra or a free port works without."""
    from importlib.util import find_spec

    if find_spec("mcp") is None:
        return
    try:
        endpoint = Endpoint(settings, ListenAddress())
    except UserError as error:
        tell(f"Sessions call the relay's tools over standard input: {error.message}")
        return
    endpoint.publish()
    endpoint.beside()
