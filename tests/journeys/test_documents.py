"""No task's document is overwritten by another task's, nor anybody else's by ours."""

from __future__ import annotations

import os
import shutil

from relay import manifest


def _queue(name: str) -> str:
    return os.path.join(os.environ["HANDOFF_HOME"], "repo", "queue", name)


def test_a_task_named_like_a_live_part_is_refused_and_the_parts_document_stays(cli, tmp_path):
    cli("dump", "--open-batch", manifest(tmp_path / "m.json"))
    with open(_queue("form.md"), encoding="utf-8") as file:
        before = file.read()
    said = cli("dump", "--task", "form", "--next", "something else", code=4)
    assert "login/form" in said.err
    with open(_queue("form.md"), encoding="utf-8") as file:
        assert file.read() == before


def test_a_document_of_an_older_tool_is_not_overwritten(cli):
    cli("dump", "--task", "first", "--next", "x")
    with open(_queue("theirs.md"), "w", encoding="utf-8") as file:
        file.write("the only words there are\n")
    said = cli("dump", "--task", "theirs", "--next", "ours", code=3)
    assert "theirs.md" in said.err
    with open(_queue("theirs.md"), encoding="utf-8") as file:
        assert file.read() == "the only words there are\n"
    assert "theirs" not in cli("task", "list", "--all").out


def test_a_stop_file_holds_addresses_and_open_and_a_removed_file_comes_back_when_it_is_looked_at(cli):
    cli("dump", "--task", "first", "--next", "x")
    assert os.path.exists(_queue("first.uri"))
    stop = os.path.join(os.environ["HANDOFF_HOME"], "repo", "STOP_AUTO")
    with open(stop, "w", encoding="utf-8"):
        pass
    cli("dump", "--task", "second", "--next", "y")
    assert not os.path.exists(_queue("first.uri"))
    assert not os.path.exists(_queue("second.uri"))
    said = cli("task", "open", "first", "--with", "print", code=3)
    assert "project 'repo' is stopped" in said.err
    os.unlink(stop)
    cli("task", "list")
    assert os.path.exists(_queue("first.uri"))
    assert os.path.exists(_queue("second.uri"))
    cli("pause", "second")
    assert os.path.exists(_queue("first.uri"))
    assert not os.path.exists(_queue("second.uri"))

    for look, gone in (
        (("task", "list"), "first.uri"),
        (("show", "first"), "first.md"),
        (("task", "list"), "second.md"),
    ):
        os.unlink(_queue(gone))
        cli(*look)
        assert os.path.exists(_queue(gone)), (look, gone)


def test_a_fan_in_whose_session_is_lost_has_not_started_and_old_scripts_beat_its_heart(cli, tmp_path):
    cli("dump", "--open-batch", manifest(tmp_path / "m.json"))
    for part in ("form", "api"):
        cli("task", "claim", f"login/{part}", "--session", f"for-{part}")
        cli("task", "done", "--session", f"for-{part}", "--summary", "made")
    folder = os.path.join(os.environ["HANDOFF_HOME"], "repo", "batches", "login")
    beat = cli.start("heartbeat", "heartbeat", folder, "--session", "joiner")
    try:
        assert b"You hold login-join" in beat.stdout.readline()
    finally:
        beat.terminate()
        beat.communicate()
    assert os.path.exists(os.path.join(folder, "_fan_in_started"))
    cli("task", "release", "login-join", "--session", "joiner")
    assert not os.path.exists(os.path.join(folder, "_fan_in_started"))


def test_what_a_launcher_took_away_is_tidied_with_its_task(cli):
    cli("dump", "--task", "first", "--next", "x")
    folder = os.path.join(os.environ["HANDOFF_HOME"], "repo", "launched")
    os.makedirs(folder)
    taken, strange = (os.path.join(folder, f"{name}-1700000000000000000.txt") for name in ("first", "nobody"))
    for path in (taken, strange):
        with open(path, "w", encoding="utf-8") as file:
            file.write("WORKSPACE=/x\nURI=y\n")
    found = cli("dump", "--cleanup-orphan", "--apply", "--json").json["orphans"]
    assert [one["task"] for one in found] == ["nobody"]
    assert os.path.exists(taken)
    assert not os.path.exists(strange)
    cli("cancel", "first")
    cli("prune", "--execute")
    assert not os.path.exists(taken)


def test_tests_that_could_not_run_are_not_called_red(cli, repo, tmp_path):
    repo.write("tests/test_x.py", "def test_x(): pass\n")
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("git", "sh", "python3"):
        os.symlink(shutil.which(name), folder / name)
    cli.environment["PATH"] = str(folder)
    cli("dump", "--task", "aa", "--next", "x", "--tests", "tests/test_x.py")
    assert cli("show", "aa", "--json").json["baseline"]["tests"]["command"].startswith("python3 -m pytest ")
    cli("dump", "--task", "bb", "--next", "x", "--tests", "no-such-runner tests")
    assert (
        cli("show", "bb", "--json").json["baseline"]["tests"]["verdict"]
        == "not run: no-such-runner is missing (exit 127)"
    )
