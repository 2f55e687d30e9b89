"""The relay's tools over HTTP: every request carries a token, comes under a name we know, and is not too large.

The port is open from the start; what answers there (a second of importing) is built when the first caller knocks.
"""

from __future__ import annotations

import os
import select
import socket
import threading

from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.engine.app import App
from handoff.engine.sessions import endpoints

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from handoff.base.settings import Settings

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_BACKLOG = 1024


class ListenAddress(Record):
    """Where to listen, under which further names, and with which certificate."""

    host: str = "127.0.0.1"
    port: int = 0
    names: tuple[str, ...] = ()
    certificate: str = ""
    key: str = ""

    @property
    def is_loopback(self) -> bool:
        return self.host in LOOPBACK or self.host.startswith("127.")

    @property
    def every_name(self) -> tuple[str, ...]:
        """The names under which it may be called."""
        own = () if self.is_loopback else (self.host, os.uname().nodename)
        return (*LOOPBACK[:2], "[::1]", *self.names, *own)


class Endpoint:
    """One listening place. `run` answers until the process ends; `beside` does the same in a thread of its own."""

    def __init__(self, settings: Settings, place: ListenAddress) -> None:
        _check(place)
        self.settings, self.place = settings._replace(folder=settings.here), place
        self._socket = _listening(App(settings), place)
        self.port = int(self._socket.getsockname()[1])
        shown = "127.0.0.1" if place.host in ("0.0.0.0", "::") else place.host  # noqa: S104 - what was asked for
        shown = f"[{shown}]" if ":" in shown else shown
        self.url = f"{'https' if place.certificate else 'http'}://{shown}:{self.port}{endpoints.PATH}"

    def publish(self) -> None:
        """Let the sessions of this machine know; one with a certificate of its own is for others."""
        if not self.place.certificate:
            endpoints.publish(App(self.settings), url=self.url, port=self.port)

    def beside(self) -> None:
        """Answer in a thread; nothing is imported and nothing is done before somebody calls."""
        threading.Thread(target=self.run, name="mcp", daemon=True).start()

    def run(self) -> None:
        """Wait for the first caller, then serve."""
        select.select([self._socket], [], [])
        self.server().run(sockets=[self._socket])

    def server(self) -> Any:
        """What answers: the guard before the protocol."""
        import uvicorn

        from handoff.surfaces.mcp import connections, guard
        from handoff.surfaces.mcp import server as mcp_server

        security = guard.security(self.place.every_name)
        inner = mcp_server.build(self.settings).streamable_http_app(
            streamable_http_path=endpoints.PATH,
            stateless_http=True,
            max_request_body_size=guard.MOST_BYTES,
            transport_security=security,
        )
        config = uvicorn.Config(
            guard.Guard(inner, self.settings, security),
            log_config=None,
            access_log=False,
            http=connections.Connection,
            ws="none",
            timeout_keep_alive=int(connections.WAIT_SECONDS),
            server_header=False,
            timeout_graceful_shutdown=1,
            ssl_certfile=self.place.certificate or None,
            ssl_keyfile=self.place.key or None,
        )
        return uvicorn.Server(config)


def _check(place: ListenAddress) -> None:
    if bool(place.certificate) != bool(place.key):
        raise UserError("TLS needs both a certificate and its key.", "Give --certificate FILE and --key FILE.")
    for path in (place.certificate, place.key):
        if path and not os.path.isfile(path):
            raise UserError(f"There is no file {path}.", "Give the paths of a certificate and its key, both as PEM.")


def _listening(app: App, place: ListenAddress) -> socket.socket:
    family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
    fault: OSError | None = None
    for port in [place.port] if place.port else [*endpoints.ports_before(app), 0]:
        made = socket.socket(family, socket.SOCK_STREAM)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind((place.host, port))
            made.listen(_BACKLOG)
        except OSError as error:
            made.close()
            fault = error
            continue
        return made
    raise UserError(
        f"Cannot listen on {place.host}:{place.port}: {fault.strerror if fault else ''}.",
        "Choose another with --host and --port; without --port any free one is taken.",
    )


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
