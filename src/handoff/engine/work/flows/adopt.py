"""A flow taken up from its branch alone: on another machine, or after the database is gone. What git does not hold is said."""

from __future__ import annotations

from handoff.base.errors import UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.events import texts
from handoff.board.tasks import flows
from handoff.checks import judge as verdicts
from handoff.engine.app.home import find_project, settle
from handoff.engine.place.fanout import views
from handoff.engine.work.flows import conclude, judge, prompts
from handoff.engine.work.flows import flows as journey
from handoff.engine.work.flows.state import FlowState, state_of
from handoff.git.commits.phases import FlowCheckout
from handoff.git.plumbing import Git
from handoff.workflows import library
from handoff.workflows.model import DONE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from handoff.board.tasks.flows import Flow
    from handoff.engine.app import App
    from handoff.workflows.model import Workflow

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
