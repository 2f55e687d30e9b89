"""Scripts for the scripted agent, written for one test."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

DETACHED = ">/dev/null 2>&1 </dev/null &"


def write_script(path: str, *acts: dict[str, Any]) -> str:
    """A script file with these acts; JSON's texts are TOML's."""
    with open(path, "w", encoding="utf-8") as file:
        for act in acts:
            file.write("[[act]]\n")
            file.writelines(f"{name} = {json.dumps(value)}\n" for name, value in act.items())
    return path


def handoff(*words: str) -> str:
    """A line that runs our command with this very interpreter."""
    return " ".join([sys.executable, "-m", "handoff.surfaces.cli.main", *words])


def processes_with(text: str) -> list[int]:
    """The living processes whose command line holds `text`."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    words = file.read()
            except OSError:
                continue
            if text.encode() in words and int(name) != os.getpid():
                found.append(int(name))
    return found
