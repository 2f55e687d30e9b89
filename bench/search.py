"""Search and pages over a journal of a million lines."""

from __future__ import annotations

import os
import random
import tempfile
import time

from bench.startup import clean_environment
from handoff.base.settings import Settings
from handoff.board.events import index, journal
from handoff.engine.app import App
from handoff.engine.tasks import search

LINES = 1_000_000
_AT_ONCE = 5_000
_VOCABULARY = 20_000
_SEARCH_LIMIT, _PAGE_LIMIT = 0.300, 0.100
_RARE, _TRIES = "zanzibar", 9


def rows() -> list[tuple[str, str, str]]:
    """A word that is rare, two that are frequent, a beginning, the last page, and the whole journal read in."""
    with tempfile.TemporaryDirectory(prefix="handoff-bench-") as folder:
        environment = clean_environment(folder)
        os.makedirs(os.path.join(folder, "shop"))
        app = App(Settings(environment, environment["HANDOFF_HOME"], "", "handoff", os.path.join(folder, "shop")))
        _fill(app)
        begin = time.perf_counter()
        while index.step(app.database):
            continue
        reading = LINES / (time.perf_counter() - begin)
        found = [(f"{LINES:,} lines: the index of words reads", f"{reading:,.0f} lines a second", "-")]
        asked = {
            "a word that stands in 5 lines": _RARE,
            "a word of every third line": "claimed",
            "two words, one frequent": "claimed word42",
            "the beginning of a word": "word1999*",
        }
        for what, words in asked.items():
            spent = _median(lambda words=words: search.find(app, words=words, project="shop"))
            found.append(
                (f"{LINES:,} lines: search for {what}", f"{spent * 1000:.0f} ms", f"{_SEARCH_LIMIT * 1000:g} ms")
            )
        for what, project in (("of a project", "shop"), ("of a project with 5 lines", "rare")):
            spent = _median(
                lambda project=project: journal.since(app.database, seq=LINES // 2, project=project, limit=100)
            )
            found.append((f"{LINES:,} lines: a page {what}", f"{spent * 1000:.0f} ms", f"{_PAGE_LIMIT * 1000:g} ms"))
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
