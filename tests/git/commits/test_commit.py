"""Safe commit: exactly the named paths land, and nobody else's staging moves. Real git beside it."""

from __future__ import annotations

import os
import stat
import subprocess
import sys

import pytest

from handoff.base.clock import SystemClock
from handoff.base.errors import Conflict, UserError
from handoff.base.settings import from_environment, git_environment
from handoff.git.commits.commit import CommitOptions, Repository, commit
from handoff.git.ownership import Ownership
from sandbox import Repo


def save(repo, *paths, message="work", cwd="", **options):
    environment = git_environment(from_environment())
    return commit(
        repo.path,
        paths,
        message,
        environment=environment,
        now=SystemClock().now(),
        cwd=cwd,
        options=CommitOptions(**options),
    )


def changed(repo, revision="HEAD"):
    """Paths a commit changed, with their letters."""
    out = repo.git("show", "--format=", "--name-status", "--no-renames", "-z", revision).split("\0")
    return sorted((out[at], out[at + 1]) for at in range(0, len(out) - 1, 2))


def staged(repo):
    return repo.git("diff", "--cached", "--name-only", "-z").split("\0")[:-1]


def status(repo):
    return repo.git("status", "--porcelain", "-z", "--no-renames", "-uall").split("\0")[:-1]


def hook(repo, name, script):
    path = os.path.join(repo.path, ".git", "hooks", name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\n" + script)
    os.chmod(path, 0o755)


@pytest.fixture
def shared(repo):
    """A checkout in which somebody else has a new file and a change staged, and another change not staged."""
    repo.write("theirs.txt", "1\n")
    repo.write("both.txt", "".join(f"{n}\n" for n in range(30)))
    repo.commit("more")
    repo.write("theirs.txt", "2\n")
    repo.write("new-theirs.txt", "x\n")
    repo.git("add", "theirs.txt", "new-theirs.txt")
    repo.write("theirs.txt", "3\n")
    return repo


def entries(repo, *paths):
    return repo.git("ls-files", "-s", "-z", "--", *paths)


def test_only_the_named_file_lands_and_the_staging_of_others_stays_byte_for_byte(shared):
    before = entries(shared, "theirs.txt", "new-theirs.txt", "both.txt")
    shared.write("mine.txt", "mine\n")
    landed = save(shared, "mine.txt")
    assert changed(shared) == [("A", "mine.txt")]
    assert landed.commit == shared.head()
    assert landed.branch == "main"
    assert entries(shared, "theirs.txt", "new-theirs.txt", "both.txt") == before
    assert staged(shared) == ["new-theirs.txt", "theirs.txt"]
    assert shared.read("theirs.txt") == "3\n"
    assert shared.git("fsck", "--strict") == ""
    assert shared.git("diff-files", "--name-only") == "theirs.txt\n"


@pytest.mark.parametrize(
    "name",
    [
        "a b",
        "-dash",
        'q"uote',
        "tab\there",
        "new\nline",
        "back\\slash",
        "*.py",
        "[x]",
        "日本",
        "ü/ö",
        b"\xff\xfe.bin",
        ":(top)x",
    ],
)
def test_any_name_a_disk_can_hold_is_taken_as_it_is(shared, name):
    word = os.fsdecode(name)
    shared.write(word, "1")
    save(shared, word)
    assert changed(shared) == [("A", word)]
    shared.write(word, "2")
    save(shared, "./" + word)
    assert changed(shared) == [("M", word)]
    os.unlink(os.path.join(shared.path, word))
    save(shared, os.path.join(shared.path, word))
    assert changed(shared) == [("D", word)]
    assert staged(shared) == ["new-theirs.txt", "theirs.txt"]


def test_paths_are_read_from_where_the_caller_stands(shared):
    shared.write("sub/deep/a", "1")
    shared.write("sub/b", "1")
    save(shared, "deep/a", "./../sub/b", cwd=os.path.join(shared.path, "sub"))
    assert changed(shared) == [("A", "sub/b"), ("A", "sub/deep/a")]


def test_a_folder_means_what_changed_below_it_without_ignored_files(shared):
    shared.write(".gitignore", "*.log\n")
    shared.write("pkg/a", "1")
    shared.write("pkg/b/c", "1")
    shared.write("pkg/x.log", "1")
    save(shared, "pkg/")
    assert changed(shared) == [("A", "pkg/a"), ("A", "pkg/b/c")]
    os.unlink(os.path.join(shared.path, "pkg/b/c"))
    shared.write("pkg/a", "2")
    save(shared, "pkg")
    assert changed(shared) == [("D", "pkg/b/c"), ("M", "pkg/a")]
    os.unlink(os.path.join(shared.path, "pkg/a"))
    os.unlink(os.path.join(shared.path, "pkg/x.log"))
    os.rmdir(os.path.join(shared.path, "pkg/b"))
    os.rmdir(os.path.join(shared.path, "pkg"))
    save(shared, "pkg")
    assert changed(shared) == [("D", "pkg/a")]


def test_modes_links_and_kinds_of_files_are_kept(shared):
    os.chmod(shared.write("run.sh", "#!/bin/sh\n"), 0o755)
    os.symlink("../nowhere", os.path.join(shared.path, "link"))
    save(shared, "run.sh", "link")
    assert entries(shared, "run.sh", "link").count("120000") == 1
    assert "100755" in entries(shared, "run.sh")
    assert shared.git("show", "HEAD:link") == "../nowhere"
    os.chmod(os.path.join(shared.path, "run.sh"), 0o644)
    save(shared, "run.sh")
    assert changed(shared) == [("M", "run.sh")]
    os.unlink(os.path.join(shared.path, "run.sh"))
    shared.write("run.sh/inside", "now a folder")
    save(shared, "run.sh")
    assert changed(shared) == [("A", "run.sh/inside"), ("D", "run.sh")]
    os.mkfifo(os.path.join(shared.path, "pipe"))
    with pytest.raises(UserError, match="neither a file nor a link"):
        save(shared, "pipe")


def test_nothing_that_means_nothing_is_committed(shared):
    head = shared.head()
    for paths, words in (
        (["*.none"], "no such file"),
        (["../x"], "outside"),
        ([".git/config"], "git's own"),
        (["README.md"], "Nothing to commit"),
        ([], "No paths"),
    ):
        with pytest.raises(UserError, match=words):
            save(shared, *paths)
    shared.write(".gitignore", "secret.env\n")
    shared.write("secret.env", "key")
    with pytest.raises(UserError, match="ignore"):
        save(shared, "secret.env")
    save(shared, "secret.env", force=True)
    assert shared.git("rev-parse", "HEAD^").strip() == head


def test_a_path_beyond_a_link_is_refused_with_its_real_name(shared):
    shared.write("other/x", "1")
    os.symlink("other", os.path.join(shared.path, "way"))
    with pytest.raises(UserError, match="'other/x'"):
        save(shared, "way/x")


def test_ownership_refuses_what_is_not_covered_and_changes_nothing(shared):
    shared.write("src/a", "1")
    shared.write("lib/b", "1")
    before = status(shared)
    with pytest.raises(UserError, match="Not yours: 'lib/b'"):
        save(shared, "src/a", "lib/b", owned=Ownership.parse(["src/"]).covers)
    assert status(shared) == before
    save(shared, "src/a", owned=Ownership.parse(["src/"]).covers)


def test_of_a_folder_only_what_is_owned_is_taken(shared):
    shared.write("src/a", "1")
    shared.write("lib/b", "1")
    owned = Ownership.parse(["src/"]).covers
    landed = save(shared, ".", owned=owned)
    assert changed(shared) == [("A", "src/a")]
    assert "Left out" in landed.notes[0]
    with pytest.raises(UserError, match="Not yours"):
        save(shared, "lib", owned=owned)
    assert staged(shared) == ["new-theirs.txt", "theirs.txt"]


def test_a_file_outside_a_sparse_checkout_is_not_taken_for_deleted(shared):
    shared.write("big/file", "1")
    shared.git("add", "big/file")
    shared.git("commit", "-qm", "big")
    shared.git("sparse-checkout", "set", "--no-cone", "/*", "!/big/")
    assert not os.path.exists(os.path.join(shared.path, "big/file"))
    with pytest.raises(UserError, match="sparse checkout"):
        save(shared, "big/file")


def test_staged_folders_are_opened_too(shared):
    shared.write("pkg/a", "1")
    shared.write("pkg/b", "1")
    shared.git("add", "pkg/a")
    save(shared, "pkg", staged=True)
    assert changed(shared) == [("A", "pkg/a")]


def test_the_executable_bit_is_left_alone_where_the_disk_has_none(shared):
    os.chmod(shared.write("run.sh", "1"), 0o755)
    save(shared, "run.sh")
    shared.git("config", "core.fileMode", "false")
    os.chmod(shared.write("run.sh", "2"), 0o644)
    save(shared, "run.sh")
    assert "100755" in shared.git("ls-tree", "HEAD", "run.sh")


def test_staged_commits_the_staged_part_and_leaves_the_rest_on_the_disk(shared):
    lines = shared.read("both.txt").split("\n")
    shared.write("both.txt", "\n".join(["first", *lines[1:]]))
    shared.git("add", "both.txt")
    shared.write("both.txt", "\n".join(["first", *lines[1:-1], "last", ""]))
    save(shared, "both.txt", staged=True)
    assert "last" not in shared.git("show", "HEAD:both.txt")
    assert shared.git("show", "HEAD:both.txt").startswith("first")
    assert shared.read("both.txt").endswith("last\n")
    assert staged(shared) == ["new-theirs.txt", "theirs.txt"]
    with pytest.raises(UserError, match="Nothing to commit"):
        save(shared, "both.txt", staged=True)


def test_a_file_staged_in_part_is_committed_whole_and_that_is_told(shared):
    shared.write("both.txt", "a\n")
    shared.git("add", "both.txt")
    shared.write("both.txt", "b\n")
    landed = save(shared, "both.txt", look_around=True)
    assert "staged in part" in landed.notes[0]
    assert shared.git("show", "HEAD:both.txt") == "b\n"


def test_after_git_mv_both_names_or_the_new_one_alone_make_a_rename(shared):
    shared.git("mv", "both.txt", "moved.txt")
    save(shared, "both.txt", "moved.txt")
    assert changed(shared) == [("A", "moved.txt"), ("D", "both.txt")]
    shared.git("mv", "moved.txt", "again.txt")
    landed = save(shared, "again.txt", look_around=True)
    assert changed(shared) == [("A", "again.txt"), ("D", "moved.txt")]
    assert "moved.txt" in landed.notes[0]
    assert staged(shared) == ["new-theirs.txt", "theirs.txt"]


def test_a_deletion_staged_by_somebody_else_is_not_taken_for_a_move(shared):
    shared.write("a/__init__.py", "")
    shared.write("a/licence.txt", "".join(f"line {n}\n" for n in range(50)))
    shared.git("add", "a")
    shared.git("commit", "-qm", "a", "--", "a")
    shared.git("rm", "-q", "a/__init__.py", "a/licence.txt")
    shared.write("b/__init__.py", "")
    shared.write("b/licence.txt", "".join(f"line {n}\n" for n in range(49)))
    shared.git("add", "b")
    save(shared, "b", look_around=True)
    assert changed(shared) == [("A", "b/__init__.py"), ("A", "b/licence.txt")]
    assert "a/__init__.py" in staged(shared)


@pytest.mark.slow
def test_thousands_of_files_in_one_folder_land_together(shared):
    names = [f"many/{number}.txt" for number in range(1500)]
    for name in names:
        shared.write(name, name)
    save(shared, *names)
    assert len(changed(shared)) == 1500
    for name in names[:800]:
        shared.write(name, "2")
    shared.git("add", "many")
    save(shared, *names[:700], staged=True)
    assert len(changed(shared)) == 700
    shared.write(".gitattributes", "*.txt text\n")
    for name in names[:600]:
        shared.write(name, "3\r\n")
    save(shared, "many")
    assert shared.git("show", "HEAD:many/5.txt") == "3\n"
    assert len(changed(shared)) == 700


def test_the_first_commit_and_a_detached_head(tmp_path):
    repo = Repo.create(str(tmp_path / "empty"), commit=False)
    repo.write("a", "1")
    repo.write("b", "1")
    repo.git("add", "b")
    assert save(repo, "a").branch == "main"
    assert changed(repo) == [("A", "a")]
    assert staged(repo) == ["b"]
    repo.git("checkout", "-q", "--detach")
    repo.write("a", "2")
    landed = save(repo, "a")
    assert landed.branch == ""
    assert repo.head() == landed.commit
    assert repo.git("rev-parse", "main") != landed.commit
    assert "commit: work" in repo.git("reflog", "-1")


def test_packed_refs_and_packed_objects_are_found(shared):
    for number in range(5):
        shared.write(f"deep/{number}/file", f"{number}")
    shared.git("add", "deep")
    shared.git("commit", "-qm", "deep")
    shared.git("gc", "-q")
    shared.git("pack-refs", "--all")
    shared.write("deep/3/file", "changed")
    save(shared, "deep/3/file")
    assert changed(shared) == [("M", "deep/3/file")]
    assert len(shared.git("ls-tree", "-r", "--name-only", "HEAD", "deep").split()) == 5


def test_a_linked_worktree_commits_on_its_own_branch(shared, tmp_path):
    tree = str(tmp_path / "tree")
    shared.git("worktree", "add", "-q", "-b", "side", tree)
    side = Repo(tree)
    main = shared.head()
    side.write("x", "1")
    assert save(side, "x").branch == "side"
    assert shared.head() == main
    assert status(side) == []
    assert "commit: work" in side.git("reflog", "show", "-1", "side")


def test_a_submodule_is_committed_as_the_commit_it_stands_at(shared, tmp_path):
    inner = Repo.create(str(tmp_path / "inner"))
    shared.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", inner.path, "sub")
    save(shared, "sub", ".gitmodules")
    module = Repo(os.path.join(shared.path, "sub"))
    module.write("x", "1")
    new = module.commit("inner change")
    save(shared, "sub")
    assert shared.git("ls-tree", "HEAD", "sub").split()[:3] == ["160000", "commit", new]
    Repo.create(os.path.join(shared.path, "stray"))
    with pytest.raises(UserError, match="repository of its own"):
        save(shared, "stray")


def test_concluding_a_merge_takes_the_merge_and_nothing_staged_by_others(repo):
    repo.write("f", "base\n")
    repo.write("g", "base\n")
    repo.commit("base")
    repo.git("checkout", "-q", "-b", "side")
    repo.write("f", "side\n")
    repo.write("g", "side\n")
    repo.write("only-side", "1\n")
    side = repo.commit("side")
    repo.git("checkout", "-q", "main")
    repo.write("f", "main\n")
    main = repo.commit("main")
    repo.git("merge", "-q", "side", check=False)
    repo.write("foreign", "x")
    repo.git("add", "foreign")
    repo.write("unrelated", "u")
    save(repo, "unrelated")  # another session's commit in the middle does not end the merge
    assert os.path.exists(os.path.join(repo.path, ".git", "MERGE_HEAD"))
    repo.write("mine-too", "x")
    with pytest.raises(UserError, match="conflicts: 'f'"):
        save(repo, "g", message="early")
    repo.write("f", "both\n")
    save(repo, "f", message=[])
    assert repo.git("rev-parse", "HEAD^1^", "HEAD^2").split() == [main, side]
    assert repo.git("show", "HEAD:f", "HEAD:g") == "both\nside\n"
    assert "only-side" in repo.git("ls-tree", "--name-only", "HEAD")
    assert "foreign" not in repo.git("ls-tree", "--name-only", "HEAD")
    assert repo.git("log", "-1", "--format=%s").startswith("Merge branch 'side'")
    assert not os.path.exists(os.path.join(repo.path, ".git", "MERGE_HEAD"))
    assert status(repo) == ["A  foreign", "?? mine-too"]


def test_concluding_a_cherry_pick_keeps_the_author(repo):
    repo.write("f", "base\n")
    repo.commit("base")
    repo.git("checkout", "-q", "-b", "side")
    repo.write("f", "side\n")
    repo.write("extra", "1\n")
    repo.git("add", "-A")
    repo.git("commit", "-qm", "picked", "--author", "Other <other@example.invalid>")
    repo.git("checkout", "-q", "main")
    repo.write("f", "main\n")
    repo.commit("main")
    repo.git("cherry-pick", "side", check=False)
    repo.write("f", "both\n")
    save(repo, "f", message=[])
    assert repo.git("log", "-1", "--format=%an|%cn|%s|%p").startswith("Other|Test Person|picked|")
    assert changed(repo) == [("A", "extra"), ("M", "f")]
    assert status(repo) == []


def test_hooks_see_the_private_index_alone_and_their_fixes_are_taken_only_inside(shared):
    seen = os.path.join(shared.path, ".git", "seen")
    hook(
        shared,
        "pre-commit",
        f'git diff --cached --name-only > "{seen}"\nprintf "fixed\\n" > mine.txt\ngit add mine.txt\necho sneak > sneak.txt\ngit add sneak.txt\n',
    )
    hook(shared, "prepare-commit-msg", 'test "$2" = message && sed -i "1s/^/[T-1] /" "$1"\n')
    hook(shared, "commit-msg", 'echo "Checked: yes" >> "$1"\n')
    hook(shared, "post-commit", f'git rev-parse HEAD > "{seen}.post"\n')
    shared.write("mine.txt", "raw\n")
    landed = save(shared, "mine.txt")
    with open(seen, encoding="utf-8") as file:
        assert file.read() == "mine.txt\n"
    with open(seen + ".post", encoding="utf-8") as file:
        assert file.read().strip() == landed.commit
    assert changed(shared) == [("A", "mine.txt")]
    assert shared.git("show", "HEAD:mine.txt") == "fixed\n"
    assert shared.git("log", "-1", "--format=%B").strip() == "[T-1] work\nChecked: yes"
    assert "sneak.txt" in landed.notes[0]
    assert staged(shared) == ["new-theirs.txt", "theirs.txt"]


def test_a_hook_that_says_no_leaves_everything_as_it_was(shared):
    hook(shared, "pre-commit", "echo the style is wrong; exit 3\n")
    shared.write("mine.txt", "1")
    head, before = shared.head(), status(shared)
    with pytest.raises(UserError, match="the style is wrong"):
        save(shared, "mine.txt")
    assert (shared.head(), status(shared)) == (head, before)
    save(shared, "mine.txt", verify=False)


def test_core_hooks_path_is_honoured(shared):
    shared.write("tools/pre-commit", "#!/bin/sh\nexit 1\n")
    os.chmod(os.path.join(shared.path, "tools/pre-commit"), 0o755)
    shared.git("config", "core.hooksPath", "tools")
    with pytest.raises(UserError, match="pre-commit hook refused"):
        save(shared, "tools/pre-commit")


def test_a_reference_transaction_hook_of_the_person_is_asked(shared):
    hook(shared, "reference-transaction", 'test "$1" = prepared && exit 1\nexit 0\n')
    shared.write("mine.txt", "1")
    head = shared.head()
    with pytest.raises(UserError, match="could not be moved"):
        save(shared, "mine.txt")
    assert shared.head() == head
    assert not os.path.exists(os.path.join(shared.path, ".git/index.lock"))


def test_filters_line_ends_and_encodings_are_gits(shared):
    shared.git("config", "filter.up.clean", "tr a-z A-Z")
    shared.write(".gitattributes", "*.up filter=up\n*.txt text eol=lf\n*.utf16 working-tree-encoding=UTF-16LE\n")
    shared.write("a.up", "abc\n")
    shared.write("b.txt", "x\r\ny\r\n")
    shared.write("c.utf16", "hi\n".encode("utf-16-le"))
    shared.write("d.bin", "x\r\n")
    save(shared, ".gitattributes", "a.up", "b.txt", "c.utf16", "d.bin")
    assert shared.git("show", "HEAD:a.up") == "ABC\n"
    assert shared.git("show", "HEAD:b.txt") == "x\ny\n"
    assert shared.git("show", "HEAD:c.utf16") == "hi\n"
    assert shared.git("show", "HEAD:d.bin") == "x\r\n"
    assert staged(shared) == ["new-theirs.txt", "theirs.txt"]


def test_messages_are_what_git_would_write(shared):
    cases = [
        ("one", {}),
        ("  one  \n\n\n\ntwo \n\n", {}),
        ("s\n\nbody", {"signoff": True}),
        ("x", {"trailers": ("Task: T-1", "By: me")}),
    ]
    for number, (text, options) in enumerate(cases):
        shared.write("mine.txt", f"{number}")
        save(shared, "mine.txt", message=text, **options)
        ours = shared.git("log", "-1", "--format=%B", "HEAD")
        words = [f"--trailer={line}" for line in options.get("trailers", ())] + (
            ["-s"] if options.get("signoff") else []
        )
        shared.git("commit", "-q", "--allow-empty", "--only", "-m", text, *words)
        assert ours == shared.git("log", "-1", "--format=%B")
    with pytest.raises(UserError, match="empty"):
        save(shared, "mine.txt", message="  \n")


def test_a_commit_is_signed_with_the_persons_key(shared, tmp_path):
    key = str(tmp_path / "key")
    try:
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    except FileNotFoundError:
        from sandbox import absent

        absent("ssh-keygen")
    for name, value in (("gpg.format", "ssh"), ("user.signingkey", key), ("commit.gpgsign", "true")):
        shared.git("config", name, value)
    shared.write("mine.txt", "1")
    save(shared, "mine.txt")
    assert "gpgsig" in shared.git("cat-file", "commit", "HEAD")
    shared.write("mine.txt", "2")
    save(shared, "mine.txt", unsigned=True)
    assert "gpgsig" not in shared.git("cat-file", "commit", "HEAD")


def test_only_ones_own_unpublished_commit_is_amended(shared):
    shared.write("mine.txt", "1")
    first = save(shared, "mine.txt", session="s1")
    shared.write("mine.txt", "2")
    with pytest.raises(UserError, match="another session made it"):
        save(shared, "mine.txt", message=[], amend=True, session="s2")
    again = save(shared, "mine.txt", message=[], amend=True, session="s1")
    assert shared.git("show", "HEAD:mine.txt") == "2"
    assert shared.git("rev-parse", "HEAD^") == shared.git("rev-parse", f"{first.commit}^")
    save(shared, message="better words", amend=True, session="s1")
    assert shared.git("log", "-1", "--format=%s").strip() == "better words"
    shared.git("update-ref", "refs/remotes/origin/main", "HEAD")
    with pytest.raises(UserError, match="remote branch"):
        save(shared, "mine.txt", message="x", amend=True, session="s1")
    shared.git("commit", "-q", "--allow-empty", "-m", "theirs", "--author", "Other <o@example.invalid>")
    with pytest.raises(UserError, match="its author is Other"):
        save(shared, "mine.txt", message="x", amend=True)
    with pytest.raises(UserError, match="this session did not make it"):
        save(shared, "mine.txt", message="x", amend=True, session="s1")
    assert again.commit != first.commit
    assert staged(shared)[:1] == ["new-theirs.txt"] or shared.git("show", "--format=", "--name-only") != ""


def test_an_empty_commit_only_when_asked(shared):
    save(shared, allow_empty=True, message="marker")
    assert changed(shared) == []


def test_sha256_repositories_work(tmp_path):
    path = str(tmp_path / "wide")
    subprocess.run(["git", "init", "-q", "--object-format=sha256", "-b", "main", path], check=True)
    repo = Repo(path)
    repo.write("d/a", "1")
    save(repo, "d/a")
    repo.write("d/b", "1")
    save(repo, "d/b")
    assert len(repo.head()) == 64
    assert repo.git("fsck", "--strict") == ""
    assert status(repo) == []


def test_a_repository_object_sees_settings_that_change(shared):
    environment = git_environment(from_environment())
    kept = Repository(shared.path, environment)
    shared.write("mine.txt", "1")
    commit(kept, ["mine.txt"], "a", environment=environment, now=0)
    shared.git("config", "user.name", "Somebody New")
    shared.write("mine.txt", "2")
    commit(kept, ["mine.txt"], "b", environment=environment, now=0)
    assert shared.git("log", "-2", "--format=%an").split("\n")[:2] == ["Somebody New", "Test Person"]


def test_an_index_lock_of_another_git_is_waited_for(shared):
    lock = os.path.join(shared.path, ".git", "index.lock")
    shared.write("mine.txt", "1")
    with open(lock, "xb"):
        pass
    holder = subprocess.Popen([sys.executable, "-c", f"import time,os; time.sleep(0.4); os.unlink({lock!r})"])
    save(shared, "mine.txt")
    assert holder.wait() == 0
    assert changed(shared) == [("A", "mine.txt")]


def test_a_lock_held_too_long_is_explained_and_nothing_is_half_done(shared):
    lock = os.path.join(shared.path, ".git", "index.lock")
    shared.write("mine.txt", "1")
    head = shared.head()
    with open(lock, "xb"):
        pass
    with pytest.raises(UserError, match=r"index\.lock"):
        save(shared, "mine.txt", index_patience=0.2)
    assert shared.head() == head
    assert os.path.exists(lock)
    os.unlink(lock)
    save(shared, "mine.txt")


def test_one_who_waits_too_long_in_line_is_told_who_is_inside(shared):
    import fcntl

    shared.write("mine.txt", "1")
    save(shared, "mine.txt")
    shared.write("mine.txt", "2")
    with open(os.path.join(shared.path, ".git/handoff/commit.lock"), "rb+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(Conflict, match="pid="):
            save(shared, "mine.txt", patience=0.1)
    save(shared, "mine.txt")
    assert os.listdir(os.path.join(shared.path, ".git/handoff/line")) == []


def test_what_the_disk_refuses_is_told_and_changes_nothing(shared):
    head = shared.head()
    shared.write("mine.txt", "1")
    objects = os.path.join(shared.path, ".git", "objects")
    os.rename(objects, objects + ".away")
    with open(objects, "w", encoding="utf-8"):
        pass
    with pytest.raises(UserError):
        save(shared, "mine.txt")
    os.unlink(objects)
    os.rename(objects + ".away", objects)
    assert shared.head() == head
    save(shared, "mine.txt")


def test_a_named_lock_is_shared_with_whoever_holds_it(shared, tmp_path):
    import fcntl

    lock = str(tmp_path / "deep" / "lock")
    shared.write("mine.txt", "1")
    save(shared, "mine.txt", lock=lock)
    shared.write("mine.txt", "2")
    with open(lock, "rb+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(Conflict, match="still committing"):
            save(shared, "mine.txt", lock=lock, patience=0.1)
    save(shared, "mine.txt", lock=lock, patience=0.1)


def test_objects_have_the_modes_git_gives_them(shared):
    shared.write("mine.txt", "unusual content 123")
    save(shared, "mine.txt")
    sha = shared.git("rev-parse", "HEAD:mine.txt").strip()
    mode = os.stat(os.path.join(shared.path, ".git/objects", sha[:2], sha[2:])).st_mode
    assert stat.S_IMODE(mode) == 0o444
