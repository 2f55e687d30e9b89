"""The guard's hooks come with a repository's first open batch and go with its last one; those a person put in stay."""

from __future__ import annotations

import os

from handoff.base.files import remove, write_atomic
from handoff.base.record import TYPE_CHECKING
from handoff.board.tasks import batches
from handoff.engine.app.home import home_config
from handoff.engine.safety import incidents
from handoff.git import guard
from handoff.git.plumbing import find_top
from handoff.git.plumbing.objects import Repository

if TYPE_CHECKING:
    from collections.abc import Iterable

    from handoff.engine.app import App

_MARK = "handoff-guard"


def settle(app: App, folders: Iterable[str]) -> None:
    """Put the hooks of these checkouts' repositories in or take them out, as their open batches want it."""
    repositories = {repo.common: repo for folder in folders for repo in _repository(app, folder)}
    if not repositories:
        return
    places = {batch.workspace for batch in batches.listing(app.database)}
    wanted = {repo.common for folder in places for repo in _repository(app, folder)}
    asked = home_config(app).text("batch_guard") != "no"
    for common, repo in repositories.items():
        mark = os.path.join(common, _MARK)
        if common in wanted and asked:
            if guard.install(repo):
                write_atomic(mark, "The guard's hooks came with a batch and go with the last one.\n")
                incidents.accept(app, folder=repo.top)
        elif common not in wanted and os.path.exists(mark):
            guard.uninstall(repo)
            remove(mark)
            incidents.accept(app, folder=repo.top)


def came_with_a_batch(repo: Repository) -> bool:
    """Whether the hooks are there for a batch alone."""
    return os.path.exists(os.path.join(repo.common, _MARK))


def leave_in(repo: Repository) -> None:
    """The person wants the hooks: they stay when the last batch is over."""
    remove(os.path.join(repo.common, _MARK))


def _repository(app: App, folder: str) -> list[Repository]:
    """The repository of a checkout on this machine that git may write to."""
    top = find_top(folder) if folder and os.path.isdir(folder) else None
    if top is None:
        return []
    repo = Repository(top, app.git_environment)
    return [repo] if os.access(repo.common, os.W_OK) else []
