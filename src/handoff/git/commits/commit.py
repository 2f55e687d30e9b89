"""Safe commit: exactly the named paths, on the branch by compare-and-swap, everybody else's staging untouched."""

from __future__ import annotations

import os

from handoff.base.errors import Conflict, UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.git.commits import hooks, index
from handoff.git.commits.merge import STAGED, BranchMove, clear_state, note_move
from handoff.git.commits.message import write_commit
from handoff.git.commits.paths import locate
from handoff.git.commits.prepare import CommitOptions, Draft, prepare, still_true
from handoff.git.plumbing.queue import hold, turn, unlink
from handoff.git.plumbing.refs import Head, current, fix, move
from handoff.git.plumbing.repository import FileStamp, Repository, look

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["CommitOptions", "Landed", "Repository", "commit"]

# How often a draft is made anew because others changed its very paths, or git beat us to the branch.
ATTEMPTS = 20
_DAY_SECONDS = 86400
_MAY_BE_EMPTY = ("amend", "merge", "cherry-pick", "revert")


class Landed(Record):
    """A commit that is on its branch."""

    commit: str
    branch: str
    paths: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def short(self) -> str:
        return self.commit[:10]


def commit(
    top: str | Repository,
    paths: Sequence[str],
    message: str | Sequence[str],
    *,
    environment: Mapping[str, str],
    now: float,
    cwd: str = "",
    options: CommitOptions | None = None,
) -> Landed:
    """Commit the named paths and nothing else; all or nothing.

    Pass a `Repository` instead of its top to keep settings between commits. Content is read and hooks are run before
    the turn is taken, so a slow hook holds up nobody.
    """
    repo = top if isinstance(top, Repository) else Repository(top, environment)
    options = options or CommitOptions()
    words = [message] if isinstance(message, str) else list(message)
    named = locate(repo, paths, cwd or repo.top)
    if not named and not (options.allow_empty or options.amend):
        raise UserError("No paths were named.", "Name the files to commit after --.")
    for _ in range(ATTEMPTS):
        try:
            draft = prepare(repo, named, words, options, now)
            landed, fixed = _in_turn(repo, draft, options)
        except OSError as error:
            raise UserError(
                f"Nothing was committed: {error.filename or repo.folder}: {error.strerror}.",
                "Check that the disk has room and that you may read the files and write the git folder.",
            ) from error
        if landed is not None:
            return _after(repo, draft, landed, options, fixed, now)
    raise Conflict(
        "Others kept changing the same paths; nothing was committed.",
        "Find out who else works on them, then try again.",
    )


def _in_turn(repo: Repository, draft: Draft, options: CommitOptions) -> tuple[Landed | None, str]:
    """Wait in line, fix what a killed process left, land."""
    with (
        hold(options.lock, patience=options.patience),
        turn(os.path.join(repo.common, "handoff"), patience=options.patience) as lock,
    ):
        repo.turn = lock
        try:
            fix(repo)
            fixed = index.fix(repo)
            return _land(repo, draft, options), fixed
        finally:
            repo.turn = -1


def _land(repo: Repository, draft: Draft, options: CommitOptions) -> Landed | None:
    """With the turn held: put the draft on the branch as it stands now. None if it has to be made anew."""
    for _ in range(ATTEMPTS):
        now = current(repo)
        tree = draft.tree
        if now != draft.base:
            tree = repo.load(now.commit, draft.work.entries) if now.commit else ""
            if not still_true(repo, draft, now, tree) or draft.carried:
                return None
        changes = {**draft.carried, **draft.work.entries}
        new_tree = repo.graft(tree, changes)
        if new_tree == tree and not (options.allow_empty or draft.kind in _MAY_BE_EMPTY):
            raise UserError(
                "Nothing to commit: the named paths are as in the last commit.", "See what changed: git status"
            )
        parents = draft.parents
        if draft.kind != "amend" and now.commit:
            parents = (now.commit, *draft.parents[1:])
        sha = write_commit(repo, new_tree, parents, draft.who, draft.message, sign=_key(repo, options))
        if _swap(repo, draft, options, now, sha):
            return Landed(sha, now.branch, tuple(os.fsdecode(path) for path in draft.work.entries))
    raise Conflict("The branch kept moving; nothing was committed.", "Another git is committing in a loop: try again.")


def _key(repo: Repository, options: CommitOptions) -> str | None:
    """The key to sign with: None for no signature, empty for the person's usual one."""
    if options.unsigned:
        return None
    return options.sign if options.sign is not None else "" if repo.settings.yes("commit.gpgsign") else None


def _swap(repo: Repository, draft: Draft, options: CommitOptions, old: Head, new: str) -> bool:
    """Move the branch, and with it the shared index for our paths; nobody can commit in between."""
    subject = draft.message.split("\n", 1)[0]
    log = f"commit{f' ({draft.kind})' if draft.kind else ''}: {subject}"
    ask_git = bool(hooks.find(repo, hooks.WATCHING))
    ends = draft.kind in _MAY_BE_EMPTY[1:]
    how = STAGED if options.staged else draft.kind if ends else ""
    note_move(repo, BranchMove(old.ref, old.commit, new, draft.time, how), options.session)
    if not options.refresh or options.staged:  # what was staged is in the index already
        moved = move(repo, old, new, draft.who.committer, log, ask_git=ask_git)
        if moved and ends:
            clear_state(repo)
        return moved
    name = f"index-{os.getpid()}-{os.urandom(4).hex()}"
    private, stamp = _private(repo, draft, name)
    try:
        with index.hold(repo, patience=options.index_patience):
            if look(repo.source.index_file, follow=True) != stamp:  # somebody staged meanwhile: begin from theirs
                private, stamp = _private(repo, draft, name)
            index.announce(repo, new, private)
            if not move(repo, old, new, draft.who.committer, log, ask_git=ask_git):
                return False
            index.install(repo, private)
            if ends:
                clear_state(repo)
            return True
    finally:
        for path in (private, private + ".lock"):
            unlink(path)


def _private(repo: Repository, draft: Draft, name: str) -> tuple[str, FileStamp | None]:
    """The shared index with our paths as committed, in a place of its own."""
    private, stamp = index.copy(repo, name)
    top = os.fsencode(repo.top)
    seen = draft.work.seen
    unchanged = {
        path
        for path, entry in draft.work.entries.items()
        if (seen[path] is None) == (entry is None) and look(os.path.join(top, path)) == seen[path]
    }
    index.put(repo, private, draft.work.entries, unchanged=unchanged)
    return private, stamp


def _after(repo: Repository, draft: Draft, landed: Landed, options: CommitOptions, fixed: str, now: float) -> Landed:
    """With the turn given back: notes, the hooks that only look, git's own housekeeping."""
    notes = [note for note in (fixed, *draft.notes) if note]
    for name in hooks.AFTER:
        if name == "post-rewrite" and draft.kind != "amend":
            continue
        rewritten = f"{draft.base.commit} {landed.commit}\n".encode() if name == "post-rewrite" else None
        try:
            text = hooks.call(repo, name, ("amend",) if rewritten else (), stdin=rewritten)
        except UserError as error:
            text = error.message.replace("; nothing was committed", "; the commit stands")
        notes += [text] if text else []
    if options.refresh:
        index.sweep(repo, now - _DAY_SECONDS)
        _housekeeping(repo)
    return landed._replace(notes=tuple(notes))


def _housekeeping(repo: Repository) -> None:
    """As git does after a commit: pack when loose objects have piled up. One folder of 256 is the sample."""
    limit = repo.settings.get("gc.auto", "6700")
    try:
        loose = len(os.listdir(os.path.join(repo.objects, "17")))
    except OSError:
        return
    if limit.isdigit() and int(limit) > 0 and loose > int(limit) // 256 + 1:
        repo.git("maintenance", "run", "--auto", "--quiet")
