"""The relay's tools over HTTP, spoken to with the MCP client library and with plain sockets: who may, from where, how much."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import time
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest

from sandbox import absent
from scripts import processes_with, write_script

try:
    import anyio
    import httpx2
    from mcp import Client, ClientSession
    from mcp.client.streamable_http import streamable_http_client
    from mcp_types import ElicitResult
except ImportError:
    anyio = None

ASKS = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}  # fmt: skip


@pytest.fixture
def endpoint(cli):
    """`handoff mcp --http` in the repository, until the test is over."""
    if anyio is None:
        absent("the package mcp")
    made = Server(cli)
    yield made
    made.close()


class Server:
    """One endpoint as a process."""

    def __init__(self, cli, *words: str) -> None:
        self.cli = cli
        self.process = cli.start("mcp", "--http", "--json", *words)
        said = b""
        while not said.endswith(b"}\n") and (line := self.process.stdout.readline()):
            said += line
        assert said, self.process.communicate()[1].decode()
        self.url = json.loads(said)["url"]
        self.token = cli("mcp", "token", "--json").json["token"]

    def close(self) -> str:
        self.process.send_signal(signal.SIGINT)
        _, err = self.process.communicate(timeout=30)
        return err.decode()

    def talk(self, steps, **headers: str):
        """Speak to it with the client library; `steps` is a coroutine of a session."""
        headers = {"Authorization": f"Bearer {self.token}", **headers}

        async def go():
            async with (
                httpx2.AsyncClient(headers=headers, timeout=60) as client,
                streamable_http_client(self.url, http_client=client) as streams,
                ClientSession(*streams[:2]) as session,
            ):
                await session.initialize()
                return await steps(session)

        return anyio.run(go)

    def post(self, body: bytes | None = None, *, method: str = "POST", **headers: str) -> tuple[int, str]:
        """One request as it comes, with exactly these headers added; `host` may lie."""
        place = urlsplit(self.url)
        connection = http.client.HTTPConnection(place.hostname, place.port, timeout=30)
        data = json.dumps(ASKS).encode() if body is None else body
        named = {"content-type": "application/json", "accept": "application/json, text/event-stream",
                 "authorization": f"Bearer {self.token}", **headers}  # fmt: skip
        connection.request(method, place.path, data, {name: value for name, value in named.items() if value})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text


async def _call(session, name: str, /, **arguments) -> str:
    result = await session.call_tool(name, arguments)
    return ("ERROR " if result.is_error else "") + result.content[0].text


def test_an_unknown_argument_is_an_error_over_http_too(endpoint, cli):
    cli("dump", "--task", "demo", "--next", "make a")

    async def steps(session):
        return await _call(session, "claim", task="demo")

    assert "`claim` has no argument 'task'. It takes: name." in endpoint.talk(steps)
    assert cli("show", "demo", "--json").json["state"] == "ready"


def test_a_person_works_over_http_as_in_a_terminal(endpoint, cli, repo):
    cli("dump", "--task", "demo", "--next", "make a", "--owns", "src/", "--check", "test -f src/a")
    cli("init", "login")
    repo.write(
        ".handoff/features/login/STATE.md",
        "# State\n\n# Current Step\n\nStep 1: build it\n\n# Execution Plan\n\n- [>] Step 1: build it\n",
    )

    async def steps(session):
        assert {tool.name for tool in (await session.list_tools()).tools} >= {
            "task",
            "claim",
            "finish",
            "block",
            "status",
        }
        assert "demo: ready" in await _call(session, "status")
        assert "make a" in await _call(session, "claim", name="demo")
        assert "make a" in (await session.read_resource("handoff://baton")).contents[0].text
        assert "Step 1: build it" in (await session.get_prompt("continue")).messages[0].content.text
        refused = await _call(session, "finish", summary="honest")
        assert refused.startswith("ERROR")
        assert "not done" in refused
        repo.write("src/a", "x")
        return await _call(session, "finish", summary="made it")

    assert "is done" in endpoint.talk(steps)
    assert cli("show", "demo", "--json").json["state"] == "done"


@pytest.mark.parametrize(("mode", "asks"), [("2026-07-28", True), ("legacy", False)])
def test_over_http_a_person_is_asked_where_the_protocol_needs_no_open_connection(endpoint, cli, mode, asks):
    cli("task", "add", "store", "Build it.")
    cli("task", "claim", "store")
    cli("task", "ask", "Which database?", "--task", "store")

    async def fill(context, asked):
        return ElicitResult(action="accept", content={"words": "Redis"})

    async def go():
        headers = {"Authorization": f"Bearer {endpoint.token}"}
        async with httpx2.AsyncClient(headers=headers, timeout=60) as client:
            place = streamable_http_client(endpoint.url, http_client=client)
            async with Client(place, mode=mode, elicitation_callback=fill) as session:
                return await _call(session, "answer")

    assert ("The person said: Redis" if asks else "they answer in a terminal") in anyio.run(go)
    assert cli("gate", "show", "store", "--json").json["state"] == ("approved" if asks else "open")


def test_a_client_elsewhere_names_its_checkout(endpoint, cli, tmp_path):
    from sandbox import Repo

    other = Repo.create(str(tmp_path / "other"))
    cli("dump", "--task", "there", "--next", "in the other one", cwd=other.path)

    async def steps(session):
        return await _call(session, "status")

    assert "there: ready" in endpoint.talk(steps, **{"Handoff-Folder": other.path})
    assert "there" not in endpoint.talk(steps)
    assert endpoint.post(**{"handoff-folder": "/no/such/folder"})[0] == 400


def test_without_a_token_or_with_an_old_or_foreign_one_nobody_is_answered(endpoint, cli):
    assert endpoint.post()[0] == 200
    for wrong in ("", "Bearer", "Bearer person.", "Bearer person.0000", "Basic abc", f"Bearer {endpoint.token}x",
                  "Bearer session-000000000000.abc", "Bearer ../../x.y"):  # fmt: skip
        status, text = endpoint.post(authorization=wrong)
        assert status == 401, wrong
        assert "handoff mcp token" in text
    fresh = cli("mcp", "token", "--rotate", "--json").json["token"]
    assert endpoint.post()[0] == 401
    endpoint.token = fresh
    assert endpoint.post()[0] == 200
    path = os.path.join(os.environ["HANDOFF_HOME"], "mcp.token")
    assert os.stat(path).st_mode & 0o777 == 0o600


def test_a_token_that_steers_everything_opens_the_tools_and_a_smaller_one_does_not(endpoint, cli):
    for words, status in (
        (["--scope", "steer", "--all-projects"], 200),
        (["--scope", "steer"], 403),
        (["--scope", "answer", "--all-projects"], 403),
        ([], 403),
    ):
        endpoint.token = cli("token", "new", "tool", *words, "--json").json["secret"]
        assert endpoint.post()[0] == status, words
        cli("token", "withdraw", "tool")
        assert endpoint.post()[0] == 401


def test_a_page_of_another_site_cannot_reach_it(endpoint):
    port = urlsplit(endpoint.url).port
    assert endpoint.post(host="evil.example")[0] == 421
    assert endpoint.post(host=f"evil.example:{port}")[0] == 421
    assert endpoint.post(origin="https://evil.example")[0] == 403
    assert endpoint.post(host=f"localhost:{port}", origin=f"http://localhost:{port}")[0] == 200


def test_what_is_too_large_or_no_request_is_refused_and_it_goes_on(endpoint):
    assert endpoint.post(b" " * (2 * 1024 * 1024))[0] == 413
    assert endpoint.post(b"{")[0] == 400
    assert endpoint.post(b"[1, 2", **{"content-type": "text/plain"})[0] == 400
    assert endpoint.post(b"", method="GET")[0] == 405
    assert endpoint.post(b"[" * 100_000)[0] == 400
    assert endpoint.post(b"[" * 900)[0] == 400
    assert endpoint.post()[0] == 200


HALF_OPEN = {
    "a head": b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ",
    "a body": b"POST /gates HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{",
}


@pytest.mark.parametrize("half", HALF_OPEN.values(), ids=HALF_OPEN)
def test_a_neighbour_who_begins_many_requests_and_ends_none_stands_in_nobodys_way(endpoint, half):
    place = urlsplit(endpoint.url)
    held = []
    try:
        for _ in range(300):
            held.append(socket.create_connection((place.hostname, place.port), timeout=30))
            held[-1].sendall(half)
        assert endpoint.post()[0] == 200
    finally:
        for one in held:
            one.close()
    assert endpoint.post()[0] == 200


def test_callers_that_hang_up_in_the_middle_leave_no_trace(endpoint):
    place = urlsplit(endpoint.url)
    head = f"POST {place.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {endpoint.token}\r\n"
    for _ in range(20):
        with socket.create_connection((place.hostname, place.port), timeout=30) as one:
            one.sendall(f"{head}Content-Type: application/json\r\nContent-Length: 90\r\n\r\n{{".encode())
    assert endpoint.post()[0] == 200
    assert "Traceback" not in endpoint.close()


def test_a_session_speaks_for_its_own_task_until_it_is_over(endpoint, cli, repo):
    cli("dump", "--task", "demo", "--next", "make a", "--owns", "src/", "--check", "test -f src/a")
    cli("dump", "--task", "other", "--next", "somebody else's")
    home = os.environ["HANDOFF_HOME"]
    go = os.path.join(home, "go")
    script = write_script(
        os.path.join(os.environ["HOME"], "script.toml"), {"run": f"while [ ! -e {go} ]; do sleep 0.05; done"}
    )
    process = cli.start(
        "session", "start", "demo", "--agent", "scripted", "--with", script, "--workspace", "shared", "--json"
    )
    folder = os.path.join(home, "repo", "sessions")
    deadline = time.monotonic() + 60
    while not processes_with(go) and time.monotonic() < deadline:
        time.sleep(0.05)
    (name,) = os.listdir(folder)
    with open(os.path.join(folder, name, "token"), encoding="utf-8") as file:
        endpoint.token = file.read().strip()
    assert not os.path.exists(os.path.join(folder, name, "hello-mcp"))

    async def steps(session):
        assert "make a" in await _call(session, "task")
        assert not {"answer", "say"} & {tool.name for tool in (await session.list_tools()).tools}
        assert "Only a person answers" in await _call(session, "answer", name="other")
        assert "Only a person says something" in await _call(session, "say", name="demo")
        repo.write("src/a", "x")
        return await _call(session, "finish", summary="over http")

    assert "'demo' is done" in endpoint.talk(steps)
    with open(os.path.join(folder, name, "hello-mcp"), encoding="utf-8") as file:
        assert file.read().strip() == endpoint.token
    assert processes_with(endpoint.token) == [], "the token is in nobody's arguments"
    open(go, "w").close()
    out, err = process.communicate(timeout=60)
    end = json.loads(out)
    assert (end["state"], end["reason"]) == ("done", "over http")
    assert endpoint.post()[0] == 401, "the session is over, and its token with it"
    told = subprocess.run(["grep", "-rl", endpoint.token, home], capture_output=True, text=True, check=False).stdout
    assert {os.path.basename(path) for path in told.split()} == {"token", "hello-mcp"}
    assert endpoint.token not in (out + err).decode()


def test_beyond_the_loopback_it_warns_without_a_certificate_and_takes_half_of_one_for_none(cli):
    if anyio is None:
        absent("the package mcp")
    server = Server(cli, "--host", "0.0.0.0", "--name", "relay.example")
    assert server.post(authorization="")[0] == 401
    assert server.post(host="relay.example")[0] == 200
    assert "in the clear" in server.close()
    answer = cli("mcp", "--http", "--certificate", "/no/such.pem", code=1)
    assert "--key" in answer.err
    assert "no file" in cli("mcp", "--http", "--certificate", "/no/such.pem", "--key", "/no/key.pem", code=1).err
    assert "Cannot listen" in cli("mcp", "--http", "--host", "203.0.113.1", code=1).err


def test_with_a_certificate_it_speaks_tls(cli, folder):
    if anyio is None:
        absent("the package mcp")
    import ssl

    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{folder}/key.pem", "-out",
         f"{folder}/cert.pem", "-days", "1", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"],
        capture_output=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    server = Server(cli, "--certificate", f"{folder}/cert.pem", "--key", f"{folder}/key.pem")
    place = urlsplit(server.url)
    assert place.scheme == "https"
    context = ssl.create_default_context(cafile=f"{folder}/cert.pem")
    connection = http.client.HTTPSConnection(place.hostname, place.port, timeout=30, context=context)
    connection.request("POST", place.path, b"{}", {"authorization": "Bearer nobody"})
    assert connection.getresponse().status == 401
    connection.close()
    server.close()
    assert cli("mcp", "token", "--json").json["url"] == ""


@pytest.mark.slow
def test_a_supervisor_answers_where_its_predecessor_did_until_it_was_killed(cli):
    if anyio is None:
        absent("the package mcp")
    urls = []
    for _ in range(2):
        started = cli("work", "--agent", "scripted", "--detach", "--json").json
        told = cli("mcp", "token", "--json").json
        urls.append(told["url"])
        assert Server.post(Told(told["url"], told["token"]))[0] == 200
        assert processes_with(told["token"]) == []
        os.kill(started["pid"], signal.SIGKILL)
        deadline = time.monotonic() + 30
        while cli("mcp", "token", "--json").json["url"] and time.monotonic() < deadline:
            time.sleep(0.05)
    assert urls[0] == urls[1]
    with open(started["log"], encoding="utf-8") as file:
        assert told["token"] not in file.read()


class Told(NamedTuple):
    """An endpoint that somebody else started."""

    url: str
    token: str
