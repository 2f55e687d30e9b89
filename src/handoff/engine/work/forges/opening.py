"""The forge of a checkout, and a landing as a request to the team: pushed, and opened through the person's own `gh` or `glab`."""

from __future__ import annotations

import os
import re

from handoff.base.errors import Conflict, UserError
from handoff.base.files import locked, make_folder
from handoff.base.ids import slug
from handoff.base.markdown import shell_line
from handoff.base.record import TYPE_CHECKING, Record
from handoff.board import forges as rows
from handoff.board import gates
from handoff.board.events import journal
from handoff.board.tasks import decisions, tasks
from handoff.engine.place import task_clones
from handoff.forges import catalog
from handoff.forges.catalog import SECONDS, call, kind_for, last_line
from handoff.forges.github import GitHub
from handoff.git.plumbing.checkout import git

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from handoff.base.process import Completed
    from handoff.board.forges import TrackedRequest
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.forges.contract import Forge


def remote_of(app: App, top: str, base: str = "") -> str:
    """The remote of the branch that is asked to take the work in, else the only one, else `origin`."""
    asked = git(top, "config", "--get", f"branch.{base}.remote", environment=app.git_environment).text.strip()
    names = git(top, "remote", environment=app.git_environment).text.split()
    if asked in names:
        return asked
    if len(names) == 1:
        return names[0]
    if "origin" in names:
        return "origin"
    raise UserError(
        "There is no remote to push to." if not names else f"Which remote? There are {', '.join(names)}.",
        "Add one: git remote add origin URL" if not names else f"Say it once: git config branch.{base}.remote NAME",
    )


def address_of(app: App, top: str, base: str = "") -> str:
    """Where the remote of a checkout is."""
    return git(top, "remote", "get-url", remote_of(app, top, base), environment=app.git_environment).text.strip()


def forge_of(app: App, top: str, base: str = "") -> Forge:
    """The forge of a checkout, through the person's own program."""
    return catalog.connect(address_of(app, top, base), folder=top, environment=app.settings.environment)


def run_git(app: App, top: str, *words: str) -> Completed:
    """Git with the person's own ways to their remote, where nothing asks."""
    return catalog.call(["git", *words], folder=top, environment=app.settings.environment)


def alone(app: App, *, patience: float = 0.0) -> AbstractContextManager[None]:
    """One at a time looks at forges on this machine: what one of them finds undone, no other does beside it."""
    folder = os.path.join(app.settings.home, "locks")
    make_folder(folder, mode=0o700)
    return locked(os.path.join(folder, "forges"), what="the forge", patience=patience)


# --- a request is opened ---------------------------------------------------------------------------------------------

_MANY_LINES = 400
_PAIR = 2
_URL = re.compile(r"https?://\S+")
_EXISTS = re.compile(r"already exists|already open", re.IGNORECASE)


class OpenedRequest(Record):
    """What came of it: the branch is pushed; the address of the request, or the line a person runs to open it."""

    branch: str
    base: str
    url: str
    updated: bool
    said: str
    line: str
    lines_changed: int

    @property
    def large(self) -> bool:
        return self.lines_changed > _MANY_LINES


def open_request(
    app: App,
    *,
    top: str,
    branch: str,
    commit: str,
    base: str,
    title: str,
    body: str,
    project: str = "",
    carried: Sequence[Task] = (),
) -> OpenedRequest:
    """Push `commit` as `branch` and ask for it to be taken into `base`; a program that fails costs nothing but a line to run.

    The row is there before the request is: whoever finds it opening looks on the forge for what was done.
    """
    remote = remote_of(app, top, base)
    push = ["push", remote, f"{commit}:refs/heads/{branch}"]
    pushed = run_git(app, top, *push)
    if pushed.code and "cannot run" in pushed.error_text:
        # Our own guard's hook was taken out with the last batch, between git's two looks at it.
        pushed = run_git(app, top, *push)
    if pushed.code:
        raise UserError(
            f"{branch} could not be pushed to {remote}: {last_line(pushed)}",
            f"Push it yourself: git push {remote} {commit[:12]}:refs/heads/{branch}",
        )
    found = OpenedRequest(
        branch=branch, base=base, url="", updated=False, said="", line="",
        lines_changed=_size(app, top, base, remote, commit),
    )  # fmt: skip
    row = (
        _written(app, top, branch, commit, base, {"title": title, "body": body}, project, carried) if project else None
    )
    opened = _open(app, top, found, title, body)
    if row is not None and not opened.url and opened.line:
        rows.drop_request(app.database, key=row.key)  # the person opens it, and it is theirs
    elif row is not None:
        number = opened.url.rstrip("/").rpartition("/")[2]
        with app.database.transaction() as transaction:
            known = rows.get_request(transaction, key=row.key) or row
            if number.isdecimal() and known.state == rows.OPENING:
                known = known._replace(state=rows.OPEN, number=int(number), url=opened.url)
            rows.put_request(transaction, known)
            for task in carried:
                journal.append(transaction, "request.opened", task=task, url=opened.url, branch=branch, base=base)
    return opened


def _written(
    app: App,
    top: str,
    branch: str,
    commit: str,
    base: str,
    words: dict[str, str],
    project: str,
    carried: Sequence[Task],
) -> TrackedRequest:
    """The row of the request, a new one or the live one of the branch, with the tasks whose work it carries.

    Finished work that waits for a person's look is looked at on the forge from now on: its gate is closed by that.
    """
    live = next((one for one in rows.live_requests(app.database, project=project) if one.branch == branch), None)
    if live is not None and live.base != base and live.number:
        raise Conflict(
            f"{branch} has an open request into {live.base}: {live.url}", f"Use that one: --into {live.base}"
        )
    store = task_clones.snapshot_store_of_project(app, carried[0]) if carried else None
    kept = {str(one.key): task_clones.kept_commit(store, one) for one in carried} if store else {}
    own = [one for one in carried if one.kind == tasks.TASK]
    with app.database.transaction() as transaction:
        for task in carried:
            decided = decisions.of_task(transaction, key=task.key)
            if decided is not None and decided.state == decisions.WAITING and decided.intent.get("review"):
                intent = decided.intent
                decisions.move(transaction, decided, state=decisions.DONE)
                said = {"summary": intent["summary"], "evidence": intent["record"]}
                gates.approve(transaction, key=task.key, answered_by=f"the request {branch}", **said)
        if live is not None:
            facts = live.facts
            both = [*dict.fromkeys([*facts["tasks"], *(one.key for one in carried)])]
            return rows.put_request(
                transaction, live._replace(head=commit), tasks=both, kept={**facts["kept"], **kept}, **words
            )
        facts = {**words, "tasks": [one.key for one in carried], "kept": kept}
        mends = own[0].key if len(carried) == 1 and own else None
        place = {"project": project, "host": app.settings.host, "folder": top, "task": mends}
        return rows.begin_request(transaction, facts=facts, branch=branch, base=base, head=commit, **place)


def _open(app: App, top: str, found: OpenedRequest, title: str, body: str) -> OpenedRequest:
    kind = kind_for(address_of(app, top, found.base), path=app.settings.path)
    words, given = (kind or GitHub).creation(branch=found.branch, base=found.base, title=title, body=body)
    shown = shell_line([word if word != body else "…" for word in words]) + (" < REPORT" if given else "")
    if kind is None:
        return found._replace(said="neither gh nor glab is installed", line=shown)
    answer = call(words, folder=top, environment=app.settings.environment, given=given)
    text = f"{answer.text}\n{answer.error_text}"
    urls = _URL.findall(text)
    if answer.timed_out:
        return found._replace(said=f"{kind.program} gave no answer within {SECONDS:.0f} s", line=shown)
    if answer.code and _EXISTS.search(text):
        return found._replace(url=urls[-1] if urls else "", updated=True)
    if answer.code:
        return found._replace(said=f"{kind.program}: {last_line(answer)}", line=shown)
    if not urls:
        return found._replace(said=f"{kind.program} printed no address: {last_line(answer)}")
    return found._replace(url=urls[-1])


def open_again(app: App, request: TrackedRequest) -> OpenedRequest:
    """Open a request of which only the row and the pushed branch are there: whoever was at it died."""
    facts = request.facts
    found = OpenedRequest(
        branch=request.branch, base=request.base, url="", updated=False, said="", line="", lines_changed=0
    )
    return _open(app, request.folder, found, facts["title"], facts["body"])


def carried_by(app: App, project: str, names: Sequence[str]) -> list[Task]:
    """The tasks whose work the named things are: a task, its workspace or its branch."""
    found = []
    for name in names:
        if (of_workspace := task_of_workspace(app, project, name)) is not None:
            found.append(of_workspace)
        else:
            scope, _, own = name.rpartition("/")
            found += [one for one in tasks.of_id(app.database, project=project, id=own) if one.scope == scope][:1]
    return found


def task_of_workspace(app: App, project: str, name: str) -> Task | None:
    """The task of the project whose own workspace, or branch of the same name, this is."""
    short = name.removeprefix("handoff/")
    number = short.rpartition("-")[2]
    task = tasks.look_up(app.database, key=int(number)) if number.isdecimal() else None
    mine = task is not None and task.project == project and task_clones.name_of(task) == short
    return task if mine else None


def stacked_on(app: App, project: str, carried: Sequence[Task]) -> str:
    """The branch of the request under way whose work the carried tasks come after; empty where there is none."""
    own = {one.key for one in carried}
    for task in carried:
        needs = {need.key for need in tasks.needs_of(app.database, key=task.key)} - own
        lower = rows.standing_on(app.database, project=project, needs=sorted(needs))
        if lower is not None:
            return lower.branch
    return ""


def _size(app: App, top: str, base: str, remote: str, commit: str) -> int:
    """How many lines the request adds and removes, against the base as it was last fetched."""
    for against in (f"refs/remotes/{remote}/{base}", f"refs/heads/{base}"):
        answer = git(top, "diff", "--numstat", f"{against}...{commit}", environment=app.git_environment)
        if answer.code == 0:
            counts = [line.split("\t")[:2] for line in answer.text.splitlines()]
            return sum(int(number) for pair in counts for number in pair if number.isdecimal())
    return 0


# --- landing as a request ---------------------------------------------------------------------------------------------


def branch_for(app: App, top: str, name: str, base: str) -> str:
    """The branch a request is made of, there from now on: `pr/NAME`, begun at the base."""
    branch = f"pr/{slug(name)}"
    known = git(top, "rev-parse", "-q", "--verify", f"refs/heads/{branch}", environment=app.git_environment)
    if known.code:
        made = git(top, "branch", "--no-track", branch, base, environment=app.git_environment)
        if made.code:
            raise UserError(f"The branch {branch} cannot be made: {made.error_text}", "Name another base with --into.")
    return branch


def base_of(app: App, top: str, into: str) -> str:
    """The branch that is asked to take the work in: the named one, else the one checked out."""
    base = into or git(top, "symbolic-ref", "-q", "--short", "HEAD", environment=app.git_environment).text.strip()
    if not base:
        raise UserError("HEAD is detached: there is no branch that could take it in.", "Name one with --into BRANCH")
    return base


def series(app: App, top: str, base: str, commit: str) -> tuple[str, str]:
    """A title and a body out of the commits themselves: forges that squash keep neither trailers nor notes, so they are repeated."""
    words = ("log", "--reverse", "--format=%s%x00%b%x01", f"{base}..{commit}", "--")
    commits = [
        one.strip("\n").split("\0") for one in git(top, *words, environment=app.git_environment).text.split("\x01")
    ]
    found = [(subject, body.strip()) for subject, body in (one for one in commits if len(one) == _PAIR)]
    if not found:
        raise UserError(f"{base} has all of it already.", "There is nothing to ask for.")
    title = found[0][0] if len(found) == 1 else f"{found[0][0]}, and {len(found) - 1} more"
    return title, "\n\n".join(f"### {subject}\n\n{body}".rstrip() for subject, body in found) + "\n"
