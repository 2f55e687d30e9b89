"""Our entry in a client's settings is ours by its key: what others write before, after and into it stays."""

from __future__ import annotations

import json
import tomllib

import pytest

from handoff.base.errors import UserError
from handoff.engine.setup import text_edit
from handoff.engine.setup.ledger import BLOCK, HOOKS, TOOLS, WHOLE, Piece
from handoff.engine.setup.ledger import put_piece as put
from handoff.engine.setup.ledger import take_piece as take

VALUE = {"command": "/usr/bin/handoff", "args": ["mcp"], "env": {"HANDOFF_HOME": "/h"}}
OURS = Piece(TOOLS, "config.toml", "user", "tools", json.dumps(VALUE), "mcp_servers")
MOVED = OURS._replace(detail=json.dumps({**VALUE, "command": "/usr/local/bin/handoff"}))
JSON = OURS._replace(path="settings.json", key="mcpServers")
BLOCKED = Piece(BLOCK, "AGENTS.md", "project", "block", "Read the baton.\n\n- one\n", "md")
SKILL = Piece(WHOLE, "SKILL.md", "project", "skill", "---\nname: handoff\n---\n\nWords.\n", "md")

# Every form in which a person or Codex leaves the file; Codex' own are those of `codex mcp add`, /hooks and a trusted folder.
THEIRS = {
    "nothing": "",
    "no line end": 'model = "m"',
    "comments": '# mine\nmodel = "m" # this one\n\n# of the table\n[tui]\ntheme = "x"\n',
    "several lines": 'notify = [\n  "a",\n  # [mcp_servers.handoff]\n  "b",\n]\ntext = """\n[mcp_servers.handoff]\n"""\n',
    "another server": '[mcp_servers.mine]\ncommand = "echo"\n\n[mcp_servers.mine.env]\nA = "b"\n',
    "quoted keys": '["mcp_servers"."a.b"]\ncommand = "x"\n\n[projects."/x/y"]\ntrust_level = "trusted"\n',
    "arrays of tables": '[[hooks.Stop]]\nmatcher = ""\n\n[[hooks.Stop.hooks]]\ncommand = "x"\n',
    "windows": 'model = "m"\r\n\r\n[tui]\r\ntheme = "x"\r\n',
}


@pytest.mark.parametrize("theirs", THEIRS.values(), ids=THEIRS)
def test_what_stood_in_the_file_is_the_same_with_our_table_and_after_it(theirs):
    text = put(OURS, theirs).text
    assert text.startswith(theirs)
    assert tomllib.loads(text)["mcp_servers"]["handoff"] == VALUE
    assert put(OURS, text, OURS).text == text
    assert take(OURS, text).text.rstrip() == theirs.rstrip()


@pytest.mark.parametrize("theirs", THEIRS.values(), ids=THEIRS)
def test_what_a_client_writes_after_our_table_stays_when_ours_is_renewed_and_when_it_goes(theirs):
    trust = (
        '\n[projects."/x/shop"]\ntrust_level = "trusted"\n\n# their comment\n[mcp_servers.later]\ncommand = "echo"\n'
    )
    text = put(OURS, theirs).text + trust
    for renewed in (put(OURS, text, OURS).text, put(MOVED, text, OURS).text):
        assert renewed.endswith(trust)
    gone = take(MOVED, put(MOVED, text, OURS).text).text
    assert trust.lstrip() in gone
    assert tomllib.loads(gone) == tomllib.loads(theirs + "\n" + trust)


# What `codex mcp add mine` leaves of the table that older versions wrote between comments.
REWRITTEN = """model = "m"
# my comment

[mcp_servers.handoff]
command = "/usr/bin/handoff"
args = ["mcp"]

[mcp_servers.handoff.env]
HANDOFF_HOME = "/h"

[mcp_servers.handoff.tools.status]
approval_mode = "approve"

[mcp_servers.mine]
command = "echo"

[mcp_servers.mine.env]
A = "b"
# handoff:end

[projects."/x/shop"]
trust_level = "trusted"
"""


def test_a_table_that_the_client_wrote_anew_is_still_ours():
    text = put(MOVED, REWRITTEN, OURS).text
    value = tomllib.loads(text)
    assert value["mcp_servers"]["handoff"]["command"] == "/usr/local/bin/handoff"
    assert value["mcp_servers"]["handoff"]["tools"] == {"status": {"approval_mode": "approve"}}, (
        "what the client keeps there stays"
    )
    value["mcp_servers"]["handoff"]["command"] = "/usr/bin/handoff"
    assert value == tomllib.loads(REWRITTEN)
    gone = take(MOVED, text)
    assert gone.left == ""
    assert "handoff" not in gone.text
    assert tomllib.loads(gone.text) == {
        "model": "m",
        "mcp_servers": {"mine": {"command": "echo", "env": {"A": "b"}}},
        "projects": {"/x/shop": {"trust_level": "trusted"}},
    }
    assert "# my comment" in gone.text


@pytest.mark.parametrize(
    "text",
    ['mcp_servers.handoff.command = "mine"\n', '[mcp_servers]\nhandoff = { command = "mine" }\n', 'mcp_servers = { handoff = { command = "mine" } }\n'],
)  # fmt: skip
def test_a_server_of_the_persons_own_under_our_name_is_left_however_it_is_written(text):
    found = put(OURS, text)
    assert found.text == text
    assert "in another way" in found.left
    assert take(OURS, text).text == text


def test_a_way_of_writing_that_we_cannot_add_to_is_an_error_and_no_broken_file():
    with pytest.raises(UserError, match="mcp_servers"):
        put(OURS, 'mcp_servers = { mine = { command = "x" } }\n')


def test_in_json_too_what_was_added_to_our_entry_stays_and_what_was_changed_is_the_persons():
    theirs = '{\n  "mcpServers": {\n    "mine": {"command": "x"}\n  }\n}\n'
    value = json.loads(put(JSON, theirs).text)
    value["mcpServers"]["handoff"]["trust"] = True
    text = json.dumps(value)
    assert put(JSON, text, JSON).text == text
    moved = JSON._replace(detail=MOVED.detail)
    entry = json.loads(put(moved, text, JSON).text)["mcpServers"]["handoff"]
    assert entry == {**VALUE, "command": "/usr/local/bin/handoff", "trust": True}
    value["mcpServers"]["handoff"]["command"] = "wrapper"
    changed = put(moved, json.dumps(value), JSON)
    assert json.loads(changed.text) == value
    assert "in another way" in changed.left
    assert "changed since" in take(moved, changed.text).left
    assert json.loads(take(JSON, text).text) == json.loads(theirs)


COMMENTED = {
    "at the top": '// {"of": "mine"}\n{\n  "a": 1\n}\n',
    "behind the last": '{\n  "a": 1 // "not, a } string\n  /* and\n   * more */\n}\n',
    "in an empty object": "{\n  // nothing, yet\n}\n",
    "other servers": '{\n  "mcpServers": {\n    "x": {"url": "http://x"} // mine, "too"\n  }, // of it\n  "b": [1 /* one */, 2]\n}\n',
    "our own are first": '{\n  "mcpServers": {\n    // mine\n    "x": {}\n  }\n}\n',
    "windows": '{\r\n  "a": "//no /* comment", // one\r\n  "b": 2 // two\r\n}\r\n',
}


def _comments(text):
    return "".join(sign for sign, other in zip(text, text_edit.plain(text), strict=True) if sign != other)


@pytest.mark.parametrize("theirs", COMMENTED.values(), ids=COMMENTED)
@pytest.mark.parametrize("kind", [TOOLS, HOOKS])
def test_comments_of_a_client_that_allows_them_stay_with_our_entry_and_after_it(theirs, kind):
    piece = JSON._replace(path="x/.gemini/settings.json", kind=kind, detail="gemini" if kind == HOOKS else JSON.detail)
    text = put(piece, theirs).text
    before, after = (json.loads(text_edit.plain(one)) for one in (theirs, text))
    servers = {**before.get("mcpServers", {}), "handoff": VALUE}
    assert after == {**before, **({"hooks": after.get("hooks")} if kind == HOOKS else {"mcpServers": servers})}
    assert _comments(text) == _comments(theirs)
    assert put(piece, text, piece).text == text
    assert take(piece, text).text == theirs


LAST_COMMAS = {
    "at the end": '{\n  "a": 1,\n}\n',
    "behind a comment": '{\n  "a": 1, // one, two\n  // three\n}\n',
    "in what is nested": '{\n  "a": [1, 2,],\n  "b": {"c": ",}",},\n}\n',
    "other servers": '{\n  "mcp": {\n    "x": {"url": "http://x",}, // mine\n  },\n}\n',
    "one line": '{"a": 1,}\n',
    "windows": '{\r\n  "a": 1,\r\n}\r\n',
}


@pytest.mark.parametrize("theirs", LAST_COMMAS.values(), ids=LAST_COMMAS)
def test_a_comma_that_nothing_follows_stays_where_the_client_allows_one(theirs):
    piece = JSON._replace(path="x/opencode.json", key="mcp")
    text = put(piece, theirs).text
    before, after = (json.loads(text_edit.plain(one)) for one in (theirs, text))
    assert after == {**before, "mcp": {**before.get("mcp", {}), "handoff": VALUE}}
    assert put(piece, text, piece).text == text
    assert json.loads(text_edit.plain(take(piece, text).text)) == before
    if "\n" in theirs.rstrip():
        assert take(piece, text).text == theirs
    with pytest.raises(UserError, match="is not valid JSON"):
        put(piece._replace(path="x/.gemini/settings.json"), theirs)


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ('{"handoff": 1, // ours\n "b": 2 // mine\n}', '{// ours\n "b": 2 // mine\n}'),
        ('{"a": 0, // mine\n "handoff": 1, "b": 2}', '{"a": 0, // mine\n "b": 2}'),
        ('{"a": 0, // mine\n "handoff": 1}', '{"a": 0 // mine\n }'),
        ('{"a": 0 /* mine, */, "handoff": 1}', '{"a": 0 /* mine, */ }'),
        ('{/* mine */ "handoff": 1}', "{/* mine */ }"),
        ('{"handoff": 1 // mine\n}', "{ // mine\n}"),
    ],
)
def test_comments_beside_a_part_that_is_cut_out_stay(text, rest):
    after = text_edit.cut(text, 0, lambda one: one.key == "handoff")
    assert after == rest
    assert json.loads(text_edit.plain(after)) == {
        k: v for k, v in json.loads(text_edit.plain(text)).items() if k != "handoff"
    }


def test_a_comment_where_the_client_does_not_allow_one_is_an_error():
    with pytest.raises(UserError, match="is not valid JSON"):
        put(JSON._replace(path=".claude.json"), "{} // mine\n")


def test_lines_a_person_wrote_between_the_marks_stay():
    text = put(BLOCKED, "Above.\n").text
    newer = BLOCKED._replace(detail="Other words.\n")
    assert "Other words." in put(newer, text).text, "an older version's words are replaced without a record"
    assert put(newer, text.replace("\n\n- one", "\n- one  ")).text != text, "a formatter's work is no person's"
    mine = text.replace("- one", "- one\n- mine")
    for found in (put(newer, mine), take(BLOCKED, mine)):
        assert found.text == mine
        assert "change" in found.left
    assert take(newer, put(newer, text).text).text == "Above.\n"


def test_a_file_of_ours_that_a_person_changed_stays_as_they_left_it():
    text = put(SKILL, "").text
    newer = SKILL._replace(detail="---\nname: handoff\n---\n\nOther words.\n")
    assert "Other words." in put(newer, text).text
    assert take(SKILL, text).text == ""
    mine = text + "My own words.\n"
    for found in (put(newer, mine, SKILL), take(SKILL, mine)):
        assert found.text == mine
        assert found.left
