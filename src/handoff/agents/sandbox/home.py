"""What of a person's machine is there inside the sandbox: toolchains of the home and what is allowed by name; no sockets of others.

A clone stands in for the person's checkout: what names a path there means the clone, also a package installed in editable mode. Else a
check in the clone would import the person's own files, and test what the session never touched."""

from __future__ import annotations

import ast
import itertools
import json
import os
import re
import stat
import sys
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from handoff.base.files import SOURCES
from handoff.base.record import TYPE_CHECKING
from handoff.base.redaction import without_secrets

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from handoff.agents.sandbox.policy import Policy

TOOLS = tuple(
    """.local/bin .local/lib .local/pipx .local/share/pipx .local/share/uv .local/share/mise .local/share/rtx .local/share/fnm
    .local/share/nvm .local/share/pnpm .local/share/virtualenvs .local/share/claude .local/share/hatch .local/share/rustup
    .local/share/gem .local/share/coursier .local/share/pdm .local/state/fnm_multishells
    bin .cargo/bin .cargo/env .cargo/registry .cargo/git .rustup .nvm .fnm .volta .nodenv .n .npm-global .yarn/bin
    .config/yarn/global .bun/bin .bun/install .deno/bin .pyenv .virtualenvs .venvs .venv .conda/envs .conda/pkgs miniconda3
    anaconda3 miniforge3 mambaforge .pixi/bin .pixi/envs .micromamba .rye .asdf .mise .rbenv .rvm .gem/ruby .chruby .goenv go/bin
    go/pkg .go sdk .jenv .jdks .sdkman .jabba .m2/repository .m2/wrapper .gradle/caches .gradle/wrapper .ivy2/cache .sbt/boot
    .coursier .cabal/bin .cabal/store .cabal/packages .ghcup .stack/programs .stack/snapshots .opam .elan .juliaup .julia/juliaup
    .julia/packages .julia/artifacts .julia/registries .julia/compiled .nix-profile .nix-defexpr .dotnet .nuget/packages
    .pub-cache/bin .pub-cache/hosted .composer/vendor .config/composer/vendor .luarocks .perl5 perl5 .plenv .swiftly .zvm
    .cache/ms-playwright .cache/puppeteer .cache/Cypress .cache/pypoetry/virtualenvs .cache/pre-commit .cache/node
    .cache/bazelisk .cache/electron .cache/prisma .claude/local .opencode/bin""".split()
)
"""Toolchains and their caches, where people and installers put them. Settings, where tokens stand, are not among them."""
_NAMED_BY = tuple(
    """VIRTUAL_ENV CONDA_PREFIX PYENV_ROOT UV_PYTHON_INSTALL_DIR NVM_DIR NVM_BIN VOLTA_HOME PNPM_HOME N_PREFIX BUN_INSTALL RUSTUP_HOME
    GOROOT GOBIN GOMODCACHE JAVA_HOME JDK_HOME SDKMAN_DIR MAVEN_HOME M2_HOME GRADLE_HOME ASDF_DIR ASDF_DATA_DIR MISE_DATA_DIR RBENV_ROOT
    GEM_HOME ANDROID_HOME ANDROID_SDK_ROOT DOTNET_ROOT FLUTTER_ROOT PLAYWRIGHT_BROWSERS_PATH SSL_CERT_FILE SSL_CERT_DIR
    REQUESTS_CA_BUNDLE CURL_CA_BUNDLE NODE_EXTRA_CA_CERTS GIT_SSL_CAINFO PIP_CERT CARGO_HOME/bin CARGO_HOME/registry CARGO_HOME/git
    GOPATH/bin GOPATH/pkg""".split()
)
"""Variables that name a toolchain or certificates in a place of the person's own."""
_BESIDE = ("lib", "lib64", "libexec", "include")
_PROGRAM_FOLDERS = ("bin", "sbin")
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/etc", "/dev", "/proc", "/sys", "/boot")
_MOST_FOLDERS = 100
_SECRET = frozenset(
    ".env .npmrc .netrc .pypirc .git-credentials credentials credentials.json credentials.toml .token".split()
)
_MOST_ENTRIES, _LARGEST_SCRIPT = 1000, 1 << 16
_SHORTEST_ROOT = 3
_DEEPEST = 2


def homes(policy: Policy) -> list[str]:
    """The person's home as HOME names it and as the system knows it; none for users whose home is a part of the system."""
    found = [policy.home, os.path.expanduser(f"~{_user()}")]
    real = dict.fromkeys(os.path.realpath(path) for path in found if path)
    return [
        path for path in real if path.count("/") and not inside(path, _SYSTEM) and path != "/" and os.path.isdir(path)
    ]


def _user() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container's made-up user
        return ""


def shown_places(policy: Policy, covered: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """What is shown of the folders that are covered inside: toolchains of the home, and what PATH and variables lead to."""
    found = [os.path.join(home, name) for home in homes(policy) for name in TOOLS]
    for name in _NAMED_BY:
        variable, _, below = name.partition("/")
        if value := environment.get(variable, ""):
            found.append(os.path.join(value, below) if below else value)
    for folder in environment.get("PATH", "").split(os.pathsep)[:_MOST_FOLDERS]:
        if folder.startswith("/") and inside(folder, covered):
            found += _around(folder.rstrip("/"), covered)
    for root in (sys.prefix, sys.base_prefix):
        found += [root, *_base_of(root)]
    found += [base for root in policy.visible for base in _base_of(root)]
    found.append(SOURCES)
    own = [policy.temp, policy.workspace, *policy.writable]
    return [
        path
        for path in dict.fromkeys(found)
        if inside(path, covered) and not inside(path, own) and _is_narrow(path, covered) and os.path.exists(path)
    ]


def secrets_in(places: Iterable[str]) -> list[str]:
    """Files with keys among toolchains, by their names, and scripts of theirs in which a token stands."""
    found = []
    for place in dict.fromkeys(map(os.path.realpath, places)):
        folders = [place]
        for folder in folders:
            for entry in _entries(folder):
                if entry.is_dir(follow_symlinks=False):
                    folders += [entry.path] if folder == place else []
                elif entry.name in _SECRET or entry.name.startswith(".env.") or _holds_token(entry):
                    found.append(entry.path)
    return found


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(itertools.islice(entries, _MOST_ENTRIES))
    except OSError:
        return []


def _holds_token(entry: os.DirEntry[str]) -> bool:
    """Whether it is a script in a folder of programs with a token of a known form."""
    if os.path.basename(os.path.dirname(entry.path)) not in _PROGRAM_FOLDERS or entry.is_symlink():
        return False
    try:
        if not entry.is_file() or entry.stat().st_size > _LARGEST_SCRIPT:
            return False
        with open(entry.path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError):
        return False
    return text.startswith("#!") and without_secrets(text, {}) != text


def of_program(program: str, covered: Sequence[str] = ()) -> list[str]:
    """What a program needs to run, wherever it lies: itself, the package it is a part of, the interpreter it names."""
    if not os.path.isabs(program) or not os.path.isfile(program):
        return []
    real = os.path.realpath(program)
    found = [real]
    for path in dict.fromkeys((real, os.path.realpath(_interpreter(real)) if _interpreter(real) else "")):
        if "/node_modules/" in path:
            found.append(path[: path.index("/node_modules/") + len("/node_modules")])
        elif path:
            found += [place for place in _around(os.path.dirname(path), covered) if place != os.path.dirname(path)]
            found.append(path)
    return [path for path in dict.fromkeys(found) if os.path.exists(path)]


def _around(folder: str, covered: Sequence[str]) -> list[str]:
    """A folder of programs with what belongs to them beside it: a whole virtual environment, else its libraries."""
    root = os.path.dirname(folder)
    if os.path.basename(folder) == ".bin":  # of node_modules
        return [root]
    if os.path.basename(folder) not in _PROGRAM_FOLDERS or root in covered:
        return [folder]
    if os.path.exists(os.path.join(root, "pyvenv.cfg")) or os.path.isdir(os.path.join(root, "conda-meta")):
        return [root, *_base_of(root)]
    return [folder, *(os.path.join(root, name) for name in _BESIDE)]


def _base_of(root: str) -> list[str]:
    """Where the Python of a virtual environment lives that it was made from."""
    try:
        with open(os.path.join(root, "pyvenv.cfg"), encoding="utf-8", errors="replace") as file:
            lines = [line.partition("=") for line in file]
    except OSError:
        return []
    found = [value.strip() for key, _, value in lines if key.strip() == "home"]
    return [os.path.dirname(path) for one in found for path in dict.fromkeys((one, os.path.realpath(one)))]


def _interpreter(path: str) -> str:
    """The program that a script names in its first line."""
    try:
        with open(path, "rb") as file:
            first = file.readline(512)
    except OSError:
        return ""
    return os.fsdecode(first[2:].split()[0]) if first.startswith(b"#!/") else ""


def _is_narrow(path: str, covered: Sequence[str]) -> bool:
    """Whether showing it does not show a whole covered folder, or half the disk."""
    return len(path.split("/")) >= _SHORTEST_ROOT and not any(inside(one, (path,)) for one in covered)


def inside(path: str, folders: Iterable[str]) -> bool:
    """Whether a path is one of the folders or lies in one."""
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)


_FOLDERS = ("XDG_RUNTIME_DIR", "TMUX_TMPDIR", "SCREENDIR", "ZELLIJ_SOCKET_DIR", "TMPDIR")
_ADDRESSES = tuple(
    """SSH_AUTH_SOCK GPG_AGENT_INFO DBUS_SESSION_BUS_ADDRESS DBUS_SYSTEM_BUS_ADDRESS DOCKER_HOST CONTAINER_HOST TMUX
    WAYLAND_DISPLAY PULSE_SERVER KITTY_LISTEN_ON NVIM NVIM_LISTEN_ADDRESS VSCODE_IPC_HOOK_CLI VSCODE_GIT_IPC_HANDLE PGHOST
    MYSQL_UNIX_PORT BUILDKIT_HOST""".split()
)
_KNOWN = tuple(
    """/var/run /var/lib/mysql/mysql.sock /var/lib/incus/unix.socket /var/lib/lxd/unix.socket
    /var/snap/lxd/common/lxd/unix.socket /var/snap/docker/common/run""".split()
)
_GENERAL = frozenset(
    ("/", *(f"/{name}" for name in "var opt srv home usr etc mnt dev root var/tmp var/lib tmp".split()))
)


def sockets(environment: Mapping[str, str], needed: Sequence[str]) -> list[str]:
    """Folders and sockets to hide: those everybody knows, and those the person's variables name.

    A folder that is more than a place for sockets (it holds something `needed`, or half the system) stays; what is known to
    listen there is hidden alone.
    """
    found = [path for path in _KNOWN if os.path.lexists(path) and not os.path.islink(path)]
    for name in _FOLDERS:
        folder = environment.get(name, "").rstrip("/")
        if folder.startswith("/"):
            found += [folder] if _is_own(folder, needed) else [os.path.join(folder, f"tmux-{os.getuid()}")]
    for folder in dict.fromkeys(("/var/tmp", *(environment.get(name, "") for name in ("TMPDIR", "TMP", "TEMP")))):  # noqa: S108 - looked at alone
        used = [one for one in needed if one != environment.get("HOME")]
        found += [path for path in _listening(folder) if not inside(path, used)]
    for name in _ADDRESSES:
        path = _path_in(environment.get(name, ""))
        if path:
            folder = path if os.path.isdir(path) else os.path.dirname(path)
            found.append(folder if _is_own(folder, needed) else path)
    return list(dict.fromkeys(os.path.realpath(path) for path in found if os.path.exists(path)))


def _listening(folder: str) -> list[str]:
    """Sockets in a folder for temporary files, not far down."""
    found, waiting = [], [(folder, 0)] if folder.startswith("/") and folder.strip("/") else []
    for at, depth in waiting:
        for entry in _entries(at):
            try:
                mode = entry.stat(follow_symlinks=False).st_mode
            except OSError:
                continue
            if stat.S_ISSOCK(mode):
                found.append(entry.path)
            elif stat.S_ISDIR(mode) and depth < _DEEPEST and len(waiting) < _MOST_ENTRIES:
                waiting.append((entry.path, depth + 1))
    return found


def _path_in(address: str) -> str:
    """The path in an address such as `unix:path=/run/bus,guid=…`, `unix:///run/docker.sock`, `/tmp/tmux-0/default,12,0`."""
    for start in ("unix:path=", "unix:dir=", "unix:tmpdir=", "unix://", "unix:", ""):
        if address.startswith(start):
            path = address.removeprefix(start).partition(",")[0].partition(";")[0]
            return path.rstrip("/") if path.startswith("/") and path.strip("/") else ""
    return ""


def _is_own(folder: str, needed: Sequence[str]) -> bool:
    real = os.path.realpath(folder)
    return real not in _GENERAL and not any(inside(os.path.realpath(path), (real,)) for path in needed)


# --- the person's checkout ---------------------------------------------------------------------------------------

_ENVIRONMENTS = (".venv", "venv", "env")
_LIBRARIES = ("lib", "lib64")
_MAPPING = re.compile(r"^MAPPING(?::[^=\n]*)? = (\{.*\})\s*$", re.MULTILINE)
_LARGEST = 1 << 20
_MOST_LINKS, _MOST_LETTERS = 200, 40_000  # the words of a command are passed on as one line of at most 128 KB
_PATH = "PYTHONPATH"


class Editable(NamedTuple):
    """Where packages in editable mode are imported from, and those that no search path can lead elsewhere."""

    folders: tuple[str, ...]
    fixed: tuple[str, ...]


def checkout_links(workspace: str, checkouts: Iterable[str], taken: Iterable[str]) -> list[str]:
    """The words for bwrap that put a link into each empty checkout for each entry of the workspace; what is `taken` is shown itself."""
    words: list[str] = []
    tops = list(dict.fromkeys(checkouts))  # one may lie in another: no link leads to a place where more is to be put
    for top in tops:
        if os.path.isdir(top) and not inside(workspace, (top,)):
            words += _links(top, workspace, [*taken, *(one for one in tops if one != top)])
    count = 0
    for at in range(0, len(words), 3):
        count += sum(len(word) + 3 for word in words[at : at + 3])
        if at >= _MOST_LINKS * 3 or count > _MOST_LETTERS:
            return words[:at]
    return words


def _links(place: str, folder: str, taken: Sequence[str]) -> list[str]:
    try:
        entries = sorted(os.scandir(folder), key=lambda one: (not one.is_dir(follow_symlinks=False), one.name))
    except OSError:
        return []
    words = []
    for entry in entries:
        path = os.path.join(place, entry.name)
        if entry.name == ".git" or path in taken:
            continue
        if not any(inside(one, (path,)) for one in taken):
            words += ["--symlink", entry.path, path]
        elif entry.is_dir(follow_symlinks=False):
            words += _links(path, entry.path, taken)
    return words


def python_path(policy: Policy, environment: Mapping[str, str]) -> str:
    """The search path with which packages in editable mode are imported from the workspace instead of the checkout."""
    known = [one for one in environment.get(_PATH, "").split(os.pathsep) if one]
    folders = [*known, *editable(policy, environment).folders] if policy.stands_for else known
    return os.pathsep.join(dict.fromkeys(_moved(one, policy) or one for one in folders))


def _moved(path: str, policy: Policy) -> str:
    """The place in the workspace that a place in a checkout means; empty for any other."""
    for top in policy.stands_for:
        for one in dict.fromkeys((top, os.path.realpath(top))):
            if inside(path, (one,)):
                return os.path.normpath(os.path.join(policy.workspace, os.path.relpath(path, one)))
    return ""


def editable(policy: Policy, environment: Mapping[str, str]) -> Editable:
    """What the person's Python environments import from a checkout that the workspace stands for."""
    folders: dict[str, None] = {}
    fixed: dict[str, None] = {}
    for site in _sites(policy, environment):
        named = False
        for path in _added(site):
            if _moved(path, policy):
                named, folders[path] = True, None
        for name, path in _mapped(site):
            if not _moved(path, policy):
                continue
            named = True
            if os.path.splitext(os.path.basename(path))[0] == name.rpartition(".")[2] and "." not in name:
                folders[os.path.dirname(path)] = None
            else:
                fixed[path] = None
        fixed.update(dict.fromkeys(path for path in _projects(site) if not named and _moved(path, policy)))
    return Editable(tuple(folders), tuple(fixed))


def _sites(policy: Policy, environment: Mapping[str, str]) -> list[str]:
    """The libraries of the environments a command may use: those of the checkout, the active one, and what PATH leads to."""
    roots = [os.path.join(top, name) for top in policy.stands_for for name in _ENVIRONMENTS]
    roots += [environment.get("VIRTUAL_ENV", ""), *policy.visible]
    roots += [os.path.dirname(path.rstrip("/")) for path in environment.get("PATH", "").split(os.pathsep)]
    found = []
    for root in dict.fromkeys(os.path.realpath(root) for root in roots if root):
        if not os.path.isfile(os.path.join(root, "pyvenv.cfg")):
            continue
        for library in _LIBRARIES:
            folder = os.path.join(root, library)
            names = os.listdir(folder) if os.path.isdir(folder) else ()
            found += [os.path.join(folder, name, "site-packages") for name in names if name.startswith("python")]
    return list(dict.fromkeys(os.path.realpath(path) for path in found if os.path.isdir(path)))


def _added(site: str) -> list[str]:
    """The folders that `.pth` files add to Python's search path."""
    found = []
    for name in os.listdir(site):
        if name.endswith((".pth", ".egg-link")):
            for line in _text(os.path.join(site, name)).splitlines():
                words = line.strip()
                if words and not words.startswith(("#", "import ", "import\t")):
                    found.append(os.path.normpath(os.path.join(site, words)))
    return found


def _mapped(site: str) -> list[tuple[str, str]]:
    """Package by package where setuptools' own finder looks."""
    found: list[tuple[str, str]] = []
    for name in os.listdir(site):
        if not name.startswith("__editable__") or not name.endswith("_finder.py"):
            continue
        match = _MAPPING.search(_text(os.path.join(site, name)))
        try:
            value = ast.literal_eval(match[1]) if match else {}
        except (ValueError, SyntaxError):
            value = {}
        found += [(str(package), str(path)) for package, path in value.items()]
    return found


def _projects(site: str) -> list[str]:
    """The folders of projects that are installed in editable mode, by whichever tool (PEP 610)."""
    found = []
    for name in os.listdir(site):
        if name.endswith(".dist-info"):
            try:
                value = json.loads(_text(os.path.join(site, name, "direct_url.json")) or "{}")
                if value.get("dir_info", {}).get("editable"):
                    found.append(unquote(urlsplit(str(value.get("url", ""))).path))
            except (ValueError, AttributeError):
                continue
    return found


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read(_LARGEST)
    except OSError:
        return ""
