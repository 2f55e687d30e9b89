"""Where an HTTP port of ours listens, under which names it may be called, and the server that answers there."""

from __future__ import annotations

import errno
import os
import select
import socket

from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - what a person may ask for
_BACKLOG = 1024
_TRIES = 5
_SIX = "::1"


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
    def is_here(self) -> bool:
        """Whether a browser of this machine comes to it by any name that ends in `.localhost`."""
        return self.host in (*LOOPBACK[:2], *_EVERYWHERE)

    @property
    def every_name(self) -> tuple[str, ...]:
        """The names under which it may be called."""
        own = () if self.is_loopback else (self.host, os.uname().nodename)
        return (*LOOPBACK[:2], "[::1]", *self.names, *own)


class Listener:
    """A port that is open from the start; what answers there is built when the first caller knocks."""

    def __init__(self, place: ListenAddress, *, ports: Sequence[int] = ()) -> None:
        _check(place)
        self.place = place
        self.sockets = _listening(place, [place.port] if place.port else [*ports, *[0] * _TRIES])
        self.port = int(self.sockets[0].getsockname()[1])
        shown = LOOPBACK[0] if place.host in _EVERYWHERE else place.host
        shown = f"[{shown}]" if ":" in shown else shown
        self.url = f"{'https' if place.certificate else 'http'}://{shown}:{self.port}"

    def wait(self) -> None:
        """Until somebody calls."""
        select.select(self.sockets, [], [])

    def server(self, app: Any) -> Any:
        """What answers with `app`, with the limits of every port of ours."""
        import uvicorn

        from handoff.surfaces.http import connections

        config = uvicorn.Config(
            app,
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


def _listening(place: ListenAddress, ports: Sequence[int]) -> list[socket.socket]:
    """The first of the ports that is free, under both numbers of the loopback: nobody else answers there in our name."""
    fault: OSError | None = None
    for port in ports:
        try:
            first = _bound(place.host, port)
        except OSError as error:
            fault = error
            continue
        if not place.is_here or ":" in place.host:
            return [first]
        try:
            return [first, _bound(_SIX, first.getsockname()[1])]
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                return [first]  # this machine has no second number
            first.close()
            fault = error
    raise UserError(
        f"Cannot listen on {place.host}:{place.port}: {fault.strerror if fault else ''}.",
        "Choose another with --host and --port; without --port any free one is taken.",
    )


def _bound(host: str, port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if host == _SIX:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind((host, port))
        made.listen(_BACKLOG)
    except OSError:
        made.close()
        raise
    return made
