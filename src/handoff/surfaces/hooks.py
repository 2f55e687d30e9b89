"""`handoff hook DIALECT EVENT`: what an agent's client calls before an edit, at the start, at a stop.

It fails shut: a fault of our own inside one of our sessions is exit 2 with the reason, which every client takes as a no.
Outside our sessions it is never in anybody's way.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # without the enums of `signal`: they would be a third of our time
import os
import sys

from handoff.agents.dialects import (
    AFTER,
    COMPACT,
    DIALECTS,
    EXIT_REFUSED,
    HEARD,
    INSTALLED,
    SAID,
    START,
    STOP,
    Call,
    reply,
    understand,
)
from handoff.base.errors import HandoffError
from handoff.base.light_json import dumps, loads
from handoff.base.record import TYPE_CHECKING
from handoff.base.settings import from_environment

if TYPE_CHECKING:
    from types import FrameType

    from handoff.agents.dialects import Reply
    from handoff.engine.session.mailbox import Receipt

DEADLINE_SECONDS = 45.0
"""Shorter than the 60 s we are configured with: a hook that times out lets the edit through on every client."""
_PERSONS_SECONDS = 8.0
"""A client that a person started waits no longer for a relay that does not answer: it goes on without us."""
_MOST_BYTES = 64 * 1024 * 1024


class _TooLateError(Exception):
    """Our own deadline has passed."""


def main(words: list[str]) -> int:
    """Answer one call; standard input has the client's words."""
    settings = from_environment("handoff")
    if os.path.isabs(sys.argv[0]) and os.access(sys.argv[0], os.X_OK):  # a login shell may not find us by name
        settings = settings._replace(program=sys.argv[0])
    ours = bool(settings.get("HANDOFF_SESSION"))
    call = Call(event="other", name=words[1] if len(words) > 1 else "")
    try:
        _set_deadline(DEADLINE_SECONDS if ours else _PERSONS_SECONDS)
        dialect, name = _checked(words)
        if words[2:] and settings.get("HANDOFF_HOOKS"):
            return 0
        event = DIALECTS[dialect].events.get(name)
        text = _heard()
        if event == START and words[2:] and not ours:
            _note_heard(settings.home, dialect)
        waiting = _waiting(settings.home, settings.get("HANDOFF_SESSION"))
        if event == AFTER and not waiting:  # after every tool call of every agent: nothing more is loaded
            return 0
        if not ours and event != START and not waiting and not _has_claims(settings.home):
            return 0
        raw = loads(text) if text.strip() else {}
        call = understand(dialect, name, raw if isinstance(raw, dict) else {})
        from handoff.engine.app import App
        from handoff.engine.session.hooks import answer

        if call.folder and not ours and os.path.isdir(call.folder):
            os.chdir(call.folder)
        app = App(settings)
        said = answer(app, call)
        if said is None:
            from handoff.engine.work import person_hooks

            said = person_hooks.answer(app, call)
        given: list[Receipt] = []
        if waiting or (ours and event in (STOP, COMPACT)):
            from handoff.engine.session import mailbox

            said, given = mailbox.empty(app, call, said, waiting)
            if ours:
                mailbox.note_shortened(app, call, settings.get("HANDOFF_SESSION"))
        app.close()
        return _say(reply(dialect, call, said), settings.home, given)
    except Exception as error:  # noqa: BLE001 - a guard that breaks must say no, whatever broke
        return _broken(error, ours=ours, call=call, words=words)


def _checked(words: list[str]) -> tuple[str, str]:
    if len(words) < 2 or words[2:] not in ([], [INSTALLED]) or words[0] not in DIALECTS:  # noqa: PLR2004 - a dialect and an event
        known = ", ".join(DIALECTS)
        raise HandoffError(f"the hook is called as `handoff hook DIALECT EVENT`; dialects: {known}")
    return words[0], words[1]


def _note_heard(home: str, dialect: str) -> None:
    """Leave a mark that this client really runs its hooks: `doctor` tells it. A home that is not there is not made."""
    folder = os.path.join(home, HEARD)
    try:
        if os.path.isdir(home) and not os.path.isdir(folder):
            os.mkdir(folder)
        fd = os.open(os.path.join(folder, dialect), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        os.utime(fd)
        os.close(fd)
    except OSError:
        return


def _has_claims(home: str) -> bool:
    """Whether anybody on this machine holds a task by hand: without that there is nothing to ask the relay."""
    try:
        return any(name.endswith(".session") for name in os.listdir(os.path.join(home, "sessions")))
    except OSError:
        return False


def _waiting(home: str, session: str) -> list[str]:
    """The marks of words that wait for a session, or for any on this machine where the client is nobody's of ours."""
    try:
        names = os.listdir(os.path.join(home, SAID))
    except OSError:
        return []
    return [name for name in names if name.partition(".")[0] == session] if session else names


def _heard() -> str:
    parts: list[bytes] = []
    size = 0
    try:
        while chunk := os.read(0, 1 << 20):
            parts.append(chunk)
            size += len(chunk)
            if size > _MOST_BYTES:
                raise HandoffError("the client's call is too large")
    except OSError:
        return ""
    return b"".join(parts).decode("utf-8", "replace")


def _say(said: Reply, home: str, given: list[Receipt]) -> int:
    if said.out is not None:
        os.write(1, dumps(said.out).encode() + b"\n")
    if said.error:
        os.write(2, said.error.encode("utf-8", "replace") + b"\n")
    if given:
        from contextlib import suppress

        from handoff.engine.session.mailbox import leave_receipts

        with suppress(HandoffError):  # the client has its answer, whatever becomes of the receipt
            leave_receipts(home, given)
    return said.code


def _broken(error: Exception, *, ours: bool, call: Call, words: list[str]) -> int:
    reason = error.message if isinstance(error, HandoffError) else f"{type(error).__name__}: {error}"
    text = f"handoff: the hook could not answer ({reason})."
    if not ours:
        os.write(2, text.encode("utf-8", "replace") + b"\n")
        return 0
    os.write(2, f"{text} Nothing is allowed until it works: handoff setup hooks status\n".encode("utf-8", "replace"))
    event = DIALECTS[words[0]].events.get(words[1]) if len(words) > 1 and words[0] in DIALECTS else ""
    if event == AFTER:
        return 0  # what it is about has happened
    if event == STOP and (call.refused_before or call.event != STOP):
        return 0  # a session that cannot end is worse than one that ends early: the supervisor looks at it next
    return EXIT_REFUSED


def _set_deadline(seconds: float) -> None:
    def late(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise _TooLateError(f"no answer within {seconds:g} s")

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
