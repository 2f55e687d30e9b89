"""Feature: its documents, the plan with its ticks, and whether the notes are older than the code."""

from __future__ import annotations

from handoff.base.errors import HandoffError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.engine.features import lifecycle, status
from handoff.feature.plan import plan as plans

if TYPE_CHECKING:
    from handoff.engine.app import App

_LOOKS = {plans.DONE: "done", plans.CURRENT: "running", plans.STUCK: "blocked", plans.DROPPED: "cancelled"}


class FeaturePage(Record):
    """One feature, and the names of all."""

    name: str
    names: tuple[str, ...]
    steps: tuple[tuple[str, str], ...]
    """How each step of the plan stands, and its words."""
    documents: tuple[tuple[str, str, str], ...]
    """Name, readiness and text of each."""
    advice: str
    command: str
    trouble: str

    @property
    def address(self) -> str:
        return self.name or "Feature"


def read(app: App, *, name: str) -> FeaturePage:
    """A feature of the checkout the page was started in; the active one unless another is named."""
    page = FeaturePage(name=name, names=(), steps=(), documents=(), advice="", command="", trouble="")
    try:
        names = tuple(one.name for one in lifecycle.listing(app))
        chosen = app.with_feature(name) if name else app
        if status.is_without_feature(chosen):
            return page._replace(names=names)
        view = status.look(chosen)
        advice = status.advise(view, app.settings.program)
    except HandoffError as error:
        return page._replace(trouble=error.message)
    ready = view.readiness()
    return FeaturePage(
        name=view.feature.name,
        names=names,
        steps=tuple((_LOOKS.get(mark, "ready"), _words(raw)) for _, mark, raw in view.plan.marks),
        documents=tuple((title, ready.get(title, ""), text) for title, text in view.texts.items() if text),
        advice=advice.focus,
        command=advice.command,
        trouble="",
    )


def _words(raw: str) -> str:
    """A step's line without its list mark and its box."""
    return raw.strip().partition("] ")[2] or raw.strip()
