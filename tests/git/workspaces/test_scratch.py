"""A tree laid out in a scratch folder is exact, whatever the last run did to that folder."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handoff.git.workspaces.scratch import Scratch

FILES = {"a.txt": "one\n", "d/b.txt": "two\n", "d/e/c.txt": "three\n", "run.sh": "#!/bin/sh\n", ".gitignore": "*.log\n"}


def _seen(top):
    """Every name below with its kind, its mode for the owner and its content."""
    found = {}
    for base, folders, files in os.walk(top):
        for name in (*folders, *files):
            path = os.path.join(base, name)
            mode = os.lstat(path).st_mode
            content = ""
            if stat.S_ISLNK(mode):
                content = os.readlink(path)
            elif stat.S_ISREG(mode):
                with open(path, encoding="utf-8") as file:
                    content = file.read()
            found[os.path.relpath(path, top)] = (
                stat.S_IFMT(mode),
                mode & 0o700 if not stat.S_ISLNK(mode) else 0,
                content,
            )
    return found


@pytest.fixture
def trees(repo):
    """Two trees of one repository, and how each looks."""
    for name, text in FILES.items():
        repo.write(name, text)
    os.chmod(os.path.join(repo.path, "run.sh"), 0o755)
    os.symlink("a.txt", os.path.join(repo.path, "link"))
    first = repo.commit("first")
    repo.git("mv", "d/e/c.txt", "moved.txt")
    repo.write("a.txt", "ONE\n")
    second = repo.commit("second")
    looks = {}
    for name in (first, second):
        place = os.path.join(repo.path, os.pardir, name)
        os.makedirs(place)
        archive = subprocess.run(["git", "-C", repo.path, "archive", name], check=True, capture_output=True).stdout
        subprocess.run(["tar", "-x", "-C", place], input=archive, check=True)
        looks[name] = _seen(place)
    return repo, looks


def _same_size(top):
    path = os.path.join(top, "a.txt")
    if os.path.isfile(path) and not os.path.islink(path):
        facts = os.stat(path)
        with open(path, "r+b") as file:
            file.write(b"xxx\n")
        os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def _write(name, text="left\n"):
    def act(top):
        path = os.path.join(top, name)
        if os.path.isdir(os.path.dirname(path)) and not os.path.isdir(path):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)

    return act


def _gone(name):
    def act(top):
        path = os.path.join(top, name)
        if os.path.islink(path) or os.path.isfile(path):
            os.unlink(path)
        else:
            shutil.rmtree(path, ignore_errors=True)

    return act


def _link(name, target):
    """A link to something outside the tree. It is a stand-in beside the slots: the deeds that follow act through it."""

    def act(top):
        _gone(name)(top)
        outside = os.path.join(os.path.dirname(top), "outside")
        os.makedirs(os.path.join(outside, "usr"), exist_ok=True)
        with open(os.path.join(outside, "passwd"), "a", encoding="utf-8") as file:
            file.write("root\n")
        os.symlink(os.path.join(outside, target), os.path.join(top, name))

    return act


def _moved(top):
    if os.path.isdir(os.path.join(top, "d")) and not os.path.lexists(os.path.join(top, "away")):
        os.rename(os.path.join(top, "d"), os.path.join(top, "away"))
        os.symlink("away", os.path.join(top, "d"))


def _folder(name):
    def act(top):
        _gone(name)(top)
        os.makedirs(os.path.join(top, name, "deep"))
        _write(f"{name}/deep/x")(top)

    return act


def _repository(name):
    def act(top):
        path = os.path.join(top, name)
        if os.path.isdir(path):
            subprocess.run(["git", "init", "-q", path], check=False, capture_output=True)

    return act


def _locked_up(top):
    if os.path.isdir(os.path.join(top, "d")):
        os.chmod(os.path.join(top, "d"), 0)


def _pipe(top):
    if not os.path.lexists(os.path.join(top, "pipe")):
        os.mkfifo(os.path.join(top, "pipe"))


DEEDS = {
    "same size, same time": _same_size, "new file": _write("new.txt"), "ignored file": _write("x.log"),
    "ignore everything": _write(".gitignore", "*\n"), "attributes": _write(".gitattributes", "* text eol=crlf\n"),
    "no file": _gone("a.txt"), "no folder": _gone("d"), "file to link": _link("a.txt", "passwd"),
    "folder to link outside": _link("d", "usr"), "folder moved behind a link": _moved, "file to folder": _folder("a.txt"),
    "folder to file": lambda top: (_gone("d")(top), _write("d")(top)), "a repository at the top": _repository("."),
    "a repository in a tracked folder": _repository("d"), "a folder nobody may enter": _locked_up, "a pipe": _pipe,
    "a file nobody may read": lambda top: os.path.isfile(os.path.join(top, "a.txt")) and os.chmod(os.path.join(top, "a.txt"), 0),
    "mode": lambda top: os.path.isfile(os.path.join(top, "run.sh")) and os.chmod(os.path.join(top, "run.sh"), 0o644),
}  # fmt: skip


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(deeds=st.lists(st.sampled_from(sorted(DEEDS)), max_size=5), second=st.booleans())
def test_whatever_was_done_to_the_folder_the_next_tree_is_exact(trees, deeds, second):
    repo, looks = trees
    names = list(looks)
    with Scratch(os.path.join(repo.path, os.pardir, "slots"), repo.path, os.environ) as scratch:
        scratch.lay_out(names[0])
        for deed in deeds:
            # What somebody has locked himself out of he cannot change either.
            with contextlib.suppress(PermissionError, FileExistsError):
                DEEDS[deed](scratch.tree)
        scratch.lay_out(names[second])
        assert _seen(scratch.tree) == looks[names[second]], deeds


@pytest.mark.parametrize(("name", "text"), [("index", "rubbish"), ("index.lock", "")])
def test_what_a_killed_run_left_in_gits_own_folder_is_overcome(trees, name, text):
    repo, looks = trees
    first, second = looks
    home = os.path.join(repo.path, os.pardir, "slots")
    with Scratch(home, repo.path, os.environ) as scratch:
        scratch.lay_out(first)
        with open(os.path.join(scratch.folder, "git", name), "w", encoding="utf-8") as file:
            file.write(text)
        scratch.lay_out(second)
        assert _seen(scratch.tree) == looks[second]
