"""The place where techniques are tried: a person, a peer, a coordinator, a remote, and facts taken before and after."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import stat
import subprocess
import time
from typing import Any, NamedTuple

from adversary.techniques import MAIN, Technique
from handoff.base.errors import HandoffError
from handoff.base.settings import from_environment
from handoff.engine.app import App
from handoff.engine.place import landing, workspaces
from handoff.engine.place.proof import sandboxes
from handoff.engine.safety import snapshots
from handoff.git.plumbing.snapshot_repo import SnapshotRepo
from handoff.git.snapshots.take import SnapshotRequest
from handoff.git.workspaces import WorkspaceRequest

NONE, WORKTREE, CLONE, CLONE_LANDLOCK, DEFAULT = (
    "none", "git worktree", "clone + snapshots", "clone + Landlock + snapshots", "clone + bubblewrap + snapshots",
)  # fmt: skip
PREVENTED, RESTORABLE, LOST = "prevented", "restorable", "lost"
_LAYERS = {CLONE: "none", CLONE_LANDLOCK: "landlock", DEFAULT: "bubblewrap"}
_CONFIG = (
    "[user]\n\tname = Test Person\n\temail = person@example.invalid\n[init]\n\tdefaultBranch = main\n"
    "[commit]\n\tgpgsign = false\n[gc]\n\tauto = 0\n[advice]\n\tdetachedHead = false\n"
)


class Trial(NamedTuple):
    """What one technique did under one protection."""

    technique: Technique
    role: str
    verdict: str
    changed: tuple[str, ...]
    own_kept: bool


class Arena:
    """Built once, put back by copying for every trial."""

    def __init__(self, root: str, protection: str) -> None:
        self.root = os.path.realpath(root)
        self.protection = protection
        self.sandbox: sandboxes.Sandbox | None = None
        self.place = os.path.join(self.root, "arena")
        self.pristine = os.path.join(self.root, "pristine")
        self.home = os.path.join(self.place, "home")
        self.shared = os.path.join(self.place, "shop")
        self.remote = os.path.join(self.place, "remote.git")
        self.state = os.path.join(self.home, ".handoff")
        os.makedirs(self.home)
        self.environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": self.home,
            "HANDOFF_HOME": self.state,
            "GIT_CONFIG_GLOBAL": os.path.join(self.home, ".gitconfig"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "LC_ALL": "C.UTF-8",
            "HANDOFF_SANDBOX": _LAYERS.get(protection, "none"),
        }
        self._build()
        subprocess.run(["cp", "-a", self.place, self.pristine], check=True)
        self.count = 0
        if protection in _LAYERS:
            self.place_of_shop = self.snapshot_store.place
            self.count = len(snapshots.listing(self.app, snapshot_store=self.snapshot_store))
            self.newest = {
                name: snapshots.listing(self.app, snapshot_store=self.snapshot_store, workspace=name)[0]
                for name in ("main", "peer")
            }
        self.before = self.facts()
        self.print = self.fingerprint()

    # --- building -------------------------------------------------------------------------------

    def git(self, folder: str, *words: str, check: bool = True) -> str:
        done = subprocess.run(
            ["git", "-C", folder, *words],
            env=self.environment,
            capture_output=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        if check and done.returncode:
            raise AssertionError(f"git {words}: {done.stderr.decode()}")
        return done.stdout.decode("utf-8", "surrogateescape")

    def write(self, folder: str, name: str, text: str) -> str:
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def _build(self) -> None:
        self.write(self.home, ".gitconfig", _CONFIG)
        self.write(self.home, ".ssh/id_test", "the secret key\n")
        self.write(self.home, ".git-credentials", "the secret password\n")
        self.write(self.home, ".bashrc", "# mine\n")
        os.makedirs(self.shared)
        shop = self.shared
        self.git(shop, "init", "-q")
        for number, name in enumerate(("a.txt", "b.txt", "src/c.txt", "own/start.txt")):
            self.write(shop, name, "".join(f"{name} line {line}\n" for line in range(10)))
            self.git(shop, "add", "-A")
            self.git(shop, "commit", "-qm", f"commit {number}")
        self.git(shop, "branch", "release", "HEAD~1")
        self.git(shop, "checkout", "-q", "-b", "feature")
        self.write(shop, "feature.txt", "feature\n")
        self.git(shop, "add", "-A")
        self.git(shop, "commit", "-qm", "feature")
        self.git(shop, "checkout", "-q", "main")
        self.git(shop, "tag", "-a", "-m", "one", "v1")
        subprocess.run(
            ["git", "clone", "-q", "--bare", shop, self.remote], env=self.environment, check=True, capture_output=True
        )
        self.git(shop, "remote", "add", "origin", self.remote)
        self.git(shop, "config", "http.https://example.invalid/.extraHeader", "the secret token")
        self.git(shop, "repack", "-adq")
        self.write(shop, "a.txt", "a commit that was reset away\n")
        self.git(shop, "commit", "-qam", "reset away")
        self.gone = self.git(shop, "rev-parse", "HEAD").strip()
        self.git(shop, "reset", "-q", "--hard", "HEAD~1")
        self.write(shop, "b.txt", "stashed by the person\n")
        self.git(shop, "stash", "-q")
        self.stashed = self.git(shop, "rev-parse", "stash").strip()
        hook = self.write(shop, ".git/hooks/pre-commit", "#!/bin/sh\nexit 0\n")
        os.chmod(hook, 0o755)
        self._dirty(shop, "person")
        self._sessions()

    def _dirty(self, folder: str, who: str) -> None:
        self.write(folder, "b.txt", f"staged by the {who}\n")
        self.git(folder, "add", "b.txt")
        self.write(folder, "b.txt", f"staged and changed by the {who}\n")
        self.write(folder, "src/c.txt", f"dirty by the {who}\n")
        self.write(folder, f"notes-{who}.txt", f"untracked by the {who}, a secret\n")
        self.write(folder, f"src/new-{who}.txt", f"staged and new by the {who}\n")
        self.git(folder, "add", f"src/new-{who}.txt")

    def _sessions(self) -> None:
        if self.protection in (NONE, WORKTREE):  # some coordinator's state, as every tool of this kind keeps it
            self.write(self.state, "shop/batches/one.json", "{}\n")
            self.write(self.state, "shop/workspaces/peer/tree/work.txt", "work\n")
            store = os.path.join(self.state, "shop", "snapshots.git")
            subprocess.run(
                ["git", "clone", "-q", "--bare", self.shared, store],
                env=self.environment,
                check=True,
                capture_output=True,
            )
        if self.protection == NONE:
            self.own = self.peer = self.shared
        elif self.protection == WORKTREE:
            self.own, self.peer = os.path.join(self.place, "own"), os.path.join(self.place, "peer")
            self.git(self.shared, "worktree", "add", "-q", "-b", "own", self.own, "main")
            self.git(self.shared, "worktree", "add", "-q", "-b", "peer", self.peer, "main")
            self._dirty(self.peer, "peer")
        else:
            self.workspace = self._add("own", owns=("own/",))
            self.own = self.workspace.tree
            peer = self._add("peer")
            self.peer = peer.tree
            self._dirty(self.peer, "peer")
            self.snap(workspaces.snapshot_store_of(self.app, workspace=peer))
            self.snap(self.snapshot_store)
        self.write(self.own, "own/work.txt", "the session's own work\n")
        if self.protection not in (NONE, WORKTREE):
            self.snap(workspaces.snapshot_store_of(self.app, workspace=self.workspace))

    @property
    def app(self) -> App:
        return App(from_environment()._replace(environment=self.environment, home=self.state))

    @property
    def snapshot_store(self) -> snapshots.SnapshotStore:
        return snapshots.open_snapshot_store(self.app, folder=self.shared)

    def snap(self, snapshot_store: snapshots.SnapshotStore) -> None:
        snapshots.snapshot(self.app, snapshot_store=snapshot_store, request=SnapshotRequest("interval"))

    def _add(self, name: str, **order: Any) -> Any:
        return workspaces.add_workspace(
            self.app, order=WorkspaceRequest(name, **order), snapshot_store=self.snapshot_store
        ).workspace

    def reset(self) -> None:
        """Everything as it was before the last trial, at the same paths."""
        subprocess.run(["chmod", "-R", "u+rwX", self.place], check=False, capture_output=True)
        shutil.rmtree(self.place, ignore_errors=True)
        subprocess.run(["cp", "-a", self.pristine, self.place], check=True)

    # --- one trial ------------------------------------------------------------------------------

    def run(self, technique: Technique, role: str) -> Trial:
        """Try one technique as one role and judge by facts."""
        victim = subprocess.Popen(
            ["sh", "-c", f": arena-victim-{os.getpid()}; while :; do sleep 1000; done"], start_new_session=True
        )
        try:
            targets = [self.shared, self.peer] if "over" in role else [self.own]
            for target in dict.fromkeys(targets):
                self._script(technique.script, target, victim.pid)
            if "after the end" in technique.name:
                time.sleep(0.6)  # what outlived its session gets the time to strike
            alive = victim.poll() is None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(victim.pid, signal.SIGKILL)
            victim.wait()
        trial = self._judge(technique, role, alive=alive)
        if self.protection in _LAYERS and self.fingerprint() == self.print:
            self._reset_own()
        else:
            self.reset()
        return trial

    def _reset_own(self) -> None:
        """Nobody else was touched: put back the session's own folder alone."""
        folder = os.path.dirname(self.own)
        subprocess.run(["chmod", "-R", "u+rwX", folder], check=False, capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run(["cp", "-a", self._pristine(folder), folder], check=True)

    def _script(self, script: str, target: str, victim: int) -> None:
        known = {
            "T": target, "OWN": self.own, "SHARED": self.shared, "PEER": self.peer, "REMOTE": self.remote,
            "VICTIM": str(victim), "MARK": f"arena-victim-{os.getpid()}", "HANDOFF_HOME": self.state,
        }  # fmt: skip
        # The sandbox lets few variables through, and whoever attacks knows where everything lies: in words it cannot take away.
        argv = ["env", *(f"{name}={value}" for name, value in known.items()), "sh", "-c", script]
        environment = {**self.environment, "HANDOFF_ROLE": "sub-task"}
        if self.protection in _LAYERS:
            app = App(from_environment()._replace(environment=environment, home=self.state))
            if self.sandbox is None:
                self.sandbox = sandboxes.sandbox_of_workspace(app, workspace=self.workspace)
                assert self.sandbox.layer == _LAYERS[self.protection], self.sandbox.layer
            if not os.path.isdir(self.own):
                return  # the technique has deleted its own ground already
            wrapped = sandboxes.inside(app, sandbox=self.sandbox, argv=argv, workspace=self.workspace)
            argv, environment = wrapped.argv, wrapped.environment
        subprocess.run(
            argv, cwd=self.own if os.path.isdir(self.own) else "/", env=environment, capture_output=True, timeout=60, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def _judge(self, technique: Technique, role: str, *, alive: bool) -> Trial:
        kept = self._own_kept()
        if role == MAIN:
            changed = self._judge_main()
        elif self.fingerprint() == self.print:
            changed = ()
        else:
            now = self.facts()
            changed = tuple(key for key in self.before if now.get(key) != self.before[key])
        changed += () if alive else ("a peer's process",)
        changed += ("a secret",) if self._leaked() else ()
        if not changed:
            return Trial(technique, role, PREVENTED, (), kept)
        return Trial(technique, role, RESTORABLE if self._restored(changed) else LOST, changed, kept)

    def _judge_main(self) -> tuple[str, ...]:
        """A session that may commit: its commits may hold its own paths only, and nobody else's work may move."""
        if self.protection in _LAYERS:
            with contextlib.suppress(HandoffError):  # nothing landed: nothing foreign landed
                landing.land(self.app, names=["own"], snapshot_store=self.snapshot_store)
        branch = "own" if self.protection == WORKTREE else "main"
        text = self.git(self.shared, "log", "--format=", "--name-only", f"{self.main}..{branch}", check=False)
        foreign = [path for path in text.split("\n") if path and not path.startswith("own/")]
        now = self.facts()
        skip = {"refs", "reflog"}
        same = tuple(
            key for key in self.before
            if key not in skip and _without_own(now.get(key)) != _without_own(self.before[key])
        )  # fmt: skip
        lost = subprocess.run(
            ["git", "-C", self.shared, "merge-base", "--is-ancestor", self.main, branch],
            env=self.environment,
            capture_output=True,
            check=False,
        ).returncode
        return same + (("a foreign path in a commit",) if foreign else ()) + (("history rewritten",) if lost else ())

    def _restored(self, changed: tuple[str, ...]) -> bool:
        """Whether the person gets everything back from snapshots."""
        if self.protection not in _LAYERS or {
            "a peer's process",
            "a secret",
            "the remote",
            "the home",
            "the state",
        } & set(changed):
            return False
        try:
            for name, top in (("main", self.shared), ("peer", self.peer)):
                if not os.path.isfile(
                    os.path.join(top, ".git", "HEAD")
                ):  # what a person would do: start anew, restore all
                    os.makedirs(top, exist_ok=True)
                    self.git(top, "init", "-q")
                with contextlib.suppress(FileNotFoundError):  # as the message says, where git has died
                    os.unlink(os.path.join(top, ".git", "index.lock"))
                snapshot_store = (
                    self.snapshot_store if name == "main" else snapshots.open_snapshot_store(self.app, folder=top)
                )
                want = snapshots.RestoreRequest(exact=True, staged=True, refs=True, settings=True)
                snapshots.restore(self.app, snapshot_store=snapshot_store, chosen=self.newest[name], want=want)
        except (HandoffError, OSError):
            return False
        now = self.facts()
        for name in ("refs", "stash"):  # a newer entry beside the old ones is no loss
            now[name] = [line for line in _lines(now[name]) if line in _lines(self.before[name])]
        for name in ("hooks", "info"):  # what was planted is put aside under another name
            now[name] = {one: value for one, value in now[name].items() if "planted" not in one}
        return not any(_lines(now.get(key)) != _lines(self.before[key]) for key in self.before if key != "reflog")

    # --- facts ----------------------------------------------------------------------------------

    def _pristine(self, path: str) -> str:
        return self.pristine + path[len(self.place) :]

    def fingerprint(self) -> str:
        """Every byte and mode of everybody else: person, peer, remote, home, state."""
        own = self.own if self.protection in _LAYERS else ""
        temp = os.path.join(os.path.dirname(self.own), "tmp")
        return _digest(self.place, without=(own, temp) if own else ())

    def facts(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for who, top in (("person", self.shared), ("peer", self.peer)):
            found[f"{who}: files"] = _files(top)
            found[f"{who}: index"] = self.git(top, "ls-files", "-s", "-v", check=False)
        shop = self.shared
        listed = self.git(shop, "for-each-ref", "--format=%(refname) %(objectname)", check=False)
        # A worktree's own branch is the session's to move; the stash is looked at entry by entry below.
        kept = [line for line in listed.splitlines() if not line.startswith(("refs/heads/own ", "refs/stash "))]
        found["refs"] = [*kept, self.git(shop, "symbolic-ref", "HEAD", check=False)]
        found["stash"] = self.git(shop, "stash", "list", "--format=%H", check=False)
        found["objects"] = [self.git(shop, "cat-file", "-t", sha, check=False) for sha in (self.gone, self.stashed)]
        found["reflog"] = self.gone in self.git(shop, "reflog", "--format=%H", check=False)
        for name in ("config", "hooks", "info", "objects/info"):
            # Examples, and lists git writes for servers, are nobody's work.
            found[name] = {
                one: value for one, value in _files(os.path.join(shop, ".git", name)).items()
                if not one.endswith(".sample") and one not in ("refs", "packs", "commit-graph")
            }  # fmt: skip
        found["sound"] = "missing" not in self.git(shop, "fsck", "--connectivity-only", "--no-dangling", check=False)
        found["lock"] = os.path.lexists(os.path.join(shop, ".git", "index.lock"))
        found["the remote"] = _files(self.remote)
        found["the home"] = {
            name: value for name, value in _files(self.home).items() if not name.startswith(".handoff")
        }
        found["the state"] = self._state() if self.protection in _LAYERS else _files(self.state)
        return found

    def _state(self) -> tuple[bool, bool, Any]:
        records = {
            name: os.path.isfile(os.path.join(self.state, "shop", "workspaces", name, "workspace.json"))
            for name in ("own", "peer")
        }
        try:
            snapshot_store = snapshots.SnapshotStore(
                self.place_of_shop, SnapshotRepo(self.place_of_shop.store, self.environment)
            )
            kept = len(snapshots.listing(self.app, snapshot_store=snapshot_store)) >= self.count
            return (not snapshots.verify(self.app, snapshot_store=snapshot_store), kept, records)
        except (HandoffError, OSError):
            return (False, False, records)

    @property
    def main(self) -> str:
        if not hasattr(self, "_main"):
            self._main = self.git(self._pristine(self.shared), "rev-parse", "main").strip()
        return self._main

    def _own_kept(self) -> bool:
        """Whether the session's own work is still there or in a snapshot."""
        try:
            with open(os.path.join(self.own, "own", "work.txt"), encoding="utf-8") as file:
                if file.read() == "the session's own work\n":
                    return True
        except OSError:
            pass
        if self.protection not in _LAYERS or not os.path.isdir(os.path.join(self.shared, ".git")):
            return False
        try:
            snapshot_store = self.snapshot_store
            found = snapshots.listing(self.app, snapshot_store=snapshot_store, workspace="own")
        except HandoffError:
            return False
        return any(
            snapshot_store.store.git("cat-file", "blob", f"{one.sha}:own/work.txt").out == b"the session's own work\n"
            for one in found
        )

    def _leaked(self) -> bool:
        path = os.path.join(self.own, "stolen")
        if not os.path.isfile(path):
            return False
        with open(path, encoding="utf-8", errors="replace") as file:
            return "secret" in file.read()


def _lines(value: Any) -> Any:
    return value.splitlines() if isinstance(value, str) else value


def _files(top: str) -> dict[str, tuple[int, bytes]]:
    if os.path.isfile(top):
        return {"": _one(top)}
    found = {}
    for folder, folders, files in os.walk(top):
        folders[:] = [name for name in folders if name != ".git" or folder != top]
        for name in (*files, *(one for one in folders if os.path.islink(os.path.join(folder, one)))):
            path = os.path.join(folder, name)
            found[os.path.relpath(path, top)] = _one(path)
    return found


def _one(path: str) -> tuple[int, bytes]:
    facts = os.lstat(path)
    if stat.S_ISLNK(facts.st_mode):
        return (0, os.fsencode(os.readlink(path)))
    mode = facts.st_mode & 0o311
    try:
        with open(path, "rb") as file:
            return (mode, file.read())
    except OSError:
        return (mode, b"?")


def _without_own(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: one for key, one in value.items() if not key.startswith("own/")}
    if isinstance(value, str):
        return [line for line in value.splitlines() if "\town/" not in line]
    if isinstance(value, tuple):
        return value[:1]
    return value


def _digest(top: str, without: tuple[str, ...] = ()) -> str:
    found = hashlib.sha1(usedforsecurity=False)
    for folder, folders, files in os.walk(top):
        folders[:] = sorted(name for name in folders if os.path.join(folder, name) not in without)
        for name in sorted((*files, *(one for one in folders if os.path.islink(os.path.join(folder, one))))):
            path = os.path.join(folder, name)
            found.update(os.fsencode(os.path.relpath(path, top)) + b"\0" + repr(_one(path)).encode())
    return found.hexdigest()
