"""A session's journey: an agent is given a task, watched while it works, and its end is turned into the task's next state."""

from __future__ import annotations

import os
import sys

from handoff.agents import catalog
from handoff.agents import folder as folders
from handoff.agents.adapters.person import NAME as PERSON
from handoff.agents.contract import LaunchRequest, SessionLimits, shell_line
from handoff.agents.session import AgentSession, SupervisionRules, supervise
from handoff.base.clock import boot_id, stamp
from handoff.base.errors import Away, HandoffError, Refused, UserError
from handoff.base.ids import new_id
from handoff.base.light_json import dumps
from handoff.base.process import start_of
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.sessions import leases, sessions
from handoff.board.tasks import batches, tasks
from handoff.engine.app import App
from handoff.engine.fanout import stop_files, views
from handoff.engine.home import find_project, home_config, labels_of
from handoff.engine.safety import incidents, snapshots
from handoff.engine.proof import evidence
from handoff.engine.sessions import conclude, endpoints, hooks, placement, policy
from handoff.engine.sessions.agent_programs import Client, client_of, has_mcp, own_words
from handoff.engine.sessions.environment import session_environment
from handoff.engine.tasks import kinds, spending
from handoff.engine.workspaces import baton as batons
from handoff.engine.workspaces import publish, running
from handoff.engine.workspaces.transcripts import known_session
from handoff.git.snapshots.take import SnapshotRequest as Kept

if TYPE_CHECKING:
    from collections.abc import Callable

    from handoff.agents.contract import Adapter, AgentOutcome, Start
    from handoff.base.settings import Config
    from handoff.board.sessions.leases import Claim
    from handoff.board.tasks.tasks import Task
    from handoff.engine.sessions.conclude import ConcludedSession
    from handoff.engine.sessions.placement import Placement


class StartRequest(Record):
    """What a session is to be started with."""

    agent: str
    task: str = ""
    project: str = ""
    model: str = ""
    limits: SessionLimits = SessionLimits()
    words: tuple[str, ...] = ()
    resume: str = ""
    state: str = ""
    reason: str = ""
    sandbox: str = ""
    """Which sandbox, and in which kind of workspace; empty: as the settings say."""
    workspace: str = ""
    terminal: bool = False
    """In the terminal of whoever asks, instead of by itself."""


class RunningSession(Record):
    """A session that runs."""

    session: AgentSession
    claim: Claim
    folder: str
    words: str = ""
    """What a person should be told: that no sandbox stands around it, for example."""


def start(
    app: App, *, request: StartRequest, claim: Claim | None = None, versions: dict[str, str] | None = None
) -> RunningSession:
    """Start a session of the agent; without `claim` it takes its task first. Everything is checked before anything is written.

    With a claim (the supervisor makes it together with the durable run) a session that has begun is attached to, living or
    over: there is never a second one.
    """
    if claim is not None and has_started(app, claim):
        return attach_to(app, claim)
    client = client_of(app, agent=request.agent, versions=versions)
    if request.agent == PERSON:
        raise UserError(
            "A person is not started.", f"Open the task instead: {app.settings.program} open {request.task}"
        )
    config = home_config(app)
    if request.terminal and client.adapter.interactive is None:
        raise UserError(
            f"{client.adapter.title} is not started in a terminal by handoff.",
            f"Claim the task and start it yourself: {app.settings.program} claim {request.task}".rstrip(),
        )
    if claim is not None:
        claim = publish.brought_here(app, claim)
        policy.check(app, kind=request.sandbox, workspace=claim.task.workspace)
        started = _begin(app, config, request, client, claim, supervised=True)
    else:
        started = _claim_and_begin(app, config, request, client)
    views.refresh_or_tell(app, started.claim.task.project, f"Session {started.session.name} runs")
    return started


def _claim_and_begin(app: App, config: Config, request: StartRequest, client: Client) -> RunningSession:
    place = find_project(app, name=request.project)
    policy.check(app, kind=request.sandbox, workspace=place.workspace)
    stop_files.read_files(app, place.name)
    spending.refuse_spent_up(app)
    who = sessions.SessionIdentity(
        id=new_id("session"),
        kind=sessions.AGENT,
        project=place.name,
        agent=request.agent,
        workspace=place.workspace,
        host=app.settings.host,
        boot=boot_id(),
        pid=os.getpid(),
        process_start=start_of(os.getpid()),
        labels=labels_of(app),
    )
    claim = _claim(app, config, request, who)
    try:
        started = _begin(app, config, request, client, publish.brought_here(app, claim))
    except BaseException:
        leases.release(app.database, key=claim.task.key, fence=claim.fence, reason="the session could not be started")
        sessions.end(app.database, id=who.id, ending="not started")
        raise
    monitor = started.session.monitor  # the watchdog frees the task when neither we nor it lives
    sessions.register(app.database, who=who._replace(pid=monitor.pid, process_start=monitor.start))
    return started


def _claim(app: App, config: Config, request: StartRequest, who: sessions.SessionIdentity) -> Claim:
    seconds = config.number("lease_seconds")
    agents = config.values["max_running_agent"]
    limits = leases.ClaimLimits(
        int(config.number("max_running")), int(config.number("max_running_project")), int(agents.get(request.agent, 0))
    )
    if request.task:
        key = tasks.find(app.database, project=who.project, id=request.task).key
        return leases.claim(app.database, key=key, who=who, lease_seconds=seconds, limits=limits)
    claim = leases.claim_next(app.database, who=who, project=who.project, lease_seconds=seconds, limits=limits)
    if claim is None:
        why = leases.why_idle(app.database, who=who, project=who.project, limits=limits)
        raise UserError(f"Nothing to take in project {who.project}: {why}.", f"See: {app.settings.program} queue")
    return claim


def _begin(
    app: App, config: Config, request: StartRequest, client: Client, claim: Claim, *, supervised: bool = False
) -> RunningSession:
    task, name = claim.task, claim.session.id
    task = task._replace(workspace=task.workspace or claim.session.workspace)
    if not os.path.isdir(task.workspace):
        raise UserError(
            f"The workspace of '{task.label}' is gone: {task.workspace}.", "Bring it back, or cancel the task."
        )
    path = folders.place(app.settings.home, task.project, name)
    running.end_superseded(app, task, except_=name)
    incidents.look(app)  # how everything is before it begins
    placed = placement.place(app, config, task=task, session=name, workspace=request.workspace, sandbox=request.sandbox)
    if placed.kind == placement.SHARED:
        evidence.note_claim(app, task, workspace=task.workspace)
    workspace = placed.folder
    folders.make(path)
    token = folders.text_of(path, folders.TOKEN).strip() or endpoints.session_token(name)
    baton = kinds.prepare(app, task) or _baton(app, config, task, placed)
    limits = request.limits if any(request.limits) else SessionLimits(**task.baseline_facts.get("limits", {}))
    limits = limits if limits.minutes or request.terminal else limits._replace(minutes=config.number("session_minutes"))
    order = _order(app, request, client, task, placed, path, name, baton)._replace(token=token)
    if order.endpoint:
        endpoints.wake(order.endpoint)
    facts = {
        "session": name, "project": task.project, "task": task.label, "key": task.key, "fence": claim.fence, "agent": request.agent,
        "version": client.version, "workspace": workspace, "started": stamp(app.clock.now()), "client_id": order.client_id,
        "model": request.model, "state": request.state or path, "began": app.clock.now(), "limits": limits._asdict(),
        "tools": order.endpoint or shell_line(order.mcp), "sandbox": placed.sandbox, "layer": placed.layer,
        "kind": placed.kind, "checkout": task.workspace, "terminal": request.terminal,
    }  # fmt: skip
    for file, text in (
        (folders.FACTS, dumps(facts)),
        (folders.BATON, baton),
        (folders.TOKEN, token),
        (folders.PERMISSIONS, hooks.permissions_text(task, workspace)),
    ):
        folders.put(path, file, text)
    adapter = client.adapter
    launch = _starter(request, adapter)(order)
    sandboxed = policy.build(
        app,
        kind=placed.sandbox,
        placed=workspace,
        folder=path,
        state=request.state,
        argv=launch.argv,
        adapter=adapter,
        owned=order.owned,
        broker=(sys.executable, "-m", "handoff.surfaces.broker"),
        caches=config.texts("session_caches"),
        environment={
            **session_environment(app, task=task, session=name, token=token, workspace=workspace, own=own_words()),
            **launch.environment,
        },
    )
    words = {**sandboxed.order, "terminal": request.terminal}
    folders.put_launch(path, launch, cwd=workspace, order=words, state=request.state)
    running.leave(app, claim, path, supervised=supervised)
    session = _session(app, config, claim, path, adapter)
    session.start(sandboxed.environment)
    return RunningSession(session, claim, path, placed.words)


def _starter(request: StartRequest, adapter: Adapter) -> Start:
    if request.terminal and adapter.interactive:
        return adapter.interactive
    return adapter.resume if request.resume and adapter.resume else adapter.launch


def _session(app: App, config: Config, claim: Claim, path: str, adapter: Adapter) -> AgentSession:
    """The session as its folder tells of it: whoever takes it up after a crash has the same rules and the same clock."""
    facts = folders.get(path, folders.FACTS)
    rules = SupervisionRules(
        SessionLimits(**facts.get("limits", {})), config.number("lease_seconds"), bool(facts.get("terminal"))
    )
    able = adapter.abilities(str(facts.get("version", "")))._replace(mcp=bool(facts.get("tools")))
    ago = max(0.0, app.clock.now() - float(facts.get("began", app.clock.now())))
    return AgentSession(path, claim.session.id, adapter, able, rules, app.clock, ago=ago)


def _order(
    app: App, request: StartRequest, client: Client, task: Task, placed: Placement, path: str, session: str, baton: str
) -> LaunchRequest:
    able = client.adapter.abilities(client.version)
    file = os.path.join(path, folders.BATON)
    if request.resume:
        prompt = request.reason or f"Go on with task '{task.label}'. Your baton is {file}."
    elif able.start_context:
        prompt = f"Do task '{task.label}' as the baton says that you were given at the start. It is also in {file}."
    else:
        prompt = baton
    client_id = request.resume or (_uuid() if able.choose_id else "")
    own, tools, sandboxed = own_words(), able.mcp and has_mcp(), placed.sandbox != policy.NONE
    return LaunchRequest(
        program=client.program, prompt=prompt, workspace=placed.folder, folder=os.path.join(path, folders.CLIENT) if sandboxed else path, session=session, client_id=client_id,
        state=os.path.join(request.state, folders.CLIENT) if sandboxed and request.state else request.state,
        hook=(*own, "hook") if client.adapter.dialect else (), mcp=(*own, "mcp") if tools else (),
        endpoint=endpoints.address(app) if tools and not sandboxed else "",  # a sandbox has one broker
        owned=placement.owned_places(placed.folder, task.patterns), writable=(app.settings.home, _temp(app)), model=request.model, version=client.version, limits=request.limits,
        sandboxed=sandboxed,
        words=request.words,
    )  # fmt: skip


def _uuid() -> str:
    from uuid import uuid4

    return str(uuid4())


def _temp(app: App) -> str:
    return app.settings.get("TMPDIR") or "/tmp"  # noqa: S108 - where programs put scratch files


def _baton(app: App, config: Config, task: Task, placed: Placement) -> str:
    batch = batches.get(app.database, key=task.batch) if task.batch is not None else None
    parts = [
        part
        for part in (tasks.of_batch(app.database, batch=task.batch) if task.batch is not None else ())
        if part.kind != tasks.FAN_IN
    ]
    calls = App(app.settings._replace(program=shell_line(own_words())), app.clock)  # a login shell forgets our PATH
    text = batons.baton(
        calls,
        config,
        task,
        batch=batch,
        parts=parts,
        clone=placed.folder if placed.kind == placement.CLONE else "",
    )
    left = conclude.left_behind(app, task)
    return text + (f"\n{left}" if left else "")


def watch(app: App, started: RunningSession, *, tell: Callable[[str], None] | None = None) -> ConcludedSession:
    """Stay with the session until it is over, keep its tree, and conclude what comes of the task."""
    outcome = wait(app, started)
    save(app, started.claim)
    concluded = conclude.conclude(app, claim=started.claim, outcome=outcome)
    running.forget(app, started.claim.session.id)
    if tell is not None:
        tell(concluded.words)
    return concluded


def wait(app: App, started: RunningSession) -> AgentOutcome:
    """Stay until nothing of the session runs any more; signs of life renew the lease."""
    look = running.SessionWatch(app, started.claim, started.session)
    outcome = supervise(started.session, look=look)
    look.note_money()  # most clients tell their bill with their last word
    return outcome


def save(app: App, claim: Claim) -> str:
    """Keep the whole working tree as the session left it, whatever it did."""
    if claim.task.kind in kinds.BY_KIND:
        return ""  # who decides keeps what it does not commit
    path = folders.place(app.settings.home, claim.task.project, claim.session.id)
    workspace = str(folders.get(path, folders.FACTS).get("workspace") or claim.task.workspace)
    if not os.path.lexists(os.path.join(workspace, ".git")):
        return ""
    try:
        snapshot_store = snapshots.open_snapshot_store(app, folder=workspace)
        taken = snapshots.snapshot(app, snapshot_store=snapshot_store, request=Kept("phase", session=claim.session.id))
        publish.publish_patiently(app, task=claim.task, fence=claim.fence, folder=workspace, session=claim.session.id)
        return str(taken.sha)
    except Away:
        raise
    except HandoffError as error:
        return f"not saved: {error.message}"


def attach(app: App, *, session: str) -> RunningSession:
    """Take up the supervision of a session whose supervisor is gone."""
    known, path = known_session(app, session)
    facts = folders.get(path, folders.FACTS)
    if not facts or known.ended_at is not None:
        raise UserError(f"Session {session} is over.", f"See: {app.settings.program} session log {session}")
    task = tasks.get(app.database, key=int(facts["key"]))
    return attach_to(app, leases.Claim(task, known, int(facts["fence"]), task.lease_seconds, repeated=True))


def has_started(app: App, claim: Claim) -> bool:
    """Whether the session of a claim was ever started."""
    return folders.has_started(folders.place(app.settings.home, claim.task.project, claim.session.id))


def attach_to(app: App, claim: Claim) -> RunningSession:
    """The session of a claim that has begun, living or over."""
    config = home_config(app)
    adapter = catalog.adapter(claim.session.agent, commands=config.values["agents"], where=config.path)
    path = folders.place(app.settings.home, claim.task.project, claim.session.id)
    return RunningSession(_session(app, config, claim, path, adapter), claim._replace(repeated=True), path)


def resume_request(app: App, *, session: str, reason: str = "") -> StartRequest:
    """The wish that continues a session's conversation, with the same agent and the same task."""
    known, path = known_session(app, session)
    facts, outcome = folders.get(path, folders.FACTS), folders.get(path, folders.OUTCOME)
    client_id = str(outcome.get("client_id") or facts.get("client_id") or "")
    if not client_id:
        raise Refused(
            f"Session {known.id} left no conversation to resume.",
            f"Start a fresh one: {app.settings.program} session start {facts.get('task', '')} --agent {known.agent}",
        )
    return StartRequest(
        agent=known.agent,
        task=str(facts.get("task", "")),
        project=known.project,
        model=str(facts.get("model", "")),
        resume=client_id,
        state=str(facts.get("state") or path),
        reason=reason,
        sandbox=str(facts.get("sandbox", "")),
        workspace=str(facts.get("kind", "")),
    )
