"""The hook program as clients call it, and its entries in their settings."""

from __future__ import annotations

import json
import os
import re
import time

import pytest

from client_stores import slug, write_rows
from handoff.agents.dialects import DIALECTS
from handoff.base.clock import stamp
from handoff.base.markdown import BATON_END, BATON_MARK
from handoff.engine.setup.settings_files import PLACES, TAG
from sandbox import Cli
from workspaces import ready


@pytest.fixture
def session(repo, cli):
    """A claimed task `demo` that owns src/ and one file, with the folder a session of it would have."""
    cli("dump", "--task", "demo", "--next", "write", "--owns", "src/", "--owns", "docs/*.md", "--owns", "one.txt")
    cli("dump", "--task", "other", "--next", "write too", "--owns", "other/")
    claim = cli("task", "claim", "demo", "--json").json
    return Held(repo, claim)


class Held:
    def __init__(self, repo, claim) -> None:
        self.repo, self.name = repo, claim["session"]
        home = os.environ["HANDOFF_HOME"]
        self.folder = os.path.join(home, "repo", "sessions", self.name)
        os.makedirs(self.folder)
        key, fence = claim.get("key", 1), claim["fence"]
        self._put("permissions", f"{key}\n{fence}\ndemo\n{repo.path}\nsrc/\ndocs/*.md\none.txt\n")
        self._put("baton.md", "# the baton of demo\n")
        self.cli = Cli(
            repo.path, HANDOFF_SESSION=self.name, HANDOFF_PROJECT="repo", HANDOFF_FENCE=str(fence), HANDOFF_TOKEN="tok",
            TMPDIR=os.path.join(home, "scratch"),
        )  # fmt: skip

    def _put(self, name: str, text: str) -> None:
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)

    def read(self, name: str) -> str:
        with open(os.path.join(self.folder, name), encoding="utf-8") as file:
            return file.read()

    def edit(self, path: str, code: int = 0):
        raw = {"tool_name": "Write", "tool_input": {"file_path": path}, "cwd": self.repo.path}
        answer = self.cli("hook", "claude", "PreToolUse", stdin=json.dumps(raw), code=code)
        return json.loads(answer.out)["hookSpecificOutput"]["permissionDecisionReason"] if answer.out else ""

    def hook(self, event: str, raw=None, dialect: str = "claude", code: int = 0):
        answer = self.cli("hook", dialect, event, stdin=json.dumps(raw or {}), code=code)
        return json.loads(answer.out) if answer.out else {}


def test_the_baton_arrives_at_the_start_and_the_token_is_left(session):
    said = session.hook("SessionStart", {"source": "startup"})
    assert "the baton of demo" in said["hookSpecificOutput"]["additionalContext"]
    assert session.read("hello").strip() == "tok"
    again = session.hook("SessionStart", {"source": "compact"})
    assert "the baton of demo" in again["hookSpecificOutput"]["additionalContext"], "also after a compaction"


@pytest.mark.parametrize(
    "path", ["src/a.py", "src/deep/er/b.py", "one.txt", "docs/x.md", ".handoff/features/f/STATE.md"]
)
def test_an_edit_inside_the_ownership_is_let_through(session, path):
    assert session.edit(path) == ""
    assert session.edit(os.path.join(session.repo.path, path)) == ""


def test_a_refused_edit_is_an_incident_of_its_session(session, cli):
    session.edit("other/x.py")
    (found,) = cli("incident", "list", "--json").json["incidents"]
    assert (found["kind"], found["session"], found["evidence"]["layer"]) == ("refused", session.name, "agent hook")
    assert "other/x.py" in found["evidence"]["command"]


def test_a_refused_edit_says_whose_the_path_is_and_how_to_ask(session):
    reason = session.edit("other/x.py")
    assert "'other/x.py' is not yours" in reason
    assert "belongs to task 'other'" in reason
    assert "request_path" in reason
    assert "block" in reason
    assert "No task owns it" in session.edit("README.md")


@pytest.mark.parametrize(
    "path", ["src/../README.md", "docs/sub/x.md", "src", "/etc/passwd", "~/x", "../x", "src/link/x"]
)
def test_no_way_around_leads_out_of_the_ownership(session, path, folder):
    os.makedirs(os.path.join(session.repo.path, "src"))
    os.symlink(folder, os.path.join(session.repo.path, "src", "link"))
    assert session.edit(path), path


def test_a_stop_is_refused_until_the_task_is_reported_and_only_so_often(session):
    first = session.hook("Stop", {"stop_hook_active": False})
    assert first["decision"] == "block"
    assert "handoff task done" in first["reason"]
    for _ in range(2):
        assert session.hook("Stop", {"stop_hook_active": True})["decision"] == "block"
    assert session.hook("Stop", {"stop_hook_active": True}) == {}


def test_a_reported_task_may_stop_at_once(session):
    session.cli("task", "block", "no key")
    assert session.hook("Stop") == {}


def test_a_snapshot_is_taken_before_a_stop_and_before_a_compaction(session):
    session.repo.write("src/new.txt", "unsaved")
    session.hook("Stop")
    session.hook("PreCompact")
    assert session.name in session.cli("snapshot", "list", "--json").out
    assert "no snapshot" not in session.read("calls")


def test_scratch_files_are_let_through_but_not_a_checkout_that_lies_among_them(session):
    scratch = session.cli.environment["TMPDIR"]
    assert session.edit(os.path.join(scratch, "notes.txt")) == ""
    os.makedirs(os.path.join(scratch, "clone", ".git"))
    assert session.edit(os.path.join(scratch, "clone", "a.py"))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_is_refused_a_foreign_edit(session, dialect):
    name = next(name for name, meaning in DIALECTS[dialect].events.items() if meaning == "edit")
    tool = DIALECTS[dialect].edit_tools[0]
    raw = {"tool_name": tool, "toolName": tool, "tool": tool, "cwd": session.repo.path}
    given = (
        {"command": "*** Begin Patch\n*** Add File: other/x\n+a\n*** End Patch"}
        if tool == "apply_patch"
        else {"path": "other/x"}
    )
    answer = session.cli("hook", dialect, name, stdin=json.dumps({**raw, "tool_input": given}), code=None)
    assert "not yours" in answer.out + answer.err
    assert answer.code == (2 if dialect in ("opencode", "acp") else 0)


@pytest.mark.parametrize(
    ("words", "stdin"),
    [(("claude", "PreToolUse"), "{not json"), (("klaude", "PreToolUse"), "{}"), (("claude",), "{}")],
    ids=["garbage", "unknown-dialect", "no-event"],
)
def test_a_fault_of_the_guard_itself_is_a_no(session, words, stdin):
    answer = session.cli("hook", *words, stdin=stdin, code=2)
    assert "handoff" in answer.err


def test_a_broken_grant_is_a_no(session):
    session._put("permissions", "x\ny\nz\nw\n")
    session.cli("hook", "claude", "PreToolUse", stdin="{}", code=2)


def test_a_stop_is_never_refused_for_ever_by_a_fault(session):
    session._put("permissions", "x\ny\nz\nw\n")
    session.cli("hook", "claude", "Stop", stdin='{"stop_hook_active": true}', code=0)
    session.cli("hook", "claude", "Stop", stdin="{", code=0)


@pytest.mark.parametrize("event", ["PreToolUse", "Stop", "SessionEnd", "PreCompact"])
def test_outside_our_sessions_nothing_is_said_and_nothing_fails(cli, event):
    for text in ("{}", "{not json", ""):
        answer = cli("hook", "claude", event, stdin=text)
        assert (answer.out, answer.err) == ("", "")


def test_a_persons_own_session_starts_with_the_active_features_prompt(cli, repo):
    assert cli("hook", "claude", "SessionStart", stdin="{}").out == "", "no feature, nothing said"
    cli("init", "login")
    assert cli("hook", "claude", "SessionStart", stdin="{}").out == "", "no plan yet, nothing said"
    repo.write(
        ".handoff/features/login/STATE.md",
        "# State\n\n# Current Step\n\nStep 1: build it\n\n# Execution Plan\n\n- [>] Step 1: build it\n- [ ] Step 2: ship it\n",
    )
    said = json.loads(cli("hook", "claude", "SessionStart", stdin=json.dumps({"cwd": repo.path}), cwd="/").out)
    assert "Step 1: build it" in said["hookSpecificOutput"]["additionalContext"]


def test_a_persons_own_session_starts_with_the_task_claimed_in_its_folder(cli):
    cli("dump", "--task", "mine", "--next", "paint the broker")
    cli("task", "claim", "mine")
    said = json.loads(cli("hook", "claude", "SessionStart", stdin="{}").out)
    assert "paint the broker" in said["hookSpecificOutput"]["additionalContext"]


def _talk(repo, name, *said):
    """A conversation in Claude's own store: who said what, and how many seconds from now."""
    folder, now = os.path.realpath(repo.path), time.time()
    path = os.path.join(os.environ["HOME"], ".claude", "projects", slug(folder), f"{name}.jsonl")
    stores = [
        {"type": who, "cwd": folder, "timestamp": stamp(now + later), "message": {"content": [{"type": "text", "text": text}]}}
        for who, text, later in said
    ]  # fmt: skip
    write_rows(path, stores)


def _start(cli, client, **raw):
    said = cli("hook", client, "SessionStart", stdin=json.dumps(raw)).out
    return json.loads(said)["hookSpecificOutput"]["additionalContext"]


def test_what_a_person_said_in_one_conversation_is_known_in_the_next_of_the_same_client_and_where_they_see_it(
    cli, repo
):
    ready(cli, repo)
    os.makedirs(os.environ["HANDOFF_HOME"])  # a hook makes none
    cli("note", "--rule", "Never store a password.")
    told = _start(cli, "claude", session_id="one", source="startup")
    assert "Never store a password." in told
    _talk(
        repo,
        "one",
        ("user", "Write the form. Never touch the API.", 0),
        ("assistant", "I used a table because it is short.", 0),
        ("assistant", "Next: write the label.", 0),
    )
    again = _start(cli, "claude", session_id="one", source="compact")
    assert again.index("Never store a password.") < again.index("## Goal"), (
        "after it shortened the conversation: the rules first"
    )
    assert "write the label" not in again, "it is not told its own words as another's"
    following = _start(cli, "claude", session_id="two", source="startup")
    assert re.search('The person said, [^:]*:..:..Z: "Never touch the API."', following[: following.index("## Goal")])
    assert "decided: I used a table because it is short." in following
    assert re.search("The last conversation meant to go on so, [^:]*:..:..Z: Next: write the label.", following)
    _start(cli, "claude", session_id="one", source="resume")
    assert "Never touch the API." not in _start(cli, "codex", session_id="three"), (
        "nothing goes to another vendor unseen"
    )
    assert "Never touch the API." in cli("continue", "--raw", "--no-record").out


def test_a_conversation_about_another_feature_is_not_told_with_this_one(cli, repo):
    ready(cli, repo)
    cli("continue", "--raw")
    begun = f"{BATON_MARK}\nThe documents are in `.handoff/features/other/`.\n{BATON_END}"
    _talk(repo, "one", ("user", begun, 0), ("user", "Never touch the API.", 0))
    assert "Never touch the API." not in cli("continue", "--raw").out
    _talk(repo, "one", ("user", begun.replace("other", "login"), 0), ("user", "Never touch the API.", 0))
    assert "Never touch the API." in cli("continue", "--raw").out


def test_what_was_said_in_a_tab_while_it_had_a_task_is_told_to_whoever_takes_the_task_next(cli, repo):
    cli("dump", "--task", "mine", "--next", "paint the broker")
    cli("task", "claim", "mine")
    _talk(
        repo,
        "one",
        ("user", "Never tell anybody of the holidays.", -3600),
        ("user", "Claim the task. Never touch the API.", -60),
        ("assistant", "Dead end: the old brush does not work.", 0),
        ("assistant", "Next: mix the colour.", 0),
        ("user", "Now something else, and always be quick.", 3600),
    )
    cli("task", "release", "mine", "--reason", "I must stop")
    shown = cli("task", "claim", "mine", "--show").out
    assert '"Never touch the API."' in shown[: shown.index("## Goal")]
    assert "the person asked: Claim the task. Never touch the API." in shown
    assert "did not work: Dead end: the old brush does not work." in shown
    assert "meant to do next: mix the colour." in shown
    assert "holidays" not in shown
    assert "be quick" not in shown


# --- in the clients' settings ------------------------------------------------------------------------------

FOREIGN = """{
    "permissions": {"allow": ["Bash(ls:*)"]},
    "hooks": {
        "Stop": [ {"hooks": [ {"type": "command", "command": "echo  mine" } ] } ],
        "Notification": []
    },
    "model":   "opus"
}
"""


@pytest.mark.parametrize("agent", PLACES)
@pytest.mark.parametrize("scope", ["--user", "--project"])
def test_installing_is_idempotent_and_uninstalling_leaves_no_trace(cli, repo, agent, scope):
    before = sorted(os.listdir(repo.path))
    first = cli("setup", "hooks", "install", "--agent", agent, scope, "--json").json
    text = _read(first["path"])
    value = json.loads(text)
    assert all(TAG in json.dumps(entries) for entries in value["hooks"].values())
    second = cli("setup", "hooks", "install", "--agent", agent, scope, "--json").json
    assert (first["changed"], second["changed"]) == (True, False)
    assert _read(first["path"]) == text
    row = cli("setup", "hooks", "status", "--agent", agent, scope, "--json").json[0]
    assert row["complete"]
    assert cli("setup", "hooks", "uninstall", "--agent", agent, scope, "--json").json["changed"]
    assert not os.path.exists(first["path"])
    assert sorted(os.listdir(repo.path)) == before
    assert not cli("setup", "hooks", "uninstall", "--agent", agent, scope, "--json").json["changed"]


@pytest.mark.parametrize(
    "text", [FOREIGN, "{}", "{}\n", '{"hooks": {}}\n', '{ "a": 1 }', '\t{\n\t"hooks": {"SessionStart": [ ]}}']
)
def test_what_others_wrote_comes_back_byte_for_byte(cli, repo, text):
    path = repo.write(".claude/settings.json", text)
    cli("setup", "hooks", "install", "--agent", "claude", "--project")
    value, original = json.loads(_read(path)), json.loads(text)
    assert {key: value[key] for key in original if key != "hooks"} == {
        key: original[key] for key in original if key != "hooks"
    }
    if "echo  mine" in text:
        assert value["hooks"]["Stop"][0] == original["hooks"]["Stop"][0], "theirs first, ours after it"
        assert '"model":   "opus"' in _read(path)
    cli("setup", "hooks", "uninstall", "--agent", "claude", "--project")
    assert _read(path) == text


def test_a_command_that_a_client_added_to_our_group_stays(cli, repo):
    cli("setup", "hooks", "install", "--agent", "claude", "--project")
    path = os.path.join(repo.path, ".claude", "settings.json")
    value, theirs = json.loads(_read(path)), {"type": "command", "command": "echo theirs"}
    value["hooks"]["Stop"][0]["hooks"].append(theirs)
    value["hooks"]["PreToolUse"][0]["hooks"].insert(0, theirs)
    repo.write(".claude/settings.json", json.dumps(value, indent=2))
    cli("setup", "hooks", "install", "--agent", "claude", "--project")
    assert cli("setup", "hooks", "status", "--agent", "claude", "--project", "--json").json[0]["complete"]
    assert _read(path).count("echo theirs") == 2
    cli("setup", "hooks", "uninstall", "--agent", "claude", "--project")
    assert json.loads(_read(path)) == {"hooks": {name: [{"hooks": [theirs]}] for name in ("PreToolUse", "Stop")}}


def test_one_settings_file_that_cannot_be_read_does_not_hide_the_others(cli, repo):
    repo.write(".gemini/settings.json", "{ a: 1 // a comment\n}")
    answer = cli("setup", "hooks", "status", "--project", "--json", code=1)
    problems = {row["agent"]: row["problem"] for row in answer.json}
    assert ".gemini/settings.json is not valid JSON" in problems.pop("gemini")
    assert set(problems.values()) == {""}


@pytest.mark.parametrize("text", ["{", "[]", '{"hooks": []}', '{"hooks": {"Stop": {}}}', "// a comment\n{}"])
def test_a_broken_settings_file_is_an_error_that_names_it_and_changes_nothing(cli, repo, text):
    path = repo.write(".claude/settings.json", text)
    answer = cli("setup", "hooks", "install", "--agent", "claude", "--project", code=1)
    assert path in answer.err
    assert "nothing was changed" in answer.err
    assert _read(path) == text


def test_an_entry_of_an_older_version_is_replaced_not_doubled(cli, repo):
    path = repo.write(
        ".claude/settings.json",
        json.dumps({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": f"old {TAG}"}]}]}}),
    )
    assert "out of date" in cli("setup", "hooks", "status", "--agent", "claude", "--project").out
    cli("setup", "hooks", "install", "--agent", "claude", "--project")
    assert _read(path).count(TAG) == 6


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


PROBE = """
import sys
before = set(sys.modules)
from handoff.surfaces.cli.main import main
code = main(sys.argv[1:])
sys.stderr.write("\\n".join(set(sys.modules) - before))
sys.exit(code)
"""


def test_an_edit_waits_for_no_heavy_module(session):
    import subprocess
    import sys

    raw = json.dumps({"tool_name": "Write", "tool_input": {"file_path": "src/a.py"}, "cwd": session.repo.path})
    nobody = {"HANDOFF_HOME": os.path.join(session.folder, "empty")}
    environments = ((nobody, {"handoff.engine.app", "sqlite3"}), (session.cli.environment, {"sqlite3"}), ({}, set()))
    for environment, more in environments:
        done = subprocess.run(
            [sys.executable, "-c", PROBE, "hook", "claude", "PreToolUse"], input=raw, text=True, capture_output=True,
            env={**os.environ, **environment}, cwd=session.repo.path, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        heavy = {
            "json",
            "argparse",
            "subprocess",
            "signal",
            "pathlib",
            "psutil",
            "tomllib",
            "handoff.surfaces.cli.dispatch",
        }
        assert not set(done.stderr.split()) & (heavy | more)
