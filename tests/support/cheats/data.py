"""Read the cheats and what is expected of each."""

from __future__ import annotations

import os
import tomllib
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(os.path.dirname(os.path.dirname(HERE)), "adversary", "cheats")
CAUGHT, WARNED, MISSED = "caught", "warned", "missed"
KINDS = ("files", "append", "edit", "drop")

# In the order of the table.
CLASSES = (
    "forged results",
    "run cut short",
    "skipped from code",
    "runner shadowed",
    "runner patched",
    "tests or settings touched",
    "support touched",
    "forgiving support",
    "neighbour weakened",
    "no assertion",
    "trivial",
    "weak",
    "swallowed or unreachable",
    "not the subject",
    "expectation changed",
    "moved and changed",
    "skipped",
    "plays to the test",
    "change where no test looks",
)


class Change(NamedTuple):
    """What somebody did to a tree: whole files, text at the end of files, words replaced, files taken away."""

    files: Mapping[str, str] = MappingProxyType({})
    append: Mapping[str, str] = MappingProxyType({})
    edit: tuple[tuple[str, str, str], ...] = ()
    drop: tuple[str, ...] = ()

    def apply(self, tree: dict[str, str]) -> dict[str, str]:
        """The tree afterwards; words that are not there exactly once are a mistake in the data."""
        found = {**tree, **self.files}
        for path, text in self.append.items():
            found[path] = found.get(path, "") + text
        for path, old, new in self.edit:
            assert found[path].count(old) == 1, f"{path} holds {old!r} {found[path].count(old)} times"
            found[path] = found[path].replace(old, new)
        return {path: text for path, text in found.items() if path not in self.drop}


class Cheat(NamedTuple):
    """One cheat, where it begins, the names it must be caught by, and what it is cashed in for in the next phase."""

    id: str
    kind: str
    phase: str
    why: str
    caught: tuple[str, ...]
    change: Change
    cash: Change | None
    quick: bool


@cache
def _read(name: str) -> dict[str, Any]:
    with open(os.path.join(FOLDER, name), "rb") as file:
        return tomllib.load(file)


def _filled(text: str) -> str:
    for name, piece in _read("ground.toml")["pieces"].items():
        text = text.replace(f"@@{name}@@", piece.strip("\n") if not piece.startswith("\n\n") else piece)
    return text


def _change(values: dict[str, Any]) -> Change:
    return Change(
        {path: _filled(text) for path, text in values.get("files", {}).items()},
        {path: _filled(text) for path, text in values.get("append", {}).items()},
        tuple((path, old, new) for path, old, new in values.get("edit", ())),
        tuple(values.get("drop", ())),
    )


def ground() -> tuple[dict[str, str], Change, Change]:
    """The tree before anything, what red adds, what green adds."""
    found = _read("ground.toml")
    return found["start"], Change(files=found["red"]), Change(append=found["green"])


def cheats() -> tuple[Cheat, ...]:
    """All of them, by class."""
    found = []
    for name in sorted(os.listdir(FOLDER)):
        for one in _read(name).get("cheat", ()) if name.endswith(".toml") else ():
            cash = _change(one["cash"]) if "cash" in one else None
            found.append(
                Cheat(
                    id=one["id"],
                    kind=one["class"],
                    phase=one["phase"],
                    why=one["why"],
                    caught=tuple(one["caught"]),
                    change=_change(one),
                    cash=cash,
                    quick=one.get("quick", False),
                )
            )
    return tuple(sorted(found, key=lambda one: CLASSES.index(one.kind)))


def expected() -> dict[str, tuple[str, str]]:
    """Cheats that are not refused yet: only warned about or missed, and why."""
    return {name: (one["state"], one["why"]) for name, one in _read("known.toml").items()}
