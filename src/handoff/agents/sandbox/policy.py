"""What a session inside its sandbox may touch."""

from __future__ import annotations

from typing import NamedTuple

ALL, PROVIDERS, NONE = "all", "providers", "none"
NETWORKS = (ALL, PROVIDERS, NONE)
"""How far the network reaches, the widest first."""


class Policy(NamedTuple):
    """What a session may touch.

    The disk can be read, not written; `hidden` and the person's home cannot even be read, but for toolchains and `visible`.
    """

    workspace: str
    temp: str
    home: str
    owned: tuple[str, ...] | None = None
    """What of the workspace can be written, if not all of it."""
    writable: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    visible: tuple[str, ...] = ()
    frozen: tuple[str, ...] = ()
    stands_for: tuple[str, ...] = ()
    """Checkouts of the person that are hidden and whose paths, where something names them, mean the workspace."""
    variables: tuple[str, ...] = ()
    """Names of variables that are there inside beside those every program needs; a `*` at the end stands for many."""
    git_settings: str = ""
    """The person's own git settings without secrets, as a file; they stand in for those of the home."""
    network: str = ALL
    hosts: tuple[str, ...] = ()
    """What is reached where the network is `providers`: `name`, `*.name`, or with `:port`."""
    refused: str = ""
    """The file in which hosts are written down that were asked for and are not on that list."""
    terminal: bool = False
