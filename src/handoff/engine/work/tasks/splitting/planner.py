"""The planner: a session that proposes how work is split. Its manifest is verified, then a person says yes, no, or how instead."""

from __future__ import annotations

import os
from contextlib import suppress

from handoff.agents.contract import FAILED, OK, AgentOutcome
from handoff.base.errors import HandoffError, UserError
from handoff.base.files import as_text
from handoff.base.ids import slug
from handoff.base.markdown import first_sentence, render
from handoff.base.record import TYPE_CHECKING
from handoff.board import gates
from handoff.board.events import journal
from handoff.board.sessions import leases
from handoff.board.tasks import outcomes, states, tasks
from handoff.engine.app.home import find_project, home_config, settle
from handoff.engine.features.status import look
from handoff.engine.outcome import kinds
from handoff.engine.place import task_clones
from handoff.engine.place.fanout import views
from handoff.engine.place.proof import faults
from handoff.engine.place.proof.evidence import take_baseline
from handoff.engine.place.workspaces import remove_workspace
from handoff.engine.work.tasks import batches
from handoff.engine.work.tasks.manifests.reading import EXAMPLE
from handoff.engine.work.tasks.splitting import coupling
from handoff.engine.work.tasks.splitting.verify import verify_words
from handoff.git.plumbing import find_top
from handoff.git.plumbing.beneath import Beneath

if TYPE_CHECKING:
    from handoff.board.tasks.batches import Batch
    from handoff.board.tasks.outcomes import Outcome
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.engine.app.home import Project
    from handoff.engine.outcome.kinds import EndedSession
    from handoff.store.database import Transaction

FILE = "handoff-split.toml"
"""What a planner writes, at the top of its clone."""
_MOST_BYTES = 200_000
OPENED = "split.opened"
_SHOWN_HUBS = 8
_LONGEST_ID = 40


def request_of_feature(app: App, *, step: int = 0) -> str:
    """What is to be split: one step of the active feature's plan, or all that is left of it."""
    view = look(app)
    name = os.path.basename(view.feature.path)
    steps = [view.plan.step(index) for index in range(len(view.plan.marks))]
    if step:
        if not 1 <= step <= len(steps):
            raise UserError(
                f"The plan of {name} has no step {step}.", f"It has {len(steps)}: {app.settings.program} status"
            )
        wanted = [steps[step - 1]]
    else:
        wanted = [one for one in steps if one.mark in (" ", ">")]
    if not wanted:
        raise UserError(f"The plan of {name} has no open step.", f"See: {app.settings.program} status")
    lines = [f"{one.number}. {one.text}" for one in wanted]
    return f"Of the feature `{name}` (its documents are in `{view.folder}/`; read them first):\n\n" + "\n".join(lines)


def write_down(app: App, project: Project, request: str, *, agent: str = "", parts: int = 0) -> Task:
    """Record the planner's task: any session start takes it like every other."""
    project = settle(app, project)
    top = find_top(project.workspace)
    if top is None:
        raise UserError(f"{project.workspace} is not a git repository.", "Parts work in clones: git init")
    hubs = coupling.hubs_here(app, top)[:_SHOWN_HUBS]
    with open(os.path.join(os.path.dirname(__file__), "planner.md"), encoding="utf-8") as file:
        text = file.read()
    values = {
        "request": request.strip(),
        "file": FILE,
        "example": EXAMPLE.strip(),
        "count": f"Make {parts} parts."
        if parts
        else "Make as many parts as really can run side by side, two at least.",
        "hubs": f": here for example {', '.join(f'`{path}`' for path in hubs)}." if hubs else ".",
        "program": app.settings.program,
    }
    id = slug(f"split-{_first_words(request)}")[:_LONGEST_ID].strip("-")
    task = tasks.add(
        app.database,
        project=project.name,
        id=_free(app, project.name, id),
        kind=tasks.PLAN,
        brief=render(text, values),
        title=f"Plan a split: {_first_words(request)}",
        agent=agent,
        workspace=project.workspace,
        owns=(FILE,),
        max_attempts=int(home_config(app).number("max_attempts")),
        baseline=take_baseline(app, project.workspace, stamps=True),
    )
    views.refresh_or_tell(app, project.name, f"Task {task.label} is recorded")
    return task


def _first_words(request: str) -> str:
    line = next((line for line in request.splitlines() if line.strip()), "work")
    return " ".join(line.split()[:8])


def _free(app: App, project: str, id: str) -> str:
    live = {task.id for task in tasks.listing(app.database, project=project, limit=1_000_000)}
    return next(name for name in (id, *(f"{id}-{number}" for number in range(2, 1000))) if name not in live)


# --- what comes of it: see engine/outcome/kinds.py --------------------------------------------------------------------


def decide(app: App, ended: EndedSession) -> AgentOutcome | None:
    """A planner that ended well has written a sound manifest, which a person is asked about; anything else is an attempt."""
    if not ended.holds or not faults.is_attempt(ended.outcome) or ended.outcome.kind != OK:
        return None
    try:
        with Beneath(ended.workspace) as inside:  # a link would be read with the person's rights
            text = as_text(FILE, inside.read(FILE, most=_MOST_BYTES))
        if not text:
            return _again(app, ended, f"it wrote no {FILE}, or no plain file below {_MOST_BYTES:,} bytes")
        found = verify_words(app, find_project(app, name=ended.task.project), FILE, text)
    except HandoffError as error:
        return _again(app, ended, f"{error.message} {error.hint}".strip())
    except OSError as error:
        return _again(app, ended, f"its {FILE} cannot be read: {error.strerror}")
    names = ", ".join(sub.id for sub in found.sub_tasks)
    question = (
        f"Split into {len(found.sub_tasks)} parts ({names})? Yes starts them; change the manifest, or say how instead."
    )
    gates.ask(app.database, key=ended.task.key, question=question, fence=ended.fence, on_yes=states.DONE, subject=text)
    return AgentOutcome(OK, question)


def _again(app: App, ended: EndedSession, reason: str) -> AgentOutcome:
    outcome = AgentOutcome(FAILED, first_sentence(reason))
    with app.database.transaction() as transaction:
        leases.hand_back(transaction, task=tasks.get(transaction, key=ended.task.key), reason=reason)
        kinds.tell_concluded(transaction, ended.task, ended.session, outcome)
    return outcome


def proposal(app: App, task: Task) -> str:
    """The manifest a person was asked about, as they changed it, if they did; nothing before it was proposed."""
    gate = gates.of_task(app.database, key=task.key)
    return (gate.answer or gate.subject) if gate is not None else ""


def check_answer(app: App, task: Task, answer: str) -> None:
    """Before a yes counts: the manifest, perhaps changed, must still be sound."""
    text = answer or proposal(app, task)
    verify_words(app, find_project(app, name=task.project), FILE, text)


def approve(app: App, task: Task, *, by: str, reason: str, answer: str) -> Outcome:
    """A person said yes: the batch is open and the task is done, in one transaction."""
    outcome: Outcome | None = None

    def also(transaction: Transaction, made: Batch) -> None:
        nonlocal outcome
        journal.append(transaction, OPENED, task=task, batch_key=made.key, id=made.id)
        outcome = gates.approve(transaction, key=task.key, answered_by=by, reason=reason, answer=answer)

    project = find_project(app, name=task.project)._replace(workspace=task.workspace)
    batches.open_batch(app, project, FILE, answer or proposal(app, task), also=also)
    clone = task_clones.of_task(app, task)
    if clone is not None:
        with suppress(HandoffError):  # what cannot be removed now is found by gc
            remove_workspace(app, name=clone.name, snapshot_store=task_clones.snapshot_store_of_project(app, task))
    return outcome or outcomes.Outcome(tasks.get(app.database, key=task.key))


def batch_of(app: App, task: Task) -> Batch | None:
    """The batch that came of a planner's task."""
    keys = [event.body["batch_key"] for event in journal.of_task(app.database, key=task.key) if event.kind == OPENED]
    return batches.by_key(app, keys[-1]) if keys else None
