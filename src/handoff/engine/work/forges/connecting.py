"""The forge of a checkout, found by its remote, and one look at it at a time on this machine."""

from __future__ import annotations

import os

from handoff.base.errors import UserError
from handoff.base.files import locked, make_folder
from handoff.base.record import TYPE_CHECKING
from handoff.forges import catalog
from handoff.git.plumbing.checkout import git

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from handoff.base.process import Completed
    from handoff.engine.app import App
    from handoff.forges.contract import Forge


def remote_of(app: App, top: str, base: str = "") -> str:
    """The remote of the branch that is asked to take the work in, else the only one, else `origin`."""
    asked = git(top, "config", "--get", f"branch.{base}.remote", environment=app.git_environment).text.strip()
    names = git(top, "remote", environment=app.git_environment).text.split()
    if asked in names:
        return asked
    if len(names) == 1:
        return names[0]
    if "origin" in names:
        return "origin"
    raise UserError(
        "There is no remote to push to." if not names else f"Which remote? There are {', '.join(names)}.",
        "Add one: git remote add origin URL" if not names else f"Say it once: git config branch.{base}.remote NAME",
    )


def address_of(app: App, top: str, base: str = "") -> str:
    """Where the remote of a checkout is."""
    return git(top, "remote", "get-url", remote_of(app, top, base), environment=app.git_environment).text.strip()


def forge_of(app: App, top: str, base: str = "") -> Forge:
    """The forge of a checkout, through the person's own program."""
    return catalog.connect(address_of(app, top, base), folder=top, environment=app.settings.environment)


def run_git(app: App, top: str, *words: str) -> Completed:
    """Git with the person's own ways to their remote, where nothing asks."""
    return catalog.call(["git", *words], folder=top, environment=app.settings.environment)


def alone(app: App, *, patience: float = 0.0) -> AbstractContextManager[None]:
    """One at a time looks at forges on this machine: what one of them finds undone, no other does beside it."""
    folder = os.path.join(app.settings.home, "locks")
    make_folder(folder, mode=0o700)
    return locked(os.path.join(folder, "forges"), what="the forge", patience=patience)
