"""`handoff workspace` and `handoff project tidy` as a person uses them."""

from __future__ import annotations

import os


def test_a_workspace_is_made_listed_exported_and_removed(repo, cli, tmp_path):
    made = cli("workspace", "add", "blue", "--session", "s-1", "--json").json
    assert os.path.isdir(made["tree"])
    assert "blue" in cli("workspace", "list").out
    exported = cli("workspace", "env", "blue").out
    assert f"export HANDOFF_PORT='{made['port']}'" in exported
    with open(os.path.join(made["tree"], "left.txt"), "w", encoding="utf-8") as file:
        file.write("left\n")
    gone = cli("workspace", "remove", "blue", "--json").json
    assert not os.path.exists(made["tree"])
    cli("snapshot", "restore", gone["snapshot"][:10], "--into", str(tmp_path / "back"))
    assert (tmp_path / "back" / "left.txt").read_text() == "left\n"
    assert "No workspaces" in cli("workspace", "list").out


def test_mistakes_are_told_with_what_to_do(repo, cli):
    assert "handoff workspace add" in cli("workspace", "remove", "nobody", code=1).err
    assert "lowercase" in cli("workspace", "add", "Not A Name", code=1).err
    assert cli("workspace", "frob", code=2).code == 2
    cli("workspace", "add", "blue")
    assert "exists" in cli("workspace", "add", "blue", code=4).err


def test_housekeeping_is_a_dry_run_by_default(repo, cli):
    cli("snapshot")
    answer = cli("project", "tidy", "--json").json
    assert answer["executed"] is False
    assert "Would remove" in cli("project", "tidy").out
    assert "Removed" in cli("project", "tidy", "--execute").out
    assert "sound" in cli("snapshot", "list", "--verify").out
