"""The page as a person meets it: a repository, a home of its own, the served page, links into it, and a real browser."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import time
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlencode, urlsplit

from sandbox import Cli, Repo, absent, hermetic_environment

PATIENCE = 200.0


class Heard(NamedTuple):
    """An answer over HTTP."""

    status: int
    headers: dict[str, str]
    text: str


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class PageGround:
    """One home with one served page."""

    def __init__(self, folder: str) -> None:
        home = os.path.join(folder, "home")
        os.makedirs(home)
        self.repo = Repo.create(os.path.join(folder, "shop"))
        self.environment = hermetic_environment(home)
        self.home = self.environment["HANDOFF_HOME"]
        self.cli = Cli(self.repo.path, **self.environment)
        self.scripts = os.path.join(folder, "scripts")
        os.makedirs(self.scripts)
        self.processes: list[Any] = []
        self.url, self.port = "", 0

    @classmethod
    def beside(cls, other: PageGround) -> PageGround:
        """Another page of the same home."""
        made = cls.__new__(cls)
        vars(made).update(vars(other), processes=[], url="", port=0)
        return made

    def serve(self, *words: str) -> None:
        """`handoff page` until the end, at a port of its own: the usual one is everybody's, and another page may take it."""
        self.port = self.port or _free_port()
        self.processes.append(self.cli.start("page", "--json", "--port", str(self.port), *words))
        said = b""
        while not said.endswith(b"}\n") and (line := self.processes[-1].stdout.readline()):
            said += line
        assert said, self.processes[-1].communicate()[1].decode()
        self.url = json.loads(said)["url"]

    def work(self, *words: str) -> None:
        """`handoff work` with scripted agents; the page is beside it."""
        script = os.path.join(self.scripts, "{task}.toml")
        self.processes.append(self.cli.start("work", "--agent", "scripted", "--max", "3", *words, "--", script))
        until(self.link, "the page beside a supervisor")

    def script(self, task: str, *acts: dict[str, Any]) -> None:
        lines = [
            line
            for act in acts
            for line in ("[[act]]", *(f"{key} = {json.dumps(value)}" for key, value in act.items()))
        ]
        with open(os.path.join(self.scripts, f"{task}.toml"), "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")

    def link(self, *words: str) -> str:
        """A fresh link into the page that is served; nothing when none is."""
        if not self.url and not [name for name in _names(os.path.join(self.home, "pages")) if name.endswith(".json")]:
            return ""
        said = self.cli("page", "--json", *words).json
        self.url = said["url"]
        return str(said["link"])

    def ask(self, method: str, path: str, form: dict[str, str] | None = None, **headers: str) -> Heard:
        """One request, with what a browser would send unless it is said otherwise; None leaves a header out."""
        place = urlsplit(self.url)
        sent = {"host": place.netloc, **({"origin": self.url} if method == "POST" else {}), **headers}
        if form is not None:
            sent.setdefault("content-type", "application/x-www-form-urlencoded")
        connection = http.client.HTTPConnection("127.0.0.1", place.port, timeout=PATIENCE)  # a browser knows the name
        try:
            connection.putrequest(method, path, skip_host=True)
            body = urlencode(form or {}).encode()
            for name, value in sent.items():
                connection.putheader(name, value)
            if method == "POST":
                connection.putheader("content-length", str(len(body)))
            connection.endheaders(body if method == "POST" else None)
            answer = connection.getresponse()
            told = {name.lower(): value for name, value in answer.getheaders()}
            return Heard(answer.status, told, answer.read().decode())
        finally:
            connection.close()

    def enter(self, link: str, **headers: str) -> Heard:
        return self.ask("POST", "/enter", {"link": parse_qs(urlsplit(link).query)["link"][0]}, **headers)

    def cookie(self, *words: str) -> str:
        """Come in by a fresh link."""
        answer = self.enter(self.link(*words))
        assert answer.status == 303, answer
        return answer.headers["set-cookie"].partition(";")[0]

    def close(self) -> None:
        for process in self.processes:
            process.send_signal(signal.SIGINT)
        for process in self.processes:
            process.communicate(timeout=30)


def _names(folder: str) -> list[str]:
    return os.listdir(folder) if os.path.isdir(folder) else []


def until(true: Any, what: str) -> Any:
    """Wait for something that comes by itself."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if found := true():
            return found
        time.sleep(0.1)
    raise AssertionError(f"never: {what}")


class Chromium:
    """A real browser, one for all tests of a file."""

    def __init__(self) -> None:
        program = shutil.which("chromium")
        if program is None:
            absent("chromium")
        try:
            from playwright.sync_api import Error, sync_playwright
        except ImportError:
            absent("the package playwright")
        self.Missing = Error
        self._playwright = sync_playwright().start()
        words = ["--no-sandbox"] if os.geteuid() == 0 else []
        self.browser = self._playwright.chromium.launch(executable_path=program, args=[*words, "--disable-gpu"])

    def visit(self, ground: PageGround, *words: str, **options: Any) -> Any:
        """A page of a fresh browser that came in by a link; what goes wrong in it is kept in `wrong`."""
        context = self.browser.new_context(**options)
        page = context.new_page()
        page.wrong = []
        page.on("pageerror", lambda error: page.wrong.append(f"error: {error}"))
        page.on("console", lambda said: page.wrong.append(said.text) if said.type == "error" else None)
        page.on("dialog", lambda dialog: (page.wrong.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        page.goto(ground.link(*words))
        page.wait_for_selector("#needs")
        return page

    def see(self, page: Any, *selectors: str) -> None:
        """Wait until each is there; if one never comes, say what was seen instead."""
        for one in selectors:
            try:
                page.wait_for_selector(one, timeout=PATIENCE * 1000)
            except self.Missing as missing:
                raise AssertionError(f"never seen: {one}\n{page.inner_text('body')}") from missing

    def close(self) -> None:
        self.browser.close()
        self._playwright.stop()
