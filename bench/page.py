"""The page with 200 viewers while the journal moves: how old the oldest news of a packet is, and what the server spends."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from urllib.parse import parse_qs, urlencode, urlsplit

import psutil

from bench.startup import clean_environment
from handoff.base.settings import Settings
from handoff.board.tasks import outcomes, tasks
from handoff.engine.app import App

VIEWERS, A_SECOND, SECONDS = 200, 100, 10.0
_TASKS = 30
_MEDIAN, _LATEST = 0.250, 1.0
_FORM = {"content-type": "application/x-www-form-urlencoded"}


def rows() -> list[tuple[str, str, str]]:
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
    link = urlsplit(json.loads(said)["link"])
    word = parse_qs(link.query)["link"][0]
    _, headers, _ = _ask(
        link.netloc, "POST", "/enter", urlencode({"link": word}), {"origin": f"http://{link.netloc}", **_FORM}
    )
    cookie = headers["set-cookie"].partition(";")[0]
    _, _, text = _ask(link.netloc, "GET", "/", None, {"cookie": cookie})
    at = text.partition('data-at="')[2].partition('"')[0]
    ages: list[float] = []
    viewers = [asyncio.create_task(_viewer(link.netloc, cookie, at, ages)) for _ in range(VIEWERS)]
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


def _ask(
    netloc: str, method: str, path: str, body: str | None, headers: dict[str, str]
) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection(netloc, timeout=60)
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    return answer.status, dict(answer.getheaders()), answer.read().decode()


async def _viewer(netloc: str, cookie: str, at: str, ages: list[float]) -> None:
    host, _, port = netloc.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=2**22)
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
