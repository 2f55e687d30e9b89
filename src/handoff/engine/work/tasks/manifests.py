"""The manifest of a batch: every fault is reported with its line and its fix, before anything is written."""

from __future__ import annotations

import json
import os
import re
import tomllib
from difflib import get_close_matches

from handoff.base.errors import UserError
from handoff.base.files import read_text
from handoff.base.ids import check_id
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.tasks.batches import LAND_ALL, LAND_IN_ORDER, SubTask, entrants, find_circle
from handoff.board.tasks.requirements import check_labels
from handoff.board.tasks.tasks import BRANCH, REVIEW
from handoff.git.ownership.patterns import EXACT, GLOB, PREFIX, written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

SCHEMA_VERSION = 2
DEFAULT_TIMEOUT_HOURS = 3.0
_LEAST_SUB_TASKS = 2
_LEAST_RACERS, _MOST_RACERS = 2, 8
_TOP_KEYS = tuple(
    """schema_version batch_id fan_in_task next_after_fanin split_rationale amdahl_estimate timeout_hours workspace
    sub_tasks created_at project agent agents check labels land goal""".split()
)
SUB_TASK_KEYS = tuple(
    "id brief estimated_minutes file_ownership depends_on agent agents role check read_only labels needs race".split()
)

Place = tuple[str | int, ...]


class Manifest(Record):
    """A batch as its file describes it, checked."""

    source: str
    batch_id: str
    fan_in_task: str
    next_after: str
    rationale: str
    estimated_speedup: float
    serial_minutes: float
    timeout_hours: float
    workspace: str
    sub_tasks: tuple[SubTask, ...]
    agent: str
    check: str
    unknown: tuple[str, ...]
    raw: dict[str, Any]
    labels: tuple[str, ...] = ()
    text: str = ""
    goal: str = ""
    """What all parts are for: every part reads it."""
    land: str = LAND_ALL
    needs: tuple[tuple[str, ...], ...] = ()
    """For each part the paths that its work must change, where the manifest says so."""


class Fault(Record):
    """One thing that is wrong: where, what, and how to fix it."""

    place: Place
    text: str
    fix: str


class Reader:
    """Walks through the raw values and collects faults instead of stopping at the first."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.faults: list[Fault] = []
        self.unknown: list[str] = []

    def fault(self, place: Place, text: str, fix: str) -> None:
        self.faults.append(Fault(place, text, fix))

    def manifest(self, raw: Any) -> Manifest:
        if not isinstance(raw, dict):
            self.fault((), f"the file holds {_kind(raw)}, not an object", "Start it with { and the key schema_version.")
            raw = {}
        elif raw.get("schema_version") != SCHEMA_VERSION or isinstance(raw.get("schema_version"), bool):
            line = "schema_version =" if is_toml(self.path) else '"schema_version":'
            self.fault(("schema_version",), f"it must be {SCHEMA_VERSION}", f"Write {line} {SCHEMA_VERSION}.")
        self.keys((), raw, _TOP_KEYS)
        batch_id = self.id((), raw, "batch_id", "batch")
        fan_in = self.id((), raw, "fan_in_task", "task")
        estimate = self.table((), raw, "amdahl_estimate")
        sub_tasks = tuple(self.sub_tasks(raw))
        self.names(sub_tasks, fan_in)
        if not any(fault.place[-1:] == ("id",) for fault in self.faults):  # else each wrong id would be told twice
            self.order(sub_tasks)
        hours = self.number((), raw, "timeout_hours", DEFAULT_TIMEOUT_HOURS, least=0.0, above=True)
        return Manifest(
            source=self.path,
            batch_id=batch_id,
            fan_in_task=fan_in,
            next_after=self.text((), raw, "next_after_fanin"),
            rationale=self.text((), raw, "split_rationale"),
            goal=self.text((), raw, "goal"),
            estimated_speedup=self.number(("amdahl_estimate",), estimate, "estimated_speedup", 0.0),
            serial_minutes=self.number(("amdahl_estimate",), estimate, "serial_minutes", 0.0),
            timeout_hours=hours,
            workspace=self.workspace(raw),
            sub_tasks=sub_tasks,
            agent=self.agents((), raw),
            check=self.text((), raw, "check"),
            unknown=tuple(self.unknown),
            raw=raw,
            labels=self.labels((), raw),
            land=self.land(raw),
            needs=tuple(self.needs(raw)),
        )

    def land(self, raw: dict[str, Any]) -> str:
        value = self.text((), raw, "land") or LAND_ALL
        known = (LAND_ALL, LAND_IN_ORDER, REVIEW, BRANCH)
        if value not in known:
            self.fault(("land",), f"{value!r} is not a way to land", f"Write one of: {', '.join(known)}.")
        return value

    def needs(self, raw: dict[str, Any]) -> Iterator[tuple[str, ...]]:
        listed = raw.get("sub_tasks")
        for index, item in enumerate(listed if isinstance(listed, list) else ()):
            place = ("sub_tasks", index)
            yield (
                self.texts(place, item, "needs", 'For example: ["src/api/routes.py"].')
                if isinstance(item, dict)
                else ()
            )

    def sub_tasks(self, raw: dict[str, Any]) -> Iterator[SubTask]:
        value = raw.get("sub_tasks")
        if not isinstance(value, list):
            self.fault(("sub_tasks",), _not(value, "a list"), "List at least two sub-tasks.")
            return
        raced = any(isinstance(item, dict) and item.get("race") for item in value)
        if len(value) < (1 if raced else _LEAST_SUB_TASKS):
            self.fault(
                ("sub_tasks",),
                "it has one entry" if value else "it is empty",
                "Split the work into two or more, or use: handoff task add ID TEXT",
            )
        for index, item in enumerate(value):
            yield self.sub_task(("sub_tasks", index), item)

    def sub_task(self, place: Place, item: Any) -> SubTask:
        if not isinstance(item, dict):
            self.fault(place, _not(item, "an object"), "Write { id, brief, file_ownership }.")
            return SubTask(id="", brief="")
        self.keys(place, item, SUB_TASK_KEYS)
        brief = self.text(place, item, "brief", needed="Say in a few sentences what this session must do.")
        return SubTask(
            id=self.id(place, item, "id", "sub-task"),
            brief=brief,
            estimate_minutes=self.number(place, item, "estimated_minutes", 0.0),
            owns=self.ownership(place, item),
            depends_on=self.texts(place, item, "depends_on", 'For example: ["login-form"].'),
            agent=self.agents(place, item),
            role=self.text(place, item, "role"),
            check_command=self.text(place, item, "check"),
            labels=self.labels(place, item),
            race=self.race(place, item),
        )

    def agents(self, place: Place, table: dict[str, Any]) -> str:
        """Who does it, and who goes on when that one fails, with commas between them."""
        listed, fix = table.get("agents"), 'For example: agents = ["claude", "codex"].'
        if listed is None:
            return self.text(place, table, "agent")
        if table.get("agent"):
            self.fault((*place, "agents"), "agent is there too", "Keep one of the two.")
        return ",".join(self.texts(place, table, "agents", fix))

    def race(self, place: Place, item: dict[str, Any]) -> tuple[str, ...]:
        """Who runs for a part: a number of any agents, or their names."""
        value: Any = item.get("race")
        fix = 'For example: race = 3, or race = ["claude", "codex"].'
        if isinstance(value, int) and not isinstance(value, bool):
            value = [""] * min(max(value, 0), _MOST_RACERS + 1)
        elif value is None or (value != [] and not self.texts(place, item, "race", fix)):
            return ()
        found: tuple[str, ...] = tuple(value)
        if not _LEAST_RACERS <= len(found) <= _MOST_RACERS:
            self.fault((*place, "race"), f"from {_LEAST_RACERS} to {_MOST_RACERS} may run for a part", fix)
        if found and item.get("read_only") is True:
            self.fault((*place, "race"), "a part that writes nothing has nothing to be judged by", "Leave it out.")
        return found

    def labels(self, place: Place, table: dict[str, Any]) -> tuple[str, ...]:
        value = self.texts(place, table, "labels", 'For example: ["gpu"].')
        try:
            return check_labels(value)
        except UserError as error:
            self.fault((*place, "labels"), error.message.rstrip("."), error.hint or "Choose another word.")
            return ()

    def ownership(self, place: Place, item: dict[str, Any]) -> tuple[str, ...]:
        place = (*place, "file_ownership")
        value = item.get("file_ownership")
        read_only = item.get("read_only", False)
        if not isinstance(read_only, bool):
            self.fault((*place[:-1], "read_only"), _not(read_only, "true or false"), "Write true or false.")
        if read_only is True and not value:
            return ()
        fix = (
            'For example: [{"type": "prefix", "path": "src/login/"}]. A part that writes nothing has "read_only": true.'
        )
        if not isinstance(value, list):
            self.fault(place, _not(value, "a list"), fix)
            return ()
        if not value:
            self.fault(place, "it is empty: this sub-task could not write anything", fix)
        found = (self.owned((*place, index), entry) for index, entry in enumerate(value))
        return tuple(dict.fromkeys(owned for owned in found if owned is not None))

    def owned(self, place: Place, entry: Any) -> str | None:
        if not isinstance(entry, dict):
            self.fault(place, _not(entry, "an object"), 'Write {"type": "exact", "path": "src/a.py"}.')
            return None
        self.keys(place, entry, ("type", "path"))
        kind, path = entry.get("type"), entry.get("path")
        known = kind in (EXACT, PREFIX, GLOB)
        if not known:
            said = "it is missing" if kind is None else f"{kind!r} is not a type of ownership"
            self.fault((*place, "type"), said, "Use one of: exact, prefix, glob.")
        if not isinstance(path, str):
            self.fault((*place, "path"), _not(path, "a text"), "Name a path relative to the top of the repository.")
            return None
        problem = path_problem(str(kind), path)
        if problem:
            self.fault((*place, "path"), *problem)
        return written(str(kind), plain_path(path)) if known and not problem else None

    def names(self, sub_tasks: tuple[SubTask, ...], fan_in: str) -> None:
        """Ids are unique, also against the fan-in and against the reference's `-done` and `-blocked` spelling."""
        first: dict[str, int] = {}
        for index, sub in enumerate(sub_tasks):
            place = ("sub_tasks", index, "id")
            if not sub.id:
                continue
            if sub.id in first:
                self.fault(
                    place, f"'{sub.id}' is already the id of sub_tasks[{first[sub.id]}]", "Give each its own id."
                )
            if sub.id == fan_in:
                self.fault(place, f"'{sub.id}' is also the fan_in_task", "Give the fan-in an id of its own.")
            first.setdefault(sub.id, index)
        for index, sub in enumerate(sub_tasks):
            for name in (one.id for one in entrants(sub)):
                if name in first or name == fan_in:
                    said = f"'{name}' runs for '{sub.id}', and another task has that id"
                    self.fault(("sub_tasks", index, "race"), said, "Rename one of the two.")
        for name, index in first.items():
            for suffix in ("-done", "-blocked"):
                if name.endswith(suffix) and name.removesuffix(suffix) in first:
                    short = name.removesuffix(suffix)
                    self.fault(
                        ("sub_tasks", index, "id"),
                        f"'{name}' cannot be kept apart from the report of '{short}'",
                        "Rename one of the two.",
                    )

    def order(self, sub_tasks: tuple[SubTask, ...]) -> None:
        """depends_on names sub-tasks of this batch and has no circle."""
        known = {sub.id: sub for sub in sub_tasks if sub.id}
        sound = True
        for index, sub in enumerate(sub_tasks):
            for name in sub.depends_on:
                if name not in known or name == sub.id:
                    sound = False
                    said = "a sub-task cannot wait for itself" if name == sub.id else f"there is no sub-task '{name}'"
                    self.fault(("sub_tasks", index, "depends_on"), said, "Name other sub-tasks of this batch.")
        if not sound:
            return
        circle = find_circle({name: sub.depends_on for name, sub in known.items()})
        if circle:
            index = next(i for i, sub in enumerate(sub_tasks) if sub.id == circle[0])
            self.fault(
                ("sub_tasks", index, "depends_on"),
                f"these wait for each other: {' -> '.join(circle)}",
                "Take one of the arrows away.",
            )

    def workspace(self, raw: dict[str, Any]) -> str:
        value = self.text((), raw, "workspace")
        if not value:
            return ""
        path = os.path.join(os.path.dirname(os.path.abspath(self.path)), os.path.expanduser(value))
        if not os.path.isdir(path):
            self.fault(("workspace",), f"there is no folder {path}", "Name the checkout, or leave the key out.")
        return os.path.normpath(path)

    # --- single values -----------------------------------------------------------------------------

    def keys(self, place: Place, table: dict[str, Any], known: tuple[str, ...]) -> None:
        """A key that nearly is one of ours is a slip and refused; a foreign one is kept and told."""
        for name in table:
            if name in known:
                continue
            close = get_close_matches(name, known, n=1, cutoff=0.75)
            if close:
                self.fault((*place, name), "unknown key", f"Did you mean '{close[0]}'?")
            else:
                self.unknown.append(spell((*place, name)))

    def id(self, place: Place, table: dict[str, Any], key: str, what: str) -> str:
        value = table.get(key)
        if not isinstance(value, str):
            self.fault((*place, key), _not(value, "a text"), f"Give the {what} an id such as 'login-form'.")
            return ""
        try:
            return check_id(value, what)
        except UserError as error:
            self.fault((*place, key), error.message.rstrip("."), error.hint or "Choose another id.")
            return ""

    def text(self, place: Place, table: dict[str, Any], key: str, *, needed: str = "") -> str:
        value = table.get(key)
        if not isinstance(value, str):
            if needed or value is not None:
                self.fault((*place, key), _not(value, "a text"), needed or "Put it in double quotes.")
            return ""
        if needed and not value.strip():
            self.fault((*place, key), "it is empty", needed)
        return value.strip()

    def texts(self, place: Place, table: dict[str, Any], key: str, fix: str) -> tuple[str, ...]:
        value = table.get(key, [])
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            self.fault((*place, key), "it is not a list of texts", fix)
            return ()
        return tuple(dict.fromkeys(value))

    def number(
        self, place: Place, table: dict[str, Any], key: str, default: float, *, least: float = 0.0, above: bool = False
    ) -> float:
        value = table.get(key, default)
        request = f"a number {'above' if above else 'of at least'} {least:g}"
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.fault((*place, key), _not(value, "a number"), f"Write {request}.")
            return default
        if not (value > least if above else value >= least) or value > 1e9:  # noqa: PLR2004 - also catches infinity
            self.fault((*place, key), f"{value} is out of range", f"Write {request}.")
            return default
        return float(value)

    def table(self, place: Place, table: dict[str, Any], key: str) -> dict[str, Any]:
        value = table.get(key, {})
        if isinstance(value, dict):
            return value
        if value is not None:
            self.fault((*place, key), _not(value, "an object"), "Write { estimated_speedup, serial_minutes }.")
        return {}


def path_problem(kind: str, path: str) -> tuple[str, str] | None:
    """Why a path cannot be owned, and the fix; None when it can."""
    inside = "Name a path inside the repository, relative to its top, with '/' between folders."
    parts = path.split("/")
    if not path.strip():
        return "it is empty", inside
    if path.startswith(("/", "~")) or (path[1:3] in (":\\", ":/")):
        return f"{path!r} is an absolute path", inside
    if ".." in parts:
        return f"{path!r} leaves its folder with '..'", inside
    if "\\" in path or "\0" in path or "\n" in path:
        return f"{path!r} holds a character no path here may have", inside
    if parts[0] == ".git":
        return f"{path!r} is git's own folder", "Nobody can own it."
    if kind == PREFIX and not path.endswith("/"):
        return f"the prefix {path!r} does not end with '/'", f"Write '{path}/', or use the type exact for one file."
    if kind == EXACT and (path.endswith("/") or not plain_path(path)):
        return f"{path!r} is a folder, not a file", "Use the type prefix for a folder."
    return None


def plain_path(path: str) -> str:
    """The path without './' and doubled slashes; a trailing slash stays."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return "/".join(parts) + ("/" if path.endswith(("/", "/.")) and parts else "")


def spell(place: Place) -> str:
    """A place as people write it: sub_tasks[3].file_ownership[0].path."""
    text = ""
    for part in place:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _kind(value: Any) -> str:
    names = {bool: "true/false", int: "a number", float: "a number", str: "a text", list: "a list", dict: "an object"}
    return "null" if value is None else names.get(type(value), type(value).__name__)


def _not(value: Any, wanted: str) -> str:
    return "it is missing" if value is None else f"it is {_kind(value)}, not {wanted}"


# --- reading a file, and on which line of it a fault is --------------------------------------------------------------

_SHOWN_FAULTS = 20


def example() -> str:
    """A complete manifest with a word on every key; it runs as it is printed."""
    return read_text(os.path.join(os.path.dirname(__file__), "example.toml"))


def read_manifest(path: str, text: str = "") -> Manifest:
    """The checked manifest, or one error that lists every fault with its line; with a text, `path` is only what it is called."""
    if not text and not os.path.lexists(path):
        raise UserError(
            f"There is no manifest {path}.", "To have one to begin with: handoff batch example > split.toml"
        )
    text = text or read_text(path)
    reader = Reader(path)
    manifest = reader.manifest(_parse_toml(path, text) if is_toml(path) else _parse_json(path, text))
    manifest = manifest._replace(text=text)
    if reader.faults:
        raise fault_error(manifest, reader.faults)
    return manifest


def is_toml(path: str) -> bool:
    """Whether a manifest of that name is TOML; else it is JSON."""
    return path.lower().endswith(".toml")


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
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path}: not valid TOML: {error}.", "Text values stand in double quotes.") from error


def fault_error(manifest: Manifest, faults: list[Fault]) -> UserError:
    """All faults in one error, those that were found after reading too (two owners of one path)."""
    path, text = manifest.source, manifest.text
    find: Callable[[str, Place], int] = line_in_toml if is_toml(path) else line_in_json

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


# --- on which line of a JSON or TOML file a value stands; only errors ask ---------------------------


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
