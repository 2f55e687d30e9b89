"""The baton: the document a session is given for a task. Its fixed words are in baton.md."""

from __future__ import annotations

import os

from handoff.base.files import read_text
from handoff.base.ids import on_one_line
from handoff.base.markdown import bullets, fenced, one_line, quoted, render
from handoff.base.record import TYPE_CHECKING
from handoff.board.events import journal, texts
from handoff.board.tasks import questions, tasks
from handoff.engine.home import files_folder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from handoff.base.settings import Config
    from handoff.board.events.journal import Event
    from handoff.board.tasks.batches import Batch
    from handoff.board.tasks.questions import Answer
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App


RULES = "rules.md"
"""In the home, and in a project's folder there: what every baton says."""

_SHOWN = 10
_WORDS = 3


def template() -> str:
    """The packaged words of the baton."""
    with open(os.path.join(os.path.dirname(__file__), "baton.md"), encoding="utf-8") as file:
        return file.read()


def baton(
    app: App, config: Config, task: Task, *, parts: Sequence[Task] = (), batch: Batch | None = None, clone: str = ""
) -> str:
    """The document for the session that takes the task; `clone` is the workspace it has for itself."""
    folder = clone or task.workspace or "."
    facts = task.baseline_facts
    if clone and facts:
        facts = {**facts, "workspace": clone, "dirty": []}
    elif facts and task.workspace:
        facts = {**facts, "workspace": task.workspace}  # the checkout may have moved since
    brief, owned = _conflict(app, task, parts, batch, clone) or (task.brief.strip(), task.patterns)
    reading = [f"`{name}`" for name in config.texts("reading_list") if os.path.exists(os.path.join(folder, name))]
    history, before = _so_far(app, task)
    values = {
        "task": task.id,
        "project": task.project,
        "program": app.settings.program,
        "brief": brief,
        "rules": rules_of(app, task.project),
        "history": history,
        "before": before,
        "baseline": _baseline(facts) if facts else f"- Workspace: `{folder}`",
        "reading": bullets(reading),
        "ownership": bullets([f"`{pattern}`" for pattern in owned], limit=100),
        "checks": f"`{task.check_command}` ends with exit 0." if task.check_command else "",
        "parts": _parts(app, task, parts, clone, settling=owned != task.patterns),
        "report": _report(app, task, batch, clone),
    }
    return render(template(), values)


def rules_of(app: App, project: str) -> str:
    """What the person asks of every session, and of every session of this project: two files of the home, word for word."""
    places = (os.path.join(app.settings.home, RULES), os.path.join(app.settings.home, project, RULES))
    return "\n\n".join(filter(None, (read_text(path).strip() for path in places if os.path.isfile(path))))


def _baseline(baseline: dict[str, Any]) -> str:
    """What the task starts from, as the baton tells it."""
    lines = [f"Workspace: `{baseline.get('workspace', '')}`"]
    if "head" not in baseline:
        lines.append("This folder is not in a git repository.")
    else:
        head = baseline["head"][:10] or "no commit yet"
        lines.append(f"HEAD: `{head}` on {_branch(baseline)}")
    text = bullets(lines)
    if baseline.get("commits"):
        text += "\n- Last commits:\n" + "\n".join(f"  - `{line}`" for line in baseline["commits"])
    dirty = baseline.get("dirty") or []
    if dirty:
        count = baseline.get("dirty_count", len(dirty))
        shown = ", ".join(f"`{on_one_line(path)}`" for path in dirty[:_SHOWN])
        shown += f" and {count - _SHOWN} more" if count > _SHOWN else ""
        text += f"\n- Already changed when this was written ({count}): {shown}. Leave what is not yours alone."
    tests = baseline.get("tests")
    if tests:
        text += f"\n- Tests before you began: `{tests['command']}` was {tests['verdict']} on {_tested_on(baseline)}."
        if not tests["green"] and tests["tail"]:
            text += "\n\n" + fenced(tests["tail"])
    return text


def _tested_on(baseline: dict[str, Any]) -> str:
    """The state the tests saw when the task was written; what came later they do not know."""
    count = baseline.get("dirty_count", len(baseline.get("dirty") or []))
    where = f"`{baseline['head'][:10]}`" if baseline.get("head") else "the files as they were"
    return where + (f" with {count} uncommitted" if count else "") + ", when this was written"


def _branch(baseline: dict[str, Any]) -> str:
    return f"branch `{baseline['branch']}`" if baseline.get("branch") else "no branch (detached)"


def _so_far(app: App, task: Task) -> tuple[str, str]:
    """What happened to the task, and what was done before it: one look at the rows, because files show every task that moves."""
    if not task.key:  # it is shown before it is written
        return _history(task, (), ()), ""
    with app.database.transaction(write=False) as look:
        given, events = questions.answers_of(look, key=task.key), journal.of_task(look, key=task.key)
        before = [tasks.look_up(look, key=need.key) for need in tasks.needs_of(look, key=task.key)]
    return _history(task, given, events), _before([one for one in before if one is not None])


def _before(done: Sequence[Task]) -> str:
    """What the tasks did that this one comes after: their words, and the files they changed."""
    lines = []
    for other in done:
        said = one_line(other.result or other.reason) or "it left no words"
        line = f"`{other.label}`: {other.state}, {said}\n  - asked: {one_line(other.brief)}"
        facts = texts.read(other.evidence, {})
        changed, commit = facts.get("changed") or [], str(facts.get("landed") or facts.get("commit") or "")
        if changed:
            more = facts.get("changed_count", len(changed)) - len(changed[:_SHOWN])
            names = ", ".join(f"`{on_one_line(path)}`" for path in changed[:_SHOWN]) + (
                f" and {more} more" if more > 0 else ""
            )
            line += f"\n  - changed: {names}"
        lines.append(line + (f"\n  - commit: `{commit[:10]}`" if commit else ""))
    return bullets(lines)


COMMENTED = "comment.added"
"""In the journal: a person's word to a line of the work."""


def _history(task: Task, given: Sequence[Answer], events: Sequence[Event]) -> str:
    said = journal.said_in(events)
    first = [one for one in said if one.startswith(journal.PERSON_SAYS)]
    lines = [*first, *map(_answered, given), comments_in_words(events), *said[len(first) :]]
    if task.attempt > 1:
        lines.append(f"This is attempt {task.attempt} of {task.max_attempts}.")
    if task.reason and task.state in ("ready", "waiting", "running"):
        lines.append(f"The attempt before ended so: {task.reason}")
        lines.append("Look at what it left behind (git status, git diff) before you begin.")
        lines += [f"A session before that left these words: {one_line(text)}" for text in _left_words(task, events)]
    return "\n".join(filter(None, lines))


def comments_in_words(events: Sequence[Event]) -> str:
    """What a person wrote on lines of the work so far, in the order of the files: it outranks the brief."""
    found = [event.body for event in events if event.kind == COMMENTED]
    if not found:
        return ""
    lines = [
        "A person read the work so far and wrote on its lines. See that each is settled, also those an earlier session had:"
    ]
    for body in sorted(found, key=lambda one: (str(one["path"]), int(one["line"]))):
        lines.append(f"- `{on_one_line(str(body['path']))}` line {body['line']}: {one_line(str(body['text']))}")
        if body.get("code"):
            code = one_line(str(body["code"])).replace("`", "'")
            lines.append(f"  (the line was: `{code}`)")
    return "\n".join(lines) + "\n"


def _left_words(task: Task, events: Sequence[Event]) -> list[str]:
    """What sessions said when they gave the task back; how a later one failed does not wipe it out."""
    found: dict[str, None] = {}
    machine: set[str] = {task.reason}
    for event in events:
        text = str(event.body.get("text" if event.kind == "note.added" else "reason") or "")
        if event.kind in ("task.released", "note.added") and text:
            found[text] = None
        elif event.kind == "session.concluded":
            machine.add(text)
    return [text for text in found if text not in machine][-_WORDS:]


def _answered(answer: Answer) -> str:
    """A person's word about this task, with the text they changed: it outranks the brief."""
    word = {"approved": "yes", "rejected": "no"}.get(answer.state, answer.state)
    why = f", {answer.reason.strip()}" if answer.reason.strip() else ""
    if answer.answer and answer.choices:
        return f"{answer.answered_by or 'A person'} was asked: {one_line(answer.question)}\nThe answer:\n\n{fenced(answer.answer + why)}\n"
    line = f"{answer.answered_by or 'A person'} was asked: {one_line(answer.question)}\nThe answer: {word}{why}"
    if answer.answer:
        line += f"\nThe text as it is to be, in place of what was shown:\n\n{fenced(answer.answer)}"
    return line + "\n"


def _parts(app: App, task: Task, parts: Sequence[Task], clone: str, *, settling: bool) -> str:
    if task.kind != "fan-in" or not parts or settling:
        return ""
    lines = []
    for part in parts:
        said = part.result or part.reason
        owned = ", ".join(f"`{pattern}`" for pattern in part.patterns[:_SHOWN]) or "nothing"
        line = f"`{part.id}`: {part.state}" + (f", {one_line(said)}" if said else "")
        lines.append(f"{line}\n  - asked: {one_line(part.brief)}\n  - owned: {owned}")
    text = (
        bullets(lines, limit=200) + "\n\nBring the parts together: look at every part's changes, fix what does not fit"
    )
    if clone:
        return (
            f"{text}, and run the whole test suite. What the parts made is joined in your workspace already; when your"
            " report is believed, all of it lands on the person's branch, one commit for each part."
        ) + _doubts(app, task)
    program = app.settings.program
    text += (
        f", run the whole test suite, and commit only what the parts own: `{program} safe-commit -m MESSAGE -- PATHS`."
    )
    apart = _apart(app, parts)
    if apart:
        text += f"\n\nParts that worked in clones of their own come in with: `{program} land {' '.join(apart)}`"
    return text


def _conflict(
    app: App, task: Task, parts: Sequence[Task], batch: Batch | None, clone: str
) -> tuple[str, tuple[str, ...]] | None:
    """What a fan-in is told, and may write, whose parts neither git nor a rule could join; nothing for any other task."""
    if task.kind != "fan-in" or not clone:
        return None
    from handoff.engine.workspaces import task_clones
    from handoff.engine.workspaces.landing import conflict

    own = task_clones.of_task(app, task)
    laid = conflict.of_workspace(own) if own is not None else None
    if laid is None:
        return None
    named = {task_clones.work_name(part): part for part in parts if part.state == "done"}
    doubts = conflict.doubts_of_workspace(own) if own is not None else []
    told = conflict.brief(laid, named, batch=batch.id if batch else "", program=app.settings.program, doubts=doubts)
    return told, conflict.patterns(laid)


def _doubts(app: App, task: Task) -> str:
    """What joined cleanly and may be wrong all the same."""
    from handoff.engine.workspaces import task_clones
    from handoff.engine.workspaces.landing import conflict

    own = task_clones.of_task(app, task)
    doubts = conflict.doubts_of_workspace(own) if own is not None else []
    return f"\n\n{conflict.doubts_in_words(doubts)}" if doubts else ""


def _apart(app: App, parts: Sequence[Task]) -> list[str]:
    """The workspaces of finished parts whose work is not in the person's checkout yet."""
    from handoff.engine.workspaces import task_clones

    done = sorted((part for part in parts if part.state == "done"), key=lambda part: part.ended_at or 0.0)
    return [task_clones.name_of(part) for part in done if task_clones.of_task(app, part) is not None]


def _report(app: App, task: Task, batch: Batch | None, clone: str) -> str:
    """The exact commands of this task, with its fence once somebody holds it."""
    if task.ended:
        return f"Nothing: this task is {task.state}." + (f"\n\n{task.result}" if task.result else "")
    program = app.settings.program
    target = f"--project {task.project} --task {task.label}"
    lines = []
    if app.settings.get("HANDOFF_HOME") and not clone:  # a session of ours has it all in its environment
        lines.append(f"export HANDOFF_HOME={quoted(app.settings.home)}")
    if batch is not None and not clone:
        role = "fan-in" if task.kind == "fan-in" else task.id
        env = os.path.join(files_folder(app.settings.home, task.project), "batches", batch.id, f"{role}.env")
        lines.append(f". {quoted(env)}")
    if task.state == "running":
        target += f" --session {task.held_by} --fence {task.fence}"
    else:
        lines.append(f"{program} task claim {target}        # first: now the task is yours")
        target = ""
    words = f"{program} heartbeat {target}".rstrip()
    lines.append(f"{words:<40} # now and then, and after each long step")
    words = f"{program} task done {target}".rstrip()
    lines.append(f"{words} --summary 'what you did'")
    lines.append(f"{program} task block {target}".rstrip() + " 'what you need'   # when you cannot go on")
    text = fenced("\n".join(lines), "sh")
    if clone:
        text += (
            "\n\nYou work in a clone of your own, and it is all you can write. Commit there as you like, or not at all: what"
            " you own is taken from the files as they lie when you report."
        )
    elif batch is not None and task.kind == "sub-task":
        text += f"\n\nThis is a part of batch `{batch.id}`. Leave commits to its fan-in unless you are told otherwise."
    return text + "\n\nExit 4 means that another session holds the task now: stop writing."
