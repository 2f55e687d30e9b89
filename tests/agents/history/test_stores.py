"""Every client's own store: found by the folder, read without a change, and nothing believed that the person did not say."""

from __future__ import annotations

import fcntl
import json
import os
import random
import sqlite3
import subprocess
import sys
from contextlib import suppress

import pytest

import client_stores as stores
from client_stores import FIRST, ID, LAST, SECOND, STORES, WITH_RESULTS
from handoff.agents.history.facts import facts
from handoff.agents.history.sessions import looked_at, stored_sessions
from handoff.agents.history.stores.rows import person_words
from handoff.agents.history.stores.table import read_entries
from handoff.base.errors import HandoffError, Refused, UserError
from handoff.base.markdown import BATON_END, BATON_MARK


class Place:
    """A home and a project in it."""

    def __init__(self, root):
        self.home, self.folder = str(root / "home"), str(root / "pro ject")
        os.makedirs(self.home)
        os.makedirs(self.folder)
        self.environment = {"HOME": self.home}

    def sessions(self, **more):
        return looked_at(stored_sessions(self.folder, {**self.environment, **more}), now=1_794_977_000)

    def facts(self, number=0):
        return facts(read_entries(self.sessions()[number]))

    def claude(self, *rows, end=""):
        """A Claude session of these rows."""
        return stores.write_rows(
            f"{self.home}/.claude/projects/{stores.slug(self.folder)}/{ID}.jsonl", list(rows), end=end
        )


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path.resolve())


def user(content, **more):
    return {"type": "user", "message": {"content": content}, "timestamp": stores.AT.format(1), **more}


def said(known):
    return [one.text for one in known.instructions]


@pytest.mark.parametrize("client", STORES)
def test_a_session_of_every_client_is_found_by_its_folder_and_gives_the_persons_words(place, client):
    path = STORES[client](place.home, place.folder)
    before = os.stat(path)
    (session, *older) = place.sessions()
    assert (session.client, session.state, session.words) == (client, "ended", FIRST)
    assert len(older) == (client == "aider")
    known = facts(read_entries(session))
    assert said(known) == [FIRST, SECOND]
    assert [one.text for one in known.rules] == ["Never touch README.md.", "Keep the old function name."]
    assert (known.last_words.text, known.next_action.text) == (LAST, "Next: wire checkout.py.")
    assert [one.text for one in known.decisions] == ["I count in cents because floats lose money."]
    assert "Caching by name does not work." in [one.text for one in known.dead_ends]
    assert [os.path.basename(file.path) for file in known.files][:1] == ["cart.py"]
    assert known.unread == ()
    assert "hunter2" not in repr(known)
    after = os.stat(path)
    assert (after.st_mtime_ns, after.st_size) == (before.st_mtime_ns, before.st_size)


@pytest.mark.parametrize("client", WITH_RESULTS)
def test_files_commands_and_results_are_told_as_they_were(place, client):
    STORES[client](place.home, place.folder)
    known = place.facts()
    assert [(os.path.basename(file.path), file.how) for file in known.files] == [
        ("cart.py", "changed"),
        ("prices.py", "added"),
    ]
    assert [(run.command, run.exit) for run in known.runs] == [
        ("python3 -c 1", 0),
        ("API_TOKEN=[redacted] python3 -m unittest", 1),
    ]
    assert [run.failing for run in known.red] == [("test_sum (test_cart.T.test_sum)",)]
    assert known.red[0].tail.endswith("AssertionError: 4 != 3\nFAILED (failures=1)"), "nothing of the client's own"
    assert any("cart.py failed" in one.text for one in known.dead_ends)
    assert known.tokens == {"claude": 105, "gemini": 70}.get(client, 70 if client != "opencode" else 60)
    assert known.cost == (0.75 if client in ("claude", "copilot", "opencode") else 0.0)
    assert known.branch == ("" if client in ("gemini", "opencode") else "main")
    assert [(step.text, step.state) for step in known.todo] == (
        [("write cart", "done"), ("wire checkout", "open")] if client in ("copilot", "opencode") else []
    )


def test_a_file_that_opencode_saw_go_is_told_as_deleted(place):
    path = stores.opencode(place.home, place.folder)
    diffs = [{"file": "cart.py", "status": "deleted"}, {"file": "prices.py", "status": "modified"}, "another form", 7]
    with sqlite3.connect(path) as base:
        base.execute(
            "UPDATE message SET data = json_set(data, '$.summary', json(?)) WHERE id = 'm00'",
            (json.dumps({"diffs": diffs}),),
        )
        base.execute("UPDATE message SET data = json_set(data, '$.summary', json('true')) WHERE id = 'm01'")
    base.close()
    found = {os.path.basename(file.path): file.how for file in place.facts().files}
    assert found == {"prices.py": "added", "cart.py": "deleted"}


@pytest.mark.parametrize("client", STORES)
def test_another_folder_sees_nothing_of_it(place, client, tmp_path):
    STORES[client](place.home, place.folder)
    assert stored_sessions(str(tmp_path), place.environment) == []


@pytest.mark.parametrize(
    ("variable", "moved", "client"),
    [("CLAUDE_CONFIG_DIR", ".claude", "claude"), ("CODEX_HOME", ".codex", "codex"), ("GEMINI_CLI_HOME", "", "gemini"),
     ("COPILOT_HOME", ".copilot", "copilot"), ("XDG_DATA_HOME", ".local/share", "opencode"), ("QWEN_HOME", ".qwen", "qwen"),
     ("CURSOR_CONFIG_DIR", ".cursor", "cursor")],
)  # fmt: skip
def test_a_store_that_was_moved_is_found_where_its_variable_says(place, tmp_path, variable, moved, client):
    STORES[client](str(tmp_path / "away"), place.folder)
    assert place.sessions() == []
    assert [one.client for one in place.sessions(**{variable: str(tmp_path / "away" / moved)})] == [client]


def test_the_newest_over_all_clients_comes_first(place):
    for number, client in enumerate(WITH_RESULTS):
        path = STORES[client](place.home, place.folder)
        if client != "opencode":
            os.utime(path, (number, 1_700_000_000 + number))
    assert [one.client for one in place.sessions()] == ["opencode", "qwen", "copilot", "gemini", "codex", "claude"]


def test_a_folder_reached_by_a_link_is_its_target(place, tmp_path):
    stores.claude(place.home, place.folder)
    os.symlink(place.folder, tmp_path / "link")
    assert len(stored_sessions(str(tmp_path / "link"), place.environment)) == 1


# --- whose words they are ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [f"{BATON_MARK}\n# Go on\nNever do this.\n{BATON_END}\n", f"{BATON_MARK}\n# Go on, cut off", "<system-reminder>Be kind.</system-reminder>",
     "<session_context>x</session_context>", "<environment_context>\n<cwd>x</cwd>\n</environment_context>", "# AGENTS.md instructions for /x\n<INSTRUCTIONS>Never</INSTRUCTIONS>",
     "<command-name>/compact</command-name><command-message>compact</command-message><command-args></command-args>", "<local-command-stdout>ok</local-command-stdout>",
     "This session is being continued from a previous conversation.", "<hook_context>from a hook"],
)  # fmt: skip
def test_what_others_put_into_the_persons_mouth_is_not_theirs(text):
    assert person_words(text) == ""


@pytest.mark.parametrize(
    ("text", "left"),
    [(f"{BATON_MARK}\nbaton\n{BATON_END}\nnow go", "now go"), ("<hook_context>x</hook_context>do it", "do it"), ("a < b and <b>bold</b>", "a < b and <b>bold</b>"),
     ("<command-name>/fix</command-name>\n<command-args>the cart</command-args>", "/fix the cart")],
)  # fmt: skip
def test_the_persons_own_words_beside_them_stay(text, left):
    assert person_words(text) == left


def test_claudes_notices_summaries_and_sub_agents_are_not_the_persons_and_what_was_said_while_it_worked_is(place):
    place.claude(
        user(FIRST, cwd=place.folder, origin={"kind": "human"}),
        user("a task has ended", origin={"kind": "task-notification"}),
        user("Caveat: not for you", isMeta=True),
        user("asked of a sub-agent", isSidechain=True),
        user("Summary of before", isCompactSummary=True),
        {"type": "attachment", "timestamp": stores.AT.format(2), "attachment": {"type": "queued_command", "commandMode": "prompt", "prompt": "in cents, please"}},
        {"type": "attachment", "attachment": {"type": "queued_command", "commandMode": "task-notification", "prompt": "no"}},
    )  # fmt: skip
    known = place.facts()
    assert [(one.text, one.how) for one in known.instructions] == [(FIRST, ""), ("in cents, please", "steer")]
    assert (known.compactions, known.summary) == (1, "Summary of before")


def test_a_refused_call_is_a_dead_end_and_its_reason_the_persons_words(place):
    refused = "The user doesn't want to proceed with this tool use. To tell you how to proceed, the user said:\nuse make clean"
    place.claude(
        user(FIRST, cwd=place.folder),
        {
            "type": "assistant",
            "message": {
                "content": [{"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "rm -rf build"}}]
            },
        },
        user([{"type": "tool_result", "tool_use_id": "t", "content": refused, "is_error": True}]),
    )
    known = place.facts()
    assert [one.text for one in known.dead_ends] == ["The person did not allow: rm -rf build"]
    assert said(known) == [FIRST, "use make clean"]
    assert known.runs == ()


def test_the_interrupted_session_and_the_call_without_an_end_are_open(place):
    call = {
        "type": "assistant",
        "message": {"content": [{"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "sleep 60"}}]},
    }
    place.claude(user(FIRST, cwd=place.folder), call)
    assert place.sessions()[0].state == "open"
    assert place.facts().open_calls == ("sleep 60",)
    place.claude(user(FIRST, cwd=place.folder), user("[Request interrupted by user]"))
    assert place.sessions()[0].state == "open"
    assert said(place.facts()) == [FIRST]
    assert place.facts().ended == "The person interrupted it."


# --- which file is the session ----------------------------------------------------------------------


def test_folders_that_share_a_name_in_the_store_are_told_apart_by_their_rows(place, tmp_path):
    twin = place.folder.replace(" ", "-")
    os.makedirs(twin)
    stores.claude(place.home, twin)
    assert place.sessions() == []
    assert len(stored_sessions(twin, place.environment)) == 1


def test_a_name_of_more_than_200_characters_is_found_behind_its_hash(place, tmp_path):
    deep = str(tmp_path.resolve() / ("d" * 120) / ("e" * 120))
    os.makedirs(deep)
    stores.write_rows(
        f"{place.home}/.claude/projects/{stores.slug(deep)[:200]}-a1b2c3/{ID}.jsonl", stores.claude_rows(deep)
    )
    assert len(stored_sessions(deep, place.environment)) == 1


def test_a_stub_with_the_same_id_and_a_newer_name_is_not_the_session(place):
    path = stores.gemini(place.home, place.folder)
    stub = os.path.join(os.path.dirname(path), f"session-2026-11-18T05-00-{ID[:8]}.jsonl")
    stores.write_rows(stub, stores.gemini_rows(place.folder)[:2])
    (session,) = place.sessions()
    assert session.path == path


def test_a_message_that_was_rewound_is_a_dead_end_and_a_compression_no_instruction(place):
    path = stores.gemini(place.home, place.folder)
    thanks = {"id": "x3", "type": "gemini", "content": "Got it. Thanks for the additional context!"}
    more = [
        {"$rewindTo": "g6"},
        {
            "$set": {
                "messages": [
                    {"id": "x1", "type": "user", "content": "ctx"},
                    {"id": "x2", "type": "user", "content": "sum"},
                    thanks,
                ]
            }
        },
    ]
    with open(path, "a", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in more)
    known = place.facts()
    assert said(known) == [FIRST]
    assert f"The person took this turn back: {SECOND}" in [one.text for one in known.dead_ends]
    assert (known.compactions, known.summary) == (1, "sum")


def test_a_codex_fork_is_read_with_what_it_came_from_and_a_reverted_turn_is_a_dead_end(place):
    rows = stores.codex_rows(place.folder)
    path = stores.codex(place.home, place.folder, rows=rows)
    with open(path, "rb") as file:
        end = len(b"".join(file.readlines()[:14]))
    meta = {**rows[0]["payload"], "history_base": {"thread_id": ID, "end_byte_offset": end}}
    again = {
        "type": "event_msg",
        "payload": {
            "type": "item_completed",
            "item": {"type": "UserMessage", "content": [{"type": "text", "text": "another way"}]},
        },
    }
    stores.codex(
        place.home, place.folder, id=f"{ID}_2", rows=[{**rows[0], "payload": meta}, again], time="2026-11-18T05-00-00"
    )
    (session,) = place.sessions()
    assert session.path.endswith("_2.jsonl")
    known = place.facts()
    assert said(known) == [FIRST, "another way"]
    assert f"The person took this turn back: {SECOND}" in [one.text for one in known.dead_ends]
    assert len(known.runs) == 2


def test_sub_agents_of_codex_are_no_sessions_and_an_import_comes_behind_its_origin(place):
    rows = stores.codex_rows(place.folder)
    sub = {**rows[0], "payload": {**rows[0]["payload"], "parent_thread_id": "p"}}
    stores.codex(place.home, place.folder, id="sub", rows=[sub, *rows[1:]])
    note = {
        "type": "event_msg",
        "payload": {
            "type": "item_completed",
            "item": {"type": "AgentMessage", "content": [{"type": "Text", "text": "<EXTERNAL SESSION IMPORTED>"}]},
        },
    }
    stores.codex(place.home, place.folder, id="copy", rows=[*rows, note])
    os.utime(stores.claude(place.home, place.folder), (1, 1))
    assert [(one.client, one.id, one.state) for one in place.sessions()] == [
        ("claude", ID, "ended"),
        ("codex", "copy", "copy"),
    ]


def test_older_codex_events_are_read_where_there_are_no_items(place):
    rows = stores.codex_rows(place.folder)[:1]
    for kind, message in (("user_message", FIRST), ("agent_message", LAST)):
        rows.append(
            {"timestamp": stores.AT.format(1), "type": "event_msg", "payload": {"type": kind, "message": message}}
        )
    end = {"type": "exec_command_end", "command": ["bash", "-lc", "make"], "exit_code": 2, "aggregated_output": ""}
    stores.codex(place.home, place.folder, rows=[*rows, {"type": "event_msg", "payload": end}])
    known = place.facts()
    assert (said(known), known.last_words.text, known.red[0].command) == ([FIRST], LAST, "make")


def test_success_is_not_green_and_no_code_is_not_red(place):
    path = stores.copilot(place.home, place.folder)
    rows = stores.copilot_rows(place.folder)
    start = {
        "type": "tool.execution_start",
        "data": {"toolCallId": "r", "toolName": "bash", "arguments": {"command": "make serve"}},
    }
    runs = {
        "type": "tool.execution_complete",
        "data": {"toolCallId": "r", "success": True, "result": {"content": "started"}},
    }
    stores.write_rows(path, [*rows[:-1], start, runs])
    known = place.facts()
    assert (known.runs[-1].command, known.runs[-1].ok) == ("make serve", None)
    assert "make serve" not in [run.command for run in known.red]
    assert place.sessions()[0].state == "open"


# --- alive ------------------------------------------------------------------------------------------


def test_a_session_is_alive_by_the_sign_that_its_client_leaves(place):
    stores.claude(place.home, place.folder)
    note = f"{place.home}/.claude/sessions/{os.getpid()}.json"
    os.makedirs(os.path.dirname(note))
    with open(f"/proc/{os.getpid()}/stat", encoding="utf-8") as file:
        start = file.read().rpartition(")")[2].split()[19]
    for began, state in ((start, "alive"), ("1", "ended")):
        with open(note, "w", encoding="utf-8") as file:
            json.dump({"sessionId": ID, "pid": os.getpid(), "procStart": began}, file)
        assert place.sessions()[0].state == state


def test_a_codex_lock_that_is_held_and_a_copilot_lock_of_a_process_are_signs_of_life(place):
    stores.codex(place.home, place.folder)
    lock = f"{place.home}/.codex/thread-writer-locks/{ID}.lock"
    os.makedirs(os.path.dirname(lock))
    with open(lock, "w", encoding="utf-8") as file:
        assert place.sessions()[0].state == "ended"
        fcntl.flock(file, fcntl.LOCK_EX)
        assert place.sessions()[0].state == "alive"
    path = stores.copilot(place.home, place.folder)
    inuse = os.path.join(os.path.dirname(path), f"inuse.{os.getpid()}.lock")
    open(inuse, "w", encoding="utf-8").close()
    assert {one.client: one.state for one in place.sessions()} == {"codex": "ended", "copilot": "alive"}


def test_a_process_of_that_name_in_the_folder_is_the_sign_of_clients_that_leave_none(place, tmp_path):
    stores.qwen(place.home, place.folder)
    program = tmp_path / "qwen.py"
    program.write_text("import sys; sys.stdin.read()")
    running = subprocess.Popen([sys.executable, str(program)], cwd=place.folder, stdin=subprocess.PIPE)
    try:
        assert place.sessions()[0].state == "alive"
    finally:
        running.communicate(b"", timeout=60)
    assert place.sessions()[0].state == "ended"


# --- damage -----------------------------------------------------------------------------------------


def test_a_row_of_a_new_kind_and_a_broken_row_are_passed_by_and_counted_and_a_last_line_may_be_half(place):
    rows = stores.claude_rows(place.folder)
    place.claude(*rows[:3], {"type": "novelty"}, user(7), *rows[3:], end='{"type":"user","message":{"cont')
    known = place.facts()
    assert said(known) == [FIRST, SECOND]
    assert dict(known.unread) == {"novelty": 1, "user": 1}


def test_a_store_that_has_changed_its_form_is_an_error_that_names_file_record_and_version(place):
    rows = stores.claude_rows(place.folder)
    for row in rows:
        if row["type"] == "user":
            row["message"] = {"parts": [{"text": "x"}]}
    path = place.claude(*rows)
    with pytest.raises(UserError) as caught:
        place.facts()
    assert path in caught.value.message
    assert "line 2 (user)" in caught.value.message
    assert "2.1.325" in caught.value.message


def test_a_database_without_the_tables_is_an_error_that_names_it(place):
    path = stores.opencode(place.home, place.folder)
    with sqlite3.connect(path) as base:
        base.execute("ALTER TABLE session RENAME TO session_v2")
    base.close()
    (session,) = place.sessions()
    with pytest.raises(Refused, match="no such table: session"):
        list(read_entries(session))


def test_a_link_out_of_the_store_is_refused(place, tmp_path):
    path = stores.claude(place.home, place.folder)
    os.rename(path, tmp_path / "elsewhere.jsonl")
    os.symlink(tmp_path / "elsewhere.jsonl", path)
    (session,) = place.sessions()
    with pytest.raises(Refused, match="is a link to"):
        list(read_entries(session))


def test_reading_a_database_makes_no_file_beside_it(place):
    path = stores.opencode(place.home, place.folder)
    with sqlite3.connect(path) as base:
        base.execute("PRAGMA journal_mode = WAL")
    base.close()
    before = sorted(os.listdir(os.path.dirname(path)))
    assert said(place.facts()) == [FIRST, SECOND]
    assert sorted(os.listdir(os.path.dirname(path))) == before
    with sqlite3.connect(path) as base:  # somebody writes at this moment
        base.execute("UPDATE session SET time_updated = time_updated + 1")
        base.commit()
        assert said(place.facts()) == [FIRST, SECOND]
    base.close()


def _changed(value, chance):
    """The same value with some of its parts of another type."""
    if chance.random() < 0.02:
        return chance.choice([None, 7, "x", [], {}, True, [1], {"type": 3}])
    if isinstance(value, dict):
        return {key: _changed(part, chance) for key, part in value.items()}
    return [_changed(part, chance) for part in value] if isinstance(value, list) else value


ROWS = {
    "claude": stores.claude_rows,
    "codex": stores.codex_rows,
    "gemini": stores.gemini_rows,
    "copilot": stores.copilot_rows,
    "qwen": stores.qwen_rows,
}


@pytest.mark.parametrize("client", ROWS)
def test_whatever_is_damaged_the_answer_is_clear_and_no_fault_of_ours(place, client):
    path = STORES[client](place.home, place.folder)
    good = ROWS[client](place.folder)
    for seed in range(60):
        chance = random.Random(seed)
        rows = [_changed(row, chance) for row in good]
        if seed % 3 == 0:
            chance.shuffle(rows)
        stores.write_rows(path, rows)
        if seed % 4 == 0:
            with open(path, "r+b") as file:
                file.truncate(chance.randrange(os.path.getsize(path)))
        if seed % 5 == 0:
            with open(path, "r+b") as file:
                file.seek(chance.randrange(os.path.getsize(path) + 1))
                file.write(bytes(chance.randrange(256) for _ in range(20)))
        for session in place.sessions():
            with suppress(HandoffError):
                assert len(facts(read_entries(session)).instructions) <= 40


def test_a_damaged_part_of_a_database_is_passed_by(place):
    path = stores.opencode(place.home, place.folder)
    with sqlite3.connect(path) as base:
        base.execute("UPDATE part SET data = '{\"type\": 7}' WHERE id = 'p02'")
        base.execute("UPDATE message SET data = 'broken' WHERE id = 'm03'")
    base.close()
    known = place.facts()
    assert said(known) == [FIRST, SECOND]
    assert known.unread == (("a part", 1),)


def test_a_command_that_a_person_ran_in_aider_is_no_instruction_and_its_result_is_unknown(place):
    with open(f"{place.folder}/.aider.chat.history.md", "w", encoding="utf-8") as file:
        file.write(
            "\n# aider chat started at 2026-11-18 08:00:00\n\n#### Write the cart.  \n\nI wrote it.\n\n"
            "#### /run pytest -q  \n\n> Added 9 lines of output to the chat.  \n"
        )
    known = place.facts()
    assert said(known) == ["Write the cart."]
    assert [(run.command, run.verdict) for run in known.runs] == [("pytest -q", "no result")]
