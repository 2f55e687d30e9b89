"""What lands under one name: a workspace's files inside its ownership, or a branch, as a member of a landing."""

from __future__ import annotations

import os

from handoff.base.errors import Conflict, UserError
from handoff.base.markdown import first_line
from handoff.base.record import TYPE_CHECKING
from handoff.base.settings import PROJECT_FOLDER
from handoff.board.events import texts
from handoff.board.tasks import flows, outcomes, states, tasks
from handoff.engine.app.home import find_project
from handoff.engine.place.brought_home import FEATURES
from handoff.engine.place.proof.evidence import is_as_stamped
from handoff.engine.place.workspaces import snapshot_store_of
from handoff.engine.safety.snapshots import SnapshotStore, keep, listing, open_snapshot_store
from handoff.git.landing import merge as parts
from handoff.git.landing.target import Target
from handoff.git.ownership import Ownership
from handoff.git.plumbing import git_failure
from handoff.git.plumbing import refs as sources
from handoff.git.snapshots.restore import changes, put_files, tree_of
from handoff.git.workspaces import READY, SHARED, Workspace, read_workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.git.snapshots.take import Snapshot

FLOW_MARK = "flow:"
"""What the session of a flow's workspace begins with."""
_TASK = "Handoff-Task"
_OURS = "handoff/"
"""How the names of branches begin that hold sessions' work."""
_DOCUMENT, _INCLUDED = "a document", "came from .worktreeinclude"
_CONVERSIONS = ("text", "eol", "filter", "ident", "working-tree-encoding")


def target_of(app: App, snapshot_store: SnapshotStore) -> Target:
    """The mover of branches for this project."""
    snapshot_store.store.create(snapshot_store.place.source.common)
    return Target(snapshot_store.store, snapshot_store.place.source, snapshot_store.place.project, app.git_environment)


def member_of(app: App, *, snapshot_store: SnapshotStore, workspace: Workspace) -> parts.Member:
    """What a workspace holds now inside its ownership, as one commit on its base; the same work gives the same commit.

    A feature's documents are files of the person: they come home by another way.
    """
    snapshot_store.store.create(snapshot_store.place.source.common)
    _refuse_unready(workspace)
    own = snapshot_store_of(app, workspace=workspace)
    now = _kept(app, own, workspace)
    # A part is asked for what it holds several times, and seldom holds anything new: the snapshot says so.
    facts = (now.sha, workspace.base, tuple(workspace.owns), tuple(sorted(workspace.strays.items())))
    name = f"member {workspace.tree}"
    before, found = app.known.get(name, ((), None))
    # Nothing points at its commit: a tidy-up may take it away after an hour.
    if before != facts or found is None or not snapshot_store.store.has_loose(found.commit):
        found = _from_snapshot(app, snapshot_store, own, workspace, now, without=_is_document)
        app.known[name] = (facts, found)
    member: parts.Member = found
    return member


def left_by_phase(
    app: App, *, repository: str, workspace: Workspace, head: str, session: str, without: Callable[[str], bool]
) -> parts.Member:
    """The same of a flow's workspace, upon its last good commit; its git has the objects, and its snapshot all that lay there."""
    own = snapshot_store_of(app, workspace=workspace)
    now = keep(app, own, "the end of a phase", session=session)
    store, objects = own.store, own.source.objects
    if not store.readable([head]):
        store.own([head], [workspace.base], borrow=objects)
    snapshot_store = open_snapshot_store(app, folder=repository)
    found = _from_snapshot(app, snapshot_store, own, workspace, now, "A phase\n", without=without, head=head)
    answer = store.give(objects, [found.commit], [head])
    if answer.code:
        raise git_failure("The work of a phase could not be taken", answer, f"Look at {workspace.tree}.")
    return found


def outside(member: parts.Member) -> dict[str, str]:
    """What was changed and is not taken, path by path, and why.

    A feature's documents are every session's to write and nobody's to land, and what the person had copied there is nobody's work.
    """
    mine = (f" ({_DOCUMENT})", f" ({_INCLUDED})")
    lines = [line for line in member.left_out if not line.startswith(PROJECT_FOLDER + "/") and not line.endswith(mine)]
    return {line.rpartition(" (")[0]: line.removesuffix(" (not owned)") for line in lines}


def _is_document(path: str) -> bool:
    return path.startswith(FEATURES + "/")


def _task_of(app: App, name: str) -> Task | None:
    try:
        return tasks.find(app.database, project=find_project(app).name, id=name)
    except UserError:
        return None


def _absent(app: App, name: str, task: Task | None) -> UserError | Conflict:
    """Why a name cannot land now: its task's work has landed, waits or is not there yet, its flow has no commit, or nobody knows it."""
    program = app.settings.program
    if task is not None:
        landed = str(texts.read(task.evidence, {}).get("landed") or "")[:10]
        if landed and outcomes.is_undone(task):
            again = f"To let it be done again: {program} retry {task.label}"
            return Conflict(f"'{name}' landed as {landed}, and that was taken back.", again)
        if landed:
            return Conflict(f"'{name}' has landed already, as {landed}.", f"See it: git show {landed}")
        if task.state == states.GATED:
            return Conflict(f"'{name}' waits for your answer.", f"See it: {program} answer {task.label}")
        return UserError(f"'{name}' has no finished work to land.", f"See: {program} show {task.label}")
    project, id = find_project(app).name, name.removeprefix(_OURS)
    if flows.is_known(app.database, project=project, id=id):
        return UserError(f"The flow '{id}' has no commit to land yet.", f"See: {program} show {id}")
    return UserError(f"There is no workspace and no branch '{name}'.", "See: handoff workspace list")


def members_of(
    app: App, snapshot_store: SnapshotStore, names: Sequence[str], tip: str, message: str
) -> list[parts.Member]:
    """The named workspaces and branches as members, in this order."""
    if len(set(names)) != len(names):
        raise UserError("A name stands there twice.", "Name each workspace once.")
    found: list[parts.Member | None] = []
    branches: list[tuple[int, str, str]] = []
    refs = sources.refs(snapshot_store.place.source)
    for name in names:
        workspace = (
            read_workspace(os.path.join(snapshot_store.place.project, "workspaces", name)) if "/" not in name else None
        )
        if workspace is not None and workspace.session.startswith(FLOW_MARK):
            name = workspace.branch.removeprefix("refs/heads/")  # noqa: PLW2901 - a flow's verified commits are its work
        elif workspace is not None:
            found.append(_from_workspace(app, snapshot_store, workspace, message))
            continue
        commit = refs.get(f"refs/heads/{name}")
        task = _task_of(app, name) if commit is None else None
        kept = str(texts.read(task.evidence, {}).get("branch") or "") if task is not None else ""
        commit = commit or refs.get(f"refs/heads/{kept}")
        if commit is None:
            raise _absent(app, name, task)
        branches.append((len(found), kept or name, commit))
        found.append(None)
    bases = parts.bases(snapshot_store.store, [commit for _, _, commit in branches], tip)
    # What was kept is one commit; below it may stand other work that lands for itself.
    made_upon = _parents_of_kept(snapshot_store) if any(name.startswith(_OURS) for _, name, _ in branches) else {}
    bases = [made_upon.get((name, commit), base) for base, (_, name, commit) in zip(bases, branches, strict=True)]
    ranges = [(base, commit) for base, (_, _, commit) in zip(bases, branches, strict=True)]
    paths = parts.many_touches(snapshot_store.store, ranges)
    made_by = parts.flows_of(snapshot_store.store, ranges)
    for (at, name, commit), base, touched, flow in zip(branches, bases, paths, made_by, strict=True):
        words = message or _branch_message(app, snapshot_store, name, flow, commit)
        own = not flow and not name.startswith(_OURS)
        found[at] = parts.member(name, base, commit, touched, words)._replace(whole=bool(flow), by_person=own)
    return [one for one in found if one is not None]


def _parents_of_kept(snapshot_store: SnapshotStore) -> dict[tuple[str, str], str]:
    """By branch and commit: upon which commit the work was made that was judged and kept for a task."""
    words = ("for-each-ref", "--format=%(refname) %(objectname) %(parent)", sources.KEPT)
    lines = (line.split(" ") for line in snapshot_store.store.git(*words).text.splitlines())
    return {
        (_OURS + name.removeprefix(sources.KEPT), commit): parents[0]
        for name, commit, *parents in lines
        if any(parents)
    }


def _branch_message(app: App, snapshot_store: SnapshotStore, name: str, flow: str, commit: str) -> str:
    """What a branch is landed as: a flow by what was asked for, a task's kept work by its own words, anything else by its name."""
    if not flow and name.startswith(_OURS):
        said = snapshot_store.store.git("log", "-1", "--format=%B", commit).text.strip()
        if f"\n{_TASK}: " in said:
            return f"{said}\nHandoff-Branch: {name}\n"
    if not flow:
        return f"Land {name}\n\nHandoff-Branch: {name}\n"
    project = os.path.basename(snapshot_store.place.project)
    known = [one for one in flows.listing(app.database, project=project, include_ended=True) if one.id == flow]
    return f"{first_line(flow, known[0].request if known else name)}\n\nHandoff-Branch: {name}\n{parts.FLOW}: {flow}\n"


def _refuse_unready(workspace: Workspace) -> None:
    if workspace.kind == SHARED or workspace.state != READY:
        raise UserError(f"The workspace '{workspace.name}' cannot be landed.", "It is your own checkout, or not ready.")


def _kept(app: App, own: SnapshotStore, workspace: Workspace) -> Snapshot:
    return keep(app, own, "before landing", session=workspace.session or workspace.name)


def _from_workspace(app: App, snapshot_store: SnapshotStore, workspace: Workspace, message: str) -> parts.Member:
    _refuse_unready(workspace)
    own = snapshot_store_of(app, workspace=workspace)
    found = _from_snapshot(app, snapshot_store, own, workspace, _kept(app, own, workspace), message)
    return found._replace(named=found.owns)


def _from_snapshot(
    app: App,
    snapshot_store: SnapshotStore,
    own: SnapshotStore,
    workspace: Workspace,
    now: Snapshot,
    message: str = "",
    *,
    without: Callable[[str], bool] = lambda _: False,
    head: str = "",
) -> parts.Member:
    """What a session changed since its start, inside its ownership, as one commit on its base; or since the last good commit."""
    store, base = snapshot_store.store, head or workspace.base
    began = tree_of(store, head) if head else _start_tree(app, snapshot_store, own, workspace)
    touched = parts.touches(store, began, now.sha)
    left = parts.refusals(store, workspace.tree, touched)
    if workspace.owns:
        owned = Ownership.parse(workspace.owns)
        left.update({one.path: "not owned" for one in touched if not owned.covers(one.path)})
    left.update(dict.fromkeys(now.unread, "it could not be kept"))
    left.update({one.path: "made by the check" for one in touched if is_stray(workspace, one.path)} | left)
    left.update({one.path: _DOCUMENT for one in touched if without(one.path)})
    left.update(dict.fromkeys(set(workspace.included).intersection(one.path for one in touched), _INCLUDED))
    taken = [one for one in touched if one.path not in left]
    taken = _cleaned(app, snapshot_store, own, taken)
    tree = parts.apply(store, base, taken)
    commit = store.write_commit(tree, [base], f"Work of {workspace.name}\n", moment=0)
    words = message or _message(own, workspace)
    found = parts.member(workspace.name, base, commit, tuple(taken), words)
    owns = tuple(workspace.owns)
    return found._replace(left_out=tuple(f"{path} ({why})" for path, why in left.items()), owns=owns)


def is_stray(workspace: Workspace, path: str) -> bool:
    """Whether a file is as a check or an earlier session left it, and so nothing this one did."""
    return path in workspace.strays and is_as_stamped(workspace.tree, path, workspace.strays[path])


def _start_tree(app: App, snapshot_store: SnapshotStore, own: SnapshotStore, workspace: Workspace) -> str:
    """What a workspace held when it was made; another of its name may have been removed before."""
    started = [one for one in listing(app, snapshot_store=own, workspace=workspace.name) if one.operation == "start"]
    return tree_of(snapshot_store.store, started[0].sha if started else workspace.base)


def take_back(app: App, *, snapshot_store: SnapshotStore, workspace: Workspace, paths: Sequence[str]) -> str:
    """Let these files of a workspace be as they were when it was made; how they are now is in the snapshot told."""
    own, store, wanted = snapshot_store_of(app, workspace=workspace), snapshot_store.store, set(paths)
    now = keep(app, own, "before what is not owned was taken back", session=workspace.session or workspace.name)
    differing = changes(store, now.sha, _start_tree(app, snapshot_store, own, workspace))
    put_files(store, workspace.tree, [one for one in differing if one.path in wanted])
    return str(now.sha)


def _message(own: SnapshotStore, workspace: Workspace) -> str:
    answer = own.store.look(own.place.source, "log", "-z", "--reverse", "--format=%B", f"{workspace.base}..HEAD", "--")
    said = [text.strip() for text in answer.text.split("\0") if text.strip()] if answer.code == 0 else []
    first = (
        said[0]
        if len(said) == 1
        else f"Land {workspace.name}"
        + ("\n\n" + "\n".join(f"- {text.splitlines()[0]}" for text in said) if said else "")
    )
    return f"{first}\n\nHandoff-Workspace: {workspace.name}\n"


def _cleaned(
    app: App, snapshot_store: SnapshotStore, own: SnapshotStore, taken: list[parts.Touch]
) -> list[parts.Touch]:
    """Bytes from the disk as git wants to store them: line ends, encodings and filters by the person's own settings."""
    target = target_of(app, snapshot_store)
    files = [one for one in taken if one.mode.startswith("100")]
    if not files:
        return taken
    automatic = target.git("config", "core.autocrlf").text.strip() not in ("", "false")
    names = os.fsencode("".join(one.path + "\0" for one in files))
    answer = own.store.look(own.place.source, "check-attr", "--stdin", "-z", *_CONVERSIONS, stdin=names)
    words = os.fsdecode(answer.out).split("\0")
    converted = {words[at] for at in range(0, len(words) - 2, 3) if words[at + 2] not in ("unspecified", "unset")}
    result = []
    for one in taken:
        if one.mode.startswith("100") and (automatic or one.path in converted):
            data = snapshot_store.store.read(one.sha)
            done = target.git("hash-object", "-w", "--stdin", f"--path={one.path}", stdin=data)
            if done.code:
                raise UserError(f"{one.path} cannot be converted for git: {done.error_text}")
            sha = done.text.strip()
            kept = target.git("cat-file", "blob", sha).out
            snapshot_store.store.write("blob", kept)
            result.append(one._replace(sha=sha))
        else:
            result.append(one)
    return result
