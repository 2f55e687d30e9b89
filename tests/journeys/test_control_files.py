"""Files that somebody obeys are the person's: what a session makes of them lands when they have seen exactly that."""

from __future__ import annotations

import os
import random
import subprocess

import pytest

from handoff.agents.sandbox.sandbox import BUBBLEWRAP, LANDLOCK, layer
from handoff.git.obeyed import KINDS
from sandbox import absent
from scripts import handoff, write_script

MARK = "PLANTED-BY-A-SESSION"


class Desk:
    """A repository with a secret that git ignores, and sessions of the scripted agent."""

    def __init__(self, repo, cli, tmp_path) -> None:
        self.repo, self.cli, self.tmp = repo, cli, tmp_path
        repo.write(".gitignore", ".env\n*.log\n")
        repo.write("a.txt", "a\n")
        repo.commit("more")
        repo.write(".env", "KEY=secret\n")
        repo.write("draft.txt", "mine, not committed\n")

    def run(self, task: str, *lines: str, dump=()) -> str:
        """Let a session run these lines and report; how its task stands then. What the session said is kept."""
        self.cli("dump", "--task", task, "--next", f"Do {task}.", *dump)
        return self.again(task, *lines)

    def again(self, task: str, *lines: str) -> str:
        acts = [{"run": line} for line in (*lines, handoff("task", "done", "--summary", "done"))]
        script = write_script(str(self.tmp / f"{task}.toml"), *acts)
        end = self.cli("session", "start", task, "--agent", "scripted", "--with", script, "--json").json
        self.said = self.cli("session", "log", end["session"], "--raw").out
        return str(end["state"])

    def play(self, task: str, *acts, code=0) -> dict:
        self.cli("dump", "--task", task, "--next", f"Do {task}.")
        script = write_script(str(self.tmp / f"{task}.toml"), *acts)
        end = self.cli("session", "start", task, "--agent", "scripted", "--with", script, "--json", code=code).json
        self.said = self.cli("session", "log", end["session"], "--raw").out
        return dict(end)

    def clone_of(self, task: str) -> str:
        """The clone that a session has left."""
        clones = os.path.join(os.environ["HANDOFF_HOME"], "repo", "workspaces")
        (found,) = (os.path.join(clones, name, "tree") for name in os.listdir(clones) if name.startswith(task))
        return found

    def marks(self) -> list[str]:
        """Where something that was planted has run."""
        return [at for top in (self.tmp, os.environ["HOME"]) for at, _, files in os.walk(top) if MARK in files]


def look_with_git(*folders: str) -> None:
    """What a person types who has a look around."""
    for folder in folders:
        for words in (("status",), ("add", "-n", "."), ("diff",), ("log", "-1")):
            subprocess.run(["git", *words], cwd=folder, capture_output=True, check=False, timeout=100)


@pytest.fixture(params=[BUBBLEWRAP, pytest.param(LANDLOCK, marks=pytest.mark.slow)])
def desk(request, repo, cli, tmp_path, monkeypatch):
    if layer(os.environ, wanted=request.param) != request.param:
        absent(request.param)
    monkeypatch.setenv("HANDOFF_SANDBOX", request.param)
    return Desk(repo, cli, tmp_path)


def test_a_session_that_empties_gitignore_waits_for_a_person_who_sees_exactly_that(desk):
    cli, repo = desk.cli, desk.repo
    assert desk.run("greedy", ": > .gitignore", "echo b > b.txt") == "gated", desk.said
    asked = cli("gate", "show", "greedy").out
    assert "it changes .gitignore, which git obeys" in asked
    assert {"-.env", "-*.log"} <= {line.strip() for line in asked.splitlines()}
    assert "b.txt" not in asked
    assert repo.read(".gitignore") == ".env\n*.log\n"
    assert desk.run("next", "ls -A", "echo c > c.txt") == "done", desk.said
    assert ".env" not in desk.said
    assert "draft.txt" in desk.said, "what the person has not committed is still there for sessions"
    assert "is done" in cli("answer", "greedy", "yes").out
    assert (repo.read(".gitignore"), repo.read("b.txt")) == ("", "b\n")


def test_what_was_copied_into_a_clone_is_nobodys_work_however_its_session_changes_the_rules(desk):
    cli, repo = desk.cli, desk.repo
    repo.write(".worktreeinclude", ".env\n")
    repo.git("add", ".worktreeinclude")
    repo.git("commit", "-q", "-m", "what clones are given")
    everything = "git add -A && git commit -q -m all"
    assert (
        desk.run("greedy", "cat .env", "echo more >>.env", ": > .gitignore", "echo b > b.txt", everything) == "gated"
    ), desk.said
    assert "KEY=secret" in desk.said
    assert repo.git("ls-tree", "-r", "--name-only", "handoff/greedy-1").split() == [
        ".gitignore", ".worktreeinclude", "README.md", "a.txt", "b.txt",
    ]  # fmt: skip
    cli("answer", "greedy", "no", "leave it")
    cli("retry", "greedy")
    assert desk.again("greedy", "cat .env", "echo c > c.txt") == "gated", desk.said
    assert "KEY=secret" in desk.said, "the next session has it too"
    cli("answer", "greedy", "yes")
    assert ".env" not in repo.git("log", "--all", "--format=", "--name-only").split()
    assert repo.read(".env") == "KEY=secret\n"


def test_only_what_git_tracks_reaches_a_clone_if_the_person_says_so(desk):
    desk.repo.write("a.txt", "edited, not committed\n")
    desk.cli("dump", "--task", "next", "--next", "Do next.")
    with open(os.path.join(os.environ["HANDOFF_HOME"], "config.toml"), "w", encoding="utf-8") as file:
        file.write('carry = "tracked"\n')
    assert desk.again("next", "ls -A", "cat a.txt", "echo c > c.txt") == "done", desk.said
    assert "draft.txt" not in desk.said
    assert "edited, not committed" in desk.said


@pytest.mark.slow
def test_a_later_yes_to_another_question_does_not_approve_a_change_that_was_refused(repo, cli, tmp_path):
    desk = Desk(repo, cli, tmp_path)
    assert desk.run("greedy", ": > .gitignore") == "gated", desk.said
    cli("answer", "greedy", "no", "leave .gitignore as it is")
    cli("retry", "greedy")
    repo.write("a.txt", "mine, not committed\n")
    assert desk.again("greedy", "printf '.env\\n*.log\\n' > .gitignore", "echo b > a.txt") == "gated", desk.said
    assert "you had edited it without a commit" in cli("gate", "show", "greedy").out
    repo.git("commit", "-qm", "mine", "a.txt")
    assert "is done" in cli("answer", "greedy", "yes").out
    assert desk.run("same", ": > .gitignore") == "gated", "exactly what was refused"
    assert repo.read(".gitignore") == ".env\n*.log\n"


def test_a_task_that_names_gitignore_lands_it_and_the_persons_own_rules_go_on_to_hold_their_files_back(desk):
    repo = desk.repo
    repo.write("sub/.gitignore", "*.key\n")
    repo.git("add", "sub/.gitignore")
    repo.git("commit", "-qm", "rules of a folder")
    repo.write("sub/own.key", "secret\n")
    owns = ("--owns", ".gitignore", "--owns", "sub/.gitignore")
    assert desk.run("ignore", "echo '*.tmp' > .gitignore", "rm sub/.gitignore", dump=owns) == "done", desk.said
    assert repo.read(".gitignore") == "*.tmp\n"
    assert desk.run("next", "find . -path ./.git -prune -o -type f -print") == "done", desk.said
    assert ".env" not in desk.said
    assert "own.key" not in desk.said
    assert "./draft.txt" in desk.said
    repo.write(".gitignore", "*.tmp\n# mine\n")
    assert desk.run("later", "find . -path ./.git -prune -o -type f -print") == "done", desk.said
    assert "./.env" in desk.said, "what the person writes themselves counts at once"
    assert "own.key" not in desk.said


def test_settings_and_workflows_that_a_session_lands_wait_for_a_person_and_a_persons_own_count_at_once(desk):
    cli, repo = desk.cli, desk.repo
    cli("init", "greeting")
    repo.write(".handoff/config.toml", 'language = "English"\ncheck = "true"\n')
    repo.git("add", "-f", ".handoff/config.toml")
    repo.git("commit", "-qm", "settings")
    plant = "echo 'language = \"Klingon\"' > .handoff/config.toml; mkdir .handoff/workflows; echo x > .handoff/workflows/tdd.toml"
    assert desk.run("settings", plant) == "gated", desk.said
    asked = cli("gate", "show", "settings").out
    assert '+language = "Klingon"' in asked
    assert ".handoff/workflows/tdd.toml" in asked
    assert "Klingon" not in repo.read(".handoff/config.toml")
    assert not os.path.exists(os.path.join(repo.path, ".handoff/workflows"))
    cli("answer", "settings", "no", "not these")
    cli("retry", "settings")
    baton = cli("task", "claim", "settings", "--show").out
    assert ("a person said no: not these" in baton, "blocked the task" in baton) == (True, False)
    cli("task", "release", "settings")
    assert "Klingon" not in repo.read(".handoff/config.toml")
    repo.write(".handoff/config.toml", 'language = "Esperanto"\n')
    assert cli("status", "--json").json["language"] == "Esperanto"


def plants(chance: random.Random) -> dict[str, str]:
    """200 files of all kinds of control files, under names drawn anew, each of which leaves a mark when it is obeyed."""
    found: dict[str, str] = {}
    wanted = [pattern for patterns in KINDS.values() for pattern in patterns.split() if not pattern.startswith("!")]
    while len(found) < 200:
        path = chance.choice(wanted)
        above = "/".join(chance.choice(("a", "src", "web", "x-1")) for _ in range(chance.randrange(3)))
        path = path.replace("**/", f"{above}/" if above else "", 1) if path.startswith("**/") else path
        path = (
            path.removesuffix("/**") + chance.choice(("/one", "/deep/two.sh", "/settings.json"))
            if path.endswith("/**")
            else path
        )
        path = path.replace("*", chance.choice(("a", "q", "zz")))
        parts = path.split("/")
        if not any(
            path.startswith(f"{one}/") or one.startswith(f"{path}/") or one.casefold() == path.casefold()
            for one in found
        ):
            if (
                chance.random() < 0.1
                and parts[-1].startswith(".")
                and "git" not in path
                and not path.startswith(".handoff")
            ):
                path = path.upper() if "/" not in path else path
            found[path] = chance.choice(
                (f"touch {MARK}\n", f'{{"run": "touch {MARK}"}}\n', f"*.txt filter={MARK}\n", f"!{MARK}\n")
            )
    return found


def test_of_two_hundred_plants_drawn_by_chance_none_is_obeyed(desk):
    cli, repo, seed = desk.cli, desk.repo, random.randrange(1 << 32)
    found = plants(random.Random(seed))
    told = f"seed {seed}"
    repo.git("config", "filter.nb.clean", "sh tools/clean.sh")
    repo.write(".gitattributes", "*.nb filter=nb\n")
    repo.write("tools/clean.sh", "exec cat\n")
    repo.write("package.json", '{"scripts": {"test": "true"}}\n')
    repo.git("add", ".gitattributes", "tools", "package.json")
    repo.git("commit", "-qm", "a filter")
    tracked = repo.git("ls-files", "-s")
    found["tools/clean.sh"] = f"touch {MARK}; exec cat\n"
    found["package.json"] = f'{{"scripts": {{"postinstall": "touch {MARK}"}}}}\n'
    acts = [{"write": path, "text": text} for path, text in found.items()]
    acts += [{"run": line} for line in ("echo x > b.txt", handoff("task", "done", "--summary", "done"))]
    end = desk.play("plants", *acts)
    assert end["state"] == "gated", (told, desk.said)
    asked = cli("gate", "show", "plants").out
    assert [path for path in found if path not in asked] == [], told
    assert repo.git("ls-files", "-s") == tracked, told
    assert desk.run("next", f"grep -rl {MARK} . --exclude-dir=.git || echo nothing of it", "echo c > c.nb") == "done", (
        told
    )
    assert "nothing of it" in desk.said, told
    before = desk.marks()
    look_with_git(repo.path, desk.clone_of("plants"))
    assert (before, desk.marks()) == ([], []), told
    cli("answer", "plants", "no", "not these")
    assert repo.git("ls-files", "-s").replace(repo.git("ls-files", "-s", "c.nb"), "") == tracked, told
    assert desk.marks() == [], told


def test_repositories_under_other_names_do_not_land_and_run_nothing_for_a_person_who_looks_at_the_clone(desk):
    obeyed = f"config --file {{}}/config core.fsmonitor 'touch {MARK}'"
    hide = (
        "git init -q --separate-git-dir .hid three; git -C three commit -q --allow-empty -m x; git add -f three; git "
    )
    bare = "git init -q --bare store; echo x > store/refs/x; echo x > store/objects/x; git "
    lines = (hide + obeyed.format(".hid"), bare + obeyed.format("store"), handoff("task", "done", "--summary", "done"))
    end = desk.play("hidden", *({"run": line} for line in lines), code=None)
    assert end["state"] == "ready", end
    assert {".hid/config (inside a repository of its own)", "store/config (inside a repository of its own)"} <= set(
        end["outside"]
    )
    left = desk.clone_of("hidden")
    look_with_git(left, *(os.path.join(left, name) for name in ("three", "store", ".hid")))
    assert desk.marks() == []
    assert "store" not in os.listdir(desk.repo.path)
