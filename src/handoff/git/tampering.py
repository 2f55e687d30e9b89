"""What of a repository must not change behind our back, and how two looks at it differ. Read by hand where possible."""

from __future__ import annotations

import os

from handoff.base.record import TYPE_CHECKING, Record
from handoff.git.plumbing.objects import LINK, PROGRAM, digest
from handoff.git.plumbing.refs import head, refs
from handoff.git.snapshots.parts import logs, settings_files, stashes

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence
    from typing import Any

    from handoff.git.plumbing import Source
    from handoff.git.plumbing.snapshot_repo import SnapshotRepo

REF_MOVED, REF_DELETED, REF_PLANTED, STASH_LOST = "ref-moved", "ref-deleted", "ref-planted", "stash-lost"
HOOK_CHANGED, CONFIG_CHANGED, FOREIGN_COMMIT = "hook-changed", "config-changed", "foreign-commit"
COMMIT_REVERTED = "commit-reverted"
STASH = "refs/stash"
OURS = "handoff"  # as maker of a commit: it landed by the rules
_WATCHED = ("refs/heads/", "refs/tags/", "refs/replace/", "refs/notes/")
_REPLACE = "refs/replace/"
_NOTES = "refs/notes/handoff"  # our own records of what was verified
# git and everyday commands write these themselves: `push -u`, `remote add`, `submodule init`, `gc`, our own guard.
_EVERYDAY = ("branch.", "handoff.", "gc.", "maintenance.", "submodule.", "lfs.", "pull.", "push.", "extensions.")
_REMOTE = "remote."
DIRTY_BASE = "The working tree as it was when "  # what a clone began from, where the person had not committed
_LOG_LINES = 30
_LOG_COMMITS = 500
_SHOWN = 20


class Tampering(Record):
    """One thing that changed behind our back: what, with which evidence, what fixes it, and how that is seen."""

    kind: str
    subject: str
    what: str
    evidence: dict[str, Any]
    fix: tuple[str, ...]
    fixed: dict[str, Any]
    session: str = ""


class BranchOwner(Record):
    """Somebody at work on a branch: whose it is, and which paths are theirs."""

    session: str
    branch: str
    covers: Callable[[str], bool]
    own: bool  # the checkout is the session's own: then no path of others belongs there


def facts(store: SnapshotRepo, source: Source, before: dict[str, Any]) -> dict[str, Any]:
    """The repository as plain values. git is asked only for settings, and only when their file has changed."""
    found, stands, settings = refs(source), head(source), settings_files(source)
    mark = _digest(*settings.get("config", (b"", "")))
    keys = before.get("config", {}) if before.get("config_mark") == mark else _keys(store, source)
    return {
        "head": stands.ref or stands.commit,
        "refs": {
            as_text(name): value
            for name, value in found.items()
            if name.startswith(_WATCHED) and not name.startswith(_NOTES)
        },
        "stash": stashes(source) if STASH in found else [],
        "hooks": {
            as_text(name): _digest(data, mode)
            for name, (data, mode) in settings.items()
            if name.startswith("hooks/") or name == "info/attributes"
        },
        "config": keys,
        "config_mark": mark,
    }


def compare(
    store: SnapshotRepo,
    source: Source,
    before: dict[str, Any],
    now: dict[str, Any],
    *,
    snapshot: str,
    ours: set[tuple[str, str]],
) -> list[Tampering]:
    """What changed that nobody who works by the rules changes. `ours` are values refs were given by handoff itself."""
    found: list[Tampering] = []
    old_refs, new_refs = before.get("refs", {}), now["refs"]
    for name, old in sorted(old_refs.items()):
        new = new_refs.get(name, "")
        if new != old and (name, new) not in ours and old and not old.startswith("ref:"):
            found += _ref(store, source, name, (old, new), snapshot)
    for name in sorted(new_refs.keys() - old_refs.keys()):
        if name.startswith(_REPLACE):
            what = f"{name} was made: it changes what another object means for everybody."
            fix = _git(source, "update-ref", "-d", name, new_refs[name])
            evidence, fixed = {"new": new_refs[name]}, {"ref": name, "value": ""}
            found.append(Tampering(kind=REF_PLANTED, subject=name, what=what, evidence=evidence, fix=fix, fixed=fixed))
    lost = [sha for sha in before.get("stash", []) if sha not in now["stash"]]
    if lost and (STASH, "") not in ours:
        what = f"{len(lost)} stash entr{'y is' if len(lost) == 1 else 'ies are'} gone."
        fix = _restore(source, snapshot, "--ref", STASH)
        gone, fixed = {"lost": lost[:_SHOWN]}, {"stash": lost}
        found.append(Tampering(kind=STASH_LOST, subject=STASH, what=what, evidence=gone, fix=fix, fixed=fixed))
    return found + _hooks(source, before, now, snapshot) + _config(source, before, now, snapshot)


def _ref(store: SnapshotRepo, source: Source, name: str, values: tuple[str, str], snapshot: str) -> list[Tampering]:
    old, new = values
    if new and _is_ancestor(store, source, old, new) and not name.startswith("refs/tags/"):
        return []  # it grew
    if not new and (_reachable(store, source, old) or _is_contained(store, source, old)):
        return []  # what a merged or landed branch named is still there
    log = logs(source).get(name, b"")
    good = _last_good(store, source, log, old) if new else old
    newest = [as_text(line) for line in log.decode("utf-8", "surrogateescape").splitlines()[-5:]]
    evidence = {"ref": name, "old": good, "new": new, "reflog": newest}
    if store.look(source, "cat-file", "-e", f"{good}^{{}}").code == 0:
        fix = _git(source, "update-ref", name, good, *([new] if new else []))
    else:
        good = old
        fix = _restore(source, snapshot, "--ref", name)
    what = (
        f"{name} was moved from {good[:10]} to {new[:10]}, which does not come after it."
        if new
        else f"{name} ({good[:10]}) was deleted, and no other branch holds its commits."
    )
    kind, fixed = REF_MOVED if new else REF_DELETED, {"ref": name, "value": good}
    return [Tampering(kind=kind, subject=name, what=what, evidence=evidence, fix=fix, fixed=fixed)]


def _last_good(store: SnapshotRepo, source: Source, log: bytes, old: str) -> str:
    """The newest value the ref had before it went astray: commits made since our last look are not lost either."""
    good, lines = old, log.decode("utf-8", "surrogateescape").split("\n")[-_LOG_LINES:]
    # It may have stood there before: what it went on to then is not what happened now.
    since = max((at for at, line in enumerate(lines) if line.startswith(old + " ")), default=len(lines))
    for line in lines[since:]:
        became = line.partition(" ")[2].partition(" ")[0]
        if became and became != good:
            if not _is_ancestor(store, source, good, became):
                break
            good = became
    return good


def _hooks(source: Source, before: dict[str, Any], now: dict[str, Any], snapshot: str) -> list[Tampering]:
    found = []
    old, new = before.get("hooks", {}), now["hooks"]
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) == new.get(name):
            continue
        how = "removed" if name not in new else "changed" if name in old else "put there"
        what = f"The git {'hook' if name.startswith('hooks/') else 'file'} {name} was {how}."
        was, path = old.get(name, ""), os.path.join(source.common, name)
        evidence, fixed = {"before": was, "now": new.get(name, ""), "path": path}, {"hook": name, "value": was}
        fix = _restore(source, snapshot, "--setting", name)
        found.append(Tampering(kind=HOOK_CHANGED, subject=name, what=what, evidence=evidence, fix=fix, fixed=fixed))
    return found


def _config(source: Source, before: dict[str, Any], now: dict[str, Any], snapshot: str) -> list[Tampering]:
    old, new = before.get("config", {}), now["config"]
    changed = {}
    for key in sorted(old.keys() | new.keys()):
        if old.get(key) == new.get(key) or key.startswith(_EVERYDAY):
            continue
        if key.startswith(_REMOTE) and (key not in old or key.endswith(".fetch")):
            continue  # a new remote is nobody's harm; an old one that leads elsewhere is
        changed[key] = [old.get(key), new.get(key)]
    if not changed:
        return []
    shown = ", ".join(list(changed)[:_SHOWN])
    return [
        Tampering(
            kind=CONFIG_CHANGED,
            subject="config",
            what=f"git's settings of the repository were changed: {shown}.",
            evidence={"changed": changed},
            fix=_restore(source, snapshot, "--setting", "config"),
            fixed={"config": {key: pair[0] for key, pair in changed.items()}},
        )
    ]


# --- commits -------------------------------------------------------------------------------------------------


def foreign_commits(
    store: SnapshotRepo, source: Source, work: BranchOwner, values: tuple[str, str], made: dict[str, str]
) -> list[Tampering]:
    """Commits on a branch somebody works on that took in what is not theirs: `made` says which session made which."""
    old, new = values
    form = "--format=%x01%H%x01%an <%ae>%x01%s"
    words = ("log", "-z", "--name-only", "--no-renames", "--no-show-signature", form)
    answer = store.look(source, *words, f"{old}..{new}", "--not", "--remotes", "--")
    if answer.code:
        return []
    found = []
    fields = answer.text.split("\x01")[1:]
    for sha, author, rest in zip(fields[::3], fields[1::3], fields[2::3], strict=False):
        subject, _, names = rest.partition("\0")
        paths = [name.lstrip("\n") for name in names.split("\0") if name.strip("\n")]
        if made.get(sha) in (work.session, OURS) and not work.own:
            continue
        strange = [path for path in paths if work.covers(path) != work.own]
        if strange:
            found.append(_foreign(source, work, (sha, author, subject), strange, tip=sha == new))
    return found


def _foreign(
    source: Source, work: BranchOwner, commit: tuple[str, str, str], strange: Sequence[str], *, tip: bool
) -> Tampering:
    sha, author, subject = commit
    what = (
        f"Commit {sha[:10]} on {work.branch} holds {len(strange)} paths that are not session {work.session}'s."
        if work.own
        else f"Commit {sha[:10]} on {work.branch} took in {len(strange)} paths session {work.session} is at work on."
    )
    if tip:  # the files stay as they lie; only the commit is taken back
        fix = _git(source, "update-ref", work.branch, f"{sha}~1", sha)
        fixed = {"ref": work.branch, "not": sha}
    else:
        fix = _git(source, "revert", "--no-edit", sha)
        fixed = {"reverted": sha, "ref": work.branch}
    evidence = {
        "commit": sha,
        "author": author,
        "subject": subject.strip(),
        "branch": work.branch,
        "paths": list(strange[:_SHOWN]),
        "session": work.session,
    }
    return Tampering(
        kind=FOREIGN_COMMIT, subject=sha, what=what, evidence=evidence, fix=fix, fixed=fixed, session=work.session
    )


def reverted_commits(
    store: SnapshotRepo, source: Source, branch: str, values: tuple[str, str], made: Container[str]
) -> list[Tampering]:
    """Commits that put back exactly what a safe commit had changed, though nobody said so: git had an old index in its hand."""
    old, new = values
    ask = ("log", f"-{_LOG_COMMITS}", "--first-parent", "-z", "--raw", "--no-abbrev", "--no-renames", "--reverse")
    told = store.look(source, *ask, "--no-show-signature", "--format=%x01%H%x01%b%x01", new, "--").text
    young = set(store.look(source, "rev-list", f"-{_LOG_COMMITS}", f"{old}..{new}", "--").text.split())
    ours: dict[tuple[str, str, str], str] = {}
    found = []
    fields = told.split("\x01")[1:]
    for sha, body, rest in zip(fields[::3], fields[1::3], fields[2::3], strict=False):
        parts = [part.lstrip("\n") for part in rest.split("\0") if part.strip("\n")]
        raw = ((path, facts.split(" ")) for facts, path in zip(parts[::2], parts[1::2], strict=False))
        changed = [(path, words[2], words[3]) for path, words in raw]
        if sha in made:
            ours |= dict.fromkeys(changed, sha)
        elif sha in young and "This reverts commit" not in body:
            back = [
                (path, is_now, ours[path, is_now, was]) for path, was, is_now in changed if (path, is_now, was) in ours
            ]
            found += [_reverted(store, source, branch, sha, back)] if back else []
    return found


def _reverted(
    store: SnapshotRepo, source: Source, branch: str, sha: str, back: Sequence[tuple[str, str, str]]
) -> Tampering:
    paths, safe = [path for path, _, _ in back], back[-1][2]
    wanted = {
        path: store.look(source, "rev-parse", "-q", "--verify", f"{commit}:{path}").text.strip()
        for path, _, commit in back
    }
    on_disk = store.look(source, "hash-object", "--", *paths).text.split()
    if on_disk == list(wanted.values()):  # only the commit is wrong: what was written still lies there
        message = f"Bring back what {sha[:10]} reverted"
        fix: tuple[str, ...] = ("handoff", "-C", source.top, "safe-commit", "-m", message, "--", *paths)
    else:
        fix = _git(source, "checkout", safe, "--", *paths)
    what = (
        f"Commit {sha[:10]} on {branch} reverted what the safe commit {safe[:10]} had changed: {', '.join(paths[:5])}."
    )
    evidence = {"commit": sha, "safe": safe, "branch": branch, "paths": paths[:_SHOWN]}
    fixed = {"ref": branch, "holds": {as_text(path): blob for path, blob in wanted.items()}}
    return Tampering(kind=COMMIT_REVERTED, subject=sha, what=what, evidence=evidence, fix=fix, fixed=fixed)


# --- is it fixed? -------------------------------------------------------------------------------------------


def is_fixed(fixed: dict[str, Any], now: dict[str, Any]) -> bool:
    """Whether what an incident wants to see again is there."""
    if "hook" in fixed:
        return bool(now["hooks"].get(fixed["hook"], "") == fixed["value"])
    if "config" in fixed:
        return all(now["config"].get(key) == value for key, value in fixed["config"].items())
    if "stash" in fixed:
        return all(sha in now["stash"] for sha in fixed["stash"])
    if "not" in fixed:
        return bool(now["refs"].get(fixed["ref"], "") != fixed["not"])
    if "ref" in fixed and "value" in fixed:
        return bool(now["refs"].get(fixed["ref"], "") == fixed["value"])
    return False


# --- small questions -----------------------------------------------------------------------------------------


def _is_ancestor(store: SnapshotRepo, source: Source, old: str, new: str) -> bool:
    return old == new or store.look(source, "merge-base", "--is-ancestor", old, new).code == 0


def _reachable(store: SnapshotRepo, source: Source, commit: str) -> bool:
    answer = store.look(source, "rev-list", "-n1", commit, "--not", "--branches", "--tags", "--remotes", "--")
    return answer.code == 0 and not answer.out.strip()


def _is_contained(store: SnapshotRepo, source: Source, commit: str) -> bool:
    """Whether all that only this commit's branch held came into HEAD's history: the same contents, under whatever commits."""
    words = ("log", "-z", "--raw", "--no-renames", "--no-abbrev", "--no-show-signature", "--format=%x01%s%x01")
    alone = store.look(source, *words, commit, "--not", "--branches", "--tags", "--remotes", "--")
    past = store.look(source, "merge-base", commit, "HEAD")
    if alone.code or past.code:
        return False
    came = _contents(store.look(source, *words, f"{past.text.strip()}..HEAD", "--").text.split("\x01")[2::2])
    told = alone.text.split("\x01")[1:]
    wanted = [raw for subject, raw in zip(told[::2], told[1::2], strict=False) if not subject.startswith(DIRTY_BASE)]
    return bool(wanted) and _contents(wanted) <= came


def _contents(raw: Sequence[str]) -> set[tuple[str, str, str]]:
    """What some commits left where: path, mode, object."""
    parts = [part.lstrip("\n") for text in raw for part in text.split("\0") if part.strip("\n")]
    return {(path, *_new(facts)) for facts, path in zip(parts[::2], parts[1::2], strict=False)}


def _new(facts: str) -> tuple[str, str]:
    words = facts.split(" ")
    return words[1], words[3]


def _keys(store: SnapshotRepo, source: Source) -> dict[str, str]:
    words = ["config", "--no-includes", "-z", "--list", "--file", os.path.join(source.common, "config")]
    found: dict[str, list[str]] = {}
    for item in store.look(source, *words).text.split("\0"):
        key, _, value = item.partition("\n")
        if key:
            found.setdefault(as_text(key), []).append(as_text(value))
    return {key: "\n".join(values) for key, values in found.items()}


def _digest(data: bytes, mode: str) -> str:
    return digest(data) + {PROGRAM: "x", LINK: "l"}.get(mode, "")


def _git(source: Source, *words: str) -> tuple[str, ...]:
    return ("git", "-C", source.top, *words)


def _restore(source: Source, snapshot: str, *words: str) -> tuple[str, ...]:
    return ("handoff", "-C", source.top, "snapshot", "restore", snapshot, *words)


def as_text(text: str) -> str:
    """A name as a row can keep it."""
    return text.encode("utf-8", "backslashreplace").decode()
