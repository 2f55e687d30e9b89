"""The environment inside the sandbox: what programs need to run, what the agent needs for its provider, what is allowed by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from handoff.base.redaction import has_credentials, says_secret

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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


def matches(name: str, allowed: Iterable[str]) -> bool:
    """Whether a variable is one of these names, or begins as those that end in `*`."""
    return any(name.startswith(one[:-1]) if one.endswith("*") else name == one for one in allowed)


def _is_kept(name: str, value: str, allowed: Iterable[str]) -> bool:
    if matches(name, allowed) or name in PROXIES:
        return True
    if name not in _PLAIN and not name.startswith(_FAMILIES):
        return False
    return not says_secret(name) and not has_credentials(value)
