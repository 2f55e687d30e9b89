"""A batch from its manifest to its figures, in the older tool's words and in ours."""

from __future__ import annotations

import json
import os
import signal
import subprocess

import pytest

from handoff.base.markdown import BATON_MARK
from handoff.board.events import journal
from handoff.board.tasks import batches as board_batches
from relay import app, here, manifest


def home() -> str:
    return os.environ["HANDOFF_HOME"]


def folder(batch="login"):
    return os.path.join(home(), "repo", "batches", batch)


def queue(name):
    return os.path.join(home(), "repo", "queue", name)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def touch(path):
    with open(path, "w", encoding="utf-8"):
        pass


def report(cli, task, *, batch="login", kind="done", code=0, text="fine"):
    return cli("dump", "--task", task, "--batch-id", batch, f"--batch-{kind}", "--next", text, code=code)


@pytest.fixture
def opened(repo, tmp_path, monkeypatch):
    """A batch of two parts, opened."""
    monkeypatch.chdir(repo.path)
    assert here("dump", "--open-batch", manifest(tmp_path / "m.json")) == 0


def test_a_batch_is_opened_without_a_task_and_all_its_files_are_there(cli, tmp_path):
    said = cli("dump", "--open-batch", manifest(tmp_path / "m.json", depends={"api": ["form"]}, x_ticket="T-9"))
    assert "2 sub-tasks, 1 ready now" in said.out
    assert "x_ticket means nothing" in said.err
    kept = json.loads(read(os.path.join(folder(), "manifest.json")))
    assert kept["schema_version"] == 2
    assert kept["workspace"] == cli.folder
    assert kept["x_ticket"] == "T-9"
    assert kept["timeout_hours"] == 3
    assert "created_at" in kept
    lines = read(os.path.join(folder(), "form.env")).splitlines()
    assert lines[:3] == [
        "export HANDOFF_ROLE=sub-task",
        "export HANDOFF_BATCH_ID=login",
        "export HANDOFF_SUB_TASK_ID=form",
    ]
    assert lines[-1] == f'export PATH={home()}/guard/sub-task:"$PATH"'
    assert os.path.exists(queue("form.uri"))
    assert not os.path.exists(queue("api.uri"))
    baton = read(queue("form.md"))
    assert baton.startswith(f"{BATON_MARK}\n# Task `form` of project `repo`\n\n## Goal\nBuild form.\n")
    assert "- `api` owns `src/api/`: Build api." in baton
    assert "When all parts are done, `login-join` joins them" in baton
    assert "`src/form/`" in baton


def test_a_tab_that_sources_its_env_has_the_guarded_git(cli, repo, opened):
    env = os.path.join(folder(), "form.env")
    words = ["sh", "-c", '. "$1"; git status && git commit --allow-empty -m x', "sh", env]
    done = subprocess.run(words, cwd=repo.path, capture_output=True, text=True, check=False)
    assert done.returncode == 99
    assert "git commit" in done.stderr
    assert repo.git("rev-list", "--count", "HEAD").strip() == "1"


def test_a_batch_of_more_than_three_parts_is_nothing_special(cli, tmp_path):
    parts = [f"part-{number}" for number in range(120)]
    said = cli("dump", "--open-batch", manifest(tmp_path / "m.json", parts=parts))
    assert "120 sub-tasks, 120 ready now" in said.out
    assert os.path.exists(queue("part-119.uri"))


def test_the_last_part_opens_the_fan_in_and_its_baton_tells_of_all(cli, opened):
    assert "1 of 2 left" in report(cli, "form-done", text="12 tests").out
    assert read(os.path.join(folder(), "form.done")).startswith("sub_task_id: form\ncompleted_at: ")
    assert not os.path.exists(queue("form.uri"))
    assert not os.path.exists(queue("login-join.uri"))
    last = report(cli, "api", kind="blocked", text="no key")
    assert "login-join waits for your word" in last.out
    assert "login-join" in cli("gate", "list").out
    assert "reason: no key" in read(os.path.join(folder(), "api.blocked"))
    assert os.path.exists(os.path.join(folder(), "_fanin_triggered"))
    assert "HANDOFF_ROLE=fan-in" in read(os.path.join(folder(), "fan-in.env"))
    baton = read(queue("login-join.md"))
    assert "`form`: done, 12 tests" in baton
    assert "`api`: blocked, no key" in baton
    assert not os.path.exists(queue("login-join.uri"))
    cli("answer", "login-join", "yes")
    assert os.path.exists(queue("login-join.uri"))


def test_a_repeated_report_changes_nothing(cli, opened):
    report(cli, "form-done")
    assert "already" in report(cli, "form-done").out
    assert "1 of 2 left" in report(cli, "form").out


def test_an_unknown_part_is_refused_with_the_known_ones(cli, opened):
    assert "form, api" in report(cli, "frm-done", code=1).err


def test_a_part_whose_id_ends_in_done_is_itself(cli, tmp_path):
    cli("dump", "--open-batch", manifest(tmp_path / "m.json", parts=("half-done", "api")))
    assert "login/half-done is done" in report(cli, "half-done").out
    assert "1 of 2 left" in report(cli, "half-done-done").out


def test_touched_markers_count_like_reports(cli, opened):
    touch(os.path.join(folder(), "form.done"))
    with open(os.path.join(folder(), "api.blocked"), "w", encoding="utf-8") as file:
        file.write("reason: by hand\n")
    cli("watchdog")
    assert "done=1 blocked=1 expected=2 missing=none" in cli("heartbeat", "status", folder()).out
    assert cli("show", "login-join", "--json").json["state"] == "gated"
    assert cli("show", "login/api", "--json").json["reason"] == "by hand"


def test_a_stopped_batch_keeps_reports_and_gives_out_nothing(cli, opened):
    touch(os.path.join(folder(), "STOP"))
    assert "stopped" in cli("task", "open", "login/form", code=3).err
    assert "1 of 2 left" in report(cli, "form-done").out
    os.unlink(os.path.join(folder(), "STOP"))
    cli("task", "claim", "login/api")


def test_parts_reported_at_one_moment_open_one_fan_in(cli, repo, tmp_path, monkeypatch):
    monkeypatch.chdir(repo.path)
    parts = [f"part-{number}" for number in range(8)]
    here("dump", "--open-batch", manifest(tmp_path / "m.json", parts=parts))
    running = [
        cli.start("dump", "--task", f"{part}-done", "--batch-id", "login", "--batch-done", "--next", "x")
        for part in parts
    ]
    said = [process.communicate() for process in running]
    assert [process.returncode for process in running] == [0] * 8, said
    assert sum(b"login-join is ready" in out for out, _ in said) == 1
    joined = [event for event in journal.last(app().database, limit=1000) if event.kind == "batch.joined"]
    assert len(joined) == 1


def test_a_part_is_judged_on_its_ownership_but_not_on_its_neighbours_work(cli, repo, opened):
    repo.write("src/form/a.py", "")
    repo.write("src/api/b.py", "")
    assert "is done" in report(cli, "form-done").out
    repo.write("stray.txt", "")
    assert "stray.txt" in report(cli, "api-done", code=3).err


def test_the_fan_in_is_completed_once_and_measured_once(cli, opened):
    early = cli("heartbeat", "complete", folder(), code=3)
    assert "login/form, login/api not finished" in early.err
    report(cli, "form-done")
    report(cli, "api-done")
    cli("heartbeat", "complete", folder(), "--actual-minutes", "30", "--summary", "joined")
    assert "already" in cli("heartbeat", "complete", "login").out
    assert os.path.exists(os.path.join(folder(), "_fan_in_done"))
    (line,) = read(os.path.join(home(), "repo", "metrics.jsonl")).splitlines()
    figures = json.loads(line)
    assert (figures["batch_id"], figures["n_sub_tasks"], figures["estimated_minutes_sum"]) == ("login", 2, 20.0)
    assert figures["actual_minutes_sum"] == 30.0
    assert cli("heartbeat", "calibration", "repo").out == "1.500\n"
    assert cli("heartbeat", "calibration", "other").out == "1.000\n"


def test_the_next_batch_may_have_the_same_id(cli, opened, tmp_path):
    assert "still open" in cli("dump", "--open-batch", manifest(tmp_path / "m.json"), code=4).err
    for part in ("form", "api"):
        report(cli, part)
    cli("heartbeat", "complete", "login")
    cli("dump", "--open-batch", manifest(tmp_path / "m.json"))
    assert not os.path.exists(os.path.join(folder(), "form.done"))
    assert not os.path.exists(os.path.join(folder(), "_fan_in_done"))
    cli("cancel", "login")
    assert os.path.exists(os.path.join(folder(), "_aborted"))


def test_the_heartbeat_of_a_batch_holds_its_fan_in_until_it_is_told_to_end(cli, opened):
    report(cli, "form-done")
    report(cli, "api-done")
    monitor = cli.start("heartbeat", folder())
    try:
        assert b"You hold login-join" in monitor.stdout.readline()
        while not os.path.exists(queue("login-join.heartbeat")):
            assert monitor.poll() is None
        assert os.path.exists(os.path.join(folder(), "_fan_in_started"))
        monitor.send_signal(signal.SIGTERM)
        assert monitor.wait(20) == 0
    finally:
        monitor.kill()
        monitor.communicate()


def test_a_manifest_in_toml_opens_the_same_batch(cli, tmp_path):
    path = tmp_path / "m.toml"
    path.write_text(
        'schema_version = 2\nbatch_id = "login"\nfan_in_task = "login-join"\n'
        '[[sub_tasks]]\nid = "form"\nbrief = "x"\nfile_ownership = [{ type = "exact", path = "app/[id]/page.tsx" }]\n'
        '[[sub_tasks]]\nid = "api"\nbrief = "x"\nfile_ownership = [{ type = "prefix", path = "src/" }]\n'
    )
    cli("dump", "--open-batch", str(path))
    batch = board_batches.find(app().database, project="repo", id="login")
    assert batch.total == 2
    assert cli("show", "login/form", "--json").json["owns"] == [r"app/\[id]/page.tsx"]
