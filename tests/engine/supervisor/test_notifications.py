"""Notifications: real receivers that fail, hang, say 500 or 410; both databases; a deliverer that is killed."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import signal
import sys

import pytest

from handoff.base.errors import ConfigError
from handoff.base.settings import from_environment
from handoff.board import gates
from handoff.board.events import incidents, journal
from handoff.board.sessions import leases, watchdog
from handoff.board.sessions.sessions import SessionIdentity
from handoff.board.tasks import outcomes, tasks
from handoff.engine.app import App
from handoff.engine.supervisor import notifications
from receivers import Receiver

SECRET = "a secret of enough letters"
FILE_ONLY = pytest.mark.parametrize("place", ["sqlite"], indirect=True)  # the database plays no part


@pytest.fixture
def receivers():
    made: list[Receiver] = []

    def make(*script: int) -> Receiver:
        made.append(Receiver(*script))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def relay(place, database, monkeypatch):
    """An app on one of the databases, with channels as the test writes them."""
    monkeypatch.setenv("HANDOFF_DATABASE_URL", place.url)
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    return Relay(database)


class Relay:
    def __init__(self, store) -> None:
        self.store = store
        self.app = App(from_environment())
        self.app._database = store
        self.home = self.app.settings.home
        os.makedirs(self.home, exist_ok=True)

    def channels(self, **found) -> None:
        lines = []
        for name, (address, more) in found.items():
            lines += [f"[notify.{name}]", f'webhook = "{address}"', 'secret = "env:HOOK_SECRET"', more, ""]
        with open(os.path.join(self.home, "config.toml"), "w", encoding="utf-8") as file:
            file.write("\n".join(lines))

    def blocked(self, name: str, reason: str = "no key"):
        task = tasks.add(self.store, project="shop", id=name, brief="x")
        return outcomes.block(self.store, key=task.key, reason=reason).task

    def later(self, seconds: float) -> None:
        self.store.shift += seconds

    def deliver(self):
        told = notifications.deliver(self.app)
        return told[0] if len(told) == 1 else {one.channel: one for one in told}

    def progress(self, name="hook"):
        return journal.list_channels(self.store)[name]


def test_an_event_is_a_signed_cloud_event_and_is_told_once(relay, receivers):
    hook = receivers()
    relay.channels(hook=(hook.url, ""))
    relay.blocked("login")
    assert relay.deliver().sent == 1
    assert relay.deliver() == notifications.Delivery("hook", waiting=True)
    ((headers, body),) = hook.got
    (event,) = hook.events
    assert headers["content-type"].startswith("application/cloudevents+json")
    assert (event["specversion"], event["type"], event["subject"]) == ("1.0", "handoff.task.blocked", "shop/login")
    assert event["data"]["reason"] == "no key"
    seq = [one.seq for one in journal.since(relay.store) if one.kind == "task.blocked"]
    assert [event["id"], headers["webhook-id"]] == [str(seq[0])] * 2
    signed = f"{event['id']}.{headers['webhook-timestamp']}.".encode() + body
    proof = base64.b64encode(hmac.new(SECRET.encode(), signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{proof}"


def test_a_receiver_in_trouble_is_tried_again_later_and_the_repeat_has_the_same_id(relay, receivers):
    hook = receivers(500, 200)
    relay.channels(hook=(hook.url, ""))
    relay.blocked("login")
    relay.blocked("logout")
    told = relay.deliver()
    assert (told.sent, "answered 500" in told.trouble) == (0, True)
    assert len(hook.got) == 1  # in order: what comes after waits, and not at once again
    assert relay.deliver().waiting
    relay.later(6)
    assert relay.deliver().sent == 2
    assert [event["id"] for event in hook.events][:2] == [hook.events[0]["id"]] * 2
    assert [event["subject"] for event in hook.events] == ["shop/login", "shop/login", "shop/logout"]
    assert (relay.progress().tries, relay.progress().trouble) == (0, "")


def test_an_event_nobody_takes_is_dropped_after_a_while_and_the_next_goes_through(relay, receivers):
    hook = receivers(400, 400, 400, 200)
    relay.channels(hook=(hook.url, ""))
    relay.blocked("poison")
    relay.blocked("login")
    for _ in range(3):
        relay.deliver()
        relay.later(4000)
    relay.deliver()
    assert [event["subject"] for event in hook.events] == ["shop/poison"] * 3 + ["shop/login"]
    assert (relay.progress().dropped, relay.progress().sent) == (1, 1)


def test_a_receiver_that_is_gone_is_given_up_until_it_is_tried_out_or_leads_elsewhere(relay, receivers):
    hook, other = receivers(410, 200), receivers()
    relay.channels(hook=(hook.url, ""))
    relay.blocked("login")
    relay.deliver()
    relay.later(100_000)
    assert relay.deliver().waiting
    assert (relay.progress().state, len(hook.got)) == ("gone", 1)
    assert notifications.try_out(relay.app, notifications.choose(relay.app, "hook")[0]).how == "sent"
    assert relay.deliver().sent == 1
    hook.script = [410]
    relay.blocked("logout")
    relay.deliver()
    relay.channels(hook=(other.url, ""))
    assert relay.deliver().sent == 1


@FILE_ONLY
def test_a_receiver_that_hangs_keeps_nobody_else_waiting(relay, receivers):
    hanging, good = receivers(0), receivers()
    relay.channels(slow=(hanging.url, "timeout = 1"), good=(good.url, ""), away=("http://127.0.0.1:9/", ""))
    for at in range(3):
        relay.blocked(f"task-{at}")
    told = relay.deliver()
    assert [told[name].sent for name in ("slow", "good", "away")] == [0, 3, 0]
    assert "no answer" in told["slow"].trouble
    assert "no answer" in told["away"].trouble
    assert len(hanging.got) == 1


def test_a_channel_that_is_set_up_wrongly_keeps_nobody_else_waiting(relay, receivers, monkeypatch):
    good = receivers()
    relay.channels(good=(good.url, ""), bad=(good.url, "timeout = -1"))
    relay.blocked("login")
    told = relay.deliver()
    assert told["good"].sent == 1
    assert "'timeout' is a number" in told["bad"].trouble
    with pytest.raises(ConfigError):
        notifications.choose(relay.app)


def test_each_channel_hears_what_it_asked_for(relay, receivers):
    all_, mine = receivers(), receivers()
    relay.channels(
        all=(all_.url, 'events = ["needs-you", "blocked", "done", "limit", "incident"]'),
        mine=(mine.url, 'events = ["done"]\nprojects = ["bank"]'),
    )
    for project in ("shop", "bank"):
        task = tasks.add(relay.store, project=project, id="login", brief="x")
        outcomes.finish(relay.store, key=task.key)
    gated = tasks.add(relay.store, project="shop", id="gated", brief="x")
    gates.ask(relay.store, key=gated.key, question="Ship it?", due_seconds=60, fallback="no")
    silent = tasks.add(relay.store, project="shop", id="silent", brief="x")
    leases.claim(relay.store, key=silent.key, who=SessionIdentity("s1"), lease_seconds=10)
    relay.deliver()
    relay.later(120)
    watchdog.scan(relay.store)
    relay.deliver()
    said = [(event["data"]["class"], event["type"].removeprefix("handoff."), event["subject"]) for event in all_.events]
    assert said == [
        ("done", "task.finished", "shop/login"),
        ("done", "task.finished", "bank/login"),
        ("needs-you", "gate.opened", "shop/gated"),
        ("incident", "task.expired", "shop/silent"),
        ("incident", "gate.rejected", "shop/gated"),
        ("blocked", "task.blocked", "shop/gated"),
    ]
    assert [event["subject"] for event in mine.events] == ["bank/login"]


def test_an_incident_is_told_when_it_happens_and_not_when_it_is_resolved(relay, receivers):
    hook = receivers()
    relay.channels(hook=(hook.url, ""))
    with relay.store.transaction() as transaction:
        incidents.tell(
            transaction, [incidents.IncidentReport("m", "moved", "main was moved", "restore it", project="shop")]
        )
    relay.deliver()
    (event,) = hook.events
    assert (event["data"]["class"], event["data"]["what"]) == ("incident", "main was moved")
    with relay.store.transaction() as transaction:
        assert incidents.resolve(transaction, id=event["data"]["incident"], how="fixed")
    relay.deliver()
    assert len(hook.got) == 1


def test_only_a_channel_that_may_answer_gets_the_code_and_an_answered_gate_calls_nobody(relay, receivers):
    told, asked = receivers(), receivers()
    relay.channels(told=(told.url, ""), asked=(asked.url, 'answers = true\npage = "https://relay.example/"'))
    task = tasks.add(relay.store, project="shop", id="login", brief="x")
    gate = gates.ask(relay.store, key=task.key, question="Ship it?")
    relay.deliver()
    assert asked.events[0]["data"]["answer_code"] == gate.code
    assert asked.events[0]["data"]["answer_url"] == f"https://relay.example/gates?code={gate.code}"
    assert gate.code.encode() not in told.got[0][1]
    again = tasks.add(relay.store, project="shop", id="logout", brief="x")
    gates.ask(relay.store, key=again.key, question="Ship it?")
    gates.approve(relay.store, key=again.key)
    relay.deliver()
    assert len(asked.got) == len(told.got) == 1


def test_what_looks_like_a_secret_does_not_leave_the_machine(relay, receivers):
    hook = receivers()
    relay.channels(hook=(hook.url, ""))
    key = "sk-" + "a1" * 15
    relay.blocked("login", reason=f"the key {key} does not work")
    relay.deliver()
    assert hook.events[0]["data"]["reason"] == "the key [redacted] does not work"


def test_a_new_channel_is_not_flooded_with_what_is_long_past(relay, receivers):
    hook = receivers()
    relay.blocked("old")
    relay.later(3600)
    relay.blocked("new")
    relay.channels(hook=(hook.url, ""))
    relay.deliver()
    assert [event["subject"] for event in hook.events] == ["shop/new"]


def test_two_deliverers_at_once_tell_an_event_once_and_a_dead_one_is_replaced(relay, receivers):
    hook = receivers()
    relay.channels(hook=(hook.url, ""))
    relay.blocked("login")
    (channel,) = notifications.choose(relay.app)
    held = journal.take_channel(relay.store, name="hook", place=notifications._place(channel))
    assert relay.deliver().waiting
    relay.later(journal.HELD_SECONDS + 1)  # the first one is dead
    assert relay.deliver().sent == 1
    assert journal.keep_progress(relay.store, held, now=held, done=True) is None  # and cannot turn the cursor back


def test_a_supervisor_tells_beside_its_own_work_and_a_trouble_only_once(relay, receivers):
    hook = receivers(500)
    relay.channels(hook=(hook.url, ""))
    relay.blocked("login")
    said: list[str] = []
    teller = notifications.Teller(relay.app, said.append)
    for _ in range(2):
        teller.start_round()
        teller._threads["notify"].join(30)
    assert len(said) == 1
    assert "answered 500" in said[0]


KILLED = """
import os, signal, sys
from handoff.base.settings import from_environment
from handoff.engine.supervisor import notifications
from handoff.engine.app import App
from handoff.notify import channels
def watch(frame, event, argument):
    if event == "return" and frame.f_code is channels.post.__code__:
        os.kill(os.getpid(), signal.SIGKILL)
sys.setprofile(watch)
notifications.deliver(App(from_environment()))
"""


def test_a_deliverer_killed_after_sending_sends_again_with_the_same_id_and_loses_nothing(relay, receivers, place):
    hook = receivers()
    relay.channels(hook=(hook.url, ""))
    relay.blocked("login")
    relay.blocked("logout")
    process = place.start(KILLED)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    relay.later(journal.HELD_SECONDS + 1)
    relay.deliver()
    assert [event["subject"] for event in hook.events] == ["shop/login", "shop/login", "shop/logout"]
    assert hook.events[0]["id"] == hook.events[1]["id"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[notify.a]\nwebhook = "https://x.invalid/"', ":1: notify.a: a webhook needs a secret"),
        ('[notify.a]\nwebhook = "https://x.invalid/"\nsecret = "hunter2hunter2hunter2"', ":3: .*does not stand in this file"),
        ('[notify.a]\nwebhook = "https://x.invalid/"\nsecret = "env:NOT_SET"', ":3: .*no NOT_SET"),
        ('[notify.a]\nwebhook = "https://x.invalid/"\nsecret = "file:open"', ":3: .*others can read"),
        ('[notify.a]\nwebhook = "https://x.invalid/"\nsecret = "file:none"', ":3: .*cannot read"),
        ('[notify.a]\nwebhook = "https://x.invalid/"\nsecret = "env:SHORT"', ":3: .*shorter than 16"),
        ('[notify.a]\nwebhook = "ftp://x"\nsecret = "env:HOOK_SECRET"', ":2: .*https://"),
        ('[notify.a]\nto = "json://x"\nwebhook = "https://x"', ":1: .*one place"),
        ('[notify.a]\nto = "json://x"', ":2: .*others can read"),
        ('\n[notify.a]\nto = "env:HOOK_SECRET"', ":3: .*no address"),
        ('[notify.a]\nto = "env:PLACE"\nevents = ["birthday"]', ":3: .*no event 'birthday'"),
        ('[notify.a]\nto = "env:PLACE"\nanswers = true\npage = "http://relay.example"', ":4: .*in the clear"),
        ('[notify.a]\nto = "env:PLACE"\npage = "https://relay.example"', ":3: .*'answers' is not true"),
        ('[notify.a]\nto = "env:PLACE"\ncolour = "red"', ":3: .*unknown key 'colour'"),
        ('[notify.a]\nto = "env:PLACE"\nanswers = "yes"', ":3: .*true or false"),
        ("[notify]\na = 3", "notify.a: a channel is a table"),
    ],
)  # fmt: skip
def test_a_channel_set_up_wrongly_is_an_error_with_its_line_and_without_secrets(text, words, tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.mkdir()
    for name, value in (("HOOK_SECRET", SECRET), ("SHORT", "x"), ("PLACE", "json://x"), ("HANDOFF_HOME", str(home))):
        monkeypatch.setenv(name, value)
    (home / "config.toml").write_text(text)
    (home / "config.toml").chmod(0o644)
    (home / "open").write_text(SECRET)
    with pytest.raises(ConfigError, match=words) as caught:
        notifications.channels(App(from_environment()))
    assert SECRET not in caught.value.message
    assert "hunter2" not in caught.value.message + caught.value.hint


@FILE_ONLY
def test_apprise_tells_people_in_words_and_its_address_is_shown_nowhere(relay, receivers, cli, place):
    hook = receivers()
    address = f"json://user:password@{hook.host}/path"
    path = os.path.join(relay.home, "config.toml")
    with open(path, "w", encoding="utf-8") as file:
        file.write('[notify.phone]\nto = "env:MY_PLACE"\nanswers = true\n')
    cli.environment["MY_PLACE"] = address
    task = tasks.add(relay.store, project="shop", id="login", brief="x")
    gate = gates.ask(relay.store, key=task.key, question="Ship it?")
    shown = cli("notify", "deliver").out + cli("notify", "status").out + cli("notify", "status", "--json").out
    shown += cli("notify", "test", "phone").out + cli("watchdog").out
    assert "password" not in shown
    first = hook.events[0]
    assert first["title"] == "shop/login waits for your answer"
    assert "Ship it?" in first["message"]
    assert f"answer {gate.code} yes|no WHY" in first["message"]
    assert len(hook.got) == 2
    hook.script = [500]
    assert "did not take it" in cli("notify", "test", code=1).out


@FILE_ONLY
def test_a_question_about_money_is_told_with_how_to_raise_it_by_an_amount(relay, receivers, cli, place):
    hook = receivers()
    with open(os.path.join(relay.home, "config.toml"), "w", encoding="utf-8") as file:
        file.write('[notify.phone]\nto = "env:MY_PLACE"\n')
    cli.environment["MY_PLACE"] = f"json://{hook.host}/path"
    task = tasks.add(relay.store, project="shop", id="login", brief="x")
    gates.ask(relay.store, key=task.key, question="More?", choices=("yes 5", "no"), cap="max_cost_per_task")
    cli("notify", "deliver")
    said = hook.events[0]["message"]
    assert "handoff answer login 'yes AMOUNT' --project shop" in said
    assert "YOUR ANSWER" not in said


@FILE_ONLY
def test_without_the_extra_the_command_says_what_to_install(cli, tmp_path, relay):
    (tmp_path / "apprise").mkdir()
    (tmp_path / "apprise" / "__init__.py").write_text("raise ImportError('not here')\n")
    with open(os.path.join(relay.home, "config.toml"), "w", encoding="utf-8") as file:
        file.write('[notify.phone]\nto = "env:MY_PLACE"\n')
    cli.environment.update(
        MY_PLACE="json://localhost", PYTHONPATH=str(tmp_path) + os.pathsep + os.pathsep.join(sys.path)
    )
    assert "handoff-relay[notify]" in cli("notify", "test", code=1).out


def test_no_channel_is_an_error_that_says_how_to_set_one_up(cli):
    for verb in ("status", "test", "deliver"):
        assert "[notify.NAME]" in cli("notify", verb, code=1).err
    cli("watchdog")
