"""Several machines, one repository: publish what a task's session made, and go on from what another machine published.

Work is published under the task's fence and its machine, `refs/handoff/task/<name>/<fence>-<machine>`, and as the branch
`handoff/<name>`. Only the holder of the fence publishes; the branch moves under a lease on what was last seen there.
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager

from handoff.agents import folder as folders
from handoff.base.errors import Away, Conflict, HandoffError, UserError
from handoff.base.files import make_folder, remove, remove_tree, write_atomic
from handoff.base.ids import slug
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.events import texts
from handoff.board.sessions import leases
from handoff.board.tasks import batches, races, states, tasks
from handoff.engine.app.home import home_config
from handoff.engine.place import pulse
from handoff.engine.place.proof.evidence import take_baseline
from handoff.engine.place.task_clones import name_for, name_of
from handoff.engine.safety.snapshots import SnapshotStore, keep
from handoff.git import remotes
from handoff.git.plumbing import find_top
from handoff.git.plumbing.checkout import facts, git_path
from handoff.git.plumbing.snapshot_repo import CHECKOUTS, TREE, SnapshotRepo, find_place
from handoff.git.remotes import BASES, BRANCHES, PUBLISHED, BranchMoved, CheckoutStart, Remote
from handoff.git.snapshots.restore import tree_of
from handoff.git.workspaces import read_workspace
from handoff.store.database import without_password

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from handoff.base.settings import Config
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.git.plumbing.objects import Entry

# What this machine remembers of its pushes: what was last seen at the shared repository, and what could not go there yet.


def place_here(app: App) -> str:
    """This machine as its refs name it."""
    return slug(app.settings.host) or "host"


def snapshot_store_of(app: App, folder: str, project: str) -> SnapshotStore:
    """Where the snapshots of a checkout are."""
    place = find_place(find_top(folder) or folder, home=app.settings.home, project=project)
    return SnapshotStore(place, SnapshotRepo(place.store, app.settings.environment))


def mirror_of(app: App, project: str) -> str:
    """What this machine has fetched of a project; all its checkouts borrow their history there."""
    return os.path.join(app.settings.home, project, "remote.git")


def folder_of(app: App, project: str) -> str:
    """Where it is remembered what was pushed of a project."""
    return os.path.join(app.settings.home, project, "remotes")


def read_memory(app: App, project: str, name: str) -> dict[str, Any]:
    """What is remembered of one task."""
    try:
        with open(os.path.join(folder_of(app, project), f"{name}.json"), encoding="utf-8") as file:
            return dict(json.load(file))
    except (OSError, ValueError):
        return {}


def write_memory(app: App, project: str, name: str, values: dict[str, Any]) -> None:
    """Remember it."""
    make_folder(folder_of(app, project))
    write_atomic(os.path.join(folder_of(app, project), f"{name}.json"), json.dumps(values), sync=False)


def known_projects(app: App) -> list[str]:
    """The projects of which anything was pushed from here."""
    home = app.settings.home
    return (
        [name for name in sorted(os.listdir(home)) if os.path.isdir(folder_of(app, name))]
        if os.path.isdir(home)
        else []
    )


def troubles(app: App) -> list[str]:
    """Which tasks' work could not be pushed from this machine when it was last tried, and why."""
    found = []
    for project in known_projects(app):
        for file in sorted(os.listdir(folder_of(app, project))):
            trouble = (
                read_memory(app, project, file.removesuffix(".json")).get("trouble") if file.endswith(".json") else ""
            )
            if trouble:
                found.append(f"{project}/{file.removesuffix('.json')}: {trouble}")
    return found


def waiting_bases(app: App) -> list[tuple[str, str, str]]:
    """Commits that could not be pushed with their tasks: project, name, checkout."""
    found = []
    for project in known_projects(app):
        for file in os.listdir(folder_of(app, project)):
            if file.endswith(".waits"):
                with open(os.path.join(folder_of(app, project), file), encoding="utf-8") as opened:
                    found.append((project, file.removesuffix(".waits"), opened.read()))
    return found


# What ended tasks have left at the shared repository goes when it is needed no more: every ref there slows every push of every machine.
# What landed goes at once, also what a person has merged, squashed or rebased. A finished branch that nobody merged stays: it is somebody's
# work. What belongs to no task we know may be another relay's: it goes only if it was merged.
GRACE_SECONDS = 3600.0
_HOUR, _DAY = 3600.0, 86_400.0
_BASE_DAYS = 2.0  # twice as long as a machine believes that a base it has pushed is still there
_ALL = 1_000_000
_AT_ONCE = 100


class LeftRefs(Record):
    """What one task has left at the shared repository: its branch, and what each of its holders had pushed."""

    branch: dict[str, str]
    work: dict[str, str]

    @property
    def all(self) -> dict[str, str]:
        return {**self.branch, **self.work}


def retire(
    app: App, *, project: str, remote: Remote, mirror: str, days: float, grace: float = GRACE_SECONDS
) -> list[str]:
    """Take away what nobody needs there any more; the names that went."""
    refs = remote.refs(f"{BRANCHES}*", f"{PUBLISHED}*", f"{BASES}*")
    now = app.clock.now()
    over: dict[str, str] = {}
    unsure: list[tuple[Task | None, LeftRefs]] = []
    for name, left in _by_task(refs).items():
        task = tasks.look_up(app.database, key=_key_of(name))
        if task is not None and (name != name_of(task) or task.project != project):
            continue  # another relay's, whose numbers are not ours
        if task is not None and not _is_over(app, task, now - grace):
            continue
        if task is not None and texts.read(task.evidence, {}).get("landed"):
            over |= left.all
        else:
            unsure.append((task, left))
    bases, strange = _old_bases(app, project, refs, now)
    merged = remote.history(mirror) if strange or any(left.branch for _, left in unsure) else set()
    ours = {name: tip for task, left in unsure if task is not None for name, tip in left.branch.items()}
    apart = in_turn([name for name, tip in ours.items() if tip not in merged], int(now / _HOUR))
    squashed = remote.contained(mirror, {name: ours[name] for name in apart}) if merged else set()
    for task, left in unsure:
        if left.branch and all(tip in merged or name in squashed for name, tip in left.branch.items()):
            over |= left.all
        elif task is not None and (task.ended_at or now) < now - days * _DAY:
            over |= left.all if task.state == states.CANCELLED else left.work
    over |= bases | {ref: tip for ref, tip in strange.items() if tip in merged}
    return remote.delete(mirror, over) if over else []


def in_turn(names: list[str], hour: int) -> list[str]:
    """Some of the names, others in the next hour: what each takes to judge is small, and there may be thousands."""
    rows = [sorted(names)[start : start + _AT_ONCE] for start in range(0, len(names), _AT_ONCE)]
    return rows[hour % len(rows)] if rows else []


def _by_task(refs: dict[str, str]) -> dict[str, LeftRefs]:
    found: dict[str, LeftRefs] = {}
    for ref, tip in refs.items():
        if ref.startswith(BRANCHES):
            found.setdefault(ref.removeprefix(BRANCHES), LeftRefs({}, {})).branch[ref] = tip
        elif ref.startswith(PUBLISHED):
            found.setdefault(ref.removeprefix(PUBLISHED).rpartition("/")[0], LeftRefs({}, {})).work[ref] = tip
    return {name: left for name, left in found.items() if _key_of(name)}  # somebody's own branch has no number


def _key_of(name: str) -> int:
    number = name.rpartition("-")[2]
    return int(number) if number.isdecimal() else 0


def _is_over(app: App, task: Task, before: float) -> bool:
    """It has ended, and nothing that lives begins with what it left."""
    if task.ended_at is None or task.ended_at > before:
        return False
    if task.batch is not None and batches.get(app.database, key=task.batch).ended_at is None:
        return False
    return not tasks.is_needed(app.database, key=task.key)


def _old_bases(app: App, project: str, refs: dict[str, str], now: float) -> tuple[dict[str, str], dict[str, str]]:
    """Commits that tasks of ours began at and none that lives or is young: whoever writes a task down pushes its base again by then.

    And those that no task of ours names.
    """
    bases = {ref: tip for ref, tip in refs.items() if ref.startswith(BASES)}
    if not bases:
        return {}, {}
    needed: dict[str, bool] = {}
    for task in tasks.listing(app.database, project=project, include_ended=True, limit=_ALL):
        head = str(task.baseline_facts.get("head", ""))
        young = not task.ended or task.created_at > now - _BASE_DAYS * _DAY
        needed[head] = young or needed.get(head, False)
    named = {ref: ref.removeprefix(BASES) for ref in bases}
    return (
        {ref: tip for ref, tip in bases.items() if needed.get(named[ref]) is False},
        {ref: tip for ref, tip in bases.items() if named[ref] not in needed},
    )


_TRIES = 5
_PAUSE = 2.0
_HOST = "task-"
_KEPT_SECONDS = 86_400.0
_BELIEVED_SECONDS = 86_400.0  # a commit pushed by name may have been retired after that
_RETIRE_SECONDS = 3600.0
_RETIRED = "retired"


class Published(Record):
    """The newest work of a task at the shared repository: who pushed it with which fence."""

    fence: int
    host: str
    tip: str


def remote_of(app: App, project: str) -> Remote | None:
    """The shared repository of a project, if the settings name one."""
    return _remote(app, home_config(app), project)


def _remote(app: App, config: Config, project: str) -> Remote | None:
    address = config.text("git_remote").replace("{project}", project)
    if not address:
        return None
    shown = without_password(address) if "://" in address else address
    return Remote(address, shown, app.git_environment)


def branch_of(name: str) -> str:
    return f"{BRANCHES}{name}"


# --- publishing -----------------------------------------------------------------------------------------------


class WaitingPush(Record):
    """A session's tree as it is now, ready to go to the shared repository."""

    project: str
    name: str
    fence: int
    tip: str
    repository: str
    expected: str
    """Where the branch was when this machine last saw it."""

    def targets(self, host: str) -> dict[str, str]:
        return {branch_of(self.name): self.tip, f"{PUBLISHED}{self.name}/{self.fence}-{host}": self.tip}


def publish(app: App, *, task: Task, fence: int, folder: str, session: str = "") -> str:
    """Push the whole tree of a session as it is now; its commit. Refused (exit 4) once the task has another holder."""
    tip, push = _waiting(app, task, fence, folder, session)
    remote = remote_of(app, task.project)
    if push is None or remote is None:
        return tip
    branch, expected = branch_of(push.name), push.expected
    for _ in range(_TRIES):
        try:
            remote.push(push.repository, push.targets(place_here(app)), branch=branch, expected=expected)
            break
        except BranchMoved:
            # A machine that has lost the task may have pushed in the same moment. The rows say whose the branch is.
            _refuse_replaced(app, task.key, fence)
            expected = remote.refs(branch).get(branch, "")
    else:
        raise Away(f"The branch {branch} at {remote.shown} does not hold still.", "It is tried again.")
    write_memory(app, task.project, push.name, {"tip": tip, "fence": fence})
    return tip


def _waiting(app: App, task: Task, fence: int, folder: str, session: str) -> tuple[str, WaitingPush | None]:
    """What a session has to push: its commit, and nothing more where that is there already."""
    if remote_of(app, task.project) is None or not os.path.lexists(os.path.join(folder, ".git")):
        return "", None
    _refuse_replaced(app, task.key, fence)
    snapshot_store = snapshot_store_of(app, folder, task.project)
    tip = _tip_of(app, snapshot_store, task, fence, session)
    name = name_of(task)
    known = read_memory(app, task.project, name)
    if not tip or (known.get("tip") == tip and known.get("fence") == fence):
        return tip, None
    expected = str(known.get("tip", ""))
    return tip, WaitingPush(
        project=task.project,
        name=name,
        fence=fence,
        tip=tip,
        repository=snapshot_store.store.path,
        expected=expected,
    )


def _publish_together(app: App, pushes: list[WaitingPush]) -> None:
    """One push for all that wait at one repository; who was refused there goes alone, where it is told why."""
    for project, repository in {(one.project, one.repository) for one in pushes}:
        remote = remote_of(app, project)
        some = [one for one in pushes if (one.project, one.repository) == (project, repository)]
        if remote is None or len(some) < 2:  # noqa: PLR2004 - one alone needs no bundle
            continue
        went = remote.push_many(
            repository, [(one.targets(place_here(app)), branch_of(one.name), one.expected) for one in some]
        )
        for one, whole in zip(some, went, strict=True):
            if whole:
                write_memory(app, project, one.name, {"tip": one.tip, "fence": one.fence})


def publish_patiently(app: App, *, task: Task, fence: int, folder: str, session: str = "") -> str:
    """The same; while the shared repository is away the task stays ours, and nothing counts as an attempt."""
    return str(
        _patiently(app, task, fence, lambda: publish(app, task=task, fence=fence, folder=folder, session=session))
    )


def _patiently(app: App, task: Task, fence: int, function: Callable[[], Any]) -> Any:
    """Try until it works; meanwhile the task stays ours, and whoever looks is told why it waits."""
    name, told = name_of(task), ""
    while True:
        try:
            done = function()
        except Away as error:
            leases.heartbeat(app.database, key=task.key, fence=fence)  # whoever was replaced meanwhile ends here
            if error.message != told:
                told = error.message
                write_memory(app, task.project, name, {**read_memory(app, task.project, name), "trouble": told})
            app.clock.sleep(_PAUSE)
        else:
            known = read_memory(app, task.project, name) if told else {}
            if known.pop("trouble", ""):
                write_memory(app, task.project, name, known)
            return done


def _refuse_replaced(app: App, key: int, fence: int) -> None:
    row = tasks.get(app.database, key=key)
    if row.fence != fence:
        raise tasks.stale(row, fence)


def _tip_of(app: App, snapshot_store: SnapshotStore, task: Task, fence: int, session: str) -> str:
    """The commit to publish: the session's own where nothing is uncommitted, else one on top of it with every file.

    What was copied into the clone is the person's, and leaves it neither as a file nor in a commit of the session's.
    """
    taken = keep(app, snapshot_store, "publish", session=session)
    store, parent = snapshot_store.store, taken.head
    tree = tree_of(store, taken.sha)
    workspace = read_workspace(os.path.dirname(snapshot_store.source.top))
    if workspace is not None and workspace.included:
        copied: dict[bytes, Entry | None] = {os.fsencode(path): None for path in workspace.included}
        tree = store.graft(store.load(tree, copied), copied)
        since = f"{workspace.base}..{parent or workspace.base}"
        named = store.ask("log", "-z", "-m", "--format=", "--name-only", "--no-renames", since, "--").split("\0")
        parent = workspace.base if set(workspace.included).intersection(named) else parent
    if parent and tree_of(store, parent) == tree:
        return parent
    message = f"Work of '{task.label}' as it lies, not committed by its session\n\n{remotes.WIP}: {fence}\n"
    return store.write_commit(tree, [parent] if parent else [], message, moment=int(taken.time))


def offer_base(app: App, *, project: str, folder: str) -> str:
    """Push the commit a new task begins at, so that any machine can take it; what went wrong, in words."""
    remote = remote_of(app, project)
    if remote is None:
        return ""
    state = facts(folder, environment=app.git_environment)
    if state is None or not state.head:
        return ""
    place = os.path.join(folder_of(app, project), f"base-{state.head}")
    if os.path.exists(place) and app.clock.now() - os.stat(place).st_mtime < _BELIEVED_SECONDS:
        return ""
    make_folder(folder_of(app, project))
    write_atomic(f"{place}.waits", state.top, sync=False)
    return _push_base(app, remote, place, state.top)


def _push_base(app: App, remote: Remote, place: str, top: str) -> str:
    head = os.path.basename(place).removeprefix("base-")
    try:
        repository = os.path.dirname(git_path(top, "config", environment=app.git_environment))
        remote.push(repository, {f"{BASES}{head}": head})
    except HandoffError as error:
        return error.message
    os.rename(f"{place}.waits", place)
    os.utime(place)
    return ""


# --- taking over ------------------------------------------------------------------------------------------------


def adopt(app: App, config: Config, *, task: Task, fence: int) -> Task:
    """The task with a workspace on this machine that holds what was done so far, wherever that was."""
    remote = _remote(app, config, task.project)
    if remote is None:
        return task
    found: Task = _patiently(app, task, fence, lambda: _adopt(app, remote, task, fence))
    return found


def _adopt(app: App, remote: Remote, task: Task, fence: int) -> Task:
    name = name_of(task)
    waited = _waited_for(app, task)
    mirror = mirror_of(app, task.project)
    # Only what is asked for by name: a repository of many machines has very many refs.
    names = (name, *(name_for(label, key) for key, label in waited.items()))
    refs = remote.fetch(mirror, *(f"{PUBLISHED}{one}/*" for one in names))
    newest = _newest(refs, name)
    here = os.path.lexists(os.path.join(task.workspace, ".git"))
    if newest is not None and newest.host == place_here(app) and here:
        return task  # this machine published last: its own tree is at least as new
    needed = [] if newest is not None else _results(waited, refs)
    own = here and task.baseline_facts.get("host", app.settings.host) == app.settings.host
    if newest is None and own and all(one.host == place_here(app) for _, one in needed):
        return task
    branch = branch_of(name).removeprefix("refs/heads/")
    if newest is not None:
        start = remotes.start_at(mirror, branch, newest.tip, environment=remote.environment)
    else:
        merged = [(label, one.tip) for label, one in needed]
        start = CheckoutStart(branch, _fetch_base(remote, mirror, task), merged=merged)
    folder = _make(app, task, mirror, remote, start)
    write_memory(app, task.project, name, {"tip": newest.tip if newest is not None else "", "fence": 0})
    return _place(app, task, fence, folder, new=newest is None)


def _newest(refs: dict[str, str], name: str) -> Published | None:
    found = []
    for ref, tip in refs.items():
        if ref.startswith(f"{PUBLISHED}{name}/"):
            fence, _, host = ref.rpartition("/")[2].partition("-")
            found.append(Published(int(fence), host, tip))
    return max(found, key=lambda one: one.fence, default=None)


def _fetch_base(remote: Remote, mirror: str, task: Task) -> str:
    """The commit a task begins at: pushed by name when it was written down, else somewhere on the branches."""
    head = str(task.baseline_facts.get("head", ""))
    if head and remote.fetch(mirror, f"{BASES}{head}*"):
        return head
    heads = remote.fetch(mirror, "refs/heads/*", f"^{BRANCHES}*")  # people's branches: a base is on one of those
    return head or next(iter(heads.values()), "HEAD")


def _waited_for(app: App, task: Task) -> dict[int, str]:
    """The tasks this one waited for: those it comes after, and for a fan-in the finished parts of its batch."""
    waited = {}
    for need in tasks.needs_of(app.database, key=task.key):
        key, label = _who_made(tasks.get(app.database, key=need.key))
        waited[key] = label
    if task.kind == tasks.FAN_IN and task.batch is not None:
        for part in tasks.of_batch(app.database, batch=task.batch):
            if part.kind == tasks.SUB_TASK and part.state == states.DONE:
                key, label = _who_made(part)
                waited[key] = label
    return dict(sorted(waited.items()))


def _who_made(task: Task) -> tuple[int, str]:
    """Whose published work it is: of a raced part that of the winner."""
    won = races.facts_of(task) if task.kind == tasks.SUB_TASK else {}
    return (int(won["key"]), f"{task.scope}/{won['winner']}") if won else (task.key, task.label)


def _results(waited: dict[int, str], refs: dict[str, str]) -> list[tuple[str, Published]]:
    """What those have left."""
    found = ((label, _newest(refs, name_for(label, key))) for key, label in waited.items())
    return [(label, one) for label, one in found if one is not None]


def _make(app: App, task: Task, mirror: str, remote: Remote, start: CheckoutStart) -> str:
    """A checkout of the task's own; what an older attempt left there is kept as a snapshot first."""
    tree = os.path.join(app.settings.home, task.project, CHECKOUTS, f"{_HOST}{task.key}", TREE)
    if os.path.lexists(os.path.join(tree, ".git")):
        keep(app, snapshot_store_of(app, tree, task.project), "before another machine's work", force=True)
    remotes.make_checkout(mirror, tree, remote, start)
    return tree


def _place(app: App, task: Task, fence: int, folder: str, *, new: bool) -> Task:
    baseline = task.baseline_facts
    if new:  # what the others left is not this task's doing
        baseline = {**baseline, **take_baseline(app, folder), "dirty": [], "dirty_count": 0}
    return tasks.place(app.database, key=task.key, fence=fence, workspace=folder, baseline=baseline)


# --- looking after ----------------------------------------------------------------------------------------------


def look_after(app: App) -> list[str]:
    """Publish what runs here and what could not be pushed before; what went wrong, in words."""
    found: dict[str, None] = dict.fromkeys(troubles(app))
    at_work: list[tuple[Task, int, str, str]] = []
    for trace in pulse.listing(app):
        with _telling(found):
            task = tasks.get(app.database, key=trace.key)
            workspace = str(folders.get(trace.folder, folders.FACTS).get("workspace", ""))
            if workspace and trace.holds(task):
                at_work.append((task, trace.fence, workspace, trace.session))
    if len(at_work) > 1:
        with _telling(found):
            _publish_together(app, [push for one in at_work if (push := _waiting(app, *one)[1]) is not None])
    for task, fence, workspace, session in at_work:
        with _telling(found):
            publish(app, task=task, fence=fence, folder=workspace, session=session)
    _tidy(app)
    for project, name, top in waiting_bases(app):
        remote = remote_of(app, project)
        place = os.path.join(folder_of(app, project), name)
        trouble = _push_base(app, remote, place, top) if remote is not None else ""
        if trouble:
            found[trouble] = None
    for project in known_projects(app):
        with _telling(found):
            _retire_now_and_then(app, project)
    return list(found)


@contextmanager
def _telling(found: dict[str, None]) -> Iterator[None]:
    try:
        yield
    except Conflict:
        return  # it has another holder
    except HandoffError as error:
        found[error.message] = None


def _retire_now_and_then(app: App, project: str) -> None:
    remote, now = remote_of(app, project), app.clock.now()
    if remote is None or now - float(read_memory(app, project, _RETIRED).get("at", 0.0)) < _RETIRE_SECONDS:
        return
    write_memory(app, project, _RETIRED, {"at": now})
    days = home_config(app).number("retire_days")
    gone = retire(app, project=project, remote=remote, mirror=mirror_of(app, project), days=days)
    for name in {ref.rpartition("/")[2] for ref in gone if ref.startswith(BASES)}:
        remove(os.path.join(folder_of(app, project), f"base-{name}"))


def _tidy(app: App) -> None:
    """Remove checkouts of tasks that ended a day ago: what was in them is at the shared repository and in the snapshot store."""
    for project in known_projects(app):
        folder = os.path.join(app.settings.home, project, CHECKOUTS)
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            try:
                task = tasks.get(app.database, key=int(name.removeprefix(_HOST)))
            except UserError:
                continue  # forgotten by `prune`; a person may look at it
            known = read_memory(app, project, name_of(task))
            old = task.ended_at is not None and app.clock.now() - task.ended_at > _KEPT_SECONDS
            if old and known.get("fence") and not known.get("trouble"):
                remove_tree(os.path.join(folder, name))
