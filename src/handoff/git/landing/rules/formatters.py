"""Which formatter a project has for a file, by its settings: what it really does is seen when it is run."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Read = Callable[[str], bytes | None]

_PYTHON = (".py", ".pyi")
_WEB = tuple(".js .jsx .mjs .cjs .ts .tsx .mts .cts .css .scss .less .json .md .html .vue .yaml .yml".split())
_PRETTIER = tuple(
    f"{stem}{ending}"
    for stem, endings in (
        (".prettierrc", ("", ".json", ".yaml", ".yml", ".json5", ".js", ".cjs", ".mjs", ".toml")),
        ("prettier.config", (".js", ".cjs", ".mjs", ".ts")),
    )
    for ending in endings
)
_EDITION = re.compile(rb"""^\s*edition\s*=\s*["'](\d{4})["']""", re.MULTILINE)


class Formatter(NamedTuple):
    """A formatter by its name, and the command that formats one file in its place."""

    name: str
    command: str

    @property
    def program(self) -> str:
        return self.command.partition(" ")[0]


def formatters_for(path: str, read: Read) -> list[Formatter]:
    """The formatters that the settings above a file name, the nearest first; `read` tells the bytes of a file of the tree."""
    return list(dict.fromkeys(one for folder in _above(path) for one in _in_folder(path, folder, read)))


def _above(path: str) -> list[str]:
    """The folders above a file, each with a slash at its end; the top is empty."""
    return [*(path[: at + 1] for at in range(len(path) - 1, -1, -1) if path[at] == "/"), ""]


def _in_folder(path: str, folder: str, read: Read) -> Iterator[Formatter]:
    if path.endswith(_PYTHON):
        project = read(f"{folder}pyproject.toml") or b""
        if b"[tool.ruff" in project or any(read(folder + name) is not None for name in ("ruff.toml", ".ruff.toml")):
            yield Formatter("ruff format", "ruff format --no-cache --quiet --force-exclude")
        if b"[tool.black" in project:
            yield Formatter("black", "black --quiet")
    elif path.endswith(_WEB):
        if b'"prettier"' in (read(f"{folder}package.json") or b"") or any(
            read(folder + one) is not None for one in _PRETTIER
        ):
            yield Formatter("prettier", "prettier --write --log-level error")
    elif path.endswith(".go") and read(f"{folder}go.mod") is not None:
        yield Formatter("gofmt", "gofmt -w")
    elif path.endswith(".rs") and (cargo := read(f"{folder}Cargo.toml")) is not None:
        edition = _EDITION.search(cargo)
        yield Formatter("rustfmt", f"rustfmt --edition {edition[1].decode() if edition else '2015'}")
