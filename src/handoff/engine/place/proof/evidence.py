"""Done is derived: take what a task starts from, run its check ourselves and hold the changed paths against its ownership."""

from __future__ import annotations

import os

from handoff.base.errors import Refused, UserError
from handoff.base.ids import on_one_line
from handoff.base.record import TYPE_CHECKING, Record
from handoff.base.settings import PROJECT_FOLDER, project_config
from handoff.board.tasks import tasks
from handoff.engine.app.home import home_config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from handoff.board.tasks.tasks import Task
    from handoff.checks.commands import Verdict
    from handoff.engine.app import App
    from handoff.git.plumbing.checkout import CheckoutFacts
    from handoff.git.workspaces import Workspace

_SHOWN = 20
_KEPT_STAMPS = 5000
_LARGE = 1_000_000
_HASHED = 2  # hyphens in the stamp of a file whose content is part of it
_DOCUMENTS = PROJECT_FOLDER + "/"  # the feature's own documents are every session's to write


class Evidence(Record):
    """What was found when a session said that it is done."""

    head: str
    changed: tuple[str, ...]
    outside: tuple[str, ...]
    verdict: Verdict | None
    workspace: str = ""
    tree: str = ""
    """The tree the check ran on; empty when the workspace was not exactly its commit."""

    @property
    def green(self) -> bool:
        return not self.outside and (self.verdict is None or self.verdict.green)

    def refusal(self, task: Task, outside: list[str], *, program: str) -> Refused:
        """Why it is not believed: the paths outside its ownership, else what its check said."""
        if outside:
            shown = ", ".join(map(on_one_line, outside[:_SHOWN])) + (
                f" and {len(outside) - _SHOWN} more" if len(outside) > _SHOWN else ""
            )
            return Refused(
                f"'{task.label}' is not done: since it was claimed, files changed that it does not own: {shown}",
                f"If you changed them, take that back. If somebody else did, leave them alone. A person accepts them in a"
                f" terminal of their own: {program} task done {task.label} --accept-outside WHOSE",
            )
        tail = f"\n{self.verdict.tail}" if self.verdict and self.verdict.tail else ""
        word = f"`{self.verdict.command}` is {self.verdict.word}" if self.verdict else "its check is red"
        return Refused(
            f"'{task.label}' is not done: {word}.{tail}", "Fix it and report again; the task is still yours."
        )

    def record(self) -> dict[str, Any]:
        """The evidence as the board keeps it."""
        found: dict[str, Any] = {
            "head": self.head,
            "changed": list(self.changed[:200]),
            "changed_count": len(self.changed),
        }
        if self.outside:
            found["outside"] = list(self.outside[:200])
        if self.verdict is not None:
            v = self.verdict
            found["check"] = {
                "command": v.command,
                "verdict": v.word,
                "green": v.green,
                "seconds": round(v.seconds, 3),
                "tail": v.tail,
            }
        return found


def stamps_of(workspace: str, paths: Iterable[str]) -> dict[str, str]:
    """What files are like that were already changed, so that they are not held against the next session."""
    found: dict[str, str] = {}
    for path in paths:
        found[path] = _stamp(os.path.join(workspace, path))
        if len(found) >= _KEPT_STAMPS:
            break
    return found


def is_as_stamped(workspace: str, path: str, stamp: str) -> bool:
    """Whether a file is what it was when the stamp was taken: a stash or a checkout and back writes the same bytes anew."""
    now = _stamp(os.path.join(workspace, path))
    return now == stamp or (
        now.count("-") == stamp.count("-") == _HASHED and now[now.rindex("-") :] == stamp[stamp.rindex("-") :]
    )


def _stamp(path: str) -> str:
    """Size and time, and of a file that is not large its content too."""
    try:
        info = os.lstat(path)
        if os.path.islink(path) or not os.path.isfile(path) or info.st_size > _LARGE:
            return f"{info.st_size}-{info.st_mtime_ns}"
        from hashlib import sha1

        with open(path, "rb") as file:
            return f"{info.st_size}-{info.st_mtime_ns}-{sha1(file.read(), usedforsecurity=False).hexdigest()}"
    except OSError:
        return "gone"


def changed_since(app: App, workspace: str, base: str) -> tuple[str, ...] | None:
    """Every path that differs from the commit `base`, committed or not, tracked or new; None where git cannot tell."""
    from handoff.git.plumbing.checkout import git

    environment = app.git_environment
    against_base = (
        "diff",
        "--name-only",
        "-z",
        "--no-renames",
        "--no-ext-diff",
        "--ignore-submodules=none",
        base,
        "--",
    )
    tracked = git(workspace, *(against_base if base else ("ls-files", "-z")), environment=environment)
    untracked = git(workspace, "ls-files", "--others", "--exclude-standard", "-z", environment=environment)
    if tracked.code or untracked.code:
        return None
    return tuple(dict.fromkeys(path for path in (tracked.text + untracked.text).split("\0") if path))


def already_changed(app: App, workspace: str, head: str) -> dict[str, str]:
    """The paths that differ from HEAD now, with their stamps: what a new task finds lying about."""
    changed = changed_since(app, workspace, head)
    return stamps_of(workspace, changed or ())


def note_claim(app: App, task: Task, *, workspace: str) -> None:
    """Write down how the workspace is when a session takes the task: it answers for what is changed from here on."""
    if not task.patterns:
        return
    from handoff.git.plumbing.checkout import facts

    state = facts(workspace, environment=app.git_environment)
    if state is None:
        return
    claimed = {
        "fence": task.fence,
        "at": app.clock.now(),
        "head": state.head,
        "stamps": already_changed(app, workspace, state.head),
    }
    baseline = {**task.baseline_facts, "claimed": claimed}
    tasks.note_claim(app.database, key=task.key, fence=task.fence, baseline=baseline)


def _begun_from(task: Task) -> dict[str, Any]:
    """What the session that holds the fence found; a task nobody has claimed is judged from when it was written."""
    baseline = task.baseline_facts
    claimed = dict(baseline.get("claimed", {}))
    return claimed if claimed.get("fence") == task.fence else baseline


def gather(app: App, task: Task, *, workspace: str, sandboxed: bool = False) -> Evidence:
    """Look at the workspace as it is now, and run the task's check there."""
    patterns = task.patterns
    if not (patterns or task.check_command) or task.ended:
        return Evidence(head="", changed=(), outside=(), verdict=None)
    if not os.path.isdir(workspace):
        raise UserError(
            f"The workspace of '{task.label}' is gone: {workspace}.", "Bring it back, or: handoff task block REASON"
        )
    from handoff.git.plumbing.checkout import facts

    state = facts(workspace, environment=app.git_environment)
    changed: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()
    if patterns and state is not None:
        baseline = _begun_from(task)
        found = changed_since(app, workspace, str(baseline.get("head", "")))
        if found is None:
            raise Refused(
                f"'{task.label}' cannot be judged: the commit {baseline.get('head')} it began at is not in {workspace}.",
                f"Fetch it, or let a person close the task: handoff cancel {task.label}",
            )
        changed = found
        outside = _outside(app, task, workspace, changed, stamps=baseline.get("stamps", {}))
    verdict = None
    if task.check_command and not outside:
        verdict = run_task_check(app, task, workspace, sandboxed=sandboxed)
    head = state.head if state else ""
    tree = _exact_tree(app, state) if state and verdict and verdict.green else ""
    return Evidence(head=head, changed=changed, outside=outside, verdict=verdict, workspace=workspace, tree=tree)


def _exact_tree(app: App, before: CheckoutFacts) -> str:
    """The tree of HEAD if the check ran on nothing else: clean before, and neither moved nor edited meanwhile."""
    from handoff.git.plumbing.checkout import facts, git

    if not before.head or any(not path.startswith(_DOCUMENTS) for path in before.dirty):
        return ""
    now = facts(before.top, environment=app.git_environment)
    if now is None or now.head != before.head or now.staged or now.unstaged or now.conflicted:
        return ""
    answer = git(before.top, "rev-parse", f"{before.head}^{{tree}}", environment=app.git_environment)
    return answer.text.strip() if answer.code == 0 else ""


def out_of_scope(app: App, task: Task) -> tuple[str, ...]:
    """What lies changed outside the task's ownership now; no check is run."""
    baseline = _begun_from(task)
    found = changed_since(app, task.workspace, str(baseline.get("head", "")))
    return _outside(app, task, task.workspace, found or (), stamps=baseline.get("stamps", {}))


def _outside(
    app: App, task: Task, workspace: str, changed: Iterable[str], *, stamps: dict[str, str]
) -> tuple[str, ...]:
    """Changed paths that neither this task nor a neighbour in the same checkout owns, and that were not lying about before."""
    from handoff.git.ownership import Ownership

    mine = Ownership.parse(task.patterns)
    left = [path for path in changed if not path.startswith(_DOCUMENTS) and not mine.covers(path)]
    left = [path for path in left if path not in stamps or not is_as_stamped(workspace, path, stamps[path])]
    if not left or workspace != task.workspace:  # its own checkout has no neighbours
        return tuple(left)
    theirs = Ownership.joined(Ownership.parse(other.patterns) for other in _neighbours(app, task))
    return tuple(path for path in left if not any(other.covers(path) for other in theirs))


def _neighbours(app: App, task: Task) -> list[Task]:
    """Who else may write in the same checkout: tasks that live there or ended meanwhile."""
    others = tasks.listing(app.database, project=task.project)
    others += tasks.ended_since(app.database, project=task.project, since=float(_begun_from(task).get("at", 0.0)))
    found = {other.key: other for other in others if other.workspace == task.workspace}
    found.pop(task.key, None)
    return list(found.values())


def run_task_check(app: App, task: Task, folder: str, *, sandboxed: bool, clone: Workspace | None = None) -> Verdict:
    """The task's check, run by us where its session works.

    What a sandboxed session wrote is run here, so the sandbox stands around it as well; its time is what the person's own
    settings say, because those in its workspace are the session's to write.
    """

    def refuse(layer: str) -> None:
        if task.is_from_inside and layer == "none":
            from handoff.engine.place.proof.faults import GroundFault

            raise GroundFault(
                f"The check cannot run: '{task.label}' was written inside a sandbox, and this machine has none for its check.",
                "Install bubblewrap (apt install bubblewrap), or write the task anew yourself.",
            )

    checkout = task.workspace if sandboxed else folder
    return run_command(
        app, task.check_command, folder, checkout=checkout, sandboxed=sandboxed, clone=clone, refuse=refuse
    )


def run_step_check(app: App, command: str, folder: str, *, sandboxed: bool) -> Verdict:
    """The check of a plan's step, in the checkout it belongs to: what it runs there, sessions may have landed.

    Without git nothing lands, and who runs inside a sandbox already gets no second one.
    """
    from handoff.base.markdown import shell_line
    from handoff.git.plumbing import find_top

    top = find_top(folder)
    sandboxed = sandboxed and top is not None and not app.settings.get("HANDOFF_BROKER")
    line = f"{shell_line(['cd', folder])} && {{ {command}\n}}" if sandboxed and folder != top else command
    return run_command(app, line, folder, checkout=folder, sandboxed=sandboxed)._replace(command=command)


def run_command(
    app: App,
    command: str,
    folder: str,
    *,
    checkout: str,
    sandboxed: bool,
    clone: Workspace | None = None,
    refuse: Callable[[str], None] | None = None,
) -> Verdict:
    """A check in a folder, for as long as the settings of `checkout` allow; `refuse` may say no to the sandbox there is."""
    from handoff.checks.commands import check_environment

    # What a check compiles is nobody's work, and few young projects ignore it.
    wrap, environment = None, {**check_environment(app.settings.environment), "PYTHONDONTWRITEBYTECODE": "1"}
    if sandboxed:
        from handoff.engine.place.proof.sandboxes import for_check, refuse_astray, sandbox_of_folder

        caches = home_config(app).texts("session_caches")
        if clone is not None:
            clone, sandbox = for_check(app, workspace=clone, checkout=checkout, caches=caches)
        else:
            sandbox = sandbox_of_folder(app, folder=folder, caches=caches)
        if refuse is not None:
            refuse(sandbox.layer)
        refuse_astray(sandbox, environment)
        wrap = sandbox.wrap
    how: dict[str, Any] = {
        "folder": folder,
        "environment": {**environment, **(clone.environment() if clone else {})},
        "timeout": project_config(checkout).number("check_timeout"),
        "wrap": wrap,
    }
    if clone is None or not clone.lent:
        return check_bounded(app, command, **how)
    from handoff.git.workspaces.dependencies import as_lent

    with as_lent(clone) as replaced:
        verdict = check_bounded(app, command, **how)
    note = "".join(f"\n({name} of the person's checkout was used, not the session's own)" for name in replaced)
    return verdict._replace(tail=verdict.tail + note)


def check_bounded(app: App, command: str, **how: Any) -> Verdict:
    """Run a command with the memory and the processes that the settings of this home allow."""
    from handoff.base.bounds import bounds_of
    from handoff.checks.commands import run_check

    return run_check(command, clock=app.clock, bounds=bounds_of(home_config(app)), **how)


_LAST_COMMITS = 3
_SHOWN_DIRTY = 200


def take_baseline(
    app: App, workspace: str, *, tests: str = "", stamps: bool = False, timeout: float = 900.0
) -> dict[str, Any]:
    """The facts of the checkout now; `tests` are run here, and their verdict is part of the baseline.

    `stamps` also notes every file that is changed already, so that it is not held against the session later.
    """
    from handoff.git.plumbing.checkout import begin_commits, begin_facts

    state_of = begin_facts(workspace, environment=app.git_environment)
    commits_of = begin_commits(workspace, "HEAD", environment=app.git_environment, limit=_LAST_COMMITS)
    state, last = state_of(), commits_of() or ()  # both were asked before the first was waited for
    found: dict[str, Any] = {"at": app.clock.now(), "workspace": workspace, "host": app.settings.host}
    if state is not None:
        found.update(
            head=state.head, branch=state.branch, dirty=list(state.dirty[:_SHOWN_DIRTY]), dirty_count=len(state.dirty)
        )
        if state.head:
            found["commits"] = [f"{commit.sha[:10]} {commit.subject}" for commit in last]
        if stamps and state.dirty:
            found["stamps"] = already_changed(app, workspace, state.head)
    if tests:
        app.tell(f"Running the tests for the baseline: {tests}", 0, 0)
        verdict = check_bounded(app, tests, folder=workspace, environment=app.settings.environment, timeout=timeout)
        word = verdict.word
        if not verdict.green:
            from handoff.engine.place.proof.faults import missing_for

            lacks = missing_for(verdict, owns=(), folder=workspace)
            word = word if lacks is None else f"not run: {lacks or verdict.command} is missing (exit {verdict.code})"
        found["tests"] = {"command": tests, "verdict": word, "green": verdict.green, "tail": verdict.tail}
    return found
