"""The JavaScript test runners the tests drive: installed once, in a folder of their own outside every tree."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys

_CACHE = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # read now: inside a test HOME is its own
PACKAGES = ("vitest@3.2.4", "vite@6.4.1", "jest@30.2.0", "mocha@11.7.4", "c8@10.1.3", "nyc@17.1.0")
FOLDER = os.environ.get("HANDOFF_TEST_SCRIPTS_DIR") or os.path.join(
    _CACHE, "handoff-test-scripts-" + hashlib.sha256(" ".join(PACKAGES).encode()).hexdigest()[:8]
)
AXE = os.path.join(_CACHE, "handoff-test-axe-4.10.2")
"""What looks for barriers in the page: a folder of its own, because it is small and the runners are not."""
_DONE = ".installed"
_SECONDS = 600


def modules() -> str | None:
    """Their node_modules, once they were installed to the end."""
    return os.path.join(FOLDER, "node_modules") if os.path.exists(os.path.join(FOLDER, _DONE)) else None


def axe() -> str | None:
    """The script that looks for barriers, once it was installed."""
    path = os.path.join(AXE, "node_modules", "axe-core", "axe.min.js")
    return path if os.path.exists(os.path.join(AXE, _DONE)) else None


def install() -> int:
    """Install what is missing; nothing outside the folders is touched."""
    if shutil.which("npm") is None:
        print("npm is absent: tests of vitest, jest, mocha, c8, nyc and axe-core are passed by")
        return 1
    code = 0 if axe() is not None else _install(AXE, "axe-core@4.10.2")
    return code or (0 if modules() is not None else _install(FOLDER, *PACKAGES))


def _install(folder: str, *packages: str) -> int:
    os.makedirs(folder, exist_ok=True)
    npm = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix", folder, *packages]
    code = subprocess.run(npm, check=False, timeout=_SECONDS).returncode
    if code == 0:
        open(os.path.join(folder, _DONE), "w", encoding="utf-8").close()
    return code


if __name__ == "__main__":
    sys.exit(install())
