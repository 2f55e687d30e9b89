"""Ask git about a checkout: what HEAD is, what is dirty, what changed since."""

from __future__ import annotations

import os
import stat

from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.git.plumbing import Git, open_source, read_plain

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from handoff.base.process import Completed

_COUNTED_FILES = 200
_COUNTED_BYTES = 20_000_000


class CheckoutFacts(Record):
    """The state of one checkout at one moment. Paths are relative to its top."""

    top: str
    head: str
    branch: str
    staged: tuple[str, ...] = ()
    unstaged: tuple[str, ...] = ()
    untracked: tuple[str, ...] = ()
    conflicted: tuple[str, ...] = ()

    @property
    def dirty(self) -> tuple[str, ...]:
        """Every path that differs from HEAD, each once, in git's order."""
        return tuple(dict.fromkeys((*self.conflicted, *self.staged, *self.unstaged, *self.untracked)))

    @property
    def short(self) -> str:
        return self.head[:10]


class Commit(Record):
    """One commit as a line of a list."""

    sha: str
    time: float
    subject: str


def git(top: str, *words: str, environment: Mapping[str, str]) -> Completed:
    """One git question in the checkout at `top`; of a session's clone only objects and index are believed."""
    if os.path.basename(top) == "tree":
        from handoff.git.plumbing import untrusted

        answer = untrusted.git(top, *words, environment=environment) if untrusted.is_clone(top) else None
        if answer is not None:
            return answer
    return Git(top, environment, ()).git(*words)


def begin(top: str, *words: str, environment: Mapping[str, str]) -> Callable[[], Completed]:
    """The same question, asked while we go on with something else; the function that comes back waits for the answer."""
    if os.path.basename(top) == "tree":
        answer = git(top, *words, environment=environment)
        return lambda: answer
    return Git(top, environment, ()).begin(*words)


def facts(top: str, *, environment: Mapping[str, str]) -> CheckoutFacts | None:
    """Read HEAD, branch and dirty paths in one git call; None where git cannot (no repository, no git)."""
    return begin_facts(top, environment=environment)()


def begin_facts(top: str, *, environment: Mapping[str, str]) -> Callable[[], CheckoutFacts | None]:
    """The same, asked while we go on with something else."""
    words = ("status", "--porcelain=v2", "--branch", "--untracked-files=normal", "-z")
    try:
        wait = begin(top, *words, environment=environment)
    except UserError:
        return lambda: None

    def answer() -> CheckoutFacts | None:
        done = wait()
        if done.code:
            return None
        found = _parse_status(top, done.text)
        return found if found.branch else found._replace(branch=_branch(top))

    return answer


def _branch(top: str) -> str:
    """The branch HEAD names in its own file: a clone is looked at without its refs."""
    from handoff.git.plumbing.refs import head

    return head(open_source(top)).branch


def _parse_status(top: str, text: str) -> CheckoutFacts:
    head = branch = ""
    staged: list[str] = []
    unstaged: list[str] = []
    untracked: list[str] = []
    conflicted: list[str] = []
    parts = iter(text.split("\0"))
    for part in parts:
        kind = part[:2]
        if part.startswith("# branch.oid "):
            head = "" if part.endswith("(initial)") else part[13:]
        elif part.startswith("# branch.head "):
            branch = "" if part.endswith("(detached)") else part[14:]
        elif kind == "? ":
            untracked.append(part[2:])
        elif kind == "u ":
            conflicted.append(part.split(" ", 10)[10])
        elif kind in ("1 ", "2 "):
            fields = part.split(" ", 8 if kind == "1 " else 9)
            path = fields[-1]
            if kind == "2 ":
                next(parts, None)  # the name before the rename
            if fields[1][0] != ".":
                staged.append(path)
            if fields[1][1] != ".":
                unstaged.append(path)
    return CheckoutFacts(
        top=top,
        head=head,
        branch=branch,
        staged=tuple(staged),
        unstaged=tuple(unstaged),
        untracked=tuple(untracked),
        conflicted=tuple(conflicted),
    )


def commits(top: str, revisions: str, *, environment: Mapping[str, str], limit: int = 20) -> tuple[Commit, ...] | None:
    """The commits a range names, newest first; None when git does not know the range, or is not there."""
    return begin_commits(top, revisions, environment=environment, limit=limit)()


def begin_commits(
    top: str, revisions: str, *, environment: Mapping[str, str], limit: int = 20
) -> Callable[[], tuple[Commit, ...] | None]:
    """The same, asked while we go on with something else."""
    words = ("log", f"--max-count={limit}", "-z", "--no-show-signature", "--format=%H %ct %s", revisions, "--")
    try:
        wait = begin(top, *words, environment=environment)
    except UserError:
        return lambda: None

    def answer() -> tuple[Commit, ...] | None:
        done = wait()
        if done.code:
            return None
        found = []
        for line in done.text.split("\0"):
            sha, _, rest = line.partition(" ")
            moment, _, subject = rest.partition(" ")
            if moment:
                found.append(Commit(sha, float(moment), subject))
        return tuple(found)

    return answer


def count(top: str, revisions: str, *, environment: Mapping[str, str]) -> int | None:
    """How many commits a range has."""
    answer = git(top, "rev-list", "--count", revisions, "--", environment=environment)
    return int(answer.text) if answer.code == 0 else None


def changed_paths(top: str, old: str, new: str, *, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Paths that differ between two commits."""
    answer = git(top, "diff", "--name-only", "-z", "--no-renames", old, new, "--", environment=environment)
    return tuple(path for path in answer.text.split("\0") if path) if answer.code == 0 else ()


def begin_line_counts(facts: CheckoutFacts, *, environment: Mapping[str, str]) -> Callable[[], dict[str, str]]:
    """How much of each uncommitted path was changed, as `+3 -1`; what is new is counted by its lines.

    Asked while we go on with something else. Nothing is counted where that would take long.
    """
    if not facts.dirty or not _is_soon_read(facts):
        return dict
    wait = None
    if facts.head and (facts.staged or facts.unstaged or facts.conflicted):
        words = ("diff", "--numstat", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", "HEAD", "--")
        wait = begin(facts.top, *words, environment=environment)

    def answer() -> dict[str, str]:
        found = {path: _new_lines(os.path.join(facts.top, path)) for path in facts.untracked}
        done = wait() if wait is not None else None
        for line in done.text.split("\0") if done is not None and done.code == 0 else ():
            more, _, rest = line.partition("\t")
            less, _, path = rest.partition("\t")
            if path:
                found[path] = "binary" if more == "-" else f"+{more} -{less}"
        return found

    return answer


def begin_diff(facts: CheckoutFacts, *, environment: Mapping[str, str]) -> Callable[[], str] | None:
    """What differs from HEAD in the files git knows, asked while we go on; None where nothing does, or it would take long."""
    if not facts.head or not (facts.staged or facts.unstaged or facts.conflicted) or not _is_soon_read(facts):
        return None
    words = ("diff", "--no-color", "--no-ext-diff", "--no-textconv", "HEAD", "--")
    wait = begin(facts.top, *words, environment=environment)

    def answer() -> str:
        done = wait()
        return done.text.rstrip() if done.code == 0 else ""

    return answer


def _is_soon_read(facts: CheckoutFacts) -> bool:
    if len(facts.dirty) > _COUNTED_FILES:
        return False
    size = 0
    for path in facts.dirty:
        try:
            info = os.lstat(os.path.join(facts.top, path))
        except OSError:
            continue
        size += info.st_size if stat.S_ISREG(info.st_mode) else 0
    return size <= _COUNTED_BYTES


def _new_lines(path: str) -> str:
    if path.endswith("/") or os.path.islink(path):
        return ""
    data = read_plain(path)
    return "binary" if b"\0" in data else f"+{len(data.splitlines())}"


def git_path(top: str, name: str, *, environment: Mapping[str, str]) -> str:
    """Where git keeps one of its own files, also in worktrees and submodules."""
    return os.path.join(top, Git(top, environment, ()).ask("rev-parse", "--git-path", name).rstrip("\n"))
