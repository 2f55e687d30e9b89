"""Landing as a journey: take owned work in, merge in memory, check the result, then move the branch."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, NamedTuple

from handoff.base.errors import Refused, UserError
from handoff.base.markdown import first_line
from handoff.board.tasks import flows
from handoff.checks.commands import Verdict, check_environment, run_check
from handoff.engine.features.brought_home import FEATURES
from handoff.engine.proof import git_notes
from handoff.engine.proof.sandboxes import with_dependencies
from handoff.engine.safety.snapshots import SnapshotStore, keep, listing, open_snapshot_store
from handoff.engine.workspaces.workspaces import snapshot_store_of
from handoff.git.landing import merge as work
from handoff.git.landing.target import Landing, Target, checkout_of
from handoff.git.ownership.ownership import Ownership
from handoff.git.plumbing import refs as sources
from handoff.git.snapshots.restore import changes, put_files, tree_of
from handoff.git.workspaces.include import copy_included
from handoff.git.workspaces.kinds import isolation
from handoff.git.workspaces.workspaces import CLONE, READY, SHARED, Workspace, all_workspaces, read_workspace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from handoff.engine.app import App

_UNDO = "undo "
FLOW_MARK = "flow:"
"""What the session of a flow's workspace begins with."""
_CONVERSIONS = ("text", "eol", "filter", "ident", "working-tree-encoding")


class LandingOutcome(NamedTuple):
    """What a landing did or would do."""

    target: str
    merged: work.Merged
    members: tuple[work.Member, ...]
    verdict: Verdict | None = None
    culprit: str = ""
    landing: Landing | None = None
    trouble: str = ""
    """Why the record in git could not be written; it has landed all the same."""


class Collisions(NamedTuple):
    """Files two live sessions changed: those git cannot join, and those it can."""

    members: tuple[work.Member, ...]
    hard: tuple[work.Conflicted, ...]
    soft: tuple[work.Conflicted, ...]


def land(
    app: App,
    *,
    names: Sequence[str],
    snapshot_store: SnapshotStore | None = None,
    into: str = "",
    check: str = "",
    timeout: float = 900,
    message: str = "",
    dry_run: bool = False,
    sandboxed: bool = True,
    prepared: Sequence[work.Member] = (),
) -> LandingOutcome:
    """Land the named workspaces or branches in this order, after what the caller `prepared`: all of them or none."""
    snapshot_store = snapshot_store or open_snapshot_store(app)
    target = target_of(app, snapshot_store)
    target.finish()
    told, began = ", ".join((*(one.name for one in prepared), *names)), app.clock.now()
    before = keep(app, snapshot_store, f"before landing {told}")
    branch = _branch(snapshot_store, into)
    tip = target.tip(branch)
    if not tip:
        if not into:  # the branch checked out here is not born yet
            raise UserError(
                "The repository has no commit yet.", "Commit something first, or name a branch with --into."
            )
        raise UserError(f"There is no branch {branch.removeprefix('refs/heads/')}.", "Name another with --into.")
    members = (*prepared, *_members(app, snapshot_store, names, tip, message))
    app.tell(f"Merging {told} into {branch}", 0, 0)
    merged = work.merge(snapshot_store.store, tip, members, moment=int(before.time), person=_person(target))
    outcome = LandingOutcome(target=branch, merged=merged, members=members)
    if merged.conflicts or not merged.steps or dry_run:
        return outcome
    if check:
        verdict = _checked(app, snapshot_store, merged.new, check, (timeout, sandboxed))
        outcome = outcome._replace(verdict=verdict)
        if not verdict.green:
            return outcome._replace(culprit=_bisect(app, snapshot_store, merged, check, (timeout, sandboxed)))
    checkout = checkout_of(snapshot_store.place.source, branch)
    landing = Landing(
        id=f"{int(began * 1000):015d}-{os.urandom(2).hex()}",
        target=branch,
        old=tip,
        new=merged.new,
        members=tuple(step.member for step in merged.steps),
        checkout=checkout.top if checkout else "",
        time=began,  # the snapshot may be an older one, when nothing has changed since
    )
    target.move(landing)
    return _recorded(app, snapshot_store, outcome._replace(landing=landing))


def _recorded(app: App, snapshot_store: SnapshotStore, outcome: LandingOutcome) -> LandingOutcome:
    """What was checked is noted on the commit that landed: it was run on exactly that tree."""
    verdict, landing = outcome.verdict, outcome.landing
    if verdict is None or landing is None:
        return outcome
    who = git_notes.RecordedWork(
        project=os.path.basename(snapshot_store.place.project), task=f"land {', '.join(landing.members)}", next="done"
    )
    trouble = git_notes.record_check(
        app,
        snapshot_store.place.source.top,
        verdict,
        commit=landing.new,
        tree=tree_of(snapshot_store.store, landing.new),
        work=who,
        began=landing.time,
    )
    return outcome._replace(trouble=trouble)


def member(name: str, base: str, commit: str, touched: tuple[work.Touch, ...], message: str) -> work.Member:
    """What lands under one name: a commit with what it touches since its base."""
    paths = frozenset(one.path for one in touched)
    return work.Member(name=name, base=base, commit=commit, paths=paths, touches=touched, message=message)


def member_of(app: App, *, snapshot_store: SnapshotStore, workspace: Workspace) -> work.Member:
    """What a workspace holds now inside its ownership, as one commit on its base; the same work gives the same commit.

    A feature's documents are files of the person: they come home by another way.
    """
    snapshot_store.store.create(snapshot_store.place.source.common)
    return _from_workspace(app, snapshot_store, workspace, "", without=FEATURES + "/")


def find_collisions(app: App, *, snapshot_store: SnapshotStore | None = None) -> Collisions:
    """Compare the work of all live workspaces pair by pair, in memory."""
    snapshot_store = snapshot_store or open_snapshot_store(app)
    target_of(app, snapshot_store).finish()
    keep(app, snapshot_store, "before comparing")
    names = [
        one.name for one in all_workspaces(snapshot_store.place.project) if one.state == READY and one.kind != SHARED
    ]
    members = _members(app, snapshot_store, names, "", "")
    hard, soft = work.collisions(snapshot_store.store, members)
    return Collisions(tuple(members), tuple(hard), tuple(soft))


def undo_landing(
    app: App, *, landing: Landing, snapshot_store: SnapshotStore | None = None, dry_run: bool = False
) -> Landing:
    """Take a landing back: the branch returns to where it was, if nothing has been built on it since."""
    snapshot_store = snapshot_store or open_snapshot_store(app)
    target = target_of(app, snapshot_store)
    tip = target.tip(landing.target)
    if tip != landing.new:
        words = ("log", "-5", "--format=%h %s", f"{landing.new}..{tip}", "--")
        later = "; ".join(target.git(*words).text.splitlines()) if tip else ""
        raise Refused(
            f"{landing.target} has moved on since {landing.new[:10]} landed{f': {later}' if later else ''}.",
            f"Revert it: git revert {landing.old[:10]}..{landing.new[:10]}",
        )
    checkout = checkout_of(snapshot_store.place.source, landing.target)
    back = landing._replace(
        id=f"{int(app.clock.now() * 1000):015d}-{os.urandom(2).hex()}",
        old=landing.new,
        new=landing.old,
        time=app.clock.now(),
        state="moving",
        members=tuple(name[5:] if name.startswith(_UNDO) else _UNDO + name for name in landing.members),
        checkout=checkout.top if checkout else "",
    )
    target.check(back)
    if not dry_run:
        keep(app, snapshot_store, "before undo of a landing", force=True)
        target.move(back)
    return back


def landings(app: App, *, snapshot_store: SnapshotStore) -> list[Landing]:
    """Every landing and every undoing of one, newest first; one that was cut short is finished first."""
    target = target_of(app, snapshot_store)
    target.finish()
    return [one for one in target.all() if one.state == "landed"]


def finish_landings(app: App, *, snapshot_store: SnapshotStore | None = None) -> list[Landing]:
    """Complete the landings somebody died in: index and files follow the branch."""
    return target_of(app, snapshot_store or open_snapshot_store(app)).finish()


def target_of(app: App, snapshot_store: SnapshotStore) -> Target:
    """The mover of branches for this project."""
    snapshot_store.store.create(snapshot_store.place.source.common)
    return Target(snapshot_store.store, snapshot_store.place.source, snapshot_store.place.project, app.git_environment)


def _branch(snapshot_store: SnapshotStore, into: str) -> str:
    if into:
        return into if into.startswith("refs/") else f"refs/heads/{into}"
    branch = sources.head(snapshot_store.place.source).ref
    if not branch:
        raise UserError("HEAD is detached: there is no branch to land on.", "Name one: handoff land … --into BRANCH")
    return branch


def _person(target: Target) -> str:
    answer = target.git("var", "GIT_COMMITTER_IDENT")
    return answer.text.strip().rsplit(" ", 2)[0] if answer.code == 0 else ""


# --- members ------------------------------------------------------------------------------------------


def _members(
    app: App, snapshot_store: SnapshotStore, names: Sequence[str], tip: str, message: str
) -> list[work.Member]:
    if len(set(names)) != len(names):
        raise UserError("A name stands there twice.", "Name each workspace once.")
    found: list[work.Member | None] = []
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
        if commit is None:
            raise UserError(f"There is no workspace and no branch '{name}'.", "See: handoff workspace list")
        branches.append((len(found), name, commit))
        found.append(None)
    bases = work.bases(snapshot_store.store, [commit for _, _, commit in branches], tip)
    paths = work.many_touches(
        snapshot_store.store, [(base, commit) for base, (_, _, commit) in zip(bases, branches, strict=True)]
    )
    for (at, name, commit), base, touched in zip(branches, bases, paths, strict=True):
        flow = work.flow_of(snapshot_store.store, base, commit)
        words = message or _branch_message(app, snapshot_store, name, flow)
        found[at] = member(name, base, commit, touched, words)._replace(whole=bool(flow))
    return [one for one in found if one is not None]


def _branch_message(app: App, snapshot_store: SnapshotStore, name: str, flow: str) -> str:
    """What a branch is landed as: a flow by what was asked for, anything else by its name."""
    if not flow:
        return f"Land {name}\n\nHandoff-Branch: {name}\n"
    project = os.path.basename(snapshot_store.place.project)
    known = [one for one in flows.listing(app.database, project=project, include_ended=True) if one.id == flow]
    return f"{first_line(flow, known[0].request if known else name)}\n\nHandoff-Branch: {name}\n{work.FLOW}: {flow}\n"


def _from_workspace(
    app: App, snapshot_store: SnapshotStore, workspace: Workspace, message: str, *, without: str = ""
) -> work.Member:
    """What a session changed since its start, inside its ownership, as one commit on its base."""
    if workspace.kind == SHARED or workspace.state != READY:
        raise UserError(f"The workspace '{workspace.name}' cannot be landed.", "It is your own checkout, or not ready.")
    own = snapshot_store_of(app, workspace=workspace)
    now = keep(app, own, "before landing", session=workspace.session or workspace.name)
    base_tree = tree_of(snapshot_store.store, workspace.base)
    start_tree = _start_tree(app, snapshot_store, workspace)
    touched = work.touches(snapshot_store.store, start_tree, now.sha)
    included = {one.path for one in work.touches(snapshot_store.store, base_tree, start_tree) if one.mode != "000000"}
    left = dict.fromkeys(
        (one.path for one in touched if one.path in included and not _in_tree(snapshot_store, base_tree, one.path)),
        "came from .worktreeinclude",
    )
    left.update(work.refusals(snapshot_store.store, workspace.tree, touched))
    if workspace.owns:
        owned = Ownership.parse(workspace.owns)
        left.update({one.path: "not owned" for one in touched if not owned.covers(one.path)})
    if without:
        left.update({one.path: "a document" for one in touched if one.path.startswith(without)})
    taken = [one for one in touched if one.path not in left]
    taken = _cleaned(app, snapshot_store, own, taken)
    tree = work.apply(snapshot_store.store, workspace.base, taken)
    commit = snapshot_store.store.write_commit(tree, [workspace.base], f"Work of {workspace.name}\n", moment=0)
    words = message or _message(own, workspace)
    found = member(workspace.name, workspace.base, commit, tuple(taken), words)
    return found._replace(left_out=tuple(f"{path} ({why})" for path, why in left.items()))


def _start_tree(app: App, snapshot_store: SnapshotStore, workspace: Workspace) -> str:
    """What a workspace held when it was made; another of its name may have been removed before."""
    own = snapshot_store_of(app, workspace=workspace)
    started = [one for one in listing(app, snapshot_store=own, workspace=workspace.name) if one.operation == "start"]
    return tree_of(snapshot_store.store, started[0].sha if started else workspace.base)


def take_back(app: App, *, snapshot_store: SnapshotStore, workspace: Workspace, paths: Sequence[str]) -> str:
    """Let these files of a workspace be as they were when it was made; how they are now is in the snapshot told."""
    own, store, wanted = snapshot_store_of(app, workspace=workspace), snapshot_store.store, set(paths)
    now = keep(app, own, "before what is not owned was taken back", session=workspace.session or workspace.name)
    differing = changes(store, now.sha, _start_tree(app, snapshot_store, workspace))
    put_files(store, workspace.tree, [one for one in differing if one.path in wanted])
    return str(now.sha)


def _in_tree(snapshot_store: SnapshotStore, tree: str, path: str) -> bool:
    return snapshot_store.store.git("cat-file", "-e", f"{tree}:{path}").code == 0


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


def _cleaned(app: App, snapshot_store: SnapshotStore, own: SnapshotStore, taken: list[work.Touch]) -> list[work.Touch]:
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


# --- checks -------------------------------------------------------------------------------------------


def _checked(app: App, snapshot_store: SnapshotStore, commit: str, command: str, how: tuple[float, bool]) -> Verdict:
    """Run the check on a clean checkout of the commit, inside the sandbox where there is one."""
    timeout, sandboxed = how
    name = f"check-{os.urandom(3).hex()}"
    folder = os.path.join(snapshot_store.place.project, "checks", name)
    tree = os.path.join(folder, "tree")
    workspace = Workspace(
        name=name,
        kind=CLONE,
        project=snapshot_store.place.project,
        tree=tree,
        base=commit,
        branch=f"refs/heads/{name}",
        port=59990,
    )
    way = isolation(CLONE, app.git_environment)
    app.tell(f"Checking {commit[:8]}: {command}", 0, 0)
    try:
        way.make(snapshot_store.place, snapshot_store.store, workspace)
        copy_included(snapshot_store.place, snapshot_store.store, tree)
        top = snapshot_store.place.source.top
        wrap = with_dependencies(app, workspace=workspace, checkout=top).sandbox.wrap if sandboxed else None
        environment = {**check_environment(app.settings.environment), **workspace.environment()}
        return run_check(command, folder=tree, environment=environment, timeout=timeout, clock=app.clock, wrap=wrap)
    finally:
        way.discard(snapshot_store.place, snapshot_store.store, workspace)
        shutil.rmtree(folder, ignore_errors=True)


def _bisect(app: App, snapshot_store: SnapshotStore, merged: work.Merged, command: str, how: tuple[float, bool]) -> str:
    """Which member made the checks red: the first step that is red, found by halving."""
    if not _checked(app, snapshot_store, merged.old, command, how).green:
        return "the target branch itself, before anything landed"
    good, bad = -1, len(merged.steps) - 1
    while bad - good > 1:
        middle = (good + bad) // 2
        if _checked(app, snapshot_store, merged.steps[middle].commit, command, how).green:
            good = middle
        else:
            bad = middle
    return merged.steps[bad].member
