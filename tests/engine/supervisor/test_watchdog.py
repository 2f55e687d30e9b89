"""One round of the watchdog: silent and dead sessions, attempts, markers, and two rounds at once."""

from __future__ import annotations

import os
import subprocess

import pytest

from handoff.base.clock import boot_id
from handoff.base.errors import Conflict
from handoff.base.process import start_of
from handoff.board import gates
from handoff.board.events import journal
from handoff.board.sessions import leases, sessions
from handoff.board.tasks import tasks
from handoff.engine.place.fanout import views
from handoff.engine.supervisor import watchdog
from relay import app, here

SILENT = "0.001"  # a lease that is over before the next command begins


@pytest.fixture(autouse=True)
def _in_repo(repo, monkeypatch):
    monkeypatch.chdir(repo.path)
    assert here("dump", "--task", "form", "--next", "Build the form.") == 0


def form():
    return tasks.find(app().database, project="repo", id="form")


def kinds():
    return [event.kind for event in journal.last(app().database, limit=1000)]


def baton():
    with open(os.path.join(os.environ["HANDOFF_HOME"], "repo", "queue", "form.md"), encoding="utf-8") as file:
        return file.read()


def test_a_silent_session_loses_its_task_and_the_next_one_is_told():
    here("task", "claim", "--lease", SILENT)
    found = watchdog.look(app())
    assert [task.id for task in found.report.freed] == ["form"]
    assert form().state == "ready"
    assert "This is attempt 2 of 3." in baton()
    assert "no sign of life" in baton()
    assert watchdog.look(app()).quiet


def test_a_session_that_was_only_slow_may_still_report_when_nobody_took_its_task():
    here("task", "claim", "--lease", SILENT)
    watchdog.look(app())
    assert here("task", "done") == 0
    assert form().state == "done"


def test_after_the_last_attempt_the_task_is_blocked_with_the_reason():
    for _ in range(3):
        here("task", "claim", "--lease", SILENT)
        found = watchdog.look(app())
    assert [task.id for task in found.report.blocked] == ["form"]
    assert form().state == "blocked"
    assert "attempt 3 of 3" in form().reason


def test_watchdogs_that_run_at_once_free_a_task_once(cli):
    here("task", "claim", "--lease", SILENT)
    running = [cli.start("watchdog", "--once") for _ in range(4)]
    said = [process.communicate() for process in running]
    assert [process.returncode for process in running] == [0] * 4, said
    assert kinds().count("task.expired") == 1
    assert form().attempt == 2


def claim_by(pid, start, boot=None):
    who = sessions.SessionIdentity(
        "s-1", host=os.uname().nodename, pid=pid, process_start=start, boot=boot or boot_id()
    )
    return leases.claim(app().database, key=form().key, who=who)


def test_a_dead_process_frees_its_task_before_the_lease_ends():
    with subprocess.Popen(["sleep", "60"]) as process:
        claim_by(process.pid, start_of(process.pid))
        assert watchdog.look(app()).report.freed == ()
        process.kill()
        process.wait()
    assert [task.id for task in watchdog.look(app()).report.freed] == ["form"]


def test_another_process_with_the_same_number_is_not_taken_for_the_session():
    claim_by(os.getpid(), "1")
    assert [task.id for task in watchdog.look(app()).report.freed] == ["form"]


def test_a_process_of_an_earlier_boot_is_gone():
    claim_by(os.getpid(), start_of(os.getpid()), boot="another boot")
    assert [task.id for task in watchdog.look(app()).report.freed] == ["form"]


def test_a_row_without_its_files_gets_them_in_the_next_round():
    tasks.add(app().database, project="repo", id="lost", brief="Written, then the power went.", workspace="/tmp")
    assert watchdog.look(app()).files == 2
    assert os.path.exists(os.path.join(os.environ["HANDOFF_HOME"], "repo", "queue", "lost.md"))
    assert views.refresh(app(), "repo") == 0


def test_files_of_another_database_are_rebuilt(monkeypatch, tmp_path):
    monkeypatch.setenv("HANDOFF_DATABASE_URL", f"sqlite:///{tmp_path}/other.db")
    here("dump", "--task", "form", "--next", "The form of the other database.")
    assert "the other database" in baton()


def test_a_gate_is_answered_once_from_the_command_line(cli, capsys):
    gates.ask(app().database, key=form().key, question="Ship it?")
    assert "Ship it?" in cli("gate", "list").out
    assert "form is ready" in cli("answer", "form", "yes").out
    assert "already approved" in cli("answer", "form", "yes", code=4).err
    gates.ask(app().database, key=form().key, question="Really?")
    assert "form is blocked" in cli("answer", "form", "no", "not on a Friday").out
    assert "not on a Friday" in cli("show", "form").out
    assert cli("gate", "list").out == "Nothing waits for your answer.\n"


def test_a_cancelled_session_is_told_at_its_next_word():
    here("task", "claim")
    here("cancel", "form")
    with pytest.raises(Conflict):
        leases.heartbeat(app().database, key=form().key, fence=1)
    assert here("heartbeat") == 1


def test_a_touched_marker_is_taken_in_between_two_looks_of_the_watchdog(cli):
    watcher = cli.start("watchdog", "--watch", "--every", "3600")
    try:
        while b"[watchdog]" not in (line := watcher.stdout.readline()):
            assert line
        with open(os.path.join(os.environ["HANDOFF_HOME"], "repo", "queue", "form.done"), "w", encoding="utf-8"):
            pass
        assert b"form is done" in watcher.stdout.readline()
    finally:
        watcher.terminate()
        watcher.communicate()
    assert form().state == "done"
