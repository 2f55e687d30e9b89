"""Search and pages over a journal of a million lines, in a SQLite file and in a Postgres."""

from __future__ import annotations

import os
import random
import tempfile
import time

from bench.hosts import postgres
from bench.startup import clean_environment
from handoff.base.settings import Settings
from handoff.board.events import index, journal
from handoff.engine.app import App
from handoff.engine.work.tasks import search

Row = tuple[str, str, str]
LINES = int(os.environ.get("HANDOFF_BENCH_LINES", "1000000"))
_AT_ONCE = 5_000
_VOCABULARY = 20_000
_SEARCH_LIMIT, _PAGE_LIMIT = 0.300, 0.100
_RARE, _TRIES = "zanzibar", 9


def rows() -> list[Row]:
    """The same questions over a SQLite file and over a Postgres."""
    found = _of("SQLite", "")
    with postgres() as server:
        return [*found, *_of("Postgres", server())]


def _of(kind: str, url: str) -> list[Row]:
    """A word that is rare, two that are frequent, a beginning, the last page, and the whole journal read in."""
    name = f"{LINES:,} lines, {kind}"
    with tempfile.TemporaryDirectory(prefix="handoff-bench-") as folder:
        environment = clean_environment(folder)
        os.makedirs(os.path.join(folder, "shop"))
        settings = Settings(environment, environment["HANDOFF_HOME"], "", "handoff", os.path.join(folder, "shop"))
        app = App(settings._replace(environment={**environment, **({"HANDOFF_DATABASE_URL": url} if url else {})}))
        _fill(app)
        begin = time.perf_counter()
        while index.step(app.database):
            continue
        reading = LINES / (time.perf_counter() - begin)
        found = [(f"{name}: the index of words reads", f"{reading:,.0f} lines a second", "-")]
        asked = {
            "a word that stands in 5 lines": _RARE,
            "a word of every third line": "claimed",
            "two words, one frequent": "claimed word42",
            "the beginning of a word": "word1999*",
        }
        for what, words in asked.items():
            spent = _median(lambda words=words: search.find(app, words=words, project="shop"))
            found.append((f"{name}: search for {what}", f"{spent * 1000:.0f} ms", f"{_SEARCH_LIMIT * 1000:g} ms"))
        for what, project in (("of a project", "shop"), ("of a project with 5 lines", "rare")):
            spent = _median(
                lambda project=project: journal.since(app.database, seq=LINES // 2, project=project, limit=100)
            )
            found.append((f"{name}: a page {what}", f"{spent * 1000:.0f} ms", f"{_PAGE_LIMIT * 1000:g} ms"))
        app.close()
    return found


def _fill(app: App) -> None:
    chance = random.Random(20311)
    words = [f"word{number}" for number in range(_VOCABULARY)]
    kinds = ("task.claimed", "task.finished", "note.added")
    for start in range(0, LINES, _AT_ONCE):
        with app.database.transaction() as transaction:
            for number in range(start, start + _AT_ONCE):
                rare = number % (LINES // 5) == 1
                text = " ".join(chance.choices(words, k=8)) + (f" {_RARE}" if rare else "")
                project = "rare" if number % (LINES // 5) == 2 else "shop"
                journal.append(transaction, kinds[number % 3], project=project, session=f"s-{number % 997}", text=text)


def _median(act) -> float:  # type: ignore[no-untyped-def]
    spent = []
    for _ in range(_TRIES):
        begin = time.perf_counter()
        act()
        spent.append(time.perf_counter() - begin)
    return sorted(spent)[_TRIES // 2]
