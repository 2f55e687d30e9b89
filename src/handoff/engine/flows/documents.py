"""A feature's documents in a flow: brought to the workspace, read back from it, ticked on evidence."""

from __future__ import annotations

from handoff.base import files
from handoff.base.clock import stamp
from handoff.base.errors import HandoffError
from handoff.base.record import TYPE_CHECKING
from handoff.base.settings import PROJECT_FOLDER, project_config
from handoff.board.tasks import flows
from handoff.checks.assertions.assertions import asks_nothing
from handoff.engine.features.plan_steps import edit_state
from handoff.engine.home import find_project
from handoff.engine.safety.incidents import has_board
from handoff.engine.safety.safe_commit import safe_commit
from handoff.feature import documents, folder
from handoff.feature.plan import edit
from handoff.feature.plan import plan as plans
from handoff.git.commits.commit import CommitOptions
from handoff.git.plumbing import Git
from handoff.git.plumbing.beneath import Beneath

if TYPE_CHECKING:
    from collections.abc import Collection

    from handoff.board.tasks.flows import Flow
    from handoff.engine.app import App

STATE = "STATE.md"
PROVES_NOTHING = "check-proves-nothing"
_NAMES = (*folder.DOCUMENTS, "DECISIONS.md")
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


def bring(app: App, flow: Flow) -> None:
    """Put the person's documents into the workspace; what a session left there before, links too, is replaced."""
    if not flow.feature:
        return
    feature = feature_of(app, flow)
    with Beneath(flow.workspace) as inside:
        inside.make_folders(_there(flow))
        for name in _NAMES:
            if feature.has(name):
                inside.write(_there(flow, name), files.read_bytes(feature.file(name)))


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
    return documents.readiness(name, words) not in (documents.SCAFFOLD, documents.MISSING)


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


def publish(app: App, flow: Flow, names: dict[str, str]) -> None:
    """Put what a session wrote into the person's project; doing it again changes nothing."""
    if not names:
        return
    feature = feature_of(app, flow)
    with feature.locked():
        for name, words in names.items():
            if not feature.has(name) or files.read_text(feature.file(name)) != words:
                files.write_atomic(feature.file(name), words)


def tick(app: App, flow: Flow, *, step: str, commit: str, moment: float, doubt: str = "") -> bool:
    """Tick the step whose check was green; whether the plan is complete now. Ticked already, it stays as it is."""

    def finish(state: str) -> str:
        found = plans.parse(state).current
        if found is None or found.text != step:
            return state
        return edit.finish(state, found.number, f"{commit[:10]} {stamp(moment)}{f' ({doubt})' if doubt else ''}")

    return edit_state(feature_of(app, flow), finish).verdict == plans.COMPLETE


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
