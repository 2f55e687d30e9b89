"""Put text on the person's clipboard, and say truly whether that happened."""

from __future__ import annotations

import os
from base64 import b64encode

from handoff.base.process import feed, find
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from handoff.engine.app import App

_OSC52_LIMIT = 74_000  # what common terminals accept in one sequence


def copy(app: App, text: str) -> str:
    """How the text reached a clipboard, in words for the person; empty when it did not."""
    data = text.encode("utf-8", "surrogateescape")
    argv = program(app)
    if argv and feed(argv, data, environment=app.settings.environment) == 0:
        return f"Copied prompt to clipboard ({argv[0]})."
    return _by_terminal(app, data)


def program(app: App) -> list[str]:
    """The native clipboard program of this machine, ready to be fed; nothing when there is none."""
    if app.settings.get("HANDOFF_NO_PBCOPY"):
        return []
    return next((argv for argv in _programs(app) if find(argv[0], path=app.settings.path)), [])


def _programs(app: App) -> list[list[str]]:
    """The native clipboard programs that can work here, best first."""
    settings = app.settings
    found = [["pbcopy"]]
    if settings.get("WAYLAND_DISPLAY"):
        found.append(["wl-copy"])
    if settings.get("DISPLAY"):
        found += [["xclip", "-selection", "clipboard"], ["xsel", "--clipboard", "--input"]]
    if settings.get("TMUX"):
        found.append(["tmux", "load-buffer", "-w", "-"])
    found += [["termux-clipboard-set"], ["clip.exe"]]
    return found


def _by_terminal(app: App, data: bytes) -> str:
    """Ask the terminal itself (OSC 52), which also works over SSH; it never answers, so nothing is promised."""
    if app.settings.get("TERM") in ("", "dumb", "linux") or len(data) > _OSC52_LIMIT:
        return ""
    try:
        terminal = os.open("/dev/tty", os.O_WRONLY | os.O_NOCTTY)
    except OSError:
        return ""
    try:
        os.write(terminal, b"\x1b]52;c;" + b64encode(data) + b"\x07")
    except OSError:
        return ""
    finally:
        os.close(terminal)
    return "Sent to your terminal's clipboard (OSC 52). Not every terminal takes it: paste to be sure."
