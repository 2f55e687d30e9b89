"""The last conversation a person had in this folder with their own client, as its hook named it: what was said there is not lost."""

from __future__ import annotations

import os
from zlib import crc32

from handoff.base.files import make_folder, read_text, write_atomic
from handoff.base.light_json import dumps, loads
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from handoff.engine.app import App
    from handoff.engine.features.recall import PastSession

FOLDER = "conversations"
"""In the home: one small file for each folder, with where the client keeps what was said; never what was said."""


def place_of(home: str, folder: str) -> str:
    """Where it is noted which conversation was the last one in a folder."""
    return os.path.join(home, FOLDER, f"{crc32(os.fsencode(os.path.realpath(folder))):08x}.json")


def note(app: App, *, folder: str, client: str, path: str, session: str) -> None:
    """Remember the conversation that begins now, for the one after it; a home that is not there is not made."""
    if not path or not os.path.isdir(app.settings.home):
        return
    target = place_of(app.settings.home, folder)
    make_folder(os.path.dirname(target), mode=0o700)
    facts = {"client": client, "path": path, "session": session, "folder": os.path.realpath(folder)}
    write_atomic(target, dumps(facts) + "\n", mode=0o600, sync=False)


def last(app: App, *, folder: str, client: str = "", session: str = "") -> PastSession | None:
    """What is known of the conversation before: not of `session` itself, and for a client only of its own kind, because
    what was said to one vendor goes to another only where the person sees it."""
    target = place_of(app.settings.home, folder)
    if not os.path.isfile(target):
        return None
    try:
        known = loads(read_text(target))
    except ValueError:
        return None
    if not isinstance(known, dict) or known.get("folder") != os.path.realpath(folder):
        return None
    whose, name, path = (str(known.get(key) or "") for key in ("client", "session", "path"))
    if (client and client != whose) or (session and session == name):
        return None
    return _read(app, whose, name, path, folder)


def _read(app: App, client: str, session: str, path: str, folder: str) -> PastSession | None:
    from handoff.agents.history.facts import facts
    from handoff.agents.history.stores.table import STORES, StoredSession, read_entries, store_root
    from handoff.base.errors import HandoffError
    from handoff.base.redaction import secret_values
    from handoff.engine.features.recall import PastSession

    if client not in STORES or not os.path.isfile(path):
        return None
    at = os.path.getmtime(path)
    stored = StoredSession(
        client=client,
        id=session,
        path=path,
        root=store_root(client, app.settings.environment),
        folder=os.path.realpath(folder),
        at=at,
    )
    try:
        found = facts(read_entries(stored), secrets=secret_values(app.settings.environment))
    except HandoffError:
        return None  # a store that cannot be read takes nothing from the prompt
    return PastSession(session[:13] or "unknown", client, found.at or at, found)
