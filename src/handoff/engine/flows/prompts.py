"""The words a phase's session is given: what it is told, what it may write, and why the attempt before was refused."""

from __future__ import annotations

import os

from handoff.base.markdown import bullets, fenced, shell_line
from handoff.base.placeholders import fill
from handoff.base.record import TYPE_CHECKING
from handoff.base.settings import PROJECT_FOLDER
from handoff.board import gates
from handoff.board.tasks import flows
from handoff.checks.suite import plain_command
from handoff.engine.flows import documents, evidence
from handoff.engine.flows.state import NO_PATH, owned_patterns
from handoff.engine.proof.test_runs import ask_for_suite
from handoff.engine.sessions.agent_programs import own_words
from handoff.engine.workspaces.baton import comments_in_words, rules_of
from handoff.workflows import test_list

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from handoff.board.gates import Gate
    from handoff.board.tasks.flows import Flow
    from handoff.board.tasks.tasks import Task
    from handoff.checks.suite import Suite
    from handoff.engine.app import App
    from handoff.engine.flows.state import FlowState

_TESTS_SHOWN = 300
_NOTHING = "(nothing)"


def brief(app: App, state: FlowState) -> str:
    """The phase's prompt with the facts it is told, and none that it is not."""
    values = {name: (_FACTS[name](app, state) or _NOTHING) for name in state.phase.told}
    return (
        fill(state.phase.prompt, values, where=state.phase.prompt_file or f"the prompt of {state.phase.name}").rstrip()
        + "\n"
    )


def baton(app: App, state: FlowState, task: Task) -> str:
    """The whole document: the brief, the fence, what went wrong before, and how to say that it cannot be done."""
    program = shell_line(own_words())  # a login shell forgets our PATH
    parts = [f"# {state.flow.id}: {state.phase.name} (cycle {state.flow.cycle})\n", task.brief.rstrip() + "\n"]
    rules = rules_of(app, task.project)
    parts += [f"## Rules of this project\n\n{rules}\n"] if rules else []
    patterns = [f"`{pattern}`" for pattern in owned_patterns(state)]
    if patterns == [f"`{NO_PATH}`"]:
        parts.append("## What you may write\n\nNothing.\n")
    else:
        parts.append(f"## What you may write\n\n{bullets(patterns, limit=100)}\n")
    said = _person(state, gates.of_task(app.database, key=task.key))
    written = comments_in_words(flows.events(app.database, state.flow))
    written = f"## What a person wrote on the work\n\n{written}" if written else ""
    parts += [part for part in (said, written, refusal(state.flow, task)) if part]
    parts.append(
        "## When you are finished\n\nJust end: what you leave in this checkout is judged, and committed if it is right. If it"
        f" cannot be done, say why: `{program} task block 'why'`.\n"
    )
    return "\n".join(parts)


def asked_about(state: FlowState) -> str:
    """The document or the list of tests that the last gate was about; a person may have changed it there."""
    gated = str(state.flow.facts.get("gated", ""))
    if gated and state.workflow.phase(gated).check == "test-list":
        return state.workflow.test_list
    return state.workflow.phase(gated).document if gated and state.flow.feature else ""


def _person(state: FlowState, gate: Gate | None) -> str:
    """What a person said about this phase: at its gate, or when they let it try again."""
    words = [str(state.flow.facts.get("note", ""))]
    if gate is not None and gate.state == gates.APPROVED:
        words += [gate.reason, "" if asked_about(state) and not gate.open_ended else gate.answer]
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


def _test_list(app: App, state: FlowState) -> str:
    del app
    text = state.flow_checkout.read(state.flow.head, state.workflow.test_list)
    return fenced(text.rstrip(), "markdown") if text else "(there is none yet)"


def _known_tests(app: App, state: FlowState) -> str:
    if not state.suites and state.keeps_list:
        return ask_for_suite(app, state.workflow.test_list)
    known = state.flow.facts.get("baseline", {})
    lines = []
    for name, words in (
        ("passing", "pass"),
        ("failing", "failed before anything was changed; that stays known"),
        ("flaky", "waver and are not counted"),
        ("skipped", "are skipped"),
    ):
        names = known.get(name, ())
        if names:
            lines.append(f"{len(names)} {words}:\n\n{bullets([f'`{one}`' for one in names], limit=_TESTS_SHOWN)}\n")
    return "\n".join(lines).rstrip() or "(there are none yet)"


def _new_test(app: App, state: FlowState) -> str:
    del app
    return str(state.flow.facts.get("new_test", ""))


def _changes(app: App, state: FlowState) -> str:
    """What this cycle changed; a reviewer sees all of it, others no list that they are not told."""
    del app
    reviewed = state.phase.check == "review"
    base = "" if reviewed else str(state.flow.facts.get("cycle_base", ""))
    hidden = "" if reviewed or "test_list" in state.phase.told else state.workflow.test_list
    text = state.flow_checkout.diff(base or state.flow.base, state.flow.head, without=hidden)
    return fenced(text, "diff") if text else ""


def _commands(app: App, state: FlowState) -> str:
    lines = [
        f"`{_typed(state, suite)}`{f' in `{suite.folder}`' if suite.folder else ''} ({suite.framework})"
        for suite in state.suites
    ]
    return (
        bullets(lines) if lines else f"As the project's own documents say. `{app.settings.program} check` finds them."
    )


def _typed(state: FlowState, suite: Suite) -> str:
    """A suite's command as it can be typed here: with the folders unittest does not find itself."""
    command = plain_command(suite.command)
    if suite.framework == "unittest":
        top = os.path.join(state.flow_checkout.tree, suite.folder)
        apart = [name for name in ("tests", "test") if _is_bare(os.path.join(top, name))]
        command = " && ".join(f"{command} discover -s {name}" for name in apart) or command
    return command


def _is_bare(folder: str) -> bool:
    return os.path.isdir(folder) and not os.path.exists(os.path.join(folder, "__init__.py"))


def _document(name: str) -> Callable[[App, FlowState], str]:
    def read(app: App, state: FlowState) -> str:
        return documents.text(app, state.flow, name) if state.flow.feature else ""

    return read


def _step(part: str) -> Callable[[App, FlowState], str]:
    def read(app: App, state: FlowState) -> str:
        found = documents.current_step(app, state.flow) if state.flow.feature else None
        return "" if found is None else f"{found[0].number}. {found[0].text}" if part == "text" else f"`{found[1]}`"

    return read


_FACTS: dict[str, Callable[[App, FlowState], Any]] = {
    "request": lambda _app, state: state.flow.request,
    "test": lambda _app, state: state.flow.facts.get("test", ""),
    "test_list": _test_list,
    "known_tests": _known_tests,
    "new_test": _new_test,
    "changes": _changes,
    "commits": lambda _app, state: (
        fenced(found) if (found := state.flow_checkout.log(state.flow.base, state.flow.head)) else ""
    ),
    "commands": _commands,
    "goal": _document("FEATURE.md"),
    "spec": _document("SPEC.md"),
    "design": _document("DESIGN.md"),
    "plan": _document("STATE.md"),
    "step": _step("text"),
    "step_check": _step("check"),
    "folder": lambda _app, state: os.path.join(PROJECT_FOLDER, "features", state.flow.feature),
    "tested": evidence.tell_reviewer,
    "review": lambda _app, state: state.flow.facts.get("review", ""),
    "survivors": lambda _app, state: bullets(state.flow.facts.get("survivors", []), limit=_TESTS_SHOWN),
    "cycle": lambda _app, state: str(state.flow.cycle),
}


def subject(state: FlowState, words: str) -> str:
    """The first line of the phase's commit; a test that begins with 'fix' makes a fix of it."""
    prefix = state.phase.commit
    if prefix == "feat" and words.casefold().startswith(("fix ", "fix:", "fixes ")):
        prefix = "fix"
        words = words.partition(":")[2].strip() if words.casefold().startswith("fix:") else words
    line = f"{prefix}: {' '.join(words.split())}"
    return line if len(line) <= 100 else line[:97] + "..."  # noqa: PLR2004 - one line of a log


def next_test(text: str) -> str:
    """The test that is handed on, in its words."""
    item = test_list.next_open(text)
    return item.name if item else ""
