"""What a button does: one of our own commands, run as a person would type it, and shown with what it said."""

from __future__ import annotations

import secrets
import shlex
from collections import OrderedDict

from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, RedirectResponse

from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.surfaces.own_commands import run_own
from handoff.surfaces.page.guard import FORM

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from starlette.requests import Request
    from starlette.responses import Response

    from handoff.base.settings import Settings

_KEPT = 100
_LONGEST = 4000


class ActResult(Record):
    """What a command said."""

    command: str
    code: int
    text: str

    @property
    def short(self) -> str:
        return self.text.strip()[:_LONGEST] or "Done."


def _spoken(*words: str) -> Callable[[str, str], list[str]]:
    """A command whose last option is the text of the form; without text it is left out."""

    def made(name: str, text: str) -> list[str]:
        before = [name if word == "NAME" else word for word in words[:-1]]
        return [*before, f"{words[-1]}={text}"] if text else before

    return made


def _plain(*words: str) -> Callable[[str, str], list[str]]:
    return lambda name, _: [*words, name]


ACTS: dict[str, Callable[[str, str], list[str]]] = {
    "yes": _spoken("answer", "NAME", "yes", "--reason"),
    "no": _spoken("answer", "NAME", "no", "--reason"),
    "edit": _spoken("answer", "NAME", "edit", "--text"),
    "retry": _plain("retry"),
    "cancel": _spoken("cancel", "NAME", "--reason"),
    "pause": _plain("pause"),
    "resume": _plain("resume"),
    "agent": _plain("agent", "retry"),
    "seen": _plain("incident", "seen"),
}
"""Each button and the words of its command."""
COMMENT = "comment"
NEEDS_TEXT = {
    COMMENT: "Say what the next session is to mind.",
    "no": "Say why: the next session reads it.",
    "edit": "The text is empty: nothing was answered.",
}
HURTS = ("cancel",)
"""What asks once more: its form has a box to tick."""


class Acts:
    """Runs what buttons ask for, and remembers for a while what came of it."""

    def __init__(self, settings: Settings, *, project: str) -> None:
        self._settings, self._project = settings, project
        self._results: OrderedDict[str, list[ActResult]] = OrderedDict()

    def result(self, name: str) -> list[ActResult]:
        return self._results.get(name, [])

    async def respond(self, request: Request) -> Response:
        """Do it; a script is told at once, a browser without one is sent back to where it was."""
        fields: list[tuple[str, str]] = request.scope[FORM]
        form = dict(fields)
        addresses = [value for name, value in fields if name == "of"]
        try:
            commands = [self._words(form, address) for address in addresses]
        except UserError as error:
            results = [ActResult("", 2, error.message)]
        else:
            results = [await run_in_threadpool(self._run, words) for words in commands]
        if request.headers.get("accept", "").startswith("application/json"):
            said = [{"command": one.command, "code": one.code, "text": one.short} for one in results]
            return JSONResponse({"results": said})
        name = secrets.token_urlsafe(8)
        self._results[name] = results
        while len(self._results) > _KEPT:
            self._results.popitem(last=False)
        back = form.get("back", "/")
        back = back.partition("?")[0] if back.startswith("/") and not back.startswith(("//", "/\\")) else "/"
        return RedirectResponse(f"{back}?result={name}", 303)

    def _words(self, form: dict[str, str], address: str) -> list[str]:
        act, text = form.get("act", ""), form.get("text", "").replace("\r\n", "\n").strip()
        project, _, name = address.partition("/")
        if (
            act not in (*ACTS, COMMENT)
            or not name
            or name.startswith("-")
            or (self._project and project not in ("", self._project))
        ):
            raise UserError("This page knows no such button.")
        if act in NEEDS_TEXT and not text:
            raise UserError(NEEDS_TEXT[act])
        if act in HURTS and form.get("sure") != "yes":
            raise UserError("Tick the box if you mean it: nothing was changed.")
        where = ["--project", project] if project else []
        if act == COMMENT:
            return [
                "task",
                "comment",
                *where,
                f"--quote={form.get('quote', '')}",
                "--",
                name,
                form.get("place", ""),
                text,
            ]
        return [*ACTS[act](name, text), *where]

    def _run(self, words: list[str]) -> ActResult:
        code, text = run_own(self._settings, words)
        return ActResult(shlex.join([self._settings.program, *words]), code, text)


def as_values(results: list[ActResult]) -> list[dict[str, Any]]:
    """For a template."""
    return [{"command": one.command, "good": one.code == 0, "text": one.short} for one in results]
