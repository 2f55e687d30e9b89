"""What programs make and formatters do is never merged line by line: the program runs again, inside the sandbox, or people are asked."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from handoff.agents.sandbox.sandbox import NOTHING, layer
from relay import manifest
from sandbox import absent
from scripts import handoff, write_script

# A package manager that needs no network: names from the manifest and what they need, versions as the lock has them already.
UV = """#!/bin/sh
echo intruder > "$INTRUDER" 2>/dev/null
exec {python} - <<'END'
import pathlib, re
needs = {{"k": ["old"], "zz": ["old"]}}
lock = pathlib.Path("uv.lock")
has = dict(re.findall(r"^(\\w+) (\\d)$", lock.read_text() if lock.exists() else "", re.M))
names = re.findall(r'^ +"(\\w+)",$', pathlib.Path("pyproject.toml").read_text(), re.M)
every = sorted({{one for name in names for one in (name, *needs.get(name, ()))}})
lock.write_text("".join(f"{{one}} {{has.get(one, 1)}}\\n\\n\\n\\n\\n" for one in every))
END
"""
BASE = ("k", "m", "n", "q", "r")
CHECK = "grep -q '^m' uv.lock"


class Project:
    """A repository with a lock, branches that change it, and the program that makes it, which may be absent."""

    def __init__(self, cli, repo, folder):
        self.cli, self.repo = cli, repo
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.intruder = folder / "intruder"
        cli.environment["PATH"] = f"{self.bin}:{os.environ['PATH']}"
        self.program = self._write(folder / "uv", UV.format(python=sys.executable))
        self.change(BASE)

    def _write(self, path, text):
        path.write_text(text.replace("$INTRUDER", str(self.intruder)), encoding="utf-8")
        path.chmod(0o755)
        return path

    def install(self, text=""):
        (self.bin / "uv").unlink(missing_ok=True)
        if text:
            self._write(self.bin / "uv", text)
        else:
            (self.bin / "uv").symlink_to(self.program)  # as package managers do: what it leads to is no folder of PATH

    def change(self, names, *, lock=True, folder=""):
        listed = "".join(f'    "{one}",\n\n\n' for one in names)
        self.repo.write(f"{folder}pyproject.toml", f"[project]\ndependencies = [\n{listed}]\n")
        if lock:
            subprocess.run([str(self.program)], cwd=os.path.join(self.repo.path, folder), check=True)
            self.intruder.unlink()
        self.repo.commit(f"Needs {', '.join(names)}")

    def branch(self, name, names, **how):
        self.repo.git("checkout", "-q", "-b", name, "main")
        if names:
            self.change(names, **how)

    def home(self):
        self.repo.git("checkout", "-q", "main")

    @property
    def lock(self):
        return self.repo.read("uv.lock").split()


@pytest.fixture(autouse=True)
def _sandbox():
    if layer(os.environ) == NOTHING:
        absent("a sandbox")


@pytest.fixture
def project(cli, repo, tmp_path):
    return Project(cli, repo, tmp_path)


def _two(project):
    """One does without `k`, and so without what that needs; the other adds `zz`, which needs the same."""
    project.branch("one", ("k2", *BASE[1:]))
    project.branch("two", (*BASE, "zz"))
    project.home()


@pytest.mark.parametrize("order", [("one", "two"), ("two", "one")])
def test_a_lock_that_git_joins_cleanly_and_wrongly_is_made_again_by_its_program(project, repo, order):
    _two(project)
    tree = repo.git("merge-tree", "--write-tree", *order).strip()
    assert "old" not in repo.git("show", f"{tree}:uv.lock"), "git is content, and the lock lacks what zz needs"
    project.install()
    told = project.cli("land", *order, "--check", CHECK, "--json").json
    assert project.lock == "k2 1 m 1 n 1 old 1 q 1 r 1 zz 1".split()
    (one,) = told["settled"]
    assert (one["path"], one["first"], one["second"], one["proven"]) == ("uv.lock", *order, False)
    assert "`uv lock`" in one["how"]
    assert not told["doubts"], "what was made again needs no second look"
    assert not project.intruder.exists(), "it wrote outside of its sandbox"
    assert repo.git("status", "--porcelain") == ""


def test_a_lock_whose_program_is_absent_or_fails_holds_everything_back_and_says_which_command_makes_it(project, repo):
    _two(project)
    head = repo.head()
    unchecked = project.cli("land", "one", "two", code=3)
    assert "uv.lock: one and two (a program makes this file" in unchecked.out
    assert "With --check CMD" in unchecked.err
    absent_one = project.cli("land", "one", "two", "--check", CHECK, code=3)
    assert "only `uv lock` may make it again, and it is not installed here" in absent_one.out
    project.install("#!/bin/sh\necho no route to the index >&2; exit 2\n")
    failing = project.cli("land", "one", "two", "--check", CHECK, code=3)
    assert "it ended with exit 2: no route to the index" in failing.out
    project.install("#!/bin/sh\nrm uv.lock; ln -s pyproject.toml uv.lock\n")
    assert "it left no such file" in project.cli("land", "one", "two", "--check", CHECK, code=3).out
    assert repo.head() == head
    project.install()
    red = project.cli("land", "one", "two", "--check", "! grep -q '^zz' uv.lock", code=3)
    assert "`uv lock`, run on the joined manifests was tried, and the check was red" in red.out
    assert repo.head() == head
    project.cli("land", "one", "two", "--check", CHECK)


@pytest.mark.parametrize("order", [("newer", "added"), ("added", "newer")])
def test_versions_that_one_side_chose_in_the_lock_alone_are_kept(project, repo, order):
    project.branch("added", (*BASE, "zz"))
    project.branch("newer", ())
    repo.write("uv.lock", repo.read("uv.lock").replace("n 1", "n 2"))
    repo.commit("A newer n")
    project.home()
    project.install()
    project.cli("land", *order, "--check", CHECK)
    assert project.lock == "k 1 m 1 n 2 old 1 q 1 r 1 zz 1".split()
    project.branch("other", ())
    repo.write("uv.lock", repo.read("uv.lock").replace("q 1", "q 3"))
    repo.commit("A newer q")
    project.home()
    repo.write("uv.lock", repo.read("uv.lock").replace("m 1", "m 3"))
    repo.commit("A newer m")
    refused = project.cli("land", "other", "--check", CHECK, code=3)
    assert "both sides changed it, and no manifest says why" in refused.out


def test_a_generated_file_that_two_changed_is_not_joined_unless_its_attributes_say_so(project, repo):
    lines = "# @generated\n" + "".join(f"line {number}\n" for number in range(20))
    repo.write("made.txt", lines)
    repo.commit("Generated")
    for name, old in (("one", "line 1\n"), ("two", "line 18\n")):
        project.branch(name, ())
        repo.write("made.txt", lines.replace(old, f"{name}\n"))
        repo.commit(name)
    project.home()
    refused = project.cli("land", "one", "two", "--check", "true", code=3)
    assert "made.txt: one and two (a program makes this file" in refused.out
    repo.write(".gitattributes", "made.txt merge\n")
    repo.commit("Its lines may be joined")
    assert "made.txt: one and two, joined by git" in project.cli("land", "one", "two", "--check", "true").out
    assert {"one", "two"} <= set(repo.read("made.txt").split())


@pytest.mark.slow
def test_a_part_that_meets_a_lock_on_the_branch_waits_at_a_gate_until_its_program_is_there(project, repo, tmp_path):
    done = {"run": handoff("task", "done", "--summary", "made")}
    cli, place = project.cli, "src/form/"
    os.makedirs(os.path.join(repo.path, place))
    project.change(("k2", *BASE[1:]), folder=place)
    files = {name: repo.read(place + name) for name in ("pyproject.toml", "uv.lock")}
    project.change(BASE, folder=place)
    cli("dump", "--open-batch", manifest(tmp_path / "m.json", check="true"))

    def work(task, *acts, code=0):
        script = write_script(str(tmp_path / "script.toml"), *acts)
        return cli("session", "start", task, "--agent", "scripted", "--with", script, code=code)

    work("form", *({"write": place + name, "text": text} for name, text in files.items()), done)
    work("api", {"write": "src/api/made.txt", "text": "made"}, done)
    project.change((*BASE, "zz"), folder=place)
    head = repo.head()
    words = f"{place}uv.lock: only `uv lock` may make it again, and it is not installed here"
    assert f"'login-join' cannot begin. {words}" in work("login-join", done, code=3).err
    (gate,) = cli("gate", "list", "--json").json
    assert words in gate["question"].splitlines()[0], "lists show the first line alone"
    assert f"{place}uv.lock was changed by the target branch and by " in gate["question"]
    assert repo.head() == head
    project.install()
    cli("answer", "login-join", "yes")
    work("login-join", done)
    assert repo.read(f"{place}uv.lock").split() == "k2 1 m 1 n 1 old 1 q 1 r 1 zz 1".split()
    (told,) = cli("batch", "report", "login", "--json").json["conflicts"]
    assert told["path"] == f"{place}uv.lock"
    assert told["how"] == "`uv lock`, run on the joined manifests; a proposal that the check has passed"


@pytest.mark.slow
def test_npm_makes_its_own_lock_again_from_what_both_sides_ask_for(cli, repo):
    """The packages lie in the repository: no network is needed."""
    if shutil.which("npm") is None:
        absent("npm")
    known = ("m", "n", "o")

    def ask(*names):
        found = {name: f"file:libs/{name}" for name in sorted((*known, *names))}
        repo.write("package.json", json.dumps({"name": "shop", "version": "1.0.0", "dependencies": found}, indent=2))
        words = ["npm", "install", "--package-lock-only", "--offline", "--no-audit", "--no-fund"]
        subprocess.run(words, cwd=repo.path, check=True, capture_output=True)

    for name in (*known, "a", "z"):
        repo.write(f"libs/{name}/package.json", json.dumps({"name": name, "version": "1.0.0"}))
    ask()
    repo.commit("Needs some")
    for branch, name in (("one", "a"), ("two", "z")):
        repo.git("checkout", "-q", "-b", branch, "main")
        ask(name)
        repo.commit(f"Needs {name}")
    repo.git("checkout", "-q", "main")
    told = cli("land", "one", "two", "--check", "true", "--json").json
    assert [one["path"] for one in told["settled"]] == ["package-lock.json"]
    lock = json.loads(repo.read("package-lock.json"))
    assert sorted(lock["packages"][""]["dependencies"]) == sorted((*known, "a", "z"))
    ask("a", "z")
    assert repo.git("status", "--porcelain") == "", "npm itself would write the same"


FORMATTED = {
    "ruff": (
        "shop/cart.py",
        {"pyproject.toml": "[tool.ruff]\nline-length = 60\n"},
        "def total(items,rate):\n    value = sum(one.price*one.count for one in items if one.count)\n    return value*rate\n",
        ("return value*rate", "return round(value*rate,2)", "return round(value * rate, 2)"),
        "format --no-cache -q",
    ),
    "gofmt": (
        "cart.go",
        {"go.mod": "module shop\n"},
        "package shop\n\nfunc total(a int,b int) int {\n  c:=a+b\n  return c*2\n}\n",
        ("return c*2", "return c*3", "return c * 3"),
        "-w",
    ),
}


@pytest.mark.parametrize("turned", [False, True], ids=["formatted first", "edited first"])
@pytest.mark.parametrize("name", FORMATTED)
def test_an_edit_of_a_file_that_the_projects_formatter_laid_out_anew_is_joined(cli, repo, name, turned):
    path, settings, base, (old, edit, wanted), words = FORMATTED[name]
    cli.environment["PATH"] = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    program = shutil.which(name, path=cli.environment["PATH"])
    if program is None:
        absent(name)
    for place, text in {**settings, path: base}.items():
        repo.write(place, text)
    repo.commit("start")
    repo.git("checkout", "-q", "-b", "formatted")
    subprocess.run([program, *words.split(), path], cwd=repo.path, check=True)
    formatted = repo.read(path)
    repo.commit("Format")
    repo.git("checkout", "-q", "-b", "edited", "main")
    repo.write(path, base.replace(old, edit))
    repo.commit("Edit")
    repo.git("checkout", "-q", "main")
    order = ("edited", "formatted") if turned else ("formatted", "edited")
    assert path in cli("land", *order, code=3).out
    told = cli("land", *order, "--check", "true", "--json").json
    (one,) = told["settled"]
    assert (one["path"], one["proven"]) == (path, False)
    assert one["how"].startswith(f"a rule: `{name}")
    landed = repo.read(path)
    assert wanted in landed
    assert landed.splitlines()[:2] == formatted.splitlines()[:2]


@pytest.mark.parametrize("broken", ["more than a format", "no settings"])
def test_a_file_stays_a_conflict_where_the_formatter_does_not_make_exactly_one_side(cli, repo, broken):
    path, settings, base, (old, edit, _), _ = FORMATTED["ruff"]
    cli.environment["PATH"] = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    for place, text in {**(settings if broken != "no settings" else {}), path: base}.items():
        repo.write(place, text)
    repo.commit("start")
    repo.git("checkout", "-q", "-b", "formatted")
    subprocess.run(["ruff", "format", "--no-cache", "-q", path], cwd=repo.path, check=True, env=cli.full_environment())
    if broken != "no settings":
        repo.write(path, repo.read(path).replace("value * rate", "value * rate * 2"))
    repo.commit("Format")
    repo.git("checkout", "-q", "-b", "edited", "main")
    repo.write(path, base.replace(old, edit))
    repo.commit("Edit")
    repo.git("checkout", "-q", "main")
    for order in (("formatted", "edited"), ("edited", "formatted")):
        assert f"  {path}: " in cli("land", *order, "--check", "true", code=3).out
