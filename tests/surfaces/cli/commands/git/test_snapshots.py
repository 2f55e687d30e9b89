"""`handoff snapshot`, `snapshots`, `diff`, `restore`, `undo` as a person uses them."""

from __future__ import annotations

import os


def test_a_lost_file_is_found_compared_and_brought_back(repo, cli):
    repo.write("notes.txt", "precious\n")
    first = cli("snapshot", "-m", "before lunch", "--json").json
    os.unlink(os.path.join(repo.path, "notes.txt"))
    assert "before lunch" in cli("snapshot", "list").out
    assert "-precious" in cli("snapshot", "diff", first["id"][:8]).out
    assert "notes.txt" in cli("snapshot", "restore", first["id"][:8], "--dry-run").out
    assert not os.path.exists(os.path.join(repo.path, "notes.txt"))
    assert "bring back" in cli("snapshot", "restore", first["id"][:8], "--path", "notes.txt").out
    assert repo.read("notes.txt") == "precious\n"
    cli("undo")
    assert not os.path.exists(os.path.join(repo.path, "notes.txt"))


def test_a_dry_run_does_not_change_what_a_restore_brings_back(repo, cli):
    repo.write("notes.txt", "precious\n")
    cli("snapshot")
    os.unlink(os.path.join(repo.path, "notes.txt"))
    assert "notes.txt" in cli("snapshot", "restore", "--dry-run").out
    cli("snapshot", "restore")
    assert repo.read("notes.txt") == "precious\n"


def test_paths_count_from_where_the_person_stands(repo, cli):
    repo.write("src/a.txt", "a\n")
    cli("snapshot")
    repo.write("src/a.txt", "b\n")
    cli("snapshot", "restore", "--path", "a.txt", cwd=os.path.join(repo.path, "src"))
    assert repo.read("src/a.txt") == "a\n"
    assert cli("snapshot", "restore", "--path", "../../x", code=2, cwd=os.path.join(repo.path, "src")).code == 2


def test_unknown_ids_and_times_say_what_to_do(repo, cli):
    assert "handoff snapshot" in cli("snapshot", "restore", code=1).err
    cli("snapshot")
    assert "handoff snapshot list" in cli("snapshot", "restore", "feedfeed", code=1).err
    assert "10m" in cli("snapshot", "restore", "--at", "yesteryear", code=1).err
    assert "nothing to undo" in cli("undo", code=1).err
    assert "session 'nobody'" in cli("snapshot", "restore", "--session", "nobody", code=1).err


def test_a_restore_can_go_into_a_folder(repo, cli, tmp_path):
    repo.write("a.txt", "a\n")
    cli("snapshot")
    cli("snapshot", "restore", "--into", str(tmp_path / "out"))
    assert (tmp_path / "out" / "a.txt").read_text() == "a\n"
    assert "not empty" in cli("snapshot", "restore", "--into", str(tmp_path / "out"), code=1).err
    assert cli("snapshot", "restore", "--into", str(tmp_path / "x"), "--index", code=2).code == 2


def test_the_store_can_be_verified(repo, cli):
    cli("snapshot")
    assert "sound" in cli("snapshot", "list", "--verify").out
    assert cli("snapshot", "list", "--json").json["count"] == 1


def test_restore_at_a_time_takes_the_newest_before_it(repo, cli):
    repo.write("a.txt", "old\n")
    cli("snapshot", "-m", "old")
    answer = cli("snapshot", "restore", "--at", "1h", code=1)
    assert "before 1h" in answer.err
    repo.write("a.txt", "new\n")
    cli("snapshot", "restore", "--at", "0s")
    assert repo.read("a.txt") == "old\n"
