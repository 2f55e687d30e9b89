"""How this copy of handoff was installed, and the command of that installer which upgrades it."""

from __future__ import annotations

import os
import sys
from importlib import metadata

from handoff.base.process import find, pass_through
from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from handoff.engine.app import App

NAME = "handoff-relay"


class Installation(Record):
    """The installer and its upgrade command; an empty command means: nothing to run."""

    by: str
    command: tuple[str, ...]
    why: str = ""


def installation(app: App) -> Installation:
    """Look at where we run from and at the installer's own marks."""
    prefix = os.path.realpath(sys.prefix)
    try:
        about = metadata.distribution(NAME)
    except metadata.PackageNotFoundError:
        return Installation("source", (), "It runs from a source tree: update that with git.")
    if '"editable": true' in (about.read_text("direct_url.json") or "").replace('"editable":true', '"editable": true'):
        return Installation("source", (), "It is installed in development mode: update its source tree with git.")
    if os.path.exists(os.path.join(prefix, "uv-receipt.toml")):
        return _with("uv tool", ("uv", "tool", "upgrade", NAME), app)
    if os.path.exists(os.path.join(prefix, "pipx_metadata.json")):
        return _with("pipx", ("pipx", "upgrade", NAME), app)
    if (about.read_text("INSTALLER") or "").strip() == "uv":
        return _with("uv pip", ("uv", "pip", "install", "--python", sys.executable, "--upgrade", NAME), app)
    return Installation("pip", (sys.executable, "-m", "pip", "install", "--upgrade", NAME))


def _with(by: str, command: tuple[str, ...], app: App) -> Installation:
    if find(command[0], path=app.settings.path) is None:
        return Installation(by, (), f"'{command[0]}' is not on PATH. Where it is, run: {' '.join(command)}")
    return Installation(by, command)


def upgrade(app: App, found: Installation) -> int:
    """Run the installer's own command on the person's terminal."""
    return pass_through(list(found.command), environment=app.settings.environment)
