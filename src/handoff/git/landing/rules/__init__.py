"""Rules for edits that only add: what they make is a proposal which checks must pass, and each refuses unless it is sure."""

from __future__ import annotations

import os
import re
from collections import Counter
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from handoff.git.landing.rules.made_files import is_made
from handoff.git.landing.rules.python import merge_python
from handoff.git.landing.settle import Proposal, has_marks
from handoff.git.landing.three_way import join
from handoff.git.plumbing.objects import FILE, Entry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from handoff.git.landing.settle import FileSides, Left, Way
    from handoff.git.plumbing.snapshot_repo import SnapshotRepo

    Identity = Callable[[str], "str | None"]

_LARGEST = 1_000_000  # of bytes: no file that people write is longer


def rules_way(store: SnapshotRepo, *, remake: Way | None = None, reformat: Way | None = None) -> Way:
    """The rules, one after the other; the first that is sure proposes.

    Two need programs of the project, which the caller runs: `remake` for what programs make, `reformat` for what a formatter did.
    """

    def way(sides: FileSides) -> Proposal | Left | None:
        if sides.made:
            return remake(sides) if remake is not None else None
        found = propose(store, sides)
        return reformat(sides) if found is None and reformat is not None else found

    return way


def propose(store: SnapshotRepo, sides: FileSides) -> Proposal | None:
    """One file out of two sides that only add; None where no rule is sure."""
    if sides.new or is_made(sides.path, sides.base) or max(map(len, sides.texts)) > _LARGEST:
        return None  # two new files are two answers; what a program made is made anew, never merged
    if any(b"\0" in data or has_marks(data) for data in sides.texts):
        return None
    merged = merge_line_ends(store, sides)
    if merged is not None:
        return Proposal(merged, "a rule: other line ends on one side", proven=False)
    try:
        base, ours, theirs = (data.decode() for data in sides.texts)
    except UnicodeDecodeError:
        return None
    if "\r" in base + ours + theirs:
        return None
    if sides.path.endswith((".py", ".pyi")):
        text, how = merge_python(base, ours, theirs), "a rule: both only add Python"
    else:
        text, how = merge_lines(sides.path, base, ours, theirs), "a rule: both only add lines"
    return None if text is None else Proposal(text.encode(), how, proven=False)


# --- Lists of lines to which both sides only add: changelogs, ignore files, sums, requirements, files of exports

_CHANGELOG = re.compile(r"(?i)^(changelog|changes|history|news|release[-_]?notes)(\.(md|rst|txt|markdown))?$")
_REQUIREMENTS = re.compile(r"(?i)^(.*requirements.*|constraints.*)\.(txt|in)$")
_PACKAGE = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)\s*(\[[^\]]*\])?\s*([=<>!~@;].*)?$")
_EXPORT = re.compile(r"""^export\s+(type\s+)?(\*|\*\s+as\s+\w+|\{[\w\s,$]*\})\s+from\s+(['"])([^'"]+)\3;?$""")
_BARRELS = frozenset(f"index.{ending}" for ending in ("ts", "js", "mjs", "tsx", "jsx", "mts"))
_SUM = re.compile(r"^(\S+) (v\S+) (h1:\S+)$")
_BULLET = re.compile(r"^\s*([-*+]|\d+[.)])\s+\S")


def merge_lines(path: str, base: str, ours: str, theirs: str) -> str | None:
    """Both sides' new lines in one file, where each only adds and none means the same thing twice."""
    identity = _identity_of(os.path.basename(path))
    texts = [text.splitlines(keepends=True) for text in (base, ours, theirs)]
    if identity is None or any(lines and not lines[-1].endswith("\n") for lines in texts):
        return None
    mine, yours = _inserted(texts[0], texts[1]), _inserted(texts[0], texts[2])
    if mine is None or yours is None or not _disjoint(identity, texts[0], mine, yours):
        return None
    if identity is _bullet and not _bullets_alone(mine, yours):
        return None
    merged: list[str] = []
    for at in range(len(texts[0]) + 1):
        merged += [*mine.get(at, ()), *yours.get(at, ()), *texts[0][at : at + 1]]
    if identity in (_package, _sum) and all(lines == sorted(lines) for lines in texts):
        merged.sort()
    expected = Counter(texts[1])
    expected.update(texts[2])
    expected.subtract(Counter(texts[0]))
    return "".join(merged) if Counter(merged) == +expected else None


def _identity_of(name: str) -> Identity | None:
    """What tells one line of such a file from another; a function that knows no answer lets the rule refuse."""
    if _CHANGELOG.match(name):
        return _bullet
    if name.startswith(".") and name.endswith("ignore"):
        return _ignored
    if name == "go.sum":
        return _sum
    if _REQUIREMENTS.match(name):
        return _package
    return _export if name in _BARRELS else None


def _inserted(base: Sequence[str], side: Sequence[str]) -> dict[int, list[str]] | None:
    """What a side added, by the line of the base before which it stands; None where it did anything else."""
    found: dict[int, list[str]] = {}
    for kind, start, _, low, high in SequenceMatcher(None, base, side, autojunk=False).get_opcodes():
        if kind == "insert":
            found[start] = list(side[low:high])
        elif kind != "equal":
            return None
    return found


def _disjoint(identity: Identity, base: Sequence[str], mine: dict[int, list[str]], yours: dict[int, list[str]]) -> bool:
    """Whether every new line has a meaning of its own, that neither the other side nor the base has."""
    names = []
    for side in (mine, yours):
        found = [identity(line.strip("\n")) for lines in side.values() for line in lines if line.strip()]
        if None in found or len(set(found)) != len(found):
            return False
        names.append({name for name in found if name})
    known = {identity(line.strip("\n")) for line in base if line.strip()}
    return not (names[0] & names[1] or (names[0] | names[1]) & known)


def _bullet(line: str) -> str | None:
    """Entries and their further lines; a heading belongs to nobody, so that no entry comes under a wrong one."""
    if _BULLET.match(line):
        return " ".join(line.split())
    return " ".join(line.split()) if line.startswith("  ") else None


def _bullets_alone(*sides: dict[int, list[str]]) -> bool:
    """Whether each block begins with an entry: a further line must not come under another's."""
    return all(
        _BULLET.match(next((line for line in lines if line.strip()), "")) for side in sides for lines in side.values()
    )


def _ignored(line: str) -> str | None:
    """A pattern; what takes another back depends on its place."""
    return None if line.startswith("!") else line.strip()


def _sum(line: str) -> str | None:
    found = _SUM.match(line)
    return f"{found[1]} {found[2]}" if found else None


def _package(line: str) -> str | None:
    if line.startswith("#"):
        return line.strip()
    found = _PACKAGE.match(line.partition(" #")[0].strip())
    return re.sub(r"[-_.]+", "-", found[1]).lower() if found else None


def _export(line: str) -> str | None:
    """The module exports come from: it stands once, so that no name can come out twice by our doing."""
    found = _EXPORT.match(line.strip())
    return found[4] if found else None


_NAME = b"file"


def merge_line_ends(store: SnapshotRepo, sides: FileSides) -> bytes | None:
    """The merge of three texts of which one side has other line ends than the base; None where that is not the trouble."""
    ends = [_end(data) for data in sides.texts]
    if None in ends or ends[0] == ends[1] == ends[2]:
        return None
    plain = [data.replace(b"\r\n", b"\n") for data in sides.texts]
    if plain[1] == plain[0]:
        made = plain[2]
    elif plain[2] == plain[0] or plain[1] == plain[2]:
        made = plain[1]
    else:
        trees = [store.graft("", {_NAME: Entry(FILE, store.write("blob", data))}) for data in plain]
        found = join(store, *trees)
        entry = store.look_up(found.tree, _NAME)
        if found.left or entry is None:
            return None
        made = store.read(entry.sha)
    return made.replace(b"\n", b"\r\n") if ends[0] == b"\r\n" else made


def _end(data: bytes) -> bytes | None:
    """How the lines of a text end; None where they do not agree."""
    pairs, all_ends = data.count(b"\r\n"), data.count(b"\n")
    if data.count(b"\r") != pairs or pairs not in (0, all_ends):
        return None
    return b"\r\n" if pairs else b"\n"
