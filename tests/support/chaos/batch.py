"""One random batch from its manifest to its end: sessions that work, trespass, die, conflict and are red; a person in between."""

from __future__ import annotations

import collections
import json
import os
import typing
from typing import TYPE_CHECKING, Any

from chaos.model import MARKS, RED, SHARED, Model
from handoff.agents.contract import FAILED, OK, AgentOutcome
from handoff.base.errors import HandoffError
from handoff.board.sessions import leases, sessions
from handoff.board.tasks import batches as rows
from handoff.board.tasks import tasks
from handoff.engine.app.home import find_project, home_config, labels_of
from handoff.engine.place import running
from handoff.engine.session import conclude, current, placement, report
from handoff.engine.supervisor import watchdog
from handoff.engine.work.tasks import admin, batches
from hunt.killed import Killed, run_killed
from hunt.world import PROJECT, World, read_files

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

LEASE = 900.0
STEPS, LAST_STEPS = 30, 30
_TIMES = 3


class Counter:
    """What the batches of this process reached."""

    seen: typing.ClassVar[collections.Counter[str]] = collections.Counter()


class ChaosBatch:
    """One batch in a world, with the model that judges it."""

    def __init__(self, world: World, chance: random.Random, number: int, *, tell: Callable[[str], None]) -> None:
        self.world, self.chance, self.name, self._tell = world, chance, f"b{number}", tell
        self.sessions = 0
        names = [f"{self.name}-p{at}" for at in range(chance.randint(2, 5))]
        self.in_order = chance.random() < 0.25
        self.check = chance.random() < 0.7
        self.needs = {name: [one for one in names[:at] if chance.random() < 0.3] for at, name in enumerate(names)}
        self.raced = {name for name in names if chance.random() < 0.15}
        areas = {name: f"{self.name}/{name}/" for name in names}
        areas |= {f"{name}-{at}": areas[name] for name in self.raced for at in (1, 2)}
        # What lands alone, as soon as it is green by its own check, may make the whole red.
        self.model = Model(areas, check=self.check and not self.in_order)
        for name in names:
            world.write(world.repo, f"{areas[name]}{SHARED}", b"one\ntwo\nthree\n")
        world.git("add", "-A", "--", self.name)
        world.git("commit", "-q", "-m", f"ground of {self.name}", "--", self.name)
        self.batch = batches.open_batch(self.app, find_project(self.app), self._manifest(names, areas)).batch

    def _manifest(self, names: list[str], areas: dict[str, str]) -> str:
        parts = [
            {
                "id": name,
                "brief": f"Build {name}.",
                "file_ownership": [{"type": "prefix", "path": areas[name]}],
                "depends_on": self.needs[name],
                **({"race": 2} if name in self.raced else {}),
                **({"check": f"! grep -rqs RED {areas[name]}"} if self.chance.random() < 0.3 else {}),
            }
            for name in names
        ]
        whole = {"check": f"! grep -rqs RED {self.name}"} if self.check else {}
        value = {"schema_version": 2, "batch_id": self.name, "fan_in_task": f"{self.name}-join", "sub_tasks": parts}
        value |= {"land": "in-order" if self.in_order else "all", **whole}
        path = os.path.join(self.world.folder, f"{self.name}.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(value, file)
        return path

    # --- hands ------------------------------------------------------------------------------------------------

    @property
    def app(self) -> Any:
        return self.world.app()

    def tasks(self, *states: str) -> list[tasks.Task]:
        found = tasks.of_batch(self.world.database, batch=self.batch.key)
        return [one for one in found if not states or one.state in states]

    def over(self) -> bool:
        return rows.get(self.world.database, key=self.batch.key).ended_at is not None

    def act(self, verb: Callable[[], Any], *, mortal: bool = True) -> tuple[Any, HandoffError | None]:
        """One verb; now and then it is killed at some call into the system."""
        self.world.clock.advance(1.0)
        if mortal and self.chance.random() < 0.06:
            self.world.forget_database()
            error: HandoffError = run_killed(lambda: self._try(verb), self.chance.randint(0, 120))
            Counter.seen[error.message] += 1
            return None, error
        return self._try(verb)

    def _try(self, verb: Callable[[], Any]) -> tuple[Any, HandoffError | None]:
        try:
            return verb(), None
        except HandoffError as error:
            return None, error

    def likely(self, share: float) -> bool:
        return self.chance.random() < share

    # --- the whole way ----------------------------------------------------------------------------------------

    def run(self) -> None:
        for _ in range(STEPS):
            if self.over():
                break
            self._step()
        self._wind_up()
        self._judge()

    def _step(self) -> None:
        gated, ready, blocked = self.tasks("gated"), self.tasks("ready"), self.tasks("blocked")
        dice = self.chance.random()
        if dice < 0.12:
            self._person_commits()
        elif dice < 0.16:
            self._person_leaves_a_file()
        elif dice < 0.18:
            self._cancel_one()
        elif dice < 0.25:
            self._time_passes()
        elif gated and dice < 0.5:
            self._answer(self.chance.choice(gated))
        elif blocked and dice < 0.6:
            self._retry(self.chance.choice(blocked))
        elif ready:
            self._work(self.chance.choice(ready))
        elif gated:
            self._answer(self.chance.choice(gated))
        elif blocked:
            self._retry(self.chance.choice(blocked))
        else:
            self._time_passes()

    def _wind_up(self) -> None:
        """From here on nobody means harm; what still does not come to an end is cancelled."""
        retried: collections.Counter[int] = collections.Counter()
        for _ in range(LAST_STEPS):
            if self.over():
                return
            for task in self.tasks("gated"):
                self._answer(task, kindly=True)
            for task in self.tasks("blocked"):
                retried[task.key] += 1
                if retried[task.key] <= _TIMES:
                    self._retry(task)
            ready = self.tasks("ready")
            if ready:
                self._work(ready[0], kindly=True)
            else:
                self._time_passes()
        Counter.seen["cancelled in the end"] += 1
        self.act(lambda: batches.cancel(self.app, self.batch, reason="it does not end"), mortal=False)

    # --- sessions ---------------------------------------------------------------------------------------------

    def _work(self, task: tasks.Task, *, kindly: bool = False) -> None:
        self.sessions += 1
        app, name = self.app, f"{self.name}-s{self.sessions}"
        who = sessions.SessionIdentity(
            id=name, kind=sessions.AGENT, project=PROJECT, workspace=self.world.repo, host=app.settings.host,
            labels=labels_of(app),
        )  # fmt: skip
        begun, error = self.act(lambda: self._begin(who, task), mortal=not kindly)
        if begun is None:
            Counter.seen["not begun" if not isinstance(error, Killed) else "killed at its begin"] += 1
            if isinstance(error, Killed):
                self._time_passes()
            return
        claim, folder = begun
        if task.kind == "fan-in":
            self._join(claim, folder, kindly)
        else:
            self._build(claim, folder, kindly)

    def _begin(self, who: sessions.SessionIdentity, task: tasks.Task) -> tuple[Any, str]:
        """What a supervisor does before the client runs."""
        app = self.app
        config = home_config(app)
        claim = report.claim_as(app, config, who, task=task)
        try:
            where = placement.place(app, config, task=claim.task, session=who.id, sandbox=placement.NONE)
        except HandoffError as error:
            leases.release(app.database, key=claim.task.key, fence=claim.fence, reason=error.message)
            sessions.end(app.database, id=who.id, ending="not started")
            raise
        running.leave(app, claim, os.path.join(self.world.folder, who.id), supervised=True)
        return claim, where.folder

    def _build(self, claim: Any, folder: str, kindly: bool) -> None:
        """A part: some files of its own, and whatever goes wrong."""
        task, written = claim.task, list(self._clean(claim.task, folder))
        area = self.model.area_of(task.id)
        names = [self.chance.choice("abc") for _ in range(self.chance.randint(1, 3))]
        written += [self._write(claim, folder, f"{area}{name}.txt") for name in names]
        if self.likely(0.35):
            written.append(self._edit_shared(claim, folder, f"{area}{SHARED}"))
        fate = self.chance.random() if not kindly else 1.0
        if fate < 0.12:
            written.append(self._write(claim, folder, f"{self.name}/foreign-{claim.session.id}.txt", trespass=True))
            self._report(claim, folder, written)
            if self.likely(0.5):
                self.model.take_away(task.id, written[-1])
                os.remove(os.path.join(folder, written.pop()))
                self._report(claim, folder, written)
        elif fate < 0.25:
            path = self._write(claim, folder, f"{area}red.txt", more=RED)
            self._report(claim, folder, [*written, path])
        elif fate < 0.33:
            held = self._held(claim)
            self.act(lambda: report.block(self.app, held, reason="no key"))
            Counter.seen["blocked"] += 1
        elif fate < 0.45:
            Counter.seen["died"] += 1  # it wrote, and said nothing
            self._end(claim, AgentOutcome(FAILED, "it was killed"))
            return
        elif fate < 0.5:
            Counter.seen["silent"] += 1
            self._time_passes(long=True)
            self._report(claim, folder, written)
            self._end(claim, AgentOutcome(OK, ""))
            return
        else:
            if self.likely(0.1):
                self._person_commits()
            self._report(claim, folder, written)
        self._end(claim, AgentOutcome(OK, ""))

    def _clean(self, task: tasks.Task, folder: str) -> typing.Iterator[str]:
        """Whoever goes on with a part that was red mends it, mostly; all that lies there is what it reports."""
        area = self.model.area_of(task.id)
        for path, data in read_files(folder).items():
            if not path.startswith(area):
                continue
            if RED in data and self.likely(0.9):
                os.remove(os.path.join(folder, path))
            elif b" by " in data:
                yield path

    def _write(self, claim: Any, folder: str, path: str, *, more: bytes = b"", trespass: bool = False) -> str:
        data = self.world.token(claim.session.id, path) + more
        self.world.write(folder, path, data)
        if trespass:
            self.model.trespassed.append(data)
            Counter.seen["trespass"] += 1
        return path

    def _edit_shared(self, claim: Any, folder: str, path: str) -> str:
        """Its line in place of the one that was there first; beside what somebody else has written meanwhile."""
        lines = read_files(folder).get(path, b"one\ntwo\nthree\n").splitlines(keepends=True)
        kept = [line for line in lines[1:-1] if line != b"two\n"]
        self.world.write(
            folder, path, b"".join([b"one\n", self.world.token(claim.session.id, path), *kept, b"three\n"])
        )
        return path

    def _join(self, claim: Any, folder: str, kindly: bool) -> None:
        """The fan-in: it keeps both sides of what did not join, and reports."""
        if folder != self.world.repo:
            for path, data in read_files(folder).items():
                if path.startswith(f"{self.name}/") and any(line.startswith(MARKS) for line in data.split(b"\n")):
                    Counter.seen["conflict"] += 1
                    if kindly or self.likely(0.85):
                        self.world.write(folder, path, _both(data))
                elif self.in_order and RED in data:
                    os.remove(os.path.join(folder, path))
                    self.model.mended.add(path)
        if not kindly and self.likely(0.15):
            self._end(claim, AgentOutcome(FAILED, "it was killed"))
            return
        if not kindly and self.likely(0.15):
            self._person_commits()
        self._report(claim, folder, ())
        self._end(claim, AgentOutcome(OK, ""))

    def _held(self, claim: Any) -> Any:
        return current.find(
            self.app, task=claim.task.label, project=PROJECT, session=claim.session.id, fence=claim.fence
        )

    def _report(self, claim: Any, folder: str, written: typing.Iterable[str]) -> None:
        """Said, and said again where nobody heard whether it was believed."""
        name = claim.task.id
        before: dict[str, bytes] = {}
        for _ in range(2):
            before = read_files(folder) or before  # what landed unheard has taken its clone along
            done, error = self.act(lambda: report.finish(self.app, self._held(claim), summary=f"by {claim.session.id}"))
            if name in self.model.areas:
                self.model.report(name, before, written, killed=isinstance(error, Killed))
                if isinstance(error, Killed):
                    self.model.believe(name, before, heard=False)
            if not isinstance(error, Killed):
                break
            written = [path for path in written if os.path.exists(os.path.join(folder, path))]
        said = "believed" if error is None else f"refused: exit {error.exit_code}"
        Counter.seen[f"{claim.task.kind} {said}"] += 1
        if done is not None and done.outcome.task.state == "done" and name in self.model.areas:
            self.model.believe(name, before, heard=True)
        elif error is not None:
            self._tell(f"  {name}: {error.message.splitlines()[0][:150]}")

    def _end(self, claim: Any, outcome: AgentOutcome) -> None:
        for _ in range(2):
            _, error = self.act(lambda: self._conclude(claim, outcome))
            if not isinstance(error, Killed):
                return

    def _conclude(self, claim: Any, outcome: AgentOutcome) -> None:
        conclude.conclude(self.app, claim=claim, outcome=outcome)
        running.forget(self.app, claim.session.id)

    # --- a person ---------------------------------------------------------------------------------------------

    def _person_commits(self) -> None:
        """Something of their own, or a line that a part may be changing just now."""
        Counter.seen["person commits"] += 1
        name = self.chance.choice(sorted(self.needs))
        kind = self.chance.choice(("own", "new", "line"))
        path = {"own": "mine/own.txt", "new": f"{self.model.areas[name]}person.txt"}.get(
            kind, f"{self.model.areas[name]}{SHARED}"
        )
        if kind == "line" and self.in_order:
            path = "mine/own.txt"  # what meets a part that lands alone is a person's to join by hand
        data = self.world.token("person", path)
        data = b"one\n" + data + b"three\n" if path.endswith(SHARED) else data
        self.world.write(self.world.repo, path, data)
        self.world.git("add", "--", path)
        self.world.git("commit", "-q", "-m", f"the person's {path}", "--", path)
        self.model.person.setdefault(path, []).append(data)

    def _person_leaves_a_file(self) -> None:
        path = f"mine/left-{self.name}.txt"
        data = self.world.token("person", path)
        self.world.write(self.world.repo, path, data)
        self.model.dirty[path] = data

    def _cancel_one(self) -> None:
        parts = [one for one in self.tasks() if one.kind == "sub-task" and not one.ended]
        if parts:
            Counter.seen["cancelled"] += 1
            task = self.chance.choice(parts)
            self.act(lambda: admin.cancel(self.app, task, reason="not wanted"))

    def _time_passes(self, *, long: bool = True) -> None:
        self.world.clock.advance(LEASE + 1 if long else 1.0)
        self.act(lambda: watchdog.look(self.app))

    def _answer(self, task: tasks.Task, *, kindly: bool = False) -> None:
        if kindly or self.likely(0.7):
            _, error = self.act(lambda: admin.approve(self.app, task))
            Counter.seen["yes" if error is None else "yes, in vain"] += 1
        else:
            self.act(lambda: admin.reject(self.app, task, reason="wait"))
            Counter.seen["no"] += 1

    def _retry(self, task: tasks.Task) -> None:
        _, error = self.act(lambda: admin.retry(self.app, task))
        Counter.seen["retried" if error is None else "retried in vain"] += 1

    # --- the verdict ------------------------------------------------------------------------------------------

    def _judge(self) -> None:
        from chaos.verdict import judge

        self._time_passes()
        judge(self)


def _both(data: bytes) -> bytes:
    """A file with marks, with the lines of both sides and without those that were there before both."""
    kept, before = [], False
    for line in data.split(b"\n"):
        if line.startswith(MARKS):
            before = line.startswith(MARKS[1])
        elif not before:
            kept.append(line)
    return b"\n".join(kept)
