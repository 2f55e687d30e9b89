"""Landing as a journey: take owned work in, merge in memory, check the result, then move the branch."""

from __future__ import annotations

import os
import shlex
import shutil
from typing import TYPE_CHECKING, NamedTuple

from handoff.base.errors import HandoffError, Refused, UserError
from handoff.checks.commands import Verdict, run_check
from handoff.engine.proof import git_notes
from handoff.engine.proof.sandboxes import inside, wall_of_workspace
from handoff.engine.safety.snapshots import Vault, listing, open_vault, snapshot
from handoff.engine.workspaces.workspaces import vault_of
from handoff.git.landing import merge as work
from handoff.git.landing.target import Landing, Target, checkout_of
from handoff.git.notes.record import GREEN, Check
from handoff.git.ownership.ownership import Ownership
from handoff.git.plumbing import query as sources
from handoff.git.snapshots.restore import tree_of
from handoff.git.snapshots.take import Wish
from handoff.git.workspaces.include import copy_included
from handoff.git.workspaces.kinds import isolation
from handoff.git.workspaces.workspaces import CLONE, READY, SHARED, Workspace, all_workspaces, read_workspace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from handoff.engine.app import App

_CONVERSIONS = ("text", "eol", "filter", "ident", "working-tree-encoding")


class Outcome(NamedTuple):
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
    app: App, *, names: Sequence[str], vault: Vault | None = None, into: str = "", check: str = "", timeout: float = 900,
    message: str = "", dry_run: bool = False, walled: bool = True, prepared: Sequence[work.Member] = (),
) -> Outcome:  # fmt: skip
    """Land the named workspaces or branches in this order, after what the caller `prepared`: all of them or none."""
    vault = vault or open_vault(app)
    target = target_of(app, vault)
    target.finish()
    told = ", ".join((*(one.name for one in prepared), *names))
    before = snapshot(app, vault=vault, wish=Wish(f"before landing {told}"))
    branch = _branch(vault, into)
    tip = target.tip(branch)
    if not tip:
        raise UserError(f"There is no branch {branch}.", "Name one with --into.")
    members = (*prepared, *_members(app, vault, names, tip, message))
    merged = work.merge(vault.store, tip, members, moment=int(before.time), person=_person(target))
    outcome = Outcome(branch, merged, members)
    if merged.conflicts or not merged.steps or dry_run:
        return outcome
    if check:
        verdict = _checked(app, vault, merged.new, check, (timeout, walled))
        outcome = outcome._replace(verdict=verdict)
        if not verdict.green:
            return outcome._replace(culprit=_bisect(app, vault, merged, check, (timeout, walled)))
    checkout = checkout_of(vault.place.source, branch)
    landing = Landing(
        f"{int(before.time * 1000):015d}-{os.urandom(2).hex()}", branch, tip, merged.new,
        tuple(step.member for step in merged.steps), checkout.top if checkout else "", before.time,
    )  # fmt: skip
    target.move(landing)
    return _recorded(app, vault, outcome._replace(landing=landing))


def _recorded(app: App, vault: Vault, outcome: Outcome) -> Outcome:
    """What was checked is noted on the commit that landed: it was run on exactly that tree."""
    verdict, landing = outcome.verdict, outcome.landing
    if verdict is None or landing is None:
        return outcome
    check = Check(verdict.command, GREEN, verdict.code, seconds=round(verdict.seconds, 3))
    who = git_notes.Work(os.path.basename(vault.place.project), f"land {', '.join(landing.members)}", next="done")
    try:
        git_notes.write(
            app, repository=vault.place.source.top, commit=landing.new, tree=tree_of(vault.store, landing.new), work=who,
            judged="command", checks=[check], began=landing.time,
        )  # fmt: skip
    except HandoffError as error:
        return outcome._replace(trouble=f"The note on {landing.new[:10]} could not be written: {error.message}")
    return outcome


def member_of(app: App, *, vault: Vault, workspace: Workspace) -> work.Member:
    """What a workspace holds now inside its ownership, as one commit on its base; the same work gives the same commit."""
    vault.store.create(vault.place.source.common)
    return _from_workspace(app, vault, workspace, "")


def find_collisions(app: App, *, vault: Vault | None = None) -> Collisions:
    """Compare the work of all live workspaces pair by pair, in memory."""
    vault = vault or open_vault(app)
    target_of(app, vault).finish()
    snapshot(app, vault=vault, wish=Wish("before comparing"))
    names = [one.name for one in all_workspaces(vault.place.project) if one.state == READY and one.kind != SHARED]
    members = _members(app, vault, names, "", "")
    hard, soft = work.collisions(vault.store, members)
    return Collisions(tuple(members), tuple(hard), tuple(soft))


def undo_landing(app: App, *, landing: Landing, vault: Vault | None = None) -> Landing:
    """Take a landing back: the branch returns to where it was, if nothing has been built on it since."""
    vault = vault or open_vault(app)
    target = target_of(app, vault)
    if target.tip(landing.target) != landing.new:
        raise Refused(
            f"{landing.target} has moved on since {landing.new[:10]} landed.",
            f"Revert it: git revert {landing.old[:10]}..{landing.new[:10]}",
        )
    snapshot(app, vault=vault, wish=Wish("before undo of a landing", force=True))
    back = landing._replace(
        id=f"{landing.id}-back", old=landing.new, new=landing.old, time=app.clock.now(), state="moving",
        members=tuple(f"undo {name}" for name in landing.members),
    )  # fmt: skip
    target.move(back)
    target.save(back._replace(state="undone"))
    target.save(landing._replace(state="undone"))
    return landing


def last_landing(app: App, *, vault: Vault) -> Landing | None:
    """The newest landing that can be taken back; one that was cut short is finished first."""
    target = target_of(app, vault)
    target.finish()
    return next((one for one in target.all() if one.state == "landed"), None)


def target_of(app: App, vault: Vault) -> Target:
    """The mover of branches for this project."""
    vault.store.create(vault.place.source.common)
    return Target(vault.store, vault.place.source, vault.place.project, app.git_environment)


def _branch(vault: Vault, into: str) -> str:
    if into:
        return into if into.startswith("refs/") else f"refs/heads/{into}"
    branch = sources.head(vault.place.source).branch
    if not branch:
        raise UserError("HEAD is detached: there is no branch to land on.", "Name one: handoff land … --into BRANCH")
    return branch


def _person(target: Target) -> str:
    answer = target.git(target.source.top, "var", "GIT_COMMITTER_IDENT")
    return answer.text.strip().rsplit(" ", 2)[0] if answer.code == 0 else ""


# --- members ------------------------------------------------------------------------------------------


def _members(app: App, vault: Vault, names: Sequence[str], tip: str, message: str) -> list[work.Member]:
    if len(set(names)) != len(names):
        raise UserError("A name stands there twice.", "Name each workspace once.")
    found: list[work.Member | None] = []
    branches: list[tuple[int, str, str]] = []
    refs = sources.refs(vault.place.source)
    for name in names:
        workspace = read_workspace(os.path.join(vault.place.project, "workspaces", name)) if "/" not in name else None
        if workspace is not None:
            found.append(_from_workspace(app, vault, workspace, message))
            continue
        commit = refs.get(f"refs/heads/{name}")
        if commit is None:
            raise UserError(f"There is no workspace and no branch '{name}'.", "See: handoff workspace list")
        branches.append((len(found), name, commit))
        found.append(None)
    bases = _bases(vault, [commit for _, _, commit in branches], tip)
    paths = work.many_touches(
        vault.store, [(base, commit) for base, (_, _, commit) in zip(bases, branches, strict=True)]
    )
    for (at, name, commit), base, touched in zip(branches, bases, paths, strict=True):
        words = message or f"Land {name}\n\nHandoff-Branch: {name}\n"
        found[at] = work.Member(name, base, commit, frozenset(one.path for one in touched), touched, words)
    return [one for one in found if one is not None]


def _bases(vault: Vault, commits: Sequence[str], tip: str) -> list[str]:
    """Where each branch left the target's history; one process for all that grew straight from the tip."""
    if not commits:
        return []
    listed = vault.store.ask("rev-list", "--no-walk=unsorted", "--parents", *commits)
    parents = dict(line.split(" ", 1) for line in listed.splitlines() if " " in line)
    found = []
    for commit in commits:
        if parents.get(commit) == tip:
            found.append(tip)
            continue
        answer = vault.store.git("merge-base", commit, tip)
        if answer.code:
            raise UserError(f"{commit[:10]} has no history in common with the target.", "Land it by hand.")
        found.append(answer.text.strip())
    return found


def _from_workspace(app: App, vault: Vault, workspace: Workspace, message: str) -> work.Member:
    """What a session changed since its start, inside its ownership, as one commit on its base."""
    if workspace.kind == SHARED or workspace.state != READY:
        raise UserError(f"The workspace '{workspace.name}' cannot be landed.", "It is your own checkout, or not ready.")
    own = vault_of(app, workspace=workspace)
    now = snapshot(app, vault=own, wish=Wish("before landing", session=workspace.session or workspace.name))
    started = [one for one in listing(app, vault=own, workspace=workspace.name) if one.operation == "start"]
    base_tree = tree_of(vault.store, workspace.base)
    start_tree = tree_of(vault.store, started[-1].sha) if started else base_tree
    touched = work.touches(vault.store, start_tree, now.sha)
    included = {one.path for one in work.touches(vault.store, base_tree, start_tree) if one.mode != "000000"}
    left = dict.fromkeys(
        (one.path for one in touched if one.path in included and not _in_tree(vault, base_tree, one.path)),
        "came from .worktreeinclude",
    )
    left.update(work.refused(vault.store, workspace.tree, touched))
    if workspace.owns:
        owned = Ownership.parse(workspace.owns)
        left.update({one.path: "not owned" for one in touched if not owned.covers(one.path)})
    taken = [one for one in touched if one.path not in left]
    taken = _cleaned(app, vault, own, taken)
    index = os.path.join(vault.store.path, "handoff", f"landing.{os.getpid()}.index")
    tree = work.apply(vault.store, workspace.base, taken, index=index)
    commit = vault.store.write_commit(tree, [workspace.base], f"Work of {workspace.name}\n", moment=0)
    words = message or _message(own, workspace)
    return work.Member(
        workspace.name, workspace.base, commit, frozenset(one.path for one in taken), tuple(taken), words,
        tuple(f"{path} ({why})" for path, why in left.items()),
    )  # fmt: skip


def _in_tree(vault: Vault, tree: str, path: str) -> bool:
    return vault.store.git("cat-file", "-e", f"{tree}:{path}").code == 0


def _message(own: Vault, workspace: Workspace) -> str:
    answer = own.store.look(own.place.source, "log", "-z", "--reverse", "--format=%B", f"{workspace.base}..HEAD", "--")
    said = [text.strip() for text in answer.text.split("\0") if text.strip()] if answer.code == 0 else []
    first = (
        said[0]
        if len(said) == 1
        else f"Land {workspace.name}"
        + ("\n\n" + "\n".join(f"- {text.splitlines()[0]}" for text in said) if said else "")
    )
    return f"{first}\n\nHandoff-Workspace: {workspace.name}\n"


def _cleaned(app: App, vault: Vault, own: Vault, taken: list[work.Touch]) -> list[work.Touch]:
    """Bytes from the disk as git wants to store them: line ends, encodings and filters by the person's own settings."""
    target = target_of(app, vault)
    top = vault.place.source.top
    files = [one for one in taken if one.mode.startswith("100")]
    if not files:
        return taken
    automatic = target.git(top, "config", "core.autocrlf").text.strip() not in ("", "false")
    names = os.fsencode("".join(one.path + "\0" for one in files))
    answer = own.store.look(own.place.source, "check-attr", "--stdin", "-z", *_CONVERSIONS, stdin=names)
    words = os.fsdecode(answer.out).split("\0")
    converted = {words[at] for at in range(0, len(words) - 2, 3) if words[at + 2] not in ("unspecified", "unset")}
    result = []
    for one in taken:
        if one.mode.startswith("100") and (automatic or one.path in converted):
            data = vault.store.read(one.sha)
            done = target.git(top, "hash-object", "-w", "--stdin", f"--path={one.path}", stdin=data)
            if done.code:
                raise UserError(f"{one.path} cannot be converted for git: {done.error_text}")
            sha = done.text.strip()
            kept = target.git(top, "cat-file", "blob", sha).out
            vault.store.write("blob", kept)
            result.append(one._replace(sha=sha))
        else:
            result.append(one)
    return result


# --- checks -------------------------------------------------------------------------------------------


def _checked(app: App, vault: Vault, commit: str, command: str, how: tuple[float, bool]) -> Verdict:
    """Run the check on a clean checkout of the commit, inside the wall where there is one."""
    timeout, walled = how
    name = f"check-{os.urandom(3).hex()}"
    folder = os.path.join(vault.place.project, "checks", name)
    tree = os.path.join(folder, "tree")
    workspace = Workspace(name, CLONE, vault.place.project, tree, base=commit, branch=f"refs/heads/{name}", port=59990)
    way = isolation(CLONE, app.git_environment)
    try:
        way.make(vault.place, vault.store, workspace)
        copy_included(vault.place, vault.store, tree)
        line, environment = command, {**app.settings.environment, **workspace.environment()}
        if walled:
            wall = wall_of_workspace(app, workspace=workspace)
            wall = wall._replace(cage=wall.cage._replace(temp=os.path.join(folder, "tmp")))
            wrapped = inside(app, wall=wall, argv=["/bin/sh", "-c", command], workspace=workspace)
            line, environment = "exec " + shlex.join(wrapped.argv), wrapped.environment
        verdict = run_check(line, folder=tree, environment=environment, timeout=timeout, clock=app.clock)
        return verdict._replace(command=command)
    finally:
        way.discard(vault.place, vault.store, workspace)
        shutil.rmtree(folder, ignore_errors=True)


def _bisect(app: App, vault: Vault, merged: work.Merged, command: str, how: tuple[float, bool]) -> str:
    """Which member made the checks red: the first step that is red, found by halving."""
    if not _checked(app, vault, merged.old, command, how).green:
        return "the target branch itself, before anything landed"
    good, bad = -1, len(merged.steps) - 1
    while bad - good > 1:
        middle = (good + bad) // 2
        if _checked(app, vault, merged.steps[middle].commit, command, how).green:
            good = middle
        else:
            bad = middle
    return merged.steps[bad].member
