"""A project without a test suite: a planner proposes one, and it is made here."""

from __future__ import annotations

import os

from handoff.base.process import find
from handoff.base.record import TYPE_CHECKING, Record
from handoff.checks.frameworks import STARTERS, read_proposal, starter_files, starter_suites

if TYPE_CHECKING:
    from handoff.checks.suite import Suite
    from handoff.engine.app import App
    from handoff.git.commits.phases import FlowCheckout

NO_SUITE = "no-suite"


class FirstSuite(Record):
    """The tree with the files of the new suite, and the suite itself; or why there is none."""

    tree: str
    suites: tuple[Suite, ...] = ()
    refused: str = ""


def make_suite(
    app: App, *, checkout: FlowCheckout, tree: str, text: str, repository: str, list_name: str
) -> FirstSuite:
    """The suite the list of tests asks for, in the tree; where it names none that can be made here, that."""
    name, known = read_proposal(text), possible_suites(app)
    if name not in known:
        said = f"'{name}' cannot be made here" if name else "The project has no test suite yet, and none is proposed"
        words = f"{said}. Add a line `suite: NAME` to {list_name}; NAME is one of {', '.join(known)}."
        return FirstSuite(tree, refused=words)
    files = starter_files(name, project=os.path.basename(repository), read=lambda path: checkout.read(tree, path))
    return FirstSuite(checkout.tree_with(tree, dict(files)), starter_suites(name, files))


def possible_suites(app: App) -> list[str]:
    """The suites whose program is on this machine."""
    return [name for name, one in STARTERS.items() if find(one.program, path=app.settings.path) is not None]


def ask_for_suite(app: App, list_name: str) -> str:
    """What a planner is told about it."""
    return (
        f"There is no test suite yet. Choose one: write a line `suite: NAME` into `{list_name}`,"
        f" NAME one of {', '.join(f'`{name}`' for name in possible_suites(app))}. It is made for you."
    )
