"""The picture of the board: three agents at work, one red, one gate; real rows, a clock that stands still, drawn by the board itself."""

from __future__ import annotations

import asyncio
import json
import os
import re
import tempfile
import time

from handoff.base.settings import Settings
from handoff.board import gates
from handoff.board.sessions import expenses, sessions
from handoff.board.sessions.leases import claim
from handoff.board.sessions.sessions import AGENT, SessionIdentity
from handoff.board.tasks import batches, outcomes, tasks
from handoff.board.tasks.batches import SubTask
from handoff.engine.app import App
from handoff.engine.work.overview import OverviewFeed
from handoff.surfaces.cli.commands.board.state import BoardState
from handoff.surfaces.cli.commands.board.view import BoardApp

WIDTH, HEIGHT = 108, 30
MOMENT = 1_767_276_120.0  # 2026-01-01 14:02 UTC
PARTS = {
    "api": "Serve the routes", "db": "Store the orders", "ui": "Draw the page", "mail": "Send the mail",
    "cart": "Fill the cart", "search": "Find an article", "pay": "Take the money", "docs": "Write the manual",
}  # fmt: skip
RUNNING = {
    "api": ("claude", 252, 0.31, ("The routes need a schema first.", "Edit api/routes.py: POST /orders", "Running the tests of api")),
    "db": ("codex", 75, 0.12, ("Adding the table of orders",)),
    "search": ("gemini", 31, 0.04, ("Reading search/index.py",)),
}  # fmt: skip


HOSTS = {"claude": "laptop", "codex": "laptop", "gemini": "attic"}


class StandingClock:
    """A clock that moves only when the story does."""

    def __init__(self) -> None:
        self.at = MOMENT - 3600

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds


def draw() -> str:
    """The board as SVG; nothing in it is fetched from anywhere."""
    os.environ["TZ"] = "UTC"
    os.environ.pop("NO_COLOR", None)  # a picture has colours, whoever draws it
    time.tzset()
    with tempfile.TemporaryDirectory(prefix="handoff-picture-") as folder:
        environment = {"LC_ALL": "C.UTF-8", "HOME": folder, "PATH": os.defpath}
        clock = StandingClock()
        app = App(Settings(environment, os.path.join(folder, ".handoff"), "", "handoff", folder), clock)
        tell(app, clock)
        svg = asyncio.run(_shot(app))
        app.close()
    svg = re.sub(r"@font-face\s*\{[^}]*\}", "", svg)
    svg = re.sub(r"<!-- Generated with Rich [^>]*-->", "<!-- Drawn by docs/board_picture.py -->", svg)
    svg = re.sub(r"terminal-\d+", "board", svg)
    return re.sub(r"[ \t]+$", "", svg, flags=re.MULTILINE)


def tell(app: App, clock: StandingClock, *, workspace: str = "") -> None:
    """An hour in a shop: a batch of eight, three agents at work."""
    store = app.database
    clock.at = MOMENT - 3600
    parts = [
        SubTask(name, brief, title=brief, owns=(f"{name}/**", f"tests/test_{name}.py"), estimate_minutes=20.0)
        for name, brief in PARTS.items()
    ]
    batches.open_batch(
        store, project="shop", id="shop", sub_tasks=parts, fan_in=SubTask("shop-join", "Bring it together"),
        workspace=workspace, estimated_speedup=4.5,
    )  # fmt: skip

    def at(seconds_ago: float) -> None:
        clock.at = MOMENT - seconds_ago

    def take(name: str, agent: str) -> int:
        task = tasks.find(store, project="shop", id=f"shop/{name}")
        who = SessionIdentity(f"s-{name}", kind=AGENT, project="shop", agent=agent, host=HOSTS[agent])
        return claim(store, key=task.key, who=who).task.key

    at(1900)
    login = tasks.add(store, project="shop", id="login", brief="Sign in with a link that works once")
    claim(
        store, key=login.key, who=SessionIdentity("s-login", kind=AGENT, project="shop", agent="claude", host="laptop")
    )
    outcomes.finish(store, key=login.key, fence=1, summary="done", evidence={"landed": "0123456789"})
    at(1500)
    key = take("ui", "gemini")
    at(600)
    changed = ["ui/page.html", "ui/page.css", "tests/test_ui.py"]
    check = {"verdict": "green", "command": "pytest -q", "green": True}
    done = {"commit": "0123456789", "changed": changed, "check": check}
    outcomes.finish(
        store, key=key, fence=1, session="s-ui", summary="Drawn, with a picture for each state.", evidence=done
    )
    key = take("cart", "claude")
    at(540)
    gates.ask(
        store, key=key, fence=1, question="Land cart.py? 41 tests green, 1 weakened", due_seconds=7200.0, fallback="no"
    )
    key = take("mail", "codex")
    at(120)
    reason = "agent: pytest red, 3 of 3: test_bounce_is_reported"
    outcomes.block(store, key=key, fence=1, session="s-mail", reason=reason)
    sessions.end(store, id="s-mail", ending="failed")
    for name, (agent, ago, money, words) in RUNNING.items():
        at(ago)
        key = take(name, agent)
        expenses.note(store, session=f"s-{name}", project="shop", agent=agent, task=key, money=money)
        place = os.path.join(app.settings.home, "shop", "sessions", f"s-{name}")
        os.makedirs(place)
        with open(os.path.join(place, "events.jsonl"), "w", encoding="utf-8") as file:
            file.writelines(f"{_line(agent, text)}\n" for text in words)
    at(0)


def _line(agent: str, text: str) -> str:
    if agent == "codex":
        return json.dumps({"type": "item.completed", "item": {"type": "agent_message", "text": text}})
    if agent == "gemini":
        return json.dumps({"type": "message", "role": "assistant", "content": text})
    return json.dumps({"type": "assistant", "message": {"content": [{"type": "text", "text": text}]}})


async def _shot(app: App) -> str:
    board = BoardApp(BoardState(OverviewFeed(app, project="shop", since=MOMENT - 7200)))
    async with board.run_test(size=(WIDTH, HEIGHT)) as pilot:
        await pilot.press("tab")
        board.tick()
        await pilot.pause()
        return board.export_screenshot(title="handoff board")
