"""A feature's documents in a flow: brought to the workspace, read back from it, ticked on evidence."""

from __future__ import annotations

import os
from contextlib import suppress

from handoff.base import files
from handoff.base.errors import HandoffError, UserError
from handoff.base.record import TYPE_CHECKING
from handoff.base.settings import PROJECT_FOLDER, project_config
from handoff.board.tasks import flows
from handoff.checks.assertions.assertions import asks_nothing
from handoff.engine.app.home import find_project
from handoff.engine.features import plan_steps
from handoff.engine.place import brought_home
from handoff.engine.safety.incidents import has_board
from handoff.engine.safety.safe_commit import safe_commit
from handoff.engine.safety.snapshots import open_snapshot_store
from handoff.feature import folder
from handoff.feature import plan as plans
from handoff.feature.plan import edit
from handoff.git.commits.commit import CommitOptions
from handoff.git.plumbing import Git
from handoff.git.plumbing.beneath import Beneath
from handoff.git.workspaces import read_workspace

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from typing import Any

    from handoff.board.tasks.flows import Flow
    from handoff.engine.app import App
    from handoff.git.workspaces import Workspace

STATE = "STATE.md"
PROVES_NOTHING = "check-proves-nothing"
GREEN_BEFORE = "green-before"
_GREEN_BEFORE = "its check was green before the work too"
_WRITTEN = ("SPEC.md", "DESIGN.md", STATE, "DECISIONS.md")
_MOST_BYTES = 4_000_000


def feature_of(app: App, flow: Flow) -> folder.Feature:
    """The feature in the person's own project."""
    return folder.existing(folder.HandoffFolder(flow.repository), flow.feature, program=app.settings.program)


def text(app: App, flow: Flow, name: str) -> str:
    """A document as the person's project has it."""
    return folder.optional_document(feature_of(app, flow), name) or ""


def _there(flow: Flow, name: str = "") -> str:
    """Where a document lies below the top of the workspace."""
    return "/".join(filter(None, (PROJECT_FOLDER, "features", flow.feature, name)))


def bring(flow: Flow) -> None:
    """Put the person's documents into the workspace; what a session left there before, links too, is replaced."""
    if flow.feature:
        brought_home.bring(flow.repository, workspace_of(flow), feature=flow.feature)


def workspace_of(flow: Flow) -> Workspace:
    """What is written down of the flow's workspace."""
    found = read_workspace(os.path.dirname(flow.workspace))
    if found is None:
        raise UserError(f"The workspace of the flow '{flow.id}' is gone.", "See: handoff workspace list")
    return found


def read(flow: Flow, name: str) -> str:
    """A document as the session left it; a link is none, for it would be read with the person's rights."""
    with Beneath(flow.workspace) as inside:
        return files.as_text(name, inside.read(_there(flow, name), most=_MOST_BYTES))


def current_step(app: App, flow: Flow) -> tuple[plans.Step, str] | None:
    """The plan's current step and the command that proves it."""
    step = plans.parse(text(app, flow, STATE)).current
    if step is None:
        return None
    config = project_config(flow.repository)
    return step, step.check or config.text("check")


def is_written(name: str, words: str) -> bool:
    """Whether a document says something of its own: neither emptied, nor headings alone, nor as it was laid out."""
    if all(line.startswith("#") or not line.strip() for line in words.splitlines()):
        return False
    return folder.readiness(name, words) not in (folder.SCAFFOLD, folder.MISSING)


def plan_faults(before: str, after: str) -> list[tuple[str, str]]:
    """What is wrong with a plan a session wrote: it cannot be read, has no step, or claims what no check has shown."""
    old, new = plans.parse(before), plans.parse(after)
    if new.verdict == plans.INVALID:
        return [("plan-unreadable", f"STATE.md:{one.line}: {one.fault} {one.fix}") for one in new.problems[:10]]
    if new.verdict == plans.EMPTY:
        return [
            ("plan-empty", "STATE.md has no step: write '- [ ] what (check: command)' lines under '# Execution Plan'.")
        ]
    done = _done(old)
    found = [
        ("ticked-unproven", f"The step '{name}' was ticked, but no check has shown it.") for name in _done(new) - done
    ]
    found += [
        (PROVES_NOTHING, f"The check of '{step.text}' can never fail: {step.check}")
        for number in range(len(new.marks))
        if (step := new.step(number)).mark != plans.DONE and step.check and asks_nothing(step.check)
    ]
    found += [("step-vanished", f"The finished step '{name}' is gone from the plan.") for name in done - _done(new)]
    return sorted(found)


def _done(plan: plans.Plan) -> set[str]:
    if plan.verdict == plans.INVALID:
        return set()
    return {step.text for number in range(len(plan.marks)) if (step := plan.step(number)).mark == plans.DONE}


def is_complete(words: str) -> bool:
    return plans.parse(words).verdict == plans.COMPLETE


def plan_home(app: App, flow: Flow, names: Iterable[str]) -> list[dict[str, str]]:
    """What a session wrote in these documents, which were judged, as the person's are to have it."""
    judged = [_there(flow, name) for name in names]
    if not judged:
        return []
    store = open_snapshot_store(app, folder=flow.repository).store
    return brought_home.plan_home(store, flow.repository, workspace_of(flow), judged=judged)


def take_home(app: App, flow: Flow, intent: Mapping[str, Any]) -> None:
    """Put it into the person's project; doing it again changes nothing."""
    feature = feature_of(app, flow)
    with feature.locked():
        if "home" not in intent:  # decided by a handoff that kept the texts alone
            put(feature, intent["documents"])
        else:
            store = open_snapshot_store(app, folder=flow.repository).store
            brought_home.take_home(store, flow.repository, intent["home"])


def put(feature: folder.Feature, names: Mapping[str, str]) -> None:
    """Documents of the person's project as they are to be, whatever stands there."""
    for name, words in names.items():
        files.write_atomic(feature.file(name), words)


def tick(app: App, flow: Flow, intent: Mapping[str, Any], *, commit: str) -> None:
    """Tick the step whose check was green. Ticked already, it stays as it is; one the person took out is not missed."""
    doubt = _GREEN_BEFORE if any(one.startswith(f"{GREEN_BEFORE}:") for one in intent["warnings"]) else ""
    made_from = {"root": flow.repository, "feature": flow.feature, "text": intent["step"], "doubt": doubt}
    with suppress(HandoffError):
        plan_steps.tick(app, made_from=made_from, head=commit)


def would_complete(app: App, flow: Flow, *, number: int) -> bool:
    """Whether ticking this step leaves none open."""
    try:
        return is_complete(edit.finish(text(app, flow, STATE), number, "-"))
    except HandoffError:
        return False


def commit_landed(app: App, *, members: Collection[str], target: str) -> dict[str, str]:
    """Commit what flows that landed here wrote into their features' documents, where the person keeps those in git.

    The documents are the person's own files, so no commit of the flow holds them. Returned are words for each commit, by its id.
    """
    said: dict[str, str] = {}
    if not has_board(app):
        return said
    for flow in flows.listing(app.database, project=find_project(app).name, include_ended=True):
        if not flow.feature or flow.branch.removeprefix("refs/heads/") not in members:
            continue
        git = Git(flow.repository, app.git_environment)
        here = git.git("symbolic-ref", "-q", "HEAD").text.strip() == target
        if not here or git.git("ls-files", "--error-unmatch", "--", _there(flow, "FEATURE.md")).code:
            continue
        lines = git.ask("status", "--porcelain", "-z", "--", *(_there(flow, name) for name in _WRITTEN)).split("\0")
        paths = [line[3:] for line in lines if line]
        if paths:
            message = [f"docs: the documents of {flow.feature}", f"Handoff-Flow: {flow.id}"]
            made = safe_commit(app, paths=paths, message=message, options=CommitOptions(), cwd=flow.repository)
            names = ", ".join(path.rpartition("/")[2] for path in paths)
            said[made.short] = f"Committed {names} of the feature {flow.feature} ({made.short})"
    return said
