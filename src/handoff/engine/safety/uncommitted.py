"""What a session in the person's own checkout did to work that lay there uncommitted: told, with the command that brings it back."""

from __future__ import annotations

import os
import shlex

from handoff.base.ids import on_one_line
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.events import incidents
from handoff.engine.safety.detectors import made_by_handoff
from handoff.engine.safety.snapshots import SnapshotStore, keep, listing, open_snapshot_store
from handoff.git import tampering
from handoff.git.ownership import Ownership
from handoff.git.plumbing import find_top, is_sha, read_plain
from handoff.git.plumbing.refs import head, refs
from handoff.git.plumbing.snapshot_repo import STORE, SnapshotRepo
from handoff.git.snapshots.plans import plan_refs
from handoff.git.snapshots.restore import changes, parts_of, side_files
from handoff.git.snapshots.take import Snapshot, snapshots

if TYPE_CHECKING:
    from handoff.board.events.incidents import IncidentReport
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App

WORK_CHANGED, UNSTAGED, SWEPT = "work-changed", "unstaged", "swept"
NAMES_GONE, HEAD_MOVED, GIT_GONE = "names-gone", "head-moved", "git-gone"
_NAMES, _OURS = ("refs/heads/", "refs/tags/"), "refs/heads/handoff/"
_SHOWN = 20
_NAMED = 5


def look(app: App, *, task: Task, session: str, workspace: str) -> int:
    """Compare the checkout with how it was when the session began; how many incidents are new.

    What the task owns its session may change; told is what became of edits, new files and staged content that were not its own, and of its
    own where they were only thrown away.
    """
    if find_top(workspace) is None:
        return _tell_without_git(app, task, session, workspace)
    snapshot_store = open_snapshot_store(app, folder=workspace, project=task.project)
    began = [one for one in listing(app, snapshot_store=snapshot_store, session=session) if one.operation == "start"]
    if not began:
        return 0
    start, now = began[-1], keep(app, snapshot_store, "phase", session=session)
    reports = [
        *_files(snapshot_store, task, session, start, now),
        *_index(snapshot_store, task, session, start, now),
        *_commits(app, snapshot_store, task, session, start),
    ]
    reports += _names(snapshot_store, task, session, start, touched=bool(reports))
    during = f"While '{task.label}' was worked on in your checkout"
    reports += [
        _report(snapshot_store, task, session, one.kind, f"{during}, {one.what}", list(one.names), *one.fixes)
        for one in find_blinded(snapshot_store, start)
    ]
    if not reports:
        return 0
    with app.database.transaction() as transaction:
        return incidents.tell(transaction, reports)


def _tell_without_git(app: App, task: Task, session: str, workspace: str) -> int:
    """The checkout has no git folder any more: nothing can be compared, and all of it is in a snapshot."""
    store = SnapshotRepo(os.path.join(app.settings.home, task.project, STORE), app.settings.environment)
    began = [one for one in snapshots(store) if one.session == session and one.operation == "start"]
    if not began:
        return 0
    words = (
        shlex.join(("git", "init", "-q", workspace)),
        shlex.join(("handoff", "-C", workspace, "snapshot", "restore", began[-1].sha, "--all")),
    )
    report = incidents.IncidentReport(
        mark=f"{workspace}\0{session}\0{GIT_GONE}",
        kind=GIT_GONE,
        what=f"While '{task.label}' was worked on in your checkout, its git folder was removed: {workspace}.",
        fix=" && ".join(words),
        project=task.project,
        session=session,
        evidence={"paths": [".git"], "task": task.label, "subject": session},
    )
    with app.database.transaction() as transaction:
        return incidents.tell(transaction, [report])


def _files(
    snapshot_store: SnapshotStore, task: Task, session: str, start: Snapshot, now: Snapshot
) -> list[IncidentReport]:
    store, base = snapshot_store.store, start.head or _empty(snapshot_store)
    uncommitted = {one.path for one in changes(store, base, start.sha)}
    if not uncommitted:
        return []
    unlike_head = {one.path for one in changes(store, base, now.sha)}
    owned = Ownership.parse(task.patterns)
    found = [
        one
        for one in changes(store, start.sha, now.sha)
        if one.path in uncommitted
        and (one.kind == "delete" or one.path not in unlike_head or not owned.covers(one.path))
        and not _is_committed(snapshot_store, start, one.path)
    ]
    if not found:
        return []
    # A command line with hundreds of paths is one nobody can read: then the whole snapshot, which keeps what is there now first.
    words = [word for one in found for word in ("--path", one.path)] if len(found) <= _SHOWN else []
    gone = sum(one.kind == "delete" for one in found)
    what = f"While '{task.label}' was worked on in your checkout, work you had not committed was changed" + (
        f" ({gone} of {len(found)} deleted)" if gone else ""
    )
    names = [one.path for one in found]
    fix = ("handoff", "-C", snapshot_store.source.top, "snapshot", "restore", start.sha, *words)
    return [_report(snapshot_store, task, session, WORK_CHANGED, what, names, fix)]


def _index(
    snapshot_store: SnapshotStore, task: Task, session: str, start: Snapshot, now: Snapshot
) -> list[IncidentReport]:
    """What was staged and is not any more, and was not committed either."""
    store = snapshot_store.store
    then, here = _staged(snapshot_store, start), _staged(snapshot_store, now)
    if not then:
        return []
    base = start.head or _empty(snapshot_store)
    staged = {one.path for one in changes(store, base, then)}
    moved = {one.path for one in changes(store, then, here or _empty(snapshot_store))}
    lost = sorted(path for path in staged & moved if not _has(snapshot_store, now.head, then, path))
    if not lost:
        return []
    what = f"While '{task.label}' was worked on in your checkout, what you had staged was changed or unstaged"
    fix = ("handoff", "-C", snapshot_store.source.top, "snapshot", "restore", start.sha, "--index")
    return [_report(snapshot_store, task, session, UNSTAGED, what, lost, fix)]


def _commits(
    app: App, snapshot_store: SnapshotStore, task: Task, session: str, start: Snapshot
) -> list[IncidentReport]:
    """Commits that took in what the task does not own and the person had not committed; landings and safe commits do not."""
    store, source = snapshot_store.store, snapshot_store.source
    tip = head(source).commit
    told = incidents.listing(app.database, project=task.project)
    if not start.head or tip in ("", start.head) or any(one.kind == tampering.FOREIGN_COMMIT for one in told):
        return []
    uncommitted = {one.path for one in changes(store, start.head, start.sha)}
    owned, made = Ownership.parse(task.patterns), made_by_handoff(source.common)
    names: dict[str, None] = {}
    for commit in store.look(source, "rev-list", f"{start.head}..{tip}", "--").text.split():
        if commit not in made:
            came = store.look(source, "diff-tree", "-r", "-z", "--root", "--no-commit-id", "--name-only", commit).text
            names.update(
                dict.fromkeys(path for path in came.split("\0") if path in uncommitted and not owned.covers(path))
            )
    if not names:
        return []
    what = f"While '{task.label}' was worked on in your checkout, work you had not committed was committed"
    fix = ("git", "-C", source.top, "reset", "-q", "--soft", start.head)
    return [_report(snapshot_store, task, session, SWEPT, what, list(names), fix)]


def _names(
    snapshot_store: SnapshotStore, task: Task, session: str, start: Snapshot, *, touched: bool
) -> list[IncidentReport]:
    """Branches and tags that are gone, also where their commits are not, and a HEAD that stands elsewhere."""
    store, source = snapshot_store.store, snapshot_store.source
    steps = plan_refs(store, source, parts_of(store, start.sha).refs).refs
    gone = [one.name for one in steps if one.name.startswith(_NAMES) and not one.old and not one.name.startswith(_OURS)]
    found, during = [], f"While '{task.label}' was worked on in your checkout"
    if gone:
        fix = (
            "handoff",
            "-C",
            source.top,
            "snapshot",
            "restore",
            start.sha,
            *(word for name in gone for word in ("--ref", name)),
        )
        found.append(_report(snapshot_store, task, session, NAMES_GONE, f"{during}, names were deleted", gone, fix))
    if start.branch and head(source).ref != start.branch:
        # Where only HEAD was written, the files are still those of the branch: nothing is to be laid out.
        back = ("switch", "-q", start.branch.removeprefix("refs/heads/"))
        fix = ("git", "-C", source.top, *(back if touched else ("symbolic-ref", "HEAD", start.branch)))
        stands = head(source).ref or head(source).commit[:10]
        found.append(
            _report(snapshot_store, task, session, HEAD_MOVED, f"{during}, HEAD went elsewhere", [stands], fix)
        )
    return found


def _report(
    snapshot_store: SnapshotStore,
    task: Task,
    session: str,
    kind: str,
    what: str,
    names: list[str],
    *fixes: tuple[str, ...],
) -> IncidentReport:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return incidents.IncidentReport(
        mark=f"{snapshot_store.source.common}\0{session}\0{kind}",
        kind=kind,
        what=f"{what}: {', '.join(map(on_one_line, names[:_NAMED]))}{more}.",
        fix=" && ".join(map(shlex.join, fixes)),
        project=task.project,
        session=session,
        evidence={"paths": names[:_SHOWN], "task": task.label, "subject": session},
    )


def _empty(snapshot_store: SnapshotStore) -> str:
    """The tree that holds nothing."""
    return snapshot_store.store.ask("hash-object", "-t", "tree", "-w", "--stdin").strip()


def _staged(snapshot_store: SnapshotStore, snapshot: Snapshot) -> str:
    """The tree of the index in a snapshot; empty where there was no index."""
    words = ("log", "-1", "--format=%T%x00%s", f"{snapshot.sha}^1")
    tree, _, subject = snapshot_store.store.git(*words).text.strip().partition("\0")
    return tree if subject == "index" else ""


def _is_committed(snapshot_store: SnapshotStore, start: Snapshot, path: str) -> bool:
    """Whether what lay there is on the branch by now: then nothing is lost."""
    now = snapshot_store.store.look(snapshot_store.source, "rev-parse", "-q", "--verify", f"HEAD:{path}").text.strip()
    then = snapshot_store.store.git("rev-parse", "-q", "--verify", f"{start.sha}:{path}").text.strip()
    return bool(now) and now == then


def _has(snapshot_store: SnapshotStore, commit: str, tree: str, path: str) -> bool:
    store = snapshot_store.store
    ours = store.look(snapshot_store.source, "rev-parse", "-q", "--verify", f"{commit}:{path}").text.strip()
    return ours == store.git("rev-parse", "-q", "--verify", f"{tree}:{path}").text.strip()


# What a session did to git itself, so that git no longer sees or has the person's work.


HIDDEN, IGNORED, OBJECTS_GONE = "files-hidden", "files-ignored", "objects-gone"
_FLAGS = {"assume-unchanged": "hsmrck", "skip-worktree": "sS"}  # the tags of `ls-files -v` that tell of each
_EXCLUDE = "info/exclude"
_NAMED_OBJECTS = 20


class Blinded(Record):
    """One thing git does not see or have any more, and the commands that undo it."""

    kind: str
    what: str
    names: tuple[str, ...]
    fixes: tuple[tuple[str, ...], ...]


def find_blinded(snapshot_store: SnapshotStore, start: Snapshot) -> list[Blinded]:
    """Compared with how it was when the session began; what was so before is the person's own wish."""
    return [*_hidden(snapshot_store, start), *_ignored(snapshot_store, start), *_lost_objects(snapshot_store, start)]


def _hidden(snapshot_store: SnapshotStore, start: Snapshot) -> list[Blinded]:
    store, source = snapshot_store.store, snapshot_store.source
    staged = parts_of(store, start.sha).staged
    before = store.git("cat-file", "blob", f"{staged}^1:extras").text if staged else ""
    now = store.look(source, "ls-files", "-z", "-v").text
    lines = {line.partition("\t")[2]: line[:1] for line in before.split("\0") if line}
    sparse = "S" in lines.values() or store.look(source, "config", "--bool", "core.sparseCheckout").text == "true\n"
    fixes, names = [], []
    for flag, tags in _FLAGS.items():
        if sparse and flag == "skip-worktree":
            continue  # git sets it itself, for every file it leaves out
        listed = ((line[:1], line[2:]) for line in now.split("\0") if line)
        found = [name for tag, name in listed if tag in tags and lines.get(name, "H") not in tags]
        names += found
        if found:
            fixes.append(("git", "-C", source.top, "update-index", f"--no-{flag}", "--", *found))
    if len(names) > _NAMED_OBJECTS:
        fixes = [_restore_command(snapshot_store, start, "--index")]
    what = "files were hidden from git, which no longer tells when they change"
    return [Blinded(kind=HIDDEN, what=what, names=tuple(names), fixes=tuple(fixes))] if names else []


def _ignored(snapshot_store: SnapshotStore, start: Snapshot) -> list[Blinded]:
    store, side = snapshot_store.store, parts_of(snapshot_store.store, start.sha).refs
    _, sha = side_files(store, side).get(_EXCLUDE, ("", "")) if side else ("", "")
    before = store.read(sha) if sha else b""
    now = read_plain(os.path.join(snapshot_store.source.common, _EXCLUDE))
    new = [line for line in _patterns(now) if line not in _patterns(before)]
    if not new:
        return []
    fix = _restore_command(snapshot_store, start, "--setting", _EXCLUDE)
    what = f".git/{_EXCLUDE} ignores more files than before"
    return [Blinded(kind=IGNORED, what=what, names=tuple(new), fixes=(fix,))]


def _patterns(data: bytes) -> list[str]:
    lines = (os.fsdecode(line).strip() for line in data.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _lost_objects(snapshot_store: SnapshotStore, start: Snapshot) -> list[Blinded]:
    """The tips of all names, and every file of the last commit: what a person works with next."""
    store, source = snapshot_store.store, snapshot_store.source
    if not start.head:
        return []
    listed = (line.partition("\t")[0].split(" ") for line in store.git("ls-tree", "-r", start.head).text.splitlines())
    blobs = [sha for _, kind, sha in listed if kind == "blob"]
    tips = (value for value in refs(source).values() if is_sha(value))
    known = store.readable(list(dict.fromkeys([start.head, *tips, *blobs])))  # a partial clone never had all of them
    gone = sorted(known.keys() - store.readable(list(known), objects=source.objects).keys())
    if not gone:
        return []
    fix = _restore_command(snapshot_store, start, "--refs")
    what = "objects of the repository were deleted or emptied"
    return [Blinded(kind=OBJECTS_GONE, what=what, names=tuple(sha[:12] for sha in gone), fixes=(fix,))]


def _restore_command(snapshot_store: SnapshotStore, start: Snapshot, *words: str) -> tuple[str, ...]:
    return ("handoff", "-C", snapshot_store.source.top, "snapshot", "restore", start.sha, *words)
