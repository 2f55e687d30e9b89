"""What git cannot join goes to a third session: it gets exactly the conflict, writes only those files, and is not believed easily."""

from __future__ import annotations

import os
import pathlib
import subprocess

import pytest

from relay import manifest
from scripts import handoff, write_script

DONE = {"run": handoff("task", "done", "--summary", "made")}
FILE = "src/form/shop.py"
BASE = "def total(items):\n    return sum(items)\n\n\ndef show(items):\n    print(total(items))\n"
PART = BASE.replace("sum(items)", "round(sum(items), 2)")
MINE = BASE.replace("sum(items)", "sum(items) * 0.9")
BOTH = BASE.replace("sum(items)", "round(sum(items) * 0.9, 2)")


class Conflict:
    """A batch whose part and whose person have changed the same line."""

    def __init__(self, cli, repo, folder):
        self.cli, self.repo, self.folder = cli, repo, folder

    def work(self, task, *acts, code=0):
        script = write_script(str(self.folder / "script.toml"), *acts)
        return self.cli("session", "start", task, "--agent", "scripted", "--with", script, code=code)

    def state(self, task="login-join"):
        tasks = self.cli("task", "list", "--all", "--json").json["tasks"]
        return next(one["state"] for one in tasks if one["task"].endswith(task))

    def settle(self, text, *acts, code=0):
        return self.work("login-join", {"write": FILE, "text": text}, *acts, DONE, code=code)


@pytest.fixture
def conflict(cli, repo, tmp_path):
    repo.write(FILE, BASE)
    repo.commit("shop")
    cli("dump", "--open-batch", manifest(tmp_path / "m.json"))
    found = Conflict(cli, repo, tmp_path)
    found.work("form", {"write": FILE, "text": PART}, DONE)
    found.work("api", {"write": "src/api/made.txt", "text": "made"}, DONE)
    repo.write(FILE, MINE)
    repo.commit("A discount")
    return found


def test_a_conflict_is_settled_by_the_fan_in_and_lands_as_one_commit_a_part(conflict, repo):
    looks = "grep -q '<<<<<<< the target branch' {0} && grep -q '||||||| before both' {0} && test -f .handoff/conflict/base/{0}"
    conflict.work(
        "login-join",
        {"run": looks.format(FILE) + " && test -f .handoff/conflict/login-form-*.diff"},
        {"write": FILE, "text": BOTH},
        {"write": ".handoff/conflict/decisions.md", "text": "both: a discount, then rounded"},
        DONE,
    )
    assert conflict.state() == "done"
    assert repo.read(FILE) == BOTH
    assert repo.read("src/api/made.txt") == "made"
    told = conflict.cli("batch", "report", "login", "--json").json
    (one,) = told["conflicts"]
    assert (one["path"], one["between"][-1]) == (FILE, "form")
    assert "session" in one["how"]
    assert told["decisions"] == "both: a discount, then rounded"
    page = conflict.cli("batch", "report", "login", "--markdown").out
    assert f"## Conflicts\n\n- {FILE} (the target branch, form): {one['how']}" in page
    assert "> both: a discount, then rounded" in page
    assert f"- {FILE} (the target branch, form)" in conflict.cli("batch", "report", "login").out
    subjects = repo.git("log", "--format=%s", "-3").splitlines()
    assert subjects[-1] == "A discount"
    assert not os.path.exists(os.path.join(repo.path, ".handoff", "conflict"))
    assert repo.git("status", "--porcelain") == ""


def test_the_baton_of_the_fan_in_holds_both_wishes_and_names_the_only_file_it_may_write(conflict):
    conflict.settle(BOTH)
    shown = conflict.cli("show", "login-join", "--json").out
    assert "settled" in shown
    home = os.environ["HANDOFF_HOME"]
    texts = [path.read_text("utf-8") for path in pathlib.Path(home).rglob("baton.md")]
    (text,) = [text for text in texts if "Settle one conflict" in text]
    assert f"Settle one conflict: `{FILE}`" in text
    assert "You wrote neither side; favour neither" in text
    assert "asked:" in text
    limits = text[text.index("## Limits") : text.index("## How to end")]
    assert f"You may write: `{FILE}`, `.handoff/conflict/decisions.md`." in limits
    assert "A discount (Test Person)" in text, "the person's side has its commit"
    assert "-    return sum(items) * 0.9" not in text
    assert "    return sum(items) * 0.9\n" in text, "the lines between the marks"
    assert "attempt 1 of 2" in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "why"),
    [
        (BOTH + "<<<<<<< left\n", "still has marks"),
        (BOTH.replace("    print(total(items))\n", "    pass\n"), "lost a line that both sides had kept"),
    ],
)
def test_what_is_not_settled_is_not_believed_and_after_two_attempts_a_person_is_asked(conflict, repo, text, why):
    head = repo.head()
    first = conflict.settle(text, code=1)
    assert why in first.out + first.err
    assert conflict.state() == "ready"
    conflict.settle(text, code=1)
    assert conflict.state() == "gated"
    (gate,) = conflict.cli("gate", "list", "--json").json
    assert "could not settle the conflict" in gate["question"]
    assert repo.head() == head
    conflict.cli("answer", "login-join", "yes")
    conflict.settle(BOTH)
    assert conflict.state() == "done"
    assert repo.read(FILE) == BOTH


@pytest.mark.slow
def test_the_commands_that_the_gate_names_join_the_parts_by_hand_without_what_the_person_had_not_committed(
    cli, repo, tmp_path
):
    repo.write(FILE, BASE)
    repo.commit("shop")
    repo.write("draft.txt", "mine alone\n")
    cli("dump", "--open-batch", manifest(tmp_path / "m.json"))
    conflict = Conflict(cli, repo, tmp_path)
    conflict.work("form", {"write": FILE, "text": PART}, DONE)
    conflict.work("api", {"write": "src/api/made.txt", "text": "made"}, DONE)
    repo.write(FILE, MINE)
    repo.git("commit", "-qam", "A discount")
    for _ in range(2):
        conflict.settle(BOTH + "<<<<<<< left\n", code=1)
    (gate,) = cli("gate", "list", "--json").json
    commands = [line.strip() for line in gate["question"].splitlines() if line.startswith("  git ")]
    assert len(commands) == 2, gate["question"]
    stopped = 0
    for command in commands:
        if subprocess.run(["/bin/sh", "-c", command], cwd=repo.path, capture_output=True, check=False).returncode:
            stopped += 1
            repo.write(FILE, BOTH)
            assert "git commit -a --no-edit" in gate["question"]
            repo.git("commit", "-q", "-a", "--no-edit")
    assert stopped == 1
    assert repo.git("status", "--short") == "?? draft.txt\n"
    assert "handoff answer login-join yes" in gate["question"]
    cli("answer", "login-join", "yes")
    conflict.work("login-join", DONE)
    assert conflict.state() == "done"
    assert (repo.read(FILE), repo.read("src/api/made.txt")) == (BOTH, "made")
    assert "draft.txt" not in repo.git("log", "--branches", "--name-only", "--format=%s")
    assert "working tree as it was" not in repo.git("log", "--branches", "--format=%s")


@pytest.mark.slow
def test_whoever_settles_a_conflict_may_write_no_other_file(conflict, repo):
    head = repo.head()
    answer = conflict.settle(BOTH, {"write": "src/form/other.py", "text": "x = 1\n"}, code=1)
    assert "src/form/other.py" in answer.out + answer.err
    assert repo.head() == head
    conflict.settle(BOTH)
    assert repo.read(FILE) == BOTH
    assert not os.path.exists(os.path.join(repo.path, "src/form/other.py"))


@pytest.mark.slow
def test_a_part_that_makes_the_checks_red_beside_the_others_goes_back_with_the_evidence(cli, repo, tmp_path):
    """The person's commit and one part are each green alone; the fan-in joins them and finds who is to blame."""
    check = "test ! -e src/form/made.txt || test ! -e theirs.txt || { echo they do not fit; exit 1; }"
    cli("dump", "--open-batch", manifest(tmp_path / "m.json", check=check))
    batch = Conflict(cli, repo, tmp_path)
    for part in ("form", "api"):
        batch.work(part, {"write": f"src/{part}/made.txt", "text": part}, DONE)
    batch.work("login-join", {"run": "true"}, {"exit": 1}, code=1)  # its clone is made, and nothing is reported
    repo.write("theirs.txt", "mine\n")
    head = repo.commit("Meanwhile") or repo.head()
    batch.work("login-join", DONE, code=None)
    assert batch.state("form") == "ready"
    assert batch.state("api") == "done"
    assert batch.state("login-join") == "waiting"
    assert repo.head() == head
    shown = cli("show", "login/form").out
    assert "the checks are red because of it" in shown
    assert "they do not fit" in shown
    batch.work("form", {"run": "rm src/form/made.txt"}, {"write": "src/form/other.txt", "text": "fits"}, DONE)
    batch.work("login-join", DONE)
    assert batch.state("login-join") == "done"
    assert repo.read("src/form/other.txt") == "fits"
    assert not os.path.exists(os.path.join(repo.path, "src/form/made.txt"))


@pytest.mark.slow
def test_when_the_branch_moves_again_the_next_session_gets_the_conflict_as_it_is_then(conflict, repo):
    conflict.work("login-join", {"write": FILE, "text": BOTH}, {"exit": 1}, code=1)  # settled, and not reported
    third = MINE.replace("* 0.9", "* 0.8")
    repo.write(FILE, third)
    repo.commit("A larger discount")
    looks = f"grep -q 'sum(items) . 0.8' {FILE} && grep -q '<<<<<<< the target branch' {FILE}"
    settled = BOTH.replace("0.9", "0.8")
    conflict.work("login-join", {"run": looks}, {"write": FILE, "text": settled}, DONE)
    assert conflict.state() == "done"
    assert repo.read(FILE) == settled


@pytest.mark.slow
def test_a_red_part_goes_back_also_where_the_fan_in_settles_a_conflict_of_another(cli, repo, tmp_path):
    """Who settles may write nothing but the conflict: what makes the whole red beside it is not its to mend."""
    repo.write(FILE, BASE)
    repo.commit("shop")
    cli("dump", "--open-batch", manifest(tmp_path / "m.json", check="! grep -rqs RED src"))
    batch = Conflict(cli, repo, tmp_path)
    batch.work("form", {"write": FILE, "text": PART}, DONE)
    batch.work("api", {"write": "src/api/made.txt", "text": "RED"}, DONE)
    repo.write(FILE, MINE)
    repo.commit("A discount")
    batch.settle(BOTH, code=None)
    assert (batch.state("form"), batch.state("api"), batch.state()) == ("done", "ready", "waiting")
    assert "the checks are red because of it" in cli("show", "login/api").out
    batch.work("api", {"write": "src/api/made.txt", "text": "green"}, DONE)
    batch.work("login-join", {"run": f"grep -q '<<<<<<<' {FILE}"}, {"write": FILE, "text": BOTH}, DONE)
    assert batch.state() == "done"
    assert (repo.read(FILE), repo.read("src/api/made.txt")) == (BOTH, "green")


@pytest.mark.slow
def test_a_part_that_conflicts_in_too_many_lines_is_made_again_on_the_branch_as_it_is_now(cli, repo, tmp_path):
    def text(word):
        return "".join(f"{word} {number}\n" for number in range(200))

    repo.write(FILE, text("old"))
    repo.commit("shop")
    cli("dump", "--open-batch", manifest(tmp_path / "m.json"))
    found = Conflict(cli, repo, tmp_path)
    found.work("form", {"write": FILE, "text": text("part")}, DONE)
    found.work("api", {"write": "src/api/made.txt", "text": "made"}, DONE)
    repo.write(FILE, text("person"))
    repo.commit("All lines anew")
    refused = found.work("login-join", DONE, code=3)
    assert "is made again on the branch as it is now" in refused.err
    assert (found.state("form"), found.state()) == ("ready", "waiting")
    looks = f"grep -q '^+part 7' .handoff/conflict/before.diff && grep -q 'person 7' {FILE}"
    found.work(
        "form",
        {"expect": "Too much of it meets what came on the branch meanwhile"},
        {"run": looks},
        {"write": FILE, "text": text("person and part")},
        DONE,
    )
    found.work("login-join", DONE)
    assert found.state() == "done"
    assert repo.read(FILE) == text("person and part")
    assert repo.read("src/api/made.txt") == "made"
    assert repo.git("status", "--porcelain") == ""
    assert "sent back" in cli("batch", "report", "login").out
