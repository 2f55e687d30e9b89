"""Commits that end something: a merge, a cherry-pick, a revert; and the amending of one's own."""

from __future__ import annotations

import os

from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.git.commits.message import author_of, people
from handoff.git.plumbing import read_text
from handoff.git.plumbing.objects import Entry, fetch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from handoff.git.plumbing.refs import Head
    from handoff.git.plumbing.repository import Repository

MERGE, PICK, REVERT = "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD"
_KINDS = {MERGE: "merge", PICK: "cherry-pick", REVERT: "revert"}
STAGED, UNDONE = "staged", "undone"
_FACTS = 5
_STATE_FILES = (MERGE, PICK, REVERT, "MERGE_MSG", "MERGE_MODE", "SQUASH_MSG", "AUTO_MERGE")


class BranchMove(Record):
    """A branch that a commit of ours moved, or the undoing of one: from where to where, and when."""

    ref: str
    old: str
    new: str
    time: float
    how: str = ""  # in words: STAGED, the index was left alone; UNDONE, a commit was taken back; or what it ended


class Conclusion(Record):
    """What an unfinished merge or pick adds to a commit that touches its paths."""

    kind: str
    parents: tuple[str, ...]
    carried: dict[bytes, Entry | None]
    message: str
    author: str


def conclusion(repo: Repository, base: Head, entries: Mapping[bytes, Entry | None]) -> Conclusion | None:
    """The conclusion that committing these paths means; None for an ordinary commit.

    Somebody else may be in the middle of a merge in this checkout. A commit of paths the merge never touched is not
    its end: it goes on the branch by itself, and the merge stays open.
    """
    name = next((name for name in _KINDS if os.path.exists(os.path.join(repo.folder, name))), "")
    if not name or not base.commit:
        return None
    others = tuple(read_text(os.path.join(repo.folder, name)).split())
    touched = _touched(repo, name, base, others)
    staged, unmerged = _index(repo)
    if not (touched | unmerged) & set(entries):
        return None
    left = sorted(unmerged - set(entries))
    if left:
        raise UserError(
            f"The {_KINDS[name]} still has conflicts: {', '.join(map(repr, map(os.fsdecode, left[:5])))}.",
            "Resolve them and name them, too.",
        )
    carried = {path: staged.get(path) for path in touched if path not in entries}
    author = author_of(fetch(repo, others[:1])[0].data) if name == PICK else ""
    lines = read_text(os.path.join(repo.folder, "MERGE_MSG")).split("\n")
    message = "\n".join(line for line in lines if not line.startswith("#"))
    return Conclusion(_KINDS[name], others if name == MERGE else (), carried, message, author)


def _touched(repo: Repository, name: str, base: Head, others: tuple[str, ...]) -> set[bytes]:
    """The paths the merge or pick changes."""
    if name == MERGE and len(others) == 1:
        merged = repo.git("merge-tree", "--write-tree", "--no-messages", base.commit, others[0])
        tree = merged.text.split("\n", 1)[0]
        if merged.code in (0, 1) and tree:
            return _names(repo, base.commit, tree)
    if name == MERGE:
        return {path for other in others for path in _names(repo, f"{base.commit}...{other}")}
    return _names(repo, f"{others[0]}^", others[0])


def _names(repo: Repository, *revisions: str) -> set[bytes]:
    out = repo.ask_bytes("diff", "--name-only", "--no-renames", "--no-ext-diff", "-z", *revisions, "--")
    return {path for path in out.split(b"\0") if path}


def _index(repo: Repository) -> tuple[dict[bytes, Entry], set[bytes]]:
    staged: dict[bytes, Entry] = {}
    unmerged: set[bytes] = set()
    for path, stage, entry in repo.staged():
        if stage == "0":
            staged[path] = entry
        else:
            unmerged.add(path)
    return staged, unmerged


def clear_state(repo: Repository) -> None:
    """The merge or pick is over."""
    for name in _STATE_FILES:
        try:
            os.unlink(os.path.join(repo.folder, name))
        except FileNotFoundError:
            continue


# --- amending -------------------------------------------------------------------------------------


def refuse_foreign_amend(
    repo: Repository, base: Head, old: bytes, *, session: str, owned: Callable[[bytes], bool] | None
) -> None:
    """Only one's own commit, not yet published, may be rewritten."""
    if not base.commit:
        raise UserError("There is no commit to amend yet.", "Commit without --amend.")
    maker = made_by(repo, base.commit)
    mine = people(repo, 0).author.rsplit(" ", 2)[0]
    reason = ""
    if maker != session:
        reason = f"another session made it ({maker})" if maker else "this session did not make it"
    elif author_of(old).rsplit(" ", 2)[0] != mine:
        reason = f"its author is {author_of(old).rsplit(' ', 2)[0]}"
    elif repo.git("for-each-ref", "--count=1", "--contains", base.commit, "refs/remotes").out:
        reason = "it is already on a remote branch"
    elif owned is not None:
        words = ("diff-tree", "--root", "--no-commit-id", "--name-only", "--no-renames", "-r", "-z", base.commit)
        listed = repo.ask_bytes(*words)
        foreign = [path for path in listed.split(b"\0") if path and not owned(path)]
        reason = f"it holds '{os.fsdecode(foreign[0])}', which is not yours" if foreign else ""
    if reason:
        raise UserError(f"HEAD ({base.commit[:10]}) is not yours to amend: {reason}.", "Make a new commit instead.")


def _made(repo: Repository) -> str:
    return os.path.join(repo.common, "handoff", "made")


def note_move(repo: Repository, move: BranchMove, session: str) -> None:
    """Remember which session is about to make a commit, and where the branch stood: nobody else amends it, `undo` takes it back."""
    folder = repo.folder if repo.folder != repo.common else ""
    facts = (f"{move.new} {session}", f"{move.time:.6f}", move.ref, move.old, move.how, folder)
    fd = os.open(_made(repo), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    os.write(fd, ("\t".join(facts) + "\n").encode("utf-8", "surrogateescape"))
    os.close(fd)


def noted_moves(repo: Repository) -> list[BranchMove]:
    """Every move of a branch of this checkout that was begun, oldest first. Some of them never came to be."""
    found = []
    for line in read_text(_made(repo)).splitlines():
        first, *facts = line.split("\t")
        if len(facts) == _FACTS and facts[4] == (repo.folder if repo.folder != repo.common else ""):
            found.append(BranchMove(facts[1], facts[2], first.partition(" ")[0], float(facts[0]), facts[3]))
    return found


def made_by(repo: Repository, commit: str) -> str:
    """The session that made a commit; empty for a person."""
    found = ""
    for line in read_text(_made(repo)).splitlines():
        first, *facts = line.split("\t")
        sha, _, session = first.partition(" ")
        if sha == commit and UNDONE not in "".join(facts[3:4]):
            found = session
    return found
