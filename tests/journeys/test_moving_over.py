"""Whoever used handoff-fanout moves over in one command: everything live goes on here, and nothing there is touched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib

import pytest

import old_tool
from handoff.git import guard
from relay import manifest
from sandbox import Cli, Repo

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.fixture(scope="module")
def peer(tmp_path_factory):
    return old_tool.install(str(tmp_path_factory.mktemp("peer")), old_tool.LAST)


@pytest.fixture(scope="module")
def first_peer(tmp_path_factory):
    return old_tool.install(str(tmp_path_factory.mktemp("first-peer")), old_tool.FIRST)


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


@pytest.mark.slow
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
    after = old_tool.contents(tool.home)
    marks = {name for name in after if name not in before}
    assert marks == {f"shop/batches/split/{mark}" for mark in ("_fanin_triggered", "_aborted")}
    assert {name: after.get(name) for name in before} == before


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


def _half_way(tool, repo, **more):
    """Two tasks, and a batch of three: one part done, one in the hands of a tab, one not begun."""
    tool("dump", "--task", "coupon", "--next", "Take coupons.")
    tool("dump", "--task", "invoice", "--next", "Write invoices.")
    path = manifest(os.path.join(repo.path, "split.json"), batch="split", parts=("form", "api", "docs"), **more)
    tool("dump", "--task", "xx", "--next", "yy", "--open-batch", path)
    os.unlink(path)
    tool("dump", "--task", "form-done", "--next", "form is in", "--batch-id", "split", "--batch-done")
    _touch(tool.home, "shop", "batches", "split", "api.heartbeat")


def _touch(*parts):
    with open(os.path.join(*parts), "a", encoding="utf-8"):
        os.utime(os.path.join(*parts))


def _states(cli):
    return {task["task"]: task["state"] for task in cli("task", "list", "--all", "--json").json["tasks"]}


def _fan_ins(tool):
    """Every fan-in that the older tool has opened."""
    return [name for name in os.listdir(os.path.join(tool.home, "shop", "queue")) if name.startswith("split-join")]


def test_a_part_in_flight_reports_the_old_way_beside_us_and_there_is_one_fan_in(tmp_path, first_peer):
    repo = Repo.create(str(tmp_path / "shop"))
    tool = old_tool.OldTool(first_peer, os.environ["HANDOFF_HOME"], repo.path)
    _half_way(tool, repo, timeout_hours=0.00001)  # so that its watchdog finds the batch late
    cli = Cli(repo.path)
    told = cli("import", "fanout", "--execute").out
    assert "a tab of the older tool was at split/api" in told
    assert "close that tab and say: handoff resume split/api" in told
    assert _states(cli) == {
        "coupon": "ready", "invoice": "ready",
        "split/form": "done", "split/api": "ready", "split/docs": "ready", "split-join": "waiting",
    }  # fmt: skip
    refused = cli("task", "claim", "split/api", code=None)
    assert refused.code
    assert "a tab of handoff-fanout is at it" in refused.err
    cli("task", "claim", "split/docs")
    cli("task", "done", "--summary", "docs are in")

    tool("dump", "--task", "api-done", "--next", "api is in", "--batch-id", "split", "--batch-done")
    tool("watchdog")
    assert _fan_ins(tool) == []
    assert "split/api is done" in cli("watchdog").out
    assert _states(cli)["split-join"] == "ready"
    assert cli("show", "split/api", "--json").json["result"] == "api is in"
    assert "Stopped" not in cli("task", "list").out
    tool("watchdog")
    tool("dump", "--task", "docs-done", "--next", "docs are in", "--batch-id", "split", "--batch-done")
    assert _fan_ins(tool) == []
    assert list(_states(cli).values()).count("ready") == 3  # two tasks, and one fan-in
    assert "import fanout" not in cli("task", "list").err


@pytest.mark.slow
def test_a_marker_touched_in_the_old_batch_counts_also_in_a_home_of_its_own(tmp_path, first_peer):
    repo = Repo.create(str(tmp_path / "shop"))
    tool = old_tool.OldTool(first_peer, str(tmp_path / "old"), repo.path)
    _half_way(tool, repo)
    _touch(tool.home, "shop", "queue", "coupon.heartbeat")
    cli = Cli(repo.path)
    cli("import", "fanout", tool.home, "--execute")
    folder = os.path.join(tool.home, "shop", "batches", "split")
    _touch(folder, "api.done")
    _touch(folder, "docs.done")
    tool("dump", "--task", "coupon", "--next", "Coupons are in.", "--status", "done")
    tool("dump", "--task", "invoice", "--next", "x", "--status", "blocked", "--blocked-reason", "no printer")
    cli("watchdog")
    assert _states(cli) == {
        "coupon": "done", "invoice": "blocked",
        "split/form": "done", "split/api": "done", "split/docs": "done", "split-join": "ready",
    }  # fmt: skip
    assert cli("show", "invoice", "--json").json["reason"] == "no printer"
    cli("retry", "invoice")
    cli("watchdog")
    assert _states(cli)["invoice"] == "ready"  # an old word does not undo a newer one
    tool("heartbeat", "complete", folder)
    cli("watchdog")
    assert _states(cli)["split-join"] == "done"


@pytest.mark.slow
def test_what_the_older_tool_writes_after_the_import_is_named_and_what_was_taken_in_is_not(tmp_path, first_peer):
    repo = Repo.create(str(tmp_path / "shop"))
    tool = old_tool.OldTool(first_peer, os.environ["HANDOFF_HOME"], repo.path)
    _half_way(tool, repo)
    cli = Cli(repo.path)
    cli("import", "fanout", "--execute")
    assert "import fanout" not in cli("task", "list").err
    tool("dump", "--task", "refund", "--next", "Pay back.")
    assert "import fanout" in cli("task", "list").err
    cli("import", "fanout", "--execute")
    assert _states(cli)["refund"] == "ready"
    assert "import fanout" not in cli("task", "list").err


def test_every_command_one_would_try_first_names_the_way_over(tmp_path, first_peer):
    repo = Repo.create(str(tmp_path / "shop"))
    tool = old_tool.OldTool(first_peer, os.environ["HANDOFF_HOME"], repo.path)
    _half_way(tool, repo)
    cli = Cli(repo.path)
    for words in ((), ("status",), ("watchdog",), ("task", "list")):
        assert "handoff import fanout" in cli(*words).err, words
    refused = cli("dump", "--task", "coupon", "--next", "Take coupons.", code=None)
    assert refused.code
    assert "handoff import fanout" in refused.err
    cli("import", "fanout", "--execute")
    for words in ((), ("status",), ("watchdog",), ("task", "list")):
        assert "import fanout" not in cli(*words).err, words


def test_the_rules_of_a_project_are_in_every_baton_of_it_and_in_no_other(tmp_path, first_peer):
    repo, other = Repo.create(str(tmp_path / "shop")), Repo.create(str(tmp_path / "blog"))
    tool = old_tool.OldTool(first_peer, str(tmp_path / "old"), repo.path)
    tool("dump", "--task", "coupon", "--next", "Take coupons.")
    old_tool.OldTool(first_peer, tool.home, other.path)("dump", "--task", "theme", "--next", "Paint it.")
    settings = {
        "inject_blocks": ["Never force a push."],
        "project_inject_blocks": {"shop": ["Never write paid_amount."]},
        "roadmap": {"path": os.path.join(repo.path, "plan.md"), "projects": ["shop"]},
        "baseline_hooks": [{"name": "schema", "command": ["true"], "projects": ["shop"]}],
    }
    _write(os.path.join(tool.home, "config.json"), json.dumps(settings))
    cli = Cli(repo.path)
    told = cli("import", "fanout", tool.home, "--execute").out
    assert "baseline_hooks (schema of shop) are not run here" in told
    shop, blog = (_queued(name, task) for name, task in (("shop", "coupon"), ("blog", "theme")))
    for line in (
        "Never force a push.",
        "Never write paid_amount.",
        "Read the roadmap of this project first: `plan.md`",
    ):
        assert line in shop
    assert "Never force a push." in blog
    assert "paid_amount" not in blog
    assert "plan.md" not in blog
    cli("dump", "--task", "later", "--next", "Something new.")
    assert "Never write paid_amount." in _queued("shop", "later")


def test_a_path_that_begins_with_the_home_is_found_wherever_it_is_set(tmp_path, first_peer):
    person = os.path.expanduser("~")
    repo = Repo.create(os.path.join(person, "Projects", "shop"))
    tool = old_tool.OldTool(first_peer, str(tmp_path / "old"), repo.path)
    tool("dump", "--task", "coupon", "--next", "Take coupons.")
    _write(os.path.join(person, "ROADMAP.md"), "everything\n")
    _write(os.path.join(tool.home, "config.json"), json.dumps({"roadmap": {"path": "~/ROADMAP.md"}}))
    cli = Cli(str(tmp_path))
    cli("import", "fanout", tool.home, "--project=shop", "--workspace=~/Projects/shop", "--execute")
    cli("import", "fanout", tool.home, "--execute")
    cli("dump", "--task", "one", "--next", "x", "--workspace=~/Projects/shop")
    assert f"`{person}/ROADMAP.md`" in _queued("shop", "one")
    _write(os.path.join(os.environ["HANDOFF_HOME"], "config.toml"), 'reading_list = ["~/ROADMAP.md"]\n')
    cli("dump", "--task", "two", "--next", "x", "--workspace=~/Projects/shop")
    assert f"`{person}/ROADMAP.md`" in _queued("shop", "two")


@pytest.mark.slow
def test_the_doctor_names_what_the_older_tool_left_behind(tmp_path, first_peer):
    repo = Repo.create(str(tmp_path / "shop"))
    tool = old_tool.OldTool(first_peer, os.environ["HANDOFF_HOME"], repo.path)
    _half_way(tool, repo)
    cli = Cli(repo.path, PATH=f"{first_peer}/bin:{os.environ['PATH']}")
    cli("import", "fanout", "--execute")
    job = os.path.join(os.path.expanduser("~"), "Library", "LaunchAgents", "com.handoff-fanout.watchdog.plist")
    os.makedirs(os.path.dirname(job))
    _write(job, "<plist/>\n")
    hook = os.path.join(repo.path, ".git", "hooks", "pre-commit")
    os.makedirs(os.path.dirname(hook), exist_ok=True)
    _write(hook, "#!/bin/sh\n# handoff-fanout: the staged files must be a subset of $HANDOFF_EXPECTED_FILES\nexit 0\n")
    fixes = [one["fix"] for one in cli("doctor", "--json", code=None).json["findings"] if one["name"] == "older"]
    ours = os.path.join(os.environ["HANDOFF_HOME"], "shop", "relay", "batches", "split", "api.env")
    assert fixes == ["pip uninstall handoff-fanout", f"launchctl unload {job}; rm {job}", f"rm {hook}", f". {ours}"]
    assert os.path.exists(ours)


def test_the_commands_of_the_older_tool_go_on_in_cron_lines_by_their_own_names(tmp_path, first_peer):
    repo = Repo.create(str(tmp_path / "shop"))
    with open(os.path.join(REPOSITORY, "pyproject.toml"), "rb") as file:
        scripts = tomllib.load(file)["project"]["scripts"]
    theirs = {name for name in os.listdir(os.path.join(first_peer, "bin")) if name.startswith("handoff-")}
    assert theirs - scripts.keys() == {"handoff-precheck"}  # not taken over, as the page says
    line = (
        "import sys; sys.argv[0] = sys.argv.pop(1); from handoff.surfaces.cli.main import sibling; sys.exit(sibling())"
    )
    for words, said in (
        (("handoff-dump", "--task", "coupon", "--next", "Take coupons."), "Task coupon of project shop is ready."),
        (("handoff-watchdog",), "[watchdog] looked at 1 project"),
        (("handoff-heartbeat", "calibration"), "1.000"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", line, *words], cwd=repo.path, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stderr
        assert said in done.stdout


def test_what_our_guard_lets_pass_and_theirs_did_not_is_on_the_page(tmp_path, first_peer):
    repo = Repo.create(str(tmp_path / "shop"))
    ours = os.path.join(guard.place_shim(os.environ["HANDOFF_HOME"], "sub-task"), "git")
    theirs = os.path.join(first_peer, "handoff_fanout", "git_guard", "git")
    with open(os.path.join(REPOSITORY, "docs", "howto", "switch.md"), encoding="utf-8") as file:
        page = file.read()
    for words in (
        "commit --allow-empty -m x", "push origin main", "rebase main", "cherry-pick HEAD", "reset --hard", "revert HEAD",
        "tag v1", "am x.patch", "merge topic", "format-patch -1 --stdout",
    ):  # fmt: skip
        codes = [
            subprocess.run(
                ["bash", program, *words.split()] if program == theirs else [program, *words.split()],
                cwd=repo.path, env={**os.environ, "HANDOFF_ROLE": "sub-task"}, capture_output=True, check=False, timeout=60,
            ).returncode
            for program in (theirs, ours)
        ]  # fmt: skip
        assert codes[0] == 99, words
        assert codes[1] == 99 or f"`git {words.split()[0]}`" in page, words


def _write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _queued(project, task):
    with open(os.path.join(os.environ["HANDOFF_HOME"], project, "queue", f"{task}.md"), encoding="utf-8") as file:
        return file.read()
