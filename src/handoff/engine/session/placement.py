"""Where a session works: the person's own checkout, or a clone of its own that the next session of the task goes on in; how its client is
started there: its environment, and inside a sandbox what it may write, see and ask for; and whether the task's check can run there."""

from __future__ import annotations

import os
import re
import shlex
import threading

from handoff.agents import catalog
from handoff.agents import folder as folders
from handoff.agents.sandbox.policy import hosts_in, is_allowed_variable
from handoff.agents.sandbox.sandbox import ADVICE, BUBBLEWRAP, NOTHING, WORDS, wrap
from handoff.base.clock import stamp
from handoff.base.errors import ConfigError, Refused
from handoff.base.files import make_folder
from handoff.base.process import own_argv, run
from handoff.base.record import TYPE_CHECKING, Record
from handoff.base.settings import PROJECT_FOLDER, without_guard
from handoff.board.sessions import holds, leases
from handoff.board.tasks import batches, races, tasks
from handoff.checks.commands import NOT_STARTED, Verdict
from handoff.engine.app.home import home_config
from handoff.engine.outcome import kinds
from handoff.engine.place import task_clones, task_work, workspaces
from handoff.engine.place.landing import conflict
from handoff.engine.place.proof import evidence, faults
from handoff.engine.place.proof.sandboxes import (
    network_of,
    present_layer,
    refuse_open_network,
    sandbox_of_folder,
    with_dependencies,
    workspace_at,
)
from handoff.engine.safety import snapshots
from handoff.git import guard
from handoff.git.ownership import Ownership
from handoff.git.plumbing import find_top
from handoff.git.plumbing.objects import Repository
from handoff.git.plumbing.snapshot_repo import CHECKOUTS
from handoff.git.workspaces import write_workspace
from handoff.git.workspaces.dependencies import withdraw

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from handoff.agents.contract import Launch, LaunchRequest
    from handoff.agents.sandbox.policy import Policy
    from handoff.base.settings import Config
    from handoff.board.sessions.leases import Claim
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.engine.place.proof.sandboxes import Sandbox
    from handoff.engine.safety.snapshots import SnapshotStore
    from handoff.engine.session.agents import Client
    from handoff.git.workspaces import Workspace

AUTO, CLONE, SHARED = "auto", "clone", "shared"
WORKSPACES = (AUTO, CLONE, SHARED)
NONE, WORKSPACE, OWNED = "none", "workspace", "owned"
KINDS = (NONE, WORKSPACE, OWNED)
SANDBOXES = (AUTO, *KINDS)


class Placement(Record):
    """Where a session works, what it may write there, and inside which sandbox: found once, at its start, and handed on."""

    folder: str
    kind: str
    clone: Workspace | None = None
    """The task's own clone, if the session works in one."""
    snapshot_store: SnapshotStore | None = None
    """Of the checkout that the clone was made from."""
    workspace: Workspace | None = None
    """The workspace of ours that the folder is, also a flow's; None in a person's own checkout."""
    shared_git: str = ""
    """The git folder that all sessions of the project share; empty outside of git."""
    reach: Mapping[str, bool] = {}
    """What the ownership can reach, and whether it is owned whole."""
    owned: tuple[str, ...] = ()
    """The same as files and folders that are there."""
    sandbox: str = NONE
    layer: str = NOTHING
    policy: Policy | None = None
    """The sandbox's policy for the workspace alone; what the client needs is not in it yet."""
    words: str = ""
    """What a person should be told: that no sandbox stands around it, for example."""


def place(
    app: App,
    config: Config,
    *,
    task: Task,
    session: str,
    workspace: str = "",
    sandbox: str = "",
    attended: bool = False,
) -> Placement:
    """The folder and the sandbox of a new session: as wished, else as the settings say, else a clone inside a sandbox.

    Where nothing can be cloned, and where a person sits before it (`attended`), a task is worked on in their own checkout.
    """
    of_project = str(config.values["session_workspace_project"].get(task.project, ""))
    wanted = _setting(config, "session_workspace", workspace or of_project, WORKSPACES)
    behind = _setting(config, "session_sandbox", sandbox, SANDBOXES)
    _setting(config, "landing", str(config.values["landing_project"].get(task.project, "")), tasks.LANDINGS)
    if task.is_from_inside:  # whoever wrote it could not choose to be outside
        wanted, behind = CLONE, WORKSPACE if behind in (AUTO, NONE) else behind
    found = _folder(app, task, session, clone=_wants_clone(app, task, attended) if wanted == AUTO else wanted == CLONE)
    if task.kind == tasks.ENTRANT and found.kind != CLONE and not _is_brought(app, task):
        raise Refused(
            f"'{task.label}' runs in a race: it needs a clone of its own, beside the others'.",
            "Let sessions work in clones: session_workspace = 'auto' in the settings, or leave --workspace out.",
        )
    found = found._replace(owned=_owned(found))
    auto = behind == AUTO
    if auto:
        apart = found.kind == CLONE or (_is_brought(app, task) and task.kind in (*tasks.PARTS, tasks.FAN_IN))
        behind = WORKSPACE if apart or task.kind == tasks.PHASE else NONE
    if behind == NONE:
        found = _noted(found, withdraw(found.workspace)) if found.workspace is not None else found
        bare = found.kind == SHARED and wanted != SHARED and not attended and task.kind == tasks.TASK
        return found._replace(words=_no_clone(found)) if bare else found
    found, (layer, policy) = _sandbox(app, found, config.texts("session_caches"), checkout=task.workspace)
    if layer == NOTHING and sandbox in ("", AUTO) and not task.is_from_inside:
        return found._replace(words=f"No sandbox: {WORDS[NOTHING]}. {ADVICE}")
    documents = all(path.startswith(PROJECT_FOLDER + "/") for path in found.reach)
    if auto and task.kind == tasks.PHASE and documents and layer == BUBBLEWRAP:
        behind = OWNED  # a phase that owns documents alone, such as a review, reads the code only
    _refuse_missing(behind, layer)
    return found._replace(sandbox=behind, layer=layer, policy=policy)


def _sandbox(app: App, found: Placement, caches: Sequence[str], *, checkout: str) -> tuple[Placement, Sandbox]:
    if found.workspace is None:
        return found, sandbox_of_folder(app, folder=found.folder, caches=caches)
    theirs = checkout if found.clone is not None else ""  # a flow's task says where the flow works
    furnished = with_dependencies(app, workspace=found.workspace, checkout=theirs, caches=caches)
    return _noted(found, furnished.workspace), furnished.sandbox


def _noted(found: Placement, workspace: Workspace) -> Placement:
    """The same place with what its workspace is lent now, also in its record."""
    if found.workspace is None or found.workspace.lent == workspace.lent:
        return found
    write_workspace(workspace)
    return found._replace(workspace=workspace, clone=found.clone and workspace)


def check_sandbox(app: App, *, sandbox: str) -> None:
    """Refuse a sandbox this machine cannot build, before anything is claimed."""
    if sandbox in (WORKSPACE, OWNED):
        _refuse_missing(sandbox, present_layer(app))


def _refuse_missing(sandbox: str, layer: str) -> None:
    if layer == NOTHING or (sandbox == OWNED and layer != BUBBLEWRAP):
        raise Refused(
            f"This machine has no sandbox of the kind '{sandbox}'.",
            "Install bubblewrap (apt install bubblewrap), or start the session without --sandbox.",
        )


def _setting(config: Config, key: str, said: str, known: tuple[str, ...]) -> str:
    value = said or config.text(key)
    if value not in known:
        raise ConfigError(f"{config.path}: {key} is '{value}'.", f"Use one of: {', '.join(known)}.")
    return value


def _no_clone(found: Placement) -> str:
    why = "its repository has no commit yet" if found.shared_git else f"{found.folder} is not a git repository"
    return f"No clone: {why}. The session works in the folder itself, and nothing keeps it inside."


def _wants_clone(app: App, task: Task, attended: bool) -> bool:
    wanted = kinds.KINDS[task.kind].clone
    if wanted == "joining":
        return any(races.facts_of(part) or task_clones.of_task(app, part) for part in task_clones.parts(app, task))
    return (
        wanted == "always" or (wanted == "owning" and bool(task.patterns)) or (wanted == "unattended" and not attended)
    )


def _is_brought(app: App, task: Task) -> bool:
    """Whether the task's work came here from another machine, into a checkout of its own."""
    return task.workspace.startswith(os.path.join(app.settings.home, task.project, CHECKOUTS) + os.sep)


def _folder(app: App, task: Task, session: str, *, clone: bool) -> Placement:
    """The folder alone; no sandbox is chosen yet.

    Phases of a flow share a checkout; a task brought from another machine has one to itself already; and where there is no
    commit yet, nothing can be cloned.
    """
    reach, top = Ownership.parse(task.patterns).reach, find_top(task.workspace)
    if clone and top and kinds.KINDS[task.kind].clone and not _is_brought(app, task):
        snapshot_store = snapshots.open_snapshot_store(app, folder=top, project=task.project)
        made = task_work.begin(app, snapshot_store, task, session=session)
        if made is not None:
            return Placement(
                folder=made.tree,
                kind=CLONE,
                clone=made,
                snapshot_store=snapshot_store,
                workspace=made,
                shared_git=snapshot_store.place.source.common,
                reach=reach,
            )
    return Placement(
        folder=task.workspace,
        kind=SHARED,
        workspace=workspace_at(top) if top else None,
        shared_git=Repository(top, {}).common if top else "",
        reach=reach,
    )


def _owned(found: Placement) -> tuple[str, ...]:
    """What the ownership reaches, for a sandbox and for clients that are fenced by folders.

    None of them can open a way to what is not there: a folder is made, and a new file is reached by its folder.
    """
    owned: dict[str, None] = {}
    for path in found.reach:
        place = os.path.join(found.folder, path)
        if not os.path.lexists(place):
            place = os.path.dirname(place)
            make_folder(place)
        owned[place.rstrip("/")] = None
    return tuple(owned)


_KEPT = ("HANDOFF_HOME", "HANDOFF_HOST", "HANDOFF_DATABASE_URL", "HANDOFF_SANDBOX")
_INSIDE = ("HANDOFF_ROLE", "HANDOFF_SHARED", "HANDOFF_PROGRAM")
"""What is for the guarded git: outside nothing is guarded, and nothing of the session's runs."""
_ROLES = {"sub-task": "sub-task", "fan-in": "fan-in"}


class ClientCommand(Record):
    """How a client is started: its monitor's environment, and what the monitor reads: the words, what differs inside."""

    environment: dict[str, str]
    order: dict[str, object]


def client_command(
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


# --- before the first session of a task: whether its check can run there. Red is expected; not to be started is not. ----------


_PLAIN_WORD = re.compile(r"[\w./+-]+")
_SHELL_WORDS = re.compile(r"""'[^']*'|"(?:\\.|[^"\\])*"|\\.|&&|[(){}`\n<;|&]""", re.DOTALL)
_HARD = frozenset("(){}`\n<;|&")
_RED = "(this piece is red; the next one is tried all the same)"
_PROBE_SECONDS = 20.0
_NO_MODULE = 66
_HAS_MODULE = (
    "import sys, importlib.util as u; sys.path.insert(0, sys.argv[1]);"
    f" sys.exit({_NO_MODULE} if u.find_spec(sys.argv[2].split('.')[0]) is None else 0)"
)
_LOCKS: dict[str, threading.Lock] = {}


def is_ready_to_work(app: App, claim: Claim, placement: Placement, ran: dict[str, str]) -> bool:
    """Refuse to begin where the check cannot run, before anybody is paid; False when the workspace must be made anew.

    Of every check its program is looked for. For a batch each check runs once on the untouched clone; `ran` remembers which did.
    """
    task = claim.task
    first = claim.fence <= 1 or holds.of_task(app.database, key=task.key, host=app.settings.host) is not None
    if not task.check_command or not first or task.kind == tasks.PHASE:
        return True
    try:
        _look_for_program(app, task, placement.folder)
        if task.batch is None:
            return True
        return _try_once(app, claim, placement, ran)
    except faults.GroundFault:
        if not _changes(app, placement):
            _drop(app, placement)  # the next one is made of what the person has mended by then
        raise


def _look_for_program(app: App, task: Task, folder: str) -> None:
    try:
        word, *rest = shlex.split(task.check_command) or [""]
    except ValueError:
        return  # the shell will say what is wrong with it
    if not _PLAIN_WORD.fullmatch(word):
        return
    environment = app.settings.environment
    asked = ["/bin/sh", "-c", 'command -v -- "$1"', "handoff", word]
    if run(asked, environment=environment, cwd=folder, timeout=_PROBE_SECONDS).code:
        tail = f"sh: 1: {word}: not found"
        missing = Verdict(command=task.check_command, code=NOT_STARTED[-1], seconds=0.0, tail=tail)
        faults.refuse_unready(app, task, missing, folder=folder)
    elif word.startswith("python") and "/" not in word and len(rest) > 1 and rest[0] == "-m":
        # Found, not imported, and asked elsewhere: nothing of the folder runs here.
        done = run([word, "-c", _HAS_MODULE, folder, rest[1]], environment=environment, cwd="/", timeout=_PROBE_SECONDS)
        if done.code == _NO_MODULE:
            tail = f"{word}: No module named {rest[1]}"
            missing = Verdict(command=task.check_command, code=1, seconds=0.0, tail=tail)
            faults.refuse_unready(app, task, missing, folder=folder)


def _try_once(app: App, claim: Claim, placement: Placement, ran: dict[str, str]) -> bool:
    task, clone = claim.task, placement.clone
    key = f"check of {task.project} {task.batch} in a {placement.kind}: {task.check_command}"
    with _LOCKS.setdefault(key, threading.Lock()):  # the parts of a batch begin together
        if key in ran:
            return True
        touched, sandboxed = _changes(app, placement), clone is not None or placement.sandbox != NONE
        trial = task._replace(check_command=each_piece(task.check_command))
        verdict = evidence.run_task_check(app, trial, placement.folder, sandboxed=sandboxed, clone=clone)
        later = _RED in verdict.tail  # what a red piece was to make, no later one can miss
        faults.refuse_unready(
            app,
            task._replace(owns="[]") if later else task,
            verdict._replace(command=task.check_command),
            folder=placement.folder,
        )
        ran[key] = verdict.word
    leases.heartbeat(app.database, key=task.key, fence=claim.fence)  # it may have taken long
    if touched or not _changes(app, placement):
        return True
    _drop(app, placement)  # what the check left there is nobody's work
    return False


def each_piece(command: str) -> str:
    """A check to try: in `A && B` B is tried though A is red, as it is before the work. Of anything harder to read all is tried as it is."""
    ends = [found.span() for found in _SHELL_WORDS.finditer(command) if found[0] == "&&"]
    if not ends or any(found[0] in _HARD for found in _SHELL_WORDS.finditer(command)):
        return command
    begins = [0, *(end for _, end in ends)]
    pieces = [command[at:end].strip() for at, end in zip(begins, [*(at for at, _ in ends), len(command)], strict=True)]
    go_on = f"\nhandoff_code=$?\ncase $handoff_code in 0) ;; 126|127) exit $handoff_code ;; *) echo '{_RED}' ;; esac\n"
    return go_on.join(pieces) if all(pieces) else command


def _changes(app: App, placement: Placement) -> bool:
    if placement.clone is None or placement.snapshot_store is None:
        return False
    return bool(task_work.changes(app, placement.snapshot_store, placement.clone).changed)


def _drop(app: App, placement: Placement) -> None:
    if placement.clone is not None:
        workspaces.remove_workspace(app, name=placement.clone.name, snapshot_store=placement.snapshot_store)


def _joins_nothing(app: App, claim: Claim) -> bool:
    """Whether a fan-in is new and has one part, which fits the branch as it is: the part's own work is what lands."""
    task = claim.task
    if task.kind != tasks.FAN_IN or task.attempt > 1 or len(task_clones.parts(app, task)) != 1:
        return False
    placement = place(app, home_config(app), task=task, session=claim.session.id)
    if (
        placement.clone is None
        or placement.snapshot_store is None
        or conflict.of_workspace(placement.clone) is not None
    ):
        return False
    return bool(task_clones.kept_parts(app, placement.snapshot_store, task))  # what was done by hand may be uncommitted


def refuse_held(app: App, agent: str) -> None:
    """Its provider has just refused another session: nobody pays to hear that again, unless a person says that it is over."""
    held = holds.of_agent(app.database, agent=agent, host=app.settings.host)
    if held is not None and held.until > app.clock.now():
        raise Refused(
            f"Agent {agent} is to start later, after {stamp(held.until)}: {held.reason}",
            f"Wait, or if that is over: {app.settings.program} agent retry {agent}",
        )


def is_only_to_judge(app: App, claim: Claim) -> bool:
    """Whether nothing is left to do but to check and land: then no session is paid for that.

    A session made the work and only its check could not run, or it is the fan-in of a single part.
    """
    task, held = claim.task, holds.of_task(app.database, key=claim.task.key, host=app.settings.host)
    if _joins_nothing(app, claim):
        return True
    if held is None or not held.session:
        return False
    # What a sandboxed session wrote is judged inside a sandbox, and only its own clone or its flow's says that it must be.
    apart = kinds.is_judged_later(task) or task_clones.of_task(app, task) is not None
    return apart or not task_clones.is_sandboxed(app, project=task.project, session=held.session)
