"""The sandbox around a session: which layer this machine has, and a command wrapped in it."""

from __future__ import annotations

import os
import sys

from handoff.agents.sandbox.home import checkout_links, homes, inside, of_program, python_path, secrets_in, shown_places
from handoff.agents.sandbox.landlock import OLDEST, holds_abstract_sockets, launcher_words, scope_words, version
from handoff.agents.sandbox.policy import ALL, PROVIDERS, Policy, inside_environment
from handoff.agents.sandbox.proxy import inner_words, outer_words
from handoff.base.process import capture, find
from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

BUBBLEWRAP, LANDLOCK, SEATBELT, NOTHING = "bubblewrap", "landlock", "sandbox-exec", "none"
LAYERS = (BUBBLEWRAP, LANDLOCK, SEATBELT)
WORDS = {
    BUBBLEWRAP: "the disk is read-only but for the workspace; own processes; your home, other sessions and sockets do not exist inside",
    LANDLOCK: "the disk is read-only but for the workspace, your home cannot be read; sockets of other programs stay reachable",
    SEATBELT: "the disk is read-only but for the workspace; other sessions' folders cannot be read",
    NOTHING: "nothing on this machine keeps a session inside its folder; snapshots are the only protection",
}
ADVICE = "Install bubblewrap (apt install bubblewrap, dnf install bubblewrap) to keep sessions inside their folders."
# Names resolve through these even when the rest of /run, with everybody's sockets, is gone.
_RUN_KEPT = tuple(
    f"/run/{name}" for name in "systemd/resolve NetworkManager resolvconf current-system opengl-driver".split()
)
_PROBE = "--ro-bind / / --dev /dev --proc /proc --unshare-pid --unshare-ipc true".split()
_PROCESSES = "--unshare-pid"
_APART = "--die-with-parent --unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup-try --cap-drop ALL".split()
_HIDE, _SHOW, _OPEN = "--tmpfs", "--ro-bind", "--bind"
_RUN = "/run"
_TMP, _SHARED_MEMORY = "/tmp", "/dev/shm"  # noqa: S108 - inside, both are the session's own


class Wrapped(Record):
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
    within = session_environment(policy, environment)
    if by != BUBBLEWRAP and (path := python_path(policy, environment)):
        within["PYTHONPATH"] = path  # bubblewrap lets the checkout's own path lead to the workspace
    policy = _with_places(policy, argv, environment)
    if by == BUBBLEWRAP:
        program = find("bwrap", path=environment.get("PATH", os.defpath)) or "bwrap"
        within["TMPDIR"] = _TMP  # a folder of its own, bound there
        words = [program, *bubblewrap_words(policy), "--"]
        if policy.network == PROVIDERS:
            words = [*outer_words(policy.hosts, policy.refused), *words, *inner_words(policy.hosts)]
        elif policy.network == ALL:  # abstract sockets belong to the network, which is shared
            words += scope_words()
        return Wrapped([*words, *argv], within)
    if by == LANDLOCK:
        return Wrapped([*launcher_words(policy), "--", *argv], within)
    if by == SEATBELT:
        return Wrapped(["sandbox-exec", "-p", seatbelt_profile(policy), *argv], within)
    return Wrapped(list(argv), within)


def session_environment(policy: Policy, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment inside: what is on the list, with caches and temp of its own."""
    kept = inside_environment(environment, policy.variables)
    cache = os.path.join(policy.temp, "cache")
    kept.update(TMPDIR=policy.temp, XDG_CACHE_HOME=cache, npm_config_cache=os.path.join(cache, "npm"))
    kept.setdefault("CARGO_NET_GIT_FETCH_WITH_CLI", "false")
    if policy.git_settings:
        kept["GIT_CONFIG_GLOBAL"] = policy.git_settings
    return kept


def _with_places(policy: Policy, argv: Sequence[str], environment: Mapping[str, str]) -> Policy:
    """The policy with all that is hidden on this machine, and with what must be seen of it all the same."""
    hidden = [os.path.realpath(path) for path in policy.hidden if os.path.lexists(path)]
    hidden += homes(policy)
    covered = [*hidden, _TMP, _RUN, _SHARED_MEMORY]
    shown = _placed(policy, [*policy.visible, policy.git_settings, *of_program(argv[0], covered)])
    tools = shown_places(policy, covered, environment)
    hidden += [path for path in secrets_in(tools) if path not in shown]
    return policy._replace(
        hidden=tuple(dict.fromkeys(hidden)),
        visible=(*shown, *tools),
        writable=tuple(_placed(policy, policy.writable)),
    )


def _placed(policy: Policy, paths: Iterable[str]) -> list[str]:
    """Where things really are, because nothing can be mounted over a link; in the home, which is empty, also by their names."""
    found: list[str] = []
    for path in _existing(paths):
        found.append(os.path.realpath(path))
        if path.startswith(policy.home.rstrip("/") + "/"):
            found.append(os.path.join(os.path.realpath(policy.home), os.path.relpath(path, policy.home)))
    return list(dict.fromkeys(found))


def bubblewrap_words(policy: Policy) -> list[str]:
    """The options for bwrap. Order matters: later ones lie over earlier ones."""
    unseen = policy.unseen and policy.network == ALL and holds_abstract_sockets()  # else signals reach everybody
    words = [word for word in _APART if not unseen or word != _PROCESSES]
    words += [] if policy.network == ALL else ["--unshare-net"]
    words += [] if policy.terminal else ["--new-session"]
    words += ["--ro-bind", "/", "/", "--dev", "/dev", *([] if unseen else ["--proc", "/proc"]), "--tmpfs", _RUN]
    for path in _RUN_KEPT:
        words += ["--ro-bind-try", path, path]
    words += ["--bind", policy.temp, _TMP]
    if os.path.isdir(_SHARED_MEMORY):
        words += ["--tmpfs", _SHARED_MEMORY]
    covered, placed, rules = _places(policy)
    empty = [top for one in policy.stands_for if _around(top := os.path.realpath(one), rules) == _HIDE]
    words += [*placed, *checkout_links(policy.workspace, empty, rules)]
    if policy.git_settings and (homes_here := homes(policy)):
        words += ["--ro-bind", policy.git_settings, os.path.join(homes_here[0], ".gitconfig")]
    words += ["--bind" if policy.owned is None else "--ro-bind", policy.workspace, policy.workspace]
    for path in _existing(policy.owned or ()):
        words += ["--bind", path, path]
    git = os.path.join(policy.workspace, ".git")
    if os.path.isdir(git):
        words += ["--bind", git, git]  # a mount of its own cannot be renamed away
    for path in _existing(policy.frozen):
        words += ["--ro-bind", path, path]
    for path in covered:  # an empty folder that took writes would only pretend they were kept
        words += ["--remount-ro", path] if not inside(path, (policy.workspace,)) else []
    return [*words, "--chdir", policy.workspace]


def _places(policy: Policy) -> tuple[list[str], list[str], dict[str, str]]:
    """The folders that are covered, the words that cover and show, and the rules they keep.

    The outer come first, so that the innermost rule holds. What lies in a covered folder already is not covered once more, and what nothing covers need not be shown.
    """
    rules: dict[str, str] = dict.fromkeys(policy.hidden, _HIDE)
    rules.update(dict.fromkeys(_existing(policy.visible), _SHOW))
    rules.update(dict.fromkeys(_existing((policy.temp, *policy.writable)), _OPEN))
    done = {"/": _SHOW, _TMP: "", _SHARED_MEMORY: "", _RUN: _HIDE}  # the session's own folders are none of the three
    covered, words = [], []
    for path in sorted(rules, key=lambda one: (one.count("/"), one)):
        rule = rules[path]
        if rule == _around(path, done):
            continue
        done[path] = rule
        if rule != _HIDE:
            words += [rule, path, path]
        elif os.path.isdir(path):
            covered.append(path)
            words += [_HIDE, path]
        else:
            words += [_SHOW, os.devnull, path]
    return covered, words, done


def _around(path: str, done: Mapping[str, str]) -> str:
    """The rule that holds at a place so far: that of the nearest folder above it."""
    while path not in done:
        path = os.path.dirname(path)
    return done[path]


def seatbelt_profile(policy: Policy) -> str:
    """A profile for macOS: the last rule that matches wins."""

    def quoted(path: str) -> str:
        return '"' + os.path.realpath(path).replace("\\", "\\\\").replace('"', '\\"') + '"'

    rules = ["(version 1)", "(allow default)", "(deny file-write*)"]
    rules += [f"(deny file-read* file-write* (subpath {quoted(path)}))" for path in policy.hidden]
    rules += ["(allow file-read-metadata)"]  # or no way leads through a hidden folder to what is shown in it
    rules += [f"(allow file-read* (subpath {quoted(path)}))" for path in policy.visible]
    rules += ['(allow file-write* (subpath "/dev"))']
    rules += [
        f"(allow file-read* file-write* (subpath {quoted(path)}))"
        for path in (policy.temp, *policy.writable, policy.workspace)
    ]
    rules += [f"(deny file-write* (subpath {quoted(path)}))" for path in policy.frozen]
    rules += ["(deny signal (target others))", *([] if policy.network == ALL else ["(deny network*)"])]
    return "\n".join(rules)


def _existing(paths: Iterable[str]) -> list[str]:
    return [path for path in dict.fromkeys(paths) if path and os.path.exists(path)]
