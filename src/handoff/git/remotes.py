"""The repository that all machines share: what it has, fetching from it into a mirror, pushing to it under a lease."""

from __future__ import annotations

import os

from handoff.base.errors import Away, Conflict, Refused, UserError
from handoff.base.files import make_folder, remove_tree
from handoff.base.record import TYPE_CHECKING, Record
from handoff.git.plumbing import QUIET, Git

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from handoff.base.process import Completed

_SECONDS = 120.0
_STALE = ("stale info", "cannot lock ref", "failed to update ref", "fetch first", "reference already exists")
# No hook of anybody's runs for what the coordinator fetches and pushes, and no address can name a program.
_SAFE = (*QUIET, "protocol.ext.allow=never")
_OURS = ("user.name=handoff", "user.email=handoff@localhost")
WIP = "Handoff-Wip"
BRANCHES, PUBLISHED, BASES = "refs/heads/handoff/", "refs/handoff/task/", "refs/handoff/base/"
"""What we have there: the branch of a task, its work by fence and machine, and commits that tasks begin at."""
_HEAD = "refs/handoff/head"
_AT_ONCE = 200
_PLAIN_DIFF = ("--no-renames", "--no-ext-diff", "--no-textconv", "--no-color")
_TAKEN = " +-*="


class BranchMoved(Conflict):
    """Somebody else has pushed to the branch since it was last seen."""


class Remote(Record):
    """A shared repository, and the environment of the person who may reach it."""

    address: str
    shown: str
    environment: Mapping[str, str]

    def refs(self, *patterns: str) -> dict[str, str]:
        """What the repository has under these names."""
        answer = self._talk("ls-remote", "-q", self.address, *patterns)
        pairs = (line.split("\t", 1) for line in answer.text.splitlines() if "\t" in line)
        return {name: sha for sha, name in pairs}

    def fetch(self, mirror: str, *patterns: str) -> dict[str, str]:
        """Bring what the patterns stand for into the bare repository `mirror`; the names with their commits."""
        wanted = [pattern for pattern in patterns if not pattern.startswith("^")]
        specs = [pattern if pattern.startswith("^") else f"+{pattern}:{pattern}" for pattern in patterns]
        self._fetch(mirror, "--prune", *specs)
        folders = [pattern.rstrip("*").rstrip("/") for pattern in wanted]
        lines = self._git(mirror).ask("for-each-ref", "--format=%(refname) %(objectname)", *folders)
        return dict(line.split(" ", 1) for line in lines.splitlines())

    def _fetch(self, mirror: str, *words: str) -> None:
        """Tags are nobody's work: asked for, every one of them would be told each time."""
        self._make_mirror(mirror)
        options = [word for word in words if word.startswith("--")]
        specs = [word for word in words if not word.startswith("--")]
        self._talk("fetch", "-q", "--no-auto-gc", "--no-tags", *options, self.address, *specs, folder=mirror)

    def _make_mirror(self, mirror: str) -> None:
        """Whole at once, if there is none: several sessions may begin in the same moment, and the first of them has made it."""
        if os.path.isfile(os.path.join(mirror, "HEAD")):
            return
        make_folder(os.path.dirname(mirror), mode=0o700)
        made = f"{mirror}.{os.urandom(6).hex()}"
        self._git().ask("init", "-q", "--bare", made)
        try:
            os.rename(made, mirror)
        except OSError:
            remove_tree(made)
            if not os.path.isfile(os.path.join(mirror, "HEAD")):
                raise

    def history(self, mirror: str) -> set[str]:
        """Every commit of the branch that the repository shows first; none where it has no such branch."""
        if "HEAD" not in self.refs("HEAD"):
            return set()
        self._fetch(mirror, f"+HEAD:{_HEAD}")
        return set(self._git(mirror).ask("rev-list", _HEAD).split())

    def contained(self, mirror: str, branches: Mapping[str, str]) -> set[str]:
        """The branches, still at these commits, of which all that they changed stands in that branch, as after a squash or a rebase."""
        if not branches:
            return set()
        self._fetch(mirror, *(f"+{name}:{name}" for name in sorted(branches)))
        return {name for name, tip in branches.items() if self._has_all_of(mirror, tip)}

    def _has_all_of(self, mirror: str, tip: str) -> bool:
        """Whether joining it would change nothing, or a commit there has made the very same change."""
        git = self._git(mirror)
        joined = git.git("merge-tree", "--write-tree", "--no-messages", _HEAD, tip)
        if not joined.code and joined.text == git.ask("rev-parse", f"{_HEAD}^{{tree}}"):
            return True
        base = git.git("merge-base", _HEAD, tip)
        if base.code:
            return False
        began = base.text.strip()
        mine = git.ask_bytes("diff", *_PLAIN_DIFF, began, tip)
        if b"\nBinary files " in mine:
            return False  # of these a patch tells nothing
        paths = git.ask("diff", "--name-only", "-z", "--no-renames", began, tip).split("\0")
        named = [f":(top,literal){path}" for path in paths if path]
        theirs = git.ask_bytes("log", "-p", "--format=commit %H", *_PLAIN_DIFF, f"{began}..{_HEAD}", "--", *named)
        wanted, found = (
            {line.split()[0] for line in git.git("patch-id", "--verbatim", stdin=text).text.splitlines()}
            for text in (mine, theirs)
        )
        return bool(wanted) and wanted <= found

    def delete(self, mirror: str, refs: Mapping[str, str]) -> list[str]:
        """Take names away that still are what was seen there; which. In the mirror they go too, its objects stay."""
        gone: list[str] = []
        names = sorted(refs)
        self._make_mirror(mirror)  # git pushes from a repository, also where it only takes names away
        for start in range(0, len(names), _AT_ONCE):
            some = names[start : start + _AT_ONCE]
            leases = [f"--force-with-lease={name}:{refs[name]}" for name in some]
            said = self._push(mirror, *leases, specs=[f":{name}" for name in some])
            gone += [name for name in some if name in said]
        lines = "".join(f"delete {name}\n" for name in gone)
        self._git(mirror).git("update-ref", "--stdin", stdin=lines.encode())
        return gone

    def push_many(self, repository: str, pushes: Sequence[tuple[Mapping[str, str], str, str]]) -> list[bool]:
        """Several tasks' work in one go, each as `push` wants it (targets, branch, expected); which of them went whole."""
        leases = [f"--force-with-lease={branch}:{expected}" for _, branch, expected in pushes]
        specs = [
            f"{'' if name == branch else '+'}{sha}:{name}"
            for targets, branch, _ in pushes
            for name, sha in targets.items()
        ]
        said = self._push(repository, *leases, specs=specs)
        return [said.issuperset(targets) for targets, _, _ in pushes]

    def _push(self, repository: str, *words: str, specs: Sequence[str]) -> set[str]:
        """The names that the repository took; those it refused are another's by now."""
        answer = self._git(repository).git("push", "--porcelain", "--no-verify", *words, self.address, *specs)
        rows = [line.split("\t") for line in answer.text.splitlines() if "\t" in line]
        if answer.code and not rows:
            raise self._away("push to", answer)
        return {row[1].rpartition(":")[2] for row in rows if row[0] in _TAKEN}

    def push(self, repository: str, targets: Mapping[str, str], *, branch: str = "", expected: str = "") -> None:
        """Put commits under names, all or none; `branch` only while it still is what was `expected` (empty: not there)."""
        lease = [f"--force-with-lease={branch}:{expected}"] if branch else []
        specs = [f"{'' if name == branch else '+'}{sha}:{name}" for name, sha in targets.items()]
        words = ("push", "--atomic", "--porcelain", "--no-verify", *lease, self.address, *specs)
        answer = self._git(repository).git(*words)
        said = f"{answer.text}\n{answer.error_text}"
        if answer.code and any(word in said for word in _STALE):
            raise BranchMoved(f"The branch {branch} at {self.shown} was moved by somebody else.")
        if answer.code:
            raise self._away("push to", answer)

    def _talk(self, *words: str, folder: str = "") -> Completed:
        answer = self._git(folder).git(*words)
        if answer.code:
            raise self._away("reach", answer)
        return answer

    def _git(self, folder: str = "") -> Git:
        return Git("", self.environment, _SAFE, folder=folder, seconds=_SECONDS)

    def _away(self, verb: str, answer: Completed) -> Away:
        return Away(
            f"Cannot {verb} the shared repository {self.shown}: {_last(answer).replace(self.address, self.shown)}.",
            "It is tried again; nothing is lost. Check git_remote in config.toml of the home, and that git may reach it.",
        )


class CheckoutStart(Record):
    """What a checkout is made of: a commit, files that were not committed yet, and the work it builds on."""

    branch: str
    commit: str
    unfinished: str = ""
    merged: Sequence[tuple[str, str]] = ()


def start_at(mirror: str, branch: str, tip: str, *, environment: Mapping[str, str]) -> CheckoutStart:
    """Where to go on from a published tip: unfinished work lies on top of its commit, uncommitted as it was."""
    words = Git("", environment, _SAFE, folder=mirror, seconds=_SECONDS).git("log", "-1", "--format=%P%n%B", tip)
    parents, _, message = words.text.partition("\n")
    if f"{WIP}: " in message and parents:
        return CheckoutStart(branch, parents.split()[0], tip)
    return CheckoutStart(branch, tip)


def make_checkout(mirror: str, folder: str, remote: Remote, start: CheckoutStart) -> str:
    """A checkout of its own from the mirror, on its branch, as `start` says; the commit it begins at."""
    made = f"{folder}.new"  # whoever looks there finds the old one or the new one, whole
    make_folder(os.path.dirname(made), mode=0o700)
    _clear(made)
    cloned = Git("", remote.environment, _SAFE, seconds=_SECONDS).git(
        "clone",
        "-q",
        "--no-checkout",
        "--shared",
        mirror,
        made,  # one copy of the history for all checkouts of a machine
    )
    if cloned.code:
        raise UserError(f"git clone failed: {_last(cloned)}.", f"From {mirror}.")
    git = Git(made, remote.environment, (*_SAFE, *_OURS), seconds=_SECONDS)
    git.ask("remote", "set-url", "origin", remote.address)
    git.ask("checkout", "-q", "-B", start.branch, start.commit)
    for name, tip in start.merged:
        merged = git.git("merge", "-q", "--no-edit", "-m", f"Begin with what '{name}' left", tip)
        if merged.code:
            files = git.ask("diff", "--name-only", "--diff-filter=U").strip().replace("\n", ", ")
            raise Refused(
                f"What '{name}' left does not fit together with the rest: {files or _last(merged)}.",
                f"Bring {tip[:10]} and the others together by hand, then: handoff retry TASK",
            )
    if start.unfinished:
        git.ask("read-tree", "--reset", "-u", start.unfinished)
        git.ask("reset", "-q")
    started = git.ask("rev-parse", "HEAD").strip()
    _clear(folder)
    os.rename(made, folder)
    return started


def _clear(folder: str) -> None:
    if os.path.lexists(folder):
        remove_tree(folder)


def _last(answer: Completed) -> str:
    lines = [line for line in answer.error_text.splitlines() if line.strip()]
    found = next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[-1] if lines else "")
    return (found.removeprefix("fatal: ").removeprefix("error: ") or f"exit {answer.code}").rstrip(".")
