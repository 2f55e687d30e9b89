"""What a person allows programs inside a sandbox: files and variables by name, and their git settings without secrets."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from handoff.agents.sandbox.home import sockets
from handoff.agents.sandbox.policy import ALL, NETWORKS
from handoff.base.errors import ConfigError
from handoff.base.files import make_folder, write_atomic
from handoff.base.redaction import has_credentials, redact, says_secret
from handoff.engine.home import home_config
from handoff.git.plumbing import Git
from handoff.git.workspaces.workspaces import GIT_SETTINGS

if TYPE_CHECKING:
    from handoff.agents.sandbox.policy import Policy
    from handoff.base.settings import Config
    from handoff.engine.app import App

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
        lines.append(_line(key, value))
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


def _line(key: str, value: str) -> str:
    section, _, rest = key.partition(".")
    below, _, name = rest.rpartition(".")
    head = f'[{section} "{_quoted(below)}"]' if below else f"[{section}]"
    return f'{head}\n\t{name} = "{_quoted(value)}"\n'.replace("\r", "")


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
