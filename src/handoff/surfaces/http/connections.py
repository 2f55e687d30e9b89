"""Connections to the relay's HTTP port: whoever dawdles over a request, or opens too many, stands in nobody's way."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio

MOST_WAITING = 256
"""Connections of which we wait for bytes; the oldest makes room for the newest."""
WAIT_SECONDS = 30.0


class Connection(H11Protocol):
    """One connection. While its next request is not here as a whole it may be closed: after a time, or for a newer one.

    An honest client sends a request in one go, so the one that is closed for a newcomer is idle or a dawdler.
    """

    _waiting: ClassVar[dict[Connection, None]] = {}
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in the class above
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._sort()

    def data_received(self, data: bytes) -> None:
        """A piece of a request."""
        super().data_received(data)
        self._sort()

    def on_response_complete(self) -> None:
        """The caller may ask again on this connection."""
        super().on_response_complete()
        self._sort()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        self._forget()
        super().connection_lost(exc)

    def _sort(self) -> None:
        """Among those of which we wait for something, or not."""
        whole = self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body
        if whole or self.transport.is_closing():
            self._forget()
        elif self not in self._waiting:
            self._waiting[self] = None
            self._late = self.loop.call_later(WAIT_SECONDS, self.transport.abort)
            if len(self._waiting) > MOST_WAITING:
                next(iter(self._waiting)).transport.abort()

    def _forget(self) -> None:
        self._waiting.pop(self, None)
        if self._late is not None:
            self._late.cancel()
            self._late = None
