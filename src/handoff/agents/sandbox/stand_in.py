"""A clone stands in for the person's checkout: what names a path there means the clone, also a package installed in editable mode.

Else a check in the clone would import the person's own files, and test what the session never touched.
"""

from __future__ import annotations

import ast
import json
import os
import re
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote, urlsplit

from handoff.agents.sandbox.home import inside

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from handoff.agents.sandbox.policy import Policy

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


def links(workspace: str, checkouts: Iterable[str], taken: Iterable[str]) -> list[str]:
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
