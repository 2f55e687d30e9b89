"""The end of a chaos batch: the model against the repository, and the report against the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chaos.model import Lost
from handoff.board.tasks import batches as rows
from handoff.engine.safety import incidents
from handoff.engine.work.tasks.splitting import report as reports
from handoff.engine.work.tasks.splitting import report as verdicts
from hunt.world import read_files

if TYPE_CHECKING:
    from chaos.batch import ChaosBatch


def judge(one: ChaosBatch) -> None:
    """Nothing is lost, the person's own is untouched, exactly what was done has landed, and the report says the same."""
    from chaos.batch import Counter

    model, world = one.model, one.world
    model.nothing_is_lost(world)
    model.the_persons_own_is_theirs(world)
    _nothing_is_told_that_nobody_did(one)
    batch = rows.get(world.database, key=one.batch.key)
    found = verdicts.judge(one.app, batch)
    Counter.seen[f"batch {found.word}"] += 1
    landed = {name for part in found.of(verdicts.LANDED) for name in [_who(one, part)]}
    model.exactly_what_was_done_has_landed(world, landed)
    if not found.over:
        raise Lost(f"batch {batch.id} is {found.word} and nobody moves it: {found.parts}, {found.fan_in}")
    for part in found.parts:
        if part.word not in (verdicts.LANDED, "green", "cancelled") and not part.why:
            raise Lost(f"{part.id} is {part.word}, and the report does not say why")
    text = reports.as_markdown(reports.write(one.app, found), moment=str)
    if missing := [part.id for part in found.parts if part.id not in text]:
        raise Lost(f"the report does not tell of {missing}")


def _nothing_is_told_that_nobody_did(one: ChaosBatch) -> None:
    """The person commits beside sessions, also where a part works: of all that happens here that alone may be told."""
    for told in incidents.listing(one.app, include_ended=True):
        paths = told.evidence.get("paths", ())
        theirs = [path for path in paths if path in one.model.person or not path.startswith(f"{one.name}/")]
        if told.kind != "foreign-commit" or theirs != list(paths):
            raise Lost(f"nobody did this: {told.what} {told.evidence}")


def _who(one: ChaosBatch, part: str) -> str:
    """Whose work a landed part is: of a race exactly one of those who were told that they are done."""
    if part not in one.raced:
        return part
    here = read_files(one.world.repo)
    ran = [name for name in (f"{part}-1", f"{part}-2") if name in one.model.made]
    there = {name: files for name in ran if (files := one.model.standing(name, here)) is not None}
    if len({tuple(sorted(files.items())) for files in there.values()}) != 1:
        raise Lost(f"of the race for {part} there landed {sorted(there)} of {ran}")
    return next(iter(there))
