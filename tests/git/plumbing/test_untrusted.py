"""A session plants things in its clone; the coordinator commits, snapshots, lands and cleans up: nothing of it may run."""

from __future__ import annotations

import contextlib
import os
import subprocess

import pytest

from handoff.base.errors import HandoffError
from handoff.engine.place import workspaces
from handoff.git.plumbing import checkout as questions
from handoff.git.workspaces import WorkspaceRequest
from relay import app
from snapshot_archive import tree_facts

_SIGNED = """tree {tree}
parent {parent}
author A <a@example.invalid> 1700000000 +0000
committer A <a@example.invalid> 1700000000 +0000
gpgsig -----BEGIN PGP SIGNATURE-----
 iQ==
 -----END PGP SIGNATURE-----

signed
"""

# Each is run by the session in its clone; EVIL is a program that leaves a mark where no session may write.
TRAPS = {
    "fsmonitor": 'git config core.fsmonitor "$EVIL"',
    "hooks of its own": 'for h in reference-transaction post-index-change pre-commit post-checkout post-merge '
    'pre-auto-gc; do cp "$EVIL" .git/hooks/$h; done',
    "another hooks path": 'mkdir h && for h in reference-transaction post-index-change post-checkout; do cp "$EVIL" h/$h; '
    'done && git config core.hooksPath "$PWD/h"',
    "a filter by attributes": 'git config filter.x.clean "$EVIL" && git config filter.x.smudge "$EVIL" && '
    'echo "* filter=x" > .gitattributes',
    "a filter process by info/attributes": 'git config filter.x.process "$EVIL" && mkdir -p .git/info && '
    'echo "* filter=x" > .git/info/attributes',
    "textconv and external diff": 'git config diff.x.textconv "$EVIL" && git config diff.external "$EVIL" && '
    'git config diff.x.command "$EVIL" && echo "* diff=x" > .gitattributes',
    "a merge driver": 'git config merge.x.driver "$EVIL" && echo "* merge=x" > .gitattributes',
    "settings from elsewhere": 'printf "[core]\\n\\tfsmonitor = %s\\n\\thooksPath = %s\\n" "$EVIL" "$PWD/h" > more && mkdir -p h && '
    'cp "$EVIL" h/reference-transaction && git config include.path "$PWD/more"',
    "aliases, editor, pager, ssh": 'git config alias.status "!$EVIL" && git config alias.ls-files "!$EVIL" && '
    'git config core.editor "$EVIL" && git config core.pager "$EVIL" && git config pager.log "$EVIL" && '
    'git config core.sshCommand "$EVIL" && git config credential.helper "!$EVIL" && git config core.askPass "$EVIL"',
    "a signature to be verified": 'git config log.showSignature true && git config gpg.program "$EVIL" && '
    'git update-ref refs/heads/handoff/alpha $(git hash-object -t commit -w "$SIGNED")',
    "a missing object to be fetched": 'git config core.repositoryformatversion 1 && git config extensions.partialClone origin && '
    'git config remote.origin.promisor true && git config remote.origin.uploadpack "$EVIL" && '
    'git config remote.origin.url "$PWD" && git config protocol.file.allow always && '
    'git config protocol.ext.allow always && '
    'mkdir -p .git/refs/heads/handoff && echo 1111111111111111111111111111111111111111 > .git/refs/heads/handoff/alpha',
    "alternate refs": 'git config core.alternateRefsCommand "$EVIL"',
    "a work tree elsewhere": 'git config core.worktree "$THEIRS"',
    "a submodule with a command": 'printf "[submodule \\"s\\"]\\n\\tpath = s\\n\\turl = ext::$EVIL\\n\\tupdate = !$EVIL\\n" > .gitmodules && '
    'git init -q s && git -C s -c user.name=a -c user.email=a@b.c commit -q --allow-empty -m x && '
    'git -C s config core.fsmonitor "$EVIL" && git config submodule.s.update "!$EVIL" && git add s .gitmodules',
    "a nested repository": 'git init -q inner && git -C inner config core.fsmonitor "$EVIL" && echo x > inner/x && '
    'cp "$EVIL" inner/.git/hooks/post-index-change',
    "refs with odd names": 'for n in "a;$EVIL" "-x" "--upload-pack=$EVIL" "b|c"; do mkdir -p "$(dirname ".git/refs/heads/$n")" && '
    'cp .git/packed-refs /dev/null && git rev-parse HEAD > ".git/refs/heads/$n"; done',
    "file names that look like options": 'mkdir -p src && echo x > "src/--exec=$(basename "$EVIL")" && echo x > "src/-c" && '
    'printf x > "$(printf "src/a\\nb")" && echo x > "src/:(top)"',
    "case twins": "echo one > src/Twin && echo two > src/twin && echo three > src/TWIN",
    "a large file": "truncate -s 210M src/large",
    "a trusted-looking environment": 'printf "GIT_DIR=/nowhere\\n" > .env && export GIT_EXEC_PATH="$PWD" GIT_SSH="$EVIL"',
}  # fmt: skip

# These must be answered in time, whatever the answer is.
STOPPERS = {
    "a pipe in the tree": "mkfifo src/pipe",
    "a pipe as settings": "rm .git/config && mkfifo .git/config",
    "a pipe as included settings": 'mkfifo p && git config include.path "$PWD/p"',
    "a pipe as index": "rm .git/index && mkfifo .git/index",
    "a pipe as packed refs": "rm .git/packed-refs && mkfifo .git/packed-refs",
    "a pipe as HEAD": "rm .git/HEAD && mkfifo .git/HEAD",
    "a pipe as ignore list": "rm -f .git/info/exclude && mkfifo .git/info/exclude",
    "a pipe as alternates": "rm .git/objects/info/alternates && mkfifo .git/objects/info/alternates",
    "an endless link": "ln -s /dev/zero src/endless && rm .git/packed-refs && ln -s /dev/zero .git/packed-refs",
    "an unreadable file": "echo secret > src/locked && chmod 000 src/locked",
    "a git folder that leads to the person's": 'rm -rf .git && ln -s "$THEIRS/.git" .git',
    "a git file that leads to the person's": 'rm -rf .git && echo "gitdir: $THEIRS/.git" > .git',
    "a common folder that is the person's": 'echo "$THEIRS/.git" > .git/commondir',
}


@pytest.fixture
def clone(repo, tmp_path, monkeypatch):
    """A clone of a small repository; returns how the session plants something, and what must not appear."""
    monkeypatch.chdir(repo.path)
    repo.write("src/a.py", "a = 1\n")
    repo.write("src/b.py", "b = 1\n")
    repo.commit("second")
    place = workspaces.add_workspace(app(), order=WorkspaceRequest("alpha", owns=("**",))).workspace
    mark = tmp_path / "it-ran"
    evil = tmp_path / "evil"
    evil.write_text(f'#!/bin/sh\necho "$0 $*" >> {mark}\ncat >/dev/null 2>&1 </dev/null\nexit 0\n')
    evil.chmod(0o755)
    tree = repo.git("rev-parse", "HEAD^{tree}").strip()
    signed = tmp_path / "signed"
    signed.write_text(_SIGNED.format(tree=tree, parent=repo.head()))
    more = {**os.environ, "EVIL": str(evil), "THEIRS": repo.path, "SIGNED": str(signed)}

    def plant(script):
        subprocess.run(["sh", "-ec", script], cwd=place.tree, env=more, check=True, capture_output=True, timeout=60)
        with open(os.path.join(place.tree, "src", "a.py"), "a", encoding="utf-8") as file:
            file.write("more = 1\n")
        mark.unlink(missing_ok=True)  # what ran while the session itself used git is the session's affair

    return place, plant, mark


def acts(cli, place):
    """All a coordinator does to a workspace, each as a real command with a limit on its time."""
    for words in (
        ("workspace", "list"), ("batch", "collisions"), ("incident", "list"), ("land", "alpha"),
    ):  # fmt: skip
        cli(*words, code=None)
    for words in (("status", "--porcelain"), ("ls-files", "--others", "--exclude-standard", "-z")):
        with contextlib.suppress(HandoffError):  # refusing is an answer too
            questions.git(place.tree, *words, environment=app().git_environment)
    with contextlib.suppress(HandoffError):
        snapshot_store = workspaces.snapshot_store_of(app(), workspace=place)
        for words in (("log", "-n1", "HEAD"), ("cat-file", "-p", "1" * 40), ("check-attr", "-a", "--", "src/a.py")):
            snapshot_store.store.look(snapshot_store.place.source, *words)
    cli("workspace", "remove", "alpha", "--force", code=None)


# Those that can lie in one clone side by side are tried together: the mark says which of them ran.
ALONE = ("another hooks path", "settings from elsewhere", "a signature to be verified", "a missing object to be fetched",
         "a work tree elsewhere", "a large file")  # fmt: skip
FIRST = ("a submodule with a command",)  # the session itself could not stage it any more with the filters in place
BUNDLES = [(*FIRST, *(name for name in TRAPS if name not in (*ALONE, *FIRST))), *((name,) for name in ALONE)]


@pytest.mark.slow
@pytest.mark.parametrize("names", BUNDLES, ids=lambda names: names[0] if len(names) == 1 else "the others")
def test_nothing_a_session_planted_runs_outside_its_sandbox(clone, cli, repo, names):
    place, plant, mark = clone
    for name in names:
        plant(TRAPS[name])
    head, hooks = repo.head(), sorted(os.listdir(os.path.join(repo.path, ".git", "hooks")))
    questions.facts(place.tree, environment=app().git_environment)
    questions.changed_paths(place.tree, head, "HEAD", environment=app().git_environment)
    questions.commits(place.tree, "HEAD", environment=app().git_environment)
    acts(cli, place)
    assert not mark.exists(), mark.read_text()
    assert sorted(os.listdir(os.path.join(repo.path, ".git", "hooks"))) == hooks
    assert repo.git("config", "--get-regexp", "fsmonitor|hookspath|filter", check=False) == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", STOPPERS)
def test_nothing_a_session_planted_stops_the_coordinator_or_leads_it_elsewhere(clone, cli, repo, name):
    place, plant, mark = clone
    repo.write("mine.txt", "the person's own\n")
    before, index = tree_facts(repo.path), repo.git("ls-files", "-s")
    plant(STOPPERS[name])
    acts(cli, place)
    assert not mark.exists()
    repo.git("status")
    now = tree_facts(repo.path)
    assert {path: now.get(path) for path in before if path != "src/a.py"} == {
        path: value for path, value in before.items() if path != "src/a.py"
    }
    assert repo.git("ls-files", "-s").splitlines()[0] == index.splitlines()[0]


def test_a_question_about_a_clone_is_answered_as_git_itself_would(clone):
    place, plant, _ = clone
    plant("echo new > src/new && git rm -q --cached src/b.py && echo ignored > x.tmp && echo '*.tmp' > .gitignore")
    found = questions.facts(place.tree, environment=app().git_environment)
    assert found.branch == "handoff/alpha"
    assert found.staged == ("src/b.py",)
    assert found.unstaged == ("src/a.py",)
    assert set(found.untracked) == {"src/b.py", "src/new", ".gitignore"}
    left = os.path.join(place.project, "snapshots.git", "handoff", "alpha")
    assert not [name for name in os.listdir(left) if name.startswith("shadow")]
