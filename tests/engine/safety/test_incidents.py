"""Incidents: every kind really done, told once, with a command that really fixes it; a normal day makes none."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys

import pytest

from handoff.board.events import incidents as board
from handoff.board.events import journal
from handoff.board.sessions import leases, sessions
from handoff.board.tasks import outcomes, tasks
from handoff.engine.place import landing, task_clones, workspaces
from handoff.engine.safety import detectors, incidents, snapshots
from handoff.engine.supervisor import watchdog
from handoff.git.workspaces import WorkspaceRequest
from relay import app, here, manifest
from snapshot_archive import tree_facts


@pytest.fixture(autouse=True)
def _in_repo(repo, monkeypatch, tmp_path):
    """The repository, and `handoff` on the PATH as the fixing commands call it."""
    monkeypatch.chdir(repo.path)
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "handoff"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m handoff.surfaces.cli.main "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@pytest.fixture
def watched(repo):
    """A repository with a past, a branch, a stash and a hook, and a workspace somebody works in."""
    repo.write("src/a.py", "a = 1\n")
    repo.write("src/b.py", "b = 1\n")
    repo.commit("second")
    repo.git("branch", "topic")
    repo.write("src/a.py", "a = 2\n")
    repo.commit("third")
    repo.write("src/b.py", "b = stashed\n")
    repo.git("stash", "push", "-q")
    hook = repo.write(".git/hooks/pre-commit", "#!/bin/sh\nexit 0\n")
    os.chmod(hook, 0o755)
    workspaces.add_workspace(app(), order=WorkspaceRequest("alpha", owns=("src/**",)))
    return repo


def look():
    """One look; the new incidents."""
    before = {one.id for one in incidents.listing(app(), include_ended=True)}
    incidents.look(app())
    return [one for one in incidents.listing(app(), include_ended=True) if one.id not in before]


def only(kind):
    (found,) = look()
    assert found.kind == kind, found
    assert f"incident.{kind}" in [event.kind for event in journal.last(app().database)]
    assert look() == []  # told once
    return found


def refs(repo):
    lines = repo.git("for-each-ref", "--format=%(objectname) %(refname)").splitlines()
    return [line for line in lines if "refs/handoff" not in line] + repo.git(
        "reflog", "show", "refs/stash", check=False
    ).splitlines()


def append(path, text):
    with open(path, "a", encoding="utf-8") as file:
        file.write(text)


def content(path):
    with open(path, "rb") as file:
        return file.read()


def fix(incident):
    done = subprocess.run(["sh", "-c", incident.fix], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{incident.fix}\n{done.stderr}"
    assert look() == []
    assert incidents.find(app(), id=incident.id).resolved == "fixed"
    return done


# --- what the watcher notices --------------------------------------------------------------------------------


def test_a_branch_moved_back_is_noticed_and_its_newest_commit_comes_back(watched):
    watched.write("src/a.py", "a = 3\n")
    newest = watched.commit("made after the last look")
    before, files = refs(watched), tree_facts(watched.path)
    watched.git("reset", "-q", "--soft", "HEAD~2")
    found = only("ref-moved")
    assert found.evidence["old"] == newest
    assert shlex.split(found.fix)[:2] == ["git", "-C"]
    fix(found)
    assert refs(watched) == before
    assert tree_facts(watched.path) == files
    assert watched.git("status", "--porcelain") == ""


def test_a_rewritten_commit_is_noticed_even_when_its_objects_were_thrown_away(watched):
    watched.git("stash", "drop", "-q")  # it stands on the commit that goes
    look()
    before = refs(watched)
    watched.git("commit", "-q", "--amend", "-m", "mine now")
    watched.git("reflog", "expire", "--expire=now", "--all")
    watched.git("gc", "-q", "--prune=now")
    moved = [one for one in look() if one.kind == "ref-moved"]
    assert "handoff" in moved[0].fix
    subprocess.run(["sh", "-c", moved[0].fix], check=True, capture_output=True)
    assert watched.git("rev-parse", "main").strip() in "\n".join(before)
    watched.git("fsck", "--connectivity-only")


def test_a_deleted_branch_comes_back(watched):
    watched.git("checkout", "-q", "topic")
    watched.write("only-here.txt", "x\n")
    watched.commit("work nobody else has")
    watched.git("checkout", "-q", "main")
    look()
    before = refs(watched)
    watched.git("branch", "-q", "-D", "topic")
    fix(only("ref-deleted"))
    assert refs(watched) == before


def test_the_branch_of_one_that_lost_a_race_may_go_and_that_of_another_task_may_not(watched):
    own = app()
    for kind, incident in ((tasks.ENTRANT, False), (tasks.TASK, True)):
        task = tasks.add(own.database, project="repo", id=f"work-{kind}", brief="Run.", kind=kind)
        outcomes.cancel(own.database, key=task.key, reason="the race is over")
        branch = f"handoff/{task_clones.name_of(task)}"
        watched.git("checkout", "-q", "-b", branch)
        watched.write("lost.txt", kind)
        watched.commit(f"lost by {kind}")
        watched.git("checkout", "-q", "-")
        look()
        watched.git("branch", "-q", "-D", branch)
        assert [one.kind for one in look()] == (["ref-deleted"] if incident else []), kind
    own.close()


def test_a_planted_replacement_of_a_commit_is_noticed_and_taken_away(watched):
    before = refs(watched)
    watched.git("replace", "HEAD", "HEAD~1")
    assert refs(watched) != before
    fix(only("ref-planted"))
    assert refs(watched) == before


def test_a_dropped_stash_comes_back(watched):
    before = refs(watched)
    watched.git("stash", "drop", "-q")
    fix(only("stash-lost"))
    assert refs(watched) == before
    assert watched.git("stash", "show", "-p").count("b = stashed") == 1


@pytest.mark.parametrize("how", ["changed", "removed", "planted"])
def test_a_hook_is_as_it_was_after_the_fixing(watched, how):
    hooks = os.path.join(watched.path, ".git", "hooks")
    before = content(os.path.join(hooks, "pre-commit"))
    if how == "changed":
        watched.write(".git/hooks/pre-commit", "#!/bin/sh\nrm -rf important\n")
    elif how == "removed":
        os.unlink(os.path.join(hooks, "pre-commit"))
    else:
        os.chmod(watched.write(".git/hooks/post-commit", "#!/bin/sh\nexit 1\n"), 0o755)
    fix(only("hook-changed"))
    assert content(os.path.join(hooks, "pre-commit")) == before
    assert os.access(os.path.join(hooks, "pre-commit"), os.X_OK)
    assert not os.path.exists(os.path.join(hooks, "post-commit"))


def test_settings_that_run_programs_or_lead_elsewhere_are_noticed(watched):
    config = os.path.join(watched.path, ".git", "config")
    before = content(config)
    watched.git("config", "core.fsmonitor", "rm -rf .")
    found = only("config-changed")
    assert list(found.evidence["changed"]) == ["core.fsmonitor"]
    fix(found)
    assert content(config) == before


def test_wiped_documents_come_back_also_where_git_ignores_them(watched):
    here("init", "login")
    watched.write(".git/info/exclude", ".handoff/\n")
    look()
    before = tree_facts(watched.path)
    shutil.rmtree(os.path.join(watched.path, ".handoff", "features"))
    fix(only("state-wiped"))
    assert tree_facts(watched.path) == before


def test_a_workspace_that_vanished_is_made_again_with_all_it_held(watched):
    place = workspaces.workspace_of(app(), name="alpha")
    append(os.path.join(place.tree, "src", "a.py"), "more = True\n")
    snapshot_store = workspaces.snapshot_store_of(app(), workspace=place)
    snapshots.snapshot(app(), snapshot_store=snapshot_store, request=snapshots.SnapshotRequest("interval"))
    before = tree_facts(place.tree)
    shutil.rmtree(place.folder)
    fix(only("workspace-gone"))
    assert tree_facts(place.tree) == before
    git = ["git", "-C", place.tree, "status", "--porcelain", "--branch"]
    said = subprocess.run(git, capture_output=True, text=True, check=True).stdout
    assert said.splitlines() == ["## handoff/alpha", " M src/a.py"]


def test_a_worktree_that_vanished_is_made_again_on_its_own_branch(watched):
    workspaces.add_workspace(app(), order=WorkspaceRequest("beta", kind="worktree", owns=("src/**",)))
    place = workspaces.workspace_of(app(), name="beta")
    before = tree_facts(place.tree)
    shutil.rmtree(place.folder)
    fix(only("workspace-gone"))
    assert tree_facts(place.tree) == before


@pytest.mark.parametrize("kind", ["clone", "worktree"])
def test_a_workspace_that_comes_or_is_removed_during_a_look_is_no_incident(watched, kind):
    workspaces.add_workspace(app(), order=WorkspaceRequest("beta", kind=kind))
    (began,) = detectors.watched_repositories(app())
    before = detectors.facts(app(), began, {})
    workspaces.remove_workspace(app(), name="beta", accept=False)
    now = detectors.facts(app(), began, before)
    assert detectors.find_vanished(app(), began, before, now) == []
    assert ("refs/heads/handoff/beta", "") in detectors.our_moves(began, before, now)
    (began,) = detectors.watched_repositories(app())
    workspaces.add_workspace(app(), order=WorkspaceRequest("gamma", kind=kind))
    (later,) = detectors.watched_repositories(app())
    newer = detectors.facts(app(), later, now)
    assert detectors.find_vanished(app(), began, newer, detectors.facts(app(), began, newer)) == []


def test_wiped_files_of_the_home_are_noticed(watched, tmp_path):
    here("dump", "--task", "form", "--next", "Build it.")
    here("dump", "--open-batch", manifest(tmp_path / "m.json", batch="split", parts=("one", "two")))
    here("git-guard", "env", "--role", "sub-task")
    look()
    home = os.environ["HANDOFF_HOME"]
    shutil.rmtree(os.path.join(home, "repo", "queue"))
    shutil.rmtree(os.path.join(home, "guard", "sub-task"))
    shutil.rmtree(os.path.join(home, "repo", "batches", "split"))
    found = look()
    assert {one.kind for one in found} == {"home-wiped"}
    assert len(found) == 3
    assert any("batch split is gone" in one.what for one in found)
    for one in found:
        subprocess.run(["sh", "-c", one.fix], check=True, capture_output=True)
    assert os.path.exists(os.path.join(home, "repo", "queue", "form.md"))
    assert os.path.exists(os.path.join(home, "guard", "sub-task", "git"))
    assert os.path.exists(os.path.join(home, "repo", "batches", "split", "one.env"))
    assert look() == []
    assert [incidents.find(app(), id=one.id).resolved for one in found] == ["fixed", "fixed", "fixed"]


def test_the_folder_of_a_batch_that_is_gone_before_the_first_look_is_noticed_once(repo, tmp_path, monkeypatch):
    monkeypatch.chdir(repo.path)
    here("dump", "--open-batch", manifest(tmp_path / "m.json", batch="split", parts=("one", "two")))
    folder = os.path.join(os.environ["HANDOFF_HOME"], "repo", "batches", "split")
    shutil.rmtree(folder)
    (found,) = look()
    assert found.kind == "home-wiped"
    assert "batch split is gone" in found.what
    assert look() == []
    subprocess.run(["sh", "-c", found.fix], check=True, capture_output=True)
    assert os.path.exists(os.path.join(folder, "one.env"))
    assert look() == []
    assert incidents.find(app(), id=found.id).resolved == "fixed"


def test_a_commit_that_takes_in_what_a_session_is_at_work_on_is_noticed(watched):
    task = tasks.add(
        app().database, project="repo", id="form", brief="Build it.", workspace=watched.path, owns=("src/**",)
    )
    leases.claim(
        app().database, key=task.key, who=sessions.SessionIdentity("s-form", project="repo", workspace=watched.path)
    )
    look()
    tip = watched.head()
    watched.write("src/a.py", "a = half done\n")
    files = tree_facts(watched.path)
    watched.write("notes.txt", "mine\n")
    watched.commit("took everything")
    found = only("foreign-commit")
    assert found.session == "s-form"
    assert found.evidence["paths"] == ["src/a.py"]
    fix(found)
    assert watched.head() == tip
    assert {name: value for name, value in tree_facts(watched.path).items() if name != "notes.txt"} == files


def test_a_part_that_commits_past_the_guard_is_noticed_from_its_claim_on(repo, cli, tmp_path):
    cli("dump", "--open-batch", manifest(tmp_path / "m.json"))
    cli("task", "claim", "login/form")
    tip = repo.head()
    repo.write("src/form/made.py", "made = 1\n")
    repo.git("add", "src/form/made.py")
    environment = {**os.environ, "HANDOFF_ROLE": "sub-task"}
    line = ["git", "-C", repo.path, "-c", f"core.hooksPath={os.devnull}", "commit", "-qm", "past the guard"]
    subprocess.run(line, env=environment, check=True)
    found = only("foreign-commit")
    assert found.evidence["paths"] == ["src/form/made.py"]
    fix(found)
    assert repo.head() == tip
    assert repo.read("src/form/made.py") == "made = 1\n"


def test_a_commit_of_a_session_outside_its_ownership_is_noticed(watched):
    place = workspaces.workspace_of(app(), name="alpha")

    def git(*words):
        return subprocess.run(["git", "-C", place.tree, *words], capture_output=True, text=True, check=True).stdout

    for name in ("src/a.py", "README.md"):
        append(os.path.join(place.tree, name), "more\n")
    before = git("rev-parse", "HEAD")
    git("commit", "-qam", "all of it")
    found = only("foreign-commit")
    assert found.evidence["paths"] == ["README.md"]
    fix(found)
    assert git("rev-parse", "HEAD") == before


# --- what guards refused -------------------------------------------------------------------------------------


def guarded(repo, *words, **more):
    environment = {**os.environ, "HANDOFF_SESSION": "s-9", "HANDOFF_PROJECT": "repo", **more}
    line = f'eval "$(handoff git-guard env --role sub-task)"; {shlex.join(words)}'
    return subprocess.run(
        ["sh", "-c", line], cwd=repo.path, env=environment, capture_output=True, text=True, check=False
    )


def test_what_the_shim_refused_is_an_incident_once_whoever_looks_first(watched, cli):
    assert guarded(watched, "git", "reset", "--hard", "HEAD~1").returncode == 99
    assert guarded(watched, "git", "commit", "-m", "x").returncode == 99
    running = [cli.start("watchdog", "--once") for _ in range(3)]
    assert [process.wait() for process in running] == [0, 0, 0]
    for process in running:
        process.communicate()
    found = incidents.listing(app())
    assert sorted(one.evidence["command"] for one in found) == ["commit", "reset"]
    assert {one.session for one in found} == {"s-9"}
    assert all(one.fix for one in found)
    assert look() == []
    here("incident", "seen", "all")
    assert incidents.listing(app()) == []


def test_what_a_hook_and_safe_commit_refused_is_told_too(watched, cli):
    here("git-guard", "install")
    real = shutil.which("git")
    watched.write("x.txt", "x\n")
    watched.git("add", "x.txt")
    assert guarded(watched, real, "commit", "-m", "x").returncode == 1
    cli.environment.update(HANDOFF_ROLE="sub-task", HANDOFF_SESSION="s-9", HANDOFF_PROJECT="repo")
    cli("safe-commit", "-m", "x", "--", "x.txt", code=99)
    cli.environment.update(HANDOFF_ROLE="main", HANDOFF_OWNS="src/**")
    cli("safe-commit", "-m", "x", "--", "x.txt", code=1)
    layers = sorted(one.evidence["layer"] for one in look())
    assert layers == ["hook pre-commit", "safe-commit", "safe-commit"]


def test_a_half_written_line_waits_and_a_killed_reader_tells_nothing_twice(watched):
    guard_log = os.path.join(os.environ["HANDOFF_HOME"], "guard", "refused.log")
    os.makedirs(os.path.dirname(guard_log), exist_ok=True)
    line = "2026-11-15T08:00:00Z\tsub-task\tpush\t/x\ts-1\trepo\tshim\tfinish the task\n"
    with open(guard_log, "w", encoding="utf-8") as file:
        file.write(line + line[:20])
    assert len(look()) == 1
    with open(guard_log, "a", encoding="utf-8") as file:
        file.write(line[20:])
    assert len(look()) == 1
    assert look() == []
    os.unlink(guard_log)
    with open(guard_log, "w", encoding="utf-8") as file:
        file.write(line)
    assert len(look()) == 1  # the very same words once more are another refusal


def test_behind_a_sandbox_the_refusal_is_written_in_the_clone_and_its_words_are_not_believed(watched):
    place = workspaces.workspace_of(app(), name="alpha")
    more = {"HANDOFF_WORKSPACE": place.tree, "HANDOFF_HOME": "/proc/none"}
    shim = os.path.join(os.environ["HANDOFF_HOME"], "guard", "sub-task")
    here("git-guard", "env", "--role", "sub-task")
    environment = {**os.environ, **more, "PATH": f"{shim}:{os.environ['PATH']}"}
    done = subprocess.run(["git", "push"], cwd=place.tree, env=environment, capture_output=True, check=False)
    assert done.returncode == 99
    with open(os.path.join(place.tree, ".git", "handoff-refused"), "a", encoding="utf-8") as file:
        file.write("2026-11-15T08:00:00Z\tmain\tclean\t/x\tanother-session\tanother-project\tshim\tx\n")
    found = look()
    assert {(one.project, one.session) for one in found} == {("repo", "alpha")}


def test_a_bare_commit_from_an_old_index_that_reverts_a_safe_commit_is_told_with_what_brings_it_back(watched):
    old = watched.git("ls-files", "-s", "src/b.py").split()[1]
    watched.write("src/b.py", "b = 2\n")
    here("safe-commit", "-m", "ours", "--", "src/b.py")
    assert look() == []
    watched.git("update-index", "--cacheinfo", f"100644,{old},src/b.py")  # as a git that had read it before
    watched.git("commit", "-q", "--allow-empty", "-m", "bare")
    found = only("commit-reverted")
    assert "src/b.py" in found.what
    fix(found)
    assert watched.git("show", "HEAD:src/b.py") == "b = 2\n"
    watched.git("revert", "--no-edit", "HEAD")  # what somebody means to take back is no incident
    assert look() == []


def test_a_branch_whose_content_has_landed_may_go_and_one_that_holds_more_may_not(watched):
    for name, text in (("handoff/landed-1", "landed\n"), ("handoff/lost-2", "nowhere else\n")):
        watched.git("checkout", "-q", "-b", name, "main")
        watched.write(f"{name[8:]}.txt", text)
        watched.commit(f"Work of {name}")
    watched.git("checkout", "-q", "main")
    watched.write("landed-1.txt", "landed\n")
    watched.commit("the same content, another commit")
    look()
    for name in ("handoff/landed-1", "handoff/lost-2"):
        watched.git("branch", "-q", "-D", name)
    found = only("ref-deleted")
    assert found.evidence["ref"] == "refs/heads/handoff/lost-2"
    fix(found)


# --- a normal day --------------------------------------------------------------------------------------------


def test_a_normal_day_makes_no_incident(watched, tmp_path):
    bare = str(tmp_path / "bare.git")
    watched.git("clone", "-q", "--bare", ".", bare)
    here("git-guard", "install")
    place = workspaces.workspace_of(app(), name="alpha")
    days = [
        lambda: here("safe-commit", "-m", "mine", "--", watched.write("docs.md", "words\n")),
        lambda: (watched.write("README.md", "# new\n"), watched.commit("the person's own")),
        lambda: watched.git("checkout", "-q", "topic"),
        lambda: watched.git("checkout", "-q", "-b", "fresh"),
        lambda: (watched.write("f.txt", "f\n"), watched.commit("on a branch")),
        lambda: watched.git("checkout", "-q", "main"),
        lambda: watched.git("merge", "-q", "--no-edit", "fresh"),
        lambda: watched.git("branch", "-q", "-d", "fresh"),
        lambda: watched.git("remote", "add", "up", bare),
        lambda: watched.git("fetch", "-q", "up"),
        lambda: watched.git("push", "-q", "-u", "up", "main"),
        lambda: watched.git("tag", "v1"),
        lambda: watched.git("stash", "push", "-q", "-u") if watched.git("status", "--porcelain") else "",
        lambda: watched.git("gc", "-q", "--prune=now"),
        lambda: watched.git("pack-refs", "--all"),
        lambda: append(os.path.join(place.tree, "src", "a.py"), "z = 1\n"),
        lambda: landing.land(app(), names=["alpha"]),
        lambda: here("undo"),
        lambda: landing.land(app(), names=["alpha"]),
        lambda: here("init", "login"),
        lambda: here("git-guard", "uninstall"),
        lambda: here("workspace", "remove", "alpha"),
    ]
    for number, step in enumerate(days):
        step()
        assert look() == [], number
    assert watchdog.look(app()).incidents == 0


def test_a_person_who_is_alone_may_do_whatever_they_like(watched):
    here("workspace", "remove", "alpha")
    assert look() == []
    watched.git("reset", "-q", "--hard", "HEAD~1")
    watched.git("stash", "drop", "-q")
    watched.git("config", "core.pager", "less")
    assert look() == []
    assert board.count(app().database) == 0


def test_the_command_shows_them_and_status_says_that_there_are_some(watched, cli):
    here("init", "login")
    look()
    assert "Incidents" not in cli("status").out
    watched.git("stash", "drop", "-q")
    said = cli("incident", "list").out
    assert "stash-lost" in said
    assert "Fix: handoff -C" in said
    assert "handoff show i-" in cli("status").out
    (one,) = cli("incident", "list", "--json").json["incidents"]
    assert one["evidence"]["lost"]
    assert one["fix"] in cli("show", one["id"][:8]).out
    assert cli("incident", "list", "--session", "nobody", "--json").json["incidents"] == []
    assert "1 incident seen" in cli("incident", "seen", one["id"]).out
    assert "No new incidents" in cli("incident", "list").out
    assert "(seen)" in cli("incident", "list", "--all").out
    assert "There is no incident" in cli("show", "i-nothing", code=1).err
