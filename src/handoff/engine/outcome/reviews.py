"""Work that a person looks at before it lands: how many may wait, and how much each changes and weakens."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING, Record
from handoff.board.sessions import pauses
from handoff.board.tasks import decisions
from handoff.checks.assertions.assertions import find_vacuous, find_weakened
from handoff.checks.suite import is_test
from handoff.engine.app.home import home_config
from handoff.engine.place.proof.git_notes import book

if TYPE_CHECKING:
    from collections.abc import Callable

    from handoff.base.process import Completed
    from handoff.engine.app import App
    from handoff.git.landing.merge import Member


def stop_or_resume(app: App, project: str) -> None:
    """Stop the project at its limit, and let it go on below it."""
    limit = int(home_config(app).number("max_reviews"))
    scope = {"scope": pauses.PROJECT, "project": project, "name": pauses.REVIEWS}
    with app.database.transaction() as transaction:
        if len(decisions.in_review(transaction, project=project)) >= limit:
            why = f"{limit} or more finished tasks wait for your review"
            pauses.pause(transaction, **scope, reason=why, paused_by="the review limit")
        else:
            pauses.resume(transaction, **scope)


def look(app: App) -> None:
    """Let go on what stands at no limit any more: a task was taken back, or the setting was raised."""
    for stop in pauses.listing(app.database):
        if stop.name == pauses.REVIEWS and stop.scope == pauses.PROJECT:
            stop_or_resume(app, stop.project)


# --- what it changes ------------------------------------------------------------------------------------------------


class ReviewedFile(Record):
    """One file of a diff, with its lines."""

    path: str
    added: int
    removed: int
    is_test: bool
    lines: tuple[str, ...]


def changes_of(run: Callable[..., Completed], member: Member) -> tuple[str, tuple[str, ...]]:
    """The diff of finished work, and the tests it weakened."""
    text = run("diff", "--no-ext-diff", "--no-textconv", "--no-color", member.base, member.commit).text
    return text, weakened_by(text, lambda side, path: blob(run, (member.base, member.commit)[side], path))


def risk_of(run: Callable[..., Completed], member: Member) -> tuple[int, int]:
    """How many tests it weakens, and how many lines it changes."""
    text, weakened = changes_of(run, member)
    return len(weakened), sum(one.added + one.removed for one in files_of(text))


def blob(run: Callable[..., Completed], commit: str, path: str) -> str | None:
    """A file of a commit; None where it has none."""
    found = run("cat-file", "blob", f"{commit}:{path}")
    return found.text if found.code == 0 else None


def weakened_by(text: str, side: Callable[[int, str], str | None]) -> tuple[str, ...]:
    """The tests that a diff weakens; `side` reads a path before (0) and after (1) it."""
    return tuple(one.message for one in find_weakened(_tests_of(text, side)))


def _tests_of(text: str, side: Callable[[int, str], str | None]) -> dict[str, tuple[str | None, str | None]]:
    return {one.path: (side(0, one.path), side(1, one.path)) for one in files_of(text) if one.is_test}


class DoubtfulTest(Record):
    """A test that a commit weakened, or a new one that asks nothing: where to look, and why."""

    commit: str
    code: str
    path: str
    line: int
    message: str


def doubts_of(app: App, *, commit: str) -> list[DoubtfulTest]:
    """What the judge has against the tests of one commit."""
    run = book(app).git
    text = run("show", "--format=", "--no-ext-diff", "--no-textconv", "--no-color", "--first-parent", commit).text
    sides = _tests_of(text, lambda side, path: blob(run, (f"{commit}^", commit)[side], path))
    found = []
    for one in (*find_weakened(sides), *find_vacuous(sides)):
        lines = (sides[one.path][1] or "").splitlines()
        name = one.test.rpartition("::")[2].rpartition(".")[2]
        line = next((number for number, words in enumerate(lines, 1) if name and name in words), 1)
        found.append(DoubtfulTest(commit, one.code, one.path, line, one.message))
    return found


def files_of(text: str) -> list[ReviewedFile]:
    """The files of a diff, one after the other."""
    found: list[ReviewedFile] = []
    for part in ("\n" + text).split("\ndiff --git ")[1:]:
        lines = part.rstrip("\n").split("\n")
        path = lines[0].rpartition(" b/")[2]
        body = lines[1:]
        start = next((number for number, line in enumerate(body) if line.startswith("@@")), len(body))
        hunks = body[start:]
        found.append(
            ReviewedFile(
                path=path,
                added=sum(line.startswith("+") for line in hunks),
                removed=sum(line.startswith("-") for line in hunks),
                is_test=is_test(path),
                lines=tuple(hunks or body),
            )
        )
    return found
