"""A workspace has everything of its own, starts from what was asked, and leaves nothing behind unsaved."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys

import pytest

from handoff.base.errors import Conflict, UserError
from handoff.engine.place import landing
from handoff.engine.place import workspaces as engine
from handoff.engine.safety import snapshots as snapshot_engine
from handoff.git.snapshots.take import DAY, RetentionRules, expendable
from handoff.git.workspaces import WorkspaceRequest, all_workspaces
from sandbox import Repo
from snapshot_archive import SnapshotArchive, tree_facts


@pytest.fixture
def archive(repo):
    return SnapshotArchive(repo.path)


@pytest.fixture
def add(archive):
    def make(name="one", **order):
        setup = order.pop("setup", "")
        made = engine.add_workspace(
            archive.app, order=WorkspaceRequest(name, **order), snapshot_store=archive.snapshot_store, setup=setup
        )
        return Repo(made.workspace.tree)

    return make


def remove(archive, name="one", **options):
    return engine.remove_workspace(archive.app, name=name, snapshot_store=archive.snapshot_store, **options)


def test_a_clone_shares_no_ref_no_stash_no_setting_no_file(repo, archive, add):
    repo.write("a.txt", "a\n")
    repo.commit("two")
    shared = [repo.git("for-each-ref"), repo.read(".git/config"), repo.git("rev-parse", "HEAD")]
    clone = add()
    assert clone.head() == repo.head()
    assert clone.git("status", "--porcelain") == ""
    clone.write("a.txt", "changed\n")
    clone.git("stash", "-q")
    clone.git("config", "core.editor", "evil")
    clone.write("b.txt", "b\n")
    clone.commit("in the clone")
    clone.git("branch", "-f", "main", "HEAD")
    assert [repo.git("for-each-ref"), repo.read(".git/config"), repo.git("rev-parse", "HEAD")] == shared
    assert repo.git("status", "--porcelain") == ""
    for folder, _, files in os.walk(os.path.join(clone.path, ".git", "objects")):
        for name in files:
            assert os.stat(os.path.join(folder, name)).st_nlink == 1


@pytest.mark.parametrize("attributes", ["", "* text eol=crlf\n", "* text=auto\n", "*.txt filter=loud\n"])
def test_the_first_snapshot_of_a_clone_is_what_was_laid_out_and_the_next_sees_a_change_of_the_same_second(
    repo, archive, add, attributes
):
    repo.write("a.txt", "a\n")
    repo.write("tool.sh", "true\n")
    os.chmod(os.path.join(repo.path, "tool.sh"), 0o755)
    os.symlink("a.txt", os.path.join(repo.path, "link"))
    if attributes:
        repo.write(".gitattributes", attributes)
    repo.git("config", "filter.loud.smudge", "tr a-z A-Z")  # other bytes, and as many
    repo.commit("two")
    clone = add()
    laid_out, own = tree_facts(clone.path), SnapshotArchive(clone.path)
    (start,) = snapshot_engine.listing(own.app, snapshot_store=own.snapshot_store, workspace="one")
    assert own.content(start, "a.txt") == laid_out["a.txt"][1]
    assert {name: own.files(start)[name] for name in ("a.txt", "tool.sh", "link")} == {
        "a.txt": "100644",
        "tool.sh": "100755",
        "link": "120000",
    }
    other = b"b" + own.content(start, "a.txt")[1:]  # the same size, and git tells times by the second
    clone.write("a.txt", other)
    os.chmod(os.path.join(clone.path, "tool.sh"), 0o644)
    clone.write("new.txt", "new\n")
    after = own.take()
    assert own.content(after, "a.txt") == other
    assert own.files(after)["tool.sh"] == "100644"
    assert "new.txt" in own.files(after)
    own.restore(start, exact=True)
    assert tree_facts(clone.path) == laid_out
    assert archive.sound()


def test_a_push_from_a_clone_goes_nowhere(repo, add):
    clone = add()
    clone.write("b.txt", "b\n")
    clone.commit("in the clone")
    head = repo.head()
    clone.git("push", "-q", "origin", "HEAD:main", check=False)
    clone.git("push", "-q", "origin", "HEAD:refs/heads/x", check=False)
    assert repo.head() == head
    assert repo.git("branch", "--list", "x") == ""


def test_a_clone_outlives_history_rewriting_and_collection_in_the_checkout(repo, add):
    repo.write("a.txt", "a\n")
    repo.commit("two")
    clone = add()
    repo.git("reset", "-q", "--hard", "HEAD~1")
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("gc", "-q", "--prune=now")
    shutil.rmtree(os.path.join(repo.path, ".git", "objects"))
    assert clone.git("log", "--format=%s").split() == ["two", "first"]
    clone.git("fsck", "--full")


def test_the_person_s_dirty_tree_is_replayed_and_stays_as_it_is(repo, add):
    repo.write("tracked.txt", "one\n")
    repo.write("removed.txt", "x\n")
    repo.commit("two")
    repo.write("tracked.txt", "staged\n")
    repo.git("add", "tracked.txt")
    repo.write("tracked.txt", "dirty\n")
    os.unlink(os.path.join(repo.path, "removed.txt"))
    repo.write("untracked.txt", "u\n")
    before = (
        tree_facts(repo.path),
        repo.git("status", "--porcelain"),
        repo.git("ls-files", "-s"),
        repo.git("stash", "list"),
    )
    clone = add(base="dirty")
    after = (
        tree_facts(repo.path),
        repo.git("status", "--porcelain"),
        repo.git("ls-files", "-s"),
        repo.git("stash", "list"),
    )
    assert before == after
    assert tree_facts(clone.path) == tree_facts(repo.path)
    assert clone.git("status", "--porcelain") == ""
    assert clone.git("rev-parse", "HEAD~1").strip() == repo.head()


def test_an_unborn_repository_can_only_be_replayed(tmp_path):
    repo = Repo.create(str(tmp_path / "new"), commit=False)
    repo.write("a.txt", "a\n")
    archive = SnapshotArchive(repo.path)
    with pytest.raises(UserError, match="no commit yet"):
        engine.add_workspace(archive.app, order=WorkspaceRequest("one"), snapshot_store=archive.snapshot_store)
    made = engine.add_workspace(
        archive.app, order=WorkspaceRequest("one", base="dirty"), snapshot_store=archive.snapshot_store
    )
    assert set(tree_facts(made.workspace.tree)) == {"a.txt"}


def test_an_unknown_base_leaves_nothing_behind(archive, add):
    with pytest.raises(UserError, match="nowhere"):
        add(base="nowhere")
    with pytest.raises(UserError):
        add(base="--upload-pack=x")
    assert all_workspaces(archive.snapshot_store.place.project) == []


def test_a_name_is_used_once_and_ports_do_not_meet(archive, add):
    add("one")
    with pytest.raises(Conflict):
        add("one")
    add("two")
    ports = [one.port for one in all_workspaces(archive.snapshot_store.place.project)]
    assert len(set(ports)) == 2
    assert abs(ports[0] - ports[1]) >= 10


def test_a_linked_worktree_and_the_shared_checkout_are_there_too(repo, archive, add):
    linked = add("linked", kind="worktree")
    assert linked.head() == repo.head()
    linked.write("x.txt", "x\n")
    shared = add("mine", kind="shared")
    assert shared.path == repo.path
    remove(archive, "mine")
    assert os.path.isdir(repo.path)
    gone = remove(archive, "linked")
    assert not os.path.exists(linked.path)
    assert repo.git("worktree", "list").count("\n") == 1
    assert archive.store.git("cat-file", "blob", f"{gone.snapshot}:x.txt").out == b"x\n"


def test_removal_keeps_commits_stash_staged_untracked_and_ignored_files(archive, add, tmp_path):
    clone = add()
    clone.write(".gitignore", "*.env\n")
    clone.commit("a commit of its own")
    head = clone.head()
    clone.write("stashed.txt", "s\n")
    clone.git("stash", "-q", "-u")
    stash = clone.git("rev-parse", "stash").strip()
    clone.write("staged.txt", "staged\n")
    clone.git("add", "staged.txt")
    clone.write("staged.txt", "and dirty\n")
    clone.write("local.env", "SECRET=1\n")
    gone = remove(archive)
    assert not os.path.exists(clone.path)
    assert archive.sound()
    assert archive.store.readable([head, stash]) == {head: "commit", stash: "commit"}
    chosen = snapshot_engine.choose(archive.app, snapshot_store=archive.snapshot_store, name=gone.snapshot)
    snapshot_engine.restore_into(
        archive.app, snapshot_store=archive.snapshot_store, chosen=chosen, folder=str(tmp_path / "back")
    )
    back = tree_facts(str(tmp_path / "back"))
    assert back["staged.txt"][1] == b"and dirty\n"
    assert back["local.env"][1] == b"SECRET=1\n"


def test_a_folder_made_unwritable_is_removed_all_the_same(archive, add):
    clone = add()
    path = clone.write("d/e/f.txt", "f\n")
    os.chmod(os.path.dirname(path), 0o500)
    remove(archive)
    assert not os.path.exists(clone.path)


def test_worktreeinclude_brings_ignored_files_and_never_follows_links(repo, add, tmp_path):
    (tmp_path / "outside").write_text("outside\n")
    repo.write(".gitignore", ".env*\ncache/\n")
    repo.write(".worktreeinclude", ".env*\ncache/\n!.env.prod\n")
    repo.commit("two")
    os.chmod(repo.write(".env", "A=1\n"), 0o600)
    repo.write(".env.prod", "SECRET\n")
    repo.write("cache/deep/x", "x\n")
    os.symlink(tmp_path / "outside", os.path.join(repo.path, ".env.link"))
    clone = add()
    facts = tree_facts(clone.path)
    assert facts[".env"][1] == b"A=1\n"
    assert facts["cache/deep/x"][1] == b"x\n"
    assert facts[".env.link"] == ("link", str(tmp_path / "outside"))
    assert ".env.prod" not in facts
    assert os.stat(os.path.join(clone.path, ".env")).st_mode & 0o777 == 0o600
    clone.write(".env", "A=2\n")
    assert repo.read(".env") == "A=1\n"


@pytest.mark.parametrize("lines", [".env.test\n.env\n", ".env*\n"], ids=["a line more", "an exception less"])
def test_a_list_that_a_session_landed_brings_nothing_of_the_persons(repo, archive, add, lines):
    repo.write(".gitignore", ".env*\n")
    repo.write(".worktreeinclude", ".env*\n!.env\n")
    repo.commit("two")
    repo.write(".env", "KEY=secret\n")
    repo.write(".env.test", "A=1\n")
    add(name="greedy", owns=(".worktreeinclude",)).write(".worktreeinclude", lines)
    landing.land(archive.app, names=["greedy"], snapshot_store=archive.snapshot_store)
    assert repo.read(".worktreeinclude") == lines
    clone = add(name="next")
    assert not os.path.lexists(os.path.join(clone.path, ".env"))
    assert clone.read(".env.test") == "A=1\n"
    assert "your own version of it counts" in archive.app.notes[-1]
    repo.write(".worktreeinclude", f"# mine\n{lines}")
    assert add(name="now").read(".env") == "KEY=secret\n"
    repo.commit("I want that")
    assert add(name="agreed").read(".env") == "KEY=secret\n"


def test_a_list_that_only_a_session_wrote_names_nothing(repo, archive, add):
    repo.write(".gitignore", ".env*\n")
    repo.commit("two")
    repo.write(".env", "KEY=secret\n")
    add(name="greedy", owns=(".worktreeinclude",)).write(".worktreeinclude", ".env\n")
    landing.land(archive.app, names=["greedy"], snapshot_store=archive.snapshot_store)
    assert not os.path.lexists(os.path.join(add(name="next").path, ".env"))


def test_the_setup_command_sees_the_workspace_s_own_values(add):
    clone = add(setup='echo "$HANDOFF_PORT $HANDOFF_DATABASE_SUFFIX $COMPOSE_PROJECT_NAME" > values')
    port, suffix, compose = clone.read("values").split()
    assert port.isdigit()
    assert suffix == "_one"
    assert compose.endswith("-one")


def test_a_setup_command_that_fails_is_told_with_its_words(archive, add):
    with pytest.raises(UserError, match="no such luck"):
        add(setup="echo no such luck; exit 3")
    assert [one.name for one in all_workspaces(archive.snapshot_store.place.project)] == ["one"]


def test_a_sparse_workspace_has_only_its_folders_and_its_snapshots_the_rest_too(repo, archive, add):
    repo.write("big/x.txt", "x\n")
    repo.write("small/y.txt", "y\n")
    repo.commit("two")
    clone = add(sparse=("small",))
    assert set(tree_facts(clone.path)) == {"small/y.txt"}
    assert clone.git("status", "--porcelain") == ""
    clone.write("small/y.txt", "changed\n")
    taken = SnapshotArchive(clone.path).take()
    assert set(archive.files(taken)) == {"README.md", "big/x.txt", "small/y.txt"}


def test_submodules_come_from_the_person_s_copy(repo, add, tmp_path):
    other = Repo.create(str(tmp_path / "other"))
    repo.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", other.path, "lib/sub")
    repo.commit("with a submodule")
    shutil.rmtree(other.path)
    clone = add()
    assert os.path.exists(os.path.join(clone.path, "lib/sub/README.md"))
    assert clone.git("status", "--porcelain") == ""


def test_large_file_pointers_do_not_need_the_program(repo, add):
    repo.write(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n")
    pointer = "version spec/v1\noid sha256:" + "0" * 64 + "\nsize 5\n"
    repo.write("a.bin", pointer)
    repo.commit("pointer")
    for key, value in (("smudge", "git-lfs smudge -- %f"), ("process", "git-lfs filter-process"), ("required", "true")):
        repo.git("config", f"filter.lfs.{key}", value)
    clone = add()
    assert clone.read("a.bin")


def test_freshness_counts_what_the_base_has_gained(repo, archive, add):
    add()
    repo.write("x.txt", "x\n")
    repo.commit("newer")
    assert engine.list_workspaces(archive.app, snapshot_store=archive.snapshot_store)[0].fresh.behind == 1


def test_a_workspace_cannot_be_made_from_inside_a_workspace(add):
    clone = add()
    inner = SnapshotArchive(clone.path)
    with pytest.raises(UserError, match="workspace itself"):
        engine.add_workspace(inner.app, order=WorkspaceRequest("two"), snapshot_store=inner.snapshot_store)


def test_odd_names_and_paths_work(tmp_path):
    repo = Repo.create(str(tmp_path / 'we"ird dir' / "my repo"))
    repo.write("a b\n.txt", "x\n")
    repo.commit("two")
    archive = SnapshotArchive(repo.path)
    made = engine.add_workspace(archive.app, order=WorkspaceRequest("one"), snapshot_store=archive.snapshot_store)
    assert set(tree_facts(made.workspace.tree)) == {"README.md", "a b\n.txt"}
    engine.remove_workspace(archive.app, name="one", snapshot_store=archive.snapshot_store)


_KILLED = """
import os, sys
from snapshot_archive import SnapshotArchive
from handoff.engine.place import landing
from handoff.engine.place import workspaces as engine
archive = SnapshotArchive(sys.argv[1])
limit, seen = int(sys.argv[2]), 0
def audit(event, args):
    global seen
    if event in ("os.rename", "os.remove", "os.rmdir", "os.posix_spawn", "os.mkdir", "os.link"):
        seen += 1
        if seen == limit:
            os.kill(os.getpid(), 9)
sys.addaudithook(audit)
engine.remove_workspace(archive.app, name="one", snapshot_store=archive.snapshot_store)
"""


@pytest.mark.slow
def test_a_removal_killed_at_any_step_loses_nothing_and_can_go_on(archive, add, tmp_path):
    limit, killed = 1, 0
    while True:
        if not any(one.name == "one" for one in all_workspaces(archive.snapshot_store.place.project)):
            clone = add()
        text = f"precious {limit}\n"
        clone.write("left.txt", text) if os.path.isdir(clone.path) else None
        done = subprocess.run(
            [sys.executable, "-c", _KILLED, os.path.dirname(archive.snapshot_store.place.source.common), str(limit)],
            env={**os.environ, "PYTHONPATH": os.path.dirname(sys.modules["snapshot_archive"].__file__)},
            check=False,
            capture_output=True,
        )
        assert done.returncode in (0, -signal.SIGKILL), done.stderr.decode()
        on_disk = os.path.exists(os.path.join(clone.path, "left.txt"))
        kept = [
            archive.content(one, "left.txt")
            for one in snapshot_engine.listing(archive.app, snapshot_store=archive.snapshot_store)
        ]
        assert on_disk or text.encode() in kept
        for one in all_workspaces(archive.snapshot_store.place.project):
            remove(archive, one.name)
        assert not os.path.exists(clone.path)
        if done.returncode == 0:
            break
        killed += 1
        limit += 2
    assert killed > 5
    assert archive.sound()


def test_housekeeping_says_first_and_keeps_what_is_young_newest_or_undoable(repo, archive):
    for number in range(6):
        repo.write("a.txt", f"{number}\n")
        archive.take()
    rules = RetentionRules(days=10, newest=2, size=10**9)
    clock = archive.app.clock
    assert engine.tidy(archive.app, rules=rules, snapshot_store=archive.snapshot_store).snapshots == ()
    clock.moment += 20 * DAY
    said = engine.tidy(archive.app, rules=rules, snapshot_store=archive.snapshot_store)
    assert len(said.snapshots) == 4
    assert len(snapshot_engine.listing(archive.app, snapshot_store=archive.snapshot_store)) == 6
    engine.tidy(archive.app, rules=rules, snapshot_store=archive.snapshot_store, apply=True)
    left = snapshot_engine.listing(archive.app, snapshot_store=archive.snapshot_store)
    assert len(left) == 2
    assert archive.content(left[0], "a.txt") == b"5\n"
    assert archive.sound()
    repo.write("a.txt", "again\n")
    assert archive.content(archive.take(), "a.txt") == b"again\n"
    assert archive.sound()


def test_old_snapshots_are_thinned_to_hours_and_days(repo, archive):
    start = archive.app.clock.moment
    for number in range(8):
        repo.write("a.txt", f"{number}\n")
        archive.take()
        archive.app.clock.moment += 600
    found = snapshot_engine.listing(archive.app, snapshot_store=archive.snapshot_store)
    rules = RetentionRules(days=30, newest=1, size=10**9)
    assert len(expendable(found, rules, now=start + 2 * DAY)) in (5, 6)
    assert len(expendable(found, rules, now=start + 10 * DAY)) in (6, 5)
    assert expendable(found, rules, now=start + 3600) == []


def test_a_full_store_gives_up_its_oldest_first(repo, archive):
    for number in range(12):
        repo.write("big.bin", os.urandom(200_000))
        archive.take(f"number {number}")
    archive.app.clock.moment += 2 * DAY
    engine.tidy(
        archive.app, rules=RetentionRules(days=30, newest=2, size=1), snapshot_store=archive.snapshot_store, apply=True
    )
    left = [one.reason for one in snapshot_engine.listing(archive.app, snapshot_store=archive.snapshot_store)]
    assert left[0] == "number 11"
    assert 2 <= len(left) < 12
    assert archive.sound()
