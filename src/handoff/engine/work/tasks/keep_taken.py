"""Keep a session that was taken over as a feature with its documents, or as a task with the text as its brief."""

from __future__ import annotations

from handoff.base import files
from handoff.base.markdown import one_line
from handoff.base.record import TYPE_CHECKING
from handoff.engine.features import lifecycle, plan_steps
from handoff.engine.work.tasks import create
from handoff.feature.folder import Feature

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from handoff.agents.history.facts import HistoryFacts
    from handoff.engine.app import App

_BOXES = {"done": "[x]", "doing": "[>]", "dropped": "[-]"}


def keep(
    app: App,
    facts: HistoryFacts,
    text: str,
    *,
    feature: str,
    task: str,
    ask: Callable[[str], bool],
    warn: Callable[[str], None],
) -> Iterator[str]:
    """Write it down where it was asked for; each line says what was made."""
    if feature:
        yield from _as_feature(app, facts, text, feature, ask, warn)
    if task:
        made = create.write_down(app, create.project_of_caller(app), create.Request(task=task, brief=text))
        yield f"Task {made.label} is written down; take it with: {app.settings.program} task claim {made.label}"


def _as_feature(
    app: App, facts: HistoryFacts, text: str, name: str, ask: Callable[[str], bool], warn: Callable[[str], None]
) -> Iterator[str]:
    made = lifecycle.begin(app, name=name, force=False, ask=ask, warn=warn)
    if made.already:
        warn(f"the feature '{name}' was there already: its goal and plan stay, the session is added to its notes.")
    feature = Feature(made.name, made.path)
    if "FEATURE.md" in made.written and facts.instructions:
        asked = "\n\n".join(said.text for said in facts.instructions)
        rules = "\n".join(f"- {one_line(rule.text)}" for rule in facts.rules)
        files.write_atomic(
            feature.file("FEATURE.md"),
            f"# Feature: {name}\n\n## Goal\n{asked}\n" + (f"\n## Constraints\n{rules}\n" if rules else ""),
        )
    if "STATE.md" in made.written and facts.todo:
        steps = "\n".join(
            f"- {_BOXES.get(step.state, '[ ]')} {one_line(step.text)}"
            + (" (dropped: in the session)" if step.state == "dropped" else "")
            for step in facts.todo
        )
        files.write_atomic(feature.file("STATE.md"), f"# State\n\n# Execution Plan\n\n{steps}\n")
    for decision in facts.decisions:
        said, _, because = decision.text.partition(" because ")
        if because:
            plan_steps.decide(app, text=said, because=because)
    plan_steps.note(app, text=text)
    yield f"Feature {made.name} holds it: {made.path}; go on with: {app.settings.program} continue"
    if not made.active:
        yield f"The active feature is still '{made.before}'."
