"""Sessions that the real clients wrote themselves: one text a recording, with places in it for what belongs to one machine."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
from typing import NamedTuple

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "recorded", "real")
_FILE = "=== "
"""Begins the line that names a file below the home; what it holds follows, a database as SQL."""


class Recording(NamedTuple):
    """One session as its client left it."""

    client: str
    version: str
    journey: str
    began: int
    files: dict[str, str]

    @property
    def path(self) -> str:
        return os.path.join(FOLDER, self.client, f"{self.journey}.txt")


def places(project: str, home: str, base: str) -> dict[str, str]:
    """What stands for what, the longer texts first."""
    return {
        "{{project}}": project,
        "{{slug}}": re.sub(r"[^A-Za-z0-9]", "-", project),
        "{{hash}}": hashlib.sha256(project.encode()).hexdigest(),
        "{{home}}": home,
        "{{base}}": base,
    }


def recordings() -> list[Recording]:
    """All of them, client by client."""
    found = []
    for client in sorted(os.listdir(FOLDER)):
        for name in sorted(os.listdir(os.path.join(FOLDER, client))):
            with open(os.path.join(FOLDER, client, name), encoding="utf-8") as file:
                head, *parts = file.read().split(f"\n{_FILE}")
            told = dict(part.split("\n", 1) for part in parts)
            found.append(Recording(**json.loads(head), files=told))
    return found


def keep(recording: Recording) -> None:
    """Write it where it is played from."""
    os.makedirs(os.path.dirname(recording.path), exist_ok=True)
    about = {name: value for name, value in recording._asdict().items() if name != "files"}
    with open(recording.path, "w", encoding="utf-8") as file:
        file.write(json.dumps(about))
        file.writelines(f"\n{_FILE}{name}\n{text}" for name, text in recording.files.items())


def put(recording: Recording, filled: dict[str, str]) -> str:
    """The record in its place, as if its client had written it here; the path of the file that tells most."""

    def fill(text: str) -> str:
        for name, value in filled.items():
            text = text.replace(name, value)
        return text

    written = []
    for name, text in recording.files.items():
        path = os.path.join(filled["{{home}}"], fill(name))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if path.endswith(".db"):
            with sqlite3.connect(path) as base:
                base.executescript(fill(text))
            base.close()
        else:
            with open(path, "w", encoding="utf-8") as file:
                file.write(fill(text))
        os.chmod(path, 0o600)
        written.append((len(text), path))
    return max(written)[1]
