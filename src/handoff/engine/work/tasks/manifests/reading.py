"""Read the manifest of a batch: every fault is reported with its line and its fix, before anything is written."""

from __future__ import annotations

import json
import os
import re

from handoff.base.errors import UserError
from handoff.base.files import read_text
from handoff.base.record import TYPE_CHECKING
from handoff.engine.work.tasks.manifests.fields import Fault, Manifest, Place, Reader, spell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

_SHOWN_FAULTS = 20


def read_manifest(path: str, text: str = "") -> Manifest:
    """The checked manifest, or one error that lists every fault with its line; with a text, `path` is only what it is called."""
    if not text and not os.path.lexists(path):
        raise UserError(
            f"There is no manifest {path}.", "To have one to begin with: handoff batch example > split.toml"
        )
    text = text or read_text(path)
    is_toml = path.lower().endswith(".toml")
    raw = _parse_toml(path, text) if is_toml else _parse_json(path, text)
    reader = Reader(path)
    manifest = reader.manifest(raw)._replace(text=text)
    if reader.faults:
        raise _as_error(path, text, is_toml=is_toml, faults=reader.faults)
    return manifest


def fault_error(manifest: Manifest, faults: list[Fault]) -> UserError:
    """Faults that were found after reading (two owners of one path), told like those found while reading."""
    is_toml = manifest.source.lower().endswith(".toml")
    return _as_error(manifest.source, manifest.text, is_toml=is_toml, faults=faults)


def _parse_json(path: str, text: str) -> Any:
    def without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            names = [name for name, _ in pairs]
            double = next(name for name in names if names.count(name) > 1)
            raise UserError(f"{path}: the key '{double}' stands twice in one object.", "Keep one of them.")
        return found

    def no_constant(word: str) -> Any:
        raise UserError(f"{path}: {word} is not a number.", "Write a plain number.")

    try:
        return json.loads(text, object_pairs_hook=without_doubles, parse_constant=no_constant)
    except json.JSONDecodeError as error:
        raise UserError(
            f"{path}:{error.lineno}: not valid JSON: {error.msg} (column {error.colno}).",
            "Fix that line; a comma too many or a missing quote is the usual cause.",
        ) from error
    except RecursionError:
        raise UserError(f"{path}: the JSON is nested too deeply.", "A manifest has four levels.") from None


def _parse_toml(path: str, text: str) -> Any:
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path}: not valid TOML: {error}.", "Text values stand in double quotes.") from error


def _as_error(path: str, text: str, *, is_toml: bool, faults: list[Fault]) -> UserError:
    find: Callable[[str, Place], int] = line_in_toml if is_toml else line_in_json

    def where(fault: Fault) -> str:
        line = find(text, fault.place)
        place = spell(fault.place)
        return f"{path}:{line}: {place + ': ' if place else ''}{fault.text}"

    if len(faults) == 1:
        return UserError(f"{where(faults[0])}.", f"{faults[0].fix} Nothing was written.")
    shown = [f"  {where(fault)}. {fault.fix}" for fault in faults[:_SHOWN_FAULTS]]
    more = len(faults) - len(shown)
    if more:
        shown.append(f"  and {more} more")
    return UserError(f"{path} has {len(faults)} faults:\n" + "\n".join(shown), "Fix them; nothing was written.")


# On which line of a JSON or TOML file a value stands. Only errors ask.


_SPACE = re.compile(r"\s*")
_DECODER = json.JSONDecoder()


def line_in_json(text: str, place: tuple[str | int, ...]) -> int:
    """The line of the value at `place`, or of the innermost part of it that exists."""
    at = _skip_space(text, 0)
    for step in place:
        found = next((where for name, where in _members(text, at) if name == step), None)
        if found is None:
            break
        at = found
    return text.count("\n", 0, at) + 1


def _skip_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _members(text: str, at: int) -> Iterator[tuple[str | int, int]]:
    """The members of the object or the list that begins at `at`, by key or by number, each with where its value begins."""
    kind, number = text[at : at + 1], 0
    at = _skip_space(text, at + 1)
    while kind in ("{", "[") and text[at : at + 1] not in ("}", "]"):
        name: str | int = number
        if kind == "{":
            name, at = _DECODER.raw_decode(text, at)
            at = _skip_space(text, _skip_space(text, at) + 1)
        yield name, at
        _, at = _DECODER.raw_decode(text, at)
        at = _skip_space(text, at)
        if text[at : at + 1] != ",":
            return
        at, number = _skip_space(text, at + 1), number + 1


def line_in_toml(text: str, place: tuple[str | int, ...]) -> int:
    """The line of the table or key at `place`, as near as plain reading of the lines finds it."""
    lines = text.splitlines()
    at = 0
    header: list[str] = []
    for position, step in enumerate(place):
        if isinstance(step, int):
            found = _nth_header(lines, at, ".".join(header), step)
        else:
            header.append(step)
            if position + 1 < len(place) and isinstance(place[position + 1], int):
                continue
            found = _key_line(lines, at, step)
        if found is None:
            break
        at = found
    return at + 1


def _nth_header(lines: list[str], at: int, name: str, index: int) -> int | None:
    """The index-th `[[name]]` from line `at` on, as far as a header of a level above does not end the search."""
    seen = -1
    for number in range(at, len(lines)):
        head = lines[number].strip().replace(" ", "")
        if head.startswith(f"[[{name}]]"):
            seen += 1
            if seen == index:
                return number
        elif head.startswith("[[") and number > at and not head.startswith(f"[[{name.partition('.')[0]}"):
            return None
    return None


def _key_line(lines: list[str], at: int, name: str) -> int | None:
    start = at + 1 if lines and at < len(lines) and lines[at].strip().startswith("[") else at
    for number in range(start, len(lines)):
        line = lines[number].strip()
        if line.startswith("["):
            if line.strip("[] ").split(".")[-1] == name:
                return number
            return None if start > at else _header_of(lines, number, name)
        if line.partition("=")[0].strip().strip("\"'") == name:
            return number
    return None


def _header_of(lines: list[str], at: int, name: str) -> int | None:
    for number in range(at, len(lines)):
        if lines[number].strip().strip("[] ") == name:
            return number
    return None


# A complete manifest with a word on every key; it runs as it is printed.


EXAMPLE = '''\
# A batch: one task split into parts that run side by side, and the fan-in that brings them together.
# Check and start it with:  handoff batch run split.toml --agents claude=2,codex
# JSON with the same keys is understood too.
schema_version = 2
batch_id = "greeting"          # lowercase letters, digits and '-', 2 to 60 characters
fan_in_task = "greeting-join"  # the task that brings the parts together
goal = "a greeting in two files, with a guide to it"     # what all of it is for: every part reads it
split_rationale = "each part is a file of its own"     # words for whoever brings it together
timeout_hours = 3              # after this you get a notice that it is late
land = "all"                   # all: nothing lands until everything is green; in-order: each part as soon as it is green; review: all, after your yes; branch: all, on a branch of its own
check = "test -s greeting/hello.txt && test -s greeting/world.txt"  # for the merged result; left out: the project's own test suite
# agent = "claude"             # for every part; a part may name another; left out: any that works
# agents = ["claude", "codex"] # instead: codex goes on where claude has used up its attempts or is at a limit
# labels = ["gpu"]             # what a machine must have

[amdahl_estimate]
serial_minutes = 5             # what cannot run side by side: bringing it together
estimated_speedup = 1.8        # compared with what was measured: handoff batch report

[[sub_tasks]]
id = "hello"
brief = """
Write greeting/hello.txt: one line that greets the reader.
"""
estimated_minutes = 10
file_ownership = [{ type = "exact", path = "greeting/hello.txt" }]   # one file; nobody else may own it
needs = ["greeting/hello.txt"] # what it must be able to change: checked against what it owns
check = "test -s greeting/hello.txt"                                 # exit 0 means done

[[sub_tasks]]
id = "world"
brief = "Write greeting/world.txt: one line that names whom the greeting is for."
estimated_minutes = 10
file_ownership = [{ type = "glob", path = "greeting/world*.txt" }]   # '*' in a name, '**' over folders
check = "test -s greeting/world.txt"
# race = 3                     # so many do it, each in a clone of its own; the best by evidence lands: ["claude", "codex"] names them

[[sub_tasks]]
id = "guide"
brief = "Write docs/greeting/guide.md: how both files are used."
estimated_minutes = 5
depends_on = ["hello", "world"]                                      # begins with their work in its clone
file_ownership = [{ type = "prefix", path = "docs/greeting/" }]      # a folder, with its '/'
check = "test -s docs/greeting/guide.md"
'''
