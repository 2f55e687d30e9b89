"""The pictures of every page, in a real browser, with a clock that stands still: light, dark, and as wide as a phone."""

from __future__ import annotations

import base64
import json
import os
import shutil
import tempfile
import threading
import time
from typing import TYPE_CHECKING, Any

from board_picture import MOMENT, StandingClock
from page_story import ShopStory
from playwright.sync_api import sync_playwright

from handoff.base.settings import Settings
from handoff.engine.app import App
from handoff.surfaces.http.places import ListenAddress, Listener
from handoff.surfaces.page import access
from handoff.surfaces.page.app import page_app

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGES = {
    "now": "/",
    "board": "/board",
    "batch": "/batch/shop/shop",
    "flow": "/flow/shop/sign-in",
    "timeline": "/timeline",
    "feature": "/feature",
    "diff": "/diff/shop/shop/cart",
    "journal": "/journal",
    "search": "/journal?q=link",
    "agents": "/agents",
    "task": "/task/shop/shop/mail",
    "session": "/session/shop/s-api",
}
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light", "viewport": {"width": 1100, "height": 760}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1100, "height": 760}},
    "phone": {"color_scheme": "light", "viewport": {"width": 390, "height": 780}},
}
FOLDER, SHOWN = "page", "shown.json"
QUALITY = 82


def draw(*, form: str = "webp") -> Iterator[tuple[str, bytes]]:
    """Each picture by its name, and last the words on all of them: fonts and browsers draw differently and show the same."""
    shown = {}
    for name, look, page in visit():
        session = page.context.new_cdp_session(page)
        asked = {"format": form, **({"quality": QUALITY} if form == "webp" else {})}
        wide, high = (LOOKS[look]["viewport"][side] for side in ("width", "height"))
        full = high if look == "phone" else min(high, page.evaluate("document.querySelector('.foot').offsetTop"))
        asked["clip"] = {"x": 0, "y": 0, "width": wide, "height": full, "scale": 1}
        taken, before = session.send("Page.captureScreenshot", asked)["data"], ""
        while taken != before:  # until nothing moves any more
            taken, before = session.send("Page.captureScreenshot", asked)["data"], taken
        shown[f"{name}-{look}"] = words_on(page)
        yield f"{FOLDER}/{name}-{look}.{form}", base64.b64decode(taken)
    yield f"{FOLDER}/{SHOWN}", (json.dumps(shown, indent=1, ensure_ascii=False) + "\n").encode()


def words_on(page: Any) -> list[str]:
    """The lines a person reads on a page."""
    return [line for part in page.inner_text("body").splitlines() if (line := " ".join(part.split()))]


def visit() -> Iterator[tuple[str, str, Any]]:
    """Open each page in each look, in a real browser, with the story behind it and a clock that stands still."""
    zone = os.environ.get("TZ")
    os.environ["TZ"] = "UTC"
    time.tzset()
    with tempfile.TemporaryDirectory(prefix="handoff-picture-") as folder:
        place = os.path.join(folder, "shop")
        os.makedirs(place)
        environment = {"LC_ALL": "C.UTF-8", "HOME": folder, "PATH": os.environ["PATH"]}
        clock = StandingClock()
        settings = Settings(environment, os.path.join(folder, ".handoff"), "", "handoff", place)
        app = App(settings, clock)
        ShopStory(app, clock, place).tell()
        listener = Listener(ListenAddress())
        server = listener.server(page_app(settings, listener, project="shop", clock=clock))
        served = threading.Thread(target=server.run, kwargs={"sockets": listener.sockets}, daemon=True)
        served.start()
        with sync_playwright() as playwright:
            words = ["--no-sandbox"] if os.geteuid() == 0 else []
            words += ["--disable-gpu", "--font-render-hinting=none", "--disable-lcd-text", "--hide-scrollbars"]
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=words)
            for look, options in LOOKS.items():
                link = access.link(listener.url, access.make_link(app, project="shop"))
                context = browser.new_context(**options, reduced_motion="reduce", timezone_id="UTC", locale="en-GB")
                page = context.new_page()
                page.clock.set_fixed_time(MOMENT)
                page.goto(link)
                page.wait_for_selector("#needs")
                for name, path in PAGES.items():
                    page.goto(f"{listener.url}{path}")
                    page.wait_for_selector("text=live")
                    page.evaluate("document.fonts.ready")
                    yield name, look, page
                context.close()
            browser.close()
        server.should_exit = True
        served.join(10)
        app.close()
    if zone is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = zone
    time.tzset()
