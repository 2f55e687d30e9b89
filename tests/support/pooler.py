"""A PgBouncer of the test's own, in transaction mode, in front of the test's own server: its socket and files in one folder."""

from __future__ import annotations

import os
import shutil
import subprocess

from handoff.base.clock import SystemClock
from sandbox import absent

_NOBODY = 65534
_PORT = 6432  # the name of a socket in its folder; nothing listens on the network
_INI = """[databases]
postgres = host={server} dbname=postgres user=postgres
[pgbouncer]
listen_addr =
listen_port = {port}
unix_socket_dir = {folder}
auth_type = any
pool_mode = transaction
default_pool_size = {connections}
max_client_conn = {clients}
ignore_startup_parameters = extra_float_digits
server_reset_query =
server_login_retry = 1
logfile = {folder}/log
pidfile =
"""


class Pooler:
    """Many clients on few connections of the server: each transaction may meet another one."""

    def __init__(self, folder: str, server: str, *, connections: int = 3, clients: int = 200) -> None:
        program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
        if program is None:
            absent("pgbouncer")
        self.url = f"postgresql://postgres:@/postgres?host={folder}&port={_PORT}"
        path = os.path.join(folder, "pgbouncer.ini")
        with open(path, "w", encoding="utf-8") as file:
            file.write(_INI.format(server=server, folder=folder, port=_PORT, connections=connections, clients=clients))
        user = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
        if user:
            os.chown(folder, _NOBODY, _NOBODY)
        self._process = subprocess.Popen(
            [program, path], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            **user,
        )  # fmt: skip
        self._wait(folder)

    def _wait(self, folder: str) -> None:
        clock = SystemClock()
        deadline = clock.monotonic() + 20.0
        while not os.path.exists(os.path.join(folder, f".s.PGSQL.{_PORT}")):
            assert self._process.poll() is None, "PgBouncer ended at once"
            assert clock.monotonic() < deadline, "PgBouncer did not start"
            clock.sleep(0.02)

    def stop(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.wait(timeout=20)
