"""The words a phase's session is given: what it is told, what it may write, and why the attempt before was refused."""

from __future__ import annotations

import os

from handoff.agents.contract import shell_line
from handoff.base.markdown import fenced, listed
from handoff.base.placeholders import fill
from handoff.base.record import TYPE_CHECKING
from handoff.base.settings import PROJECT_FOLDER
from handoff.board import gates
from handoff.engine.flows import documents
from handoff.engine.flows.state import NO_PATH, owned
from handoff.engine.sessions.agent_programs import own_words
from handoff.workflows import test_list

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from handoff.board.gates import Gate
    from handoff.board.tasks.flows import Flow
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.engine.flows.state import Standing

_TESTS_SHOWN = 300
_NOTHING = "(nothing)"


def brief(app: App, at: Standing) -> str:
    """The phase's prompt with the facts it is told, and none that it is not."""
    values = {name: (_FACTS[name](app, at) or _NOTHING) for name in at.phase.told}
    return fill(at.phase.prompt, values, where=at.phase.prompt_file or f"the prompt of {at.phase.name}").rstrip() + "\n"


def baton(app: App, at: Standing, task: Task) -> str:
    """The whole document: the brief, the fence, what went wrong before, and how to say that it cannot be done."""
    program = shell_line(own_words())  # a login shell forgets our PATH
    parts = [f"# {at.flow.id}: {at.phase.name} (cycle {at.flow.cycle})\n", task.brief.rstrip() + "\n"]
    patterns = [f"`{pattern}`" for pattern in owned(at)]
    if patterns == [f"`{NO_PATH}`"]:
        parts.append("## What you may write\n\nNothing.\n")
    else:
        parts.append(f"## What you may write\n\n{listed(patterns, most=100)}\n")
    parts += [part for part in (_person(at, gates.of_task(app.database, key=task.key)), refusal(at.flow, task)) if part]
    parts.append(
        "## When you are finished\n\nJust end: what you leave in this checkout is judged, and committed if it is right. If it"
        f" cannot be done, say why: `{program} block 'why'`.\n"
    )
    return "\n".join(parts)


def asked_about(at: Standing) -> str:
    """The document the last gate was about; a person may have changed it there."""
    gated = str(at.flow.facts.get("gated", ""))
    return at.workflow.phase(gated).document if gated and at.flow.feature else ""


def _person(at: Standing, gate: Gate | None) -> str:
    """What a person said about this phase: at its gate, or when they let it try again."""
    words = [str(at.flow.facts.get("note", ""))]
    if gate is not None and gate.state == gates.APPROVED:
        words += [gate.reason, "" if asked_about(at) else gate.answer]
    said = "\n\n".join(word.strip() for word in words if word.strip())
    return f"## What a person said\n\n{said}\n" if said else ""


def refusal(flow: Flow, task: Task) -> str:
    """Why the attempts before were refused, with what the last of them had changed."""
    failures = [one for one in flow.facts.get("failures", ()) if one.get("task") == task.key]
    if not failures:
        return ""
    lines = ["## What was refused before\n"]
    for one in failures:
        lines.append(f"Attempt {one['attempt']} of {task.max_attempts}:\n")
        lines += [f"- {said}" for said in one["said"]]
        lines.append("")
    last = failures[-1]
    if last.get("diff"):
        kept = f" It is kept as snapshot {last['snapshot'][:10]}." if last.get("snapshot") else ""
        lines.append(f"Its work was undone.{kept} It had changed:\n\n{fenced(last['diff'], 'diff')}\n")
    if last.get("tail"):
        lines.append(f"What the tests said:\n\n{fenced(last['tail'])}\n")
    return "\n".join(lines)


# --- facts -----------------------------------------------------------------------------------------------


def _test_list(app: App, at: Standing) -> str:
    del app
    text = at.lane.read(at.flow.head, at.workflow.test_list)
    return fenced(text.rstrip(), "markdown") if text else "(there is none yet)"


def _known_tests(app: App, at: Standing) -> str:
    del app
    known = at.flow.facts.get("baseline", {})
    lines = []
    for name, words in (
        ("passing", "pass"), ("failing", "failed before anything was changed; that stays known"),
        ("flaky", "waver and are not counted"), ("skipped", "are skipped"),
    ):  # fmt: skip
        names = known.get(name, ())
        if names:
            lines.append(f"{len(names)} {words}:\n\n{listed([f'`{one}`' for one in names], most=_TESTS_SHOWN)}\n")
    return "\n".join(lines).rstrip() or "(there are none yet)"


def _new_test(app: App, at: Standing) -> str:
    del app
    return str(at.flow.facts.get("new_test", ""))


def _changes(app: App, at: Standing) -> str:
    """What this cycle changed; a reviewer sees all of it."""
    del app
    whole = at.phase.check == "review" or not at.flow.facts.get("cycle_base")
    text = at.lane.diff(at.flow.base if whole else str(at.flow.facts["cycle_base"]), at.flow.head)
    return fenced(text, "diff") if text else ""


def _commands(app: App, at: Standing) -> str:
    lines = []
    for suite in at.suites:
        words = suite.command.replace("{python}", "python").split()
        line = " ".join(word for word in words if "{" not in word)
        lines.append(f"`{line}`" + (f" in `{suite.folder}`" if suite.folder else "") + f" ({suite.framework})")
    return listed(lines) if lines else f"As the project's own documents say. `{app.settings.program} check` finds them."


def _document(name: str) -> Callable[[App, Standing], str]:
    def read(app: App, at: Standing) -> str:
        return documents.text(app, at.flow, name) if at.flow.feature else ""

    return read


def _step(part: str) -> Callable[[App, Standing], str]:
    def read(app: App, at: Standing) -> str:
        found = documents.current_step(app, at.flow) if at.flow.feature else None
        return "" if found is None else f"{found[0].number}. {found[0].text}" if part == "text" else f"`{found[1]}`"

    return read


_FACTS: dict[str, Callable[[App, Standing], Any]] = {
    "request": lambda _app, at: at.flow.request,
    "test": lambda _app, at: at.flow.facts.get("test", ""),
    "test_list": _test_list,
    "known_tests": _known_tests,
    "new_test": _new_test,
    "changes": _changes,
    "commits": lambda _app, at: fenced(found) if (found := at.lane.log(at.flow.base, at.flow.head)) else "",
    "commands": _commands,
    "goal": _document("FEATURE.md"),
    "spec": _document("SPEC.md"),
    "design": _document("DESIGN.md"),
    "plan": _document("STATE.md"),
    "step": _step("text"),
    "step_check": _step("check"),
    "folder": lambda _app, at: os.path.join(PROJECT_FOLDER, "features", at.flow.feature),
    "review": lambda _app, at: at.flow.facts.get("review", ""),
    "cycle": lambda _app, at: str(at.flow.cycle),
}


def subject(at: Standing, words: str) -> str:
    """The first line of the phase's commit; a test that begins with 'fix' makes a fix of it."""
    prefix = at.phase.commit
    if prefix == "feat" and words.casefold().startswith(("fix ", "fix:", "fixes ")):
        prefix = "fix"
        words = words.partition(":")[2].strip() if words.casefold().startswith("fix:") else words
    line = f"{prefix}: {' '.join(words.split())}"
    return line if len(line) <= 100 else line[:97] + "..."  # noqa: PLR2004 - one line of a log


def next_test(text: str) -> str:
    """The test that is handed on, in its words."""
    item = test_list.next_open(text)
    return item.name if item else ""
