"""What real clients said when their provider failed: shortened from a run of tests/clients/test_endings.py, read by the quick tests.

`HANDOFF_TEST_ENDINGS=yes make test-clients`, then `python tests/support/recorded_endings.py` writes them anew.
"""

from __future__ import annotations

import glob
import json
import os
import re
from typing import Any

from real_clients import FOLDER
from source import ROOT

FILE = os.path.join(ROOT, "tests", "agents", "recorded_endings.json")
_KEPT = os.path.join(FOLDER, "endings")
_LEFT_OUT = re.compile(
    r"id$|uuid|timestamp|usage|stats|duration|cost|token|server|date|content-|snapshot|fast_|retry_delay", re.IGNORECASE
)
_LONGEST = 600


def read() -> list[dict[str, Any]]:
    """Every recording: client, failure, exit (as its monitor wrote it), events and errors."""
    with open(FILE, encoding="utf-8") as file:
        return list(json.load(file))


def keep(name: str, said: dict[str, str]) -> None:
    """What one client said in one run, whole."""
    os.makedirs(_KEPT, exist_ok=True)
    with open(os.path.join(_KEPT, name), "w", encoding="utf-8") as file:
        json.dump(said, file)


def _short(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _short(one)
            for key, one in value.items()
            if not _LEFT_OUT.search(key) and one not in (None, "", [], {})
        }
    if isinstance(value, list):
        return [_short(one) for one in value]
    return _plain(value)[:_LONGEST] if isinstance(value, str) else value


def _plain(text: str) -> str:
    """Without the folders and ports of the machine it ran on."""
    text = re.sub(r"(?:file://)?/[\w.@+-]+(?:/[\w.@+-]+)+", "PATH", text)
    return re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:1", text)


def _event(line: str) -> str:
    """A line as short as it may be; nothing for what only repeats the baton."""
    if "Task `demo`" in line or '"init"' in line or '"hook_' in line or "hook-trust" in line:
        return ""
    try:
        value = json.loads(line)
    except ValueError:
        return _plain(line)[:_LONGEST]
    return json.dumps(_short(value), ensure_ascii=False)


def write() -> None:
    found = []
    for path in sorted(glob.glob(os.path.join(_KEPT, "*"))):
        with open(path, encoding="utf-8") as file:
            raw = json.load(file)
        client, _, failure = os.path.basename(path).partition("-")
        events = [short for line in raw["events.jsonl"].splitlines() if (short := _event(line))]
        told = json.loads(raw["exit.json"] or "{}")
        found.append(
            {
                "client": client,
                "failure": failure,
                "exit": {"code": told.get("code"), "stopped": told.get("stopped")},
                "events": events[-8:],
                "errors": _plain(raw["errors.log"])[-_LONGEST:],
            }
        )
    with open(FILE, "w", encoding="utf-8") as file:
        json.dump(found, file, indent=1, ensure_ascii=False)
        file.write("\n")


if __name__ == "__main__":
    write()
