"""Which files of a repository somebody obeys: by their names, in a part of them, or because the person's own settings name them.

What a session may write freely runs where the person says so, or in the sandbox. These run, or change what runs, unasked: at
the next commit, `cd`, push, install, start of an editor or an agent. One list, and one reader of what settings name.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any

from handoff.base.record import TYPE_CHECKING, Record
from handoff.base.settings import PROJECT_FOLDER
from handoff.git.ownership.ownership import Ownership
from handoff.git.plumbing import read_plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from handoff.git.plumbing import Git, Source

IGNORE, INCLUDE = ".gitignore", ".worktreeinclude"

BY_SETTING = "a setting of yours"
KINDS: dict[str, str] = {
    "git": f"**/{IGNORE} **/{INCLUDE} **/.gitattributes **/.gitmodules **/.lfsconfig",
    "handoff": f"{PROJECT_FOLDER}/** !{PROJECT_FOLDER}/features/** !{PROJECT_FOLDER}/current/** !{PROJECT_FOLDER}/current"
    f" !{PROJECT_FOLDER}/trash/** !{PROJECT_FOLDER}/conflict/**",
    "a hook": "**/.husky/** **/.githooks/** **/.pre-commit-config.yaml **/lefthook.* **/.lefthook.* **/lefthook-local.*"
    " **/.lefthook-local.* **/.lefthook/** **/.overcommit.yml **/.huskyrc* **/.lintstagedrc* **/lint-staged.config.*",
    "your forge": ".github/workflows/** .github/actions/** .gitea/workflows/** .forgejo/workflows/** .gitlab-ci.yml"
    " .gitlab/ci/** .circleci/** .buildkite/** .woodpecker/** .woodpecker.y*ml .travis.yml .drone.y*ml Jenkinsfile"
    " bitbucket-pipelines.yml azure-pipelines*.y*ml .azure-pipelines/** appveyor.yml .appveyor.yml .cirrus.*"
    " cloudbuild.y*ml .build.yml .builds/** .semaphore/** .teamcity/** CODEOWNERS .github/CODEOWNERS"
    " docs/CODEOWNERS .gitlab/CODEOWNERS",
    "your shell": "**/.envrc **/mise.toml **/.mise.toml **/mise.*.toml **/.mise.*.toml **/.mise/** **/.config/mise/**"
    " **/.config/mise.toml **/.autoenv **/.autoenv.zsh",
    "an editor": "**/.vscode/** **/*.code-workspace **/.idea/** **/.run/** **/.zed/** **/.fleet/** **/.devcontainer/**"
    " **/.devcontainer.json **/.exrc **/.nvimrc **/.nvim.lua **/.dir-locals*.el **/.gdbinit **/.lldbinit",
    "an agent": "**/.claude/** **/.codex/** **/.gemini/** **/.qwen/** **/.opencode/** **/opencode.json*"
    " **/.cursor/** **/.windsurf/** **/.copilot/** .github/copilot/** .github/hooks/** **/.continue/** **/.roo/**"
    " **/.kilocode/** **/.clinerules/** **/.amazonq/** **/.kiro/** **/.crush.json **/crush.json **/.mcp.json"
    " **/.aider.conf.yml",
    "a package manager": "**/.npmrc **/.yarnrc **/.yarnrc.yml **/.yarn/releases/** **/.yarn/plugins/** **/.pnpmfile.*"
    " **/bunfig.toml **/.cargo/config **/.cargo/config.toml",
}
_OWNERS: dict[str, Ownership] = {}

# npm runs these by itself; the others run when somebody names them, as a target of make does.
_INSTALL = frozenset(
    "preinstall install postinstall prepublish preprepare prepare postprepare dependencies prepack postpack".split()
)
_TABLES = ("husky", "lint-staged", "simple-git-hooks", "gitHooks", "pre-commit", "pre-push", "packageManager")
_NPM = frozenset("npm npx pnpm yarn bun".split())
_FILES_OF = {
    "make": "Makefile makefile GNUmakefile",
    "gmake": "Makefile makefile GNUmakefile",
    "just": "justfile Justfile .justfile",
    "task": "Taskfile.yml Taskfile.yaml",
    "rake": "Rakefile rakefile",
    "invoke": "tasks.py",
    "inv": "tasks.py",
    "tox": "tox.ini",
    "nox": "noxfile.py",
}
_LEADING = frozenset("if then else elif while until do ! exec env command time nohup nice sudo xargs eval run".split())
_RUNNERS = re.compile(
    r"(?:ba|z|da|k)?sh|python[\d.]*|node|deno|ruby|perl|php|pwsh|source|\.|npx|bunx|tsx|ts-node|uv|poetry|pdm|hatch"
)
_SEPARATORS = re.compile(r"[;&|(){}`\n]+|#!")
_NO_SCRIPT = ("-c", "-m", "-e")
# Sections of git's settings whose values are names and addresses, never files to obey.
_NAMES = ("user", "author", "committer", "remote", "branch", "submodule", "url", "color", "advice")
_MOST_FILES, _LARGEST = 64, 1 << 18


class Named(Record):
    """What the person's own settings name in a repository."""

    files: frozenset[str] = frozenset()
    folders: tuple[str, ...] = ()
    """Where their hooks are."""
    scripts: frozenset[str] = frozenset()
    """Words that may be the name of a script in `package.json`."""


def who_obeys(path: str, named: Named) -> str:
    """Who obeys the file at `path` of a repository, in words; empty where nobody does, or only a part of it."""
    if path in named.files or any(path.startswith(f"{folder}/") for folder in named.folders):
        return BY_SETTING
    for kind, patterns in KINDS.items():
        owner = _OWNERS.get(kind) or _OWNERS.setdefault(kind, Ownership.parse(patterns.split(), ignore_case=True))
        if owner.covers(path):
            return kind
    return ""


def reader_of(path: str, named: Named, rules: Callable[[str], list[str]] | None) -> tuple[str, _Reader] | None:
    """Who obeys a part of the file at `path`, and what reads that part."""
    name = os.path.basename(path).casefold()
    if name == "package.json":
        return "a package manager", lambda text: _of_package(text, named.scripts)
    if name == "composer.json":
        return "a package manager", _of_composer
    if path == "AGENTS.md" and rules is not None:
        return "handoff", lambda text: "\n".join(rules(text))
    return None


if TYPE_CHECKING:
    _Reader = Callable[[str], str]


def _of_package(text: str, named: frozenset[str]) -> str:
    """The scripts npm runs unasked, those a setting names with what runs around them, and tables of hooks."""

    def counts(name: str) -> bool:
        return name in _INSTALL or not named.isdisjoint((name, name.removeprefix("pre"), name.removeprefix("post")))

    return _part(text, counts, _TABLES)


def _of_composer(text: str) -> str:
    return _part(text, lambda name: name.startswith(("pre-", "post-")) or name == "auto-scripts", ())


def _part(text: str, counts: Callable[[str], bool], tables: Iterable[str]) -> str:
    try:
        values = json.loads(text.removeprefix("\ufeff") or "{}")
        scripts = {name: line for name, line in values.get("scripts", {}).items() if counts(name)}
    except (ValueError, AttributeError, RecursionError):
        return text  # whoever reads it otherwise than we do obeys we do not know what
    found: dict[str, Any] = {"scripts": scripts} if scripts else {}
    found |= {table: values[table] for table in tables if table in values}
    return json.dumps(found, indent=2, sort_keys=True) if found else ""


# --- what settings name ------------------------------------------------------------------------------------------


def named_by(person: Git, source: Source, commands: Iterable[str]) -> Named:
    """The files that commands of the person's settings run, their git's filters, drivers and hooks run, and what those run in turn."""
    values, folders = list(commands), []
    words = iter(person.git("config", "--show-scope", "--includes", "-z", "--list").text.split("\0"))
    for scope, setting in zip(words, words, strict=False):
        key, _, value = setting.partition("\n")
        if scope == "command" or key.partition(".")[0] in _NAMES:
            continue  # ours, or no program
        if key in ("core.hookspath", "handoff.hookspathbefore"):
            folders.append(os.path.join(source.top, os.path.expanduser(value)))
        values.append(value.removeprefix("!"))
    values += _texts((*folders, os.path.join(source.common, "hooks")))
    files: set[str] = set()
    scripts: set[str] = set()
    waiting = values
    while waiting:
        text = waiting.pop()
        for path, is_script in _run_by(text, source):
            if path not in files and is_script and len(files) < _MOST_FILES:
                waiting += _texts([os.path.join(source.top, path)])
            files.add(path)
        plain = set(re.split(r"[\s\"';&|,\[\]]+", text))
        if not _NPM.isdisjoint(plain):
            scripts |= plain
    inside = (_inside(one, source) for one in folders)
    return Named(frozenset(files), tuple(one for one in inside if one), frozenset(scripts))


def _texts(places: Iterable[str]) -> Iterator[str]:
    """The plain files at these places, and in these folders; examples of git's are none."""
    for place in places:
        names = os.listdir(place) if os.path.isdir(place) else [""]
        for path in (os.path.join(place, name) if name else place for name in names if not name.endswith(".sample")):
            if os.path.isfile(path) and os.path.getsize(path) <= _LARGEST:
                yield read_plain(path).decode("utf-8", "replace")


def _run_by(text: str, source: Source) -> Iterator[tuple[str, bool]]:
    """The files of the repository that a command or a script runs, each with whether it is a script to read on in."""
    folder = ""
    for piece in _SEPARATORS.split(text):
        words = [word for one in piece.split() if (word := one.strip("\"',[]"))]
        if words[:1] == ["cd"]:
            folder = words[-1]
            continue
        for word in _programs(words):
            if files := _FILES_OF.get(os.path.basename(word)):
                places = (os.path.join(at, name) for name in files.split() for at in ("", folder, *words))
                yield from ((path, False) for place in places if (path := _inside(place, source)))
                continue
            plain = re.sub(r"^\$\{?\w+\}?/", "", word)  # "$TOP/tools/lint.sh"
            for place in {plain, plain.lstrip("/"), os.path.join(folder, plain), os.path.join(source.common, plain)}:
                if path := _inside(place, source):
                    yield path, True


def _programs(words: Iterable[str]) -> Iterator[str]:
    """What one simple command runs: the program, and the script it is given if it is one that runs scripts."""
    for word in words:
        if word in _NO_SCRIPT:
            return
        if word in _LEADING or word.startswith("-") or re.match(r"\w+=", word):
            continue
        yield word
        if not _RUNNERS.fullmatch(os.path.basename(word)):
            return


def _inside(place: str, source: Source) -> str:
    """A place as a path of the repository; empty where it lies elsewhere."""
    path = os.path.relpath(os.path.normpath(os.path.join(source.top, place)), source.top)
    return "" if path in (".", "..") or path.startswith("../") else path
