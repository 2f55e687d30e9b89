"""Notes in git: whole records, many writers, two clones, rewritten commits."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import pytest

from handoff.base.errors import UserError
from handoff.git import notes as note_record
from handoff.git.notes import REF, Check, Note, Notebook
from sandbox import Repo

MOMENT = "2026-11-15T08:30:00Z"


def note(commit: str, task: str = "login", **more) -> Note:
    values = {"tree": "t" * 40, "project": "shop", "checks": (Check("pytest -q", "green", passed=3, failed=0),), **more}
    return Note(MOMENT, MOMENT, commit, task=task, **values)


def book(path: str) -> Notebook:
    return Notebook(path, dict(os.environ))


def add(repo: Repo, commit: str, *tasks: str) -> None:
    for task in tasks:
        assert book(repo.path).add(commit, [note(commit, task)], moment=1_800_000_000)


def tasks_of(path: str, commit: str) -> list[str]:
    (found,) = book(path).read(commit, walk=False)
    return sorted(record.task for record in found.noted.records)


def test_a_record_is_read_as_it_was_written():
    written = note("c" * 40, flow="f1", workflow="tdd", phase="red", role="tester", cycle=2, attempt=3, next="green")
    line = note_record.encode(written)
    assert "\n" not in line
    assert line.startswith('{"schema": 1, "ended": "2026-')  # so that sorted lines are in order of time
    assert note_record.decode(line) == written


@pytest.mark.parametrize(
    "line",
    [
        "", "plain words", "[1]", "{", '{"schema": 2, "ended": "x"}', '{"schema": 1}',
        note_record.encode(note("c" * 40)).replace('"passed": 3', '"passed": "3"'),
        note_record.encode(note("c" * 40)).replace('"attempt": 1', '"attempt": true'),
    ],
)  # fmt: skip
def test_what_is_not_a_record_of_this_schema_is_not_read_as_one(line):
    assert note_record.decode(line) is None


def test_a_field_added_by_a_newer_version_is_passed_over():
    line = note_record.encode(note("c" * 40)).replace('{"schema": 1', '{"colour": "blue", "schema": 1')
    assert note_record.decode(line) == note("c" * 40)


def test_a_record_is_added_once_and_other_peoples_lines_stay(repo):
    head = repo.head()
    repo.git("notes", "--ref=handoff", "add", "-m", "seen by Ann", head)
    add(repo, head, "login", "logout")
    assert not book(repo.path).add(head, [note(head, "login")], moment=1_800_000_000)
    (found,) = book(repo.path).read(head, walk=False)
    assert found.noted.foreign == ("seen by Ann",)
    assert [record.task for record in found.noted.records] == ["login", "logout"]
    assert repo.git("notes", "--ref=handoff", "show", head).count("\n") == 3


def test_notes_are_found_whatever_folders_git_sorts_them_into(repo):
    """git spreads many notes over folders; ours are read and extended there."""
    blob = repo.git("hash-object", "-w", "--stdin", stdin=note_record.encode(note("x")).encode()).strip()
    head = repo.head()
    for path in (f"{head[:2]}/{head[2:]}", f"{head[:2]}/{head[2:4]}/{head[4:]}"):
        index = os.path.join(repo.path, ".git", "other-index")
        repo.git("update-index", "--add", "--cacheinfo", f"100644,{blob},{path}", GIT_INDEX_FILE=index)
        tree = repo.git("write-tree", GIT_INDEX_FILE=index).strip()
        os.unlink(index)
        commit = repo.git("commit-tree", "-m", "notes", tree).strip()
        repo.git("update-ref", REF, commit)
        add(repo, head, "login")
        assert len(book(repo.path).read(head, walk=False)[0].noted.records) == 2


def test_many_notes_are_spread_over_folders_and_git_reads_them_all(repo):
    head = repo.head()
    index = os.path.join(repo.path, ".git", "other-index")
    blob = repo.git("hash-object", "-w", "--stdin", stdin=b"{}\n").strip()
    names = [hashlib.sha1(str(at).encode()).hexdigest() for at in range(300)]
    lines = "".join(f"100644 {blob}\t{name}\n" for name in names)
    repo.git("update-index", "--add", "--index-info", stdin=lines.encode(), GIT_INDEX_FILE=index)
    tree = repo.git("write-tree", GIT_INDEX_FILE=index).strip()
    repo.git("update-ref", REF, repo.git("commit-tree", "-m", "notes", tree).strip())
    add(repo, head, "login", "logout")
    assert repo.git("ls-tree", "--name-only", REF, f"{head[:2]}/").strip() == f"{head[:2]}/{head[2:]}"
    assert tasks_of(repo.path, head) == ["login", "logout"]
    assert len(repo.git("notes", "--ref=handoff", "list").splitlines()) == 301
    repo.git("fsck", "--strict", "--no-dangling")
    repo.git("notes", "--ref=handoff", "append", "-m", "and git goes on", head)
    add(repo, head, "third")
    assert tasks_of(repo.path, head) == ["login", "logout", "third"]


def test_a_bare_repository_takes_records_too(repo, tmp_path):
    bare = clone(repo, tmp_path / "bare.git", "--bare")
    add(bare, repo.head(), "login", "logout")
    there = book(bare.path).present(repo.head())
    bare.git("notes", "--ref=handoff", "append", "-m", "from outside", repo.head())
    assert not book(bare.path).write(repo.head(), "lost", there, 1_800_000_000)
    assert tasks_of(bare.path, repo.head()) == ["login", "logout"]


WRITER = """
import os, sys
from handoff.git.notes import Note
from handoff.git.notes import Notebook
path, who, *commits = sys.argv[1:]
for at, commit in enumerate(commits):
    made = Note("2026-11-15T08:30:00Z", "2026-11-15T08:30:00Z", commit, "t", "shop", f"{who}-{at}")
    assert Notebook(path, dict(os.environ)).add(commit, [made], moment=1_800_000_000)
"""


@pytest.mark.slow
def test_eight_processes_write_twenty_notes_each_and_none_is_lost(repo):
    commits = [repo.head()]
    for at in range(4):
        repo.write("n.txt", str(at))
        commits.append(repo.commit(f"c{at}"))
    wanted = [commits[at % 5] for at in range(20)]
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, repo.path, f"w{n}", *wanted], stderr=subprocess.PIPE)
        for n in range(8)
    ]
    for writer in writers:
        _, err = writer.communicate(timeout=100)
        assert writer.returncode == 0, err.decode()
    found = [record.task for one in book(repo.path).read("HEAD") for record in one.noted.records]
    assert len(found) == len(set(found)) == 160


def test_a_writer_that_knows_no_lock_is_noticed_and_nothing_of_it_is_lost(repo):
    """Plain `git notes` moves the ref between our look and our write: the swap fails and is tried again."""
    head = repo.head()
    add(repo, head, "login")
    mine = book(repo.path)
    there = mine.present(head)
    repo.git("notes", "--ref=handoff", "append", "-m", "from outside", head)
    assert not mine.write(head, note_record.with_records(there.text, [note(head, "late")]), there, 1_800_000_000)
    add(repo, head, "late")
    (found,) = book(repo.path).read(head, walk=False)
    assert (len(found.noted.records), found.noted.foreign) == (2, ("from outside",))


@pytest.mark.parametrize("strategy", ["union", "cat_sort_uniq"])
def test_git_merges_the_notes_of_two_clones_without_breaking_a_record(repo, tmp_path, strategy):
    head = repo.head()
    add(repo, head, "first")
    other = clone(repo, tmp_path / "other")
    other.git("fetch", "-q", "origin", f"{REF}:{REF}")
    add(repo, head, "here")
    add(other, head, "there")
    repo.git("fetch", "-q", other.path, f"{REF}:refs/notes/theirs")
    repo.git("notes", "--ref=handoff", "merge", "-s", strategy, "theirs")
    assert tasks_of(repo.path, head) == ["first", "here", "there"]


def clone(repo: Repo, path, *words: str) -> Repo:
    subprocess.run(["git", "clone", "-q", *words, repo.path, str(path)], check=True, env=dict(os.environ))
    return Repo(str(path))


def test_two_clones_exchange_notes_and_neither_loses_one(repo, tmp_path):
    hub = clone(repo, tmp_path / "hub.git", "--bare")
    one, two = clone(hub, tmp_path / "one"), clone(hub, tmp_path / "two")
    head = repo.head()
    assert not book(one.path).sync("origin").given  # nothing to give, nothing to take
    add(one, head, "one")
    add(two, head, "two")
    assert book(one.path).sync("origin").given
    synced = book(two.path).sync("origin")
    assert synced.taken
    assert synced.given
    assert book(one.path).sync("origin").taken
    for place in (one, two, hub):
        assert tasks_of(place.path, head) == ["one", "two"]
    assert not any(book(place.path).sync("origin").given for place in (one, two))


def test_a_push_that_somebody_overtakes_is_made_again(repo, tmp_path):
    hub = clone(repo, tmp_path / "hub.git", "--bare")
    one, two = clone(hub, tmp_path / "one"), clone(hub, tmp_path / "two")
    head = repo.head()
    add(one, head, "one")
    add(two, head, "two")
    hook = os.path.join(hub.path, "hooks", "pre-receive")
    with open(hook, "w", encoding="utf-8") as file:  # the first push meets a remote that changes under it
        file.write(
            f'#!/bin/sh\n[ -e "$GIT_DIR/../once" ] && exit 0\ntouch "$GIT_DIR/../once"\n'
            f"unset GIT_QUARANTINE_PATH GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES\n"
            f'git fetch -q "{two.path}" {REF}:{REF}\n'
        )
    os.chmod(hook, 0o755)
    assert book(one.path).sync("origin").given
    assert tasks_of(hub.path, head) == ["one", "two"]
    assert tasks_of(one.path, head) == ["one", "two"]


def test_a_remote_that_cannot_be_reached_is_an_error_that_names_it(repo):
    with pytest.raises(UserError, match="'nowhere' cannot be asked"):
        book(repo.path).sync("nowhere")


def test_notes_follow_amend_and_rebase_once_they_are_told_to_and_the_setting_can_be_taken_back(repo):
    before = repo.git("config", "--local", "--list")
    assert book(repo.path).follow_rewrites()
    assert not book(repo.path).follow_rewrites()
    base = repo.head()
    repo.write("a.txt", "a")
    add(repo, repo.commit("topic"), "login")
    repo.git("commit", "-q", "--amend", "-m", "better words")
    assert tasks_of(repo.path, "HEAD") == ["login"]
    repo.git("checkout", "-q", "-b", "other", base)
    repo.write("b.txt", "b")
    repo.commit("other")
    repo.git("rebase", "-q", "other", "main")
    assert tasks_of(repo.path, "HEAD") == ["login"]
    (found,) = book(repo.path).read("HEAD", walk=False)
    assert found.noted.records[0].tree != found.tree  # told apart from what was verified on this very tree
    assert book(repo.path).stop_following()
    assert not book(repo.path).stop_following()
    assert repo.git("config", "--local", "--list") == before


def test_a_setting_of_the_persons_own_is_left_alone(repo):
    repo.git("config", "notes.rewriteRef", "refs/notes/mine")
    before = repo.git("config", "--local", "--list")
    book(repo.path).follow_rewrites()
    book(repo.path).stop_following()
    assert repo.git("config", "--local", "--list") == before
