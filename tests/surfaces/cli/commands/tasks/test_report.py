"""`batch report`, `agent score`, and requests through a stand-in `gh` or `glab` against a bare origin."""

from __future__ import annotations

import json
import os

import pytest

from relay import manifest
from sandbox import Cli, Repo
from scripts import handoff, write_script

DONE = {"run": handoff("task", "done", "--summary", "'made it'")}
TRESPASS = {"write": "other.txt", "text": "not mine"}
REFUSED = {**DONE, "may_fail": True}
# Writes down how it was called, refuses what the real one would not understand, and plays what it is told to.
STAND_IN = r"""#!/usr/bin/env python3
import json, os, sys
known = {"gh": ["--head", "--base", "--title", "--body-file"],
         "glab": ["--source-branch", "--target-branch", "--title", "--description", "--yes"]}
name = os.path.basename(sys.argv[0])
words = sys.argv[1:]
for word in words:
    if word.startswith("--") and word not in known[name]:
        sys.exit(f"unknown flag: {word}")
with open(os.path.join(os.path.dirname(sys.argv[0]), "called.json"), "w") as file:
    json.dump({"name": name, "argv": words, "stdin": sys.stdin.read()}, file)
part = os.environ.get("STAND_IN", "url")
if part == "exists":
    sys.exit("a pull request for branch already exists:\nhttps://forge.invalid/pull/7")
if part == "login":
    sys.exit("To get started with GitHub CLI, please run: gh auth login")
print("https://forge.invalid/pull/7" if part == "url" else "?!")
"""


class Forge:
    """A bare origin and a folder of programs for the PATH, without those of this machine."""

    def __init__(self, repo, folder):
        self.repo, self.folder = repo, folder / "programs"
        self.folder.mkdir()
        self.origin = Repo(str(folder / "origin.git"))
        repo.git("init", "-q", "--bare", self.origin.path)
        repo.git("remote", "add", "origin", self.origin.path)
        repo.git("push", "-q", "origin", "main")

    def has(self, name):
        path = self.folder / name
        path.write_text(STAND_IN)
        path.chmod(0o755)

    def cli(self, **more):
        return Cli(self.repo.path, PATH=f"{self.folder}{os.pathsep}{os.environ['PATH']}", **more)

    def called(self):
        return json.loads((self.folder / "called.json").read_text())


@pytest.fixture
def forge(repo, tmp_path):
    return Forge(repo, tmp_path)


@pytest.fixture
def scripts(cli, tmp_path):
    """Scripts by task, and the words that let the scripted agent follow them."""
    (tmp_path / "login").mkdir()

    def write(**acts):
        for name, its in acts.items():
            write_script(str(tmp_path / f"{name.replace('__', '/').replace('_', '-')}.toml"), *its)
        return ("--agents", "scripted", "--with", str(tmp_path / "{task}.toml"))

    yield write
    cli("work", "--stop")


def _work(cli):
    cli("workspace", "add", "api", "--owns", "api/")
    (workspace,) = cli("workspace", "list", "--json").json
    Repo(workspace["tree"]).write("api/main.py", "code = 1\n")


def _made(name):
    return {"write": f"src/{name}/made.py", "text": "x = 1\n"}


def test_a_batch_is_told_from_its_first_moment_to_its_last_and_feeds_the_score(cli, tmp_path, scripts):
    form = [_made("form"), TRESPASS, REFUSED, {"delete": "other.txt"}, {"spend": 0.5}, DONE]
    words = scripts(login__form=form, login__api=[{"run": handoff("task", "block", "no-key")}])
    source = manifest(tmp_path / "m.json", check="test -e src/form/made.py", split_rationale="two halves")
    assert "no batch yet" in cli("batch", "report", code=1).err
    cli("batch", "run", source, *words, code=1)
    found = cli("batch", "report", "login", "--json").json
    form, api = found["parts"]
    assert form["trespasses"] == ["other.txt"]
    assert (form["state"], form["changed"], form["said"]) == ("done", 1, "made it")
    assert (api["state"], api["why"]) == ("blocked", "no-key")
    assert found["fan_in"]["before"] == "red (exit 1)"
    assert found["cost"] == {"scripted": 0.5}
    assert [line["what"] for line in found["timeline"]][:2] == ["batch opened", "batch checked"]
    page = cli("batch", "report", "--markdown").out
    assert page.startswith("# Batch login: waits for you\n\ntwo halves\n")
    assert "| form | green | scripted | 1 |" in page
    assert "- **api** is blocked: no-key" in page
    assert "- **form** changed other.txt, which it does not own" in page
    shown = cli("batch", "report").out
    assert "**" not in shown
    assert "Amdahl's law allows" in shown
    (python,) = [row for row in cli("agent", "score", "--json").json if row["kind"] == "python"]
    assert (python["green"], python["first_try"], python["trespasses"]) == (1, 0, 1)
    assert "python" in cli("agent", "score").out


def test_sessions_that_still_work_count_until_now(cli, tmp_path):
    cli("dump", "--open-batch", manifest(tmp_path / "m.json"))
    for part in ("form", "api"):
        cli("task", "claim", part, "--session", f"s-{part}")
    found = cli("batch", "report", "login", "--json").json
    assert found["at_once"] == 2
    assert all(part["minutes"] > 0 for part in found["parts"])
    assert 1 < found["speedup"] <= 2, "two at once, one a moment after the other"
    assert "- **api** is running\n" in cli("batch", "report", "login", "--markdown").out, "that needs no reason"
    cli("task", "block", "no key", "--session", "s-form", "--task", "form")
    ended = [cli("batch", "report", "login", "--json").json["parts"] for _ in range(2)]
    assert ended[0][0]["minutes"] == ended[1][0]["minutes"], "what is over grows no longer"
    assert ended[0][1]["minutes"] < ended[1][1]["minutes"]


@pytest.mark.slow
def test_what_landed_has_the_agent_in_its_trailers_and_the_record_of_its_check(cli, repo, tmp_path, scripts):
    words = scripts(login__form=[_made("form"), DONE], login__api=[_made("api"), DONE], login_join=[DONE])
    source = manifest(tmp_path / "m.json", check="true")
    with open(source, encoding="utf-8") as file:
        value = json.load(file)
    for part in value["sub_tasks"]:
        part["check"] = f"test -s src/{part['id']}/made.py"
    with open(source, "w", encoding="utf-8") as file:
        json.dump(value, file)
    cli("batch", "run", source, *words)
    for commit in ("HEAD", "HEAD~1"):
        message = repo.git("log", "-1", "--format=%B", commit)
        assert "Handoff-Agent: scripted" in message
        part = message.partition(":")[0]
        assert f"Handoff-Check: test -s src/{part}/made.py (green)" in message
        assert message.split("\n\n")[1] == "made it"
        assert f"test -s src/{part}/made.py" in repo.git("notes", "--ref=handoff", "show", commit)


def test_land_as_a_request_pushes_a_branch_and_opens_it_with_gh_and_the_own_branch_stays(forge, cli, repo):
    _work(cli)
    forge.has("gh")
    before = repo.head()
    said = forge.cli()("land", "api", "--pr", "--check", "test -e api/main.py").out
    assert "Opened a request to take pr/api into main: https://forge.invalid/pull/7" in said
    called = forge.called()
    named = ["--head", "pr/api", "--base", "main", "--title", "Land api"]
    assert called["argv"] == ["pr", "create", *named, "--body-file", "-"]
    assert "Handoff-Workspace: api" in called["stdin"], "a forge that squashes keeps no trailers"
    assert repo.head() == before
    assert forge.origin.git("show", "pr/api:api/main.py") == "code = 1\n"
    again = forge.cli(STAND_IN="exists")("land", "api", "--pr").out
    assert "The request is up to date" in again


def test_glab_is_asked_with_its_own_words_where_it_is_what_there_is(forge, cli):
    _work(cli)
    forge.has("glab")
    forge.cli()("land", "api", "--pr")
    called = forge.called()
    assert called["argv"][:6] == ["mr", "create", "--source-branch", "pr/api", "--target-branch", "main"]
    assert called["argv"][-1] == "--yes"
    assert called["stdin"] == ""


@pytest.mark.parametrize(("part", "words"), [("login", "gh auth login"), ("none", "neither gh nor glab is installed")])
def test_a_program_that_fails_or_is_missing_leaves_the_line_to_run(forge, cli, part, words):
    _work(cli)
    if part != "none":
        forge.has("gh")
    said = forge.cli(STAND_IN=part)("land", "api", "--pr", code=1).out
    assert "Pushed pr/api, but " in said
    assert words in said
    assert "Open it yourself: gh pr create --head pr/api --base main" in said


def test_rubbish_is_told_and_a_push_that_is_refused_is_an_error(forge, cli, repo):
    _work(cli)
    forge.has("gh")
    assert "printed no address: ?!" in forge.cli(STAND_IN="rubbish")("land", "api", "--pr").out
    repo.git("remote", "set-url", "origin", "/nowhere/at/all")
    assert "could not be pushed" in forge.cli()("land", "api", "--pr", code=1).err
    assert "cannot be a dry run" in forge.cli()("land", "api", "--pr", "--dry-run", code=2).err


@pytest.mark.slow
def test_a_batch_that_has_landed_is_asked_for_with_its_report_as_the_text(forge, repo, tmp_path, scripts):
    words = scripts(login__form=[_made("form"), DONE], login__api=[_made("api"), DONE], login_join=[DONE])
    forge.has("gh")
    source = manifest(tmp_path / "m.json", split_rationale="Let people sign in")
    said = forge.cli()("batch", "run", source, *words, "--pr").out
    assert "Opened a request to take pr/login into main" in said
    called = forge.called()
    assert called["argv"][called["argv"].index("--title") + 1] == "Let people sign in"
    assert "# Batch login: landed" in called["stdin"]
    assert forge.origin.git("rev-parse", "pr/login").strip() == repo.head()
