"""What a session inside its sandbox may touch."""

from __future__ import annotations

from typing import NamedTuple


class Policy(NamedTuple):
    """What a session may touch. Everything else on the disk can be read, not written; `hidden` cannot even be read."""

    workspace: str
    temp: str
    home: str
    owned: tuple[str, ...] | None = None
    """What of the workspace can be written, if not all of it."""
    writable: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    visible: tuple[str, ...] = ()
    frozen: tuple[str, ...] = ()
    network: bool = True
    terminal: bool = False
