"""An act that a button, a key or a request asks for: done on a thread with an App of its own, reported as its command would."""

from __future__ import annotations

import asyncio
import os
import platform
import traceback

from handoff import __version__
from handoff.base.clock import stamp
from handoff.base.errors import HandoffError, MissingPackage, UserError
from handoff.base.files import FULL, failure
from handoff.base.record import TYPE_CHECKING, Record
from handoff.engine.app import App
from handoff.engine.work import acts

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from handoff.base.settings import Settings
    from handoff.engine.work.act import Act, ActDone

_SECONDS = 600.0
"""A yes may run a check."""


class ActResult(Record):
    """The command line of an act, the exit code it would have and all it would print."""

    command: str
    code: int
    text: str


async def on_thread(call: Callable[..., Any], *values: Any) -> Any:
    """Call it on a thread and wait, but not for ever: what has begun goes on without whoever asked."""
    try:
        return await asyncio.wait_for(asyncio.to_thread(call, *values), _SECONDS)
    except TimeoutError:
        raise UserError(
            "This takes longer than 10 minutes and goes on in the background.", "See what came of it: handoff"
        ) from None


def perform(app: App, act: Act) -> ActDone:
    """Do it; a fault of our own becomes an error with a log, as on the command line."""
    try:
        return acts.perform(app, act)
    except HandoffError:
        raise
    except Exception as error:
        raise as_error(app, error, act.verb.split()) from error


def report(app: App, done: ActDone) -> str:
    """The lines of an act as its command prints them."""
    return "\n".join(filter(None, (done.text, done.hint, *done.notes, *app.notes)))


def perform_apart(settings: Settings, act: Act) -> ActResult:
    """Do it with an App of this thread's own; errors are part of the result."""
    app, line = App(settings), act.line(settings.program)
    try:
        done = perform(app, act)
        if done.refusal is None:
            return ActResult(line, 0 if done.ok else 1, report(app, done))
        return _refused(app, line, done.refusal, done.text)
    except HandoffError as error:
        return _refused(app, line, error)
    finally:
        app.close()


def _refused(app: App, line: str, error: HandoffError, *said: str) -> ActResult:
    hint = f"Hint: {error.hint}" if error.hint else ""
    text = "\n".join(filter(None, (f"Error: {error.message}", *said, hint, *app.notes)))
    return ActResult(line, error.exit_code, text)


# --- a fault of our own becomes a log that can be pasted into a report ------------------------------------------


class Bug(HandoffError):
    """A fault of our own."""

    exit_code = 70


def as_error(app: App, error: Exception, words: list[str]) -> HandoffError:
    """What a person reads of an exception nobody expected; a full disk is no fault of ours."""
    if isinstance(error, OSError) and error.errno in FULL:
        return failure(f"Cannot write {error.filename or app.settings.home}", error)
    if isinstance(error, ImportError) and not (error.name or "").startswith("handoff"):
        missing = error.name if isinstance(error, ModuleNotFoundError) else ""
        what = (
            f"This needs the package '{missing}'" if missing else f"A package that this needs cannot be loaded: {error}"
        )
        return MissingPackage(f"{what}.")
    path = _report(error, words, home=app.settings.home, now=app.clock.now())
    return Bug(
        f"handoff stumbled over a fault of its own: {type(error).__name__}: {error}",
        f"Please report it with this log: {path}" if path else "Please report it with the text above.",
    )


def _report(error: BaseException, words: list[str], *, home: str, now: float) -> str:
    """Write the log and return its path, or nothing if even that fails. Arguments may be private: only counted."""
    text = "\n".join(
        (
            f"handoff {__version__} on Python {platform.python_version()}, {platform.platform()}",
            f"command: handoff {' '.join(words[:1])} (+{max(0, len(words) - 1)} arguments)",
            "",
            "```",
            "".join(traceback.format_exception(error)).rstrip(),
            "```",
            "",
        )
    )
    moment = stamp(now).replace("-", "").replace(":", "")
    path = os.path.join(home, "logs", f"error-{moment}-{os.getpid()}.md")
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError:
        return ""
    return path
