"""How a session's client is started: its environment, and inside a sandbox what it may write, see and ask for."""

from __future__ import annotations

import os

from handoff.agents import catalog
from handoff.agents import folder as folders
from handoff.agents.sandbox.policy import hosts_in, is_allowed_variable
from handoff.agents.sandbox.sandbox import wrap
from handoff.base.files import make_folder
from handoff.base.process import own_argv
from handoff.base.record import TYPE_CHECKING, Record
from handoff.base.settings import PROJECT_FOLDER, without_guard
from handoff.board.tasks import batches, tasks
from handoff.engine.app.home import home_config
from handoff.engine.place.proof.sandboxes import network_of, refuse_open_network
from handoff.engine.session.placement import OWNED
from handoff.git import guard

if TYPE_CHECKING:
    from collections.abc import Mapping

    from handoff.agents.contract import Launch, LaunchRequest
    from handoff.agents.sandbox.policy import Policy
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.engine.session.agent_programs import Client
    from handoff.engine.session.placement import Placement

_KEPT = ("HANDOFF_HOME", "HANDOFF_HOST", "HANDOFF_DATABASE_URL", "HANDOFF_SANDBOX")
_INSIDE = ("HANDOFF_ROLE", "HANDOFF_SHARED", "HANDOFF_PROGRAM")
"""What is for the guarded git: outside nothing is guarded, and nothing of the session's runs."""
_ROLES = {"sub-task": "sub-task", "fan-in": "fan-in"}


class ClientCommand(Record):
    """How a client is started: its monitor's environment, and what the monitor reads: the words, what differs inside."""

    environment: dict[str, str]
    order: dict[str, object]


def command(
    app: App, *, placement: Placement, task: Task, client: Client, launch: Launch, request: LaunchRequest, folder: str
) -> ClientCommand:
    """The client as it is started, inside its sandbox if it has one.

    Inside, the relay's home and the person's checkout do not exist, and the person's own home can be read, not written.
    The client keeps its state in its session's own folder, and what it wants of the relay goes through the broker.
    """
    environment = {**_environment(app, placement, task, client, request), **launch.environment}
    if placement.policy is None:
        _logins(app.settings.get("HOME") or os.path.expanduser("~"), request.state or request.folder, client, launch)
        return ClientCommand(environment, {"argv": list(launch.argv)})
    socket = os.path.join(folder, folders.BROKER)
    policy = _policy(placement, placement.policy, client, launch, request, folder)
    policy = _with_network(app, policy, client, launch, request, environment)._replace(
        refused=os.path.join(folder, folders.REFUSED)
    )
    refuse_open_network(policy, placement.layer)
    inside = wrap(policy, launch.argv, environment, by=placement.layer)
    mine = {name: value for name, value in inside.environment.items() if name != "HANDOFF_HOME"}
    mine["HANDOFF_BROKER"] = socket
    outer = {name: value for name, value in environment.items() if name not in _INSIDE}
    outer["PATH"] = without_guard(environment.get("PATH", os.defpath))
    order: dict[str, object] = {
        "argv": inside.argv,
        "broker": list(own_argv("handoff.surfaces.broker")),
        "without": [name for name in outer if name not in mine],
        "with": {name: value for name, value in mine.items() if outer.get(name) != value},
    }
    return ClientCommand(outer, order)


def _environment(app: App, placement: Placement, task: Task, client: Client, request: LaunchRequest) -> dict[str, str]:
    """The person's, without another session's; the mark, the claim, and the guarded git first on the PATH."""
    kept = {
        name: value
        for name, value in app.settings.environment.items()
        if not name.startswith("HANDOFF_") or name in _KEPT
    }
    if placement.workspace is not None:
        kept.update(placement.workspace.environment())
    kept["PATH"] = os.pathsep.join((app.settings.path, os.path.dirname(client.own[0])))
    if placement.shared_git:  # a clone's own git folder is not what sessions share
        role = _ROLES.get(task.kind, "main")
        kept.update(
            guard.session_environment(
                app.settings.home, role, kept["PATH"], shared=placement.shared_git, program=client.own[0]
            )
        )
    if task.patterns:
        kept["HANDOFF_OWNS"] = "\n".join(task.patterns)
    return {
        **kept,
        "HANDOFF_HOME": app.settings.home,
        "HANDOFF_SESSION": request.session,
        "HANDOFF_PROJECT": task.project,
        "HANDOFF_TASK": task.label,
        "HANDOFF_FENCE": str(task.fence),
        **_batch_of(app, task),
        "HANDOFF_TOKEN": request.token,
        **({"HANDOFF_HOOKS": "own"} if request.hook else {}),
    }


def _batch_of(app: App, task: Task) -> dict[str, str]:
    """Which batch the session works for, and which part of it, as scripts of handoff-fanout read it."""
    if task.batch is None:
        return {}
    part = {"HANDOFF_SUB_TASK_ID": task.id} if task.kind in tasks.PARTS else {}
    return {"HANDOFF_BATCH_ID": batches.get(app.database, key=task.batch).id, **part}


def _policy(
    placement: Placement, policy: Policy, client: Client, launch: Launch, request: LaunchRequest, folder: str
) -> Policy:
    """The policy of the workspace with what this client and this task need: whole before anything is wrapped."""
    broker = os.path.dirname(os.path.join(folder, folders.BROKER))
    # A resumed client's conversation lies in the first session's folder.
    own, state = request.folder, request.state or request.folder
    for path in (broker, own, state):
        make_folder(path, mode=0o700)
    owned = (*placement.owned, os.path.join(policy.workspace, PROJECT_FOLDER)) if placement.sandbox == OWNED else None
    adapter = client.adapter
    seen, renewed = _logins(policy.home, state, client, launch)
    return policy._replace(
        owned=owned,
        writable=(*policy.writable, own, state, *renewed),
        visible=(*policy.visible, broker, os.path.join(folder, folders.BATON), *seen),
        variables=(*policy.variables, *adapter.secrets, *adapter.variables, *launch.environment, *launch.variables),
    )


def _with_network(
    app: App, policy: Policy, client: Client, launch: Launch, request: LaunchRequest, environment: Mapping[str, str]
) -> Policy:
    """What the client reaches where the network is by list: its provider, also where the person's own settings name another."""
    config = home_config(app)
    said = catalog.network(client.adapter.name, commands=config.values["agents"], where=config.path) or policy.network
    values = [value for name, value in environment.items() if is_allowed_variable(name, policy.variables)]
    words = [word for word in launch.argv if word != request.prompt]  # a brief may name anything
    hosts = (*policy.hosts, *client.adapter.hosts, *hosts_in((*values, *words)))
    return policy._replace(network=network_of(config, policy.network, said), hosts=tuple(dict.fromkeys(hosts)))


def _logins(home: str, folder: str, client: Client, launch: Launch) -> tuple[list[str], list[str]]:
    """Show the client in its own folder what it needs of the person's home: what it reads there, and what it must be able to renew."""
    seen: list[str] = []
    writable: list[str] = []
    for theirs, ours, renewed in (*client.adapter.logins, *launch.reads):
        path, link = os.path.join(home, theirs), os.path.join(folder, ours)
        if not os.path.exists(path):
            continue
        if ours:
            folders.refuse_detour(folder, link)
            make_folder(os.path.dirname(link), mode=0o700)
            if not os.path.lexists(link):
                os.symlink(path, link)
        (writable if renewed else seen).append(path)
    return seen, writable
