"""The read side: what is known about the active feature and who works beside it, what changed since the last hand-off, what to do next."""

from __future__ import annotations

import os

from handoff.base.clock import age, stamp
from handoff.base.errors import HandoffError, Refused, UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.base.settings import PROJECT_FOLDER, Config, project_config
from handoff.feature import folder
from handoff.feature import plan as plans
from handoff.git.plumbing import checkout, find_top

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.feature.folder import Feature, HandoffFolder


_LISTED, _LOOKED_AT = 8, 200


class View(Record):
    """One consistent look at a feature: every file was read once."""

    workspace: HandoffFolder
    feature: Feature
    config: Config
    plan: plans.Plan
    texts: dict[str, str | None]
    entries: list[folder.LogEntry]

    @property
    def folder(self) -> str:
        """The feature's folder as a person would type it."""
        return os.path.relpath(self.feature.path, self.workspace.root)

    def readiness(self) -> dict[str, str]:
        """Each document's state; STATE.md's is the plan's."""
        words = {plans.VALID: "planned", plans.EMPTY: folder.SCAFFOLD}
        found = {name: folder.readiness(name, self.texts[name]) for name in folder.DOCUMENTS}
        if self.texts["STATE.md"] is not None:
            found["STATE.md"] = words.get(self.plan.verdict, self.plan.verdict)
        return found


class Drift(Record):
    """What happened to the repository since the last hand-off or review."""

    since: folder.LogEntry | None
    commits: int | None = 0
    touched: tuple[str, ...] = ()
    notes_old: bool = False
    lost_marks: int = 0

    @property
    def words(self) -> list[str]:
        """The drift in sentences; none when there is nothing to say."""
        said: list[str] = []
        if self.since is not None:
            what = "the last hand-off" if self.since["kind"] == "handoff" else "your last review"
            if self.commits is None:
                said.append(f"The commit of {what} ({str(self.since.get('head'))[:10]}) is no longer in this history.")
            elif self.commits:
                plural = "commit" if self.commits == 1 else "commits"
                said.append(f"{self.commits} {plural} since {what}.")
            if self.touched:
                more = f" and {len(self.touched) - _LISTED} more" if len(self.touched) > _LISTED else ""
                said.append(f"Files named in the plan changed since then: {', '.join(self.touched[:_LISTED])}{more}.")
        if self.notes_old:
            said.append("SESSION.md was not updated since; the notes are older than the code.")
        if self.lost_marks:
            said.append(f"The plan had {self.lost_marks} more finished steps at the last hand-off; look at STATE.md.")
        return said


def workspace_of(app: App) -> HandoffFolder | None:
    return folder.find(app.settings.here, home=app.settings.home)


def need_workspace(app: App) -> HandoffFolder:
    """The workspace, or an error that tells how to make one."""
    found = workspace_of(app)
    if found is None:
        raise UserError(
            f"No active feature found. Run: {app.settings.program} init",
            "No .handoff/ folder was found from here up to the top of the repository.",
        )
    return found


def is_without_feature(app: App) -> bool:
    """Whether nobody has begun or chosen a feature here; a `current` that points nowhere is another matter."""
    workspace = workspace_of(app)
    return not app.settings.feature and (workspace is None or folder.link_target(workspace) is None)


def active_feature(app: App) -> tuple[HandoffFolder, Feature]:
    workspace = workspace_of(app)
    feature = folder.active(workspace, chosen=app.settings.feature, program=app.settings.program)
    assert workspace is not None  # noqa: S101 - `active` raised otherwise
    return workspace, feature


def look(app: App) -> View:
    """Read the active feature. SPEC.md and DESIGN.md may be absent; a broken config is an error."""
    workspace, feature = active_feature(app)
    program = app.settings.program
    texts: dict[str, str | None] = {}
    for name in folder.DOCUMENTS:
        if name in folder.REQUIRED:
            texts[name] = folder.read_document(feature, name, program=program)
        else:
            texts[name] = folder.optional_document(feature, name)
    config = project_config(workspace.root)
    plan = plans.parse(texts["STATE.md"] or "")
    return View(
        workspace=workspace, feature=feature, config=config, plan=plan, texts=texts, entries=folder.read_log(feature)
    )


def lenient_look(app: App, *, needed: tuple[str, ...]) -> View:
    """For planning prompts, which work on a half-made feature: only the needed documents must exist."""
    workspace, feature = active_feature(app)
    for name in needed:
        folder.read_document(feature, name, program=app.settings.program)
    return half_made(workspace, feature)


def half_made(workspace: HandoffFolder, feature: Feature) -> View:
    """A feature of which any document may be missing."""
    texts = {name: folder.optional_document(feature, name) for name in folder.DOCUMENTS}
    plan = plans.parse(texts["STATE.md"] or "# Execution Plan\nNot yet generated.\n")
    config = project_config(workspace.root)
    return View(
        workspace=workspace, feature=feature, config=config, plan=plan, texts=texts, entries=folder.read_log(feature)
    )


def refuse_invalid(view: View, program: str) -> None:
    """A plan that cannot be trusted: its lines, and how to go on."""
    if view.plan.verdict == plans.INVALID:
        lines = "".join(f"\n  STATE.md:{p.line}: {p.fault} {p.fix}" for p in view.plan.problems[:10])
        hint = f"Fix these lines of {view.folder}/STATE.md, then: {program} validate"
        raise UserError(view.plan.guard + lines, hint)


def refuse_idle(view: View, program: str) -> None:
    """A plan in which nothing is to be done next, and what a person does about it."""
    plan = view.plan
    if not plan.guard:
        return
    if plan.verdict == plans.EMPTY:
        raise UserError(
            f"{plan.guard} Run `{program} start` first.",
            f"It prints the prompt that makes the plan and begins; `{program} generate` only plans.",
        )
    refuse_invalid(view, program)
    if plan.verdict == plans.BLOCKED:
        stuck = [plan.step(i) for i, (_, mark, _) in enumerate(plan.marks) if mark == plans.STUCK]
        reasons = "".join(f"\n  step {step.number}: {step.reason}" for step in stuck[:5])
        raise Refused(plan.guard + reasons, f"When one is concluded: {program} step start {stuck[0].number}")
    raise UserError(
        plan.guard, f"Archive it: {program} archive {view.feature.name}, or add a step: {program} step add TEXT"
    )


def refuse_scaffold(view: View, program: str, command: str) -> None:
    """A feature that still says what the scaffold said."""
    if view.plan.verdict != plans.INVALID and view.readiness()["FEATURE.md"] == folder.REVIEW:
        raise UserError(
            "FEATURE.md still contains scaffold content and needs review.",
            f"Edit {view.folder}/FEATURE.md: replace the example sentences. Then: {program} {command}",
        )


def refuse_lost_progress(view: View) -> None:
    """A plan that lost its finished steps since the last hand-off."""
    handed = folder.last_logged(view.entries, "handoff")
    done = int(handed.get("done", 0)) if handed else 0
    if done and view.plan.verdict in (plans.EMPTY, plans.INVALID) and not view.plan.done:
        raise Refused(
            f"The plan had {done} finished steps at the last hand-off and has none now; a new plan would bury them.",
            f"Bring {view.folder}/STATE.md back (git, an editor's backup) or finish the steps again by hand.",
        )


def git_facts(app: App) -> checkout.CheckoutFacts | None:
    """The checkout we stand in; None outside a repository."""
    return begin_git_facts(app)()


def begin_git_facts(app: App) -> Callable[[], checkout.CheckoutFacts | None]:
    """The same, asked while we go on with something else."""
    top = find_top(app.settings.here)
    return checkout.begin_facts(top, environment=app.git_environment) if top else lambda: None


def baseline(view: View, facts: checkout.CheckoutFacts | None, *, handing: bool) -> folder.LogEntry | None:
    """The hand-off or review to compare with. While handing on, the same prompt printed twice is one hand-off."""
    entries = [entry for entry in view.entries if entry["kind"] in ("handoff", "accept")]
    if handing and len(entries) > 1 and entries[-1] is view.entries[-1] and is_same_handoff(entries[-1], view, facts):
        entries.pop()
    return entries[-1] if entries else None


def is_same_handoff(entry: folder.LogEntry, view: View, facts: checkout.CheckoutFacts | None) -> bool:
    """Whether nothing has happened since a hand-off was recorded."""
    return entry["kind"] == "handoff" and all(entry.get(key) == value for key, value in picture(view, facts).items())


def picture(view: View, facts: checkout.CheckoutFacts | None) -> folder.LogEntry:
    """What is recorded of a moment, to see later what changed."""
    return {
        "head": facts.head if facts else "",
        "branch": facts.branch if facts else "",
        "dirty": len(facts.dirty) if facts else 0,
        "done": view.plan.done,
        "state": folder.digest(view.texts["STATE.md"]),
        "session": folder.digest(view.texts["SESSION.md"]),
    }


def drift(app: App, view: View, facts: checkout.CheckoutFacts | None, *, handing: bool = False) -> Drift:
    """Compare now with the last hand-off or review. Costs git calls only when HEAD has moved."""
    since = baseline(view, facts, handing=handing)
    handed = folder.last_logged(view.entries, "handoff")
    lost = max(0, int(handed.get("done", 0)) - view.plan.done) if handed else 0
    if since is None or facts is None or not since.get("head") or since["head"] == facts.head:
        return Drift(since, lost_marks=lost)
    old = str(since["head"])
    commits = checkout.count(facts.top, f"{old}..HEAD", environment=app.git_environment)
    if commits is None:
        return Drift(since, None, lost_marks=lost)
    changed = checkout.changed_paths(facts.top, old, "HEAD", environment=app.git_environment)
    named = _named_paths(view)
    touched = tuple(path for path in changed if path in named or os.path.basename(path) in named)
    notes_old = commits > 0 and since.get("session") == folder.digest(view.texts["SESSION.md"])
    return Drift(since, commits, touched, notes_old and since["kind"] == "handoff", lost)


def untold(app: App, view: View, facts: checkout.CheckoutFacts | None) -> list[tuple[str, str]]:
    """What the documents do not say of work that a session would hand over now, each with the command that mends it."""
    program = app.settings.program
    if view.plan.verdict != plans.VALID or not view.entries:
        return []  # nobody has worked yet
    found: list[tuple[str, str]] = []
    decided = (folder.optional_document(view.feature, "DECISIONS.md") or "").split("\n- ")[1:]
    bare = sum("because" not in one.casefold() for one in decided)
    if bare:
        found.append((f"{_counted(bare, 'decision')} without a reason", f"{program} decide 'WHAT' --because 'WHY'"))
    written = _changed_at(os.path.join(view.feature.path, "SESSION.md"))
    checked = folder.last_logged(view.entries, "check")
    if checked is not None and checked.get("verdict") != "green" and str(checked.get("time")) > stamp(written):
        found.append(("the last check is red and no note explains it", f"{program} note 'why it is red'"))
    top = facts.top if facts else ""
    mine = [path for path in facts.dirty[:_LOOKED_AT] if not path.startswith(PROJECT_FOLDER)] if facts else []
    newer = sum(_changed_at(os.path.join(top, path)) > written for path in mine)
    if newer:
        found.append((f"{_counted(newer, 'file')} newer than the notes", f"{program} note 'Next: …'"))
    return found


def _counted(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _changed_at(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0  # deleted, or never written


def _named_paths(view: View) -> set[str]:
    """Words of the plan that look like files."""
    names: set[str] = set()
    for _, _, raw in view.plan.marks:
        if "." in raw or "/" in raw:
            names.update(word.strip("`'\"(),:;[]") for word in raw.split() if "." in word or "/" in word)
    return names


class Advice(Record):
    """What to do next: a command that works from here, and what it is about."""

    status: str
    command: str
    focus: str
    blocked: str = ""


def advise(view: View, program: str) -> Advice:
    """The one next thing. The command named never runs into a guard."""
    plan, where = view.plan, os.path.relpath(view.feature.path)  # from where the person stands
    if plan.verdict == plans.INVALID:
        first = plan.problems[0]
        return Advice(
            "invalid execution plan",
            f"edit {where}/STATE.md (line {first.line})",
            f"{first.fault} {first.fix}",
            f"STATE.md {first}" + (f" ({len(plan.problems)} lines in all)" if len(plan.problems) > 1 else ""),
        )
    if view.readiness()["FEATURE.md"] == folder.REVIEW:
        return Advice(
            "feature needs review",
            f"edit {where}/FEATURE.md",
            "Say what you want built: replace the example sentences.",
            "FEATURE.md still contains scaffold content and needs review.",
        )
    if plan.verdict == plans.EMPTY:
        return Advice(
            "needs generation",
            f"{program} run --copy",
            "Let an assistant write the spec, the design and the plan.",
            "STATE.md does not contain a valid execution plan yet.",
        )
    if plan.verdict == plans.COMPLETE:
        return Advice(
            "execution complete",
            f"{program} archive {view.feature.name}"
            if not view.feature.name.endswith(folder.ARCHIVED)
            else f"{program} list",
            "Every step is done or dropped: archive the feature or start a new one.",
        )
    if plan.verdict == plans.BLOCKED:
        from handoff.base.markdown import end_sentence

        stuck = next(plan.step(i) for i, (_, mark, _) in enumerate(plan.marks) if mark == plans.STUCK)
        return Advice(
            "blocked",
            f"{program} step start {stuck.number}",
            f"Step {stuck.number} waits: {end_sentence(stuck.reason)} When that is concluded, take it up again.",
            f"Every remaining step is blocked; step {stuck.number}: {stuck.reason}",
        )
    current = plan.current
    assert current is not None  # noqa: S101 - a valid plan has one
    return Advice("ready to execute", f"{program} run --copy", current.text)


_SHOWN = 10


def at_work(app: App) -> list[str]:
    """One line for each session that holds a task of this project, but for the one that asks."""
    if not app.has_rows:
        return []
    from handoff.board.tasks import states, tasks
    from handoff.engine.app.home import find_project

    try:
        project = find_project(app).name
        held = tasks.listing(app.database, project=project, state=states.RUNNING, limit=_SHOWN)
    except HandoffError as error:
        return [f"unknown: {error.message}"]
    mine = app.settings.get("HANDOFF_SESSION")
    now = app.clock.now()
    return [
        f"{task.held_agent or 'a session'} on task {task.label}"
        + (f" ({', '.join(task.patterns[:5])})" if task.patterns else "")
        + _place_of(app, task)
        + (f", seen {age(now - task.seen_at)} ago" if task.seen_at else "")
        for task in held
        if task.held_by != mine
    ]


def project_of(app: App) -> str:
    """Under which name the relay knows this folder; empty where it does not."""
    from handoff.engine.app.home import find_project

    try:
        return find_project(app).name
    except HandoffError:
        return ""


def tasks_of(app: App, project: str, feature: str) -> list[Task]:
    """The tasks that were made from steps of a feature, ended ones too."""
    if not app.has_rows:
        return []
    from handoff.board.tasks import tasks

    found = tasks.listing(app.database, project=project, include_ended=True)
    return [task for task in found if (task.baseline_facts.get("step") or {}).get("feature") == feature]


def under_way(app: App) -> dict[str, int]:
    """How much the relay has under way in this project, as numbers; nothing where it cannot be read."""
    if not app.has_rows:
        return {}
    from handoff.board.tasks import tasks
    from handoff.engine.app.home import find_project

    try:
        project = find_project(app).name
        return {what: count for what, count in tasks.counts(app.database, project=project).items() if count}
    except HandoffError:
        return {}


def _place_of(app: App, task: Task) -> str:
    """Where a session of this machine works and what keeps it there."""
    if not has_folder(app, project=task.project, session=task.held_by or "-"):
        return ""
    from handoff.base.files import read_text
    from handoff.base.light_json import loads

    return fence_words(loads(read_text(_facts_path(app, task.project, task.held_by or "-"))))


def has_folder(app: App, *, project: str, session: str) -> bool:
    """Whether a session was started by this machine's relay, which keeps a folder for each; a person's tab has none."""
    return os.path.exists(_facts_path(app, project, session))


def _facts_path(app: App, project: str, session: str) -> str:
    return os.path.join(app.settings.home, project, "sessions", session, "session.json")


def fence_words(facts: Mapping[str, Any]) -> str:
    """Where a session works and what keeps it there, from its own facts."""
    place = "in a clone of its own" if facts.get("kind") == "clone" else "in this checkout"
    sandbox = f"inside {facts.get('layer')}" if facts.get("sandbox", "none") != "none" else "without a sandbox"
    return f", {place} {sandbox}"
