"""A snapshot holds the whole checkout, byte for byte, and needs nobody else's objects."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from handoff.base.errors import UserError
from sandbox import Repo
from snapshot_archive import SnapshotArchive, tree_facts


@pytest.fixture
def archive(repo):
    return SnapshotArchive(repo.path)


def test_tracked_staged_untracked_and_linked_files_are_all_in_it(repo, archive):
    repo.write("src/a.py", "committed\n")
    repo.commit("second")
    repo.write("src/a.py", "dirty\n")
    repo.write("staged.txt", "staged\n")
    repo.git("add", "staged.txt")
    repo.write('new folder/untracked é\n\t".txt', "untracked\n")
    os.symlink("src/a.py", os.path.join(repo.path, "link"))
    os.chmod(repo.write("run.sh", "#!/bin/sh\n"), 0o755)
    taken = archive.take()
    assert archive.files(taken) == {
        "README.md": "100644",
        "src/a.py": "100644",
        "staged.txt": "100644",
        'new folder/untracked é\n\t".txt': "100644",
        "link": "120000",
        "run.sh": "100755",
    }
    assert archive.content(taken, "src/a.py") == b"dirty\n"
    assert archive.sound()


def test_names_that_are_not_utf8_survive(repo, archive):
    name = os.fsdecode(b"caf\xe9.txt")
    repo.write(name, "x\n")
    taken = archive.take()
    os.unlink(os.path.join(repo.path, name))
    archive.restore(taken)
    assert repo.read(name) == "x\n"


def test_ignored_files_are_held_on_request_only(repo, archive):
    repo.write(".gitignore", "*.log\nbuild/\n")
    repo.write("x.log", "log\n")
    repo.write("build/out", "out\n")
    assert set(archive.files(archive.take())) == {"README.md", ".gitignore"}
    assert set(archive.files(archive.take(ignored=True))) == {"README.md", ".gitignore", "x.log", "build/out"}


def test_private_ignore_lists_of_the_person_count(repo, archive):
    with open(os.path.join(repo.path, ".git", "info", "exclude"), "w", encoding="utf-8") as file:
        file.write("mine.txt\n")
    repo.write("mine.txt", "x\n")
    repo.write("theirs.txt", "x\n")
    assert set(archive.files(archive.take())) == {"README.md", "theirs.txt"}


def test_the_session_cannot_hide_a_file_with_index_flags(repo, archive):
    repo.write("a.txt", "one\n")
    repo.write("b.txt", "one\n")
    repo.commit("two")
    repo.git("update-index", "--assume-unchanged", "a.txt")
    repo.git("update-index", "--skip-worktree", "b.txt")
    repo.write("a.txt", "changed a\n")
    repo.write("b.txt", "changed b\n")
    taken = archive.take()
    assert archive.content(taken, "a.txt") == b"changed a\n"
    assert archive.content(taken, "b.txt") == b"changed b\n"


def test_nothing_changed_means_no_new_snapshot(repo, archive):
    first = archive.take()
    second = archive.take()
    assert second.sha == first.sha
    assert not second.fresh
    repo.write("README.md", "changed\n")
    assert archive.take().fresh


def test_a_file_changed_within_the_same_second_is_seen(repo, archive):
    for number in range(20):
        repo.write("README.md", f"{number:04d}\n")
        taken = archive.take()
        assert archive.content(taken, "README.md") == f"{number:04d}\n".encode()


def test_a_named_path_needs_no_scan(repo, archive):
    archive.take()
    repo.write("one.txt", "1\n")
    repo.write("two.txt", "2\n")
    taken = archive.take(paths=["one.txt"])
    assert set(archive.files(taken)) == {"README.md", "one.txt"}
    os.unlink(os.path.join(repo.path, "one.txt"))
    assert set(archive.files(archive.take(paths=["one.txt"]))) == {"README.md"}
    assert set(archive.files(archive.take())) == {"README.md", "two.txt"}


def test_named_folders_are_taken_whole_and_removed_whole(repo, archive):
    archive.take()
    repo.write("d/a", "a")
    repo.write("d/e/b", "b")
    assert {"d/a", "d/e/b"} <= set(archive.files(archive.take(paths=["d"])))
    shutil.rmtree(os.path.join(repo.path, "d"))
    assert set(archive.files(archive.take(paths=["d"]))) == {"README.md"}


def test_files_folders_and_links_may_trade_places(repo, archive):
    repo.write("a", "file")
    repo.write("b/c", "inside")
    repo.write("d/e", "inside")
    repo.commit("two")
    archive.take()
    os.unlink(os.path.join(repo.path, "a"))
    repo.write("a/x", "now a folder")
    shutil.rmtree(os.path.join(repo.path, "b"))
    repo.write("b", "now a file")
    os.rename(os.path.join(repo.path, "d"), os.path.join(repo.path, "moved"))
    os.symlink("moved", os.path.join(repo.path, "d"))
    assert archive.files(archive.take()) == {
        "README.md": "100644", "a/x": "100644", "b": "100644", "d": "120000", "moved/e": "100644",
    }  # fmt: skip


def test_a_repository_inside_is_taken_as_files(repo, archive):
    inner = Repo.create(os.path.join(repo.path, "vendor", "inner"))
    inner.write(".gitignore", "skip/\n")
    inner.write("skip/x", "x")
    inner.write("dirty.txt", "dirty\n")
    Repo.create(os.path.join(repo.path, "unborn"), commit=False).write("f.txt", "f\n")
    names = set(archive.files(archive.take()))
    assert names == {
        "README.md", "vendor/inner/README.md", "vendor/inner/dirty.txt", "vendor/inner/.gitignore", "unborn/f.txt",
    }  # fmt: skip
    inner.write("dirty.txt", "again\n")
    assert archive.content(archive.take(), "vendor/inner/dirty.txt") == b"again\n"


def test_a_submodule_is_a_pointer(repo, archive, tmp_path):
    other = Repo.create(str(tmp_path / "other"))
    repo.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", other.path, "sub")
    taken = archive.take()
    assert archive.files(taken)["sub"] == "160000"
    assert archive.sound()


def test_an_unborn_branch_and_an_empty_repository_can_be_kept(tmp_path):
    repo = Repo.create(str(tmp_path / "empty"), commit=False)
    archive = SnapshotArchive(repo.path)
    assert archive.files(archive.take()) == {}
    repo.write("a.txt", "a\n")
    repo.git("add", "a.txt")
    taken = archive.take()
    assert set(archive.files(taken)) == {"a.txt"}
    assert taken.head == ""
    assert taken.branch == "refs/heads/main"
    assert archive.sound()


def test_line_ends_and_filters_do_not_touch_the_bytes(repo, archive):
    repo.git("config", "filter.shout.clean", "tr a-z A-Z")
    repo.git("config", "filter.shout.smudge", "tr A-Z a-z")
    repo.write(".gitattributes", "*.txt text eol=crlf\n*.loud filter=shout\n*.id ident\n")
    repo.write("a.txt", b"one\r\ntwo\r\n")
    repo.write("b.loud", "quiet\n")
    repo.write("c.id", "$Id$\n")
    repo.commit("converted")
    os.unlink(os.path.join(repo.path, "c.id"))
    repo.git("checkout", "-q", "c.id")
    for name in ("a.txt", "b.loud", "c.id"):  # long untouched: the index's word alone would be believed
        os.utime(os.path.join(repo.path, name), (1_700_000_000, 1_700_000_000))
    repo.git("update-index", "-q", "--refresh")
    on_disk = repo.read("c.id").encode()
    assert on_disk != b"$Id$\n"
    taken = archive.take()
    assert archive.content(taken, "a.txt") == b"one\r\ntwo\r\n"
    assert archive.content(taken, "b.loud") == b"quiet\n"
    assert archive.content(taken, "c.id") == on_disk


def test_nothing_a_session_planted_runs(repo, archive, tmp_path):
    proof = tmp_path / "ran"
    script = tmp_path / "evil"
    script.write_text(f"#!/bin/sh\ntouch {proof}\ncat\n")
    script.chmod(0o755)
    for key in ("core.fsmonitor", "filter.x.clean", "filter.x.process", "core.alternateRefsCommand", "diff.external"):
        repo.git("config", key, str(script))
    repo.git("config", "filter.x.required", "true")
    for hook in ("post-index-change", "reference-transaction", "post-checkout"):
        shutil.copy(script, os.path.join(repo.path, ".git", "hooks", hook))
    repo.write(".gitattributes", "* filter=x\n")
    repo.write("a.txt", "a\n")
    first = archive.take()
    repo.write("a.txt", "b\n")
    archive.take()
    archive.restore(first, staged=True, refs=True, settings=True, exact=True)
    assert not proof.exists()


def test_an_unreadable_file_is_named_and_the_rest_is_kept(repo, archive):
    repo.write("good.txt", "good\n")
    path = repo.write("bad.txt", "bad\n")
    os.unlink(path)
    os.mkfifo(path)  # neither file nor link: reading it would hang
    taken = archive.take()
    assert set(archive.files(taken)) == {"README.md", "good.txt"}


def test_files_that_change_while_they_are_read_do_not_stop_it(repo, archive):
    writer = subprocess.Popen(
        ["sh", "-c", "i=0; while :; do i=$((i+1)); head -c $((i % 50000)) /dev/zero > busy.bin; done"], cwd=repo.path
    )
    try:
        for number in range(15):
            repo.write("calm.txt", f"{number}\n")
            taken = archive.take()
            assert archive.content(taken, "calm.txt") == f"{number}\n".encode()
    finally:
        writer.kill()
        writer.wait()
    assert archive.sound()


def test_it_outlives_the_project_s_garbage_collection(repo, archive):
    repo.write("a.txt", "branch work\n")
    repo.git("checkout", "-q", "-b", "topic")
    repo.commit("topic work")
    repo.write("staged.txt", "only staged\n")
    repo.git("add", "staged.txt")
    repo.write("stashed.txt", "stashed\n")
    repo.git("stash", "push", "-q", "-u", "--", "stashed.txt")
    repo.git("tag", "-a", "-m", "a tag", "v1")
    kept = archive.take()
    tips = repo.git("for-each-ref")
    repo.git("checkout", "-q", "-f", "main")
    repo.git("branch", "-q", "-D", "topic")
    repo.git("tag", "-d", "v1")
    repo.git("stash", "drop", "-q")
    repo.git("clean", "-qfdx")
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("gc", "-q", "--prune=now")
    assert archive.sound()
    archive.restore(kept, staged=True, refs=True)
    assert repo.git("for-each-ref") == tips
    assert repo.git("stash", "list").count("\n") == 1
    assert repo.git("show", ":staged.txt") == "only staged\n"
    assert "only staged" in repo.read("staged.txt")
    assert repo.git("symbolic-ref", "HEAD").strip() == "refs/heads/topic"
    assert "topic work" in repo.git("reflog", "show", "topic")
    repo.git("fsck", "--strict")


def test_many_packs_become_few_and_every_snapshot_stays_whole(repo, archive):
    repo.write("src/a.py", "committed\n")
    repo.commit("second")  # packed with its history from here on
    first = archive.take()
    folder = os.path.join(archive.store.objects, "pack")
    for number in range(40):  # as so many snapshots with something new in each
        name = archive.store.write("blob", b"%d\n" % number)
        archive.store.git("pack-objects", "-q", os.path.join(folder, "pack"), stdin=f"{name}\n".encode())
    assert sum(name.endswith(".pack") for name in os.listdir(folder)) > 40
    repo.write("src/a.py", "dirty\n")
    second = archive.take()
    assert sum(name.endswith(".pack") for name in os.listdir(folder)) < 5
    assert archive.content(first, "src/a.py") == b"committed\n"
    assert archive.content(second, "src/a.py") == b"dirty\n"
    assert archive.store.read(name) == b"39\n"  # also what nobody refers to yet
    assert archive.sound()


def test_the_store_borrows_nothing(repo, archive):
    repo.write("a.txt", "a\n")
    repo.commit("two")
    kept = archive.take()
    shutil.rmtree(os.path.join(repo.path, ".git", "objects"))
    assert archive.sound()
    assert archive.content(kept, "a.txt") == b"a\n"


def test_a_damaged_repository_does_not_stop_snapshots_of_its_files(repo, archive):
    repo.write("a.txt", "a\n")
    repo.commit("two")
    repo.git("gc", "-q")
    pack = os.path.join(repo.path, ".git", "objects", "pack")
    for name in os.listdir(pack):
        os.chmod(os.path.join(pack, name), 0o644)
        with open(os.path.join(pack, name), "wb") as file:
            file.write(b"broken")
    repo.write("b.txt", "b\n")
    taken = archive.take()
    assert archive.content(taken, "a.txt") == b"a\n"
    assert archive.content(taken, "b.txt") == b"b\n"
    assert taken.incomplete
    assert archive.sound()


def test_a_linked_worktree_has_snapshots_of_its_own(repo, tmp_path):
    path = str(tmp_path / "linked")
    repo.git("worktree", "add", "-q", path)
    with open(os.path.join(path, "w.txt"), "w", encoding="utf-8") as file:
        file.write("w\n")
    main, linked = SnapshotArchive(repo.path), SnapshotArchive(path)
    taken = linked.take()
    assert linked.snapshot_store.place.project == main.snapshot_store.place.project
    assert taken.workspace == "linked"
    assert set(linked.files(taken)) == {"README.md", "w.txt"}
    assert set(main.files(main.take())) == {"README.md"}
    assert linked.sound()


def test_two_repositories_of_one_name_do_not_share_a_store(tmp_path):
    one = Repo.create(str(tmp_path / "a" / "app"))
    two = Repo.create(str(tmp_path / "b" / "app"))
    archive = SnapshotArchive(one.path)
    archive.take()
    assert SnapshotArchive(two.path).snapshot_store.place.project != archive.snapshot_store.place.project
    assert SnapshotArchive(one.path).snapshot_store.place.project == archive.snapshot_store.place.project


def test_a_split_index_can_be_kept(repo, archive):
    repo.git("update-index", "--split-index")
    repo.write("a.txt", "staged\n")
    repo.git("add", "a.txt")
    repo.write("a.txt", "dirty\n")
    kept = archive.take()
    assert not kept.incomplete
    assert archive.content(kept, "a.txt") == b"dirty\n"
    repo.git("reset", "-q", "--hard")
    archive.restore(kept, staged=True)
    assert repo.git("show", ":a.txt") == "staged\n"


def test_conflict_stages_and_flags_of_the_index_come_back(repo, archive):
    repo.write("a.txt", "base\n")
    repo.write("flag.txt", "x\n")
    repo.commit("base")
    repo.git("checkout", "-q", "-b", "side")
    repo.write("a.txt", "side\n")
    repo.commit("side")
    repo.git("checkout", "-q", "main")
    repo.write("a.txt", "main\n")
    repo.commit("main")
    repo.git("merge", "side", check=False)
    repo.git("update-index", "--assume-unchanged", "flag.txt")
    stages = repo.git("ls-files", "-s", "-v")
    before = tree_facts(repo.path)
    kept = archive.take()
    repo.git("merge", "--abort")
    repo.git("gc", "-q", "--prune=now")
    archive.restore(kept, staged=True, refs=True, settings=True)
    assert repo.git("ls-files", "-s", "-v") == stages
    assert tree_facts(repo.path) == before
    assert os.path.exists(os.path.join(repo.path, ".git", "MERGE_HEAD"))


def test_a_store_that_lost_objects_in_a_power_cut_writes_them_anew(repo, archive):
    repo.write("a.txt", "a\n")
    archive.take()
    for folder, _, files in os.walk(archive.store.objects):
        for name in files:
            if len(os.path.basename(folder)) == 2:
                os.chmod(os.path.join(folder, name), 0o644)
                open(os.path.join(folder, name), "wb").close()
    with open(os.path.join(archive.store.path, "boot"), "w", encoding="utf-8") as file:
        file.write("another start of the machine\n")
    repo.write("b.txt", "b\n")
    taken = archive.take()
    assert archive.content(taken, "a.txt") == b"a\n"
    assert set(archive.files(taken)) == {"README.md", "a.txt", "b.txt"}


def test_outside_a_repository_it_says_what_to_do(tmp_path):
    with pytest.raises(UserError) as caught:
        SnapshotArchive(str(tmp_path))
    assert caught.value.hint
