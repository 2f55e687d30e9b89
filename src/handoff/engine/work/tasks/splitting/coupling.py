"""How much the parts of a split hang together: files that several are tempted to change, history and imports; and what the split will bring."""

from __future__ import annotations

import os
import posixpath
import re
from collections import Counter
from itertools import combinations

from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.tasks import batches
from handoff.git.ownership import Ownership
from handoff.git.plumbing.checkout import git

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from handoff.engine.app import App
    from handoff.engine.work.tasks.manifests import Manifest

_LOCKS = {
    "package-lock.json": "package.json",
    "npm-shrinkwrap.json": "package.json",
    "yarn.lock": "package.json",
    "pnpm-lock.yaml": "package.json",
    "bun.lock": "package.json",
    "poetry.lock": "pyproject.toml",
    "uv.lock": "pyproject.toml",
    "pdm.lock": "pyproject.toml",
    "Pipfile.lock": "Pipfile",
    "Cargo.lock": "Cargo.toml",
    "go.sum": "go.mod",
    "Gemfile.lock": "Gemfile",
    "composer.lock": "composer.json",
    "mix.lock": "mix.exs",
    "flake.lock": "flake.nix",
}
_REGISTRIES = ("__init__.py", "index.ts", "index.js", "mod.rs", "lib.rs")
_LOGS = ("changelog", "changes", "history", "news", "release_notes", "releasenotes")
_NUMBERED = ("migrations", "db/migrate", "alembic/versions", "migrate")


class SharedGroup(Record):
    """Files that change together: what they are, and their paths, or the folder they stand in."""

    what: str
    paths: tuple[str, ...]
    folder: str = ""

    @property
    def name(self) -> str:
        return self.folder or " and ".join(self.paths)


def shared_groups(tracked: Iterable[str]) -> list[SharedGroup]:
    """The shared files of a repository, each with what changes along with it."""
    paths = sorted(tracked)
    return [*_locks(set(paths)), *_single(paths), *_numbered(paths)]


def _locks(paths: set[str]) -> Iterator[SharedGroup]:
    for path in sorted(paths):
        folder, name = posixpath.split(path)
        if name in _LOCKS:
            beside = posixpath.join(folder, _LOCKS[name])
            yield SharedGroup("a lock file and what it locks", (path, *([beside] if beside in paths else ())))


def _single(paths: list[str]) -> Iterator[SharedGroup]:
    for path in paths:
        name = posixpath.basename(path)
        if posixpath.splitext(name)[0].lower() in _LOGS:
            yield SharedGroup("a changelog", (path,))
        elif name in _REGISTRIES:
            yield SharedGroup("a registry of its folder", (path,))


def _numbered(paths: list[str]) -> Iterator[SharedGroup]:
    found: dict[str, list[str]] = {}
    for path in paths:
        folder = posixpath.dirname(path)
        if any(folder == name or folder.endswith("/" + name) for name in _NUMBERED):
            found.setdefault(folder + "/", []).append(path)
    for folder, inside in found.items():
        yield SharedGroup("numbered migrations", tuple(inside), folder)


def is_lock_or_log(path: str) -> bool:
    """Whether a file is one that many changes touch: a lock file or a changelog."""
    name = posixpath.basename(path)
    return name in _LOCKS or posixpath.splitext(name)[0].lower() in _LOGS


UNKNOWN, APART, NAMED, TOGETHER = "unknown", "apart", "some pairs hang together", "together"
_COMMITS = 1000
_FEWEST_COMMITS = 50
_HUB_SHARE, _HUB_LEAST = 0.03, 5
_FEWEST_FILES, _MOST_FILES = 2, 30
_APART, _TOGETHER = 0.2, 0.5
_PAIR_SHARE, _PAIR_LEAST = 0.2, 5
_DOCS = (".md", ".rst", ".txt", ".adoc")
_READ_BYTES = 400_000
_IMPORTS = re.compile(
    r"""^\s*(?:from\s+(?P<python>[\w.]+)\s+import\s+(?P<names>[\w, ]+)|import\s+(?P<plain>[\w.]+)"""
    r"""|.*?(?:from|require\()\s*['"](?P<relative>\.{1,2}/[^'"]+)['"])""",
    re.MULTILINE,
)


class CoupledPair(Record):
    """Two parts that changed together: in how many commits, which share that is of the rarer one's, and imports between them."""

    first: str
    second: str
    commits: int
    share: float
    imports: int


class Coupling(Record):
    """What the history says about a split: `cross` is the share of commits that touch two parts or more."""

    word: str
    commits: int
    cross: float
    pairs: tuple[CoupledPair, ...]
    hubs: tuple[str, ...]
    """Files that change with everything, and that no part or only one owns."""


def judge(app: App, top: str, owners: Mapping[str, Sequence[str]]) -> Coupling:
    """Hold a split (patterns by part) against the last commits of the repository at `top`."""
    commits = _history(app, top)
    hubs = hubs_of(commits)
    owned = {name: Ownership.parse(patterns) for name, patterns in owners.items() if patterns}
    touched = list(_touched(commits, owned, hubs))
    number = Counter(name for names in touched for name in names)
    both: Counter[tuple[str, str]] = Counter()
    for names in touched:
        both.update(combinations(sorted(names), 2))
    imports = _imports(app, top, owned)
    cross = sum(len(names) > 1 for names in touched) / len(touched) if touched else 0.0
    pairs = [
        CoupledPair(a, b, count, count / min(number[a], number[b]), imports[(a, b)] + imports[(b, a)])
        for (a, b), count in both.items()
        if count >= _PAIR_LEAST and count / min(number[a], number[b]) > _PAIR_SHARE
    ]
    pairs.sort(key=lambda pair: -pair.share)
    return Coupling(_word(len(touched), cross), len(touched), cross, tuple(pairs), tuple(hubs))


def _word(commits: int, cross: float) -> str:
    if commits < _FEWEST_COMMITS:
        return UNKNOWN
    return APART if cross <= _APART else NAMED if cross <= _TOGETHER else TOGETHER


def hubs_here(app: App, top: str) -> list[str]:
    """The files of a repository that change with everything."""
    return hubs_of(_history(app, top))


def hubs_of(commits: Sequence[Sequence[str]]) -> list[str]:
    """Files in more than 3 % of the commits, and those that always are: lock files, changelogs. The most changed first."""
    number = Counter(path for paths in commits for path in paths)
    least = max(_HUB_LEAST, _HUB_SHARE * len(commits))
    return [path for path, count in number.most_common() if count > least or (count > 1 and is_lock_or_log(path))]


def _history(app: App, top: str) -> list[list[str]]:
    """The paths of each of the last commits, without merges."""
    words = ("log", f"-{_COMMITS}", "--no-merges", "--no-renames", "--name-only", "-z", "--format=%x01")
    answer = git(top, *words, environment=app.git_environment)
    if answer.code:
        return []
    return [
        [path.lstrip("\n") for path in commit.split("\0") if path.strip("\n")]
        for commit in answer.text.split("\x01")[1:]
    ]


def _touched(
    commits: Iterable[Sequence[str]], owned: Mapping[str, Ownership], hubs: Iterable[str]
) -> Iterator[set[str]]:
    """For each commit that says something: which parts own what it changed."""
    common = set(hubs)
    for paths in commits:
        kept = [path for path in paths if path not in common and not _is_document(path)]
        if not _FEWEST_FILES <= len(kept) <= _MOST_FILES:
            continue
        names = {name for name, ownership in owned.items() if any(ownership.covers(path) for path in kept)}
        if names:
            yield names


def _is_document(path: str) -> bool:
    return path.endswith(_DOCS) or path.startswith(("docs/", "doc/"))


# --- imports ------------------------------------------------------------------------------------------------------


def _imports(app: App, top: str, owned: Mapping[str, Ownership]) -> Counter[tuple[str, str]]:
    """How many imports lead from one part into another, in Python and in scripts with relative imports."""
    listed = git(top, "ls-files", "-z", environment=app.git_environment).text.split("\0")
    owner = {path: name for path in listed if path for name, ownership in owned.items() if ownership.covers(path)}
    modules = {name: part for path, part in owner.items() for name in _module_names(path)}
    found: Counter[tuple[str, str]] = Counter()
    for path, part in owner.items():
        for name in _imported(top, path):
            target = modules.get(name)
            if target is not None and target != part:
                found[(part, target)] += 1
    return found


def _module_names(path: str) -> list[str]:
    """What a file is imported as: its dotted name with and without the folder above its packages, or its path."""
    stem, ending = posixpath.splitext(path)
    if ending != ".py":
        return [stem] if ending in (".js", ".ts", ".jsx", ".tsx", ".mjs") else []
    dotted = stem.removesuffix("/__init__").replace("/", ".")
    return [dotted, dotted.removeprefix("src.").removeprefix("lib.")]


def _imported(top: str, path: str) -> Iterator[str]:
    if not path.endswith((".py", ".js", ".ts", ".jsx", ".tsx", ".mjs")):
        return
    try:
        with open(os.path.join(top, path), encoding="utf-8", errors="replace") as file:
            text = file.read(_READ_BYTES)
    except OSError:
        return
    for one in _IMPORTS.finditer(text):
        if one["relative"]:
            yield posixpath.splitext(posixpath.normpath(posixpath.join(posixpath.dirname(path), one["relative"])))[0]
        elif one["plain"]:
            yield one["plain"]
        elif one["python"]:
            yield one["python"]
            yield from (f"{one['python']}.{name.strip()}" for name in one["names"].split(","))


# --- minutes one after the other and side by side, by estimates and what earlier ones really took --------------------

SPLIT, FEWER, SERIAL, UNSURE = "split", "fewer parts", "one after the other", "not known"
_WORTH = 1.3
_GUESS = 15.0


class Forecast(Record):
    """The minutes of a split, its speed-up, and whether it is worth it."""

    one_by_one: float
    side_by_side: float
    speedup: float
    bound: float
    """The best that Amdahl's law allows with so many sessions at once."""
    factor: float
    samples: int
    guessed: bool
    word: str
    reasons: tuple[str, ...]


def forecast(app: App, project: str, manifest: Manifest, coupling: Coupling, *, at_once: int) -> Forecast:
    """The estimates, stretched by what earlier batches of the project took, laid out over so many sessions."""
    known = batches.calibration(app.database, project=project)
    guessed = not any(sub.estimate_minutes for sub in manifest.sub_tasks)
    minutes = {sub.id: (sub.estimate_minutes or _GUESS) * known.factor for sub in manifest.sub_tasks}
    needs = {sub.id: sub.depends_on for sub in manifest.sub_tasks}
    joined = manifest.serial_minutes * known.factor
    total, workers = sum(minutes.values()), max(1, min(at_once or len(minutes), len(minutes)))
    side_by_side = schedule(minutes, needs, workers) + joined
    speedup = total / side_by_side if side_by_side else 1.0
    word, reasons = _advice(speedup, coupling)
    return Forecast(
        one_by_one=total,
        side_by_side=side_by_side,
        speedup=speedup,
        bound=amdahl(joined / (total + joined) if total + joined else 0.0, workers),
        factor=known.factor,
        samples=known.samples,
        guessed=guessed,
        word=word,
        reasons=tuple(reasons),
    )


def amdahl(serial: float, workers: int) -> float:
    """The most that `workers` can gain where the share `serial` cannot run side by side."""
    return 1 / (serial + (1 - serial) / max(1, workers))


def schedule(minutes: dict[str, float], needs: dict[str, tuple[str, ...]], workers: int) -> float:
    """How long it takes when each free session takes the longest part that can begin."""
    ends: dict[str, float] = {}
    free = [0.0] * workers
    left = dict(minutes)
    while left:
        ready = {
            name: max((ends[need] for need in needs[name]), default=0.0)
            for name in left
            if all(n in ends for n in needs[name])
        }
        at = min(max(free[0], moment) for moment in ready.values())
        name = max((one for one in ready if ready[one] <= at), key=lambda one: left[one])
        ends[name] = max(free[0], ready[name]) + left.pop(name)
        free[0] = ends[name]
        free.sort()
    return max(ends.values(), default=0.0)


def _advice(speedup: float, coupling: Coupling) -> tuple[str, list[str]]:
    reasons = []
    if speedup < _WORTH:
        reasons.append(f"side by side it is only {speedup:.1f} times faster")
    if coupling.word == TOGETHER:
        reasons.append(f"{coupling.cross:.0%} of the commits in these paths touch more than one part")
    if coupling.word == TOGETHER:
        return FEWER if speedup >= _WORTH else SERIAL, reasons
    if speedup < _WORTH:
        return SERIAL, reasons
    if coupling.word == NAMED:
        worst = coupling.pairs[0] if coupling.pairs else None
        hint = (
            f"join {worst.first} and {worst.second}, or let one depend on the other" if worst else "look at the pairs"
        )
        return SPLIT, [f"{coupling.cross:.0%} of the commits touch more than one part: {hint}"]
    if coupling.word == UNKNOWN:
        return UNSURE, [f"only {coupling.commits} commits say how these paths change together"]
    return SPLIT, [f"only {coupling.cross:.0%} of the commits in these paths touch more than one part"]
