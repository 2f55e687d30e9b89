"""A real Postgres that speaks nothing but TLS, with a certificate of an authority made for the test."""

from __future__ import annotations

import glob
import os
import shutil
import socket
import subprocess
import tempfile
from typing import NamedTuple

import psycopg
import pytest

from databases import quick_folder
from sandbox import absent

PASSWORD = "p/w@s:e?c%r"
IN_ADDRESS = "p%2Fw%40s%3Ae%3Fc%25r"
_HBA = "hostssl all all 127.0.0.1/32 scram-sha-256\nhostssl all all ::1/128 scram-sha-256\n"


class TlsServer(NamedTuple):
    """Where it listens, and the certificate of the authority that signed its own."""

    port: int
    authority: str
    folder: str

    def url(self, *, user: str = "postgres", options: str = "", host: str = "localhost", password: str = "") -> str:
        return f"postgresql://{user}:{password or IN_ADDRESS}@{host}:{self.port}/postgres?{options}"

    @property
    def verified(self) -> str:
        return f"sslmode=verify-full&sslrootcert={self.authority}"

    def sql(self, *statements: str, user: str = "postgres") -> None:
        with psycopg.connect(self.url(user=user, options=self.verified), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)


def make_authority(folder: str, name: str) -> str:
    """A self-made authority; its certificate's path."""
    key, certificate = os.path.join(folder, f"{name}.key"), os.path.join(folder, f"{name}.pem")
    _openssl(
        "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-subj", f"/CN={name}"
    )
    return certificate


def _openssl(*words: str) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True, timeout=60)


def _make_certificate(folder: str, authority: str) -> None:
    request, extra = os.path.join(folder, "request"), os.path.join(folder, "extra")
    with open(extra, "w", encoding="utf-8") as file:
        file.write("subjectAltName=DNS:localhost\n")
    _openssl(
        "req",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-keyout",
        f"{folder}/server.key",
        "-out",
        request,
        "-subj",
        "/CN=localhost",
    )
    _openssl("x509", "-req", "-in", request, "-CA", authority, "-CAkey", authority.replace(".pem", ".key"),
             "-CAcreateserial", "-extfile", extra, "-out", f"{folder}/server.crt")  # fmt: skip
    os.chmod(f"{folder}/server.key", 0o600)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture(scope="session")
def tls_server():
    """One server for the run; pip's Postgres is built without TLS, the system's has it."""
    programs = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
    if not programs:
        absent("a system Postgres")
    if not shutil.which("openssl"):
        absent("openssl")
    user = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.getuid() == 0 else {}
    with tempfile.TemporaryDirectory(prefix="tls-", dir=quick_folder(), ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)
        authority = make_authority(folder, "authority")
        _make_certificate(folder, authority)
        secret, data = os.path.join(folder, "secret"), os.path.join(folder, "data")
        with open(secret, "w", encoding="utf-8") as file:
            file.write(PASSWORD)
        os.mkdir(data, 0o700)
        if user:
            for name in (secret, data, f"{folder}/server.key"):
                shutil.chown(name, "postgres", "postgres")
        init = [f"{programs[-1]}/initdb", "-D", data, "-U", "postgres", "-A", "scram-sha-256", "--pwfile", secret, "-N"]
        subprocess.run(init, check=True, capture_output=True, timeout=120, cwd=folder, **user)
        port = _free_port()
        with open(os.path.join(data, "pg_hba.conf"), "w", encoding="utf-8") as file:
            file.write(_HBA)
        settings = {
            "listen_addresses": "localhost", "port": port, "ssl": "on", "ssl_cert_file": f"{folder}/server.crt",
            "ssl_key_file": f"{folder}/server.key", "unix_socket_directories": "", "fsync": "off",
        }  # fmt: skip
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with open(os.path.join(folder, "log"), "w", encoding="utf-8") as log:
            server = subprocess.Popen(
                [f"{programs[-1]}/postgres", "-D", data, *words], stdout=log, stderr=log, cwd=folder, **user
            )
        try:
            _wait(programs[-1], port)
            yield TlsServer(port, authority, folder)
        finally:
            server.kill()
            server.wait()


def _wait(programs: str, port: int) -> None:
    ready = [f"{programs}/pg_isready", "-h", "localhost", "-p", str(port), "-t", "1"]
    for _ in range(600):
        if subprocess.run(ready, capture_output=True, check=False).returncode == 0:
            return
    raise AssertionError("the server does not start")
