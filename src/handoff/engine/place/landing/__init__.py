"""Landing as a journey: take owned work in, merge in memory, check the result, then move the branch."""

from __future__ import annotations

import math
import os
from typing import Any

from handoff.base.errors import Refused, UserError
from handoff.base.ids import on_one_line
from handoff.base.markdown import shell_line
from handoff.base.record import TYPE_CHECKING, Record
from handoff.base.settings import project_config
from handoff.board.tasks import flows
from handoff.engine.app.home import home_config
from handoff.engine.place.landing.members import FLOW_MARK, members_of, target_of
from handoff.engine.place.landing.resolvers import check_commit, resolvers_of
from handoff.engine.place.proof import git_notes
from handoff.engine.safety.snapshots import SnapshotStore, keep, open_snapshot_store
from handoff.feature.baton import rules_in
from handoff.git import obeyed
from handoff.git.landing import merge as work
from handoff.git.landing.doubts import Doubt, doubts_of
from handoff.git.landing.target import Landing, Target, checkout_of
from handoff.git.obeyed import named_by
from handoff.git.plumbing import refs as sources
from handoff.git.plumbing.objects import differences
from handoff.git.snapshots.restore import tree_of
from handoff.git.workspaces import READY, SHARED, all_workspaces

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from handoff.base.clock import Clock
    from handoff.checks.commands import Verdict
    from handoff.engine.app import App
    from handoff.git.landing.merge import Member
    from handoff.git.landing.three_way import Settled, Way

UNDONE = "undo "
_RUN_BY_HOME = ("notify", "agents", "agent_command", "terminal_command", "clipboard_command")
_NO_COMMANDS = ("files", "tests", "links", "keep", "folder", "environment")


class LandingOutcome(Record):
    """What a landing did or would do."""

    target: str
    merged: work.Merged
    members: tuple[Member, ...]
    verdict: Verdict | None = None
    blame: Blame | None = None
    """Who made the check red, and who is green without them."""
    landing: Landing | None = None
    doubts: tuple[Doubt, ...] = ()
    """What joins cleanly and may be wrong all the same: to look at, never in the way."""
    refused: tuple[Settled, ...] = ()
    """What rules had joined, and the check was red with it."""
    trouble: str = ""
    """Why the record in git could not be written; it has landed all the same."""


class Unseen(Refused):
    """A session's work changes control files that no person has seen yet."""

    def __init__(self, found: Sequence[obeyed.ControlChange], program: str, names: Sequence[str]) -> None:
        self.found = tuple(found)
        super().__init__(
            "\n".join([f"It changes {self.paths}, which {self.who}.", *obeyed.in_words(found)]),
            f"If you want exactly this, land it with --approve: {program} land {shell_line(names)} --approve",
        )

    @property
    def paths(self) -> str:
        """The files, by name."""
        return ", ".join(on_one_line(one.path) for one in self.found)

    @property
    def who(self) -> str:
        """Who obeys them."""
        *others, last = dict.fromkeys(one.who for one in self.found)
        return f"{', '.join(others)}{' and ' if others else ''}{last} {'obey' if others else 'obeys'}"


class Collisions(Record):
    """Files two live sessions changed: those git cannot join, and those it can."""

    members: tuple[Member, ...]
    hard: tuple[work.Conflicted, ...]
    soft: tuple[work.Conflicted, ...]


def land(
    app: App,
    *,
    names: Sequence[str],
    snapshot_store: SnapshotStore | None = None,
    into: str = "",
    check: str = "",
    timeout: float = 900,
    message: str = "",
    dry_run: bool = False,
    sandboxed: bool = True,
    prepared: Sequence[Member] = (),
    rules: bool = False,
    rest: bool = False,
    needs: Mapping[str, frozenset[str]] | None = None,
    only_check: bool = False,
    only_plan: bool = False,
    settled: Sequence[Way] = (),
    approve: bool = False,
) -> LandingOutcome:
    """Land the named workspaces or branches in this order, after what the caller `prepared`: all of them or none.

    With a check, or where the caller has checked that very tree (`rules`), what git cannot join is offered to the rules too.
    If the check is red, the culprits are found; with `rest` the others land, if they are green without them. `needs` says
    which members build on which. With `only_check` nothing lands, whatever the check says. `settled` is asked before all other ways.
    Control files that sessions changed and nobody has seen are refused (`Unseen`), unless the person says `approve`.
    With `only_plan` everything is asked that can say no, and the caller moves the branch (`Target.move` with the `landing` given).
    """
    snapshot_store = snapshot_store or open_snapshot_store(app)
    target = target_of(app, snapshot_store)
    target.finish()
    told, began = ", ".join((*(one.name for one in prepared), *names)), app.clock.now()
    before = keep(app, snapshot_store, f"before landing {told}")
    branch = _branch(snapshot_store, into)
    tip = _tip(target, branch, into)
    members = (*prepared, *members_of(app, snapshot_store, names, tip, message))
    if not dry_run:
        _refuse_unfinished_flows(app, snapshot_store, members)
    how: dict[str, Any] = {"moment": int(before.time), "person": _person(target)}
    ways = [*settled, *resolvers_of(app, snapshot_store, tip, rules=rules or bool(check))]
    app.tell(f"Merging {told} into {branch}", 0, 0)
    merged = work.merge(snapshot_store.store, tip, members, ways=ways, **how)
    found = doubts_of(snapshot_store.store, members, merged)
    outcome = LandingOutcome(target=branch, merged=merged, members=members, doubts=found)
    if merged.conflicts or not merged.steps or dry_run:
        return outcome
    if check:

        def again(some: Sequence[Member], ways: Sequence[Way]) -> work.Merged:
            return work.merge(snapshot_store.store, tip, some, ways=ways, **how)

        def run(commit: str) -> Verdict:
            return check_commit(app, snapshot_store, commit, check, (timeout, sandboxed))

        outcome = _checked(app, snapshot_store, outcome, ways, again, run, needs=needs, rest=rest)
        if only_check or outcome.verdict is None or not outcome.verdict.green:
            return outcome
    _look_at_control(app, snapshot_store, target, outcome, approve=approve)
    landing = _record_of(snapshot_store, outcome, began)
    if only_plan:
        target.check(landing)
        return outcome._replace(landing=landing)
    target.move(landing)
    return _recorded(app, snapshot_store, outcome._replace(landing=landing))


def _refuse_unfinished_flows(app: App, snapshot_store: SnapshotStore, members: Sequence[Member]) -> None:
    """The tip of a flow that goes on may be a test that fails on purpose."""
    project, branches = os.path.basename(snapshot_store.place.project), {f"refs/heads/{one.name}" for one in members}
    for flow in flows.listing(app.database, project=project):
        if flow.branch in branches:
            program = app.settings.program
            raise Refused(
                f"The flow '{flow.id}' is not over: it stands in its phase {flow.phase}, and its last commit may be a failing test.",
                f"Follow it: {program} show {flow.id}. To land what is there, end it first: {program} cancel {flow.id}",
            )


def _look_at_control(
    app: App, snapshot_store: SnapshotStore, target: Target, outcome: LandingOutcome, *, approve: bool
) -> None:
    """Refuse what would be obeyed later and nobody has seen; what lands because its task names it is remembered."""
    merged, place = outcome.merged, snapshot_store.place
    landing = {step.member for step in merged.steps}
    members = [one for one in outcome.members if one.name in landing]
    if all(one.by_person for one in members):
        return
    differing = differences(snapshot_store.store, merged.old, merged.new)
    hidden = obeyed.repositories(snapshot_store.store, merged.new, [one.path for one in differing])
    if hidden:
        raise Refused(
            f"It brings a git repository under another name, whose settings git would obey: {', '.join(map(on_one_line, hidden))}",
            "Take it out of the work and report again, or make it where it is used, for example in a test.",
        )
    if approve:
        return
    named = named_by(target, place.source, _commands(app, place.source.top))
    trust = obeyed.Trust(place.project)
    found = obeyed.changes(snapshot_store.store, differing, named=named, rules=rules_in)
    found = [one for one in found if not trust.is_approved(one)]
    unseen = [one for one in found if not _is_named(one.path, members)]
    if unseen:
        raise Unseen(unseen, app.settings.program, [one.name for one in members])
    for one in found:
        trust.note(one)


def _commands(app: App, top: str) -> Iterator[str]:
    """The commands that the person's settings hold."""
    yield app.settings.get("HANDOFF_WORKSPACE_SETUP")
    for config, keys in ((home_config(app), _RUN_BY_HOME), (project_config(top), ("check", "checks"))):
        for key in keys:
            yield from _words(config.values[key])


def _words(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        yield " ".join(str(word) for word in value)
    elif isinstance(value, dict):
        for name, inner in value.items():
            if name not in _NO_COMMANDS:
                yield from _words(inner)


def _is_named(path: str, members: Sequence[Member]) -> bool:
    """Whether everybody who changes the file is the person, or was given exactly that file by them."""
    touching = [one for one in members if path in one.paths]
    return bool(touching) and all(one.by_person or obeyed.is_named_by(path, one.named) for one in touching)


def _tip(target: Target, branch: str, into: str) -> str:
    tip = target.tip(branch)
    if tip:
        return tip
    if not into:  # the branch checked out here is not born yet
        raise UserError("The repository has no commit yet.", "Commit something first, or name a branch with --into.")
    raise UserError(f"There is no branch {branch.removeprefix('refs/heads/')}.", "Name another with --into.")


def _record_of(snapshot_store: SnapshotStore, outcome: LandingOutcome, began: float) -> Landing:
    """The move of the branch as it will be remembered."""
    merged, checkout = outcome.merged, checkout_of(snapshot_store.place.source, outcome.target)
    return Landing(
        id=f"{int(began * 1000):015d}-{os.urandom(2).hex()}",
        target=outcome.target,
        old=merged.old,
        new=merged.new,
        members=tuple(step.member for step in merged.steps),
        checkout=checkout.top if checkout else "",
        time=began,  # the snapshot may be an older one, when nothing has changed since
    )


def _checked(
    app: App,
    snapshot_store: SnapshotStore,
    outcome: LandingOutcome,
    ways: Sequence[Way],
    again: Callable[[Sequence[Member], Sequence[Way]], work.Merged],
    run: Callable[[str], Verdict],
    *,
    needs: Mapping[str, frozenset[str]] | None,
    rest: bool,
) -> LandingOutcome:
    """The outcome with the check's verdict; where that is red, with the culprits, or with the rest that is green."""
    merged = outcome.merged
    verdict = run(merged.new)
    if verdict.green:
        return outcome._replace(verdict=verdict)
    if not all(one.proven for one in merged.settled):
        # What rules made did not pass: it is a conflict again, as if they had never been asked.
        refused = tuple(one for one in merged.settled if not one.proven)
        return outcome._replace(verdict=verdict, merged=again(outcome.members, ways[:-1]), refused=refused)
    known: dict[str, Verdict] = {}

    def check(names: tuple[str, ...]) -> Verdict | None:
        """A red one is run once more; what was green on a tree stays green on it."""
        made = again([one for one in outcome.members if one.name in names], ways)
        if made.conflicts:
            return None
        tree = tree_of(snapshot_store.store, made.new)
        if tree not in known or not known[tree].green:
            known[tree] = run(made.new)
        return known[tree]

    names = tuple(step.member for step in merged.steps)
    blame = CulpritSearch(names, check=check, clock=app.clock, needs=needs, seen=verdict).run()
    outcome = outcome._replace(verdict=verdict, blame=blame)
    if blame.flaky:
        return outcome._replace(verdict=known[tree_of(snapshot_store.store, merged.new)])
    if not rest or not blame.green:
        return outcome
    others = again([one for one in outcome.members if one.name in blame.green], ways)
    return outcome._replace(merged=others, verdict=known[tree_of(snapshot_store.store, others.new)])


def _recorded(app: App, snapshot_store: SnapshotStore, outcome: LandingOutcome) -> LandingOutcome:
    """What was checked is noted on the commit that landed: it was run on exactly that tree."""
    verdict, landing = outcome.verdict, outcome.landing
    if verdict is None or landing is None:
        return outcome
    who = git_notes.RecordedWork(
        project=os.path.basename(snapshot_store.place.project), task=f"land {', '.join(landing.members)}", next="done"
    )
    tree, top = tree_of(snapshot_store.store, landing.new), snapshot_store.place.source.top
    trouble = git_notes.put(app, git_notes.note_of(top, landing.new, tree, who, verdict, landing.time))
    return outcome._replace(trouble=trouble)


def find_collisions(app: App, *, snapshot_store: SnapshotStore | None = None) -> Collisions:
    """Compare the work of all live workspaces pair by pair, in memory."""
    snapshot_store = snapshot_store or open_snapshot_store(app)
    target_of(app, snapshot_store).finish()
    keep(app, snapshot_store, "before comparing")
    refs = sources.refs(snapshot_store.place.source)
    names = [
        one.name
        for one in all_workspaces(snapshot_store.place.project)
        if one.state == READY
        and one.kind != SHARED
        and (not one.session.startswith(FLOW_MARK) or f"refs/heads/{one.branch.removeprefix('refs/heads/')}" in refs)
    ]
    members = members_of(app, snapshot_store, names, "", "")
    hard, soft = work.collisions(snapshot_store.store, members)
    return Collisions(tuple(members), tuple(hard), tuple(soft))


def undo_landing(
    app: App, *, landing: Landing, snapshot_store: SnapshotStore | None = None, dry_run: bool = False
) -> Landing:
    """Take a landing back: the branch returns to where it was, if nothing has been built on it since."""
    snapshot_store = snapshot_store or open_snapshot_store(app)
    target = target_of(app, snapshot_store)
    tip = target.tip(landing.target)
    if tip != landing.new:
        words = ("log", "-5", "--format=%h %s", f"{landing.new}..{tip}", "--")
        later = "; ".join(target.git(*words).text.splitlines()) if tip else ""
        raise Refused(
            f"{landing.target} has moved on since {landing.new[:10]} landed{f': {later}' if later else ''}.",
            f"Revert it: git revert {landing.old[:10]}..{landing.new[:10]}",
        )
    checkout = checkout_of(snapshot_store.place.source, landing.target)
    back = landing._replace(
        id=f"{int(app.clock.now() * 1000):015d}-{os.urandom(2).hex()}",
        old=landing.new,
        new=landing.old,
        time=app.clock.now(),
        state="moving",
        members=tuple(name[5:] if name.startswith(UNDONE) else UNDONE + name for name in landing.members),
        checkout=checkout.top if checkout else "",
    )
    target.check(back)
    if not dry_run:
        keep(app, snapshot_store, "before undo of a landing", force=True)
        target.move(back)
    return back


def landings(app: App, *, snapshot_store: SnapshotStore) -> list[Landing]:
    """Every landing and every undoing of one, newest first; one that was cut short is finished first."""
    target = target_of(app, snapshot_store)
    target.finish()
    return [one for one in target.all() if one.state == "landed"]


def finish_landings(app: App) -> list[Landing]:
    """Complete the landings somebody died in: index and files follow the branch."""
    return target_of(app, open_snapshot_store(app)).finish()


def _branch(snapshot_store: SnapshotStore, into: str) -> str:
    if into:
        return into if into.startswith("refs/") else f"refs/heads/{into}"
    branch = sources.head(snapshot_store.place.source).ref
    if not branch:
        raise UserError("HEAD is detached: there is no branch to land on.", "Name one: handoff land … --into BRANCH")
    return branch


def _person(target: Target) -> str:
    answer = target.git("var", "GIT_COMMITTER_IDENT")
    return answer.text.strip().rsplit(" ", 2)[0] if answer.code == 0 else ""


# --- Who made the checks red: found by peeling one culprit after the other off what lands, each red seen twice

THE_TARGET = "the target branch itself, before anything landed"
_ONE_BY_ONE = 4
_LEAST_RUNS, _RUNS_A_STEP = 12, 6
_MOST_SECONDS = 1800.0


class Culprit(Record):
    """A member with which the checks turn red: alone, or only together with another."""

    member: str
    together: str
    verdict: Verdict

    @property
    def words(self) -> str:
        return f"{self.member} together with {self.together}" if self.together else self.member


class Blame(Record):
    """What the search found: the culprits, the members that are green together without them, and where it gave up."""

    culprits: tuple[Culprit, ...]
    green: tuple[str, ...]
    waiting: tuple[str, ...]
    """Members that build on a culprit: not guilty, but they cannot land without it."""
    runs: int
    given_up: str = ""
    flaky: bool = False
    """Whether the whole was green when it was tried again."""

    @property
    def words(self) -> str:
        return ", ".join(one.words for one in self.culprits) or self.given_up


class _GiveUp(Exception):
    """The limit of runs or of time is reached."""


class CulpritSearch:
    """One search. `check` runs the checks on the target with some members on it, and gives None where those do not join."""

    def __init__(
        self,
        members: Sequence[str],
        *,
        check: Callable[[tuple[str, ...]], Verdict | None],
        clock: Clock,
        needs: Mapping[str, frozenset[str]] | None = None,
        seen: Verdict | None = None,
    ) -> None:
        self.members, self.needs, self.clock = tuple(members), needs or {}, clock
        self._check = check
        self._known: dict[tuple[str, ...], Verdict | None] = {}
        self._first = {self.members: seen} if seen is not None else {}
        self._limit = max(_LEAST_RUNS, math.ceil(_RUNS_A_STEP * math.log2(max(2, len(self.members)))))
        self._deadline = clock.monotonic() + _MOST_SECONDS
        self.runs = 0

    def run(self) -> Blame:
        """Peel: the first red prefix names a culprit; without it and what builds on it the search goes on."""
        found: list[Culprit] = []
        waiting: list[str] = []
        good: list[str] = []
        rest = list(self.members)
        try:
            if not self.is_red(rest):
                return self._blame(found, rest, waiting, flaky=True)
            if self.is_red([]):
                return self._blame(found, (), waiting)._replace(given_up=THE_TARGET)
            while rest and self.is_red([*good, *rest]):
                at = self._first_red(good, rest)
                guilty = rest[at]
                before = [*good, *rest[:at]]
                found.append(self._culprit(before, guilty))
                behind = [name for name in rest[at + 1 :] if guilty in self._all_needs(name)]
                waiting += behind
                good = before
                rest = [name for name in rest[at + 1 :] if name not in behind]
        except _GiveUp:
            words = f"not found within {self.runs} runs"
            return self._blame(found, (), waiting)._replace(given_up=words)
        return self._blame(found, (*good, *rest), waiting)

    def _blame(
        self, found: Sequence[Culprit], green: Sequence[str], waiting: Sequence[str], *, flaky: bool = False
    ) -> Blame:
        return Blame(culprits=tuple(found), green=tuple(green), waiting=tuple(waiting), runs=self.runs, flaky=flaky)

    def is_red(self, names: Sequence[str]) -> bool:
        """Whether the checks are red with these members: twice, because a check may fail by chance."""
        key = tuple(names)
        if key not in self._known:
            verdict = self._first.get(key) or self._ran(key)
            if verdict is not None and not verdict.green:
                verdict = self._ran(key, again=True)
            self._known[key] = verdict
        verdict = self._known[key]
        return verdict is not None and not verdict.green

    def _ran(self, names: tuple[str, ...], *, again: bool = False) -> Verdict | None:
        if not again:
            self._limit -= 1
        if self._limit < 0 or self.clock.monotonic() > self._deadline:
            raise _GiveUp
        self.runs += 1
        return self._check(names)

    def _first_red(self, good: list[str], rest: list[str]) -> int:
        """Which of the rest first makes it red behind the good ones."""
        if len(rest) <= _ONE_BY_ONE:
            return next(at for at in range(len(rest)) if at + 1 == len(rest) or self.is_red([*good, *rest[: at + 1]]))
        low, high = -1, len(rest) - 1
        while high - low > 1:
            middle = (low + high) // 2
            if self.is_red([*good, *rest[: middle + 1]]):
                high = middle
            else:
                low = middle
        return high

    def _culprit(self, before: list[str], guilty: str) -> Culprit:
        """A culprit alone, with what it builds on; else together with the first of the others that brings the red."""
        needed = self._all_needs(guilty)
        own = [name for name in before if name in needed]
        if self.is_red([*own, guilty]):
            return Culprit(guilty, "", self._verdict([*own, guilty]))
        low, high = 0, len(before)
        while high - low > 1:
            middle = (low + high) // 2
            if self.is_red([*self._with(before[:middle], own), guilty]):
                high = middle
            else:
                low = middle
        names = [*self._with(before[:high], own), guilty]
        return Culprit(
            guilty, before[high - 1], self._verdict(names) if self.is_red(names) else self._verdict([*before, guilty])
        )

    def _with(self, some: list[str], own: list[str]) -> list[str]:
        wanted = {*some, *own}
        return [name for name in self.members if name in wanted]

    def _verdict(self, names: Sequence[str]) -> Verdict:
        verdict = self._known[tuple(names)]
        if verdict is None:
            raise _GiveUp
        return verdict

    def _all_needs(self, name: str) -> set[str]:
        found: set[str] = set()
        edge = [name]
        while edge:
            for need in self.needs.get(edge.pop(), ()):
                if need not in found:
                    found.add(need)
                    edge.append(need)
        return found
