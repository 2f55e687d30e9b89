"""The same techniques by a main session in the person's own checkout, without a sandbox: what is prevented, told, brought back."""

from __future__ import annotations

import shlex
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from adversary.arena import NONE, Arena
from handoff.base.ids import new_id
from handoff.board.sessions import leases, sessions
from handoff.board.tasks import tasks
from handoff.engine.place.proof import evidence
from handoff.engine.safety import incidents, snapshots, uncommitted
from handoff.git import guard

if TYPE_CHECKING:
    from adversary.techniques import Technique

PREVENTED, TOLD, UNSAID, LOST = "prevented", "told, and its command brings it back", "unsaid", "told, not all came back"
VERDICTS = (PREVENTED, TOLD, LOST, UNSAID)
# Not of the repository: only a sandbox keeps a session from these, and in your own checkout there is none.
_ELSEWHERE = frozenset(("the home", "the remote", "the state"))
_ORDER = {
    uncommitted.HEAD_MOVED: -1,
    "ref-moved": 0,
    uncommitted.UNSTAGED: 2,
}  # as a person does it: first where the branch stands, last what is staged
_ASIDE = frozenset(("reflog", "peer: files", "peer: index", "lock"))


class CheckoutTrial(NamedTuple):
    """What one technique came to."""

    technique: Technique
    verdict: str
    changed: tuple[str, ...]
    fixes: tuple[str, ...]


class Checkout(Arena):
    """A person's checkout with uncommitted work, and a main session in it that owns own/."""

    def __init__(self, root: str) -> None:
        super().__init__(root, NONE)

    def attempt(self, technique: Technique) -> CheckoutTrial:
        """Let a session try it, end the session as the relay does, and follow every command that was told."""
        app, before = self.app, self._kept(self.facts())
        task = tasks.add(app.database, project="shop", id="main", brief="x", workspace=self.shared, owns=("own/",))
        who = sessions.SessionIdentity(
            id=new_id("session"),
            kind=sessions.AGENT,
            project="shop",
            agent="scripted",
            workspace=self.shared,
            host=app.settings.host,
        )
        limits = leases.ClaimLimits(8, 8, 8)
        task = leases.claim(app.database, key=task.key, who=who, lease_seconds=900, limits=limits).task
        evidence.note_claim(app, task, workspace=self.shared)
        task = tasks.get(app.database, key=task.key)
        incidents.look(app)
        store = snapshots.open_snapshot_store(app, folder=self.shared, project="shop")
        snapshots.keep(app, store, "start", session=who.id, operation="start")
        self._session(technique)
        incidents.look(app)
        uncommitted.look(app, task=task, session=who.id, workspace=self.shared)
        outside = evidence.out_of_scope(app, task)  # what its report would be refused for
        found = [one for one in incidents.of_session(app, session=who.id) if one.fix]
        changed = self._differing(before)
        left = changed
        if changed:
            for one in sorted(found, key=lambda one: _ORDER.get(one.kind, 1)):
                for words in (shlex.split(line) for line in one.fix.split(" && ")):
                    ours = [sys.executable, "-m", "handoff.surfaces.cli.main", *words[1:]]
                    argv = ours if words[0] == "handoff" else words
                    subprocess.run(argv, env=self.environment, cwd="/", capture_output=True, check=False, timeout=60)
            # What was committed and is only deleted here, `git status` names and git brings back itself.
            gone = self.git(self.shared, "diff", "--name-only", "--diff-filter=D", "HEAD", check=False).split("\n")[:-1]
            if gone:
                self.git(self.shared, "restore", "--", *gone, check=False)
            left = self._differing(before)
        app.close()
        self.reset()
        verdict = PREVENTED if not changed else TOLD if not left else LOST if found or outside else UNSAID
        return CheckoutTrial(technique, verdict, left or changed, tuple(one.fix for one in found))

    def _session(self, technique: Technique) -> None:
        path = self.environment["PATH"]
        shared = f"{self.shared}/.git"
        more = guard.session_environment(self.state, "main", path, shared=shared, program=sys.executable)
        environment = {
            **self.environment, **more, "T": self.shared, "OWN": self.shared, "SHARED": self.shared, "PEER": self.shared,
            "REMOTE": self.remote, "VICTIM": "0", "MARK": "nobody",
        }  # fmt: skip
        argv = ["sh", "-c", technique.script]
        subprocess.run(
            argv,
            cwd=self.shared,
            env=environment,
            capture_output=True,
            timeout=60,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    def _kept(self, facts: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in facts.items() if key not in _ELSEWHERE | _ASIDE}

    def _differing(self, before: dict[str, Any]) -> tuple[str, ...]:
        now = self._kept(self.facts())
        found = tuple(key for key, value in before.items() if not self._same(key, value, now.get(key)))
        listed = self.git(self.shared, "log", "--format=", "--name-only", f"{self.main}..HEAD", check=False)
        foreign = [path for path in listed.split("\n") if path and not path.startswith("own/")]
        return found + (("a foreign path in a commit",) if foreign else ())

    def _same(self, key: str, old: Any, new: Any) -> bool:
        """What is the session's own (own/, new refs, new files, a commit on top) is no harm; what was there must be there."""
        if isinstance(old, dict) and isinstance(new, dict):
            return all(new.get(name) == value for name, value in old.items() if not name.startswith("own/"))
        if key in ("refs", "stash") and new is not None:
            there = new.splitlines() if isinstance(new, str) else new
            return all(self._there(line, there) for line in (old.splitlines() if isinstance(old, str) else old))
        if key == "person: index" and isinstance(new, str):
            return set(old.splitlines()) <= set(new.splitlines())
        return bool(old == new)

    def _there(self, line: str, now: list[str]) -> bool:
        """A ref as it was, or a branch that has only grown."""
        name, _, commit = line.partition(" ")
        later = [one.partition(" ")[2] for one in now if one.startswith(name + " ")]
        if line in now or not commit or not later:
            return line in now
        words = ("rev-list", "--count", f"{later[0]}..{commit}", "--")
        return name.startswith("refs/heads/") and self.git(self.shared, *words, check=False).strip() == "0"
