"""The one way out of a sandbox without a network: a proxy outside that knows the list of hosts, and its door inside.

Outside, `main` leaves a copy of itself behind that serves, and becomes the sandbox. Inside, `enter` opens listening sockets,
hands them out to that copy, and becomes the command. What listens inside is answered outside, and nothing else joins the two.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
from typing import NoReturn

from handoff.agents.sandbox.landlock import become
from handoff.agents.sandbox.policy import HostList, loopback_ports, split_host
from handoff.base.files import SOURCES
from handoff.base.process import copy_of_us, replace
from handoff.base.record import TYPE_CHECKING
from handoff.base.settings import from_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Answer = Callable[[socket.socket], None]

_LAUNCH = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from handoff.agents.sandbox.proxy import {0}; {0}(sys.argv[1:])"
)
_DOOR = 97  # a number no program has open
_HERE = "127.0.0.1"
_NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_LONGEST_HEAD, _CHUNK, _MOST_REFUSED = 1 << 16, 1 << 16, 200
_HEAD_SECONDS, _CONNECT_SECONDS = 60.0, 30.0
_DIE_WITH_PARENT = 1
_HTTPS = 443


def outer_words(hosts: Sequence[str], log: str) -> list[str]:
    """What stands before the sandbox's own words."""
    options = [*(f"--host={host}" for host in hosts), *([f"--log={log}"] if log else [])]
    return [sys.executable, "-I", "-S", "-c", _LAUNCH.format("main"), SOURCES, *options, "--"]


def inner_words(hosts: Sequence[str]) -> list[str]:
    """What stands before the command, inside."""
    ports = [f"--port={port}" for port in dict.fromkeys(loopback_ports(hosts))]
    return [sys.executable, "-I", "-S", "-c", _LAUNCH.format("enter"), SOURCES, *ports, "--"]


def _options(words: Sequence[str], name: str) -> list[str]:
    return [word.partition("=")[2] for word in words[: list(words).index("--")] if word.startswith(f"--{name}=")]


def main(words: Sequence[str]) -> NoReturn:
    """Outside: leave the proxy behind and become the sandbox."""
    ours, theirs = socket.socketpair()
    hosts, log = _options(words, "host"), next(iter(_options(words, "log")), "")
    me = os.getpid()
    copy_of_us(lambda: _serve(ours, theirs, me, hosts, log))
    ours.close()
    os.dup2(theirs.fileno(), _DOOR)
    os.set_inheritable(_DOOR, True)
    replace(words[list(words).index("--") + 1 :])


def enter(words: Sequence[str]) -> NoReturn:
    """Inside: open the door and become the command."""
    sockets = [socket.create_server((_HERE, 0))]
    for port in map(int, _options(words, "port")):
        with contextlib.suppress(OSError):
            sockets.append(socket.create_server((_HERE, port)))
    with socket.socket(fileno=_DOOR) as door:
        ports = [one.getsockname()[1] for one in sockets]
        socket.send_fds(door, [" ".join(map(str, ports)).encode()], [one.fileno() for one in sockets])
    address = f"http://{_HERE}:{ports[0]}"
    environment = {name: value for name, value in from_environment().environment.items() if name.upper() not in _NAMES}
    environment.update({name: address for one in _NAMES for name in (one, one.lower())})
    environment.update(dict.fromkeys(("NO_PROXY", "no_proxy"), f"localhost,{_HERE},::1"), NODE_USE_ENV_PROXY="1")
    become(words[list(words).index("--") + 1 :], environment)


# --- outside ---------------------------------------------------------------------------------------------------


def _serve(ours: socket.socket, theirs: socket.socket, parent: int, hosts: Sequence[str], log: str) -> int:
    """Take over what listens inside and answer it until the sandbox is gone."""
    import ctypes

    theirs.close()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # they are for the session
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        return 0
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):
        os.dup2(nothing, stream)
    text, files, _, _ = socket.recv_fds(ours, 1024, 64)
    ours.close()
    gate = _Gate(HostList(hosts), log, from_environment().environment)
    for place, (port, file) in enumerate(zip(map(int, text.split()), files, strict=False)):
        answer = gate.answer if place == 0 else lambda talk, port=port: gate.pass_on(talk, _HERE, port)
        threading.Thread(target=_accept, args=(socket.socket(fileno=file), answer), daemon=True).start()
    threading.Event().wait()
    return 0


def _accept(listening: socket.socket, answer: Answer) -> None:
    while True:
        talk, _ = listening.accept()
        threading.Thread(target=_one, args=(talk, answer), daemon=True).start()


def _one(talk: socket.socket, answer: Answer) -> None:
    with talk, contextlib.suppress(OSError, UnicodeError, ValueError):
        answer(talk)


class _Gate:
    """Who asks is let through to hosts of the list, or told no by name."""

    def __init__(self, hosts: HostList, log: str, environment: Mapping[str, str]) -> None:
        self._hosts, self._log, self._environment = hosts, log, environment
        self._refused: set[str] = set()

    def answer(self, talk: socket.socket) -> None:
        """One connection to the proxy: CONNECT, or a request with a whole address."""
        talk.settimeout(_HEAD_SECONDS)
        head, body = _head(talk)
        line, _, rest = head.partition(b"\r\n")
        method, target, version = line.decode("ascii").split(" ")
        if method == "CONNECT":
            host, port = split_host(target, _HTTPS)
            beginning = b""
        else:
            scheme, _, after = target.partition("://")
            name, slash, path = after.partition("/")
            host, port = split_host(name.rpartition("@")[2], 80)
            if scheme != "http" or not host:
                talk.sendall(b"HTTP/1.1 400 An address is needed\r\nConnection: close\r\n\r\n")
                return
            lines = [
                one for one in rest.split(b"\r\n") if not one.lower().startswith((b"proxy-", b"connection:", b"host:"))
            ]
            begin = [
                f"{method} {slash}{path} {version}" if slash else f"{method} / {version}",
                f"Host: {name}",
                "Connection: close",
            ]
            beginning = b"\r\n".join(
                [*(one.encode("ascii") for one in begin), *(one for one in lines if one), b"", b""]
            )
        if not self._hosts.has(host, port):
            self._refuse(talk, host, port)
            return
        try:
            away = self._way_to(host, port)
        except OSError:
            talk.sendall(f"HTTP/1.1 502 {host} cannot be reached\r\nConnection: close\r\n\r\n".encode())
            return
        with away:
            if method == "CONNECT":
                talk.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
            away.sendall(beginning + body)
            _join(talk, away)

    def pass_on(self, talk: socket.socket, host: str, port: int) -> None:
        """One connection to a port of this machine that is on the list."""
        with socket.create_connection((host, port), _CONNECT_SECONDS) as away:
            _join(talk, away)

    def _refuse(self, talk: socket.socket, host: str, port: int) -> None:
        shown = "".join(one if one.isalnum() or one in ".-_:" else "?" for one in f"{host}:{port}")[:200]
        say = f"handoff does not let this session reach {shown}"
        text = f'{say} (network = "providers"). Who may: a person adds it to session_hosts in config.toml of $HANDOFF_HOME.\n'
        talk.sendall(
            f"HTTP/1.1 403 {say}\r\nContent-Type: text/plain\r\nContent-Length: {len(text)}\r\nConnection: close\r\n\r\n{text}".encode()
        )
        if shown not in self._refused and len(self._refused) < _MOST_REFUSED:
            self._refused.add(shown)
            if self._log:
                with open(self._log, "a", encoding="utf-8") as file:
                    file.write(shown + "\n")
            else:
                os.write(2, f"handoff: refused {shown}\n".encode())

    def _way_to(self, host: str, port: int) -> socket.socket:
        """A connection to the host: through the person's own proxy where they have one, else straight."""
        upstream = self._upstream(host, port)
        if upstream:
            name, number = split_host(upstream.partition("://")[2].partition("/")[0].rpartition("@")[2], 8080)
            away = socket.create_connection((name, number), _CONNECT_SECONDS)
            away.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n{_login(upstream)}\r\n".encode())
            head, body = _head(away)
            if body or b" 200" not in head.partition(b"\r\n")[0]:
                raise OSError(host)
            return away
        for family, place in self._hosts.addresses(host, port):
            away = socket.socket(socket.AddressFamily(family), socket.SOCK_STREAM)
            away.settimeout(_CONNECT_SECONDS)
            if not away.connect_ex(place):
                return away
            away.close()
        raise OSError(host)

    def _upstream(self, host: str, port: int) -> str:
        said = self._environment
        names = ("HTTPS_PROXY", "ALL_PROXY") if port == _HTTPS else ("HTTP_PROXY", "ALL_PROXY")
        found = next((said[key] for name in names for key in (name, name.lower()) if said.get(key)), "")
        without = [one.strip().lstrip("*.") for one in (said.get("NO_PROXY") or said.get("no_proxy") or "").split(",")]
        past = any(one and (host == one or host.endswith(f".{one}")) for one in without)
        return found if found.startswith("http://") and not past else ""


def _login(upstream: str) -> str:
    who = upstream.partition("://")[2].rpartition("@")[0]
    if not who:
        return ""
    from base64 import b64encode
    from urllib.parse import unquote

    return f"Proxy-Authorization: Basic {b64encode(unquote(who).encode()).decode()}\r\n"


def _head(talk: socket.socket) -> tuple[bytes, bytes]:
    """The head of a request, and what came with it already."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = talk.recv(_CHUNK)
        if not piece or len(data) > _LONGEST_HEAD:
            raise OSError
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    return head, body


def _join(one: socket.socket, other: socket.socket) -> None:
    """Carry bytes both ways until both sides have said their last."""
    one.settimeout(None)
    other.settimeout(None)
    back = threading.Thread(target=_carry, args=(other, one), daemon=True)
    back.start()
    _carry(one, other)
    back.join()


def _carry(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(_CHUNK):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
