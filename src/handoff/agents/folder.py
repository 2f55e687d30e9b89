"""The folder of one session: what it was given, what it said, how it ended. Only its owner can read it."""

from __future__ import annotations

import os

from handoff.agents.monitor import ERRORS, EVENTS, EXIT, MONITOR
from handoff.base.bounds import Running
from handoff.base.errors import Refused, UserError
from handoff.base.files import make_folder, read_text, write_atomic
from handoff.base.light_json import loads
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

BROKER, CLIENT = os.path.join("broker", "socket"), "client"
FACTS, BATON, PERMISSIONS, TOKEN = "session.json", "baton.md", "permissions", "token"
REFUSED = "refused-hosts"
HELLO, MCP_HELLO, CALLS, STOP, STOPPED, OUTCOME = "hello", "hello-mcp", "calls", "stop", "stopped", "outcome.json"
_NAMES = "abcdefghijklmnopqrstuvwxyz0123456789-"


def place(home: str, project: str, session: str) -> str:
    """Where the folder of a session is."""
    if not session or not set(session) <= set(_NAMES):
        raise UserError(f"'{session}' is not the id of a session.", "See: handoff session list")
    return os.path.join(home, project, "sessions", session)


def make(home: str, project: str, session: str) -> tuple[str, str]:
    """Make the folder of a session, closed to everybody else, because clients refuse homes below one that anybody may write.

    With it goes the session's secret, as an earlier start left it. It names the session, so that it is found without a search.
    """
    path = place(home, project, session)
    make_folder(os.path.dirname(path), mode=0o700)
    make_folder(path, mode=0o700)
    os.chmod(path, 0o700)
    return path, text_of(path, TOKEN).strip() or f"{session}.{os.urandom(24).hex()}"


def put(path: str, name: str, text: str) -> None:
    """Write one file of the folder. It matters while the session lives; a power cut that loses it ends the session too."""
    whole = os.path.join(path, name)
    make_folder(os.path.dirname(whole), mode=0o700)
    write_atomic(whole, text, mode=0o600, sync=False)


def refuse_detour(root: str, path: str) -> None:
    """A client may have put a link into its own folder before it is resumed: we do not follow it out of there."""
    real = os.path.realpath(os.path.dirname(path))
    top = os.path.realpath(root)
    if real != top and not real.startswith(top + "/"):
        raise Refused(
            f"{os.path.dirname(path)} leads out of the session's folder to {real}.",
            "The client planted that link: look at it, then start a fresh session.",
        )


def write(path: str, files: Mapping[str, str], of_client: Mapping[str, str], *, state: str = "") -> None:
    """Our files of the folder, and those its client needs there or in the folder of the conversation it resumes."""
    for name, text in of_client.items():
        root = next((one for one in (path, state) if one and os.path.abspath(name).startswith(one + "/")), "")
        if not root:
            raise UserError(f"An agent may write only into its session's folder, not {name}.", "Fix the adapter.")
        refuse_detour(root, name)
        put(root, os.path.relpath(name, root), text)
    for name, text in files.items():
        put(path, name, text)


def get(path: str, name: str) -> dict[str, Any]:
    """One JSON file of the folder; an empty mapping when it is not there."""
    text = text_of(path, name)
    try:
        value = loads(text) if text else {}
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def text_of(path: str, name: str) -> str:
    """One file of the folder as text; empty when it is not there."""
    whole = os.path.join(path, name)
    return read_text(whole) if os.path.exists(whole) else ""


def has_started(path: str) -> bool:
    """Whether a monitor has taken the session up; no second one ever does."""
    return os.path.exists(os.path.join(path, MONITOR))


def monitor_of(path: str) -> Running:
    """The monitor of the session, as far as it is known."""
    facts = get(path, MONITOR)
    return Running(int(facts.get("pid", 0)), str(facts.get("start", "")))


def exit_of(path: str) -> dict[str, Any]:
    """What the monitor wrote when all was over."""
    return get(path, EXIT)


def size_of(path: str, *names: str) -> int:
    """How much has been written, to see whether anything moves."""
    total = 0
    for name in names or (EVENTS, ERRORS, CALLS):
        try:
            total += os.stat(os.path.join(path, name)).st_size
        except OSError:
            continue
    return total


def ended_at(path: str) -> float:
    """When it was over, or said its last word where nobody saw its end; 0 when neither is known."""
    for names in ((EXIT,), (EVENTS, ERRORS)):
        moments = [os.stat(file).st_mtime for name in names if os.path.exists(file := os.path.join(path, name))]
        if moments:
            return max(moments)
    return 0.0


def tail(path: str, name: str, limit: int = 2000) -> str:
    """The end of one of its logs."""
    try:
        with open(os.path.join(path, name), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - limit))
            return file.read().decode("utf-8", "replace").strip()
    except OSError:
        return ""
