"""Buttons: each is an act of the engine, with the words of its form; what came of it is shown with the command that does the same."""

from __future__ import annotations

import secrets
from collections import OrderedDict

from starlette.responses import JSONResponse, RedirectResponse, Response

from handoff.base.errors import HandoffError, UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.tasks.tasks import LANDINGS
from handoff.engine.acts.act import Act
from handoff.engine.app import App
from handoff.engine.clients import agents
from handoff.engine.outcome import whole_check
from handoff.engine.workspaces import projects
from handoff.surfaces.acting import ActResult, on_thread, perform_apart
from handoff.surfaces.page.guard import FORM

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from starlette.requests import Request

    from handoff.base.settings import Settings

_KEPT = 100
_LONGEST = 4000


ACTS: dict[str, tuple[str, tuple[str, ...], str]] = {
    "yes": ("answer", ("yes",), "reason"),
    "no": ("answer", ("no",), "reason"),
    "edit": ("answer", ("edit",), "text"),
    "say": ("answer", (), ""),
    "retry": ("retry", (), ""),
    "again": ("retry", (), "note"),
    "cancel": ("cancel", (), "reason"),
    "pause": ("pause", (), ""),
    "resume": ("resume", (), ""),
    "agent": ("agent retry", (), ""),
    "seen": ("incident seen", (), ""),
    "comment": ("task comment", (), ""),
    "tell": ("session say", (), ""),
    "stop": ("session stop", (), "reason"),
    "land": ("land", (), ""),
    "undo": ("undo", (), ""),
    "add": ("task add", (), ""),
    "work": ("work", (), ""),
}
"""Each button: its act, the words after the address, and the option that takes the text of the form."""
WHOLE = ("pause", "resume", "add", "work")
"""What may be about a project and nothing of it; without a project about everything."""
NEEDS_TEXT = {
    "comment": "Say what the next session is to mind.",
    "no": "Say why: the next session reads it.",
    "edit": "The text is empty: nothing was answered.",
    "say": "The answer is empty: nothing was answered.",
    "tell": "Nothing was said: write your words first.",
    "add": "Say what is to be done: no task was written.",
}
HURTS = ("cancel",)
"""What asks once more: its form has a box to tick."""
OWN_CHECK = "own"
"""A command to run never comes by network: a form says that the project's own tests check it, or nothing."""


class Offer(Record):
    """What the form of a new task offers."""

    agents: tuple[str, ...]
    check: str
    """The command of the project's own tests; empty where there are none, or several projects."""


def offers(app: App, project: str) -> Offer:
    """What there is to choose from for a task of this project, or of any."""
    try:
        check = whole_check.found(app, projects.checkout(app, project)) if project else ""
        return Offer(tuple(agents.find_installed(app)), check)
    except HandoffError:
        return Offer((), "")  # whoever adds a task is told why


class Acts:
    """Runs what buttons ask for, and remembers for a while what came of it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._results: OrderedDict[str, list[ActResult]] = OrderedDict()

    def result(self, name: str) -> list[ActResult]:
        return self._results.get(name, [])

    async def respond(self, request: Request, allowed: Collection[str], *, limited: bool) -> Response:
        """Do it; a script is told at once, a browser without one is sent back to where it was."""
        fields: list[tuple[str, str]] = request.scope[FORM]
        form = dict(fields)
        addresses = [value for name, value in fields if name == "of"]
        try:
            asked = [await on_thread(self._act, form, address, allowed, limited) for address in addresses]
            results = [await on_thread(perform_apart, self._settings, act) for act in asked]
        except HandoffError as error:
            results = [ActResult("", 2, "\n".join(filter(None, (error.message, error.hint))))]
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

    def _act(self, form: dict[str, str], address: str, allowed: Collection[str], limited: bool) -> Act:
        act, text = form.get("act", ""), form.get("text", "").replace("\r\n", "\n").strip()
        project, _, name = address.partition("/")
        bound = act in WHOLE and not name
        if (
            act not in ACTS
            or not (name or act in WHOLE)
            or name.startswith("-")
            or (project and project not in allowed)
            or (bound and not project and limited)
        ):
            raise UserError("This page knows no such button.", "Reload the page and try again.")
        if act in NEEDS_TEXT and not text:
            raise UserError(NEEDS_TEXT[act])
        if act in HURTS and form.get("sure") != "yes":
            raise UserError("Tick the box if you mean it: nothing was changed.")
        verb, words, option = ACTS[act]
        options: dict[str, Any] = {option: text} if option and text else {}
        if act == "comment":
            words, options = (form.get("place", ""), text), {"quote": form.get("quote", "")}
        elif act in ("say", "tell"):
            words = (text,)
            options |= {"now": True} if act == "tell" and form.get("now") == "yes" else {}
        elif act == "add":
            words, options = (text,), self._new_task(form, project)
        elif act == "work":
            options = {"agent": form.get("agent", "").strip(), "all_projects": not project, "detach": True}
        elif act == "again":
            given = {key: form.get(key, "").strip() for key in ("agent", "model")}
            options |= {key: value for key, value in given.items() if value}
        elif act == "stop" and form.get("hold") == "yes":
            options["hold"] = True
        if bound and not project and act in ("pause", "resume"):
            options["everything"] = True
        return Act(verb, (name, *words) if name else words, options, project)

    def _new_task(self, form: dict[str, str], project: str) -> dict[str, Any]:
        found = {"agent": form.get("agent", "").strip(), "landing": form.get("landing", "")}
        if found["landing"] not in ("", *LANDINGS):
            raise UserError("This page knows no such landing.", "Reload the page and try again.")
        if form.get("check") == OWN_CHECK:
            app = App(self._settings)
            try:
                found["check"] = whole_check.found(app, projects.checkout(app, project))
            finally:
                app.close()
        return {key: value for key, value in found.items() if value}


def _short(one: ActResult) -> str:
    return one.text.strip()[:_LONGEST] or "Done."


def as_values(results: list[ActResult]) -> list[dict[str, Any]]:
    """For a template."""
    return [{"command": one.command, "good": one.code == 0, "text": _short(one)} for one in results]
