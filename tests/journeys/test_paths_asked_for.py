"""A session that needs a file it does not own asks for it: it has it if nobody owns it, else the owner or a person is told."""

from __future__ import annotations

import shlex

import pytest

from relay import manifest
from scripts import handoff, write_script

DONE = {"run": handoff("task", "done", "--summary", "made")}


@pytest.fixture
def work(cli, tmp_path):
    """One session of the scripted agent on a part of an open batch."""
    cli("dump", "--open-batch", manifest(tmp_path / "m.json"))

    def run(task, *acts, code=0):
        script = write_script(str(tmp_path / "script.toml"), *acts)
        return cli("session", "start", task, "--agent", "scripted", "--with", script, code=code)

    return run


def ask(path, said="said"):
    return {"run": handoff("task", "ask", "--path", shlex.quote(path), "why") + f" > src/form/{said}.txt"}


@pytest.mark.slow
def test_a_file_that_nobody_owns_belongs_to_the_part_at_once_and_lands_with_it(work, cli, repo):
    made = {"write": "shared/list.txt", "text": "form\n"}
    work("login/form", ask("shared/list.txt"), made, DONE)
    work("login/api", {"write": "src/api/x", "text": "x"}, DONE)
    work("login-join", DONE)
    assert repo.git("show", "HEAD:shared/list.txt") == "form\n"
    assert "is yours now: nobody else owns it" in repo.git("show", "HEAD:src/form/said.txt")
    assert "file granted" in cli("log", "login/form").out


def test_a_file_of_another_part_stays_there_and_its_owner_is_told(work, cli, repo):
    made = {"write": "src/api/mine.txt", "text": "form\n"}
    said = work("login/form", ask("src/api/mine.txt"), made, DONE, code=1)
    assert "login/form" in said.out
    assert cli("show", "login/form", "--json").json["state"] != "done"
    work(
        "login/api",
        {"expect": "'login/form' needs a change in src/api/mine.txt"},
        {"write": "src/api/x", "text": "x"},
        DONE,
    )
    assert cli("show", "login/api", "--json").json["state"] == "done"


def test_what_git_and_handoff_obey_is_for_a_person_to_give_and_nonsense_is_refused(work, cli, repo):
    work("login/form", ask(".gitattributes"), DONE)
    assert "noted for a person" in repo.git("show", "handoff/login-form-1:src/form/said.txt")
    for path in ("../x", "/etc/passwd", ".git/config"):
        cli("task", "claim", "login/api", "--session", "me")
        cli("task", "ask", "--path", path, "why", "--session", "me", code=1)
        cli("task", "release", "--session", "me")


def test_a_task_of_its_own_keeps_the_fence_a_person_put_around_it(cli, repo, tmp_path):
    cli("dump", "--task", "alone", "--next", "x", "--owns", "src/form/", "--check", "true")
    script = write_script(str(tmp_path / "s.toml"), ask("other.txt"), DONE)
    cli("session", "start", "alone", "--agent", "scripted", "--with", script)
    assert "noted for a person" in repo.git("show", "HEAD:src/form/said.txt")


def test_signs_in_a_wish_are_the_name_of_a_file_and_open_nothing_else(work, cli):
    wishes = [ask(wish) for wish in ("**", "src/**", "s[r]c/else.txt", "sr?/else.txt")]
    said = work("login/form", *wishes, {"write": "src/else.txt", "text": "form\n"}, DONE, code=1)
    assert "src/else.txt" in said.out
    assert cli("show", "login/form", "--json").json["state"] != "done"


def test_what_git_and_handoff_obey_is_known_in_any_folder_and_any_case(work, repo):
    paths = ("docs/.gitattributes", ".GitModules", "src/.HANDOFF/config.toml")
    work("login/form", *(ask(path, f"said{at}") for at, path in enumerate(paths)), DONE)
    for at in range(len(paths)):
        assert "noted for a person" in repo.git("show", f"handoff/login-form-1:src/form/said{at}.txt")
