"""A flow's ground without sessions: a tree, what is known of its tests, and the judge a real flow asks."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, NamedTuple

from cheats.data import CAUGHT, MISSED, WARNED, Change, Cheat, ground
from handoff.base.settings import from_environment
from handoff.board.tasks.flows import RUNNING, Flow
from handoff.engine.app import App
from handoff.engine.place.proof import test_runs
from handoff.engine.work.flows.flows import workspace_for
from handoff.engine.work.flows.judge import judge_phase
from handoff.engine.work.flows.state import state_of
from handoff.git.commits.phases import FlowCheckout
from handoff.workflows import library
from sandbox import Repo

if TYPE_CHECKING:
    from handoff.engine.work.flows.judge import PhaseVerdict

REQUEST = "a till that knows its total"
TEST = "the total of a cart"


class Outcome(NamedTuple):
    """What the judge said: refused by which names, warned about what, and in which phase."""

    state: str
    codes: tuple[str, ...]
    warned: tuple[str, ...]
    phase: str
    words: str = ""


class FlowTrack:
    """One flow in memory: each phase is judged by the product, what is right becomes its next commit."""

    def __init__(self, folder: str, files: dict[str, str], *, workflow: str = "tdd") -> None:
        repo = self.tree = Repo.create(folder, commit=False)
        self.files = files
        self._write(files)
        repo.write(".gitignore", "__pycache__/\n.pytest_cache/\n")
        repo.commit("first")
        self.app = App(from_environment("handoff")._replace(folder=repo.path))
        clone = workspace_for(self.app, "till", "main", repo.path)
        self.tree = Repo(clone.tree)
        self.checkout = FlowCheckout(clone.tree, clone.branch, self.app.git_environment)
        text = library.load(repo.path, workflow)
        suites = [suite.record() for suite in test_runs.suites_of(self.app, folder=repo.path)]
        head = clone.base
        facts = {"suites": suites, "git_config": self.checkout.config, "cycle_base": head, "test": TEST}
        self.flow = Flow(
            key=1,
            project="till",
            id="till",
            workflow=workflow,
            text=text.text,
            prompts=json.dumps(library.prompts_of(text)),
            request=REQUEST,
            feature="",
            repository=repo.path,
            workspace=clone.tree,
            branch=clone.branch,
            base=head,
            head=head,
            phase="baseline",
            cycle=1,
            max_cycles=9,
            task=None,
            state=RUNNING,
            reason="",
            agents="{}",
            gates="[]",
            data=json.dumps(facts),
            version=1,
            created_at=0.0,
            changed_at=0.0,
            ended_at=None,
        )
        self.go_on(Change(), "red")

    def _write(self, files: dict[str, str]) -> None:
        for path, text in files.items():
            self.tree.write(path, text.removeprefix("\n"))

    def ask(self, change: Change) -> PhaseVerdict:
        """What the judge says of this change in the phase the flow stands in."""
        self.checkout.arrive(self.flow.head)
        new = change.apply(self.files)
        for path in self.files:
            if path not in new:
                os.unlink(os.path.join(self.tree.path, path))
        self._write({path: text for path, text in new.items() if self.files.get(path) != text})
        return judge_phase(self.app, state_of(self.app, self.flow))

    def go_on(self, change: Change, phase: str) -> PhaseVerdict:
        """Judge it, and if it is right make it the last good commit and stand in the next phase."""
        judged = self.ask(change)
        if judged.ok:
            self.accept(judged, change, phase)
        return judged

    def accept(self, judged: PhaseVerdict, change: Change, phase: str) -> None:
        """What a flow does with a phase that is verified, without its rows."""
        head = self.flow.head
        if judged.changed:
            head = self.checkout.commit(tree=judged.tree, parent=head, message=phase, moment=1_700_000_000)
        data = json.dumps({**self.flow.facts, **judged.facts})
        self.flow = self.flow._replace(head=head, phase=phase, data=data)
        self.files = change.apply(self.files)

    def mark(self) -> tuple[Flow, dict[str, str]]:
        """Where it stands, to come back to."""
        return self.flow, self.files

    def back_to(self, mark: tuple[Flow, dict[str, str]]) -> None:
        self.flow, self.files = mark


class Arena:
    """The till at the beginning of red, of green and of refactor."""

    def __init__(
        self, folder: str, phases: tuple[str, ...] = ("red", "green", "refactor"), workflow: str = "tdd"
    ) -> None:
        start, red, green = ground()
        self.track = FlowTrack(os.path.join(folder, "till"), start, workflow=workflow)
        self.marks = {"red": self.track.mark()}
        for change, phase in ((red, "green"), (green, "refactor")):
            if phase in phases or "refactor" in phases:
                judged = self.track.go_on(change, phase)
                assert judged.ok, f"the honest way is refused: {[str(one) for one in judged.faults]}"
                self.marks[phase] = self.track.mark()

    def try_cheat(self, cheat: Cheat) -> Outcome:
        """Caught where a phase is refused by one of its names; warned where only said; else missed."""
        self.track.back_to(self.marks[cheat.phase])
        judged = self.track.ask(cheat.change)
        warned = [one.code for one in judged.warnings]
        if judged.ok and cheat.cash is not None:
            self.track.accept(judged, cheat.change, "green")
            judged = self.track.ask(cheat.cash)
            warned += [one.code for one in judged.warnings]
        return _outcome(judged, warned, self.track.flow.phase, cheat.caught)


def _outcome(judged: PhaseVerdict, warned: list[str], phase: str, names: tuple[str, ...]) -> Outcome:
    codes = tuple(dict.fromkeys(one.code for one in judged.faults))
    if codes:
        state = CAUGHT if set(codes) & set(names) else f"refused as {', '.join(codes)}"
    else:
        state = WARNED if set(warned) & set(names) else MISSED
    said = "; ".join(str(one) for one in (*judged.faults, *judged.warnings))
    return Outcome(state, codes, tuple(dict.fromkeys(warned)), phase, said)


def forget(folder: str) -> None:
    """A tree that is not needed any more."""
    shutil.rmtree(folder, ignore_errors=True)
