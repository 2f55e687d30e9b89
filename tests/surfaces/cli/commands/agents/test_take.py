"""`handoff take`: any client's session handed on, from a folder that never saw handoff, with nothing written."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys

import pytest

import client_stores as stores
import handoff
from client_stores import FIRST, ID, LAST, SECOND, STORES, WITH_RESULTS
from handoff.base.markdown import BATON_END, BATON_MARK, without_batons


def _tree(folder):
    """Every file of a folder with its bytes, git's own left out."""
    found = {}
    for at, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name != ".git"]
        for name in names:
            with open(os.path.join(at, name), "rb") as file:
                found[os.path.join(at, name)] = file.read()
    return found


@pytest.fixture
def home():
    return os.environ["HOME"]


@pytest.fixture
def stand_in(tmp_path, cli):
    """A client on the PATH that writes down how it was started."""

    def make(name):
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f'#!/bin/sh\nfor word in "$@"; do printf "%s\\0" "$word"; done > {tmp_path}/{name}.words\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        cli.environment["PATH"] = f"{path.parent}:{os.environ['PATH']}"
        return lambda: (tmp_path / f"{name}.words").read_text().split("\0")[:-1]

    return make


@pytest.mark.parametrize("client", WITH_RESULTS)
def test_the_text_holds_every_fact_of_the_session_and_nothing_is_written(cli, repo, home, client):
    repo.write("cart.py", "x")
    STORES[client](home, os.path.realpath(repo.path))
    before, stored = _tree(repo.path), _tree(home)
    text = cli("take", "--raw").out
    assert text.startswith(BATON_MARK)
    assert text.rstrip().endswith(BATON_END)
    for fact in (FIRST, SECOND, "- Never touch README.md.", "- Keep the old function name.", "changed cart.py", "added prices.py", "python3 -m unittest",
                 "exit 1", "failing: test_sum (test_cart.T.test_sum)", "AssertionError: 4 != 3", "`python3 -c 1` green", "Caching by name does not work.",
                 "floats lose money", "Next: wire checkout.py.", LAST.partition(". ")[0], f"Branch main at {repo.head()[:10]}", "new cart.py"):  # fmt: skip
        assert fact in text, fact
    assert "hunter2" not in text
    assert text.index("- Never touch README.md") < text.index(FIRST)
    assert _tree(repo.path) == before
    assert _tree(home) == stored


def test_the_commit_that_was_there_when_the_session_began_is_told_though_the_client_kept_none(cli, repo, home):
    before = repo.git("commit-tree", "HEAD^{tree}", "-m", "before", GIT_COMMITTER_DATE="2001-01-01T00:00:00Z").strip()
    repo.git("reset", "-q", "--hard", before)
    rows = [{"type": "user", "cwd": os.path.realpath(repo.path), "timestamp": "2026-11-17T08:00:00Z", "message": {"content": "Write the cart."}}]  # fmt: skip
    stores.write_rows(f"{home}/.claude/projects/{stores.slug(os.path.realpath(repo.path))}/{ID}.jsonl", rows)
    repo.write("cart.py", "x")
    repo.git("add", "-A")
    repo.git("commit", "-q", "-m", "in the session", GIT_COMMITTER_DATE="2026-11-17T08:00:00Z")
    assert f"The session began at {before[:10]}; 1 commit since" in cli("take", "--raw").out


def test_the_newest_session_is_meant_or_a_client_or_the_beginning_of_an_id(cli, repo, home):
    folder = os.path.realpath(repo.path)
    os.utime(stores.claude(home, folder), (1, 1_700_000_000))
    stores.codex(home, folder, id="01a1ecf5-31ad")
    assert cli("take", "--json").json["client"] == "codex"
    assert cli("take", "claude", "--json").json["session"] == ID
    assert cli("take", "b21d", "--json").json["client"] == "claude"
    assert cli("take", "01a1", "--json").json["session"] == "01a1ecf5-31ad"
    listed = cli("session", "list", "--clients").out.splitlines()
    assert [line.split()[0] for line in listed] == ["codex", "claude"]
    assert "ended" in listed[0]
    assert FIRST[:40] in listed[0]
    rows = cli("session", "list", "--clients", "--json").json
    assert [(row["client"], row["state"], row["words"]) for row in rows] == [
        ("codex", "ended", FIRST),
        ("claude", "ended", FIRST),
    ]


def test_what_is_not_there_is_an_error_that_says_where_to_look(cli, repo, home):
    assert "No client has a session of this folder" in cli("take", code=1).err
    assert cli("session", "list", "--clients").out == "No client has a session of this folder.\n"
    stores.claude(home, os.path.realpath(repo.path))
    assert "Gemini CLI has no session of this folder" in cli("take", "gemini", code=1).err
    said = cli("take", "do-cart", code=1).err
    assert "session list --clients" in said
    assert "show do-cart" in said
    stores.codex(home, os.path.realpath(repo.path), id="b21d9")
    assert "several sessions" in cli("take", "b21d", code=2).err


def test_a_secret_in_the_first_words_is_shown_by_no_list(cli, repo, home):
    folder = os.path.realpath(repo.path)
    rows = stores.claude_rows(folder)
    key = "AKIA" + "IOSFODNN7EXAMPLE"
    said = {**rows[1], "message": {"content": "x" * 108 + f" {key} is the key"}}
    stores.write_rows(stores.claude(home, folder), [rows[0], said, *rows[2:]])
    assert "AKIA" not in cli("session", "list", "--clients").out + cli("session", "list", "--clients", "--json").out


def test_it_works_without_a_repository_and_from_a_folder_below_the_one_that_worked(cli, repo, home, folder):
    stores.claude(home, os.path.realpath(folder))
    assert "no git repository" in cli("take", "--raw", cwd=folder).out
    stores.qwen(home, os.path.realpath(repo.path))
    repo.write("below/a.txt", "")
    assert cli("take", "--json", cwd=os.path.join(repo.path, "below")).json["client"] == "qwen"


def test_a_small_budget_keeps_rules_next_action_and_what_is_red(cli, repo, home):
    folder = os.path.realpath(repo.path)
    rows = stores.claude_rows(folder)
    many = [{**rows[1], "message": {"content": f"Step {number}: " + "words " * 60}} for number in range(40)]
    stores.write_rows(stores.claude(home, folder), [*rows[:2], *many, *rows[2:]])
    for tokens in (1000, 2000, 4000, 8000):
        text = cli("take", "--raw", "--budget", str(tokens)).out
        assert len(text) <= tokens * 4 + 200
        for fact in (
            FIRST,
            "Never touch README.md.",
            "Keep the old function name.",
            "Next: wire checkout.py.",
            "python3 -m unittest",
        ):
            assert fact in text, (tokens, fact)
    assert "Step 0" in text
    assert "more here, left out" in cli("take", "--raw").out
    assert "takes a number above 0" in cli("take", "--budget", "0", code=2).err


def test_another_vendor_is_asked_for_first_and_gets_the_text_as_its_first_prompt(cli, repo, home, stand_in):
    stores.claude(home, os.path.realpath(repo.path))
    words = stand_in("codex")
    refused = cli("take", "--to", "codex", code=2)
    assert "add --yes" in refused.err
    assert "2 instructions, 2 rules" in refused.err
    said = cli("take", "--to", "codex", "--yes", "--with=-m", "--with=gpt-5.5")
    assert "From Claude Code to Codex" in said.err
    assert words()[:4] == ["exec", "--skip-git-repo-check", "-m", "gpt-5.5"]
    assert words()[4].startswith(BATON_MARK)
    assert FIRST in words()[4]
    assert without_batons(words()[4]).strip() == ""


def test_the_same_client_goes_on_with_its_own_session(cli, repo, home, stand_in):
    stores.claude(home, os.path.realpath(repo.path))
    stand_in("claude")
    assert f"claude --resume {ID}" in cli("take", "--to", "claude").out
    assert "is not installed" in cli("take", "--to", "qwen", "--yes", code=1).err
    assert "Use one of: claude, codex" in cli("take", "--to", "nobody", code=2).err


def test_a_session_that_is_still_written_says_so_and_is_not_resumed(cli, repo, home, stand_in):
    stores.claude(home, os.path.realpath(repo.path))
    os.makedirs(f"{home}/.claude/sessions")
    with open(f"{home}/.claude/sessions/{os.getpid()}.json", "w", encoding="utf-8") as file:
        json.dump({"sessionId": ID, "pid": os.getpid()}, file)
    said = cli("take", "--raw")
    assert "still at work" in said.err
    assert "still at work" in said.out
    stand_in("claude")
    assert "still at work" in cli("take", "--to", "claude", code=4).err


def test_a_session_that_began_with_a_hand_off_does_not_hand_it_on_as_the_persons_words(cli, repo, home):
    folder = os.path.realpath(repo.path)
    stores.claude(home, folder)
    baton = cli("take", "--raw").out
    rows = stores.codex_rows(folder)
    rows[4]["payload"]["item"]["content"][0]["text"] = baton
    os.utime(stores.codex(home, folder, rows=rows))
    taken = cli("take", "codex", "--json").json
    assert [one[0] for one in taken["facts"]["instructions"]] == [SECOND]
    assert [one[0] for one in taken["facts"]["rules"]] == ["Keep the old function name."]


def test_what_the_person_said_before_a_hand_off_reaches_the_third_session_too(cli, repo, home):
    folder = os.path.realpath(repo.path)
    stores.claude(home, folder)
    text = cli("take", "--raw").out
    for number in range(3):
        rows = [row for row in stores.codex_rows(folder) if SECOND not in json.dumps(row)]
        rows[4]["payload"]["item"]["content"][0]["text"] = text
        stores.codex(home, folder, id=f"codex-{number}", rows=rows)
        text = cli("take", f"codex-{number}", "--raw").out
        assert text.count(BATON_MARK) == 1
        assert text.count(FIRST) == text.count(f"2. (2026-11-18 04:42) {SECOND}") == 1
        assert "- Never touch README.md.\n- Keep the old function name.\n" in text


def test_a_store_that_cannot_be_understood_is_an_error_and_not_an_empty_hand_off(cli, repo, home):
    folder = os.path.realpath(repo.path)
    path = stores.claude(home, folder)
    stores.write_rows(path, [{"type": "mode", "cwd": folder, "x": "y" * 100} for _ in range(200)])
    said = cli("take", code=1).err
    assert "holds nothing that a person said" in said
    assert path in said


def test_it_is_kept_as_a_feature_or_as_a_task_where_that_is_asked_for(cli, repo, home):
    stores.opencode(home, os.path.realpath(repo.path))
    assert "continue" in cli("take", "--feature", "cart").out
    assert FIRST in repo.read(".handoff/features/cart/FEATURE.md")
    assert "- [x] write cart" in repo.read(".handoff/features/cart/STATE.md")
    assert "floats lose money." in repo.read(".handoff/features/cart/DECISIONS.md")
    assert LAST.partition(".")[0] in repo.read(".handoff/features/cart/SESSION.md")
    assert "wire checkout" in cli("continue", "--raw").out
    assert "task claim do-cart" in cli("take", "--task", "do-cart").out
    assert FIRST in cli("show", "do-cart", "--json").json["brief"]


@pytest.mark.parametrize("client", STORES)
def test_it_needs_nothing_but_the_standard_library(repo, home, client):
    STORES[client](home, os.path.realpath(repo.path))
    source = os.path.dirname(os.path.dirname(handoff.__file__))
    program = f"import sys; sys.path.insert(0, {source!r}); from handoff.surfaces.cli.main import main; sys.exit(main(['take', '--raw']))"
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], cwd=repo.path, capture_output=True, text=True, timeout=60, check=False
    )
    assert FIRST in done.stdout, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("client", ["claude", "codex", "copilot", "qwen"])
def test_a_long_log_is_read_in_the_memory_of_a_short_one(repo, home, client):
    folder = os.path.realpath(repo.path)
    path = STORES[client](home, folder)
    first, *rest = getattr(stores, f"{client}_rows")(folder)
    lines = [
        json.dumps(row, separators=(",", ":")).replace("FAILED (", "many words " * 500 + "FAILED (") for row in rest
    ]
    with open(path, "w", encoding="utf-8") as file:
        file.write(json.dumps(first, separators=(",", ":")) + "\n")
        while file.tell() < 40_000_000:
            file.write("\n".join(lines) + "\n")
    # A process has the size of the one it was forked from: a small one starts it.
    watch = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    words = [sys.executable, "-m", "handoff.surfaces.cli.main", "take", "--raw"]
    used = subprocess.run(
        [sys.executable, "-c", watch, *words], cwd=repo.path, capture_output=True, text=True, check=True, timeout=300
    )
    assert int(used.stdout) < 50_000
