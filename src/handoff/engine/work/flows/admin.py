"""What a person does to a flow: pass a phase over, pause it, go on, take it back, let it try again, take it up from its branch."""

from __future__ import annotations

import os
import tempfile

from handoff.base.errors import Conflict, Refused, UserError
from handoff.base.files import read_text
from handoff.base.process import pass_through
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.events import texts
from handoff.board.sessions import pauses
from handoff.board.tasks import decisions, flows, outcomes, states, tasks
from handoff.checks import judge as verdicts
from handoff.engine.app.home import find_project, settle
from handoff.engine.place import running
from handoff.engine.place.fanout import views
from handoff.engine.work.flows import advance, conclude, judge, prompts
from handoff.engine.work.flows import flows as journey
from handoff.engine.work.flows.flows import look
from handoff.engine.work.flows.judge import PhaseVerdict
from handoff.engine.work.flows.state import FlowState, moving, state_of
from handoff.git.commits.phases import FlowCheckout
from handoff.git.plumbing import Git
from handoff.workflows import library
from handoff.workflows.model import DONE, OUTCOMES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from handoff.board.tasks.flows import Flow
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.workflows.model import Workflow

_SKIPPABLE = ("refactor", "suite", "command", "document", "review", "none")


def skip(app: App, *, flow: Flow, reason: str) -> Flow:
    """Pass a phase over, on a person's word; only where nothing that follows rests on what it would have proved."""
    with moving(app, flow):
        state = advance.settle(app, flow.key)
        task = tasks.get(app.database, key=state.flow.task) if state.flow.task is not None else None
        if state.flow.ended_at is not None or (task is not None and task.state == states.RUNNING):
            raise Conflict(f"'{flow.id}' has nothing to skip now.", f"See: {app.settings.program} show {flow.id}")
        if state.phase.check not in _SKIPPABLE:
            raise Refused(
                f"{state.phase.name} cannot be skipped: what follows rests on its check '{state.phase.check}'.",
                f"Do it by hand: {app.settings.program} flow step {flow.id} --agent person",
            )
        tree = state.flow_checkout.ask("rev-parse", f"{state.flow.head}^{{tree}}").strip()
        verdict = PhaseVerdict(outcome=OUTCOMES[state.phase.check][0], tree=tree)
        advance.decide(app, state, verdict, task=task, skipped=reason)
    return conclude.drive(app, flow.key)


def pause(app: App, *, flow: Flow) -> Flow:
    """Nothing new begins; a session that runs goes on to its end and is judged."""
    with moving(app, flow), app.database.transaction() as transaction:
        flow = flows.get(transaction, key=flow.key)
        if flow.ended_at is not None or flow.state == flows.PAUSED:
            raise Conflict(f"The flow '{flow.id}' is {flow.state}.")
        if flow.task is not None:
            task = tasks.get(transaction, key=flow.task)
            pauses.pause(
                transaction, scope=pauses.TASK, project=flow.project, name=task.label, reason="its flow is paused"
            )
        flows.tell(transaction, flow, "flow.paused")
        return flows.move(transaction, flow, state=flows.PAUSED)


def resume(app: App, *, flow: Flow, max_cycles: int = 0) -> Flow:
    """Go on where it was paused."""
    with moving(app, flow), app.database.transaction() as transaction:
        flow = flows.get(transaction, key=flow.key)
        if flow.state != flows.PAUSED:
            raise Conflict(
                f"The flow '{flow.id}' is {flow.state}, not paused.", f"See: {app.settings.program} show {flow.id}"
            )
        if flow.task is not None:
            task = tasks.get(transaction, key=flow.task)
            pauses.resume(transaction, scope=pauses.TASK, project=flow.project, name=task.label)
        flows.tell(transaction, flow, "flow.resumed")
        flow = flows.move(transaction, flow, state=flows.RUNNING, max_cycles=max_cycles or flow.max_cycles)
    return conclude.drive(app, flow.key)


def cancel(app: App, *, flow: Flow, reason: str = "") -> Flow:
    """Take it back. Its branch and its workspace stay as they are; a session that works on it is ended."""
    with app.database.transaction() as transaction:
        flow = flows.get(transaction, key=flow.key)
        if flow.ended_at is not None:
            raise Conflict(f"The flow '{flow.id}' is already {flow.state}.")
        task = tasks.get(transaction, key=flow.task) if flow.task is not None else None
        if task is not None:
            pauses.resume(transaction, scope=pauses.TASK, project=flow.project, name=task.label)
            if not task.ended:
                outcomes.cancel(transaction, key=task.key, reason=reason or "its flow was cancelled")
        flows.tell(transaction, flow, "flow.cancelled", reason=reason)
        decisions.withdraw_phase(transaction, flow)
        flow = flows.move(transaction, flow, state=flows.CANCELLED, reason=reason)
    if task is not None and task.held_by:
        running.stop(app, session=task.held_by, reason=reason or "its flow was cancelled")
    views.refresh_or_tell(app, flow.project, f"The flow '{flow.id}' is cancelled")
    return flow


def retry(app: App, *, flow: Flow, note: str = "", phase: str = "", max_cycles: int = 0) -> Flow:
    """Let a stuck flow try again: the phase it is stuck in, the one a person rejected, or another; `note` is read by the session."""
    with moving(app, flow):
        state = advance.settle(app, flow.key)
        seen = look(app, state.flow)
        if seen.state != flows.BLOCKED and not (phase and state.flow.ended_at is None):
            raise Conflict(
                f"The flow '{flow.id}' is {seen.state}; only a blocked one is tried again.", "See: handoff flow list"
            )
        rejected = seen.task is not None and seen.reason.startswith("rejected:")
        target = phase or (str(state.flow.facts.get("gated", "")) if rejected else "")
        if target and target not in [one.name for one in state.workflow.phases]:
            names = ", ".join(one.name for one in state.workflow.phases)
            raise UserError(f"'{flow.workflow}' has no phase '{target}'.", f"Its phases: {names}.")
        words = [word for word in (note, seen.reason if rejected else "") if word]
        _try_again(app, state.flow, seen.task, target, words, max_cycles)
    return conclude.drive(app, flow.key)


def _try_again(app: App, flow: Flow, task: Task | None, target: str, words: Sequence[str], max_cycles: int) -> None:
    facts = {**flow.facts, "prepared": "", "note": "\n".join(words), "after_gate": ""}
    with app.database.transaction() as transaction:
        flows.tell(transaction, flow, "flow.retried", phase=target or flow.phase, note=facts["note"])
        same = task is not None and not target and not task.ended
        if same and task is not None:
            outcomes.retry(transaction, key=task.key)
        elif task is not None and not task.ended:
            outcomes.cancel(transaction, key=task.key, reason=f"the flow goes back to {target}")
        flows.move(
            transaction,
            flow,
            state=flows.RUNNING,
            reason="",
            phase=target or flow.phase,
            data=facts,
            task=task.key if same and task is not None else None,
            max_cycles=max_cycles or max(flow.max_cycles, flow.cycle),
        )


def reword(app: App, *, flow: Flow, text: str) -> Task:
    """Give the phase's next session other words than the workflow's; its fence and its check stay."""
    if flow.task is None:
        raise Conflict(f"No session is due in '{flow.id}' now.", f"See: {app.settings.program} show {flow.id}")
    if not text.strip():
        raise UserError("The prompt is empty.")
    return tasks.edit(app.database, key=flow.task, brief=text)


def edit(app: App, *, flow: Flow) -> Task:
    """The same in the person's editor."""
    flow = flows.get(app.database, key=flow.key)
    brief = tasks.get(app.database, key=flow.task).brief if flow.task is not None else ""
    editor = app.settings.get("VISUAL") or app.settings.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory(prefix="handoff-") as folder:
        path = os.path.join(folder, f"{flow.phase}.md")
        with open(path, "w", encoding="utf-8") as file:
            file.write(brief)
        pass_through(["/bin/sh", "-c", f'exec {editor} "$1"', "handoff", path], environment=app.settings.environment)
        return reword(app, flow=flow, text=read_text(path))


# --- a flow taken up from its branch alone: on another machine, or after the database is gone ------------------------

_KEYS = "Flow Workflow Phase Cycle Next Test Request".split()
_MOST = 2000


class AdoptRequest(Record):
    """Which branch, and what a person says of what it does not hold."""

    branch: str
    workflow: str = ""
    text: str = ""
    agents: Mapping[str, str] = {}


class Told(Record):
    """What the commits of a branch say about their flow."""

    id: str
    tip: str
    base: str
    commits: tuple[dict[str, str], ...]
    """Newest first: `commit`, `parent`, and the trailers without `Handoff-`."""

    def last(self, key: str) -> str:
        """What the newest commit that says it says."""
        return next((one[key] for one in self.commits if one.get(key)), "")


def adopt(
    app: App, *, request: AdoptRequest, tell: Callable[[str], None] = lambda _: None
) -> tuple[Flow, tuple[str, ...]]:
    """The flow of a branch as it stands in git, under way again here; and what could not be known, a sentence each."""
    place = find_project(app)
    told = _read(Git(place.workspace, app.git_environment), request.branch)
    workflow = library.load(place.workspace, request.workflow or told.last("Workflow") or _unknown(app, request))
    place = settle(app, place)
    flows.refuse_live(app.database, project=place.name, id=told.id)
    wanted = request.text.strip() or told.last("Request")
    phase, cycle = _stand(workflow, told)
    suites = journey.suites_for(app, workflow, place.workspace)
    tell(f"Making the workspace of '{told.id}' from {told.tip[:10]} …")
    workspace = journey.workspace_for(app, told.id, told.tip, place.workspace)
    checkout = FlowCheckout(workspace.tree, workspace.branch, app.git_environment)
    data = {"suites": suites, "git_config": checkout.config, "cycle_base": _cycle_base(told, cycle), "planned": True}
    flow = flows.add(
        app.database, project=place.name, id=told.id, workflow=workflow.name, text=workflow.text,
        prompts=library.prompts_of(workflow), request=app.clean(wanted), feature="", repository=place.workspace,
        workspace=workspace.tree, branch=workspace.branch, base=told.base, phase=phase, max_cycles=workflow.max_cycles,
        agents=request.agents, gates=(), data=data,
    )  # fmt: skip
    flow = _moved(app, flow, head=told.tip, cycle=cycle, data=data)
    state = state_of(app, flow)
    tell("Running the tests: what they said is known by its commits alone …")
    flow = _moved(app, flow, data={**data, **_facts(app, state, told)})
    flow = conclude.drive(app, flow.key)
    views.refresh_or_tell(app, flow.project, f"The flow '{flow.id}' goes on")
    return flow, _unknowns(told, workflow, wanted)


def _moved(app: App, flow: Flow, **changed: Any) -> Flow:
    with app.database.transaction() as transaction:
        return flows.move(transaction, flow, **changed)


def _read(git: Git, branch: str) -> Told:
    """The trailers of the branch's own commits, back to where the flow began."""
    names = (branch, f"handoff/{branch}", f"origin/{branch}", f"origin/handoff/{branch}")
    tips = (git.git("rev-parse", "-q", "--verify", f"{name}^{{commit}}").text.strip() for name in names)
    tip = next(filter(None, tips), "")
    if not tip:
        raise UserError(f"There is no branch '{branch}' here.", "Fetch it first: git fetch. See: git branch -a")
    form = "%x00".join(["%H", "%P", *(f"%(trailers:key=Handoff-{key},valueonly,separator=%x20)" for key in _KEYS)])
    rows = git.ask("log", "--first-parent", f"-{_MOST}", f"--format={form}%x01", tip, "--").split("\x01")
    found: list[dict[str, str]] = []
    for row in rows:
        commit, _, rest = row.strip("\n").partition("\0")
        if not rest:
            continue
        parent, *values = rest.split("\0")
        told = {"commit": commit, "parent": parent, **dict(zip(_KEYS, (one.strip() for one in values), strict=True))}
        if not told["Flow"] or (found and told["Flow"] != found[-1]["Flow"]):
            break
        found.append(told)
    if not found:
        raise UserError(
            f"The last commit of '{branch}' is not a flow's: it has no Handoff-Flow line.",
            "Name the branch of a flow (handoff/NAME), or begin one upon it: handoff flow start tdd --base BRANCH",
        )
    return Told(found[0]["Flow"], tip, found[-1]["parent"], tuple(found))


def _unknown(app: App, request: AdoptRequest) -> str:
    raise UserError(
        f"The commits of '{request.branch}' do not say which workflow made them.",
        f"Say it: {app.settings.program} flow adopt {request.branch} --workflow NAME (see: {app.settings.program} flow kinds)",
    )


def _stand(workflow: Workflow, told: Told) -> tuple[str, int]:
    """The phase that comes next, and its cycle."""
    last, cycle = told.last("Phase"), int(told.last("Cycle") or 1)
    phase = workflow.phase(last)  # an unknown one is an error that names those there are
    # where a phase leads; where several ways lead on, the first one that is not the end
    following = told.commits[0].get("Next") or next((name for name in phase.next.values() if name != DONE), DONE)
    if following == DONE:
        raise UserError(f"The flow '{told.id}' is done on this branch.", f"Take it in: handoff land handoff/{told.id}")
    return following, cycle + int(workflow.is_back(last, following))


def _cycle_base(told: Told, cycle: int) -> str:
    """The last commit of the cycle before."""
    mine = [one for one in told.commits if int(one.get("Cycle") or 1) == cycle]
    return mine[-1]["parent"] if mine else told.tip


def _facts(app: App, state: FlowState, told: Told) -> dict[str, Any]:
    """What the flow remembered of its tests, found out again: on the tree before the test that fails now, and on this one."""
    flow = state.flow
    facts: dict[str, Any] = {}
    if state.keeps_list:
        text = state.flow_checkout.read(flow.head, state.workflow.test_list) or ""
        facts["test"] = told.last("Test") or prompts.next_test(text)
    if not state.suites or not state.workflow.runs_tests:
        return facts
    red = told.commits[0] if state.workflow.phase(told.last("Phase")).check == "red" else None
    known, _ = verdicts.baseline([judge.run_suites(app, state, red["parent"] if red else flow.head)])
    facts["baseline"] = known.record()
    if red is not None:
        before = state._replace(flow=flow._replace(head=red["parent"], data=texts.write({**flow.facts, **facts})))
        reports = judge.run_suites(app, state, flow.head)
        changed = state.flow_checkout.changed(red["parent"], flow.head)
        facts |= judge.seen_red(app, before, reports, tree=flow.head, changed=changed)[1]
    return facts


def _unknowns(told: Told, workflow: Workflow, wanted: str) -> tuple[str, ...]:
    """What no commit holds, in words for the person."""
    lines = []
    if not wanted:
        lines.append("The request: no commit says it. Tell the next sessions with --request TEXT.")
    elif not told.last("Request"):
        lines.append("The first request: no commit says it; your --request counts.")
    if any(phase.check == "hidden" for phase in workflow.phases):
        lines.append("The hidden tests: they were kept beside the branch, and its strength cannot be weighed by them.")
    if not told.commits[0].get("Next"):
        lines.append(f"Where it was to go after {told.last('Phase')}: taken from the workflow of this machine.")
    lines.append("Attempts that were refused since the last commit, and what their sessions said.")
    lines.append(
        "Which agents worked, which phases asked a person, and how many cycles were allowed: say it anew if it matters."
    )
    return tuple(lines)
