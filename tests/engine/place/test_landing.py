"""Landing takes what is owned, all or nothing, and never touches what the person has not committed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from handoff.agents.sandbox.sandbox import NOTHING, layer
from handoff.base.errors import Refused, UserError
from handoff.engine.place import landing as engine
from handoff.engine.place import workspaces
from handoff.git.workspaces import WorkspaceRequest
from sandbox import Repo, absent
from snapshot_archive import SnapshotArchive, tree_facts


class Desk:
    """A person's checkout with sessions in workspaces."""

    def __init__(self, repo):
        self.repo = repo
        self.archive = SnapshotArchive(repo.path)

    def session(self, name, **order):
        made = workspaces.add_workspace(
            self.archive.app, order=WorkspaceRequest(name, **order), snapshot_store=self.archive.snapshot_store
        )
        return Repo(made.workspace.tree)

    def land(self, *names, **options):
        return engine.land(self.archive.app, names=names, snapshot_store=self.archive.snapshot_store, **options)

    def collisions(self):
        return engine.find_collisions(self.archive.app, snapshot_store=self.archive.snapshot_store)


@pytest.fixture
def desk(repo):
    repo.write("a.txt", "".join(f"line {number}\n" for number in range(20)))
    repo.write("b.txt", "b\n")
    repo.commit("two")
    return Desk(repo)


def test_uncommitted_work_of_two_sessions_lands_as_two_commits(repo, desk):
    one, two = desk.session("one"), desk.session("two")
    one.write("src/one.py", "1\n")
    two.write("src/two.py", "2\n")
    two.commit("Add the second part")
    outcome = desk.land("one", "two")
    assert [step.member for step in outcome.merged.steps] == ["one", "two"]
    assert repo.git("log", "--format=%s", "-2").splitlines() == ["Add the second part", "Land one"]
    assert repo.git("status", "--porcelain") == ""
    assert repo.read("src/one.py") == "1\n"
    assert repo.git("log", "-1", "--format=%an").strip() == "Test Person"
    repo.git("fsck", "--strict")


def test_only_owned_paths_are_taken(repo, desk):
    one = desk.session("one", owns=("src/", "!src/secret.py"))
    one.write("src/one.py", "1\n")
    one.write("src/secret.py", "s\n")
    one.write("b.txt", "not mine\n")
    os.unlink(os.path.join(one.path, "a.txt"))
    outcome = desk.land("one")
    assert repo.git("show", "--name-status", "--format=", "HEAD").split() == ["A", "src/one.py"]
    left = " ".join(outcome.members[0].left_out)
    assert "a.txt" in left
    assert "b.txt" in left
    assert "src/secret.py" in left


def test_links_that_lead_out_and_submodule_pointers_are_refused(repo, desk, tmp_path):
    one = desk.session("one")
    os.makedirs(os.path.join(one.path, "src"))
    (tmp_path / "out").touch()
    os.symlink(tmp_path / "out", os.path.join(one.path, "src", "out"))
    os.symlink("../../x", os.path.join(one.path, "src", "up"))
    os.symlink("../b.txt", os.path.join(one.path, "src", "inside"))
    other = Repo.create(str(tmp_path / "other"))
    one.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", other.path, "sub")
    outcome = desk.land("one", approve=True)
    assert repo.git("ls-tree", "-r", "--name-only", "HEAD").split() == [
        ".gitmodules", "README.md", "a.txt", "b.txt", "src/inside",
    ]  # fmt: skip
    assert len(outcome.members[0].left_out) == 3


def test_deletions_modes_links_and_renames_land_as_they_are(repo, desk):
    one = desk.session("one")
    os.unlink(os.path.join(one.path, "b.txt"))
    one.git("mv", "a.txt", "moved.txt")
    os.chmod(one.write("run.sh", "#!/bin/sh\n"), 0o755)
    os.symlink("moved.txt", os.path.join(one.path, "link"))
    desk.land("one")
    assert tree_facts(repo.path) == tree_facts(one.path)
    assert repo.git("status", "--porcelain") == ""


def test_a_conflict_names_the_file_and_both_sessions_and_nothing_moves(repo, desk):
    one, two = desk.session("one"), desk.session("two")
    one.write("b.txt", "one\n")
    two.write("b.txt", "two\n")
    head = repo.head()
    outcome = desk.land("one", "two")
    assert [tuple(one) for one in outcome.merged.conflicts] == [("b.txt", "one", "two", "")]
    assert outcome.landing is None
    assert repo.head() == head
    hard = desk.collisions().hard
    assert [tuple(one) for one in hard] == [("b.txt", "one", "two", "")]


def test_changes_apart_in_one_file_join(repo, desk):
    one, two = desk.session("one"), desk.session("two")
    text = one.read("a.txt")
    one.write("a.txt", text.replace("line 1\n", "first\n"))
    two.write("a.txt", text.replace("line 18\n", "last\n"))
    found = desk.collisions()
    assert not found.hard
    assert [one.path for one in found.soft] == ["a.txt"]
    desk.land("one", "two")
    assert "first\n" in repo.read("a.txt")
    assert "last\n" in repo.read("a.txt")
    repo.write("uv.lock", text)
    repo.commit("A lock")
    for name, old in (("three", "line 1\n"), ("four", "line 18\n")):
        desk.session(name).write("uv.lock", text.replace(old, f"{name}\n"))
    (lock,) = (one for one in desk.collisions().soft if one.path == "uv.lock")
    assert "a program makes this file" in lock.why, "nobody is told that it will join"


def test_a_file_against_a_folder_is_a_collision(desk):
    one, two = desk.session("one"), desk.session("two")
    one.write("x", "file\n")
    two.write("x/y", "in a folder\n")
    assert desk.collisions().hard


def test_the_target_may_have_moved_on(repo, desk):
    one = desk.session("one")
    one.write("src/one.py", "1\n")
    repo.write("other.txt", "x\n")
    repo.commit("meanwhile")
    desk.land("one")
    assert repo.git("log", "--format=%s", "-2").splitlines() == ["Land one", "meanwhile"]


def test_work_that_began_from_a_dirty_tree_lands_without_the_dirt(repo, desk):
    repo.write("b.txt", "dirty\n")
    repo.write("untracked.txt", "mine\n")
    one = desk.session("one", base="dirty")
    one.write("src/one.py", "1\n")
    desk.land("one")
    assert repo.git("show", "--name-status", "--format=", "HEAD").split() == ["A", "src/one.py"]
    assert repo.read("b.txt") == "dirty\n"
    assert repo.git("status", "--porcelain").splitlines() == [" M b.txt", "?? untracked.txt"]


def test_dirty_and_staged_work_elsewhere_stays_byte_for_byte(repo, desk):
    one = desk.session("one")
    one.write("src/one.py", "1\n")
    repo.write("b.txt", "staged\n")
    repo.git("add", "b.txt")
    repo.write("b.txt", "dirty\n")
    repo.write("new.txt", "new\n")
    staged = repo.git("ls-files", "-s", "b.txt")
    desk.land("one")
    assert repo.git("ls-files", "-s", "b.txt") == staged
    assert repo.read("b.txt") == "dirty\n"
    assert repo.read("new.txt") == "new\n"
    assert repo.read("src/one.py") == "1\n"


@pytest.mark.parametrize("obstacle", ["dirty", "staged", "untracked", "ignored", "folder", "file for a folder", "link"])
def test_dirty_work_in_the_way_is_named_and_never_overwritten(repo, desk, obstacle):
    one = desk.session("one")
    one.write("b.txt", "landed\n")
    one.write("new/file.txt", "landed\n")
    path = {"dirty": "b.txt", "staged": "b.txt", "untracked": "new/file.txt", "ignored": "new/file.txt"}.get(obstacle)
    if obstacle == "ignored":
        with open(os.path.join(repo.path, ".git", "info", "exclude"), "a", encoding="utf-8") as file:
            file.write("new/\n")
    if path:
        repo.write(path, "precious\n")
    elif obstacle == "folder":
        repo.write("new/file.txt/inside", "precious\n")
    elif obstacle == "link":
        os.symlink(os.environ["HOME"], os.path.join(repo.path, "new"))
    else:
        repo.write("new", "precious\n")
    if obstacle == "staged":
        repo.git("add", "b.txt")
        repo.write("b.txt", "b\n")
    before = (tree_facts(repo.path), repo.git("ls-files", "-s"), repo.git("for-each-ref"))
    with pytest.raises(Refused):
        desk.land("one")
    assert (tree_facts(repo.path), repo.git("ls-files", "-s"), repo.git("for-each-ref")) == before


def test_a_branch_that_is_not_checked_out_moves_alone(repo, desk):
    repo.git("branch", "release")
    one = desk.session("one")
    one.write("src/one.py", "1\n")
    before = tree_facts(repo.path)
    desk.land("one", into="release")
    assert tree_facts(repo.path) == before
    assert repo.git("show", "release:src/one.py") == "1\n"
    with pytest.raises(UserError, match="no branch"):
        desk.land("one", into="nowhere")


def test_a_dry_run_moves_nothing(repo, desk):
    one = desk.session("one")
    one.write("src/one.py", "1\n")
    head = repo.head()
    outcome = desk.land("one", dry_run=True)
    assert outcome.merged.steps
    assert repo.head() == head


def test_branches_can_be_landed_too(repo, desk):
    repo.git("checkout", "-q", "-b", "topic")
    repo.write("t.txt", "t\n")
    repo.commit("topic")
    repo.git("checkout", "-q", "main")
    desk.land("topic")
    assert repo.read("t.txt") == "t\n"
    with pytest.raises(UserError, match="no branch 'nothing'"):
        desk.land("nothing")


def test_a_green_check_on_the_merged_tree_lets_it_land(repo, desk):
    one, two = desk.session("one"), desk.session("two")
    one.write("one.txt", "1\n")
    two.write("two.txt", "2\n")
    outcome = desk.land("one", "two", check="test -f one.txt && test -f two.txt && test ! -e untracked.txt")
    assert outcome.verdict.green
    assert outcome.landing
    assert not os.path.exists(os.path.join(desk.archive.snapshot_store.place.project, "checks", "tree"))


def test_a_red_check_names_the_member_that_broke_it_and_nothing_lands(repo, desk):
    for name in ("one", "two", "three", "four"):
        desk.session(name).write(f"{name}.txt", f"{name}\n")
    head = repo.head()
    outcome = desk.land("one", "two", "three", "four", check="test ! -e three.txt")
    assert outcome.blame.words == "three"
    assert outcome.landing is None
    assert repo.head() == head
    assert "target" in desk.land("one", check="false").blame.words


def test_a_check_cannot_harm_the_checkout(repo, desk):
    if layer(os.environ) == NOTHING:
        absent("a sandbox layer")
    one = desk.session("one")
    one.write("evil.sh", f"rm -rf {repo.path}/*; echo gone > {repo.path}/README.md\n")
    desk.land("one", check="sh evil.sh; true")
    assert repo.read("README.md") == "# A project\n"


def test_a_landing_is_taken_back_whole(repo, desk):
    one = desk.session("one")
    one.write("b.txt", "landed\n")
    one.write("new.txt", "landed\n")
    head, before = repo.head(), tree_facts(repo.path)
    desk.land("one")
    last, *_ = engine.landings(desk.archive.app, snapshot_store=desk.archive.snapshot_store)
    engine.undo_landing(desk.archive.app, landing=last, snapshot_store=desk.archive.snapshot_store)
    assert repo.head() == head
    assert tree_facts(repo.path) == before
    assert repo.git("status", "--porcelain") == ""


def test_what_was_built_upon_is_not_taken_back(repo, desk):
    desk.session("one").write("b.txt", "landed\n")
    desk.land("one")
    repo.write("c.txt", "c\n")
    repo.commit("on top")
    last, *_ = engine.landings(desk.archive.app, snapshot_store=desk.archive.snapshot_store)
    with pytest.raises(Refused, match="moved on"):
        engine.undo_landing(desk.archive.app, landing=last, snapshot_store=desk.archive.snapshot_store)


def test_line_ends_land_as_git_wants_them(repo, desk):
    repo.write(".gitattributes", "*.crlf text eol=crlf\n")
    repo.write("x.crlf", b"one\r\ntwo\r\n")
    repo.commit("line ends")
    one = desk.session("one")
    assert one.read("x.crlf") == "one\r\ntwo\r\n"
    one.write("x.crlf", b"one\r\nTWO\r\n")
    one.write("other.txt", "x\n")
    desk.land("one")
    assert repo.git("cat-file", "blob", "HEAD:x.crlf") == "one\nTWO\n"
    assert repo.read("x.crlf") == "one\r\nTWO\r\n"
    assert repo.git("status", "--porcelain") == ""


def test_landing_the_same_work_twice_does_nothing(repo, desk):
    desk.session("one").write("b.txt", "landed\n")
    desk.land("one")
    head = repo.head()
    outcome = desk.land("one")
    assert outcome.merged.skipped == ("one",)
    assert repo.head() == head


_KILLED = """
import os, sys
from snapshot_archive import SnapshotArchive
from handoff.engine.place import landing as engine
archive = SnapshotArchive(sys.argv[1])
limit, seen = int(sys.argv[2]), 0
def audit(event, args):
    global seen
    if event in ("os.rename", "os.remove", "os.posix_spawn"):
        seen += 1
        words = args[1] if event == "os.posix_spawn" else ()
        if seen == limit or (not limit and "read-tree" in words and "-n" not in words):
            os.kill(os.getpid(), 9)
sys.addaudithook(audit)
engine.land(archive.app, names=["one"], snapshot_store=archive.snapshot_store)
"""


@pytest.mark.slow
def test_a_landing_killed_at_any_step_is_whole_or_absent_after_the_next(repo, desk):
    repo.write("b.txt", "b\n")
    repo.write("dirty.txt", "dirty\n")
    one = desk.session("one")
    limit, killed = 1, 0
    while True:
        one.write("b.txt", f"{limit}\n")
        one.write(f"new/{limit}.txt", "new\n")
        done = _land_and_die(repo, limit)
        assert done.returncode in (0, -signal.SIGKILL), done.stderr.decode()
        assert repo.read("dirty.txt") == "dirty\n"
        engine.target_of(desk.archive.app, desk.archive.snapshot_store).finish()
        assert repo.git("status", "--porcelain").splitlines() == ["?? dirty.txt"]
        landed = os.path.exists(os.path.join(repo.path, f"new/{limit}.txt"))
        assert (repo.read("b.txt") == f"{limit}\n") is landed
        repo.git("fsck", "--connectivity-only")
        if done.returncode == 0:
            break
        killed += 1
        limit += 4
    assert killed > 5


def _land_and_die(repo, limit):
    return subprocess.run(
        [sys.executable, "-c", _KILLED, repo.path, str(limit)],
        env={**os.environ, "PYTHONPATH": os.path.dirname(sys.modules["snapshot_archive"].__file__)},
        check=False,
        capture_output=True,
    )


def test_files_that_arrived_before_the_index_are_no_obstacle_to_finish_a_killed_landing(repo, desk):
    one = desk.session("one")
    one.write("b.txt", "landed\n")
    assert _land_and_die(repo, 0).returncode == -signal.SIGKILL
    repo.write("b.txt", "landed\n")  # as the git does that was started before, and lives on for a moment
    (done,) = engine.target_of(desk.archive.app, desk.archive.snapshot_store).finish()
    assert done.members == ("one",)
    assert repo.git("status", "--porcelain") == ""


def test_after_a_landing_killed_before_its_last_step_the_next_commit_reverts_nothing(repo, desk, cli):
    one = desk.session("one")
    one.write("b.txt", "landed\n")
    assert _land_and_die(repo, 0).returncode == -signal.SIGKILL
    assert repo.git("show", "HEAD:b.txt") == "landed\n", "the branch has moved"
    assert repo.read("b.txt") != "landed\n", "and nothing else"
    repo.git("commit", "-q", "-a", "-m", "by hand", check=False)
    assert repo.git("show", "HEAD:b.txt") == "landed\n"
    assert "Finished the landing of one" in cli("land").out
    assert repo.read("b.txt") == "landed\n"
    assert repo.git("status", "--porcelain") == ""
    assert "nothing to finish" in cli("land", code=2).err


def test_a_look_from_another_thread_of_the_process_that_lands_takes_nothing_away_from_it(repo, desk, tmp_path):
    begun, go = tmp_path / "begun", tmp_path / "go"
    repo.git(
        "config",
        "filter.slow.smudge",
        f"touch {begun}; for n in $(seq 250); do test -e {go} && break; sleep 0.02; done; cat",
    )
    repo.git("config", "filter.slow.clean", "cat")
    repo.write(".git/info/attributes", "made.txt filter=slow\n")
    desk.session("one").write("made.txt", "made\n")
    with ThreadPoolExecutor(1) as beside:

        def land():
            archive = SnapshotArchive(repo.path)
            return engine.land(archive.app, names=("one",), snapshot_store=archive.snapshot_store)

        landing = beside.submit(land)
        try:
            while not begun.exists():
                assert not landing.done(), landing.exception()
                time.sleep(0.02)
            assert engine.target_of(desk.archive.app, desk.archive.snapshot_store).finish() == []
        finally:
            go.touch()
        assert landing.result(timeout=60).merged.new == repo.head()
    assert repo.git("status", "--porcelain") == ""
    assert repo.read("made.txt") == "made\n"


def test_a_file_that_was_only_touched_is_not_in_the_way(repo, desk):
    desk.session("one").write("b.txt", "landed\n")
    os.utime(os.path.join(repo.path, "b.txt"), (1, 1))
    desk.land("one")
    assert repo.read("b.txt") == "landed\n"
    assert repo.git("status", "--porcelain") == ""


# --- a person's merge drivers ----------------------------------------------------------------------------------------

_BOTH = "cat %A %B > joined && cp joined %A"


def _conflict(repo, desk, *, attributes="*.txt merge=both\n"):
    if attributes:
        repo.write(".gitattributes", attributes)
        repo.commit("attributes")
    one, two = desk.session("one"), desk.session("two")
    one.write("b.txt", "one\n")
    two.write("b.txt", "two\n")
    return one, two


def test_a_persons_merge_driver_joins_what_git_cannot_and_is_named(repo, desk):
    repo.git("config", "merge.both.driver", _BOTH)
    _conflict(repo, desk)
    outcome = desk.land("one", "two")
    assert repo.read("b.txt") == "one\ntwo\n"
    assert [tuple(one) for one in outcome.merged.settled] == [
        ("b.txt", "one", "two", "your merge driver 'both'", True)
    ]  # fmt: skip
    assert repo.git("status", "--porcelain") == ""


@pytest.mark.parametrize(
    "driver", ["exit 1", "printf '<<<<<<< one\\n' > %A", "ln -sf base.txt %A", "no-such-program-of-anybody %A"]
)
def test_a_driver_that_gives_up_or_leaves_marks_leaves_the_conflict(repo, desk, driver):
    repo.git("config", "merge.both.driver", driver)
    _conflict(repo, desk)
    head = repo.head()
    assert [one.path for one in desk.land("one", "two").merged.conflicts] == ["b.txt"]
    assert repo.head() == head


def test_neither_attributes_nor_settings_of_a_part_start_a_driver(repo, desk, tmp_path):
    repo.git("config", "merge.both.driver", _BOTH)
    one, two = _conflict(repo, desk, attributes="")
    for part in (one, two):
        part.write(".gitattributes", "*.txt merge=both\n")
    assert [one.path for one in desk.land("one", "two").merged.conflicts] == ["b.txt"]
    repo.git("config", "--unset", "merge.both.driver")
    repo.write(".gitattributes", "*.txt merge=both\n")
    repo.commit("attributes")
    two.git("config", "merge.both.driver", f"touch {tmp_path}/ran")
    desk.land("one", "two")
    assert not (tmp_path / "ran").exists()


def test_what_attributes_want_joined_by_hand_is_offered_to_nobody(repo, desk):
    _conflict(repo, desk, attributes="*.txt -merge\n")
    outcome = desk.land("one", "two")
    assert [one.path for one in outcome.merged.conflicts] == ["b.txt"]
    assert not outcome.merged.settled


# --- rules -----------------------------------------------------------------------------------------------------------


def _two_functions(repo, desk):
    repo.write("m.py", "def a():\n    return 1\n")
    repo.commit("m")
    for name in ("one", "two"):
        part = desk.session(name)
        part.write("m.py", part.read("m.py") + f"\n\ndef {name}():\n    return 2\n")


def test_what_rules_join_lands_only_with_a_green_check_on_it(repo, desk):
    _two_functions(repo, desk)
    assert desk.land("one", "two").merged.conflicts, "nobody would have checked it"
    outcome = desk.land("one", "two", check="grep -q 'def one' m.py && grep -q 'def two' m.py")
    assert outcome.landing is not None
    assert [(one.path, one.how) for one in outcome.merged.settled] == [("m.py", "a rule: both only add Python")]
    assert "def one" in repo.read("m.py")
    assert "def two" in repo.read("m.py")


def test_what_rules_join_is_a_conflict_again_where_the_check_is_red(repo, desk, cli):
    _two_functions(repo, desk)
    head = repo.head()
    answer = cli("land", "one", "two", "--check", "! grep -q 'def two' m.py", code=3)
    assert "m.py: a rule: both only add Python was tried, and the check was red" in answer.out
    assert "1 file cannot be joined" in answer.err
    assert repo.head() == head


def test_with_rest_the_others_land_when_the_check_is_red_because_of_one(repo, desk):
    for name in ("one", "two", "three"):
        desk.session(name).write(f"{name}.txt", "x\n")
    outcome = desk.land("one", "two", "three", check="test ! -e two.txt", rest=True)
    assert outcome.blame.words == "two"
    assert outcome.landing.members == ("one", "three")
    assert outcome.verdict.green
    assert not os.path.exists(os.path.join(repo.path, "two.txt"))
    assert os.path.exists(os.path.join(repo.path, "three.txt"))


def test_a_check_that_is_red_by_chance_is_run_again_and_said(repo, desk, cli, tmp_path):
    desk.session("one").write("one.txt", "x\n")
    mark = tmp_path / "ran"
    answer = cli("land", "one", "--open-check", "--check", f"test -e {mark} || {{ touch {mark}; exit 1; }}")
    assert "red once and green when it was run again" in answer.err
    assert repo.read("one.txt") == "x\n"
