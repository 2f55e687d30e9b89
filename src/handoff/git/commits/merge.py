"""Commits that end something: a merge, a cherry-pick, a revert; the amending and the undoing of one's own."""

from __future__ import annotations

import os

from handoff.base.errors import Refused, UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.git.commits import index
from handoff.git.commits.message import author_of, people
from handoff.git.plumbing import read_text
from handoff.git.plumbing.objects import Entry, differences, fetch
from handoff.git.plumbing.queue import turn, unlink
from handoff.git.plumbing.refs import Head, current, fix, move

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from handoff.git.plumbing.objects import Repository

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


_SHOWN = 5


def moves(repo: Repository) -> list[BranchMove]:
    """The commits of ours that came to be, and those taken back, oldest first: the branch's own log knows them."""
    known: dict[str, str] = {}
    found = []
    for one in noted_moves(repo):
        if one.ref not in known:
            known[one.ref] = read_text(os.path.join(repo.common if one.ref else repo.folder, "logs", one.ref or "HEAD"))
        if f"{one.old or '0' * len(one.new)} {one.new or '0' * len(one.old)} " in known[one.ref] or not known[one.ref]:
            found.append(one)
    return found


def is_back(made: BranchMove) -> bool:
    """Whether the move took a commit back; taken back once more, the commit is there again."""
    return made.how.split(" ").count(UNDONE) % 2 == 1


def check(repo: Repository, made: BranchMove) -> None:
    """Refuse where the branch no longer stands where that commit put it."""
    now = current(repo)
    where = made.ref.removeprefix("refs/heads/") or "HEAD"
    if "merge" in made.how:
        raise Refused(
            f"The commit {made.new[:10]} ended a merge.", f"Take it back with: git revert -m 1 {made.new[:10]}"
        )
    if now.ref != made.ref:
        there = f"on {where}" if made.ref else "on a detached HEAD"
        place = where if made.ref else f"--detach {made.new[:10]}"
        raise Refused(
            f"The newest commit of ours was made {there}, and {now.branch or 'a detached HEAD'} is checked out.",
            f"Go there first: git checkout {place}. Or take back another operation: handoff undo --list",
        )
    if now.commit == made.new:
        return
    if now.commit == made.old:
        raise UserError(f"{where} stands at {now.commit[:10]} already.", "See the others: handoff undo --list")
    listed = repo.git("log", f"-{_SHOWN}", "--format=%h %s", f"{made.new}..{now.commit}", "--").text.splitlines()
    later = f": {'; '.join(listed)}" if listed else ""
    raise Refused(
        f"{where} has moved on since {made.new[:10]}{later}. Nothing was changed.",
        f"Take back that commit alone with a new one: git revert {made.new[:10]}",
    )


def paths_of(repo: Repository, made: BranchMove) -> list[str]:
    """The paths the move changed."""
    return [one.path for one in differences(repo, _tree(repo, made.new), _tree(repo, made.old))]


def take_back(repo: Repository, made: BranchMove, *, now: float, session: str = "") -> None:
    """Move the branch back to where it stood before, and the index of exactly those paths that are still as committed."""
    who = people(repo, now)
    message = f"handoff undo: back from {made.new[:10]}" if made.new else "handoff undo: forth again"
    back = BranchMove(made.ref, made.new, made.old, now, " ".join(filter(None, (made.how, UNDONE))))
    with turn(os.path.join(repo.common, "handoff")) as lock:
        repo.turn = lock
        try:
            fix(repo)
            index.fix(repo)
            check(repo, made)
            _swap(repo, made, back, who.committer, message, session)
        finally:
            repo.turn = -1


def _swap(repo: Repository, made: BranchMove, back: BranchMove, who: str, message: str, session: str) -> None:
    name = f"index-{os.getpid()}-{os.urandom(4).hex()}"
    with index.hold(repo):
        private, _ = index.copy(repo, name)
        try:
            if STAGED not in made.how:
                entries = _entries(repo, made, private)
                index.put(repo, private, entries, unchanged=set())
            note_move(repo, back, session)
            index.announce(repo, back.new, private)
            if not _move(repo, made, back.new, who, message):
                raise Refused("The branch moved at this very moment. Nothing was changed.", "Run the command again.")
            index.install(repo, private)
        finally:
            for path in (private, private + ".lock"):
                unlink(path)


def _move(repo: Repository, made: BranchMove, new: str, who: str, message: str) -> bool:
    if new and made.new:
        return move(repo, Head(made.ref, made.new), new, who, message, ask_git=False)
    zeros = "0" * len(new or made.new)
    words = ("-d", "HEAD", made.new) if made.new else ("HEAD", new, zeros)
    return repo.git("update-ref", "-m", message, *words).code == 0


def _entries(repo: Repository, made: BranchMove, private: str) -> dict[bytes, Entry | None]:
    """What the index shall say of the commit's paths; what was staged anew since stays staged."""
    listed = differences(repo, _tree(repo, made.new), _tree(repo, made.old))
    paths = [os.fsencode(one.path) for one in listed]
    staged = {path: entry.sha for path, stage, entry in repo.staged(paths, index=private) if stage == "0"}
    found: dict[bytes, Entry | None] = {}
    for path, one in zip(paths, listed, strict=True):
        if staged.get(path, "0" * len(one.old)) == one.old:
            found[path] = None if one.letter == "D" else Entry(one.mode, one.sha)
    return found


def _tree(repo: Repository, commit: str) -> str:
    return commit or repo.write("tree", b"")
