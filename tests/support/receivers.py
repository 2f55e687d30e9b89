"""Real receivers of webhooks on the loopback: they answer as they are told, hang, or are not there."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Receiver:
    """An HTTP server that keeps what it gets. `script` is what it answers next; the last answer stays."""

    def __init__(self, *script: int) -> None:
        self.script = list(script) or [200]
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.release = threading.Event()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                owner.got.append(({name.lower(): value for name, value in self.headers.items()}, body))
                status = owner.script[0] if len(owner.script) == 1 else owner.script.pop(0)
                if status == 0:  # say nothing until the test lets go
                    owner.release.wait(60)
                    return
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    @property
    def url(self) -> str:
        return f"http://{self.host}/hook?token=do-not-show"

    @property
    def events(self) -> list[dict]:
        return [json.loads(body) for _, body in self.got]

    def close(self) -> None:
        self.release.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
