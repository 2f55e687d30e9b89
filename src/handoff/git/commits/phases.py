"""The commits of a flow: the exact tree of a workspace, a commit on it that comes out the same again, and the way back."""

from __future__ import annotations

import os

from handoff.base.errors import UserError
from handoff.base.files import remove, write_atomic
from handoff.base.record import TYPE_CHECKING
from handoff.git.plumbing import Git, read_text, untrusted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_DIFF = ("--no-ext-diff", "--no-textconv", "--no-color", "--no-renames")


class FlowCheckout(Git):
    """A flow's own checkout and branch. Sessions write there: it is sealed first, and its objects are read by git alone."""

    def __init__(self, tree: str, branch: str, environment: Mapping[str, str]) -> None:
        super().__init__(tree, environment)
        self.tree, self.branch = tree, branch

    @property
    def config(self) -> str:
        """The settings of its own repository."""
        return read_text(os.path.join(self.tree, ".git", "config"))

    def seal(self, config: str) -> None:
        """Put back what a session could have planted for our git to run."""
        untrusted.seal(self.tree, config, self.environment)

    def tree_with(self, tree: str, files: Mapping[str, str | None]) -> str:
        """The same tree with some files written anew or taken out."""
        lines = []
        for path, text in files.items():
            if text is None:
                lines.append(f"0 {'0' * len(tree)}\t{path}\0")
            else:
                sha = self.ask("hash-object", "-w", "--stdin", stdin=text.encode("utf-8", "surrogateescape"))
                lines.append(f"100644 {sha.strip()}\t{path}\0")
        data = "".join(lines).encode("utf-8", "surrogateescape")
        return self._changed_tree(
            tree, lambda index: self.ask("update-index", "-z", "--index-info", stdin=data, index=index)
        )

    def tree_of(self, commit: str) -> str:
        """The tree of a commit."""
        return self.ask("rev-parse", f"{commit}^{{tree}}").strip()

    def _changed_tree(self, tree: str, change: Callable[[str], object]) -> str:
        """A tree after a change to an index that holds it; the session's own index is not touched."""
        index = os.path.join(self.tree, ".git", f"handoff-phase.{os.getpid()}.index")
        try:
            self.ask("read-tree", tree, index=index)
            change(index)
            return self.ask("write-tree", index=index).strip()
        finally:
            remove(index)

    def forget(self, tree: str, paths: Sequence[str]) -> None:
        """Take the texts of these files out of the clone: nobody who works here later finds them among its objects."""
        for path in paths:
            sha = self.git("rev-parse", "-q", "--verify", f"{tree}:{path}").text.strip()
            if sha:
                remove(os.path.join(self.tree, ".git", "objects", sha[:2], sha[2:]))

    def tree_from(self, tree: str, other: str, paths: Sequence[str]) -> str:
        """The same tree with these paths as the other one has them."""
        return self.tree_with(tree, {path: self.read(other, path) for path in paths})

    def read(self, tree: str, path: str) -> str | None:
        """A file of a tree or commit as text; None where it has none."""
        done = self.git("cat-file", "blob", f"{tree}:{path}")
        return done.text if done.code == 0 else None

    def paths(self, tree: str) -> tuple[str, ...]:
        """Every file of a tree or commit."""
        return tuple(path for path in self.ask("ls-tree", "-r", "-z", "--name-only", tree).split("\0") if path)

    def changed(self, old: str, new: str) -> tuple[str, ...]:
        """Paths that differ between two trees or commits."""
        text = self.ask("diff-tree", "-r", "-z", "--name-only", "--no-renames", old, new)
        return tuple(path for path in text.split("\0") if path)

    def diff(self, old: str, new: str, *, limit: int = 12_000, without: str = "") -> str:
        """What changed between two trees, but for one file, cut where it gets too long for a prompt; the summary is always whole."""
        where = (".", f":(exclude,top,literal){without}") if without else ()
        summary = self.stat(old, new, *where)
        text = self.ask("diff", *_DIFF, old, new, "--", *where)
        if len(text) > limit:
            text = (
                text[:limit].rpartition("\n")[0] + f"\n(cut: {len(text)} characters in all; see git diff {old[:10]})\n"
            )
        return f"{summary}\n\n{text}".strip() if text else ""

    def stat(self, old: str, new: str, *where: str) -> str:
        """How many lines of which files changed between two trees."""
        return self.ask("diff", "--stat=100", *_DIFF, old, new, "--", *where).rstrip()

    def log(self, base: str, head: str, *, limit: int = 200) -> str:
        """The commits of the flow, oldest first, one line each."""
        return self.ask("log", "--reverse", "--format=%h %s", f"--max-count={limit}", f"{base}..{head}", "--").rstrip()

    def commit(self, *, tree: str, parent: str, message: str, moment: int) -> str:
        """A commit of that tree. The same values give the same commit: after a crash it is made again, not a second one."""
        dates = {"GIT_AUTHOR_DATE": f"{moment} +0000", "GIT_COMMITTER_DATE": f"{moment} +0000"}
        return self.ask("commit-tree", tree, "-p", parent, "-F", "-", stdin=message.encode(), **dates).strip()

    def arrive(self, commit: str) -> None:
        """The branch, the index and the files are what that commit says; files git ignores stay."""
        place = os.path.join(self.tree, ".git", "HEAD")
        wanted = f"ref: {self.branch}\n"
        if read_text(place) != wanted:  # the session checked something else out
            write_atomic(place, wanted)
        self.ask("reset", "-q", "--hard", commit)
        self.ask("clean", "-ffdq")

    def is_at(self, commit: str) -> bool:
        """Whether nothing but ignored files differs from that commit."""
        state = self.ask(
            "status", "--porcelain=v2", "--branch", "--untracked-files=normal", "--ignore-submodules=dirty", "-z"
        )
        lines = [line for line in state.split("\0") if line]
        clean = all(line.startswith("# ") for line in lines)
        return clean and f"# branch.oid {commit}" in lines and f"# branch.head {self.branch[11:]}" in lines


def publish(repository: str, flow_checkout: FlowCheckout, environment: Mapping[str, str]) -> bool:
    """Bring a flow's branch into the person's repository, so that nothing depends on the workspace; no checkout is touched.

    False when the branch is checked out there: it is kept under refs/handoff/flows/ then, because moving it would change
    somebody's checkout.
    """
    words = ("fetch", "-q", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--no-recurse-submodules")
    name = flow_checkout.branch.rpartition("/")[2]
    for target in (flow_checkout.branch, f"refs/handoff/flows/{name}"):
        done = Git(repository, environment).git(*words, flow_checkout.tree, f"+{flow_checkout.branch}:{target}")
        if done.code == 0:
            return target == flow_checkout.branch
    raise UserError(f"The branch {name} could not be brought into {repository}: {done.error_text}")
