"""Rules of the person and of git: edits, commits, branches, stashes, landings, snapshots, and taking back."""

from __future__ import annotations

import contextlib
import io
import json
import os
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from handoff.engine.place import landing, workspaces
from handoff.engine.safety import snapshots
from handoff.engine.work.acts import landing as undo
from handoff.git.snapshots.take import RetentionRules
from handoff.surfaces.cli import dispatch
from handoff.surfaces.cli.command import Context
from handoff.surfaces.cli.output import Output
from hunt import invariants as inv
from hunt.journey import Journey
from hunt.relay_rules import pick
from hunt.world import AREAS, PROJECT

if TYPE_CHECKING:
    from collections.abc import Callable

    from handoff.base.errors import HandoffError


class PersonRules(Journey):
    """What a person does with git, and what handoff does with git for them."""

    # --- by hand --------------------------------------------------------------------------------------------------

    @rule(where=st.sampled_from((*AREAS, "own")))
    def the_person_edits(self, where: str) -> None:
        path = f"{where}/person.txt"
        text = self.world.token("person", path)
        self.world.write(self.world.repo, path, text)
        self.person()
        self.record.touched[self.world.repo, path] = (self.world.clock.now(), text)

    @rule(amend=st.booleans())
    def the_person_commits(self, amend: bool) -> None:
        before = self.now.refs.get(self.now.head, "")
        self.world.git("add", "-A", check=False)
        how = ("--amend", "--no-edit") if amend else ("-m", "by hand")
        self.world.git("commit", "-q", "--allow-empty", *how, check=False)
        self.person()
        made = self.now.refs.get(self.now.head, "")
        if made != before:
            self.record.committed[made] = self.world.clock.now()

    @rule(back=st.booleans())
    def the_person_stashes(self, back: bool) -> None:
        self.world.git("stash", *(("pop", "-q") if back else ("-u", "-q")), check=False)
        self.person()

    @rule(side=st.booleans())
    def the_person_switches(self, side: bool) -> None:
        if side and "refs/heads/side" not in self.now.refs:
            self.world.git("branch", "side")
        self.world.git("switch", "-q", "side" if side else "main", check=False)
        self.person()

    @precondition(lambda self: any(task.project == PROJECT for task in self.now.rows.values()))
    @rule(rarely=st.integers(0, 2))
    def the_person_moves_the_folder(self, rarely: int) -> None:
        if rarely:
            return
        old, new = self.world.move()
        self.record.moved(old, new)
        self.person()

    @rule()
    def an_older_tool_leaves_a_document(self) -> None:
        path = os.path.join(self.world.home, PROJECT, "queue", "t2.md")
        if os.path.lexists(path) or any(task.id == "t2" for task in self.now.rows.values()):
            return
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write("the only words there are\n")
        self.record.foreign[path] = "the only words there are\n"
        self.person()

    @rule()
    def the_person_looks(self) -> None:
        printed = io.StringIO()

        def queue() -> Any:
            command, parser = dispatch.load("task list", "handoff")
            with contextlib.redirect_stdout(printed):
                out = Output(self.app.settings, json_wanted=True)
                return command.run(Context(self.app, out), parser.parse_args(["--all", "--limit", "1000", "--json"]))

        _, error = self.act(queue)
        if error is None:
            inv.a_list_shows_what_the_rows_say(self.now, json.loads(printed.getvalue()))
            self.behind = False  # whoever looks mends the files

    # --- by handoff -----------------------------------------------------------------------------------------------

    def _store(self) -> Any:
        return snapshots.open_snapshot_store(self.app, folder=self.world.repo)

    @rule()
    def a_snapshot_is_taken(self) -> None:
        self.act(lambda: snapshots.keep(self.app, self._store(), "by hand", force=True))

    @precondition(lambda self: len(self.world.places()) > 2)
    @rule(number=pick, back=st.booleans())
    def a_workspace_is_landed(self, number: int, back: bool) -> None:
        name = self._workspace(number)

        def land(*, dry_run: bool = False) -> Any:
            return landing.land(self.app, names=[name], snapshot_store=self._store(), dry_run=dry_run)

        before = self.now
        _, error = self.act(lambda: land(dry_run=True))
        inv.a_dry_run_changes_nothing(before, self.now)
        if error is None:
            self._reversibly(land, back=back)

    @precondition(lambda self: len(self.world.places()) > 2)
    @rule(number=pick)
    def a_workspace_is_removed(self, number: int) -> None:
        name = self._workspace(number)
        self.act(lambda: workspaces.remove_workspace(self.app, name=name, snapshot_store=self._store()))

    def _workspace(self, number: int) -> str:
        return os.path.basename(os.path.dirname(self.of(number, self.world.places()[2:])))

    @rule()
    def house_is_kept(self) -> None:
        self.act(lambda: workspaces.tidy(self.app, rules=RetentionRules(), snapshot_store=self._store(), apply=True))

    @rule(number=pick, exact=st.booleans(), back=st.booleans())
    def a_snapshot_is_restored(self, number: int, exact: bool, back: bool) -> None:
        if not os.path.isdir(os.path.join(self.world.home, PROJECT, "snapshots.git")):
            return
        found = snapshots.listing(self.app, snapshot_store=self._store(), workspace="main")
        if not found:
            return
        chosen, want = self.of(number, found), snapshots.RestoreRequest(exact=exact)

        def restore(*, dry_run: bool = False) -> Any:
            return snapshots.restore(self.app, snapshot_store=self._store(), chosen=chosen, want=want, dry_run=dry_run)

        before = self.now
        planned, error = self.act(lambda: restore(dry_run=True))
        inv.a_dry_run_changes_nothing(before, self.now)
        if error is None:
            done = self._reversibly(restore, back=back)
            inv.a_dry_run_tells_what_the_real_run_does(planned, done)

    @rule(number=pick)
    def something_is_taken_back(self, number: int) -> None:
        if not os.path.isdir(os.path.join(self.world.home, PROJECT, "snapshots.git")):
            return
        found = undo.operations(self.app, snapshot_store=self._store())
        if found:
            self._take_back(self.of(number, found[:4]))

    def _reversibly(self, verb: Callable[[], Any], *, back: bool) -> Any:
        """Do it; and if wanted take it back at once: then everything is as it was."""
        before = self.now
        done, error = self.act(verb)
        if not back or error is not None or self.now._replace(rows={}) == before._replace(rows={}):
            return done
        found = undo.operations(self.app, snapshot_store=self._store())
        if found:
            refused = self._take_back(found[0])
            inv.what_was_taken_back_at_once_is_as_it_was(before, self.now, self.world.repo, refused)
        return done

    def _take_back(self, operation: Any) -> HandoffError | None:
        before, store = self.now, self._store()
        planned, _ = self.act(lambda: undo.take_back(self.app, snapshot_store=store, operation=operation, dry_run=True))
        inv.a_dry_run_changes_nothing(before, self.now)
        done, error = self.act(lambda: undo.take_back(self.app, snapshot_store=store, operation=operation))
        if planned is not None and done is not None:
            inv.a_dry_run_tells_what_the_real_run_does(planned.report, done.report)
        if operation.kind != undo.REMOVE:
            inv.taking_back_spares_what_came_later(self.world, self.record, operation.time, before, self.now)
        if operation.kind == undo.LAND and error is None:  # at the person's word: it need not be on a branch any more
            inv.what_was_reported_done_can_be_brought_back(self.world, self.record)
            held = self.world.on_branches()
            for work in self.record.promised.values():
                for name in [name for name in work if name not in held]:
                    del work[name]
        return error
