"""Safe commit: exactly the named paths, on the branch by compare-and-swap, everybody else's staging untouched."""

from __future__ import annotations

import os

from handoff.base.errors import Conflict, UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.git.commits import hooks, index
from handoff.git.commits.index import (
    PATIENCE_SECONDS,
    PathContents,
    copy,
    expand,
    ignored_paths,
    index_info,
    is_tree,
    locate,
    place,
    take,
)
from handoff.git.commits.merge import (
    STAGED,
    BranchMove,
    Conclusion,
    clear_state,
    conclusion,
    note_move,
    refuse_foreign_amend,
)
from handoff.git.commits.message import (
    People,
    author_of,
    check_message,
    people,
    tidy,
    words_of,
    write_commit,
    write_message,
)
from handoff.git.plumbing.objects import Entry, FileStamp, Repository, look, parents_named
from handoff.git.plumbing.queue import hold, turn, unlink
from handoff.git.plumbing.refs import Head, current, fix, move

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_EMPTY_BLOBS = (b"e69de29bb2d1d643", b"473a0f4c3be8a936")  # of both kinds of repositories


class NotOwned(UserError):
    """A path is outside the session's ownership: a guard's refusal, with the exit code scripts know."""


class CommitOptions(Record):
    """How to commit. Everything has git's usual meaning unless said here."""

    staged: bool = False
    amend: bool = False
    signoff: bool = False
    trailers: tuple[str, ...] = ()
    allow_empty: bool = False
    verify: bool = True
    sign: str | None = None
    unsigned: bool = False
    force: bool = False
    look_around: bool = False  # compare with what is staged: moved files are taken whole, partly staged ones are told
    refresh: bool = True
    session: str = ""
    owned: Callable[[bytes], bool] | None = None
    lock: str = ""
    patience: float | None = None  # seconds to wait in line; None is as long as it takes
    index_patience: float = PATIENCE_SECONDS  # seconds to wait for another git's index.lock


class Draft(Record):
    """A commit that only waits for its turn."""

    base: Head
    tree: str
    before: dict[bytes, Entry | None]
    work: PathContents
    carried: dict[bytes, Entry | None]
    parents: tuple[str, ...]
    who: People
    message: str
    kind: str
    notes: tuple[str, ...]
    time: float


def prepare(
    repo: Repository, named: Sequence[bytes], message: Sequence[str], options: CommitOptions, now: float
) -> Draft:
    """Read the paths, run the hooks, write the words. Nothing but unreachable objects is left behind if this fails."""
    repo.forget()
    base = current(repo)
    tree = repo.load(base.commit, named) if base.commit else ""
    paths, left_out = _paths(repo, named, tree, options)
    old = repo.read(base.commit) if options.amend and base.commit else b""
    if options.amend:
        refuse_foreign_amend(repo, base, old, session=options.session, owned=options.owned)
    work = _staged(repo, paths) if options.staged else take(repo, paths, tree)
    before = {path: _before(repo, tree, path) for path in work.entries}
    notes = (
        _look_around(repo, tree, work, before, options) if options.look_around and tree and not options.staged else ()
    )
    if left_out:
        notes = (*notes, f"Left out, because not yours: {_list(left_out)}.")
    _check_paths(repo, work, before, options)
    ending = None if options.amend else conclusion(repo, base, work.entries)
    who = people(repo, now)
    author = author_of(old) if old else ending.author if ending else ""
    who = who._replace(author=author) if author else who
    words = _words(repo, message, options, who, old, ending)
    draft = Draft(
        base=base,
        tree=tree,
        before=before,
        work=work,
        carried=ending.carried if ending else {},
        parents=_parents(base, old, ending),
        who=who,
        message=words,
        kind="amend" if options.amend else ending.kind if ending else "" if base.commit else "initial",
        notes=notes,
        time=now,
    )
    return _through_hooks(repo, draft, options, given=bool(message))


def _paths(
    repo: Repository, named: Sequence[bytes], tree: str, options: CommitOptions
) -> tuple[list[bytes], list[bytes]]:
    """Folders opened, also those that only HEAD still has; of a folder only what is owned, the rest comes second."""
    top = os.fsencode(repo.top)
    single: list[bytes] = []
    folders: list[bytes] = []
    for path in named:
        gone_folder = not path.endswith(b"/") and is_tree(repo.look_up(tree, path))
        if path.endswith(b"/"):
            folders.append(path)
        elif gone_folder and look(os.path.join(top, path)) is None:
            folders.append(path + b"/")
        else:
            single.append(path)
    if not folders:
        return single, []
    found = _staged_below(repo, folders, tree) if options.staged else expand(repo, folders)
    found = [path for path in found if path not in single]
    foreign = [path for path in found if options.owned is not None and not options.owned(path)]
    ours = single + [path for path in found if path not in set(foreign)]
    if not ours:
        raise UserError(
            f"Not yours: {_list(foreign)}." if foreign else "Nothing to commit: nothing changed in the named folders.",
            "See what changed: git status",
        )
    return ours, foreign


def _staged_below(repo: Repository, folders: Sequence[bytes], tree: str) -> list[bytes]:
    specs = [os.fsdecode(path.rstrip(b"/")) or "." for path in folders]
    if not tree:
        out = repo.ask_bytes("ls-files", "-z", "--", *specs)
    else:
        out = repo.ask_bytes("diff", "--cached", "--name-only", "--no-renames", "-z", "--", *specs)
    return [path for path in out.split(b"\0") if path]


def _staged(repo: Repository, paths: Sequence[bytes]) -> PathContents:
    """What the shared index holds for the paths: parts staged by hand stay parts."""
    entries: dict[bytes, Entry | None] = dict.fromkeys(paths)
    for path, stage, entry in repo.staged(paths) if paths else ():
        if path in entries and stage != "0":
            raise UserError(f"'{os.fsdecode(path)}' still has a conflict.", "Resolve it and git add it first.")
        if path in entries:
            entries[path] = entry
    return PathContents(entries, dict.fromkeys(paths))


def _before(repo: Repository, tree: str, path: bytes) -> Entry | None:
    """The file the last commit has there; None for none, and for a folder."""
    entry = repo.look_up(tree, path)
    return None if is_tree(entry) else entry


def _look_around(
    repo: Repository, tree: str, work: PathContents, before: dict[bytes, Entry | None], options: CommitOptions
) -> tuple[str, ...]:
    """After `git mv` the new name brings the old one along; a file staged in part is committed whole, and that is told."""
    fields = iter(repo.ask_bytes("diff-index", "--cached", "-M", "-z", "--raw", "--no-abbrev", "HEAD").split(b"\0"))
    top = os.fsencode(repo.top)
    parts: list[bytes] = []
    moved: list[bytes] = []
    for facts in fields:
        if not facts:
            break
        words = facts.split(b" ")
        path = next(fields)
        if words[4].startswith((b"R", b"C")):
            source, path = path, next(fields)
            gone = words[4].startswith(b"R") and look(os.path.join(top, source)) is None
            if path in work.entries and source not in work.entries and gone and _is_move(words, source, options):
                work.entries[source] = work.seen[source] = None
                before[source] = _before(repo, tree, source)
                moved.append(source)
        entry = work.entries.get(path)
        if entry is not None and words[4] != b"U" and words[3].decode() != entry.sha:
            parts.append(path)
    notes = [f"{_list(moved)} was moved and is taken along."] if moved else []
    if parts:
        notes.append(
            f"{_list(parts)} was staged in part and is committed as on the disk; --staged takes only that part."
        )
    return tuple(notes)


def _is_move(words: Sequence[bytes], source: bytes, options: CommitOptions) -> bool:
    """Whether a deletion belongs to our new file: by ownership, else only if the content is the same and not empty.

    Somebody else may have staged the deletion of a file that merely resembles ours.
    """
    if options.owned is not None:
        return options.owned(source)
    return words[4] == b"R100" and not words[3].startswith(_EMPTY_BLOBS)


def _check_paths(
    repo: Repository, work: PathContents, before: dict[bytes, Entry | None], options: CommitOptions
) -> None:
    """Nothing unknown, nothing ignored, nothing of somebody else's."""
    unknown = [path for path, entry in work.entries.items() if entry is None and before[path] is None]
    if unknown and options.staged:
        raise UserError(f"Nothing is staged for {_list(unknown)}.", "Stage it first: git add -p -- PATH")
    if unknown:
        raise UserError(
            f"{_list(unknown)}: no such file, neither on the disk nor in the last commit.",
            "Names are taken literally; let the shell expand patterns, without quotes.",
        )
    if options.owned is not None:
        foreign = [path for path in work.entries if not options.owned(path)]
        if foreign:
            raise NotOwned(
                f"Not yours: {_list(foreign)}.", "Commit only what you own, or ask for the path; nothing was changed."
            )
    gone = [path for path, entry in work.entries.items() if entry is None]
    if gone and not options.staged and repo.settings.yes("core.sparsecheckout"):
        hidden = [line[2:] for line in repo.listed(gone, "-t") if line.startswith(b"S ")]
        if hidden:
            raise UserError(
                f"{_list(hidden)} is outside the sparse checkout, not deleted.", "To delete it, take it in first."
            )
    new = [path for path, entry in work.entries.items() if entry is not None and before[path] is None]
    if new and not options.force and not options.staged:
        hidden = ignored_paths(repo, new)
        if hidden:
            raise UserError(f"git ignores {_list(hidden)}.", "Leave it out, or commit it with --force.")


def _list(paths: Sequence[bytes], limit: int = 5) -> str:
    shown = ", ".join(f"'{os.fsdecode(path)}'" for path in paths[:limit])
    return shown + (f" and {len(paths) - limit} more" if len(paths) > limit else "")


def _parents(base: Head, old: bytes, ending: Conclusion | None) -> tuple[str, ...]:
    if old:
        return tuple(parents_named(old))
    return (*((base.commit,) if base.commit else ()), *(ending.parents if ending else ()))


def _words(
    repo: Repository, message: Sequence[str], options: CommitOptions, who: People, old: bytes, ending: Conclusion | None
) -> str:
    parts = list(message)
    if not parts:
        parts = [words_of(old)] if old else [ending.message] if ending else []
    text = write_message(repo, parts, signoff=who.committer if options.signoff else "", trailers=options.trailers)
    check_message(text)
    return text


# --- hooks ----------------------------------------------------------------------------------------


def _through_hooks(repo: Repository, draft: Draft, options: CommitOptions, *, given: bool) -> Draft:
    wanted = [name for name in hooks.BEFORE if hooks.find(repo, name)]
    if not options.verify:
        wanted = [name for name in wanted if name == "prepare-commit-msg"]
    if not wanted:
        return draft
    key = f"{os.getpid()}-{os.urandom(4).hex()}"
    index, _ = copy(repo, f"index-{key}")
    expected = os.path.join(place(repo), f"expected-{key}")
    words = os.path.join(place(repo), f"message-{key}")
    try:
        return _run_hooks(repo, draft, options, wanted, (index, expected, words), given=given)
    finally:
        for path in (index, expected, words):
            unlink(path)


def _run_hooks(
    repo: Repository,
    draft: Draft,
    options: CommitOptions,
    wanted: Sequence[str],
    files: tuple[str, str, str],
    *,
    given: bool,
) -> Draft:
    index, expected, words = files
    changes = {**draft.carried, **draft.work.entries}
    repo.ask(*(("read-tree", "--reset", draft.tree) if draft.tree else ("read-tree", "--empty")), index=index)
    repo.ask("update-index", "-z", "--index-info", stdin=index_info(changes, repo.id_bytes), index=index)
    notes = list(draft.notes)
    if "pre-commit" in wanted:
        with open(expected, "wb") as file:
            file.write(b"".join(path + b"\n" for path in sorted(changes)))
        quiet = type(repo)(repo.top, {**repo.environment, "HANDOFF_EXPECTED_FILES": expected})
        notes.append(hooks.call(quiet, "pre-commit", (), index=index))
        draft, more = _autofixes(repo, draft, options, index)
        notes += more
    message = draft.message
    if {"prepare-commit-msg", "commit-msg"} & set(wanted):
        with open(words, "wb") as file:
            file.write(message.encode("utf-8", "surrogateescape"))
        source = ("message",) if given else ("commit", "HEAD") if draft.kind == "amend" else ("merge",)
        for name, more_words in (("prepare-commit-msg", source), ("commit-msg", ())):
            if name in wanted:
                notes.append(hooks.call(repo, name, (words, *more_words), index=index))
        with open(words, "rb") as file:
            message = tidy(repo, file.read().decode("utf-8", "surrogateescape"), edited=True)
        check_message(message)
    return draft._replace(message=message, notes=tuple(filter(None, notes)))


def _autofixes(repo: Repository, draft: Draft, options: CommitOptions, index: str) -> tuple[Draft, list[str]]:
    """What the hook staged: ours is taken, anybody else's is left where it lies."""
    intended = repo.graft(draft.tree, {**draft.carried, **draft.work.entries})
    out = repo.ask_bytes("diff-index", "--cached", "-z", "--no-renames", "--raw", "--no-abbrev", intended, index=index)
    fields = out.split(b"\0")
    entries = dict(draft.work.entries)
    seen = dict(draft.work.seen)
    before = dict(draft.before)
    foreign = []
    for at in range(0, len(fields) - 1, 2):
        _, mode, _, sha, status = fields[at].lstrip(b":").split(b" ")
        path = fields[at + 1]
        if path not in entries and not (options.owned is not None and options.owned(path)):
            foreign.append(path)
            continue
        before.setdefault(path, _before(repo, draft.tree, path))
        entries[path] = None if status == b"D" else Entry(mode.decode(), sha.decode())
        seen[path] = None  # what the hook staged need not be what lies on the disk
    notes = [f"The pre-commit hook also staged {_list(foreign)}: not named, so not committed."] if foreign else []
    return draft._replace(work=PathContents(entries, seen), before=before), notes


def still_true(repo: Repository, draft: Draft, now: Head, tree: str) -> bool:
    """Whether the draft may go on a branch that has moved since: nobody else changed its paths."""
    if now.ref != draft.base.ref:
        raise Conflict("Another branch was checked out meanwhile; nothing was committed.", "Commit again.")
    if draft.kind == "amend":
        raise Conflict(
            "HEAD is no longer the commit you wanted to amend; nothing was changed.", "Make a new commit instead."
        )
    return all(_before(repo, tree, path) == entry for path, entry in draft.before.items())


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
