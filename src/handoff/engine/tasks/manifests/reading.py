"""Read the manifest of a batch: every fault is told with its line and its fix, before anything is written."""

from __future__ import annotations

import json
import os

from handoff.base.errors import UserError
from handoff.base.files import read_text
from handoff.base.record import TYPE_CHECKING
from handoff.engine.tasks.manifests.fields import Fault, Manifest, Place, Reader, spell
from handoff.engine.tasks.manifests.source_lines import line_in_json, line_in_toml

if TYPE_CHECKING:
    from collections.abc import Callable
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
