"""Where other programs listen: folders and sockets that do not exist inside the sandbox."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from handoff.agents.sandbox.home import inside

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_FOLDERS = ("XDG_RUNTIME_DIR", "TMUX_TMPDIR", "SCREENDIR", "ZELLIJ_SOCKET_DIR", "TMPDIR")
_ADDRESSES = tuple(
    """SSH_AUTH_SOCK GPG_AGENT_INFO DBUS_SESSION_BUS_ADDRESS DBUS_SYSTEM_BUS_ADDRESS DOCKER_HOST CONTAINER_HOST TMUX
    WAYLAND_DISPLAY PULSE_SERVER KITTY_LISTEN_ON NVIM NVIM_LISTEN_ADDRESS VSCODE_IPC_HOOK_CLI VSCODE_GIT_IPC_HANDLE PGHOST
    MYSQL_UNIX_PORT BUILDKIT_HOST""".split()
)
_KNOWN = tuple(
    """/var/run /var/lib/mysql/mysql.sock /var/lib/incus/unix.socket /var/lib/lxd/unix.socket
    /var/snap/lxd/common/lxd/unix.socket /var/snap/docker/common/run""".split()
)
_GENERAL = frozenset(
    ("/", *(f"/{name}" for name in "var opt srv home usr etc mnt dev root var/tmp var/lib tmp".split()))
)


def sockets(environment: Mapping[str, str], needed: Sequence[str]) -> list[str]:
    """Folders and sockets to hide: those everybody knows, and those the person's variables name.

    A folder that is more than a place for sockets (it holds something `needed`, or half the system) stays; what is known to
    listen there is hidden alone.
    """
    found = [path for path in _KNOWN if os.path.lexists(path) and not os.path.islink(path)]
    for name in _FOLDERS:
        folder = environment.get(name, "").rstrip("/")
        if folder.startswith("/"):
            found += [folder] if _is_own(folder, needed) else _tmux_in(folder)
    for name in _ADDRESSES:
        path = _path_in(environment.get(name, ""))
        if path:
            folder = path if os.path.isdir(path) else os.path.dirname(path)
            found.append(folder if _is_own(folder, needed) else path)
    return list(dict.fromkeys(os.path.realpath(path) for path in found if os.path.exists(path)))


def _path_in(address: str) -> str:
    """The path in an address such as `unix:path=/run/bus,guid=…`, `unix:///run/docker.sock`, `/tmp/tmux-0/default,12,0`."""
    for start in ("unix:path=", "unix:dir=", "unix:tmpdir=", "unix://", "unix:", ""):
        if address.startswith(start):
            path = address.removeprefix(start).partition(",")[0].partition(";")[0]
            return path.rstrip("/") if path.startswith("/") and path.strip("/") else ""
    return ""


def _is_own(folder: str, needed: Sequence[str]) -> bool:
    real = os.path.realpath(folder)
    return real not in _GENERAL and not any(inside(os.path.realpath(path), (real,)) for path in needed)


def _tmux_in(folder: str) -> list[str]:
    return [os.path.join(folder, f"tmux-{os.getuid()}")]
