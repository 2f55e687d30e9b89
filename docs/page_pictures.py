"""The pictures of the page: the shop of the board's picture, in a real browser, with clocks that stand still."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from typing import TYPE_CHECKING, Any

from board_picture import MOMENT, StandingClock, tell
from playwright.sync_api import sync_playwright

from handoff.base.settings import Settings
from handoff.engine.app import App
from handoff.surfaces.http.places import ListenAddress, Listener
from handoff.surfaces.page import access
from handoff.surfaces.page.app import page_app

if TYPE_CHECKING:
    from collections.abc import Iterator

SHOTS = (
    ("page.png", "/", {"color_scheme": "light", "viewport": {"width": 1100, "height": 760}}),
    ("page-dark.png", "/board", {"color_scheme": "dark", "viewport": {"width": 1100, "height": 480}}),
    ("page-phone.png", "/", {"color_scheme": "light", "viewport": {"width": 360, "height": 700}}),
)


def draw() -> Iterator[tuple[str, bytes]]:
    """Each picture by its name; the same fonts give the same bytes."""
    os.environ["TZ"] = "UTC"
    time.tzset()
    with tempfile.TemporaryDirectory(prefix="handoff-picture-") as folder:
        environment = {"LC_ALL": "C.UTF-8", "HOME": folder, "PATH": os.defpath}
        clock = StandingClock()
        settings = Settings(environment, os.path.join(folder, ".handoff"), "", "handoff", folder)
        app = App(settings, clock)
        tell(app, clock)
        listener = Listener(ListenAddress())
        server = listener.server(page_app(settings, listener, project="shop", clock=clock))
        threading.Thread(target=server.run, kwargs={"sockets": [listener.socket]}, daemon=True).start()
        with sync_playwright() as playwright:
            words = ["--no-sandbox"] if os.geteuid() == 0 else []
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=words)
            for name, path, options in SHOTS:
                yield (
                    name,
                    _shot(browser, options, f"{listener.url}{path}", access.link(listener.url, access.make_link(app))),
                )
            browser.close()
        server.should_exit = True
        app.close()


def _shot(browser: Any, options: dict[str, Any], url: str, link: str) -> bytes:
    context = browser.new_context(**options, reduced_motion="reduce", timezone_id="UTC")
    page = context.new_page()
    page.clock.set_fixed_time(MOMENT)
    page.goto(link)
    page.wait_for_selector("#needs")
    page.goto(url)
    page.wait_for_selector("text=live")
    taken: bytes = page.screenshot()
    context.close()
    return taken
