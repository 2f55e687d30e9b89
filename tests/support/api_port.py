"""The API of ours as a program meets it: over HTTP, with a token of each scope."""

from __future__ import annotations

import http.client
import json
import signal
from urllib.parse import urlsplit

from handoff.surfaces.api.routes import PREFIX


class ApiPort:
    """A port of ours as a process, and a token of each scope."""

    def __init__(self, cli) -> None:
        self.cli, self.process = cli, cli.start("mcp", "--http", "--json")
        said = b""
        while not said.endswith(b"}\n") and (line := self.process.stdout.readline()):
            said += line
        assert said, self.process.communicate()[1].decode()
        self.place = urlsplit(json.loads(said)["url"])
        self.tokens = {scope: self.token(scope) for scope in ("read", "answer", "steer")}

    def token(self, scope: str, *words: str, name: str = "") -> str:
        return self.cli("token", "new", name or scope, "--scope", scope, "--json", *words).json["secret"]

    def ask(self, method: str, path: str, scope: str = "read", body=None, token: str | None = None, **headers: str):
        """Status, what was said, and the headers."""
        connection = http.client.HTTPConnection(self.place.hostname, self.place.port, timeout=30)
        named = {"authorization": f"Bearer {self.tokens[scope] if token is None else token}", **headers}
        if body is not None:
            named.setdefault("content-type", "application/json")
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        connection.request(method, PREFIX + path, data, named)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return (
            answer.status,
            json.loads(text) if "json" in (answer.headers["content-type"] or "") else text,
            answer.headers,
        )

    def follow(self, count: int, path: str = "/stream", **headers: str) -> list[dict]:
        """So many events of the stream."""
        connection = http.client.HTTPConnection(self.place.hostname, self.place.port, timeout=30)
        connection.request("GET", PREFIX + path, headers={"authorization": f"Bearer {self.tokens['read']}", **headers})
        answer, found = connection.getresponse(), []
        assert answer.headers["content-type"].startswith("text/event-stream")
        while len(found) < count:
            line = answer.readline()
            assert line, "the stream ended"
            if line.startswith(b"data: "):
                found.append(json.loads(line[6:]))
        connection.close()
        return found

    def close(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=30)
