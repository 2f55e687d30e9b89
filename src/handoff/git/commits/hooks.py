"""The person's own hooks, run against the private index, so that they judge what will be committed and nothing else."""

from __future__ import annotations

import os

from handoff.base.errors import UserError
from handoff.base.process import run
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from handoff.git.plumbing.objects import Repository

BEFORE = ("pre-commit", "prepare-commit-msg", "commit-msg")
AFTER = ("post-commit", "post-rewrite")
WATCHING = "reference-transaction"
# A hook that carries this line and chains to nobody is our own guard's: it has nothing to say about a safe commit.
GUARD_MARK = b"# handoff git-guard hook"
CHAIN = "handoff-chained"


class HookFailed(UserError):
    """A hook said no."""


def folder(repo: Repository) -> str:
    """Where git looks for hooks."""
    chosen = repo.settings.get("core.hookspath")
    if chosen:
        return os.path.join(repo.top, os.path.expanduser(chosen))
    return os.path.join(repo.common, "hooks")


def find(repo: Repository, name: str) -> str:
    """The hook's file if git would run it and it is the person's; else empty."""
    place = os.path.join(folder(repo), name)
    if not os.access(place, os.X_OK) or os.path.isdir(place):
        return ""
    if is_guard(place):
        chained = os.path.join(folder(repo), CHAIN, name)
        return chained if os.access(chained, os.X_OK) else ""
    return place


def is_guard(place: str) -> bool:
    """Whether a hook file is the guard's."""
    try:
        with open(place, "rb") as file:
            return GUARD_MARK in file.read(400)
    except OSError:
        return False


def call(repo: Repository, name: str, words: Sequence[str], *, index: str = "", stdin: bytes | None = None) -> str:
    """Run one hook if it is there; its words are returned without the last line end, a refusal is an error."""
    hook = find(repo, name)
    if not hook:
        return ""
    environment = {key: value for key, value in repo.environment.items() if key != "GIT_OPTIONAL_LOCKS"}
    environment.update(GIT_EDITOR=":", GIT_PREFIX="", HANDOFF_SAFE_COMMIT="1")
    if index:
        environment["GIT_INDEX_FILE"] = index
    if repo.folder != repo.common or os.path.isfile(os.path.join(repo.top, ".git")):
        environment.update(GIT_DIR=repo.folder)
    try:
        done = run([hook, *words], environment=environment, cwd=repo.top, stdin=stdin, merge=True)
    except UserError as error:
        # A script without its first line: git starts it with the shell.
        if "format" not in error.message.lower():
            raise
        done = run(["/bin/sh", hook, *words], environment=environment, cwd=repo.top, stdin=stdin, merge=True)
    text = done.out.decode("utf-8", "replace").rstrip()
    if done.code:
        raise HookFailed(
            f"The {name} hook refused (exit {done.code}); nothing was committed.\n{text}".rstrip(),
            f"Fix what it names and commit again; the hook is {hook}.",
        )
    return text
