"""A session's journey: an agent is given a task, watched while it works, and its end is turned into the task's next state."""

from __future__ import annotations

import os
import sys

from handoff.agents import catalog
from handoff.agents import folder as folders
from handoff.agents.adapters.person import NAME as PERSON
from handoff.agents.contract import Limits, Order, shell_line
from handoff.agents.session import Rules, Session, supervise
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
from handoff.engine.sessions import conclude, endpoints, hooks, placement, sandbox
from handoff.engine.sessions.agent_programs import Client, client_of, has_mcp, own_words
from handoff.engine.sessions.environment import session_environment
from handoff.engine.tasks import kinds, spending
from handoff.engine.workspaces import baton as batons
from handoff.engine.workspaces import publish, running  # fmt: skip
from handoff.engine.workspaces.transcripts import known_session
from handoff.git.snapshots.take import Wish as Kept

if TYPE_CHECKING:
    from collections.abc import Callable

    from handoff.agents.contract import Adapter, Outcome, Start
    from handoff.base.settings import Config
    from handoff.board.sessions.leases import Claim
    from handoff.board.tasks.tasks import Task
    from handoff.engine.sessions.conclude import Settled
    from handoff.engine.sessions.placement import Placed


class Wish(Record):
    """What a session is to be started with."""

    agent: str
    task: str = ""
    project: str = ""
    model: str = ""
    limits: Limits = Limits()
    words: tuple[str, ...] = ()
    resume: str = ""
    state: str = ""
    reason: str = ""
    wall: str = ""
    """Which wall, and in which kind of workspace; empty: as the settings say."""
    workspace: str = ""
    terminal: bool = False
    """In the terminal of whoever asks, instead of by itself."""


class Begun(Record):
    """A session that runs."""

    session: Session
    claim: Claim
    folder: str
    words: str = ""
    """What a person should be told: that no wall stands around it, for example."""


def start(app: App, *, wish: Wish, claim: Claim | None = None, versions: dict[str, str] | None = None) -> Begun:
    """Start a session of the agent; without `claim` it takes its task first. Everything is checked before anything is written.

    With a claim (the supervisor makes it together with the durable run) a session that has begun is attached to, living or
    over: there is never a second one.
    """
    if claim is not None and has_begun(app, claim):
        return attached(app, claim)
    client = client_of(app, agent=wish.agent, versions=versions)
    if wish.agent == PERSON:
        raise UserError("A person is not started.", f"Open the task instead: {app.settings.program} open {wish.task}")
    config = home_config(app)
    if wish.terminal and client.adapter.interactive is None:
        raise UserError(
            f"{client.adapter.title} is not started in a terminal by handoff.",
            f"Claim the task and start it yourself: {app.settings.program} claim {wish.task}".rstrip(),
        )
    if claim is not None:
        claim = publish.brought_here(app, claim)
        sandbox.check(app, kind=wish.wall, workspace=claim.task.workspace)
        begun = _begin(app, config, wish, client, claim, supervised=True)
    else:
        begun = _claim_and_begin(app, config, wish, client)
    views.refresh_or_tell(app, begun.claim.task.project, f"Session {begun.session.name} runs")
    return begun


def _claim_and_begin(app: App, config: Config, wish: Wish, client: Client) -> Begun:
    place = find_project(app, name=wish.project)
    sandbox.check(app, kind=wish.wall, workspace=place.workspace)
    stop_files.read_files(app, place.name)
    spending.refuse_spent_up(app)
    who = sessions.Who(
        new_id("session"), kind=sessions.AGENT, project=place.name, agent=wish.agent, workspace=place.workspace,
        host=app.settings.host, boot=boot_id(), pid=os.getpid(), process_start=start_of(os.getpid()),
        labels=labels_of(app),
    )  # fmt: skip
    claim = _claim(app, config, wish, who)
    try:
        begun = _begin(app, config, wish, client, publish.brought_here(app, claim))
    except BaseException:
        leases.release(app.database, key=claim.task.key, fence=claim.fence, reason="the session could not be started")
        sessions.end(app.database, id=who.id, ending="not started")
        raise
    keeper = begun.session.keeper  # the watchdog frees the task when neither we nor it lives
    sessions.register(app.database, who=who._replace(pid=keeper.pid, process_start=keeper.start))
    return begun


def _claim(app: App, config: Config, wish: Wish, who: sessions.Who) -> Claim:
    seconds = config.number("lease_seconds")
    agents = config.values["max_running_agent"]
    limits = leases.Limits(
        int(config.number("max_running")), int(config.number("max_running_project")), int(agents.get(wish.agent, 0))
    )
    if wish.task:
        key = tasks.find(app.database, project=who.project, id=wish.task).key
        return leases.claim(app.database, key=key, who=who, lease_seconds=seconds, limits=limits)
    claim = leases.claim_next(app.database, who=who, project=who.project, lease_seconds=seconds, limits=limits)
    if claim is None:
        why = leases.why_idle(app.database, who=who, project=who.project, limits=limits)
        raise UserError(f"Nothing to take in project {who.project}: {why}.", f"See: {app.settings.program} queue")
    return claim


def _begin(app: App, config: Config, wish: Wish, client: Client, claim: Claim, *, supervised: bool = False) -> Begun:
    task, name = claim.task, claim.session.id
    task = task._replace(workspace=task.workspace or claim.session.workspace)
    if not os.path.isdir(task.workspace):
        raise UserError(
            f"The workspace of '{task.label}' is gone: {task.workspace}.", "Bring it back, or cancel the task."
        )
    path = folders.place(app.settings.home, task.project, name)
    running.end_superseded(app, task, but=name)
    incidents.look(app)  # how everything is before it begins
    placed = placement.place(app, config, task=task, session=name, workspace=wish.workspace, wall=wish.wall)
    workspace = placed.folder
    folders.make(path)
    token = folders.text_of(path, folders.TOKEN).strip() or endpoints.session_token(name)
    baton = kinds.prepared(app, task) or _baton(app, config, task, placed)
    limits = wish.limits if any(wish.limits) else Limits(**task.baseline_facts.get("limits", {}))
    limits = limits if limits.minutes or wish.terminal else limits._replace(minutes=config.number("session_minutes"))
    order = _order(app, wish, client, task, placed, path, name, baton)._replace(token=token)
    if order.endpoint:
        endpoints.wake(order.endpoint)
    facts = {
        "session": name, "project": task.project, "task": task.label, "key": task.key, "fence": claim.fence, "agent": wish.agent,
        "version": client.version, "workspace": workspace, "started": stamp(app.clock.now()), "client_id": order.client_id,
        "model": wish.model, "state": wish.state or path, "began": app.clock.now(), "limits": limits._asdict(),
        "tools": order.endpoint or shell_line(order.mcp), "wall": placed.wall, "layer": placed.layer,
        "kind": placed.kind, "checkout": task.workspace, "terminal": wish.terminal,
    }  # fmt: skip
    for file, text in (
        (folders.FACTS, dumps(facts)), (folders.BATON, baton), (folders.TOKEN, token),
        (folders.GRANT, hooks.grant_text(task, workspace)),
    ):  # fmt: skip
        folders.put(path, file, text)
    adapter = client.adapter
    launch = _starter(wish, adapter)(order)
    walled = sandbox.build(
        app, kind=placed.wall, placed=workspace, folder=path, state=wish.state, argv=launch.argv, adapter=adapter,
        owned=order.owned, door=(sys.executable, "-m", "handoff.surfaces.broker"),
        caches=config.texts("session_caches"),
        environment={
            **session_environment(
                app, task=task, session=name, token=token, workspace=workspace, own=own_words()
            ),
            **launch.environment,
        },
    )  # fmt: skip
    words = {**walled.order, "terminal": wish.terminal}
    folders.put_launch(path, launch, cwd=workspace, order=words, state=wish.state)
    running.leave(app, claim, path, supervised=supervised)
    session = _session(app, config, claim, path, adapter)
    session.start(walled.environment)
    return Begun(session, claim, path, placed.words)


def _starter(wish: Wish, adapter: Adapter) -> Start:
    if wish.terminal and adapter.interactive:
        return adapter.interactive
    return adapter.resume if wish.resume and adapter.resume else adapter.launch


def _session(app: App, config: Config, claim: Claim, path: str, adapter: Adapter) -> Session:
    """The session as its folder tells of it: whoever takes it up after a crash has the same rules and the same clock."""
    facts = folders.get(path, folders.FACTS)
    rules = Rules(Limits(**facts.get("limits", {})), config.number("lease_seconds"), bool(facts.get("terminal")))
    able = adapter.abilities(str(facts.get("version", "")))._replace(mcp=bool(facts.get("tools")))
    ago = max(0.0, app.clock.now() - float(facts.get("began", app.clock.now())))
    return Session(path, claim.session.id, adapter, able, rules, app.clock, ago=ago)


def _order(
    app: App, wish: Wish, client: Client, task: Task, placed: Placed, path: str, session: str, baton: str
) -> Order:
    able = client.adapter.abilities(client.version)
    file = os.path.join(path, folders.BATON)
    if wish.resume:
        prompt = wish.reason or f"Go on with task '{task.label}'. Your baton is {file}."
    elif able.start_context:
        prompt = f"Do task '{task.label}' as the baton says that you were given at the start. It is also in {file}."
    else:
        prompt = baton
    client_id = wish.resume or (_uuid() if able.choose_id else "")
    own, tools, walled = own_words(), able.mcp and has_mcp(), placed.wall != sandbox.NONE
    return Order(
        client.program, prompt, placed.folder, os.path.join(path, folders.CLIENT) if walled else path, session, client_id,
        state=os.path.join(wish.state, folders.CLIENT) if walled and wish.state else wish.state,
        hook=(*own, "hook") if client.adapter.dialect else (), mcp=(*own, "mcp") if tools else (),
        endpoint=endpoints.address(app) if tools and not walled else "",  # a wall has one door
        owned=placement.owned_places(placed.folder, task.patterns), writable=(app.settings.home, _temp(app)), model=wish.model, version=client.version, limits=wish.limits,
        sandboxed=walled,
        words=wish.words,
    )  # fmt: skip


def _uuid() -> str:
    from uuid import uuid4

    return str(uuid4())


def _temp(app: App) -> str:
    return app.settings.get("TMPDIR") or "/tmp"  # noqa: S108 - where programs put scratch files


def _baton(app: App, config: Config, task: Task, placed: Placed) -> str:
    batch = batches.get(app.database, key=task.batch) if task.batch is not None else None
    parts = [
        part for part in (tasks.of_batch(app.database, batch=task.batch) if task.batch is not None else ())
        if part.kind != tasks.FAN_IN
    ]  # fmt: skip
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


def watch(app: App, begun: Begun, *, tell: Callable[[str], None] | None = None) -> Settled:
    """Stay with the session until it is over, keep its tree, and settle what comes of the task."""
    outcome = wait(app, begun)
    save(app, begun.claim)
    settled = conclude.settle(app, claim=begun.claim, outcome=outcome)
    running.forget(app, begun.claim.session.id)
    if tell is not None:
        tell(settled.words)
    return settled


def wait(app: App, begun: Begun) -> Outcome:
    """Stay until nothing of the session runs any more; signs of life renew the lease."""
    look = running.Look(app, begun.claim, begun.session)
    outcome = supervise(begun.session, look=look)
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
        vault = snapshots.open_vault(app, folder=workspace)
        taken = snapshots.snapshot(app, vault=vault, wish=Kept("phase", session=claim.session.id))
        publish.publish_patiently(app, task=claim.task, fence=claim.fence, folder=workspace, session=claim.session.id)
        return str(taken.sha)
    except Away:
        raise
    except HandoffError as error:
        return f"not saved: {error.message}"


def attach(app: App, *, session: str) -> Begun:
    """Take up the supervision of a session whose supervisor is gone."""
    known, path = known_session(app, session)
    facts = folders.get(path, folders.FACTS)
    if not facts or known.ended_at is not None:
        raise UserError(f"Session {session} is over.", f"See: {app.settings.program} session log {session}")
    task = tasks.get(app.database, key=int(facts["key"]))
    return attached(app, leases.Claim(task, known, int(facts["fence"]), task.lease_seconds, repeated=True))


def has_begun(app: App, claim: Claim) -> bool:
    """Whether the session of a claim was ever started."""
    return folders.has_begun(folders.place(app.settings.home, claim.task.project, claim.session.id))


def attached(app: App, claim: Claim) -> Begun:
    """The session of a claim that has begun, living or over."""
    config = home_config(app)
    adapter = catalog.adapter(claim.session.agent, commands=config.values["agents"], where=config.path)
    path = folders.place(app.settings.home, claim.task.project, claim.session.id)
    return Begun(_session(app, config, claim, path, adapter), claim._replace(repeated=True), path)


def resumed(app: App, *, session: str, reason: str = "") -> Wish:
    """The wish that continues a session's conversation, with the same agent and the same task."""
    known, path = known_session(app, session)
    facts, outcome = folders.get(path, folders.FACTS), folders.get(path, folders.OUTCOME)
    client_id = str(outcome.get("client_id") or facts.get("client_id") or "")
    if not client_id:
        raise Refused(
            f"Session {known.id} left no conversation to resume.",
            f"Start a fresh one: {app.settings.program} session start {facts.get('task', '')} --agent {known.agent}",
        )
    return Wish(
        known.agent, str(facts.get("task", "")), known.project, str(facts.get("model", "")), resume=client_id,
        state=str(facts.get("state") or path), reason=reason, wall=str(facts.get("wall", "")),
        workspace=str(facts.get("kind", "")),
    )  # fmt: skip
