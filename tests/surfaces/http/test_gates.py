"""A chat's answer to a gate over HTTP: the code is the proof, and it is good for one answer to one gate."""

from __future__ import annotations

import http.client
import json
import signal
from importlib.util import find_spec
from urllib.parse import urlsplit

import pytest

from sandbox import absent


@pytest.fixture
def broker(cli):
    """`handoff mcp --http`, and how to post to its gates."""
    if find_spec("mcp") is None:
        absent("the package mcp")
    process = cli.start("mcp", "--http", "--json")
    said = b""
    while not said.endswith(b"}\n") and (line := process.stdout.readline()):
        said += line
    place = urlsplit(json.loads(said)["url"])

    def post(body: object, *, method: str = "POST", **headers: str) -> tuple[int, dict]:
        connection = http.client.HTTPConnection(place.hostname, place.port, timeout=60)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        path = headers.pop("path", "/gates")
        connection.request(method, path, data, {"content-type": "application/json", **headers})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, json.loads(text) if text.startswith("{") else {"error": text}

    yield post
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)


@pytest.fixture
def code(cli):
    cli("dump", "--task", "login", "--next", "Build the login.")
    cli("task", "claim", "login")
    cli("task", "ask", "Is this the spec?")
    return cli("gate", "show", "login", "--json").json["code"]


def test_a_code_answers_its_gate_once_and_needs_no_token(broker, code, cli):
    status, said = broker({"code": code, "answer": "edit", "text": "The new spec.", "by": "ann"})
    assert (status, said["task"], said["state"]) == (200, "login", "ready")
    assert cli("log", "login", "--json").json[-1]["session"] == "ann"
    path = cli("task", "claim", "login", "--json").json["document"]
    with open(path, encoding="utf-8") as file:
        assert "The new spec." in file.read()
    assert broker({"code": code, "answer": "no"})[0] == 409


def test_what_is_not_a_whole_answer_changes_nothing(broker, code, cli):
    assert broker({"code": "wrong", "answer": "yes"})[0] == 400
    assert broker({"code": "", "answer": "yes"})[0] == 400
    assert broker({"code": code, "answer": " "})[0] == 400
    assert broker({"code": code, "answer": "edit"})[0] == 400
    assert broker({"code": code, "answer": ["yes"]})[0] == 400
    assert broker(b"code=" + code.encode())[0] == 400
    assert broker({"code": code, "answer": "yes"}, **{"content-type": "text/plain"})[0] == 400
    assert broker({"code": code, "answer": "yes"}, method="PUT")[0] == 405
    assert broker({"code": code, "answer": "edit", "text": "x" * 300_000})[0] == 413
    assert broker(b"[" * 100_000)[0] == 400
    assert len(cli("gate", "list", "--json").json) == 1


def test_a_page_of_another_site_cannot_answer(broker, code, cli):
    for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}):
        assert broker({"code": code, "answer": "yes"}, **headers)[0] in (400, 403, 421)
    assert len(cli("gate", "list", "--json").json) == 1


def test_the_link_of_a_notice_answers_its_gate_and_nothing_else_and_looking_uses_nothing_up(broker, cli):
    cli("dump", "--task", "login", "--next", "Build the login.")
    cli("task", "claim", "login")
    cli("task", "ask", "Is <script>alert(1)</script> the spec?", "--from", "-", stdin='A "text"</textarea><b>')
    code = cli("gate", "show", "login", "--json").json["code"]
    for _ in range(2):  # a program that shows previews looks first
        status, said = broker(b"", method="GET", path=f"/gates?code={code}")
        assert status == 200
        page = said["error"]
        assert "&lt;script&gt;" in page
        assert "<script" not in page
        assert "</textarea><b>" not in page
        assert page.count(code) == 3  # in its three forms
    assert broker(b"", method="GET", path="/gates?code=wrong")[0] == 400
    form = {"content-type": "application/x-www-form-urlencoded"}
    assert broker(f"code={code}&answer=no&text=".encode(), origin="https://evil.example", **form)[0] == 403
    status, said = broker(f"code={code}&answer=edit&text=As%20it%20is%0D%0Ato%20be&by=a+link".encode(), **form)
    assert (status, "login is ready" in said["error"]) == (200, True)
    shown = cli("show", "login", "--json").json["gate"]
    assert (shown["answer"], shown["answered_by"]) == ("As it is\nto be", "a link")
    assert broker(f"code={code}&answer=yes".encode(), **form)[0] == 409
    assert broker(b"", method="GET", path=f"/gates?code={code}")[0] == 409
