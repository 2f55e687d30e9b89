"""Call the person at this terminal when something needs them: its bell, its own notice, and one of the desktop where that takes no set-up."""

from __future__ import annotations

from handoff.base.ids import on_one_line
from handoff.base.process import feed, find
from handoff.base.record import TYPE_CHECKING
from handoff.engine.app.home import home_config

if TYPE_CHECKING:
    from handoff.engine.app import App

_LONGEST = 200
_BELL = "\x07"
_NO_NOTICE = ("", "dumb", "linux")
_SHOWS_ITSELF = ("iTerm.app", "WezTerm", "ghostty", "kitty")
"""Terminals that make a notice of the desktop out of the sequence; a second one would be too many."""


def call(app: App, text: str) -> str:
    """Show it on the desktop, and say what the terminal is to be sent; nothing where the setting `bell` is off."""
    if not home_config(app).values["bell"]:
        return ""
    text = on_one_line(" ".join(text.split()))[:_LONGEST]
    if app.settings.get("TERM_PROGRAM") not in _SHOWS_ITSELF and (argv := _program(app, text)):
        feed(["/bin/sh", "-c", '"$@" &', "handoff", *argv], b"", environment=app.settings.environment)
    notice = "" if app.settings.get("TERM") in _NO_NOTICE else f"\x1b]9;handoff: {text}{_BELL}"
    return notice + _BELL


def _program(app: App, text: str) -> list[str]:
    """The program of this desktop that shows a notice; nothing without a desktop."""
    settings = app.settings
    if (settings.get("DISPLAY") or settings.get("WAYLAND_DISPLAY")) and find("notify-send", path=settings.path):
        return ["notify-send", "--app-name=handoff", "--", "handoff", text]
    if settings.get("TERM_PROGRAM") == "Apple_Terminal" and find("osascript", path=settings.path):
        show = 'on run words\ndisplay notification (item 1 of words) with title "handoff"\nend run'
        return ["osascript", "-e", show, text]
    return []
