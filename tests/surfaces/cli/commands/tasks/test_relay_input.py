"""Bad words in, one clear error out, and not a byte or a row is different."""

from __future__ import annotations

import json
import os
import resource
import signal

import pytest

from relay import here, manifest, tree
from sandbox import Cli


def home() -> str:
    return os.environ["HANDOFF_HOME"]


@pytest.fixture
def known(repo, monkeypatch):
    """A task that is there already."""
    monkeypatch.chdir(repo.path)
    assert here("dump", "--task", "known", "--next", "A task that is there.") == 0


D = ("dump", "--task", "next-one", "--next", "text")
BAD = [
    (("dump",), 2, "--task"),
    (("dump", "--task", "next-one"), 2, "--next"),
    (("dump", "--task", "x", "--next", "t"), 1, "2 to 60 characters"),
    (("dump", "--task", "a" * 61, "--next", "t"), 1, "2 to 60 characters"),
    (("dump", "--task", "../../x", "--next", "t"), 1, "lowercase letters"),
    (("dump", "--task", "Up", "--next", "t"), 1, "For example: up"),
    (("dump", "--task", "-x", "--next", "t"), 2, "expected one argument"),
    (("dump", "--task", "next-one", "--next", "  "), 1, "brief is empty"),
    ((*D, "--project", "../x"), 1, "cannot name a project"),
    ((*D, "--project", "sessions"), 1, "keeps its own files there"),
    ((*D, "--workspace", "/no/such/folder"), 1, "There is no folder"),
    ((*D, "--owns", "../x"), 1, "../x"),
    ((*D, "--owns", "/etc/passwd"), 1, "/etc/passwd"),
    ((*D, "--owns", ""), 1, "pattern"),
    ((*D, "--after", "nobody"), 1, "There is no task 'nobody'"),
    ((*D, "--status", "finished"), 2, "invalid choice"),
    ((*D, "--batch-id", "b1"), 1, "--batch-id goes with"),
    ((*D, "--batch-done"), 2, "--batch-id"),
    ((*D, "--batch-id", "nobatch", "--batch-done"), 1, "no batch 'nobatch'"),
    (("dump", "--task", "known", "--next", "t"), 4, "still ready"),
    (("dump", "--task", "known", "--status", "blocked"), 1, "why"),
    (("dump", "--open-batch", "missing.json"), 1, "missing.json"),
    (("batch", "open", "missing.json"), 1, "handoff batch example"),
    (("batch", "run", "missing.json", "--agents", "clade"), 1, "There is no agent 'clade'"),
    (("task", "claim", "--task", "nobody"), 1, "There is no task 'nobody'"),
    (("task", "claim", "--session", "../x"), 1, "not the id of a session"),
    (("heartbeat",), 1, "No claim of yours"),
    (("heartbeat", "complete"), 2, "wants one batch"),
    (("heartbeat", "status", "nobatch"), 2, "no batch 'nobatch'"),
    (("heartbeat", "dance", "here"), 2, "There is no heartbeat dance"),
    (("task", "done"), 1, "No claim of yours"),
    (("task", "done", "nobody"), 1, "There is no task 'nobody'"),
    (("task", "block"), 2, "REASON"),
    (("task", "block", "why", "--task", "nobody"), 1, "There is no task 'nobody'"),
    (("task", "release", "known"), 1, "Nobody here holds"),
    (("show", "nobody"), 1, "There is no task 'nobody'"),
    (("retry", "known"), 4, "only a blocked task"),
    (("cancel",), 2, "ADDRESS"),
    (("answer", "known", "yes"), 4, "waits for nobody's answer"),
    (("answer", "known", "no", "why"), 4, "waits for nobody's answer"),
    (("answer", "known", "no"), 2, "REASON"),
    (("pause", "b1", "--everything"), 2, "Choose one"),
    (("task", "list", "--state", "asleep"), 1, "'asleep' is not a state"),
    (("task", "open", "known", "--with", "magic"), 1, "'magic' is not a way"),
    (("watchdog", "--once", "--watch"), 2, "not allowed with"),
]


@pytest.mark.parametrize(("words", "code", "told"), BAD, ids=[" ".join(words)[:60] for words, _, _ in BAD])
def test_bad_words_change_nothing(cli, known, words, code, told):
    before = tree(home())
    answer = cli(*words, code=code)
    assert told in answer.err
    assert answer.err.startswith("Error: ")
    assert tree(home()) == before


BROKEN = {
    "overlap of patterns that do not exist yet": (
        {"parts": ("form", "api")},
        lambda m: m["sub_tasks"][1].update(file_ownership=[{"type": "glob", "path": "src/**/new.py"}]),
        ("sub_tasks[1].file_ownership[0].path", "'api'", "'form'", "sub_tasks[0]", "src/form/new.py"),
    ),
    "the same folder twice": (
        {},
        lambda m: m["sub_tasks"][1].update(file_ownership=[{"type": "prefix", "path": "./src/form/"}]),
        ("both own", "'api'", "'form'"),
    ),
    "circle": (
        {"depends": {"form": ["api"], "api": ["form"]}},
        lambda _: None,
        ("form -> api -> form",),
    ),
    "escape": (
        {},
        lambda m: m["sub_tasks"][0]["file_ownership"].append({"type": "exact", "path": "../../x"}),
        ("sub_tasks[0].file_ownership[1].path", "../../x"),
    ),
    "fan-in outside": ({}, lambda m: m.update(fan_in_task="../../../x"), ("fan_in_task", "../../../x")),
    "missing brief": ({}, lambda m: m["sub_tasks"][1].pop("brief"), ("sub_tasks[1].brief", "missing")),
    "pattern that is no pattern": (
        {},
        lambda m: m["sub_tasks"][1].update(file_ownership=[{"type": "glob", "path": "src/[a"}]),
        ("sub_tasks[1].file_ownership",),
    ),
    "a part that lives already": ({"parts": ("known", "api")}, lambda _: None, ("'known'", "still ready")),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_manifest_changes_nothing(cli, known, tmp_path, name):
    options, change, told = BROKEN[name]
    path = manifest(tmp_path / "m.json", **options)
    with open(path, encoding="utf-8") as file:
        value = json.load(file)
    change(value)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1)
    before = tree(home())
    answer = cli("dump", "--open-batch", path, code=4 if name.startswith("a part") else 1)
    for words in told:
        assert words in answer.err
    assert tree(home()) == before


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('uri_template = "vscode://{promt}"\n', "unknown name {promt}"),
        ("opener_ = 1\n", "unknown key 'opener_'"),
        ("[1, 2]\n", "config.toml"),
        ("max_running = -3\n", "'max_running' must be"),
    ],
)
def test_broken_settings_stop_a_dump_before_it_writes(cli, known, text, told):
    with open(os.path.join(home(), "config.toml"), "w", encoding="utf-8") as file:
        file.write(text)
    before = tree(home())
    answer = cli(*D, code=1)
    assert told in answer.err
    assert "config.toml" in answer.err
    assert tree(home()) == before


def test_a_dry_run_creates_nothing_at_all(cli, tmp_path):
    said = cli("dump", "--task", "form", "--next", "Build it.", "--owns", "src/", "--dry-run")
    assert "# Task `form`" in said.out
    cli("dump", "--open-batch", manifest(tmp_path / "m.json"), "--dry-run")
    assert not os.path.exists(home())


def test_a_home_that_cannot_be_made_is_an_error_that_names_it(repo, tmp_path):
    (tmp_path / "file").write_text("")
    cli = Cli(repo.path, HANDOFF_HOME=str(tmp_path / "file" / "home"))
    for words in (D, ("task", "claim"), ("task", "list"), ("watchdog",)):
        assert str(tmp_path / "file") in cli(*words, code=1).err


@pytest.mark.parametrize("limit", [0, 512, 8192])
def test_a_full_disk_is_an_error_and_leaves_no_half_task(cli, known, limit):
    before = cli("task", "list", "--json").json["tasks"]

    def small_disk():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    for words in (
        ("dump", "--task", "big-one", "--next", "y" * 9000),
        ("task", "claim", "known"),
        ("task", "done", "known"),
        ("task", "list"),
    ):
        process = cli.start(*words, preexec_fn=small_disk)
        _, error = process.communicate()
        assert process.returncode in ((1,) if words[1:] != ("list",) else (0, 1)), error
        assert b"Traceback" not in error
        assert b"fault of its own" not in error
    assert cli("task", "list", "--json").json["tasks"] == before


def test_files_that_cannot_be_written_do_not_hide_that_the_task_is_recorded(cli, known):
    queue = os.path.join(home(), "repo", "queue")
    os.rename(queue, queue + "-aside")
    with open(queue, "w", encoding="utf-8"):
        pass
    said = cli(*D, code=1)
    assert "Task next-one is recorded, but its files are not" in said.err
    assert "database files" in said.err
    os.unlink(queue)
    cli("database", "files")
    assert os.path.exists(os.path.join(queue, "next-one.md"))
