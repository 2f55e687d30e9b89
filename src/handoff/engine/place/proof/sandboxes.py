"""A session inside its sandbox: which folders belong to it, what a person allows programs there, and a command started there."""

from __future__ import annotations

import os

from handoff.agents.sandbox.home import editable, sockets
from handoff.agents.sandbox.policy import ALL, NETWORKS, NONE, PROVIDERS, Policy
from handoff.agents.sandbox.sandbox import BUBBLEWRAP, LANDLOCK, NOTHING, SEATBELT, Wrapped, layer, wrap
from handoff.base.errors import ConfigError, Refused, UserError
from handoff.base.files import make_folder, write_atomic
from handoff.base.record import TYPE_CHECKING, Record
from handoff.base.redaction import has_credentials, redact, says_secret
from handoff.engine.app.home import home_config
from handoff.engine.place.proof.faults import GroundFault
from handoff.git.plumbing import Git, find_top, open_source, untrusted
from handoff.git.plumbing.snapshot_repo import STORE, Location, SnapshotRepo, find_place
from handoff.git.plumbing.untrusted import FROZEN, beside, is_clone
from handoff.git.workspaces import CLONE, GIT_SETTINGS, SHARED, TEMP, Workspace, read_workspace
from handoff.git.workspaces.dependencies import find_dependencies, lend, withdraw
from handoff.git.workspaces.kinds import Cloned, LentHistory, is_lent

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from handoff.base.settings import Config
    from handoff.engine.app import App

_WHY_NOT = {
    LANDLOCK: "it knows ports and no addresses, so the port of the proxy would be open on every host, and UDP is not held at all",
    SEATBELT: "its profile knows no hosts",
}


class Sandbox(Record):
    """Which layer holds, and the policy it is given."""

    layer: str
    policy: Policy

    def wrap(self, argv: Sequence[str], environment: Mapping[str, str]) -> Wrapped:
        """The command as it must be started to run inside. The policy is whole by now: nothing is added to the words."""
        refuse_open_network(self.policy, self.layer)
        return wrap(self.policy, argv, environment, by=self.layer)


def refuse_open_network(policy: Policy, layer: str) -> None:
    """A list of hosts that this machine's sandbox cannot hold is refused, not forgotten."""
    if policy.network == PROVIDERS and layer not in (BUBBLEWRAP, NOTHING):
        raise Refused(
            f"The network is to be kept to a list of hosts, and {layer} cannot do that: {_WHY_NOT[layer]}.",
            'Install bubblewrap (apt install bubblewrap), or set session_network to "all" or "none".',
        )


def refuse_astray(sandbox: Sandbox, environment: Mapping[str, str]) -> None:
    """Without a sandbox nothing hides the person's checkout: a check that would import it instead of the clone is not run."""
    fixed = editable(sandbox.policy, environment).fixed if sandbox.layer == NOTHING else ()
    if fixed:
        raise GroundFault(
            f"The check would test your checkout instead of the clone: a package is installed in editable mode from {fixed[0]}.",
            "Install bubblewrap (apt install bubblewrap), let HANDOFF_WORKSPACE_SETUP name a command that installs it in each clone,"
            " or work in your checkout: handoff work --in-checkout",
        )


def sandbox_of_workspace(
    app: App, *, workspace: Workspace, network: bool = True, caches: Sequence[str] = (), terminal: bool = False
) -> Sandbox:
    """The sandbox around one workspace: the person's checkout, $HANDOFF_HOME and the other sessions are outside."""
    git = os.path.join(workspace.tree, ".git")
    # Beside the tree, also beside a scratch tree; never beside a person's own checkout.
    folder = os.path.dirname(workspace.tree) if workspace.kind != SHARED else workspace.folder
    hidden = [app.settings.home]
    writable = [os.path.abspath(os.path.expanduser(path)) for path in caches]
    checkouts = checkouts_of(workspace.project) if workspace.kind == CLONE else []
    visible: list[str] = []
    if workspace.kind == CLONE:
        hidden += checkouts
        visible = [*borrowed_objects(app, workspace), *workspace.lent.values()]
    elif (common := open_source(workspace.tree).common) != git:
        git = common
        writable.append(common)  # a linked worktree cannot work without the shared git folder
    policy = Policy(
        workspace=workspace.tree,
        temp=os.path.join(folder, TEMP),
        home=app.settings.get("HOME") or os.path.expanduser("~"),
        writable=tuple(writable),
        hidden=tuple(hidden),
        visible=tuple(visible),
        stands_for=tuple(checkouts),
        frozen=tuple(os.path.join(git, name) for name in FROZEN),
        network=ALL if network else NONE,
        terminal=terminal,
    )
    checkout = next(iter(checkouts), "") if workspace.kind == CLONE else workspace.tree
    policy = with_allowances(app, policy, checkout=checkout, project=os.path.basename(workspace.project))
    return Sandbox(present_layer(app), policy)


class Furnished(Record):
    """A clone with the dependencies it is lent, and the sandbox that keeps it from writing them."""

    workspace: Workspace
    sandbox: Sandbox


def with_dependencies(app: App, *, workspace: Workspace, checkout: str = "", caches: Sequence[str] = ()) -> Furnished:
    """Lend a clone the dependencies of the person's checkout, and find its sandbox; without one it is lent nothing."""
    if (lender := _lender(app, workspace, checkout)) is not None:
        workspace = lend(*lender, workspace)
    sandbox = sandbox_of_workspace(app, workspace=workspace, caches=caches)
    return Furnished(withdraw(workspace) if sandbox.layer == NOTHING else workspace, sandbox)


def for_check(app: App, *, workspace: Workspace, checkout: str = "", caches: Sequence[str] = ()) -> Furnished:
    """A clone with what its check is lent: also what came to the person's checkout after the session began. Nothing is linked yet."""
    lender = _lender(app, workspace, checkout)
    more = find_dependencies(*lender) if lender is not None else {}
    free = {name: real for name, real in more.items() if not os.path.lexists(os.path.join(workspace.tree, name))}
    lent = workspace._replace(lent={**workspace.lent, **free})
    sandbox = sandbox_of_workspace(app, workspace=lent, caches=caches)
    return Furnished(workspace if sandbox.layer == NOTHING else lent, sandbox)


def _lender(app: App, workspace: Workspace, checkout: str = "") -> tuple[Location, SnapshotRepo] | None:
    """The person's checkout a clone was made from, if it is still there, and its snapshots."""
    top = checkout or next(iter(checkouts_of(workspace.project)), "")
    if workspace.kind != CLONE or find_top(top or os.sep) is None:
        return None
    place = find_place(top, home=app.settings.home, project=os.path.basename(workspace.project))
    return place, SnapshotRepo(place.store, app.settings.environment)


def borrowed_objects(app: App, workspace: Workspace) -> list[str]:
    """The objects a clone reads that are not its own: the history of its base, and nothing else that lies there."""
    objects = os.path.join(workspace.tree, ".git", "objects")
    if not os.path.isdir(objects):
        return []  # a scratch tree has no git folder
    made = untrusted.kept(beside(workspace.folder)) if is_clone(workspace.tree) else {}
    known = (made or {}).get("objects/info/alternates") or _line(os.path.join(objects, "info", "alternates"))
    found = LentHistory(os.path.dirname(known.strip()))
    if is_lent(workspace.project, found.objects) and os.path.isdir(found.objects):
        return found.places
    # A clone from before histories were lent, or whose history is gone from the disk, gets one.
    lender = _lender(app, workspace) if workspace.base else None
    return [] if lender is None else Cloned(app.git_environment).lend(*lender, workspace).places


def sandbox_of_folder(
    app: App, *, folder: str = ".", network: bool = True, caches: Sequence[str] = (), terminal: bool = False
) -> Sandbox:
    """The sandbox around the checkout that holds `folder`: a workspace of ours, or any other."""
    top = find_top(folder)
    if top is None:
        raise UserError("This is not a git repository.", "Go to a checkout, or use: handoff -C DIR workspace run …")
    workspace = workspace_at(top)
    if workspace is None:
        place = find_place(top, home=app.settings.home, project=app.settings.get("HANDOFF_PROJECT"))
        workspace = Workspace(name=place.workspace, kind=SHARED, project=place.project, tree=top)
    return sandbox_of_workspace(app, workspace=workspace, network=network, caches=caches, terminal=terminal)


def workspace_at(top: str) -> Workspace | None:
    """The workspace of ours whose tree is the checkout at `top`."""
    found = read_workspace(os.path.dirname(top))
    return found if found is not None and os.path.realpath(found.tree) == os.path.realpath(top) else None


def inside(app: App, *, sandbox: Sandbox, argv: Sequence[str], workspace: Workspace | None = None) -> Wrapped:
    """The command as it must be started to run inside the sandbox."""
    return sandbox.wrap(argv, {**app.settings.environment, **(workspace.environment() if workspace else {})})


def present_layer(app: App) -> str:
    """What this machine has; the wanted one can be named by HANDOFF_SANDBOX."""
    wanted = app.settings.get("HANDOFF_SANDBOX")
    if wanted == NOTHING:
        return NOTHING
    facts = (wanted, app.settings.path)
    before, found = app.known.get("sandbox layer", ((), NOTHING))
    if before != facts or found == NOTHING:  # what works goes on working, what does not may be installed meanwhile
        found = layer(app.settings.environment, wanted=wanted)
        app.known["sandbox layer"] = (facts, found)
    return str(found)


def allowances(app: App) -> dict[str, list[str]]:
    """What the settings allow beside the usual."""
    config = home_config(app)
    names = {what: f"session_{what}" for what in ("files", "caches", "variables", "hosts")}
    return {"network": [config.text("session_network")], **{what: config.texts(key) for what, key in names.items()}}


def checkouts_of(project: str) -> list[str]:
    """The person's checkout a project's workspaces are made from, as the store remembers it, and its linked worktrees."""
    common = _line(os.path.join(project, STORE, "project"))
    if not common:
        return []
    tops = [os.path.dirname(common) if os.path.basename(common) == ".git" else common]
    linked = os.path.join(common, "worktrees")
    names = os.listdir(linked) if os.path.isdir(linked) else ()
    tops += [os.path.dirname(_line(os.path.join(linked, name, "gitdir"))) for name in names]
    return [top for top in tops if top]


def _line(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read().strip("\n")
    except OSError:
        return ""


_SCOPES = ("global", "command")
_SECTIONS = frozenset(
    """user author committer core init commit tag alias branch pull push merge mergetool diff difftool rebase color column log format fetch
    rerere advice help status stash grep blame i18n pack gc index submodule safe feature apply am filter lfs interactive pager
    checkout clone clean sequence sparse versionsort worktree show notes pretty protocol url""".split()
)
_LEFT_OUT = frozenset(
    """commit.gpgsign tag.gpgsign push.gpgsign user.signingkey core.sshcommand core.askpass core.gitproxy core.fsmonitor
    core.hookspath core.worktree""".split()
)
"""What asks for keys, sockets or programs that are not there inside."""
_HTTP = frozenset("http.sslcainfo http.sslverify http.proxy http.version http.postbuffer".split())
_NAME_FILES = frozenset("core.excludesfile core.attributesfile commit.template http.sslcainfo".split())


def network_of(config: Config, *said: str) -> str:
    """How far the network reaches: the strictest of what is said holds."""
    for one in said:
        if one not in NETWORKS:
            raise ConfigError(f"{config.path}: the network is '{one}'.", f"Use one of: {', '.join(NETWORKS)}.")
    return max(said, key=NETWORKS.index)


def with_allowances(app: App, policy: Policy, *, checkout: str, project: str) -> Policy:
    """The policy of a workspace with what the settings allow and without what this machine must not show.

    The git settings are those that hold in the person's own `checkout`: who one is may depend on the folder.
    """
    config = home_config(app)
    files = [
        os.path.abspath(os.path.join(policy.home, os.path.expanduser(path))) for path in config.texts("session_files")
    ]
    needed = (policy.workspace, policy.temp, policy.home, app.settings.home, *policy.hidden, *policy.writable)
    settings, named = _git_settings(app, policy, checkout)
    return policy._replace(
        hidden=(*policy.hidden, *sockets(app.settings.environment, needed)),
        visible=(*policy.visible, *files, *named),
        variables=tuple(config.texts("session_variables")),
        git_settings=settings,
        network=network_of(
            config,
            policy.network,
            config.text("session_network"),
            str(config.values["session_network_project"].get(project, ALL)),
        ),
        hosts=tuple(config.texts("session_hosts")),
    )


def _git_settings(app: App, policy: Policy, checkout: str) -> tuple[str, list[str]]:
    """A file beside the session's temp folder with the person's settings, and the files these name."""
    top = checkout if os.path.isdir(checkout) else policy.home
    answer = Git(top, app.git_environment, ()).git("config", "--list", "-z", "--show-scope")
    if answer.code:
        return "", []
    parts = answer.text.split("\0")
    lines, named = [], []
    for scope, entry in zip(parts[::2], parts[1::2], strict=False):
        key, _, value = entry.partition("\n")
        if scope not in _SCOPES or not _is_harmless(key, value):
            continue
        lines.append(_setting_line(key, value))
        if key in _NAME_FILES:
            named.append(os.path.join(policy.home, os.path.expanduser(value)))
    folder = os.path.dirname(policy.temp)
    for one in (app.settings.home, folder):  # the first of all that is made may be the home itself
        make_folder(one, mode=0o700)
    path = os.path.join(folder, GIT_SETTINGS)
    write_atomic(path, "".join(lines), mode=0o600, sync=False)
    return path, [name for name in named if os.path.isfile(name)]


def _is_harmless(key: str, value: str) -> bool:
    section = key.partition(".")[0]
    if key in _LEFT_OUT or (section not in _SECTIONS and key not in _HTTP):
        return False
    if section == "url" and "@" in key:
        return False  # a password, or the way over ssh, for which there is no key
    return not says_secret(key.rpartition(".")[2]) and not has_credentials(value) and not redact(value)[1]


def _setting_line(key: str, value: str) -> str:
    section, _, rest = key.partition(".")
    below, _, name = rest.rpartition(".")
    head = f'[{section} "{_quoted_value(below)}"]' if below else f"[{section}]"
    return f'{head}\n\t{name} = "{_quoted_value(value)}"\n'.replace("\r", "")


def _quoted_value(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
