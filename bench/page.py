"""The page with 200 viewers while the journal moves: how old the oldest news of a packet is, and what the server spends."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlencode, urlsplit

import psutil

from bench import supervisor
from bench.startup import clean_environment
from handoff.base.settings import Settings
from handoff.board.tasks import outcomes, tasks
from handoff.engine.app import App

if TYPE_CHECKING:
    from collections.abc import Iterator

Row = tuple[str, str, str]
BESIDE, _ROUNDS, _A_ROUND = 50, 4, 5
VIEWERS, A_SECOND, SECONDS = 200, 100, 10.0
_TASKS = 30
_MEDIAN, _LATEST = 0.250, 1.0
_FORM = {"content-type": "application/x-www-form-urlencoded"}


def rows() -> list[Row]:
    """The page alone, then beside a supervisor."""
    return [*_news(), *_beside()]


def _beside() -> list[Row]:
    """From the row of a task to its process, without anybody who looks and with fifty, in turns within one run."""
    spent: dict[int, list[float]] = {0: [], BESIDE: []}
    with supervisor.relay() as (app, environment, checkout, start):
        start()
        pages = os.path.join(environment["HANDOFF_HOME"], "pages")  # the page beside it says there where it is
        supervisor.until(lambda: os.path.isdir(pages) and any(name.endswith(".json") for name in os.listdir(pages)))
        for number in range(_ROUNDS):
            for viewers in spent:
                with _looking(environment, checkout, viewers):
                    spent[viewers] += [
                        _to_process(app, environment, checkout, f"t-{number}-{viewers}-{one}")
                        for one in range(_A_ROUND)
                    ]
    alone, watched = (statistics.median(spent[viewers]) for viewers in (0, BESIDE))
    return [
        ("row of a task to its process, nobody looks, middle", f"{alone * 1000:.0f} ms", "-"),
        (
            f"the same with {BESIDE} viewers of the page beside it",
            f"{watched * 1000:.0f} ms ({watched / alone:.2f}x)",
            "1.2x",
        ),
    ]


def _to_process(app: App, environment: dict[str, str], checkout: str, name: str) -> float:
    words = [*supervisor.MAIN, "dump", "--task", name, "--next", "do it", "--check", "true"]
    subprocess.run(words, env=environment, cwd=checkout, check=True, stdout=subprocess.DEVNULL)
    supervisor.until(lambda: tasks.find(app.database, project="shop", id=name).ended)
    task = tasks.find(app.database, project="shop", id=name)
    return supervisor.born(app, task) - task.created_at


@contextlib.contextmanager
def _looking(environment: dict[str, str], checkout: str, viewers: int) -> Iterator[None]:
    """So many who look at the page of a supervisor while something else is measured."""
    words = [*supervisor.MAIN, "page", "--json", "--project", "shop"]
    said = subprocess.run(words, cwd=checkout, env=environment, check=True, capture_output=True).stdout
    place, cookie, at = _come_in(json.loads(said)["link"])
    over = threading.Event()

    async def look() -> None:
        looking = [asyncio.create_task(_viewer(place, cookie, at, [])) for _ in range(viewers)]
        await asyncio.to_thread(over.wait)
        for one in looking:
            one.cancel()

    thread = threading.Thread(target=lambda: asyncio.run(look()))
    thread.start()
    time.sleep(1.0)
    yield
    over.set()
    thread.join()


def _news() -> list[Row]:
    """Blocked tasks whose reason is the moment it was written; each viewer says how old what it got is."""
    with tempfile.TemporaryDirectory(prefix="handoff-bench-") as folder:
        environment = clean_environment(folder)
        place = os.path.join(folder, "shop")
        os.makedirs(place)
        settings = Settings(environment, environment["HANDOFF_HOME"], "", "handoff", place)
        app = App(settings)
        keys = [tasks.add(app.database, project="shop", id=f"b-{number}", brief="x").key for number in range(_TASKS)]
        app.close()
        words = [sys.executable, "-m", "handoff.surfaces.cli.main", "page", "--json", "--all-projects"]
        process = subprocess.Popen(words, cwd=place, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            found = asyncio.run(_watch(process, settings, keys))
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)
    ages, written, spent = found
    name = f"page: {VIEWERS} viewers, {written / SECONDS:.0f} changes a second"
    return [
        (f"{name}: oldest news of a packet, middle", f"{ages[len(ages) // 2] * 1000:.0f} ms", f"{_MEDIAN * 1000:g} ms"),
        (f"{name}: the same, 99 of 100", f"{ages[len(ages) * 99 // 100] * 1000:.0f} ms", f"{_LATEST * 1000:g} ms"),
        (f"{name}: of one core", f"{spent * 100:.0f} %", "-"),
    ]


async def _watch(process, settings, keys) -> tuple[list[float], int, float]:  # type: ignore[no-untyped-def]
    said = b""
    while not said.endswith(b"}\n"):
        said += process.stdout.readline()
    place, cookie, at = _come_in(json.loads(said)["link"])
    ages: list[float] = []
    viewers = [asyncio.create_task(_viewer(place, cookie, at, ages)) for _ in range(VIEWERS)]
    await asyncio.sleep(2)
    ages.clear()
    server = psutil.Process(process.pid)
    begun, spent = time.monotonic(), sum(server.cpu_times()[:2])
    written = await asyncio.to_thread(_write, settings, keys)
    share = (sum(server.cpu_times()[:2]) - spent) / (time.monotonic() - begun)
    await asyncio.sleep(1)
    for one in viewers:
        one.cancel()
    return sorted(ages), written, share


def _come_in(link: str) -> tuple[str, str, str]:
    """Where the page is, a cookie for it, and how far it has come."""
    place = urlsplit(link)
    word = parse_qs(place.query)["link"][0]
    said = urlencode({"link": word})
    _, headers, _ = _ask(place.netloc, "POST", "/enter", said, {"origin": f"http://{place.netloc}", **_FORM})
    cookie = headers["set-cookie"].partition(";")[0]
    _, _, text = _ask(place.netloc, "GET", "/", None, {"cookie": cookie})
    return place.netloc, cookie, text.partition('data-at="')[2].partition('"')[0]


def _ask(
    netloc: str, method: str, path: str, body: str | None, headers: dict[str, str]
) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection("127.0.0.1", urlsplit(f"//{netloc}").port, timeout=60)
    connection.request(method, path, body, {"host": netloc, **headers})
    answer = connection.getresponse()
    return answer.status, dict(answer.getheaders()), answer.read().decode()


async def _viewer(netloc: str, cookie: str, at: str, ages: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", urlsplit(f"//{netloc}").port, limit=2**22)
    asked = f"GET /events?of=now&since={at} HTTP/1.1\r\nhost: {netloc}\r\ncookie: {cookie}\r\n\r\n"
    writer.write(asked.encode())
    seen = 0.0
    while line := await reader.readline():
        told = [float(part.partition("<")[0]) for part in line.decode().split("written-at: ")[1:]]
        fresh = [moment for moment in told if moment > seen]
        if fresh:
            ages.append(time.time() - min(fresh))
            seen = max(fresh)


def _write(settings: Settings, keys: list[int]) -> int:
    app, number, end = App(settings), 0, time.monotonic() + SECONDS
    pace = threading.Event()
    while time.monotonic() < end:
        begun = time.monotonic()
        with app.database.transaction() as transaction:
            if number >= len(keys):
                outcomes.retry(transaction, key=keys[number % len(keys)])
            outcomes.block(transaction, key=keys[number % len(keys)], reason=f"written-at: {time.time():.4f}")
        number += 1
        pace.wait(max(0.0, 1 / A_SECOND - (time.monotonic() - begun)))
    app.close()
    return number
