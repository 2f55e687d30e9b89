"""The network by list: what is on it is reached by the usual clients, everything else is refused by name."""

from __future__ import annotations

import http.server
import json
import os
import socket
import subprocess
import sys
import threading

import pytest

from handoff.agents.sandbox.policy import HostList, hosts_in, loopback_ports
from handoff.agents.sandbox.sandbox import BUBBLEWRAP, LANDLOCK, layer
from handoff.base.errors import Refused
from handoff.base.settings import from_environment
from handoff.engine.app import App
from handoff.engine.place import workspaces
from handoff.engine.place.proof import sandboxes
from handoff.git.workspaces import WorkspaceRequest
from sandbox import absent
from snapshot_archive import SnapshotArchive

ANOTHER, METADATA = "127.0.0.2", "169.254.169.254"
LOOK = """
import json, socket, sys, urllib.error, urllib.request
asked = json.load(open("asked.json"))
found = {}
for name, url in asked["urls"].items():
    try:
        found[name] = urllib.request.urlopen(url, timeout=30).read().decode()
    except urllib.error.HTTPError as error:
        found[name] = f"{error.code} {error.read().decode()}"
    except OSError as error:
        found[name] = str(error)
for name, (family, place) in asked["sockets"].items():
    one = socket.socket(getattr(socket, family))
    one.settimeout(10)
    try:
        one.connect(tuple(place) if isinstance(place, list) else place)
        found[name] = "reached"
    except OSError:
        found[name] = "no"
own = socket.create_server(("127.0.0.1", 0))
socket.create_connection(own.getsockname(), 10)
found["own"] = "reached"
print(json.dumps(found))
"""


class _Answers(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = f"answered {self.path} {self.headers['Host']}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        return


@pytest.fixture
def served():
    """Two servers of this machine: one as the person's own model server, one by another address."""
    servers = [http.server.ThreadingHTTPServer((host, 0), _Answers) for host in ("127.0.0.1", "127.0.0.2")]
    for one in servers:
        threading.Thread(target=one.serve_forever, daemon=True).start()
    yield [one.server_address[1] for one in servers]
    for one in servers:
        one.shutdown()
        one.server_close()


def _inside(repo, settings: str, asked: dict, by: str = BUBBLEWRAP) -> tuple[dict, str]:
    home = os.environ["HANDOFF_HOME"]
    os.makedirs(home, exist_ok=True)
    with open(os.path.join(home, "config.toml"), "w", encoding="utf-8") as file:
        file.write(settings)
    archive = SnapshotArchive(repo.path)
    made = workspaces.add_workspace(archive.app, order=WorkspaceRequest("one"), snapshot_store=archive.snapshot_store)
    with open(os.path.join(made.workspace.tree, "asked.json"), "w", encoding="utf-8") as file:
        json.dump(asked, file)
    app = App(from_environment())
    sandbox = sandboxes.sandbox_of_workspace(app, workspace=made.workspace)._replace(layer=by)
    wrapped = sandboxes.inside(app, sandbox=sandbox, argv=[sys.executable, "-I", "-c", LOOK], workspace=made.workspace)
    done = subprocess.run(
        wrapped.argv, env=wrapped.environment, cwd=made.workspace.tree, capture_output=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout), done.stderr.decode()


def test_what_is_on_the_list_is_reached_and_everything_else_is_refused_by_name(repo, served, monkeypatch):
    if layer(os.environ, wanted=BUBBLEWRAP) != BUBBLEWRAP:
        absent(BUBBLEWRAP)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    here, other = served
    abstract = f"\0handoff-test-{os.getpid()}"
    server = socket.socket(socket.AF_UNIX)
    server.bind(abstract)
    server.listen()
    asked = {
        "urls": {
            "own server": f"http://127.0.0.1:{here}/a",
            "listed": f"http://{ANOTHER}:{other}/b",
            "wrong port": f"http://{ANOTHER}:{here}/c",
            "not listed": "http://example.invalid/d",
            "by https": "https://example.invalid/e",
            "metadata": f"http://{METADATA}/latest",
        },
        "sockets": {
            "straight": ["AF_INET", ["127.0.0.2", other]],
            "abstract": ["AF_UNIX", abstract],
            "metadata itself": ["AF_INET", ["169.254.169.254", 80]],
        },
    }
    listed = (
        f'session_network = "providers"\nsession_hosts = ["127.0.0.1:{here}", "127.0.0.2:{other}", "169.254.169.254"]\n'
    )
    found, told = _inside(repo, listed, asked)
    assert found["own server"] == f"answered /a 127.0.0.1:{here}"
    assert found["listed"] == f"answered /b 127.0.0.2:{other}"
    assert found["wrong port"].startswith("403 ")
    assert "handoff does not let this session reach example.invalid:80" in found["not listed"]
    assert "example.invalid:443" in found["by https"]
    assert found["metadata"].startswith("502 "), "never, even where it is listed"
    assert (found["straight"], found["abstract"], found["metadata itself"], found["own"]) == (
        "no",
        "no",
        "no",
        "reached",
    )
    assert "handoff: refused example.invalid:443" in told
    server.close()


def test_a_list_that_a_sandbox_cannot_hold_is_refused_and_not_forgotten(repo):
    if layer(os.environ, wanted=LANDLOCK) != LANDLOCK:
        absent(LANDLOCK)
    with pytest.raises(Refused, match="landlock cannot do that"):
        _inside(repo, 'session_network_project = { repo = "providers" }\n', {}, by=LANDLOCK)


def test_hosts_are_matched_by_name_and_port():
    hosts = HostList(["pypi.org", "*.pythonhosted.org", "model.local:8080", "[::1]:9000"])
    assert hosts.has("pypi.org", 443)
    assert hosts.has("files.pythonhosted.org", 80)
    assert hosts.has("model.local", 8080)
    assert not hosts.has("pypi.org", 22)
    assert not hosts.has("evilpypi.org", 443)
    assert not hosts.has("pypi.org.evil.com", 443)
    assert not hosts.has("pythonhosted.org", 443)
    assert not hosts.has("model.local", 443)
    assert hosts_in(['base_url="http://127.0.0.1:1234/v1"', "https://API.example.test/v1 x"]) == (
        "127.0.0.1:1234",
        "api.example.test:443",
    )
    assert loopback_ports(["localhost:1", "127.0.0.1:2", "[::1]:3", "a:4", "localhost"]) == [1, 2, 3]
