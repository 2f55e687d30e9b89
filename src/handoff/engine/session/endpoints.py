"""Where the relay's tools can be called over HTTP, and who a caller with a token is."""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import sha256
from hmac import compare_digest

from handoff.agents import folder as folders
from handoff.base.clock import boot_id
from handoff.base.errors import Refused
from handoff.base.files import create_exclusive, make_folder, read_text, remove, write_atomic
from handoff.base.light_json import dumps, loads
from handoff.base.process import start_of
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board import tokens
from handoff.board.sessions import sessions

if TYPE_CHECKING:
    from typing import Any

    from handoff.base.settings import Settings
    from handoff.engine.app import App

PATH, GATES = "/mcp", "/gates"
TOOLS, PAGES = "endpoints", "pages"
"""Kinds of endpoints, each a folder in the home: the relay's tools, and the page."""
_TOKEN = "mcp.token"  # noqa: S105 - the name of the file
_PERSON = "person"
_KEPT = ("HANDOFF_HOME", "HANDOFF_DATABASE_URL", "HANDOFF_SANDBOX")


# --- where -------------------------------------------------------------------------------------------------


def publish(app: App, *, url: str, port: int, kind: str = TOOLS, project: str = "") -> None:
    """Tell this machine where to call; what endpoints of that kind that are gone have told is forgotten."""
    folder = os.path.join(app.settings.home, kind)
    make_folder(folder, mode=0o700)
    for name, told in _told(app, kind):
        if not _lives(told):
            remove(os.path.join(folder, name))
    here = {"url": url, "port": port, "pid": os.getpid(), "start": start_of(os.getpid()), "boot": boot_id()}
    here["project"] = project
    write_atomic(os.path.join(folder, f"{os.getpid()}.json"), dumps(here), mode=0o600)


def address(app: App, *, kind: str = TOOLS, project: str = "") -> str:
    """Where an endpoint of this machine answers, for that project or for all; empty when none does."""
    found = (told for _, told in _told(app, kind) if told.get("project", "") == project and _lives(told))
    return next((str(told["url"]) for told in found), "")


def awake(app: App) -> str:
    """The same, and we knock there, so that an endpoint nobody has called yet is ready by the time the client is."""
    url = address(app)
    if url:
        import socket
        from urllib.parse import urlsplit

        place = urlsplit(url)
        with suppress(OSError):
            socket.create_connection((place.hostname or "", place.port or 0), timeout=1.0).close()
    return url


def ports_before(app: App, *, kind: str = TOOLS) -> list[int]:
    """The ports of endpoints that are gone: their sessions still call there, so the next endpoint answers there."""
    return [int(told["port"]) for _, told in _told(app, kind) if not _lives(told)]


def _told(app: App, kind: str) -> list[tuple[str, dict[str, Any]]]:
    folder = os.path.join(app.settings.home, kind)
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    found = []
    for name in names:
        if name.endswith(".json") and not name.startswith("."):
            try:
                found.append((name, loads(read_text(os.path.join(folder, name)))))
            except (ValueError, OSError):
                continue
    return found


def _lives(told: dict[str, Any]) -> bool:
    return told.get("boot") == boot_id() and bool(told["start"]) and start_of(int(told["pid"])) == told["start"]


def source(app: App) -> str:
    """Which relay speaks: the same for every host that uses the database, so that id and source name an event."""
    return f"urn:handoff:{sha256(app.database.place.encode('utf-8', 'surrogateescape')).hexdigest()[:12]}"


# --- who ---------------------------------------------------------------------------------------------------


def person_token(app: App, *, rotate: bool = False) -> str:
    """The secret of the person whose home this is, made on first use; a new one makes the old one worthless at once."""
    path = os.path.join(app.settings.home, _TOKEN)
    fresh = f"{_PERSON}.{os.urandom(24).hex()}\n"
    make_folder(app.settings.home, mode=0o700)
    if rotate:
        write_atomic(path, fresh, mode=0o600)
    elif not os.path.exists(path):
        create_exclusive(path, fresh, mode=0o600)
    return read_text(path).strip()


class HttpCaller(Record):
    """Who calls over HTTP: by which name, what it may do, in which project (empty: all), and with which settings."""

    name: str
    scope: str
    project: str
    settings: Settings


def caller_of(app: App, *, token: str) -> HttpCaller | None:
    """Whose token it is: the person's own, or one that was made with `token new`; a session's token is for its tools alone."""
    who, _, secret = token.partition(".")
    if not secret:
        return None
    if who == _PERSON:
        path = os.path.join(app.settings.home, _TOKEN)
        if not os.path.exists(path) or not _same(read_text(path).strip(), token):
            return None
        return HttpCaller(_PERSON, tokens.STEER, "", app.settings._replace(environment=_bare(app)))
    found = tokens.check(app.database, token)
    if found is None:
        return None
    named = {**_bare(app), "USER": f"token {found.name}"}  # so that the journal says who it was
    return HttpCaller(found.name, found.scope, found.project, app.settings._replace(environment=named))


def identify(app: App, *, token: str, folder: str = "") -> Settings | None:
    """Who calls with this token: the settings its tools work with; None for a token nobody has."""
    who, _, secret = token.partition(".")
    if not secret:
        return None
    if who == _PERSON or who.startswith(tokens.MARK):
        caller = caller_of(app, token=token)
        if caller is None:
            return None
        if caller.scope != tokens.STEER or caller.project:
            raise Refused(
                f"The token '{caller.name}' is no key to the tools: they change things in every project.",
                "Take: handoff token new NAME --scope steer --all-projects",
            )
        return caller.settings._replace(folder=folder or app.settings.folder)
    known = sessions.get(app.database, id=who)
    if known is None or known.ended_at is not None:
        return None
    place = folders.place(app.settings.home, known.project, known.id)
    if not _same(folders.text_of(place, folders.TOKEN).strip(), token):
        return None
    facts = folders.get(place, folders.FACTS)
    return app.settings._replace(
        environment={
            **_bare(app),
            "HANDOFF_SESSION": known.id,
            "HANDOFF_PROJECT": known.project,
            "HANDOFF_TOKEN": token,
            "HANDOFF_TASK": str(facts.get("task", "")),
            "HANDOFF_FENCE": str(facts.get("fence", "")),
        },
        folder=str(facts.get("workspace") or known.workspace),
    )


def _bare(app: App) -> dict[str, str]:
    """The server's own environment without what names a session: the caller is not whoever started the server."""
    return {
        name: value
        for name, value in app.settings.environment.items()
        if not name.startswith("HANDOFF_") or name in _KEPT
    }


def _same(known: str, given: str) -> bool:
    return bool(known) and compare_digest(known.encode(), given.encode("utf-8", "replace"))


def call_in(settings: Settings) -> None:
    """The handshake over MCP: whoever speaks with a session's token leaves it in the session's folder."""
    session, project = settings.get("HANDOFF_SESSION"), settings.get("HANDOFF_PROJECT")
    token = settings.get("HANDOFF_TOKEN")
    if not session or not project or not token or "/" in project:
        return
    place = folders.place(settings.home, project, session)
    if os.path.isdir(place) and folders.text_of(place, folders.MCP_HELLO).strip() != token:
        folders.put(place, folders.MCP_HELLO, token + "\n")
