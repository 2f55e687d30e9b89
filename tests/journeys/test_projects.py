"""A command touches the project it was called for: namesakes are two projects, and a moved checkout keeps its own."""

from __future__ import annotations

import os
import shutil
import sqlite3

from sandbox import Cli, Repo


def test_two_checkouts_of_the_same_folder_name_are_two_projects(tmp_path):
    one, two = Cli(Repo.create(str(tmp_path / "a" / "shop")).path), Cli(Repo.create(str(tmp_path / "b" / "shop")).path)
    one("dump", "--task", "first", "--next", "x")
    assert "Nothing to take" in two("task", "claim", code=1).err
    two("dump", "--task", "first", "--next", "another")
    assert two("task", "claim", "--json").json["brief"] == "another"
    assert one("task", "list", "--json").json["project"] == "shop"
    name = two("task", "list", "--json").json["project"]
    assert name.startswith("shop-")
    listed = one("project", "list").out
    assert f"* shop {'':<19} 1 task (1 live)  {one.folder}" in listed
    assert two.folder in listed
    two("snapshot")
    assert two("snapshot", "list", "--json").json
    assert os.path.isdir(os.path.join(os.environ["HANDOFF_HOME"], name, "snapshots.git"))


def test_two_checkouts_that_shared_a_name_before_keep_it_and_each_its_own_snapshots(tmp_path):
    one, two = Cli(Repo.create(str(tmp_path / "a" / "shop")).path), Cli(Repo.create(str(tmp_path / "b" / "shop")).path)
    home = os.environ["HANDOFF_HOME"]
    one("snapshot")
    two("snapshot")
    (tmp_path / "b" / "shop" / "more.txt").write_text("more\n")
    two("snapshot")
    for cli in (one, two):  # as it was before checkouts were told apart
        name = f"of-{os.path.basename(os.path.dirname(cli.folder))}"
        cli("dump", "--task", name, "--next", "x", "--project", "shop")
        with sqlite3.connect(os.path.join(home, "handoff.db")) as database:
            database.execute("UPDATE task SET workspace = ? WHERE id = ?", (cli.folder, name))
    os.unlink(os.path.join(home, "shop", ".checkout"))
    for cli in (one, two):
        if os.path.exists(os.path.join(cli.folder, ".git", "handoff-project")):
            os.unlink(os.path.join(cli.folder, ".git", "handoff-project"))
    for cli, kept in ((one, 1), (two, 2)):
        found = cli("task", "list", "--json").json
        assert (found["project"], len(found["tasks"])) == ("shop", 2)
        assert len(cli("snapshot", "list", "--json").json["snapshots"]) == kept


def test_a_moved_checkout_keeps_its_tasks_and_a_copy_does_not_get_them(tmp_path):
    repo = Repo.create(str(tmp_path / "shop"))
    cli = Cli(repo.path)
    cli("dump", "--task", "first", "--next", "x", "--owns", "a.txt")
    cli("task", "claim", "first", "--session", "tab")
    shutil.copytree(repo.path, tmp_path / "copy")
    assert "Nothing to take" in Cli(str(tmp_path / "copy"))("task", "claim", code=1).err
    assert cli("task", "list", "--json").json["project"] == "shop"  # looked at by the copy, it stays whose it was
    os.rename(repo.path, tmp_path / "store")
    moved = Cli(str(tmp_path / "store"))
    assert [task["task"] for task in moved("task", "list", "--json").json["tasks"]] == ["first"]
    assert moved("show", "first", "--json").json["workspace"] == str(tmp_path / "store")
    with open(os.path.join(os.environ["HANDOFF_HOME"], "shop", "queue", "first.md"), encoding="utf-8") as file:
        assert f"Folder: `{tmp_path / 'store'}`" in file.read()
    (tmp_path / "store" / "a.txt").write_text("a\n")
    moved("task", "done", "--summary", "made where it is now")


def test_a_moved_checkout_finds_its_snapshots_though_it_never_had_a_task(tmp_path):
    repo = Repo.create(str(tmp_path / "shop"))
    repo.write("draft.txt", "an hour of work\n")
    Cli(repo.path)("snapshot")
    os.rename(repo.path, tmp_path / "store")
    moved = Cli(str(tmp_path / "store"))
    (tmp_path / "store" / "draft.txt").unlink()
    assert len(moved("snapshot", "list", "--json").json["snapshots"]) == 1
    moved("snapshot", "restore", "--all")
    assert (tmp_path / "store" / "draft.txt").read_text() == "an hour of work\n"


def test_a_project_of_before_is_taken_over_by_hand_after_a_dry_run(tmp_path):
    old = Cli(Repo.create(str(tmp_path / "old" / "shop")).path)
    old("dump", "--task", "first", "--next", "x")
    os.unlink(os.path.join(old.folder, ".git", "handoff-project"))
    os.unlink(os.path.join(os.environ["HANDOFF_HOME"], "shop", ".checkout"))
    assert old("task", "list", "--json").json["project"] == "shop"  # a home of before: the name stays
    new = Cli(Repo.create(str(tmp_path / "new" / "market")).path)
    assert "which is there" in new("project", "move", "shop", code=3).err
    assert "There is no project 'nope'" in new("project", "move", "nope", code=1).err
    shutil.rmtree(old.folder)
    assert "its folder is gone" in new("project", "list").out
    clone = Cli(Repo.create(str(tmp_path / "again" / "shop")).path)
    assert "If this is its new place: handoff project move shop" in clone("task", "list").out
    assert "Would change: project shop with 1 task (1 live)" in new("project", "move", "shop").out
    assert not new("task", "list", "--json").json["tasks"]
    new("project", "move", "shop", "--execute")
    assert new("task", "claim", "--json").json["workspace"] == new.folder
    assert "works on first" in new("project", "rename", "shop", "bazaar", code=4).err
    new("task", "release", "first")
    new("project", "rename", "shop", "bazaar")
    assert new("task", "list", "--json").json["project"] == "shop"
    new("project", "rename", "shop", "bazaar", "--execute")
    assert [task["task"] for task in new("task", "list", "--json").json["tasks"]] == ["first"]
    assert new("task", "list", "--json").json["project"] == "bazaar"
    assert os.path.isfile(os.path.join(os.environ["HANDOFF_HOME"], "bazaar", "queue", "first.md"))
    assert "cannot name a project" in new("project", "rename", "bazaar", "A/B", code=1).err
