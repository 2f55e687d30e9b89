"""The pages there are, beside the first: where each stands, what it reads, and with which template it is drawn."""

from __future__ import annotations

from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.surfaces.page.pages import batch, board, diff, feature, figures, flow, journal, session, task, timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from handoff.engine.app import App

NAV = (
    ("/", "Now"),
    ("/board", "Board"),
    ("/journal", "Journal"),
    ("/batches", "Batches"),
    ("/flows", "Flows"),
    ("/timeline", "Timeline"),
    ("/feature", "Feature"),
    ("/agents", "Agents"),
)

KEYS = (
    ("j k", "the next card or line, the one before"),
    ("g G", "the first, the last"),
    ("⏎", "open what is chosen"),
    ("n", "the next that needs you"),
    ("a", "answer what is chosen"),
    ("r", "let it try again"),
    ("t", "take a task over"),
    ("A", "add a task"),
    ("d", "what it has changed"),
    ("c", "copy its command"),
    ("/", "filter or search; esc shows all again"),
    ("+ - ← →", "on the timeline: closer, farther, earlier, later"),
    ("L", "the journal"),
    ("1 … 9", "the pages, in their order above"),
    ("?", "these keys"),
)
"""The keys of the board that a page has too; static/keys.js does what they say."""


class PageQuery(Record):
    """What a request asks for: of which project, by which words of its path and its query."""

    limit: str
    """The project whose things alone may be seen; empty for all."""
    scope: str
    """The project whose lists are shown; empty for all."""
    path: Mapping[str, str]
    query: Mapping[str, str]

    @property
    def project(self) -> str:
        """The project an address names, if this page shows it."""
        named = self.path.get("project", self.scope)
        if self.limit and named != self.limit:
            raise UserError(f"This page is of the project '{self.limit}'.", f"handoff page --project {named}")
        return named

    def word(self, name: str) -> str:
        return self.query.get(name, "")[:200]


class SitePage(Record):
    """One kind of page."""

    path: str
    template: str
    title: str
    read: Callable[[App, PageQuery], Any]


PAGES = (
    SitePage(
        "/board",
        "board.html",
        "Board",
        lambda app, asked: board.read(
            app, project=asked.scope, words=asked.word("q"), state=asked.word("state"), span=asked.word("span")
        ),
    ),
    SitePage(
        "/task/{project}/{label:path}",
        "task.html",
        "Task",
        lambda app, asked: task.read(app, project=asked.project, label=asked.path["label"]),
    ),
    SitePage(
        "/diff/{project}/{label:path}",
        "diff.html",
        "Diff",
        lambda app, asked: diff.read(
            app, project=asked.project, label=asked.path["label"], at=asked.word("at"), view=asked.word("view")
        ),
    ),
    SitePage(
        "/session/{project}/{id}",
        "session.html",
        "Session",
        lambda app, asked: session.read(app, project=asked.project, id=asked.path["id"]),
    ),
    SitePage("/batches", "batches.html", "Batches", lambda app, asked: batch.listing(app, project=asked.scope)),
    SitePage(
        "/batch/{project}/{name}",
        "batch.html",
        "Batch",
        lambda app, asked: batch.read(app, project=asked.project, name=asked.path["name"]),
    ),
    SitePage("/flows", "flows.html", "Flows", lambda app, asked: flow.listing(app, project=asked.scope)),
    SitePage(
        "/flow/{project}/{name}",
        "flow.html",
        "Flow",
        lambda app, asked: flow.read(app, project=asked.project, name=asked.path["name"]),
    ),
    SitePage(
        "/timeline",
        "timeline.html",
        "Timeline",
        lambda app, asked: timeline.read(app, project=asked.scope, span=asked.word("span"), to=asked.word("to")),
    ),
    SitePage("/agents", "agents.html", "Agents", lambda app, asked: figures.read(app, project=asked.scope)),
    SitePage(
        "/feature", "feature.html", "Feature", lambda app, asked: feature.read(app, name=asked.path.get("name", ""))
    ),
    SitePage(
        "/feature/{name}", "feature.html", "Feature", lambda app, asked: feature.read(app, name=asked.path["name"])
    ),
    SitePage(
        "/journal",
        "journal.html",
        "Journal",
        lambda app, asked: journal.read(app, project=asked.scope, words=asked.word("q"), before=asked.word("before")),
    ),
)
