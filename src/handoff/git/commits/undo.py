"""Take back one safe commit: the branch goes back by compare-and-swap, the files stay as they are on the disk."""

from __future__ import annotations

import os

from handoff.base.errors import Refused, UserError
from handoff.base.record import TYPE_CHECKING
from handoff.git.commits import index
from handoff.git.commits.merge import STAGED, UNDONE, BranchMove, note_move, noted_moves
from handoff.git.commits.message import people
from handoff.git.plumbing import read_text
from handoff.git.plumbing.objects import Entry, differences
from handoff.git.plumbing.queue import turn, unlink
from handoff.git.plumbing.refs import Head, current, fix, move

if TYPE_CHECKING:
    from handoff.git.plumbing.repository import Repository

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
