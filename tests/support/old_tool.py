"""handoff-fanout from PyPI as a peer: installed beside the tests, its own home, its own commands."""

from __future__ import annotations

import os
import subprocess
import sys

from sandbox import absent

FIRST, LAST = "1.3.0", "1.9.0"
# Its half a minute of sleep between two parts, and its limit of parts in a home, are not what is tested here.
_PATIENT = (
    "import sys, handoff_fanout.dump as d; d.STAGGER_SPAWN_SECONDS = 0; d.GLOBAL_ACTIVE_LIMIT = 99;"
    "from handoff_fanout.cli import main; sys.exit(main(sys.argv[1:]))"
)


class OldTool:
    """Its commands, in one checkout and one home."""

    def __init__(self, place: str, home: str, folder: str) -> None:
        self.home, self.folder = home, folder
        self._environment = {**os.environ, "PYTHONPATH": place, "HANDOFF_HOME": home, "HANDOFF_NO_PBCOPY": "1"}

    def __call__(self, *words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", _PATIENT, *words], cwd=self.folder, env=self._environment, capture_output=True,
            text=True, check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout


def install(place: str, release: str) -> str:
    """Where it is installed; it has no dependencies, so a folder is enough."""
    wanted = f"handoff-fanout=={release}"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-compile", "--target", place, wanted]
    done = subprocess.run(pip, capture_output=True, text=True, check=False, timeout=180)
    if done.returncode:
        absent(f"{wanted} ({done.stderr.strip()[-200:]})")
    return place


def contents(folder: str) -> dict[str, bytes]:
    """Every file below a folder, byte for byte, with the time it was last written."""
    found = {}
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, folder)] = file.read() + str(os.stat(path).st_mtime_ns).encode()
    return found
