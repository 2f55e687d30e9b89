"""The score of the baton that the next session of a task or a feature would get now."""

from __future__ import annotations

import os

from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING
from handoff.board.tasks import tasks
from handoff.engine.features import prompts, status
from handoff.engine.home import find_project, home_config
from handoff.engine.safety.snapshots import open_snapshot_store
from handoff.engine.workspaces import baton, task_clones
from handoff.feature.baton import BUDGET
from handoff.feature.baton_score import EVERYTHING, BatonDoubt, weigh

if TYPE_CHECKING:
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.feature.baton_score import BatonScore


def of_task(app: App, *, name: str, budget: int = 0) -> BatonScore:
    """What the next session of a task would be told of what is known."""
    task = tasks.find(app.database, project=find_project(app).name, id=name)
    if task.ended:
        raise UserError(
            f"'{task.label}' is {task.state}: nobody gets a baton for it.",
            f"See: {app.settings.program} show {task.label}",
        )
    config, tokens = home_config(app), budget or BUDGET
    place = _place(app, task)
    known = baton.for_session(app, config, task, place, tokens=EVERYTHING)
    told = baton.for_session(app, config, task, place, tokens=tokens)
    return weigh(known, told, budget=tokens, program=app.settings.program, task=True)


def _place(app: App, task: Task) -> baton.Place:
    """Where that session would stand."""
    clone = task_clones.of_task(app, task)
    if clone is None or not os.path.isdir(clone.tree):
        return baton.Place(task.workspace or app.settings.here)
    return baton.Place(clone.tree, clone, open_snapshot_store(app, folder=task.workspace))


def of_feature(app: App, *, budget: int = 0) -> BatonScore:
    """What `continue` would tell the next session of the feature of what is known."""
    view = status.look(app)
    tokens = budget or int(view.config.number("budget"))
    known = prompts.build(app, kind="continue", tokens=EVERYTHING, record=False).text
    told = prompts.build(app, kind="continue", tokens=tokens, record=False).text
    more = tuple(BatonDoubt(what, remedy) for what, remedy in status.untold(app, view, status.git_facts(app)))
    return weigh(known, told, budget=tokens, program=app.settings.program, task=False, more=more)
