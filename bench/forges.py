"""Requests that wait for people: what the look at all of them costs that `handoff work` takes once a minute."""

from __future__ import annotations

import os
import resource
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from bench.startup import clean_environment, run
from handoff.base.settings import HOME_KEYS, from_environment
from handoff.board import forges
from handoff.engine.app import App
from handoff.engine.work.forges import watch

if TYPE_CHECKING:
    from typing import Any

Row = tuple[str, str, str]
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OPEN, LOOKS = 200, 10
_CALLS, _SHARE = 1, 1.0
_UPDATED = "2026-11-18T20:00:01Z"


class _Environment:
    @staticmethod
    def setenv(name: str, value: str) -> None:
        os.environ[name] = value


def rows() -> list[Row]:
    """All open, all seen before, nothing new."""
    sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
    from forge_ground import Forge  # the forge's program, played; its own processor time is counted too
    from sandbox import Repo

    before = dict(os.environ)
    with tempfile.TemporaryDirectory(prefix="handoff-bench-") as folder:
        os.environ.update(clean_environment(folder))
        with open(os.environ["GIT_CONFIG_GLOBAL"], "w", encoding="utf-8") as file:
            file.write("[user]\n\tname = Bench\n\temail = bench@example.invalid\n")
        run(["git", "init", "-q", "-b", "main", os.path.join(folder, "shop")], folder, dict(os.environ))
        repo = Repo(os.path.join(folder, "shop"))
        repo.git("commit", "-q", "--allow-empty", "-m", "start")
        try:
            forge = Forge(repo, Path(folder), _Environment)
            app = App(from_environment()._replace(folder=repo.path))
            _open(app, forge, repo.head())
            found = _measure(app, forge)
            app.close()
        finally:
            os.environ.clear()
            os.environ.update(before)
    return found


def _open(app: App, forge: Any, head: str) -> None:
    names = [f"pr/many-{number}" for number in range(1, OPEN + 1)]
    with app.database.transaction() as transaction:
        for number, branch in enumerate(names, 1):
            place: dict[str, Any] = {"host": app.settings.host, "folder": forge.repo.path, "task": None}
            row = forges.begin_request(
                transaction, facts={"tasks": []}, project="shop", branch=branch, base="main", head=head, **place
            )
            url = f"https://forge.invalid/o/r/pull/{number}"
            seen = row._replace(state=forges.OPEN, number=number, url=url, checks="none")
            forges.put_request(transaction, seen, updated=_UPDATED)
    created = "".join(f"create refs/heads/{branch} {head}\n" for branch in names)
    forge.repo.git("update-ref", "--stdin", stdin=created.encode())
    quiet: dict[str, Any] = {"base": "main", "title": "", "body": "", "state": "OPEN", "checks": [], "review": ""}
    quiet |= {"mergeable": "MERGEABLE", "updated": 1, "merge": None, "head": head}
    forge.put(prs={str(number): {**quiet, "branch": branch} for number, branch in enumerate(names, 1)})


def _measure(app: App, forge: Any) -> list[Row]:
    if watch.look(app):
        return [(f"{OPEN} open requests", "THE LOOK FAILED", "-")]
    forge.put(calls=[])
    begin = _spent()
    for _ in range(LOOKS):
        watch.look(app)
    spent, calls = (_spent() - begin) / LOOKS, len(forge.get()["calls"]) / LOOKS
    name, minute = f"{OPEN} open requests, nothing new", float(HOME_KEYS["forge_seconds"].default or 60)
    return [
        (f"{name}: questions to the forge in a minute", f"{calls * 60 / minute:g}", f"{_CALLS}"),
        (f"{name}: share of a core", f"{100 * spent / minute:.2f} % ({spent * 1000:.0f} ms a look)", f"{_SHARE:g} %"),
    ]


def _spent() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)
