"""The clone a task's sessions work in: its name, its record, which parts of the batch it builds on, and how it begins."""

from __future__ import annotations

import os

from handoff.base.errors import Conflict, Refused, UserError
from handoff.base.ids import on_one_line, slug
from handoff.base.light_json import loads
from handoff.base.record import TYPE_CHECKING
from handoff.board import forges
from handoff.board.events import journal
from handoff.board.sessions import sessions
from handoff.board.tasks import outcomes, races, states, tasks
from handoff.git.plumbing.refs import KEPT, head, refs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.engine.place.landing.renewal import Renewal
    from handoff.engine.safety.snapshots import SnapshotStore
    from handoff.git.landing.conflicts import LaidOut
    from handoff.git.landing.merge import Member
    from handoff.git.workspaces import Workspace

_LONGEST_NAME = 44
SHOWN = "refs/handoff/shown/"
"""In the store: what people see of a task's work, where that is not the kept commit itself."""
_SHOWN = 20


def name_of(task: Task) -> str:
    """The name of a task's own workspace."""
    return name_for(task.label, task.key)


def name_for(label: str, key: int) -> str:
    """A task's name where only plain names will do: its words for people, its number so that no other has it."""
    return f"{slug(label)[:_LONGEST_NAME].strip('-')}-{key}"


def work_name(task: Task) -> str:
    """Under which name the finished work of a task is kept: its own, or that of who won the race for it."""
    won = races.facts_of(task) if task.kind == tasks.SUB_TASK else {}
    return name_for(f"{task.scope}/{won['winner']}", int(won["key"])) if won else name_of(task)


def of_task(app: App, task: Task, *, unfinished: bool = False) -> Workspace | None:
    """The clone sessions of this task work in, if there is one on this machine; also one that somebody died making."""
    folder = os.path.join(app.settings.home, task.project, "workspaces", name_of(task))
    if not os.path.isdir(folder):
        return None
    from handoff.git.workspaces import READY, read_workspace

    found = read_workspace(folder)
    ready = found is not None and found.state == READY and os.path.isdir(found.tree)
    return found if ready or unfinished else None


def of_cancelled(app: App, project: str) -> list[str]:
    """The clones of tasks that were cancelled and whose sessions are over: nobody goes on in them.

    A blocked task's clone is not among them: whoever tries it again goes on from there.
    """
    from handoff.engine.safety.incidents import has_board  # `done` loads this file, and must not load all that is safe

    if not has_board(app):
        return []
    live = {one.task for one in sessions.listing(app.database)}
    found = tasks.listing(app.database, project=project, state=states.CANCELLED)
    return [name_of(one) for one in found if one.key not in live and of_task(app, one) is not None]


def has_lost_its_clone(app: App, task: Task, *, session: str) -> bool:
    """Whether a session worked in a clone of the task that is not there any more: what it made is in a snapshot alone."""
    project = os.path.join(app.settings.home, task.project)
    kept = os.path.join(project, "snapshots.git", "handoff", name_of(task))
    if not session or task.kind == tasks.PHASE or not os.path.isdir(kept):
        return False  # it never had one; looking closer would load all of git's room
    from handoff.git.workspaces import read_copy

    found = read_copy(project, name_of(task))
    return found is not None and found.session == session and not os.path.isdir(found.tree)


def is_sandboxed(app: App, *, project: str, session: str) -> bool:
    """Whether a session of this machine runs inside a sandbox."""
    if not session or not project or not os.path.isdir(os.path.join(app.settings.home, project, "sessions", session)):
        return False  # a person's tab has no folder
    from handoff.agents import folder as folders

    facts = folders.get(folders.place(app.settings.home, project, session), folders.FACTS)
    return str(facts.get("sandbox", "none")) != "none"


def snapshot_store_of_project(app: App, task: Task) -> SnapshotStore:
    """The snapshot store of the person's checkout a task belongs to, under the task's own project."""
    from handoff.engine.safety.snapshots import open_snapshot_store
    from handoff.git.plumbing import find_top

    if find_top(task.workspace) is None:
        raise UserError(f"{task.workspace} is not a git repository any more.", "Bring it back, or cancel the task.")
    return open_snapshot_store(app, folder=task.workspace, project=task.project)


def parts(app: App, task: Task) -> list[Task]:
    """The finished parts of a task's batch that it builds on, in the order they were finished; all of them for a fan-in."""
    if task.batch is None:
        return []
    if task.kind == tasks.FAN_IN:
        found = tasks.of_batch(app.database, batch=task.batch)
    else:  # most parts wait for nobody: they do not look through the whole batch
        known = (tasks.look_up(app.database, key=key) for key in _needed(app, task))
        found = [part for part in known if part is not None and part.batch == task.batch]
    done = [one for one in found if one.kind == tasks.SUB_TASK and one.state == states.DONE and one.key != task.key]
    return sorted(done, key=lambda part: (part.ended_at or 0.0, part.key))


def _needed(app: App, task: Task) -> set[int]:
    """Whom a part waits for, and whom those waited for."""
    found: set[int] = set()
    edge = [task.key]
    with app.database.transaction(write=False) as transaction:
        while edge:
            for need in tasks.needs_of(transaction, key=edge.pop()):
                if need.key not in found:
                    found.add(need.key)
                    edge.append(need.key)
    return found


# --- what it begins from --------------------------------------------------------------------------------------


def ready(
    app: App, snapshot_store: SnapshotStore, task: Task, *, session: str, strays: Mapping[str, str] | None = None
) -> Workspace | None:
    """The task's clone: as the session before left it, else a new one of what the person has now and the parts it needs.

    `strays` is what earlier sessions left outside the ownership. None where there is no commit yet: then nothing can be cloned.
    """
    from handoff.engine.place import brought_home
    from handoff.engine.place.landing import conflict, renewal
    from handoff.engine.place.workspaces import add_workspace, remove_workspace
    from handoff.git.plumbing.checkout import facts
    from handoff.git.workspaces import WorkspaceRequest, write_workspace

    found, asked = of_task(app, task), forges.of_task(app.database, task=task.key)
    moved_on = found is not None and asked is not None and found.target != asked.ref  # it goes on upon its request
    outdated = found is not None and task.kind == tasks.FAN_IN and _is_outdated(app, snapshot_store, task, found)
    if found is not None and (moved_on or outdated):
        # Parts may have come or changed since, and the branch moved: it is made anew, with what was settled remembered.
        remove_workspace(app, name=found.name, snapshot_store=snapshot_store)
        found = None
    anew = renewal.pending(snapshot_store, name_of(task))
    if found is not None and anew is not None and anew.start == found.base:
        renewal.finish(snapshot_store, found, anew)  # somebody died before the work was laid upon it
    elif found is not None:
        anew = _renewed(app, snapshot_store, task, found, begun=anew)
        found = found if anew is None else None
    if found is not None:
        laid = conflict.of_workspace(found)
        owns = conflict.patterns(laid) if laid else task.patterns
        found = found._replace(session=session, owns=owns, strays=found.strays if strays is None else strays)
        write_workspace(found)
        _put_sides(app, snapshot_store, task, found, laid)
        return found
    if (dead := of_task(app, task, unfinished=True)) is not None:  # it holds nothing yet
        remove_workspace(app, name=dead.name, snapshot_store=snapshot_store)
    state = facts(snapshot_store.place.source.top, environment=app.git_environment)
    if state is not None and not state.head:
        return None
    if anew is not None:
        base, target = anew.start, anew.target
    else:
        base, target = _ground(app, snapshot_store, task, dirty=state is not None and bool(state.dirty))
    laid = conflict.read(snapshot_store.place.project, name_of(task))
    laid = laid if laid is not None and laid.commit == base else None
    owns = conflict.patterns(laid) if laid else task.patterns
    order = WorkspaceRequest(name=name_of(task), base=base, session=session, owns=owns, target=target)
    setup = app.settings.get("HANDOFF_WORKSPACE_SETUP")
    made = add_workspace(app, order=order, snapshot_store=snapshot_store, setup=setup).workspace
    _put_sides(app, snapshot_store, task, made, laid)
    if anew is not None:
        renewal.finish(snapshot_store, made, anew)
    renewal.put_before(snapshot_store, made)
    if task.kind not in tasks.PARTS:
        brought_home.bring(task.workspace, made)
    return made


def _renewed(
    app: App, snapshot_store: SnapshotStore, task: Task, workspace: Workspace, *, begun: Renewal | None
) -> Renewal | None:
    """Where a person has let the task try again: its work upon what the person has now, or upon the branch it is for."""
    from handoff.engine.place.landing import renewal
    from handoff.engine.place.workspaces import commit_of_now
    from handoff.git.plumbing.checkout import facts
    from handoff.git.workspaces import DIRTY

    if begun is not None:
        return begun if renewal.clear(app, snapshot_store, workspace) else None
    if task.kind == tasks.FAN_IN or not renewal.is_wanted(app, task, workspace):
        return None
    source = snapshot_store.place.source
    if head(source).ref != workspace.target:  # the person is elsewhere now
        start = refs(source).get(workspace.target, "") if not parts(app, task) else ""
    else:
        state = facts(source.top, environment=app.git_environment)
        dirty = state is not None and bool(state.dirty)
        try:
            start = _base(app, snapshot_store, task, dirty=dirty)
        except Refused:  # the parts it needs do not join any more: their fan-in will say so
            return None
        if start in ("", DIRTY):
            start = commit_of_now(app, snapshot_store=snapshot_store, name=workspace.name, dirty=dirty)
    return renewal.begin(app, snapshot_store, task, workspace, start=start) if start else None


def mend(app: App, snapshot_store: SnapshotStore, task: Task) -> None:
    """A clone whose git folder a session took away is put aside, whole, and made again from its last snapshot."""
    from handoff.engine.place.workspaces import revive_workspace

    found = of_task(app, task)
    git = os.path.join(found.tree, ".git") if found is not None else ""
    if found is None or (os.path.isdir(git) and not os.path.islink(git)):
        return
    aside = os.path.join(found.folder, f"without-git-{os.urandom(3).hex()}")
    os.rename(found.tree, aside)
    with app.database.transaction() as transaction:
        journal.append(transaction, "task.clone_mended", task=task, session=found.session, aside=aside)
    app.notes.append(
        f"The clone of '{task.label}' had lost its git folder. It is made again; what lay there is in {aside}"
    )
    revive_workspace(app, name=found.name, snapshot_store=snapshot_store)


def _is_outdated(app: App, snapshot_store: SnapshotStore, task: Task, workspace: Workspace) -> bool:
    """Whether a clone holds no work beside what it began with, or settles a conflict whose parts or branch have moved since."""
    from handoff.engine.place.landing import conflict
    from handoff.engine.place.landing.members import member_of

    laid, tip = conflict.of_workspace(workspace), head(snapshot_store.place.source).commit
    if laid is not None and snapshot_store.store.git("merge-base", "--is-ancestor", tip, laid.commit).code:
        return True
    if laid is not None and laid.parts:
        now = {one.commit for one in kept_parts(app, snapshot_store, task)}
        if now != set(laid.parts):
            return True
    member = member_of(app, snapshot_store=snapshot_store, workspace=workspace)
    return not member.touches and all(line.startswith(conflict.FOLDER + "/") for line in member.left_out)


def _put_sides(app: App, snapshot_store: SnapshotStore, task: Task, workspace: Workspace, laid: LaidOut | None) -> None:
    """Where a session must settle a conflict: both sides beside its work."""
    if laid is not None:
        from handoff.engine.place.landing import conflict

        conflict.put_sides(snapshot_store.store, workspace, laid, kept_parts(app, snapshot_store, task))


def _ground(app: App, snapshot_store: SnapshotStore, task: Task, *, dirty: bool) -> tuple[str, str]:
    """What a clone begins with and the branch its work is for: what the person has now, or where the task before it landed."""

    source = snapshot_store.place.source
    now, asked = head(source), forges.of_task(app.database, task=task.key)
    if asked is not None and (tip := refs(source).get(asked.ref)):
        return tip, asked.ref
    needs = tasks.needs_of(app.database, key=task.key) if task.kind == tasks.TASK else []
    below = forges.standing_on(app.database, project=task.project, needs=[need.key for need in needs])
    if below is not None and (tip := refs(source).get(below.ref)):
        return tip, below.ref  # nobody has merged the request that carries it
    for need in needs:
        evidence = loads(tasks.get(app.database, key=need.key).evidence or "{}")
        landed, onto = str(evidence.get("landed", "")), str(evidence.get("onto", ""))
        if not landed or not onto or onto == now.ref:
            continue
        if snapshot_store.store.look(source, "merge-base", "--is-ancestor", landed, now.commit).code:
            return refs(source).get(onto, landed), onto  # the person has gone to another branch meanwhile
    return _base(app, snapshot_store, task, dirty=dirty), now.ref


def _base(app: App, snapshot_store: SnapshotStore, task: Task, *, dirty: bool) -> str:
    """The person's tree as it is now, with the work of the parts that the task needs joined in."""
    from handoff.engine.place.landing import conflict, renewal
    from handoff.engine.place.landing.resolvers import resolvers_of
    from handoff.engine.place.workspaces import commit_of_now
    from handoff.git.landing.conflicts import lay_out
    from handoff.git.landing.doubts import doubts_of
    from handoff.git.landing.merge import merge
    from handoff.git.snapshots.restore import give_objects
    from handoff.git.workspaces import DIRTY

    members = kept_parts(app, snapshot_store, task) or _on_branches(app, snapshot_store, task)[1]
    if not members:
        return DIRTY if dirty else ""
    start = commit_of_now(app, snapshot_store=snapshot_store, name=name_of(task), dirty=dirty)
    ways = resolvers_of(app, snapshot_store, head(snapshot_store.place.source).commit, rules=bool(task.check_command))
    joined = merge(snapshot_store.store, start, members, moment=int(app.clock.now()), ways=ways)
    conflict.write_doubts(snapshot_store, name_of(task), doubts_of(snapshot_store.store, members, joined))
    laid = None
    if joined.conflicts and task.kind == tasks.FAN_IN:
        laid = lay_out(snapshot_store.store, joined, members, ways=ways, moment=int(app.clock.now()))
    if laid is not None and conflict.too_large(laid):
        renewal.refuse_outgrown(app, task, {work_name(part): part for part in parts(app, task)}, laid)
        laid = None
    conflict.write(snapshot_store, name_of(task), laid)
    if laid is not None:
        give_objects(snapshot_store.store, snapshot_store.place.source, [laid.commit])
        return laid.commit
    if task.kind == tasks.FAN_IN and conflict.only_locks(joined.conflicts):
        by_hand = join_by_hand(snapshot_store, [one.name for one in members])
        raise conflict.LocksLeft(task, joined.conflicts, by_hand, app.settings.program)
    if joined.conflicts and task.kind == tasks.TASK:
        return DIRTY if dirty else ""  # the person has gone on without it; the prompt says where it is
    if joined.conflicts:
        named = [f"{one.first}, {one.second}{f': {one.why}' if one.why else ''}" for one in joined.conflicts[:_SHOWN]]
        paths = [on_one_line(one.path) for one in joined.conflicts]
        shown = ", ".join(f"{path} ({names})" for path, names in zip(paths, named, strict=False))
        raise Refused(
            f"'{task.label}' cannot begin: the parts it needs do not join: {shown}",
            f"Join them. {join_by_hand(snapshot_store, [one.name for one in members])}"
            f"\nThen it goes on by itself, at once with: {app.settings.program} retry {task.label}",
        )
    give_objects(snapshot_store.store, snapshot_store.place.source, [joined.new])
    return joined.new


def kept_commit(snapshot_store: SnapshotStore, task: Task) -> str:
    """The commit that holds what a task was believed to have made; nothing when it made that in the person's checkout."""
    answer = snapshot_store.store.git("rev-parse", "-q", "--verify", f"{KEPT}{work_name(task)}^{{commit}}")
    return answer.text.strip() if answer.code == 0 else ""


def kept_member(snapshot_store: SnapshotStore, task: Task) -> Member:
    """The work as it was judged and kept."""
    commit = kept_commit(snapshot_store, task)
    found = kept_members(snapshot_store, {name_of(task): commit}) if commit else []
    if not found:
        raise Conflict(
            f"The work of '{task.label}' is not in this home.", f"Give the task back: handoff retry {task.label}"
        )
    return found[0]


def kept_parts(app: App, snapshot_store: SnapshotStore, task: Task) -> list[Member]:
    """The kept work of the parts a task builds on, in the order they were finished."""
    done = {work_name(part): part for part in parts(app, task)}
    if not done:
        return []
    snapshot_store.store.create(snapshot_store.place.source.common)
    # What has no kept commit was done in the person's own checkout: it is there already.
    found = kept_members(snapshot_store, {name: f"{KEPT}{name}^{{commit}}" for name in done})
    told = snapshot_store.store.git("for-each-ref", "--format=%(objectname) %(refname)", SHOWN).text.splitlines()
    shown = {name.removeprefix(SHOWN): sha for sha, _, name in (line.partition(" ") for line in told)}
    return [one._replace(owns=done[one.name].patterns, shown=shown.get(one.name, "")) for one in found]


def _on_branches(app: App, snapshot_store: SnapshotStore, task: Task) -> tuple[list[Task], list[Member]]:
    """Finished work a task comes after that has not landed, because the person keeps it on its branch."""
    found = {}
    needed = [tasks.get(app.database, key=key) for key in _needed(app, task)] if task.kind == tasks.TASK else []
    for one in sorted(needed, key=lambda one: (one.ended_at or 0.0, one.key)):
        evidence = loads(one.evidence or "{}")
        waits = one.kind == tasks.TASK and evidence.get("branch") and not evidence.get("landed")
        if waits and not outcomes.is_undone(one) and (kept := kept_commit(snapshot_store, one)):
            found[name_of(one)] = (one, kept)
    if not found:
        return [], []
    snapshot_store.store.create(snapshot_store.place.source.common)
    members = kept_members(snapshot_store, {name: commit for name, (_, commit) in found.items()})
    return [one for one, _ in found.values()], members


def not_landed_below(app: App, snapshot_store: SnapshotStore, task: Task, *, tip: str) -> list[Task]:
    """The tasks whose work a task's kept work stands on, and which a commit does not have."""
    from handoff.engine.safety.snapshots import keep
    from handoff.git.landing.merge import merge

    below, members = _on_branches(app, snapshot_store, task)
    own = kept_commit(snapshot_store, task)
    if not members or not own:
        return []
    store = snapshot_store.store
    if store.look(snapshot_store.place.source, "merge-base", "--is-ancestor", f"{own}^", tip).code == 0:
        return []  # it began without them
    keep(app, snapshot_store, "before landing")  # the store owns the person's newest commits now
    there = merge(store, tip, members, moment=int(app.clock.now())).skipped
    return [one for one in below if name_of(one) not in there]


def branch_of_work(snapshot_store: SnapshotStore, name: str) -> str:
    """Under which name the person's git knows a task's work: a branch, or a ref of ours where it stands on their drafts."""

    branch = f"handoff/{name}"
    return branch if f"refs/heads/{branch}" in refs(snapshot_store.place.source) else KEPT + name


def join_by_hand(snapshot_store: SnapshotStore, names: Sequence[str]) -> str:
    """The commands that join the work of these in the person's checkout."""
    lines = [f"git merge {branch_of_work(snapshot_store, name)}" for name in names]
    return (
        f"In {snapshot_store.place.source.top}, one after the other:\n"
        + "\n".join(f"  {line}" for line in lines)
        + "\nWhere git stops at a conflict: edit the files it names, then git commit -a --no-edit, and go on with the next."
    )


def kept_members(snapshot_store: SnapshotStore, commits: Mapping[str, str]) -> list[Member]:
    """Work that was judged and kept, as it lands: by name, those whose commit is there. Three processes, however many they are."""
    from handoff.git.landing.merge import many_touches, member
    from handoff.git.plumbing.objects import fetch, parents_named

    read = zip(commits, fetch(snapshot_store.store, commits.values()), strict=True)
    found = [(name, one.sha, parents_named(one.data)[0], one.data) for name, one in read if one.kind]
    touched = many_touches(snapshot_store.store, [(base, commit) for _, commit, base, _ in found])
    return [
        member(name, base, commit, paths, data.partition(b"\n\n")[2].decode("utf-8", "surrogateescape"))
        for (name, commit, base, data), paths in zip(found, touched, strict=True)
    ]
