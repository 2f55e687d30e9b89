"""Saving work in git: the safe commit with roles and ownership, and a snapshot before anything that destroys."""

from __future__ import annotations

import os

from handoff.base.errors import HandoffError
from handoff.base.record import TYPE_CHECKING
from handoff.git.commits.commit import CommitOptions, Landed, NotOwned, Repository, commit
from handoff.git.plumbing import find_top, no_checkout

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from handoff.engine.app import App

SUB_TASK = "sub-task"


class NotInThisRole(HandoffError):
    """The session's role may not do this here; the code is the one the git guard uses."""

    exit_code = 99


def safe_commit(
    app: App,
    *,
    paths: Sequence[str],
    message: Sequence[str],
    options: CommitOptions,
    owns: Sequence[str] = (),
    cwd: str = "",
) -> Landed:
    """Commit the named paths of the checkout around `cwd`, if role and ownership allow."""
    settings = app.settings
    cwd = cwd or os.getcwd()
    top = find_top(cwd)
    if top is None:
        raise no_checkout(cwd)
    refuse_by_role(app, top)
    repo = Repository(top, app.git_environment)
    limit, wait = settings.get("HANDOFF_SAFE_COMMIT_RETRY_LIMIT"), settings.get("HANDOFF_SAFE_COMMIT_RETRY_WAIT")
    patience = _number(limit, 5) * _number(wait, 10) if limit or wait else None
    options = options._replace(
        session=settings.get("HANDOFF_SESSION"),
        owned=ownership(app, owns, repo),
        lock=os.path.expanduser(settings.get("HANDOFF_SAFE_COMMIT_LOCK")),
        patience=patience,
    )
    app.tell(f"Committing {len(paths)} {'path' if len(paths) == 1 else 'paths'}", 0, 0)
    try:
        return commit(
            repo, paths, message, environment=app.git_environment, now=app.clock.now(), cwd=cwd, options=options
        )
    except NotOwned as error:
        words = f"safe-commit {' '.join(paths[:5])}: {error.message}"
        note_refused(app, verb=words, place=top, layer="safe-commit", instead=error.hint)
        raise


def refuse_by_role(app: App, top: str) -> None:
    """A sub-task commits in its own workspace only."""
    if app.settings.get("HANDOFF_ROLE") != SUB_TASK or own_workspace(app, top):
        return
    instead = "Leave the files as they are and finish the task: the fan-in takes what you own."
    note_refused(app, verb="safe-commit", place=top, layer="safe-commit", instead=instead)
    raise NotInThisRole(f"A sub-task does not commit in the shared checkout {top}; nothing was changed.", instead)


def note_refused(app: App, *, verb: str, place: str, layer: str, instead: str) -> None:
    """Write a refusal down for the next command that has time to tell it."""
    from handoff.base.clock import stamp
    from handoff.git.guard import Refusal, note_refusal

    get = app.settings.get
    note_refusal(
        app.settings.home,
        Refusal(
            moment=stamp(app.clock.now()),
            role=get("HANDOFF_ROLE"),
            verb=verb,
            place=place,
            session=get("HANDOFF_SESSION"),
            project=get("HANDOFF_PROJECT"),
            layer=layer,
            instead=instead,
        ),
    )


def own_workspace(app: App, top: str) -> bool:
    """Whether the checkout is the session's own: a worktree, or a clone with objects of its own."""
    place = app.settings.get("HANDOFF_WORKSPACE")
    if not place or os.path.realpath(place) != os.path.realpath(top):
        return False
    git = os.path.join(top, ".git")
    return os.path.isfile(git) or os.path.exists(os.path.join(git, "objects", "info", "alternates"))


def ownership(app: App, owns: Sequence[str], repo: Repository | None = None) -> Callable[[bytes], bool] | None:
    """What the session may commit: patterns given, or HANDOFF_OWNS (one on a line, or a file of them); None is everything.

    On a disk where twins are one file, git's settings of the repository say so.
    """
    patterns = list(owns)
    given = app.settings.get("HANDOFF_OWNS")
    if not patterns and given:
        if os.path.isabs(given):
            from handoff.base.files import read_bytes

            given = os.fsdecode(read_bytes(given))
        patterns = [line for line in given.split("\n") if line.strip()]
    if not patterns:
        return None
    from handoff.git.ownership import Ownership

    twins, forms = (
        (False, False)
        if repo is None
        else (repo.settings.yes("core.ignorecase"), repo.settings.yes("core.precomposeunicode"))
    )
    return Ownership.parse(patterns, ignore_case=twins, ignore_form=forms).covers


def _number(text: str, default: float) -> float:
    try:
        return max(0.0, float(text)) if text else default
    except ValueError:
        return default
