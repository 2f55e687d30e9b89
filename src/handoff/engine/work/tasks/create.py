"""Write a task down: everything is checked and the baseline taken before the first byte is written."""

from __future__ import annotations

import os

from handoff.base.errors import Refused, UserError
from handoff.base.files import read_text
from handoff.base.ids import check_id, slug
from handoff.base.markdown import BATON_MARK
from handoff.base.process import find
from handoff.base.record import TYPE_CHECKING, Record
from handoff.base.settings import project_config
from handoff.board.tasks import states, tasks
from handoff.board.tasks.requirements import check_labels
from handoff.engine.app.home import FILES_STAMP, files_folder, find_project, home_config, settle
from handoff.engine.place.fanout import views
from handoff.engine.place.fanout.files import is_stopped
from handoff.engine.place.fanout.tabs import Job, uri_for
from handoff.engine.place.proof.evidence import take_baseline
from handoff.store.database import SQLITE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.engine.app.home import Project
    from handoff.store.database import Transaction

_ID_CHARS = 32


class Request(Record):
    """What `dump` was asked to write down."""

    task: str
    brief: str
    after: tuple[str, ...] = ()
    agent: str = ""
    role: str = ""
    owns: tuple[str, ...] = ()
    check: str = ""
    tests: str = ""
    priority: int = 0
    model: str = ""
    landing: str = ""
    labels: tuple[str, ...] = ()
    step: dict[str, str] = {}  # noqa: RUF012 - never changed in place
    """The step of a feature's plan it was made from: `root`, `feature` and `text`; ticked when its check is green."""


def prepare(app: App, project: Project, request: Request) -> dict[str, Any]:
    """Check everything a new task needs and take its baseline; nothing is written."""
    check_id(request.task, "task")
    if not request.brief.strip():
        raise UserError(
            "The brief is empty.", "Say in words what the next session must do; '-' reads them from standard input."
        )
    config = home_config(app)
    uri_for(config, Job(project.name, request.task, project.workspace, ""))
    if request.owns:
        from handoff.git.ownership import Ownership

        Ownership.parse(request.owns)
    check_labels(request.labels)
    return {
        "project": project.name,
        "id": request.task,
        "brief": app.clean(request.brief.strip()),
        "role": request.role,
        "agent": request.agent or ",".join(project_config(project.workspace).texts("agents")),
        "workspace": project.workspace,
        "owns": request.owns,
        "check_command": request.check,
        "priority": request.priority,
        "max_attempts": int(config.number("max_attempts")),
        "baseline": take_baseline(
            app,
            project.workspace,
            tests=tests_command(app, project.workspace, request.tests),
            stamps=bool(request.owns),
        )
        | {name: value for name in ("step", tasks.MODEL, tasks.LANDING) if (value := getattr(request, name))},
    }


def project_of_caller(app: App, *, name: str = "", workspace: str = "") -> Project:
    """The project new tasks are for. A session in a clone of its own writes them for the checkout it was made from."""
    project = find_project(app, name=name, workspace=workspace)
    if name and not workspace and find_project(app).name != name:
        from handoff.engine.work.tasks import projects

        workspace = projects.known_checkout(app, name)  # a name that is new is given to the checkout one stands in
        project = find_project(app, name=name, workspace=workspace)
    checkout = "" if workspace else str(session_facts(app).get("checkout", ""))
    return project._replace(workspace=checkout) if os.path.isdir(checkout) else project


def check_agents(app: App, agent: str) -> None:
    """The agents that a person names are known here. Where machines share a database it may be another one that knows them."""
    from handoff.agents import catalog

    config = home_config(app)
    for name in tasks.agent_names(agent):
        try:
            catalog.adapter(name, commands=config.values["agents"], where=config.path)
        except UserError as error:
            if app.database.kind == SQLITE:
                raise
            app.notes.append(f"Warning: {error.message} The task waits for a machine that knows it. {error.hint}")


def doubt_commas(app: App, owns: Sequence[str], task: str) -> None:
    """Agents are named with commas between them, paths are not: a comma is part of a file's name."""
    for one in owns:
        if "," in one and "{" not in one:
            apart = " ".join(f"--owns {part.strip()}" for part in one.split(",") if part.strip())
            app.notes.append(
                f"Warning: '{one}' is one path with a comma in its name. Several paths: {app.settings.program} task edit {task} {apart}"
            )


def session_facts(app: App) -> dict[str, Any]:
    """What was written down of the session that calls when it was started here; nothing for everybody else."""
    session, project = app.settings.get("HANDOFF_SESSION"), app.settings.get("HANDOFF_PROJECT")
    if not session or not project or "/" in session + project:
        return {}
    from handoff.agents import folder as folders

    return dict(folders.get(folders.place(app.settings.home, project, session), folders.FACTS))


def values_of_new(app: App, project: Project, request: Request) -> tuple[dict[str, Any], Project]:
    """The values of a new task's row, and its project as it is known from now on."""
    values = prepare(app, project, request)
    project = settle(app, project)
    values["project"] = project.name
    _refuse_foreign_file(app, project, request.task)
    return values, project


def new_id(app: App, project: str, brief: str) -> str:
    """A name from the first words that no task has had."""
    words = slug(brief.strip().partition("\n")[0])[:_ID_CHARS].rpartition("-" if len(brief) > _ID_CHARS else "\0")
    name = (words[0] or words[2]).strip("-")
    name = name if len(name) > 1 else "task"
    number, found = 1, name
    while tasks.is_known(app.database, project=project, id=found):
        number += 1
        found = f"{name}-{number}"
    return found


def write_down(
    app: App, project: Project, request: Request, *, also: Callable[[Transaction, Task], None] | None = None
) -> Task:
    """Record a task and write its files; a live task of that id is not overwritten. `also` writes in the same transaction."""
    values, project = values_of_new(app, project, request)
    values.update(after=request.after, labels=request.labels)
    if also is None:
        task = tasks.add(app.database, **values)
    else:
        with app.database.transaction() as transaction:
            task = tasks.add(transaction, **values)
            also(transaction, task)
    views.refresh_or_tell(app, project.name, f"Task {task.label} is recorded")
    return task


def _refuse_foreign_file(app: App, project: Project, task: str) -> None:
    """A document that no row of ours stands for is somebody else's, perhaps of handoff-fanout: its words are nowhere else."""
    path = os.path.join(files_folder(app.settings.home, project.name), "queue", f"{task}.md")
    if not os.path.lexists(path) or tasks.is_known(app.database, project=project.name, id=task):
        return
    text = read_text(path).removeprefix(f"{BATON_MARK}\n")
    if not text.startswith(f"# Task `{task}` of project "):  # so begins a baton, perhaps of another database
        raise Refused(
            f"{path} is there, and no task of handoff wrote it.",
            f"If handoff-fanout did, take its work in: {app.settings.program} import fanout. Else use another id.",
        )


def is_older(app: App, project: Project) -> bool:
    """Whether the home is handoff-fanout's too: settings of its kind, or a queue of this project that we have not written yet."""
    home = app.settings.home
    theirs = os.path.exists(os.path.join(home, "config.json")) and not os.path.exists(os.path.join(home, "config.toml"))
    folder = files_folder(home, project.name)
    return theirs or (
        os.path.isdir(os.path.join(folder, "queue")) and not os.path.exists(os.path.join(folder, FILES_STAMP))
    )


def preview(app: App, project: Project, request: Request) -> Task:
    """The task as it would be written, for a dry run; nothing is created, not even the database."""
    values = prepare(app, project, request)
    fields: dict[str, Any] = dict.fromkeys(tasks.Task._fields, "")
    fields.update(
        dict.fromkeys(("key", "generation", "open_needs", "counted", "fence", "estimate_minutes", "not_before"), 0)
    )
    fields.update(batch=None, ended_at=None, attempt=1, changed_at=app.clock.now(), kind=tasks.TASK)
    row = tasks.new_values(**values, state=states.WAITING if request.after else states.READY)
    return tasks.Task(**{**fields, **row})


def may_be_stopped(app: App, project: Project) -> bool:
    """Whether it is worth looking for a stop that holds: a stop file or a row is there."""
    return is_stopped(app, project.name) or tasks.is_any_paused(app.database)


def tests_command(app: App, workspace: str, tests: str) -> str:
    """`--tests` is a command; a bare path of a test file or folder means pytest with the Python the project has."""
    first = tests.partition("::")[0].partition(" ")[0]
    path = os.path.join(workspace, first)
    if first and os.path.exists(path) and (os.path.isdir(path) or not os.access(path, os.X_OK)):
        return f"{_python(app, workspace)} -m pytest {tests}"
    return tests


def _python(app: App, workspace: str) -> str:
    for name in (".venv/bin/python", "venv/bin/python"):
        if os.access(os.path.join(workspace, name), os.X_OK):
            return name
    return "python" if find("python", path=app.settings.path) else "python3"


def from_step(app: App, request: Request) -> Request:
    """The request for the current step of the feature's plan; what was said on the command line wins."""
    from handoff.engine.features.status import look
    from handoff.feature import plan as plans

    view = look(app)
    program = app.settings.program
    if view.plan.verdict == plans.INVALID:
        raise UserError(f"{view.folder}/STATE.md: {view.plan.guard}", f"Fix it, then: {program} validate")
    step = view.plan.current
    if step is None:
        raise UserError(view.plan.guard or "The plan has no current step.", f"See: {program} status")
    feature = os.path.basename(view.feature.path)
    name = request.task or slug(f"{feature}-step-{step.number}")
    lines = [
        step.text,
        f"This is step {step.number} of {len(view.plan.marks)} of feature `{feature}`.",
        f"Read its documents in `{view.folder}/` first; SESSION.md tells where the last session stopped.",
    ]
    if request.brief.strip():
        lines.insert(1, request.brief.strip())
    check = request.check or step.check or view.config.text("check")
    if check:
        lines.append(f"When `{check}` is green at the end, the step is ticked by itself.")
    else:
        lines.append(
            f"It has no check: when it is done, tick it on your word, `{program} step done --step {step.number} --unchecked`."
        )
    made_from = {"root": view.workspace.root, "feature": feature, "text": step.text}
    return request._replace(task=name, brief="\n\n".join(lines), check=check, step=made_from)
