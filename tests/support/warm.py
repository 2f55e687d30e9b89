"""The command as a process of its own that need not import everything first: a warm interpreter forks for each call.

Only the start is shared. Each call has its own process, streams, folder, environment and exit code, as if it had been typed; what
an interpreter reads once when it starts (PYTHON…, the language) may not differ, and such a call is started the long way.
Start-up itself and terminals are tested with `Cli.start`, `tests/house/test_startup.py` and the pages' examples.

Supervisors and servers import for a second what they need: they have a second interpreter, which has all that.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import selectors
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from typing import IO, NamedTuple

COMMAND = (sys.executable, "-m", "handoff.surfaces.cli.main")
_PIPE_BYTES = 65_536
_STREAMS = 3
_LENGTH = struct.Struct("!I")
_NUMBER = struct.Struct("!i")
_READ_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC")


class Call(NamedTuple):
    """What a process is made of."""

    words: tuple[str, ...]
    folder: str
    environment: dict[str, str]
    program: str = ""
    """A file of Python to run instead of the command."""


# What the long-lived commands load beside the rest, and which those are.
HEAVY = (
    "handoff.engine.supervisor.supervisor", "handoff.surfaces.mcp.http", "handoff.surfaces.http.connections",
    "handoff.surfaces.mcp.guard", "handoff.surfaces.mcp.server", "mcp.server", "mcp.server.lowlevel", "uvicorn", "sse_starlette",
    "handoff.surfaces.page.serving", "handoff.surfaces.page.app",
)  # fmt: skip
LONG_LIVED = ("work", "mcp", "page")


class Said(NamedTuple):
    """How it ended, and both streams."""

    code: int
    out: bytes
    err: bytes


class Warm:
    """The interpreter that forks, started when it is first needed, and its caller."""

    def __init__(self, *modules: str) -> None:
        self._modules = modules
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = ""
        self._like: dict[str, str] = {}
        self._lock = threading.Lock()

    def run(self, call: Call, stdin: bytes | None, seconds: float) -> Said:
        """Do what `subprocess.run` does with captured output."""
        if not self._fits(call.environment, stdin):
            return run_cold(call, stdin, seconds)
        with contextlib.ExitStack() as stack:
            connection = stack.enter_context(self._connected(call))
            said: dict[int, bytearray] = {}
            with contextlib.ExitStack() as theirs:
                streams = [_input(theirs, stdin)]
                for _ in ("out", "err"):
                    ours, there = os.pipe()
                    stack.callback(os.close, ours)
                    theirs.callback(os.close, there)
                    said[ours] = bytearray()
                    streams.append(there)
                pid = _ask(connection, call, streams)
            try:
                _read_all(said, seconds)
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(list(call.words), seconds) from None
            return Said(_number(connection), *map(bytes, said.values()))

    def start(self, call: Call, *, speaks: bool) -> Forked | None:
        """What `subprocess.Popen` does with pipes; None where only a real start will do. With `speaks` it has an input."""
        if not self._fits(call.environment, None):
            return None
        connection = self._connected(call)
        with contextlib.ExitStack() as theirs:
            ours, streams = [], []
            for place in range(_STREAMS):
                there, here = os.pipe() if place == 0 else os.pipe()[::-1]
                theirs.callback(os.close, there)
                streams.append(there)
                ours.append(here)
            if not speaks:
                os.close(ours[0])
            pid = _ask(connection, call, streams)
        stdin = os.fdopen(ours[0], "wb") if speaks else None
        return Forked(pid, connection, stdin, os.fdopen(ours[1], "rb"), os.fdopen(ours[2], "rb"))

    def _connected(self, call: Call) -> socket.socket:
        sys.audit("subprocess.Popen", sys.executable, call.words, call.folder, call.environment)
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(self._address)
        return connection

    def close(self) -> None:
        """Let it end."""
        if self._process is not None:
            self._process.communicate()
            self._process = None
            shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def _address(self) -> str:
        return os.path.join(self._folder, "s")

    def _fits(self, environment: dict[str, str], stdin: bytes | None) -> bool:
        """Whether a fork would be what a start is."""
        if not hasattr(os, "pidfd_open") or len(stdin or b"") > _PIPE_BYTES:
            return False
        with self._lock:
            if self._process is not None and self._process.poll() is not None:
                self.close()
            if self._process is None:
                if environment.get("PYTHONPATH", "") != os.environ.get("PYTHONPATH", ""):
                    return False  # it hides modules from itself, and whoever comes after it would miss them too
                self._start(environment)
        return _start_words(environment) == self._like

    def _start(self, environment: dict[str, str]) -> None:
        self._folder = tempfile.mkdtemp(prefix="ho-")
        self._like = _start_words(environment)
        # It belongs to no test: who looks for the processes of a home does not find it.
        nobodys = {name: value for name, value in environment.items() if not name.startswith("HANDOFF_")}
        self._process = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), self._address, *self._modules], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            cwd="/", env=nobodys,
        )  # fmt: skip
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"


class Forked:
    """A command that runs, with the part of `subprocess.Popen` that tests of long-lived commands use."""

    def __init__(
        self, pid: int, connection: socket.socket, stdin: IO[bytes] | None, stdout: IO[bytes], stderr: IO[bytes]
    ) -> None:
        self.pid, self.stdin, self.stdout, self.stderr = pid, stdin, stdout, stderr
        self.returncode: int | None = None
        self._connection = connection
        self._said: dict[str, bytes] = {}

    def poll(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        if self.returncode is None and select.select([self._connection], [], [], 0)[0]:
            self.returncode = _number(self._connection)
            self._connection.close()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None and not select.select([self._connection], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
        code = self.poll()
        assert code is not None
        return code

    def communicate(self, timeout: float | None = None) -> tuple[bytes, bytes]:
        """All that it still says, until it has ended; once more the same."""
        if self.stdin is not None and not self.stdin.closed:
            self.stdin.close()
        readers = [
            threading.Thread(target=lambda name=name, stream=stream: self._read(name, stream), daemon=True)
            for name, stream in (("out", self.stdout), ("err", self.stderr))
        ]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(timeout)
            if reader.is_alive():
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
        self.wait(timeout)
        return self._said["out"], self._said["err"]

    def _read(self, name: str, stream: IO[bytes]) -> None:
        if name not in self._said:
            self._said[name] = stream.read()
            stream.close()

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def run_cold(call: Call, stdin: bytes | None, seconds: float) -> Said:
    """The same call the long way."""
    done = subprocess.run(
        [*COMMAND, *call.words], cwd=call.folder, env=call.environment, input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None, capture_output=True, timeout=seconds, check=False,
    )  # fmt: skip
    return Said(done.returncode, done.stdout, done.stderr)


def _start_words(environment: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(_READ_AT_START)}


def _input(stack: contextlib.ExitStack, stdin: bytes | None) -> int:
    """Where the call reads: all of it is in the pipe before it begins."""
    if stdin is None:
        given = os.open(os.devnull, os.O_RDONLY)
    else:
        given, ours = os.pipe()
        os.write(ours, stdin)
        os.close(ours)
    stack.callback(os.close, given)
    return given


def _read_all(said: dict[int, bytearray], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    with selectors.DefaultSelector() as eyes:
        for number in said:
            eyes.register(number, selectors.EVENT_READ)
        while eyes.get_map():
            ready = eyes.select(deadline - time.monotonic())
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                data = os.read(key.fd, _PIPE_BYTES)
                said[key.fd] += data
                if not data:
                    eyes.unregister(key.fd)


def _ask(connection: socket.socket, call: Call, streams: list[int]) -> int:
    """Have it done with these streams; the number of its process."""
    request = pickle.dumps(tuple(call))
    socket.send_fds(connection, [_LENGTH.pack(len(request))], streams)
    connection.sendall(request)
    return _number(connection)


def _number(connection: socket.socket) -> int:
    found = b""
    while len(found) < _NUMBER.size:
        more = connection.recv(_NUMBER.size - len(found))
        assert more, "the warm interpreter is gone"
        found += more
    number: int = _NUMBER.unpack(found)[0]
    return number


# --- the interpreter that forks ---------------------------------------------------------------------------


def _warm_up(modules: list[str]) -> None:
    import tomllib

    from handoff.surfaces.cli import dispatch, main  # noqa: F401 - the call finds it imported
    from handoff.surfaces.cli.catalog import CATALOG

    for module in {entry.module for entry in CATALOG.values()}:
        __import__(f"handoff.surfaces.cli.commands.{module}")
    tests = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    with open(os.path.join(tests, "house", "loaded.toml"), "rb") as file:
        for table in tomllib.load(file).values():
            for name in table["loads"]:
                __import__(f"handoff.{name}")
    for name in modules:
        with contextlib.suppress(ImportError):  # of a package that is not here; the tests that need it say so
            __import__(name)
    assert threading.active_count() == 1, "only a process without threads may fork"


def _serve(address: str) -> Call:
    """Answer calls until the one who started us is gone; in each child, give back its call."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(address)
    listener.listen(64)
    os.write(1, b"ready\n")
    alive: dict[int, tuple[int, socket.socket]] = {}
    eyes = select.poll()
    eyes.register(0, select.POLLIN | select.POLLHUP)
    eyes.register(listener, select.POLLIN)
    while True:
        for number, _ in eyes.poll():
            if number == 0:
                sys.exit(0)
            if number in alive:
                eyes.unregister(number)
                pid, connection = alive.pop(number)
                os.close(number)
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                with contextlib.suppress(OSError):  # a caller that did not want to wait is gone
                    connection.sendall(_NUMBER.pack(code))
                connection.close()
                continue
            connection, _ = listener.accept()
            call, streams = _received(connection)
            pid = os.fork()
            if not pid:
                for open_one in (listener, connection, *(one for _, one in alive.values())):
                    open_one.close()
                for pidfd in alive:
                    os.close(pidfd)
                return _become(call, streams)
            for stream in streams:
                os.close(stream)
            with contextlib.suppress(OSError):
                connection.sendall(_NUMBER.pack(pid))
            pidfd = os.pidfd_open(pid)
            alive[pidfd] = (pid, connection)
            eyes.register(pidfd, select.POLLIN)


def _received(connection: socket.socket) -> tuple[Call, list[int]]:
    head, streams, _, _ = socket.recv_fds(connection, _LENGTH.size, _STREAMS)
    wanted = _LENGTH.unpack(head)[0]
    body = b""
    while len(body) < wanted:
        body += connection.recv(wanted - len(body))
    return Call(*pickle.loads(body)), streams


def _become(call: Call, streams: list[int]) -> Call:
    for place, stream in enumerate(streams):
        os.dup2(stream, place)
    for stream in streams:
        os.close(stream)
    os.chdir(call.folder)
    os.environ.clear()
    os.environ.update(call.environment)
    time.tzset()
    return call


if __name__ == "__main__":
    import gc

    sys.path.pop(0)  # the folder of this file: the command does not have it
    _warm_up(sys.argv[2:])
    gc.collect()
    gc.freeze()
    asked = _serve(sys.argv[1])
    from handoff.surfaces.cli import main

    sys.argv = [asked.program or str(main.__file__), *asked.words]
    if asked.program:
        import runpy

        runpy.run_path(asked.program, run_name="__main__")
        sys.exit()
    code = main.main()
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    if threading.active_count() > 1:
        sys.exit(code)
    os._exit(code)  # taking a whole interpreter apart costs more than the command did
