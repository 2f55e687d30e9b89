"""A person speaks to a session that runs: once, as theirs, and it is always said how far the words got."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time

import pytest

import client_stores
from databases import quick_folder
from handoff.agents.dialects import DIALECTS
from own_server import Server
from points import armed
from sandbox import Cli
from scripts import handoff, write_script

HOOK = handoff("hook", "claude", "PostToolUse") + " </dev/null"


@pytest.fixture
def session(repo, cli):
    """A session of an agent that works on `demo`, seen by its client's hooks."""
    return Running(repo, cli)


class Running:
    def __init__(self, repo, cli) -> None:
        self.repo, self.person = repo, cli
        cli("dump", "--task", "demo", "--next", "write", "--owns", "src/")
        claim = cli("task", "claim", "demo", "--json").json
        self.name, self.home = claim["session"], os.environ["HANDOFF_HOME"]
        folder = os.path.join(self.home, "repo", "sessions", self.name)
        os.makedirs(folder)
        with open(os.path.join(folder, "permissions"), "w", encoding="utf-8") as file:
            file.write(f"{claim.get('key', 1)}\n{claim['fence']}\ndemo\n{repo.path}\nsrc/\n")
        self.cli = Cli(repo.path, HANDOFF_SESSION=self.name, HANDOFF_PROJECT="repo", HANDOFF_FENCE=str(claim["fence"]))

    def say(self, text: str):
        return self.person("session", "say", self.name, text)

    def after(self, dialect: str = "claude", event: str = "PostToolUse") -> str:
        said = self.cli("hook", dialect, event, stdin=json.dumps({"tool_name": "Bash", "cwd": self.repo.path})).out
        return json.loads(said)["hookSpecificOutput"]["additionalContext"] if said else ""

    def killed(self, folder, point: str, *words: str, by: Cli | None = None):
        """The command, killed where it reaches that point."""
        cli = by or self.cli
        return subprocess.run(
            cli.command(*words), cwd=self.repo.path, env={**cli.full_environment(), **armed(str(folder / "marks"), point)},
            stdin=subprocess.DEVNULL, capture_output=True, timeout=100, check=False,
        )  # fmt: skip

    def states(self) -> list[str]:
        return [one["state"] for one in self.person("show", "demo", "--json").json["messages"]]


def test_words_reach_the_session_after_its_tool_call_once_and_it_is_shown_how_far_they_got(session):
    assert session.after() == ""
    said = session.say("use the other table")
    assert "Queued for" in said.out
    assert session.states() == ["queued"]
    heard = session.after()
    assert "> use the other table" in heard
    assert "the person you work for says" in heard
    assert session.states() == ["delivered"]
    assert "not seen yet" in session.person("show", "demo").out
    assert session.after() == "", "nothing twice"
    assert session.states() == ["seen"]
    for words in (("show", "demo"), ("session", "list"), ("session", "log", session.name)):
        assert f"use the other table (seen by {session.name})" in session.person(*words).out, words
    assert "  message " in session.person("log", "demo").out
    assert os.listdir(os.path.join(session.home, "said")) == []


@pytest.mark.parametrize(
    ("dialect", "event"),
    [(one, name) for one, speech in DIALECTS.items() for name, meaning in speech.events.items() if meaning == "after"],
)
def test_every_client_that_calls_after_a_tool_is_given_the_words(session, dialect, event):
    session.say("use the other table")
    said = session.cli("hook", dialect, event, stdin=json.dumps({"cwd": session.repo.path})).out
    assert "> use the other table" in str(json.loads(said))


@pytest.mark.parametrize(
    "dialect", [one for one, speech in DIALECTS.items() if {"after", "compact"} <= {*speech.events.values()}]
)
def test_a_client_that_shortened_its_conversation_reads_the_baton_once_more(session, dialect):
    names = {meaning: name for name, meaning in DIALECTS[dialect].events.items()}
    with open(os.path.join(session.home, "repo", "sessions", session.name, "baton.md"), "w", encoding="utf-8") as file:
        file.write("## Rules\n- Never round.\n")
    call = lambda event: session.cli("hook", dialect, names[event], stdin=json.dumps({"cwd": session.repo.path})).out  # noqa: E731
    assert "Never round" not in call("after")
    call("compact")
    session.say("use the other table")
    heard = call("after")
    assert heard.index("Never round.") < heard.index("use the other table")
    assert "Never round" not in call("after"), "once"
    call("compact")
    assert "Never round." in call("start"), "a client that begins anew has it from there"
    assert "Never round" not in call("after")


def test_several_words_come_together_and_later_ones_alone(session):
    session.say("first\nwith a second line")
    session.say("then this")
    heard = session.after()
    assert heard.index("> first\n> with a second line") < heard.index("> then this")
    session.say("and now that")
    heard = session.after()
    assert "> and now that" in heard
    assert "first" not in heard
    assert session.states() == ["seen", "seen", "delivered"]


def test_words_that_come_too_late_for_a_tool_call_hold_the_stop(session):
    session.say("one more thing")
    said = json.loads(session.cli("hook", "claude", "Stop", stdin="{}").out)
    assert said["decision"] == "block"
    assert "> one more thing" in said["reason"]
    assert "neither done nor blocked" in said["reason"], "and what it would have heard anyway"
    session.cli("hook", "claude", "Stop", stdin="{}")
    assert session.states() == ["seen"]


def test_a_session_that_asks_the_relay_hears_the_words_with_the_answer(session):
    session.say("use the other table")
    assert "A person says: use the other table" in session.cli("heartbeat").err
    assert session.after() == ""
    assert session.states() == ["delivered"]


def test_words_for_a_task_are_not_given_to_the_session_that_lost_it(session):
    session.say("use the other table")
    session.person("task", "release", "demo", "--session", session.name)
    other = session.person("task", "claim", "demo", "--json").json["session"]
    session.person("session", "say", other, "for you alone")
    assert session.after() == ""
    assert session.states() == ["delivered", "queued"]


# --- killed on the way -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("point", "state", "heard"),
    [
        ("session.mailbox._open:call", "queued", "use the other table"),
        ("events.journal.hear:call", "queued", "use the other table"),
        ("events.journal.append:return", "queued", "use the other table"),  # inside the transaction, before its commit
        ("events.journal.hear:return", "delivered", ""),
        ("session.mailbox.empty:return", "delivered", ""),
        ("session.mailbox.leave_receipts:call", "delivered", ""),
    ],
)
def test_a_hook_that_is_killed_gives_the_words_later_or_it_is_said_that_they_were_not_seen(
    session, tmp_path, point, state, heard
):
    session.say("use the other table")
    ended = session.killed(tmp_path, point, "hook", "claude", "PostToolUse")
    assert ended.returncode == -signal.SIGKILL, ended
    assert session.states() == [state]
    assert heard in session.after()
    session.after()
    assert session.states() == ["seen" if heard else "delivered"], "it never claims what nobody showed"


def test_a_person_whose_command_is_killed_after_the_words_were_kept_is_heard_at_the_stop(session, tmp_path):
    ended = session.killed(
        tmp_path, "session.mailbox.mark:call", "session", "say", session.name, "stop that", by=session.person
    )
    assert ended.returncode == -signal.SIGKILL, ended
    assert session.states() == ["queued"]
    assert session.after() == ""
    assert "> stop that" in session.cli("hook", "claude", "Stop", stdin="{}").out
    assert session.states() == ["delivered"]


@pytest.fixture
def server(tmp_path, monkeypatch):
    with tempfile.TemporaryDirectory(prefix="pg-", dir=quick_folder(), ignore_cleanup_errors=True) as folder:
        found = Server(folder)
        monkeypatch.setenv("HANDOFF_DATABASE_URL", found.url)
        yield found
        found.stop(signal.SIGQUIT)


@pytest.mark.slow
def test_a_database_that_is_killed_between_the_words_and_their_hook_loses_and_repeats_none(server, repo, cli):
    session = Running(repo, cli)
    session.say("use the other table")
    server.stop()
    raw = json.dumps({"tool_name": "Bash", "cwd": repo.path})
    away = session.cli("hook", "claude", "PostToolUse", stdin=raw)
    assert "the hook could not answer" in away.err, "its client goes on working"
    assert away.out == ""
    assert session.person("session", "say", session.name, "never kept", code=None).code != 0
    server.start()
    assert session.states() == ["queued"]
    assert "> use the other table" in session.after()
    server.stop()
    session.cli("hook", "claude", "PostToolUse", stdin=raw)
    server.start()
    assert session.states() == ["delivered"], "that it was seen could not be written, so it is not said"
    assert session.after() == ""


def test_hooks_at_the_same_moment_give_the_words_once(session):
    for number in range(5):
        session.say(f"word {number}")
    words = session.cli.command("hook", "claude", "PostToolUse")
    running = [
        subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, cwd=session.repo.path, env=session.cli.full_environment())
        for _ in range(4)
    ]  # fmt: skip
    heard = "".join(process.communicate(timeout=100)[0].decode() for process in running)
    assert [heard.count(f"word {number}") for number in range(5)] == [1] * 5, heard


# --- who may, and to whom ----------------------------------------------------------------------------------


def test_what_cannot_be_said_is_an_error_that_says_what_to_type(session):
    say = session.person
    assert "There were no words to say" in say("session", "say", session.name, "  ", code=2).err
    assert "hears 4,000 at once" in say("session", "say", session.name, "x" * 4001, code=1).err
    assert "session list" in say("session", "say", "session-none", "hi", code=1).err
    assert "Leave --now out" in say("session", "say", session.name, "hi", "--now", code=1).err
    session.cli("task", "block", "no key")
    assert "holds no task" in say("session", "say", session.name, "hi", code=1).err
    assert "retry demo --note TEXT" in say("session", "say", "demo", "hi", code=1).err
    say("retry", "demo")
    assert "task edit demo --note TEXT" in say("session", "say", "demo", "hi", code=1).err
    assert session.states() == []


def test_a_client_in_whose_folder_a_task_was_claimed_hears_without_being_a_session_of_ours(repo, cli):
    cli("dump", "--task", "mine", "--next", "write")
    cli("task", "claim", "mine")
    cli("session", "say", "mine", "use the other table")
    raw = json.dumps({"cwd": repo.path, "session_id": "abc", "tool_name": "Bash"})
    heard = cli("hook", "claude", "PostToolUse", "installed", stdin=raw, cwd="/").out
    assert "> use the other table" in json.loads(heard)["hookSpecificOutput"]["additionalContext"]
    assert cli("hook", "claude", "PreToolUse", "installed", stdin=raw, cwd="/").out == ""
    assert cli("show", "mine", "--json").json["messages"][0]["state"] == "seen"


def test_a_session_that_never_heard_of_handoff_hears_its_person(repo, cli):
    home, folder = os.environ["HOME"], os.path.realpath(repo.path)
    client_stores.STORES["claude"](home, folder)
    say = ("session", "say", client_stores.ID, "use the other table")
    assert f"take {client_stores.ID}" in cli(*say, code=1).err
    living = subprocess.Popen(["sleep", "600"])
    try:
        os.makedirs(os.path.join(home, ".claude", "sessions"))
        with open(os.path.join(home, ".claude", "sessions", f"{living.pid}.json"), "w", encoding="utf-8") as file:
            json.dump({"pid": living.pid, "sessionId": client_stores.ID}, file)
        assert "setup hooks install --agent claude" in cli(*say, code=1).err
        cli("hook", "claude", "SessionStart", "installed", stdin="{}")
        assert "Queued" in cli(*say).out
        other = cli("hook", "claude", "PostToolUse", "installed", stdin=json.dumps({"session_id": "x", "cwd": folder}))
        assert other.out == "", "nobody else hears it"
        raw = json.dumps({"session_id": client_stores.ID, "cwd": folder})
        assert "> use the other table" in cli("hook", "claude", "PostToolUse", "installed", stdin=raw).out
        assert "not seen yet" in cli("session", "list", "--clients").out
        assert cli("hook", "claude", "PostToolUse", "installed", stdin=raw).out == ""
        assert f"(seen by {client_stores.ID})" in cli("session", "list", "--clients").out
    finally:
        living.kill()
        living.wait()


# --- with an agent that runs -------------------------------------------------------------------------------


def _wait(condition, what):
    until = time.monotonic() + 120
    while not (found := condition()):
        assert time.monotonic() < until, what
        time.sleep(0.05)
    return found


def _started(cli, repo, tmp_path, *acts):
    """A session of the scripted agent that has begun."""
    script = write_script(str(tmp_path / "acts.toml"), {"say": "begun"}, *acts)
    process = cli.start("session", "start", "demo", "--agent", "scripted", "--with", script, "--json")
    rows = _wait(lambda: [one for one in cli("session", "list", "--json").json if one["label"] == "demo"], "it runs")
    _wait(lambda: "begun" in cli("session", "log", rows[0]["id"]).out, "it works")
    return process, rows[0]["id"]


def test_a_running_agent_changes_what_it_does_in_the_same_turn(repo, cli, tmp_path):
    cli("task", "add", "demo", "Fill a table.", "--owns", "out.txt", "--check", "grep -q 'other table' out.txt")
    listen = f"until {HOOK} > heard && grep -q table heard; do sleep 0.1; done; cat heard > out.txt; rm heard; {HOOK}"
    process, session = _started(cli, repo, tmp_path, {"run": listen}, {"run": handoff("task", "done")})
    said = cli("session", "say", session, "use the other table")
    assert "Scripted agent hears nothing while it works" in said.out or "Queued for" in said.out
    out, err = process.communicate(timeout=200)
    assert json.loads(out)["state"] == "done", out + err
    assert "use the other table" in repo.read("out.txt")
    assert f"(seen by {session})" in cli("show", "demo").out


def test_words_that_a_client_took_to_its_death_are_seen_by_the_next_one(repo, cli, tmp_path):
    cli("task", "add", "demo", "Fill a table.", "--check", "test -f made.txt")
    listen = f"until {HOOK} > heard && grep -q table heard; do sleep 0.1; done; rm heard"
    process, first = _started(cli, repo, tmp_path, {"run": listen}, {"crash": "SIGKILL"})
    cli("session", "say", first, "use the other table")
    out, err = process.communicate(timeout=200)
    assert json.loads(out)["state"] == "ready", out + err
    assert f"use the other table (delivered to {first}, not seen yet)" in cli("show", "demo").out
    last = ({"expect": "use the other table"}, {"write": "made.txt", "text": "made"}, {"run": HOOK})
    script = write_script(str(tmp_path / "last.toml"), *last)
    end = cli("session", "start", "demo", "--agent", "scripted", "--with", script, "--json").json
    (found,) = cli("show", "demo", "--json").json["messages"]
    assert (end["state"], found["state"], found["session"]) == ("done", "seen", end["session"])


def test_words_that_a_client_was_killed_before_it_heard_are_seen_by_the_next_one(repo, cli, tmp_path):
    cli("task", "add", "demo", "Fill a table.", "--check", "test -f made.txt")
    process, first = _started(cli, repo, tmp_path, {"hang": True})
    cli("session", "say", first, "use the other table")
    folder = os.path.join(os.environ["HANDOFF_HOME"], "repo", "sessions", first)
    with open(os.path.join(folder, "process.json"), encoding="utf-8") as file:
        os.kill(int(json.load(file)["pid"]), signal.SIGKILL)
    out, err = process.communicate(timeout=200)
    assert json.loads(out)["state"] == "ready", out + err
    assert [one["state"] for one in cli("show", "demo", "--json").json["messages"]] == ["queued"]
    last = ({"expect": "use the other table"}, {"write": "made.txt", "text": "made"}, {"run": HOOK}, {"run": HOOK})
    script = write_script(str(tmp_path / "last.toml"), *last)
    end = cli("session", "start", "demo", "--agent", "scripted", "--with", script, "--json").json
    (found,) = cli("show", "demo", "--json").json["messages"]
    assert (end["state"], found["state"], found["session"]) == ("done", "seen", end["session"])
    assert "the person you work for says" not in cli("session", "log", end["session"], "--raw").out, "nothing twice"


def test_words_are_heard_once_although_the_supervisor_is_killed_between(repo, cli, tmp_path):
    cli("task", "add", "demo", "Fill a table.", "--check", "true")
    listen = f"until grep -qs table heard; do {HOOK} >> heard; sleep 0.1; done; {HOOK} >> heard; {HOOK} >> heard"
    script = write_script(str(tmp_path / "acts.toml"), {"say": "begun"}, {"run": listen})
    work = ("work", "--agent", "scripted")
    supervisor = cli("--json", *work, "--detach", "--", script).json["pid"]
    (row,) = _wait(lambda: [one for one in cli("session", "list", "--json").json if one["label"] == "demo"], "it runs")
    _wait(lambda: "begun" in cli("session", "log", row["id"]).out, "it works")
    cli("session", "say", row["id"], "use the other table")
    os.kill(supervisor, signal.SIGKILL)
    cli(*work, "--until-done", "--plain", "--", script)
    found = cli("show", "demo", "--json").json
    assert found["state"] == "done"
    assert [(one["state"], one["session"]) for one in found["messages"]] == [("seen", row["id"])]
    assert repo.read("heard").count("use the other table") == 1


def test_where_a_client_hears_nothing_now_ends_its_turn_and_the_next_session_begins_with_the_words(repo, cli, tmp_path):
    cli("task", "add", "demo", "Fill a table.", "--check", "grep -q work made.txt")
    process, session = _started(cli, repo, tmp_path, {"write": "made.txt", "text": "work\n"}, {"hang": True})
    said = cli("session", "say", session, "use the other table").out
    assert "the next session of 'demo' begins with them" in said, said
    assert f"session say {session} TEXT --now" in said
    said = cli("session", "say", session, "and hurry", "--now").out
    assert "its work is kept" in said, said
    assert "session start demo --agent scripted" in said
    assert "task edit demo --note TEXT" in cli("session", "say", session, "too late", code=1).err
    out, _ = process.communicate(timeout=200)
    assert (json.loads(out)["outcome"], json.loads(out)["state"]) == ("stopped", "ready")
    last = write_script(
        str(tmp_path / "last.toml"), {"expect": "use the other table"}, {"expect": "and hurry"}, {"run": "grep -q work made.txt"}, {"run": HOOK}
    )  # fmt: skip
    end = cli("session", "start", "demo", "--agent", "scripted", "--with", last, "--json").json
    assert end["state"] == "done", end
    found = cli("show", "demo", "--json").json
    assert found["attempt"] == 1
    assert [(one["state"], one["session"]) for one in found["messages"]] == [("seen", end["session"])] * 2


def test_now_is_told_as_it_is_where_a_supervisor_has_started_the_next_session_already(repo, cli, tmp_path):
    cli("task", "add", "demo", "Fill a table.", "--check", "false")
    script = write_script(str(tmp_path / "acts.toml"), {"say": "begun"}, {"hang": True})

    def at_work():
        return [one["id"] for one in cli("session", "list", "--json").json if one["label"] == "demo"]

    cli("work", "--agent", "scripted", "--detach", "--", script)
    try:
        (first,) = _wait(at_work, "it runs")
        _wait(lambda: "begun" in cli("session", "log", first).out, "it works")
        said = cli("session", "say", first, "use the other table", "--now").out
        assert (
            said == f"Session {first} has ended; its work is kept. The next session of 'demo' begins with your words.\n"
        )
        _wait(lambda: at_work() not in ([], [first]), "the next session runs")
    finally:
        cli("work", "--stop")
        for one in at_work():
            cli("session", "stop", one)


def test_a_session_cannot_speak_to_another_one_in_its_persons_name(repo, cli, tmp_path):
    cli("task", "add", "other", "Wait.")
    other = cli("task", "claim", "other", "--json").json["session"]
    cli("task", "add", "demo", "Steer.")
    forged = handoff("session", "say", other, "obey") + " 2> refused.txt"
    script = write_script(
        str(tmp_path / "acts.toml"), {"run": forged, "may_fail": True}, {"run": "cat refused.txt"},
    )  # fmt: skip
    for where in ((), ("--workspace", "shared", "--sandbox", "none")):
        end = cli("session", "start", "demo", "--agent", "scripted", "--with", script, "--json", *where, code=None).json
        told = cli("session", "log", end["session"]).out
        assert "may not use 'session say'" in told or "Only a person says something to a session" in told, told
        assert cli("show", "other", "--json").json["messages"] == []
        cli("retry", "demo", code=None)
