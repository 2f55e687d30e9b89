"""Whoever used handoff-fanout moves over in one command: everything live goes on here, and nothing there is touched."""

from __future__ import annotations

import json
import os

import pytest

import old_tool
from relay import manifest
from sandbox import Cli, Repo


@pytest.fixture(scope="module")
def peer(tmp_path_factory):
    return old_tool.install(str(tmp_path_factory.mktemp("peer")))


def _use(tool, repo):
    """A live task, a blocked one, a finished one, an open batch with one part done, a finished batch with its figures."""
    tool(
        "dump",
        "--task",
        "live-one",
        "--next",
        "Fix the discount.\n\n## Notes\nMind the tax.",
        "--tests",
        "tests/test_x.py",
    )
    tool("dump", "--task", "stuck-one", "--next", "Ship it.", "--status", "blocked", "--blocked-reason", "no key yet")
    tool("dump", "--task", "ended-one", "--next", "Was done.", "--status", "done")
    for batch, parts in (("split", ("form", "api")), ("older", ("aa", "bb"))):
        path = manifest(os.path.join(repo.path, f"{batch}.json"), batch=batch, parts=parts)
        tool("dump", "--task", "xx", "--next", "yy", "--open-batch", path)
        os.unlink(path)
    tool("dump", "--task", "form-done", "--next", "form is in, 12 tests", "--batch-id", "split", "--batch-done")
    for part in ("aa", "bb"):
        tool("dump", "--task", f"{part}-done", "--next", "in", "--batch-id", "older", "--batch-done")
    tool("heartbeat", "complete", os.path.join(tool.home, "shop", "batches", "older"), "--actual-minutes", "30")
    with open(os.path.join(tool.home, "config.json"), "w", encoding="utf-8") as file:
        json.dump({"uri_template": "cursor://x?p={prompt}", "inject_blocks": ["Be kind."]}, file)


def _goes_on(cli):
    """What was live there is live here."""
    states = {task["task"]: task["state"] for task in cli("task", "list", "--json").json["tasks"]}
    assert states == {
        "live-one": "ready", "stuck-one": "blocked", "split/api": "ready", "split-join": "waiting",
    }  # fmt: skip
    assert cli("show", "split/form", "--json").json["result"] == "form is in, 12 tests"
    shown = cli("show", "live-one", "--json").json
    assert shown["brief"].startswith("Fix the discount.\n\n## Notes\nMind the tax.")
    assert "tests/test_x.py" in shown["brief"]
    assert cli("show", "stuck-one", "--json").json["reason"] == "no key yet"
    assert cli("heartbeat", "calibration").out == "1.500\n"
    cli("retry", "stuck-one")
    cli("task", "claim", "split/api")
    cli("task", "done", "--summary", "api is in")
    assert cli("show", "split-join", "--json").json["state"] == "ready"


def test_everything_live_goes_on_here_and_the_old_home_stays_as_it_was(tmp_path, peer):
    repo = Repo.create(str(tmp_path / "shop"))
    tool = old_tool.OldTool(peer, str(tmp_path / "old"), repo.path)
    _use(tool, repo)
    before = old_tool.contents(tool.home)
    cli = Cli(repo.path)
    shown = cli("import", "fanout", tool.home)
    assert "task shop/live-one: would be taken in (ready)" in shown.out
    assert "batch shop/split: would be taken in (2 parts: 1 done, 0 blocked, 1 to be done)" in shown.out
    assert "Nothing was changed." in shown.out
    assert not os.path.exists(os.path.join(os.environ["HANDOFF_HOME"], "handoff.db"))
    done = cli("import", "fanout", tool.home, "--execute", "--json").json
    assert [item["fate"] for item in done["items"]] == ["new"] * len(done["items"])
    again = cli("import", "fanout", tool.home, "--execute", "--json").json
    assert "new" not in [item["fate"] for item in again["items"]]
    _goes_on(cli)
    with open(os.path.join(os.environ["HANDOFF_HOME"], "config.toml"), encoding="utf-8") as file:
        assert 'uri_template = "cursor://x?p={prompt}"' in file.read()
    assert old_tool.contents(tool.home) == before


def test_in_a_home_both_share_it_is_noticed_and_the_old_files_stay(tmp_path, peer):
    repo = Repo.create(str(tmp_path / "shop"))
    home = os.environ["HANDOFF_HOME"]
    tool = old_tool.OldTool(peer, home, repo.path)
    _use(tool, repo)
    before = old_tool.contents(home)
    cli = Cli(repo.path)
    assert "handoff import fanout" in cli("dump", "--task", "ours", "--next", "Something new.").err
    assert "handoff import fanout" in cli("task", "list").err
    mine = os.path.join(home, "shop", "queue", "ours.md")
    assert os.path.exists(mine)
    cli("import", "fanout", "--execute")
    assert not os.path.exists(mine)  # ours are apart from theirs now
    assert os.path.exists(os.path.join(home, "shop", "relay", "queue", "ours.md"))
    assert "import fanout" not in cli("task", "list").err
    cli("cancel", "ours")
    _goes_on(cli)
    cli("database", "files")
    after = old_tool.contents(home)
    assert {name: after.get(name) for name in before} == before
    cli("heartbeat", "status", os.path.join(home, "shop", "relay", "batches", "split"))
