"""What can go wrong, said to people: a message, and a hint that tells what to do next."""

from __future__ import annotations

INTERRUPTED = 130
"""The exit code of a command that a person interrupted."""
PACKAGE = "handoff-relay"
"""What we are called where packages come from."""
UV_TOOL, PIPX, UV_PIP, PIP, ONE_FILE = "uv tool", "pipx", "uv pip", "pip", "one file"
HOMEBREW, CONTAINER, DEVCONTAINER = "Homebrew", "container", "devcontainer"
_MARK = "handoff-installed-by"  # what release/container and release/devcontainer write
_ENVIRONMENT = "python3 -m venv ~/.local/share/handoff/venv && ~/.local/share/handoff/venv/bin/pip install"


class HandoffError(Exception):
    """Every failure a person can meet. The surface prints message and hint and exits with `exit_code`."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UserError(HandoffError):
    """Something is missing or wrong in what we were given: a file, a name, a value."""


class ConfigError(UserError):
    """A settings file cannot be used; the message names file, line and key."""


class Away(UserError):
    """The database or the room on a disk is away for now: the same request will be granted later."""


class MissingPackage(UserError):
    """A package is missing; the hint is the command of the very installer that put handoff here."""

    def __init__(self, message: str, package: str = PACKAGE) -> None:
        where = ", in a clone of handoff" if installer() == ONE_FILE else ""
        super().__init__(message, f"Run{where}: {install_command(package)}")


def need(package: str, what: str, *, extra: str = "") -> None:
    """Say what is missing before anything has begun; `extra` is the extra of ours that brings it."""
    from importlib.util import find_spec

    if find_spec(package) is None:
        raise MissingPackage(f"{what} needs the package '{package}'.", f"{PACKAGE}[{extra}]" if extra else PACKAGE)


class UsageError(HandoffError):
    """The command line itself is wrong."""

    exit_code = 2


class Refused(HandoffError):
    """A guard said no: the request was understood and must not be done."""

    exit_code = 3


class Conflict(HandoffError):
    """Somebody else holds it, or the caller's fence is old."""

    exit_code = 4


def installer() -> str:
    """What this copy was installed with, by the marks each installer leaves."""
    import os
    import sys
    from importlib import metadata

    if os.path.exists(os.path.join(os.path.dirname(__file__), "..", "..", "bin", "handoff")):
        return ONE_FILE
    if os.path.exists(os.path.join(sys.prefix, "uv-receipt.toml")):
        return UV_TOOL
    if os.path.exists(os.path.join(sys.prefix, "pipx_metadata.json")):
        return PIPX
    if "/Cellar/" in sys.prefix:
        return HOMEBREW
    mark = os.path.join(sys.prefix, _MARK)
    if os.path.exists(mark):
        with open(mark, encoding="utf-8") as file:
            return file.read().strip()
    try:
        by = metadata.distribution(PACKAGE).read_text("INSTALLER") or ""
    except metadata.PackageNotFoundError:
        by = ""
    return UV_PIP if by.strip() == "uv" else PIP


def origin() -> str:
    """The clone that this copy was installed from, if it is there: no index has to know it. Else our name on the index."""
    import json
    import os
    from importlib import metadata
    from urllib.parse import unquote

    try:
        noted = json.loads(metadata.distribution(PACKAGE).read_text("direct_url.json") or "{}")
    except metadata.PackageNotFoundError:
        return PACKAGE
    folder = unquote(noted.get("url", "").removeprefix("file://"))
    copied = "dir_info" in noted and not noted["dir_info"].get("editable")
    return folder if copied and os.path.isfile(os.path.join(folder, "pyproject.toml")) else PACKAGE


def install_command(package: str = PACKAGE) -> str:
    """The command a person runs to have a package beside handoff, or handoff with one of its extras."""
    import shlex
    import sys

    name, ours, by = shlex.quote(package), package.startswith(PACKAGE), installer()
    extra = package.removeprefix(PACKAGE) if ours else ""
    if by == ONE_FILE:  # handoff itself, from a clone: beside the one file nothing can be put
        return f"{_ENVIRONMENT} {shlex.quote('.' + extra)}"
    if by == UV_TOOL:
        whole = shlex.quote(origin() + extra)
        return f"uv tool install --force {whole}" + ("" if ours else f" --with {name}")
    if by == PIPX:
        return f"pipx install --force {shlex.quote(origin() + extra)}" if ours else f"pipx inject {PACKAGE} {name}"
    python = shlex.quote(sys.executable)
    return f"uv pip install --python {python} {name}" if by == UV_PIP else f"{python} -m pip install {name}"
