"""What a session inside its sandbox may touch: paths, variables of the environment, hosts of the network."""

from __future__ import annotations

import re
import socket

from handoff.base.record import TYPE_CHECKING, Record
from handoff.base.redaction import has_credentials, says_secret

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ALL, PROVIDERS, NONE = "all", "providers", "none"
NETWORKS = (ALL, PROVIDERS, NONE)
"""How far the network reaches, the widest first."""


class Policy(Record):
    """What a session may touch.

    The disk can be read, not written; `hidden` and the person's home cannot even be read, but for toolchains and `visible`.
    """

    workspace: str
    temp: str
    home: str
    owned: tuple[str, ...] | None = None
    """What of the workspace can be written, if not all of it."""
    writable: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    visible: tuple[str, ...] = ()
    frozen: tuple[str, ...] = ()
    stands_for: tuple[str, ...] = ()
    """Checkouts of the person that are hidden and whose paths, where something names them, mean the workspace."""
    variables: tuple[str, ...] = ()
    """Names of variables that are there inside beside those every program needs; a `*` at the end stands for many."""
    git_settings: str = ""
    """The person's own git settings without secrets, as a file; they stand in for those of the home."""
    network: str = ALL
    hosts: tuple[str, ...] = ()
    """What is reached where the network is `providers`: `name`, `*.name`, or with `:port`."""
    refused: str = ""
    """The file in which hosts are written down that were asked for and are not on that list."""
    terminal: bool = False
    unseen: bool = False
    """Held without a world of processes of its own: for a run that shall find what it would find without a sandbox."""


PROXIES = tuple(
    name for one in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "FTP_PROXY") for name in (one, one.lower())
)
_NEVER = frozenset(("HANDOFF_DATABASE_URL", "HANDOFF_TOKEN"))
"""Where the relay's rows are, with a password perhaps, and what proves who asks."""
_PLAIN = frozenset(
    """PATH HOME USER LOGNAME SHELL HOSTNAME PWD OLDPWD SHLVL LANG LANGUAGE TERM COLORTERM TERM_PROGRAM TZ NO_COLOR FORCE_COLOR COLUMNS LINES
    EDITOR VISUAL PAGER LESS MANPATH INFOPATH CI DEBIAN_FRONTEND SOURCE_DATE_EPOCH COMPOSE_PROJECT_NAME PORT TMPDIR TEMP TMP
    XDG_CONFIG_HOME XDG_CONFIG_DIRS XDG_DATA_HOME XDG_DATA_DIRS XDG_STATE_HOME XDG_CACHE_HOME
    SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE
    CC CXX CPP CFLAGS CXXFLAGS CPPFLAGS LDFLAGS LDLIBS MAKE MAKEFLAGS MAKELEVEL CPATH LIBRARY_PATH LD_LIBRARY_PATH DYLD_LIBRARY_PATH
    JAVA_HOME JDK_HOME JAVA_OPTS JAVA_TOOL_OPTIONS M2_HOME VIRTUAL_ENV VIRTUAL_ENV_PROMPT PS1 N_PREFIX BUN_INSTALL
    BUNDLE_PATH BUNDLE_GEMFILE BUNDLE_WITHOUT BUNDLE_JOBS GIT_EXEC_PATH GIT_CEILING_DIRECTORIES GIT_EDITOR GIT_PAGER GIT_SSL_CAINFO
    GIT_CONFIG_GLOBAL GIT_CONFIG_SYSTEM GIT_CONFIG_NOSYSTEM GIT_TERMINAL_PROMPT GIT_OPTIONAL_LOCKS""".split()
)
_FAMILIES = tuple(
    """LC_ CLICOLOR HANDOFF_ GIT_AUTHOR_ GIT_COMMITTER_ PYTHON PYTEST PIP_ PIPX_ UV_ POETRY_ PDM_ HATCH_ TOX_ CONDA_ MAMBA_ PYENV_ NODE_ NPM_CONFIG_
    npm_config_ NVM_ FNM_ VOLTA_ PNPM_ YARN_ COREPACK_ DENO_ CARGO RUST GO CGO_ GRADLE_ MAVEN_ SDKMAN_ KOTLIN_ SBT_ ANDROID_ DOTNET_ NUGET_ GEM_ RUBY
    RBENV_ ASDF_ MISE_ PERL LUA OPAM GHCUP_ STACK_ ELAN_ JULIA_ NIX_ CMAKE_ MESON_ PKG_CONFIG CCACHE_ SCCACHE_DIR PLAYWRIGHT_BROWSERS
    FLUTTER_ ELECTRON_ OMP_ MKL_ OPENBLAS_ COVERAGE_ JEST_ MOCHA_""".split()
)
"""Names of toolchains begin so; one that says secret, or holds an address with a password, is left out all the same."""


def inside_environment(environment: Mapping[str, str], allowed: Iterable[str]) -> dict[str, str]:
    """The variables that are there inside. `allowed` are names of the agent's and the person's own, a `*` at the end for many."""
    names = tuple(allowed)
    return {name: value for name, value in environment.items() if name not in _NEVER and _is_kept(name, value, names)}


def is_allowed_variable(name: str, allowed: Iterable[str]) -> bool:
    """Whether a variable is one of these names, or begins as those that end in `*`."""
    return any(name.startswith(one[:-1]) if one.endswith("*") else name == one for one in allowed)


def _is_kept(name: str, value: str, allowed: Iterable[str]) -> bool:
    if is_allowed_variable(name, allowed) or name in PROXIES:
        return True
    if name not in _PLAIN and not name.startswith(_FAMILIES):
        return False
    return not says_secret(name) and not has_credentials(value)


_URL = r"(https?)://(?:[^\s/@\"']*@)?(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(\d+))?"
_USUAL_PORTS = (443, 80)
_PORTS = {"https": 443, "http": 80}
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_METADATA = ("100.100.100.200", "fd00:ec2::254", "168.63.129.16")


def hosts_in(texts: Iterable[str]) -> tuple[str, ...]:
    """Every `host:port` that addresses in these texts name."""
    found: dict[str, None] = {}
    for text in texts:
        if "://" in text:
            for scheme, host, port in re.findall(_URL, text):
                found[f"{host.lower()}:{port or _PORTS[scheme]}"] = None
    return tuple(found)


def split_host(entry: str, port: int = 0) -> tuple[str, int]:
    """A host and its port, `port` where none is said; an IPv6 address with a port stands in brackets."""
    host, colon, number = entry.rpartition(":")
    if colon and number.isdigit() and (":" not in host or host.endswith("]")):
        return host.strip("[]").lower().rstrip("."), int(number)
    return entry.strip("[]").lower().rstrip("."), port


def loopback_ports(entries: Iterable[str]) -> list[int]:
    """The ports of this machine itself that are on the list, such as that of a model server of the person's own."""
    return [port for host, port in map(split_host, entries) if host in _LOOPBACK and port]


class HostList:
    """The hosts on the list; what is not on it is refused by name, and some addresses are refused whatever is on it."""

    def __init__(self, entries: Iterable[str]) -> None:
        self._entries = [split_host(entry) for entry in entries]

    def has(self, host: str, port: int) -> bool:
        """Whether a host may be reached at a port: without one on the list, at the usual ones of the web."""
        return any(
            _is_host(host, name) and (port == number if number else port in _USUAL_PORTS)
            for name, number in self._entries
        )

    def addresses(self, host: str, port: int) -> list[tuple[int, tuple[str, int]]]:
        """Where a host of the list is, without addresses nobody reaches: those of the link, of metadata, of everybody."""
        import ipaddress

        found = []
        for family, _, _, _, place in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            address = ipaddress.ip_address(str(place[0]).partition("%")[0])
            plain = getattr(address, "ipv4_mapped", None) or address
            local = plain.is_loopback and not any(host == name for name, number in self._entries if number == port)
            if not (
                plain.is_link_local or plain.is_multicast or plain.is_unspecified or local or str(plain) in _METADATA
            ):
                found.append((int(family), (str(place[0]), port)))
        return found


def _is_host(host: str, name: str) -> bool:
    if name.startswith("*."):
        return host.endswith(name[1:]) and not host.replace(".", "").isdigit()
    return host == name
