"""How this copy of handoff was installed, and the command of that installer which upgrades it."""

from __future__ import annotations

import sys
from importlib import metadata

from handoff.base.errors import CONTAINER, DEVCONTAINER, HOMEBREW, ONE_FILE, PACKAGE, PIPX, UV_PIP, UV_TOOL, installer
from handoff.base.process import find, pass_through
from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from handoff.engine.app import App


class Installation(Record):
    """The installer and its upgrade command; an empty command means: nothing to run."""

    by: str
    command: tuple[str, ...]
    why: str = ""


def installation(app: App) -> Installation:
    """Look at where we run from and at the installer's own marks."""
    if installer() == ONE_FILE:
        return Installation(ONE_FILE, (), "It is one file: put a newer handoff.pyz in its place.")
    try:
        about = metadata.distribution(PACKAGE)
    except metadata.PackageNotFoundError:
        return Installation("source", (), "It runs from a source tree: update that with git.")
    if '"editable": true' in (about.read_text("direct_url.json") or "").replace('"editable":true', '"editable": true'):
        return Installation("source", (), "It is installed in development mode: update its source tree with git.")
    by = installer()
    if by == CONTAINER:
        command = "docker compose -f release/container/compose.yaml up --build --detach"
        return Installation(
            by, (), f"It is part of an image. In a newer clone of handoff, outside the container: {command}"
        )
    if by == DEVCONTAINER:
        command = "devcontainer up --workspace-folder . --remove-existing-container --build-no-cache"
        return Installation(by, (), f"It is part of a dev container. Outside it, in your project: {command}")
    commands = {
        HOMEBREW: ("brew", "upgrade", PACKAGE),
        UV_TOOL: ("uv", "tool", "upgrade", PACKAGE),
        PIPX: ("pipx", "upgrade", PACKAGE),
        UV_PIP: ("uv", "pip", "install", "--python", sys.executable, "--upgrade", PACKAGE),
    }
    if by in commands:
        return _with(by, commands[by], app)
    return Installation(by, (sys.executable, "-m", "pip", "install", "--upgrade", PACKAGE))


def _with(by: str, command: tuple[str, ...], app: App) -> Installation:
    if find(command[0], path=app.settings.path) is None:
        return Installation(by, (), f"'{command[0]}' is not on PATH. Where it is, run: {' '.join(command)}")
    return Installation(by, command)


def upgrade(app: App, found: Installation) -> int:
    """Run the installer's own command on the person's terminal."""
    return pass_through(list(found.command), environment=app.settings.environment)
