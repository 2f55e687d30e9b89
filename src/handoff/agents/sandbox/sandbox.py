"""The sandbox around a session: which layer this machine has, and a command wrapped in it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NamedTuple

from handoff.agents.sandbox.landlock import OLDEST, launcher_words, version
from handoff.base.files import SOURCES
from handoff.base.process import capture, find

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from handoff.agents.sandbox.policy import Policy

BUBBLEWRAP, LANDLOCK, SEATBELT, NOTHING = "bubblewrap", "landlock", "sandbox-exec", "none"
LAYERS = (BUBBLEWRAP, LANDLOCK, SEATBELT)
WORDS = {
    BUBBLEWRAP: "the disk is read-only but for the workspace; own processes; other sessions and secrets do not exist inside",
    LANDLOCK: "the disk is read-only but for the workspace; sockets of other programs and git's settings stay reachable",
    SEATBELT: "the disk is read-only but for the workspace; other sessions' folders cannot be read",
    NOTHING: "nothing on this machine keeps a session inside its folder; snapshots are the only protection",
}
ADVICE = "Install bubblewrap (apt install bubblewrap, dnf install bubblewrap) to keep sessions inside their folders."
# Keys, tokens and sockets a coding session has no business with, below the home folder.
_SECRETS = tuple(
    """.ssh .gnupg .aws .azure .config/gcloud .config/gh .config/glab-cli .kube .docker .netrc .git-credentials
    .config/git/credentials .password-store .pypirc .mozilla .config/google-chrome .local/share/keyrings .tmux""".split()
)
_FORGOTTEN = frozenset(
    """SSH_AUTH_SOCK SSH_AGENT_PID GPG_AGENT_INFO TMUX TMUX_PANE STY DBUS_SESSION_BUS_ADDRESS XDG_RUNTIME_DIR GIT_ASKPASS
    SSH_ASKPASS GH_TOKEN GITHUB_TOKEN GITLAB_TOKEN DOCKER_HOST AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN
    HANDOFF_DATABASE_URL HANDOFF_TOKEN""".split()
)
"""Sockets and tokens, where the relay's rows are (with a password perhaps), and what proves who asks."""
# Names resolve through these even when the rest of /run, with everybody's sockets, is gone.
_RUN_KEPT = tuple(
    f"/run/{name}" for name in "systemd/resolve NetworkManager resolvconf current-system opengl-driver".split()
)
_PROBE = "--ro-bind / / --dev /dev --proc /proc --unshare-pid --unshare-ipc true".split()
_APART = "--die-with-parent --unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup-try --cap-drop ALL".split()
_SHORTEST_ROOT = 3
_TMP, _SHARED_MEMORY = "/tmp", "/dev/shm"  # noqa: S108 - inside, both are the session's own


class Wrapped(NamedTuple):
    """A command inside the sandbox: what to start, and with which environment."""

    argv: list[str]
    environment: dict[str, str]


def layer(environment: Mapping[str, str], *, wanted: str = "") -> str:
    """The strongest layer that works here, or the wanted one if it does."""
    for name in (wanted,) if wanted else LAYERS:
        if _works(name, environment):
            return name
    return NOTHING


def _works(name: str, environment: Mapping[str, str]) -> bool:
    path = environment.get("PATH", os.defpath)
    if name == BUBBLEWRAP:
        program = find("bwrap", path=path)
        if program is None:
            return False
        return capture([program, *_PROBE], environment=environment).code == 0
    if name == LANDLOCK:
        return version() >= OLDEST
    if name == SEATBELT:
        return sys.platform == "darwin" and find("sandbox-exec", path=path) is not None
    return False


def wrap(policy: Policy, argv: Sequence[str], environment: Mapping[str, str], *, by: str) -> Wrapped:
    """The command as it must be started so that layer `by` holds it."""
    os.makedirs(policy.temp, mode=0o700, exist_ok=True)
    inside = session_environment(policy, environment)
    policy = policy._replace(visible=(*policy.visible, *_programs(policy, environment)))
    if by == BUBBLEWRAP:
        program = find("bwrap", path=environment.get("PATH", os.defpath)) or "bwrap"
        inside["TMPDIR"] = _TMP  # a folder of its own, bound there
        return Wrapped([program, *bubblewrap_words(policy), "--", *argv], inside)
    if by == LANDLOCK:
        return Wrapped([*launcher_words(policy, secrets(policy)), "--", *argv], inside)
    if by == SEATBELT:
        return Wrapped(["sandbox-exec", "-p", seatbelt_profile(policy), *argv], inside)
    return Wrapped(list(argv), inside)


def session_environment(policy: Policy, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment inside: no sockets, no tokens, caches and temp of its own."""
    kept = {key: value for key, value in environment.items() if key not in _FORGOTTEN}
    cache = os.path.join(policy.temp, "cache")
    kept.update(TMPDIR=policy.temp, XDG_CACHE_HOME=cache, npm_config_cache=os.path.join(cache, "npm"))
    kept.setdefault("CARGO_NET_GIT_FETCH_WITH_CLI", "false")
    return kept


def secrets(policy: Policy) -> list[str]:
    """Folders and files with keys or tokens that exist on this machine."""
    found = [os.path.join(policy.home, name) for name in _SECRETS]
    return [path for path in found if os.path.lexists(path) and not _inside(path, policy.writable)]


def bubblewrap_words(policy: Policy) -> list[str]:
    """The options for bwrap. Order matters: later ones lie over earlier ones."""
    words = [*_APART]
    words += [] if policy.network else ["--unshare-net"]
    words += [] if policy.terminal else ["--new-session"]
    words += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/run"]
    for path in _RUN_KEPT:
        words += ["--ro-bind-try", path, path]
    words += ["--bind", policy.temp, _TMP]
    if _inside(policy.home, (_TMP,)):  # a home below it must not vanish with it
        words += ["--ro-bind", policy.home, policy.home]
    if os.path.isdir(_SHARED_MEMORY):
        words += ["--tmpfs", _SHARED_MEMORY]
    covered = _outermost([*policy.hidden, *secrets(policy)])
    for path in covered:
        words += ["--tmpfs", path] if os.path.isdir(path) else ["--ro-bind", os.devnull, path]
    for path in _existing(policy.visible):
        words += ["--ro-bind", path, path]
    for path in _existing((policy.temp, *policy.writable)):
        words += ["--bind", path, path]
    words += ["--bind" if policy.owned is None else "--ro-bind", policy.workspace, policy.workspace]
    for path in _existing(policy.owned or ()):
        words += ["--bind", path, path]
    git = os.path.join(policy.workspace, ".git")
    if os.path.isdir(git):
        words += ["--bind", git, git]  # a mount of its own cannot be renamed away
    for path in _existing(policy.frozen):
        words += ["--ro-bind", path, path]
    for path in covered:  # an empty folder that took writes would only pretend they were kept
        words += ["--remount-ro", path] if os.path.isdir(path) and not _inside(path, (policy.workspace,)) else []
    return [*words, "--chdir", policy.workspace]


def seatbelt_profile(policy: Policy) -> str:
    """A profile for macOS: the last rule that matches wins."""

    def quoted(path: str) -> str:
        return '"' + os.path.realpath(path).replace("\\", "\\\\").replace('"', '\\"') + '"'

    rules = ["(version 1)", "(allow default)", "(deny file-write*)"]
    rules += [f"(deny file-read* file-write* (subpath {quoted(path)}))" for path in (*policy.hidden, *secrets(policy))]
    rules += [f"(allow file-read* (subpath {quoted(path)}))" for path in policy.visible]
    rules += ['(allow file-write* (subpath "/dev"))']
    rules += [
        f"(allow file-read* file-write* (subpath {quoted(path)}))"
        for path in (policy.temp, *policy.writable, policy.workspace)
    ]
    rules += [f"(deny file-write* (subpath {quoted(path)}))" for path in policy.frozen]
    rules += ["(deny signal (target others))", *([] if policy.network else ["(deny network*)"])]
    return "\n".join(rules)


def _programs(policy: Policy, environment: Mapping[str, str]) -> list[str]:
    """Where PATH and Python find programs inside folders that are hidden or replaced: a venv in the checkout, say."""
    covered = [*policy.hidden, _TMP, "/run"]
    roots = [
        os.path.dirname(folder) if os.path.basename(folder) in ("bin", "shims") else folder
        for folder in environment.get("PATH", "").split(os.pathsep)
        if folder.startswith("/")
    ]
    roots += [sys.prefix, sys.base_prefix, SOURCES]
    writable = [policy.temp, policy.workspace, *policy.writable]
    return [
        root
        for root in dict.fromkeys(roots)
        if _inside(root, covered)
        and not _inside(root, writable)
        and root not in covered
        and len(root.split("/")) >= _SHORTEST_ROOT
        and os.path.isdir(root)
    ]


def _inside(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)


def _existing(paths: Iterable[str]) -> list[str]:
    return [path for path in dict.fromkeys(paths) if os.path.lexists(path)]


def _outermost(paths: Iterable[str]) -> list[str]:
    """Existing paths without those that lie inside another one of them, links resolved."""
    found = sorted({os.path.realpath(path) for path in paths if os.path.lexists(path)})
    return [path for path in found if not _inside(path, [other for other in found if other != path]) and path != "/"]
