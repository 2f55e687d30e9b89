"""The relay's tools as an agent calls them: one sentence in, one text out; who calls is known from the session's environment."""

from __future__ import annotations

import json
import os

from handoff.base.clock import span
from handoff.base.errors import Refused, UserError
from handoff.base.record import TYPE_CHECKING
from handoff.board.tasks import states, tasks
from handoff.engine.app.home import find_project
from handoff.engine.place import task_clones
from handoff.engine.place.baton import for_holder
from handoff.engine.place.proof import evidence
from handoff.engine.session import current, hooks
from handoff.engine.session import report as journey
from handoff.engine.work import acts
from handoff.engine.work.tasks import create, requests
from handoff.engine.work.tasks.manifests import SUB_TASK_KEYS

if TYPE_CHECKING:
    from handoff.engine.app import App


_PART = ("owns", "after", *(key for key in SUB_TASK_KEYS if key not in ("file_ownership", "depends_on")))


def task(app: App) -> str:
    """Your task: its baton, with what you may change, how it is checked and how to report."""
    permissions = hooks.read_permissions(app)
    if permissions is not None:
        with open(os.path.join(permissions.folder, "baton.md"), encoding="utf-8") as file:
            return file.read()
    return for_holder(app, current.find(app).task)


def claim(app: App, name: str = "") -> str:
    """Take a task: the named one, or the next ready one. Gives its baton."""
    if hooks.read_permissions(app) is not None:
        raise Refused("You were started for your task and hold it.", "See it with the `task` tool.")
    taken = journey.take(app, task=name, by_model=True)
    words = f"You hold '{taken.task.label}' as session {taken.session.id} with fence {taken.fence}."
    return f"{words}\n\n{for_holder(app, taken.task)}"


def note(app: App, text: str) -> str:
    """Leave a line for whoever goes on with your task."""
    requests.add_note(app, current.find(app), text=text)
    return "Noted."


def finish(app: App, summary: str) -> str:
    """Report your task done. Its check is run and your changes are held against what you own; a no says why."""
    done = journey.finish(app, current.find(app), summary=summary)
    if done.waits:
        return f"Your work is judged and kept. It waits for a person before it lands: {done.waits} You may stop."
    green = f" `{done.evidence.verdict.command}` is green." if done.evidence.verdict else ""
    return f"Task '{done.outcome.task.label}' is done.{green} You may stop."


def block(app: App, reason: str) -> str:
    """Report that your task cannot go on, and what you would need."""
    outcome = journey.block(app, current.find(app), reason=reason)
    return f"Task '{outcome.task.label}' is blocked; a person will see the reason. You may stop."


def ask_human(
    app: App,
    question: str = "",
    text: str = "",
    within: str = "",
    default: str = "",
    code: str = "",
    answer: str = "",
    choices: tuple[str, ...] = (),
) -> str:
    """Ask a person about your task. They answer in their own words, with one of the `choices` you offer, with yes or no, or with `text` as they want it. You let the task go; a later session has the answer. `within` (2h, 30m) is how long you can wait, `default` (yes, no or a choice) what you would take then: they are shown to the person. Or pass on what a person answered: `code` from their notification, `answer` their words (yes, no, edit or any other), `text` the reason or the edited text."""
    if code or answer:
        if hooks.read_permissions(app) is not None:
            raise Refused("Gates are a person's to answer.", "Ask your own question with `question`.")
        (task,) = acts.answer_code(app, code, answer, text=text).tasks
        return f"Answered: task '{task.label}' is {task.state}."
    if not question.strip():
        raise UserError("There is no question.", "Give `question`, or pass an answer on with `code` and `answer`.")
    seconds = span(within) if within else None
    requests.ask_human(
        app, current.find(app), question=question, subject=text, choices=choices, within=seconds, fallback=default
    )
    return "The question is put. You hold the task no longer: stop here."


def request_path(app: App, path: str, reason: str) -> str:
    """Ask for a path you do not own."""
    return requests.request_path(app, current.find(app), path=path, reason=reason)


def status(app: App) -> str:
    """Which tasks there are in this project, in which state, and who holds them."""
    rows = tasks.listing(app.database, project=app.settings.get("HANDOFF_PROJECT") or find_project(app).name)
    lines = [
        f"- {row.label}: {row.state}"
        + (f", held by {row.held_by}" if row.state == "running" else "")
        + (f" ({row.reason})" if row.reason else "")
        for row in rows
    ]
    return "\n".join(lines) or "No live tasks."


def checks(app: App) -> str:
    """Run your task's check now and see its verdict, before you report."""
    current_claim = current.find(app)
    held = current_claim.task
    if not held.check_command:
        return "This task has no check."
    clone = task_clones.of_task(app, held)
    sandboxed = (
        clone is not None
        or held.is_from_inside
        or task_clones.is_sandboxed(app, project=held.project, session=current_claim.session)
    )
    folder = clone.tree if clone else held.workspace
    verdict = evidence.run_task_check(app, held, folder, sandboxed=sandboxed, clone=clone)
    return f"`{verdict.command}` is {verdict.word}." + (f"\n{verdict.tail}" if verdict.tail else "")


def handoff(
    app: App,
    name: str,
    brief: str,
    owns: list[str] | None = None,
    check: str = "",
    after: list[str] | None = None,
    agent: str = "",
    priority: int = 0,
) -> str:
    """Write the next task down for another session: a short name, what to do, which paths it owns, how it is checked, after which tasks it may start, which agent is to do it, its priority (higher first)."""
    request = create.Request(
        task=name,
        brief=brief,
        owns=tuple(owns or ()),
        check=check,
        after=tuple(after or ()),
        agent=agent,
        priority=priority,
    )
    made = requests.write_down(app, request)
    if made.state == states.GATED:
        return f"Task '{made.label}' is written down. It goes beyond what you have yourself, so it waits for a person's yes."
    return f"Task '{made.label}' is written down and {made.state}."


def open_batch(
    app: App, name: str, parts: list[dict[str, object]], why: str = "", check: str = "", agent: str = ""
) -> str:
    """Split work into parts that sessions do side by side, and a task `NAME-join` that brings them together; `check` is run then. Each part: `id`, `brief`, `owns` (paths; a folder ends with /; no path may have two owners), and if needed `after` (ids of parts that must be done first), `check`, `agent`. `agent` is for parts without one."""
    manifest = {
        "schema_version": 2,
        "batch_id": name,
        "fan_in_task": f"{name}-join",
        "split_rationale": why,
        **({"check": check} if check else {}),
        **({"agent": agent} if agent else {}),
        "sub_tasks": [_part(part) for part in parts],
    }
    opened = requests.open_batch(app, json.dumps(manifest, indent=1))
    return f"Batch '{name}' is open: {opened.batch.total} parts, ready now: {', '.join(opened.ready)}."


def _part(part: dict[str, object]) -> dict[str, object]:
    """A part as a manifest has it."""
    told = {key: value for key, value in part.items() if key not in ("owns", "after")}
    foreign = [key for key in part if key not in _PART]
    if foreign:
        raise UserError(
            f"Part '{part.get('id', '')}' has an unknown key: {', '.join(foreign)}.",
            f"A part has: {', '.join(_PART)}. Nothing was written.",
        )
    owns, after = part.get("owns") or [], part.get("after") or []
    if not isinstance(owns, list) or not isinstance(after, list):
        raise UserError(f"`owns` and `after` of part '{part.get('id', '')}' must be lists.", "Nothing was written.")
    told["file_ownership"] = [{"type": _kind(str(path)), "path": str(path)} for path in owns]
    return {**told, "depends_on": after}


def _kind(pattern: str) -> str:
    if any(sign in pattern for sign in "*?["):
        return "glob"
    return "prefix" if pattern.endswith("/") else "exact"
