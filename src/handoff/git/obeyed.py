"""Which files of a repository somebody obeys: by their names, in a part of them, or because the person's own settings name them.

What a session may write freely runs where the person says so, or in the sandbox. These run, or change what runs, unasked: at
the next commit, `cd`, push, install, start of an editor or an agent. One list, and one reader of what settings name.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import re
import tempfile
from typing import Any

from handoff.base.errors import HandoffError
from handoff.base.files import locked, make_folder, write_atomic
from handoff.base.ids import on_one_line
from handoff.base.record import TYPE_CHECKING, Record
from handoff.base.settings import PROJECT_FOLDER
from handoff.git.ownership import Ownership
from handoff.git.ownership.patterns import EXACT, written
from handoff.git.plumbing import git_failure, looks_like_git_folder, read_plain
from handoff.git.plumbing.objects import LINK, TREE
from handoff.git.plumbing.untrusted import distrusting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from handoff.git.plumbing import Git, Source
    from handoff.git.plumbing.objects import Difference
    from handoff.git.plumbing.snapshot_repo import SnapshotRepo

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


_CARRYING = frozenset((IGNORE, INCLUDE))
_OF_REPOSITORY = frozenset(("head", "objects", "refs", "commondir"))
_UNTRACKED = ("ls-files", "-z", "-o", "--exclude-standard")
_RECORD = "trust.json"
_MOST_LINES = 200


class ControlChange(Record):
    """What becomes of one control file, or of the part of it that is obeyed; None where there is none."""

    path: str
    mode: str
    before: bytes | None
    after: bytes | None
    who: str = "git"
    """Who obeys it, in words."""

    @property
    def mark(self) -> str:
        """By which exactly this change is known again."""
        return f"{self.mode} {_print(self.after)}"

    def lines(self) -> Iterator[str]:
        """The change as a diff, without signs that a terminal would obey."""
        old, new = (text.decode("utf-8", "replace").splitlines() if text else [] for text in (self.before, self.after))
        was, now = (self.path if text is not None else os.devnull for text in (self.before, self.after))
        yield from (on_one_line(line) for line in difflib.unified_diff(old, new, was, now, lineterm=""))
        if self.mode == LINK:
            yield f"{on_one_line(self.path)} becomes a link"


def repositories(store: SnapshotRepo, commit: str, paths: Iterable[str]) -> list[str]:
    """The folders around these paths that git takes for a repository, under whatever name, as the commit has them."""
    folders = set()
    for path in paths:
        parts = path.split("/")
        folders |= {"/".join(parts[:at]) for at, part in enumerate(parts) if part.casefold() in _OF_REPOSITORY}
    inside = {folder: os.fsencode(f"{folder}/HEAD") for folder in sorted(folders - {""})}
    if not inside:
        return []
    tree, found = store.load(commit, inside.values()), []
    for folder in inside:
        entry = store.look_up(tree, os.fsencode(folder))
        names = store.tree(entry.sha) if entry is not None and entry.mode == TREE else ()
        if looks_like_git_folder([os.fsdecode(name).casefold() for name in names]):
            found.append(folder)
    return found


def changes(
    store: SnapshotRepo,
    differing: Sequence[Difference],
    *,
    named: Named,
    rules: Callable[[str], list[str]] | None = None,
) -> list[ControlChange]:
    """The control files among what differs between two commits, and those of which the obeyed part does."""
    found = []
    for one in differing:
        who, part = who_obeys(one.path, named), None
        if not who and (reader := reader_of(one.path, named, rules)):
            who, part = reader
        if not who:
            continue
        before, after = (_blob(store, sha) for sha in (one.old, one.sha))
        if part is not None and one.mode != LINK:
            texts = (None if data is None else data.decode("utf-8", "replace") for data in (before, after))
            before, after = (part(text).encode() if text else None for text in texts)
            if (before or b"") == (after or b""):
                continue
        found.append(ControlChange(one.path, one.mode, before, after, who))
    return found


def _blob(store: SnapshotRepo, sha: str) -> bytes | None:
    if not sha.strip("0"):
        return None
    try:
        return store.read(sha)
    except HandoffError:
        return sha.encode()  # a pointer to a commit of a submodule


def is_named_by(path: str, patterns: Sequence[str]) -> bool:
    """Whether one of the patterns of a task is the name of this very file."""
    return path in patterns or written(EXACT, path) in patterns


def in_words(found: Sequence[ControlChange]) -> list[str]:
    """Exactly what would change, for a person to look at."""
    lines = [line for one in found for line in one.lines()]
    more = [f"… and {len(lines) - _MOST_LINES} lines more"] if len(lines) > _MOST_LINES else []
    return [*lines[:_MOST_LINES], *more]


def _print(data: bytes | None) -> str:
    """Bytes as they are known again, however their lines end."""
    return "" if data is None else hashlib.sha256(b"\n".join(data.splitlines())).hexdigest()


class Trust:
    """What of a project's control files a person has approved, and what sessions made without that."""

    def __init__(self, project: str) -> None:
        self.path = os.path.join(project, _RECORD)

    def ask(self, name: str, found: Sequence[ControlChange]) -> None:
        """A person is shown these changes of the work `name`; their yes will mean exactly these."""
        self._write("asked", name, {one.path: one.mark for one in found})

    def forget(self, name: str) -> None:
        """The work `name` is judged anew: what a person was shown of it before is no longer asked."""
        if name in self._read().get("asked", {}):
            self._write("asked", name, {})

    def say_yes(self, name: str) -> None:
        """The person has said yes to what they were shown of the work `name`."""
        known = self._read()
        for path, mark in known.get("asked", {}).get(name, {}).items():
            self._write("approved", path, [*known.get("approved", {}).get(path, ()), mark])

    def is_approved(self, one: ControlChange) -> bool:
        return one.mark in self._read().get("approved", {}).get(one.path, ())

    def note(self, one: ControlChange) -> None:
        """A session's change lands unseen because its task names the file: remember what the person had there."""
        if os.path.basename(one.path) not in _CARRYING:
            return
        known = self._read().get("made", {}).get(one.path, {"prints": []})
        theirs = known["theirs"] if _print(one.before) in known["prints"] else _text(one.before)
        self._write("made", one.path, {"prints": [*known["prints"], _print(one.after)], "theirs": theirs})

    def differing(self, top: str) -> dict[str, bytes | None]:
        """The files of the checkout at `top` that are as a session made them, each as the person last had it."""
        found: dict[str, bytes | None] = {}
        for path, known in self._read().get("made", {}).items():
            if _print(_file(top, path)) in known["prints"]:
                found[path] = None if known["theirs"] is None else known["theirs"].encode("utf-8", "surrogateescape")
        return found

    def read(self, top: str, path: str) -> bytes:
        """A file of the checkout as the person last wrote or approved it; nothing where they have none."""
        differing = self.differing(top)
        return (differing[path] if path in differing else _file(top, path)) or b""

    def _read(self) -> dict[str, Any]:
        try:
            with open(self.path, encoding="utf-8") as file:
                found: dict[str, Any] = json.load(file)
        except FileNotFoundError:
            return {}
        return found

    def _write(self, part: str, name: str, value: Any) -> None:
        make_folder(os.path.dirname(self.path), mode=0o700)
        with locked(f"{self.path}.lock", what="what was approved", patience=60.0):
            known = self._read()
            known.setdefault(part, {})[name] = value
            write_atomic(self.path, json.dumps(known, indent=1) + "\n", mode=0o600)


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "surrogateescape")


def _file(top: str, path: str) -> bytes | None:
    full = os.path.join(top, path)
    if os.path.islink(full) or not os.path.isfile(full):
        return None
    with open(full, "rb") as file:
        return file.read()


def kept_back(store: SnapshotRepo, source: Source, trust: Trust, *, tracked: bool = False) -> list[str]:
    """Files that git does not track and the person's own rules ignore, whatever the rules of sessions say today; if so, all it does not track."""
    theirs = {path: data for path, data in trust.differing(source.top).items() if os.path.basename(path) == IGNORE}
    if not (theirs or tracked):
        return []
    untracked = [name for name in store.look(source, *_UNTRACKED).out.split(b"\0") if name]
    if tracked:
        return [os.fsdecode(name) for name in untracked]
    listed = os.fsdecode(store.look(source, "ls-files", "-z", "-c", "-o").out).split("\0")
    rules: Mapping[str, bytes | None] = {
        **{path: _file(source.top, path) for path in listed if os.path.basename(path) == IGNORE},
        **theirs,
    }
    with tempfile.TemporaryDirectory(prefix="handoff-rules-") as top:
        for path, data in rules.items():
            if data is not None:
                make_folder(os.path.dirname(os.path.join(top, path)))
                write_atomic(os.path.join(top, path), data, sync=False)
        asked = distrusting(source.folder, store.environment, top)
        names = b"".join(b"./" + name + b"\0" for name in untracked)  # a name may begin like a word of git's
        answer = asked.git("check-ignore", "--no-index", "-z", "--stdin", stdin=names, GIT_LITERAL_PATHSPECS="0")
    if answer.code not in (0, 1):  # 1 is none of them
        raise git_failure(
            "git cannot say what your own rules ignore", answer, f"Look at the .gitignore of {source.top}."
        )
    return [path.removeprefix("./") for path in os.fsdecode(answer.out).split("\0") if path]
