"""Which test suites a folder holds: what the person configured, else what its files show."""

from __future__ import annotations

import os

from handoff.base.errors import ConfigError, UserError
from handoff.base.record import TYPE_CHECKING
from handoff.checks.frameworks.table import ANY, BY_READER, FRAMEWORKS
from handoff.checks.suite import EXIT, Folder, Suite, is_entered

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_DEPTH = 4
_CONFIG_KEYS: dict[str, Any] = {
    **dict.fromkeys(("command", "folder", "framework", "results"), str),
    **dict.fromkeys(("files", "tests", "links", "keep"), list),
    "environment": dict,
    "timeout": (int, float),
}


def find_suites(
    top: str, *, configured: Mapping[str, Any] | None = None, path: str = "config.toml"
) -> tuple[Suite, ...]:
    """The suites of the tree at `top`, by folder. What is configured wins, and then nothing is guessed."""
    if configured:
        return tuple(_configured(name, values, path) for name, values in configured.items())
    found: list[Suite] = []
    _look(top, "", frozenset((ANY,)), found)
    if not found:
        last = (row.suite(Folder(top, "")) for row in FRAMEWORKS if row.family == ANY)
        found = [suite for suite in last if suite is not None]
    return tuple(found)


def need_suites(
    top: str, *, configured: Mapping[str, Any] | None = None, path: str = "config.toml"
) -> tuple[Suite, ...]:
    """Like `find_suites`, but none is an error that tells how to name one."""
    found = find_suites(top, configured=configured, path=path)
    if not found:
        raise UserError(
            f"No test suite was found in {top}.",
            f'Name it in {path}, for example:\n\n[checks.unit]\ncommand = "pytest --junitxml={{results}}"\n'
            'results = "junit"\ntests = ["tests/"]\n',
        )
    return found


def _look(top: str, relative: str, done: frozenset[str], found: list[Suite]) -> None:
    """Look here, then below; a language that has its suite here is not looked for again further down."""
    folder = Folder(top, relative)
    for row in FRAMEWORKS:
        suite = None if row.family in done else row.suite(folder)
        if suite is not None:
            found.append(suite)
            done |= {row.family}
    if relative.count("/") + bool(relative) >= _DEPTH:
        return
    for name in sorted(folder.folders):
        if is_entered(name):
            _look(top, f"{relative}/{name}" if relative else name, done, found)


def _configured(name: str, values: Any, path: str) -> Suite:
    """A suite a person wrote down, checked key by key."""
    where = f"{path}: [checks.{name}]"
    if not isinstance(values, dict) or not isinstance(values.get("command"), str) or not values["command"].strip():
        raise ConfigError(f"{where} needs a command.", f'For example: [checks.{name}]\ncommand = "make test"')
    for key, value in values.items():
        kind = _CONFIG_KEYS.get(key)
        if kind is None:
            raise ConfigError(f"{where} has an unknown key '{key}'.", f"Known keys: {', '.join(sorted(_CONFIG_KEYS))}.")
        right = isinstance(value, kind) and not isinstance(value, bool)
        if not right or (kind is list and not all(isinstance(item, str) for item in value)):
            raise ConfigError(
                f"{where}: '{key}' has a value of the wrong kind: {value!r}.", "See: handoff help docs/howto/checks.md"
            )
    files = tuple(values.get("files", ()))
    results = values.get("results") or ("junit" if files or "{results}" in values["command"] else EXIT)
    if results not in BY_READER:
        raise ConfigError(f"{where}: there is no reader '{results}'.", f"Readers: {', '.join(sorted(BY_READER))}.")
    folder = os.path.normpath(values.get("folder", "")).strip("/")
    if folder == ".." or folder.startswith("../"):
        raise ConfigError(f"{where}: the folder lies outside the project.", "Name it from the project's top.")
    environment = tuple((str(key), str(value)) for key, value in values.get("environment", {}).items())
    return Suite(
        name=name,
        framework=values.get("framework") or results,
        folder="" if folder == "." else folder,
        command=values["command"],
        results=results,
        tests=tuple(values.get("tests", ())),
        files=files,
        environment=environment,
        links=tuple(values.get("links", ())),
        keep=tuple(values.get("keep", ())),
        timeout=float(values.get("timeout", 0)),
    )
