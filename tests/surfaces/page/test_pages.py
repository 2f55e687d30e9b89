"""Every page is an address one can send: what each shows, without a script."""

from __future__ import annotations

import json
import os
import re

import pytest

from handoff.base.settings import Settings
from handoff.board import gates
from handoff.board.events import journal
from handoff.board.sessions import sessions
from handoff.board.sessions.leases import claim, heartbeat
from handoff.board.sessions.sessions import AGENT, SessionIdentity
from handoff.board.tasks import batches, flows, outcomes, tasks
from handoff.board.tasks.batches import SubTask
from handoff.engine.app import App
from handoff.engine.place import running
from handoff.surfaces.page.app import KEYS
from page_ground import PageGround
from source import ROOT


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    """A blocked task, two that wait for it, a batch, and a journal of some hundred lines."""
    made = PageGround(str(tmp_path_factory.mktemp("page")))
    made.cli("task", "add", "mail", "Send the mail to every customer.", "--check", "pytest -q", "--owns", "mail.py")
    made.cli("task", "claim", "mail", "--session", "one")
    made.cli("task", "block", "the server is away", "--session", "one")
    app = App(Settings(made.environment, made.home, "", "handoff", made.repo.path))
    tasks.add(app.database, project="shop", id="after-mail", brief="Count the answers.", after=["mail"])
    parts = [SubTask(name, f"Build {name}.", owns=(f"src/{name}/**",)) for name in ("api", "ui")]
    batches.open_batch(app.database, project="shop", id="big", sub_tasks=parts, fan_in=SubTask("big-join", "Join."))
    with app.database.transaction() as rows:
        for number in range(250):
            journal.append(rows, "note.added", project="shop", text=f"line {number}")
    app.close()
    made.serve()
    made.visitor = made.cookie()
    yield made
    made.close()


def _text(ground: PageGround, path: str) -> str:
    answer = ground.ask("GET", path, cookie=ground.visitor)
    assert answer.status == 200, (path, answer.text)
    return answer.text


def test_the_board_shows_all_and_is_filtered_by_its_address(ground):
    every = _text(ground, "/board")
    assert all(name in every for name in ("mail", "after-mail", "big/api", "big-join"))
    assert 'after <a href="/task/shop/mail">mail</a>' in every
    assert "<noscript>reload for news</noscript>" in every, "only a script makes it live"
    only = _text(ground, "/board?q=server&state=blocked")
    assert "/task/shop/mail" in only
    assert "after-mail" not in only


def test_a_task_has_its_brief_its_reason_its_facts_and_its_history(ground):
    text = _text(ground, "/task/shop/mail")
    for words in (
        "Send the mail to every customer.",
        "the server is away",
        "pytest -q",
        "mail.py",
        "blocked",
        "added",
        "Retry",
    ):
        assert words in text
    assert ground.ask("GET", "/task/shop/nobody", cookie=ground.visitor).status == 404
    assert ground.ask("GET", "/task/other/mail", cookie=ground.visitor).status == 404


def test_a_batch_says_how_far_it_is_and_who_owns_what(ground):
    assert "/batch/shop/big" in _text(ground, "/batches")
    text = re.sub(r"\s+", " ", _text(ground, "/batch/shop/big"))
    assert "2 waiting of 2" in text
    assert re.search(
        r"api/</span></li> ?<li class=\"d2\"><span class=\"path\">\*\*</span><span class=\"owner o0\">api", text
    )


def test_a_batch_says_how_its_parts_were_joined(ground):
    app = App(Settings(ground.environment, ground.home, "", "handoff", ground.repo.path))
    parts = [SubTask(name, f"Build {name}.") for name in ("form", "cart")]
    batches.open_batch(app.database, project="shop", id="met", sub_tasks=parts, fan_in=SubTask("met-join", "Join."))
    held = claim(
        app.database,
        key=tasks.find(app.database, project="shop", id="met/form").key,
        who=SessionIdentity("s-met", project="shop"),
    )
    between = {"first": "form", "second": "cart"}
    evidence = {
        "joined": [{"path": "app.py", "how": "both <lines>", "proven": True, **between}],
        "doubts": [{"path": "cart.py", "what": "total() is gone", **between}],
        "decisions": "Kept both.",
    }
    outcomes.finish(app.database, key=held.task.key, fence=held.task.fence, evidence=evidence)
    app.close()
    text = _text(ground, "/batch/shop/met")
    for path, how in (("app.py", "both &lt;lines&gt;"), ("cart.py", "total() is gone")):
        assert f'<span class="path">{path}</span> <span class="dim">(form, cart)</span>: {how}</li>' in text
    assert "Kept both." in text


def test_the_journal_is_paged_by_lines_and_searched_by_words(ground):
    seen: list[str] = []
    path = "/journal"
    while path:
        text = _text(ground, path)
        seen += re.findall(r"line (\d+)<", text)
        older = re.search(r'href="(/journal\?before=\d+)" rel="next"', text)
        path = older.group(1) if older else ""
    assert seen == [str(number) for number in reversed(range(250))]
    assert 'the <mark class="hit">server</mark> is away' in _text(ground, "/journal?q=server")
    assert "Nothing has these words" in _text(ground, "/journal?q=zebra")


def test_pages_of_what_is_not_there_teach_how_to_begin(ground):
    assert "flow start" in _text(ground, "/flows")
    assert ground.ask("GET", "/flow/shop/none", cookie=ground.visitor).status == 404


def test_a_flows_page_says_how_much_its_tests_were_asked(ground):
    ground.repo.write(
        "test_sum.py",
        "import unittest\n\n\nclass Sum(unittest.TestCase):\n    def test_sum(self):\n        self.assertEqual(1 + 1, 2)\n",
    )
    ground.repo.commit("a test")
    ground.cli("flow", "start", "tdd", "--id", "kept", "--agent", "scripted", "--request", "Keep the sums.")
    app = App(Settings(ground.environment, ground.home, "", "handoff", ground.repo.path))
    asked = ["questions: unittest:test_sum.py::Sum::test_sum: 3 of 9 questions, 4 forks, seed a1b2"]
    with app.database.transaction() as rows:
        flow = flows.find(rows, project="shop", id="kept")
        flows.tell(
            rows, flow, "flow.verified", phase="green", cycle=1, said="green: done", warnings=[], commit="", asked=asked
        )
    app.close()
    assert asked[0] in _text(ground, "/flow/shop/kept")


def _begin(app, name, task, **who):
    """A session of this machine that claims a task, and leaves the record of a process that is gone."""
    key = tasks.add(app.database, project="shop", id=task, brief="Do it.").key
    claimed = claim(app.database, key=key, who=SessionIdentity(name, kind=AGENT, project="shop", agent="claude", **who))
    place = os.path.join(app.settings.home, "shop", "sessions", name)
    os.makedirs(place)
    facts = {"kind": "clone", "sandbox": "workspace", "layer": "bubblewrap"}
    for file, value in (("session.json", facts), ("monitor.json", {"pid": os.getpid(), "start": "1"})):
        with open(os.path.join(place, file), "w", encoding="utf-8") as stream:
            json.dump(value, stream)
    running.leave(app, claimed, place, supervised=True)
    return claimed


def test_a_session_shows_its_last_sign_of_life_and_where_it_works(ground):
    app = App(Settings(ground.environment, ground.home, "", "handoff", ground.repo.path))
    claimed = _begin(app, "s-afar", "afar", host="elsewhere")
    heartbeat(app.database, key=claimed.task.key, fence=claimed.fence)
    known = sessions.get(app.database, id="s-afar")
    app.close()
    assert known.seen_at > known.started_at
    text = _text(ground, "/session/shop/s-afar")
    assert "<dt>where</dt><dd>in a clone of its own inside bubblewrap</dd>" in text


def test_a_session_whose_process_is_gone_is_nowhere_called_running(ground):
    app = App(Settings(ground.environment, ground.home, "", "handoff", ground.repo.path))
    _begin(app, "s-gone", "gone", host=app.settings.host)
    app.close()
    text = _text(ground, "/session/shop/s-gone")
    assert "nobody looks after it" in text
    assert "handoff session stop s-gone" in text
    assert "runs for" not in text
    assert "running" not in text.partition("<h1>")[2].partition("</h1>")[0]
    assert "/task/shop/gone" in _text(ground, "/board?state=ended")
    assert "/task/shop/gone" not in _text(ground, "/board?state=running")


def test_a_session_has_its_task_its_facts_and_its_words(ground):
    app = App(Settings(ground.environment, ground.home, "", "handoff", ground.repo.path))
    task = tasks.add(app.database, project="shop", id="talk", brief="Say something.")
    claim(app.database, key=task.key, who=SessionIdentity("s-talk", project="shop", agent="claude"))
    app.close()
    said = {"type": "assistant", "message": {"content": [{"type": "text", "text": "The routes need a <schema>."}]}}
    place = os.path.join(ground.home, "shop", "sessions", "s-talk")
    os.makedirs(place)
    with open(os.path.join(place, "events.jsonl"), "w", encoding="utf-8") as file:
        file.write(json.dumps(said) + "\n")
    assert 'href="/session/shop/s-talk"' in _text(ground, "/task/shop/talk")
    text = _text(ground, "/session/shop/s-talk")
    assert 'href="/task/shop/talk"' in text
    assert "The routes need a &lt;schema&gt;." in text
    found = _text(ground, "/journal?q=schema")  # it still runs
    assert 'href="/session/shop/s-talk"' in found
    assert '&lt;<mark class="hit">schema</mark>&gt;' in found
    assert ground.ask("GET", "/session/shop/nobody", cookie=ground.visitor).status == 404
    assert ground.ask("GET", "/session/other/s-talk", cookie=ground.visitor).status == 404


def test_figures_the_timeline_and_a_feature_come_from_the_rows_and_the_files(ground):
    ground.cli("init", "login")
    ground.repo.write(
        ".handoff/features/login/SPEC.md",
        "# Spec\n\n**bold** <script>hit()</script> [x](javascript:hit()) ![y](http://evil.example/z.png)\n",
    )
    text = _text(ground, "/feature")
    assert "<strong>bold</strong>" in text
    assert "<script>hit()" not in text
    assert 'href="javascript' not in text
    assert '<img src="http' not in text
    bars = _text(ground, "/timeline?span=1h")
    assert 'href="/task/shop/mail"' in bars
    assert 'class="bad"' in bars
    assert "Nobody worked" in _text(ground, "/timeline?span=1h&to=1000000000")
    app = App(Settings(ground.environment, ground.home, "", "handoff", ground.repo.path))
    far = tasks.add(app.database, project="shop", id="far", brief="Run elsewhere.")
    claim(app.database, key=far.key, who=SessionIdentity("s-far", project="shop", agent="codex", host="box"))
    gates.ask(app.database, key=far.key, fence=1, question="Go on?")
    app.close()
    bars = _text(ground, "/timeline?span=1h")
    assert re.search(r'class="host"[^>]*>box<', bars), "a lane for each agent and host"
    assert "asked you" in bars
    for key in ('data-key="+ ="', 'data-key="-"', 'data-key="ArrowLeft h"'):
        assert key in bars
    before = _done(ground)  # tests before this may have done some
    ground.cli("task", "add", "quick", "Say hello.")
    ground.cli("task", "claim", "quick", "--session", "two")
    ground.cli("task", "done", "--summary", "said", "--session", "two")
    assert _done(ground) == before + 1
    assert "agent score" in _text(ground, "/agents")


def _done(ground) -> int:
    told = re.search(r"\b(\d+) in 30 days", _text(ground, "/agents"))
    return int(told[1]) if told else 0


def test_the_keys_that_are_told_are_those_that_are_documented():
    with open(os.path.join(ROOT, "docs", "howto", "page.md"), encoding="utf-8") as file:
        text = file.read()
    for keys, meaning in KEYS:
        assert f"| {' '.join(f'`{key}`' for key in keys.split())} | {meaning} |" in text
