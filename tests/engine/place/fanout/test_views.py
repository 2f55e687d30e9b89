"""The files of tasks: how often the rows are asked for them."""

from __future__ import annotations

from handoff.base.settings import from_environment
from handoff.board.sessions import leases
from handoff.board.sessions.sessions import SessionIdentity
from handoff.board.tasks import outcomes, tasks
from handoff.engine.app import App
from handoff.engine.place import baton
from handoff.engine.place.fanout import views
from handoff.engine.safety import detectors


def test_files_and_looks_ask_the_rows_once_for_what_belongs_together(monkeypatch, tmp_path):
    monkeypatch.setenv("HANDOFF_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("HANDOFF_DATABASE_URL", raising=False)
    app = App(from_environment())
    said: list[str] = []
    before = tasks.add(app.database, project="shop", id="before", brief="Do it first.")
    task = tasks.add(app.database, project="shop", id="form", brief="x", after=["before"])
    claim = leases.claim(app.database, key=before.key, who=SessionIdentity("s1"))
    outcomes.finish(app.database, key=before.key, fence=claim.fence, summary="It stands.")
    app.database.connection.set_trace_callback(said.append)

    def questions(act):
        said.clear()
        found = act()
        return sum(line.startswith("BEGIN") for line in said), found

    assert questions(lambda: views.refresh(app, "shop", whole=True))[1] > 1
    leases.claim(app.database, key=task.key, who=SessionIdentity("s2"))
    asked, text = questions(lambda: baton.baton(app, views.home_config(app), task))
    assert asked == 1
    assert "It stands." in text
    asked, count = questions(lambda: views.refresh(app, "shop"))
    assert count >= 1
    assert asked <= 5, (
        "is there anything new; what; what is stopped; which tasks; what is to be said of the one that moved"
    )
    assert questions(lambda: views.refresh(app, "shop")) == (1, 0)
    asked, (live, held) = questions(lambda: detectors.live_work(app))
    assert asked == 1
    assert [one.id for one in held] == ["form"]
    assert {one.id for one in live} == {"s1", "s2"}
    app.close()
