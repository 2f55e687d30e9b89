"""What a button does: an act, shown as the command line that does the same, with what came of it."""

from __future__ import annotations

import secrets
from collections import OrderedDict

from starlette.responses import JSONResponse, RedirectResponse

from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING
from handoff.engine.acts import Act
from handoff.surfaces.acting import ActResult, on_thread, perform_apart
from handoff.surfaces.page.guard import FORM

if TYPE_CHECKING:
    from typing import Any

    from starlette.requests import Request
    from starlette.responses import Response

    from handoff.base.settings import Settings

_KEPT = 100
_LONGEST = 4000


ACTS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "yes": ("answer", ("yes",), "reason"),
    "no": ("answer", ("no",), "reason"),
    "edit": ("answer", ("edit",), "text"),
    "retry": ("retry", (), ""),
    "cancel": ("cancel", (), "reason"),
    "pause": ("pause", (), ""),
    "resume": ("resume", (), ""),
    "agent": ("agent retry", (), ""),
    "seen": ("incident seen", (), ""),
}
"""Each button: its act, the words after the address, and the option that takes the text of the form."""
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
            asked = [self._act(form, address) for address in addresses]
            results = [await on_thread(perform_apart, self._settings, act) for act in asked]
        except UserError as error:
            results = [ActResult("", 2, error.message)]
        if request.headers.get("accept", "").startswith("application/json"):
            said = [{"command": one.command, "code": one.code, "text": _short(one)} for one in results]
            return JSONResponse({"results": said})
        name = secrets.token_urlsafe(8)
        self._results[name] = results
        while len(self._results) > _KEPT:
            self._results.popitem(last=False)
        back = form.get("back", "/")
        back = back.partition("?")[0] if back.startswith("/") and not back.startswith(("//", "/\\")) else "/"
        return RedirectResponse(f"{back}?result={name}", 303)

    def _act(self, form: dict[str, str], address: str) -> Act:
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
        if act == COMMENT:
            return Act("task comment", (name, form.get("place", ""), text), {"quote": form.get("quote", "")}, project)
        verb, words, option = ACTS[act]
        return Act(verb, (name, *words), {option: text} if option and text else {}, project)


def _short(one: ActResult) -> str:
    return one.text.strip()[:_LONGEST] or "Done."


def as_values(results: list[ActResult]) -> list[dict[str, Any]]:
    """For a template."""
    return [{"command": one.command, "good": one.code == 0, "text": _short(one)} for one in results]
