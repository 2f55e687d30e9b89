"""What is done about a request of ours: mended, brought up to its base, pushed, landed when it is merged, taken back when it is closed."""

from __future__ import annotations

import re
from contextlib import suppress
from hashlib import sha256

from handoff.base.errors import HandoffError, Refused
from handoff.base.ids import on_one_line
from handoff.base.markdown import number_of, one_line
from handoff.base.record import TYPE_CHECKING
from handoff.board import forges as rows
from handoff.board import gates
from handoff.board.events import journal, texts
from handoff.board.tasks import outcomes, states, tasks
from handoff.engine.app.home import home_config
from handoff.engine.place import pulse, task_work
from handoff.engine.place.baton import COMMENTED
from handoff.engine.place.fanout import views
from handoff.engine.place.landing.members import target_of
from handoff.engine.place.landing.resolvers import resolvers_of
from handoff.engine.safety import incidents
from handoff.engine.safety.snapshots import keep, open_snapshot_store
from handoff.engine.work.forges.opening import remote_of, run_git
from handoff.forges.catalog import last_line
from handoff.git.landing import merge as parts
from handoff.git.landing.merge import merge
from handoff.git.landing.three_way import Proposal
from handoff.git.plumbing.checkout import git
from handoff.git.snapshots.restore import give_objects, tree_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from handoff.board.forges import TrackedRequest
    from handoff.board.tasks.tasks import Task
    from handoff.engine.app import App
    from handoff.forges.contract import Forge, ForgeComment, ForgeRequest
    from handoff.git.landing.three_way import FileSides
    from handoff.store.database import Transaction

_LOG_LINES, _LOG_CHARACTERS = 150, 12_000
_SHOWN = 2000
_VARYING = re.compile(r"0x[0-9a-f]+|[0-9a-f]{7,}|\d+|/\S*/|\s+", re.IGNORECASE)
_OVER = (states.DONE, states.CANCELLED)


def tip_of(app: App, request: TrackedRequest) -> str:
    """What the branch of a request holds here."""
    return git(request.folder, "rev-parse", "-q", "--verify", request.ref, environment=app.git_environment).text.strip()


def is_idle(app: App, request: TrackedRequest) -> bool:
    """Whether nobody mends the request now, and nobody is asked about it."""
    if request.task is None:
        return True
    task = tasks.look_up(app.database, key=request.task)
    return task is None or task.state in _OVER


# --- mended --------------------------------------------------------------------------------------------------------


def fingerprint(names: Sequence[str], log: str) -> str:
    """By what a failure is known again: its checks and their words, without times, numbers, hashes and folders."""
    words = _VARYING.sub(" ", "\n".join([*sorted(names), log[-_LOG_CHARACTERS:]]))
    return sha256(words.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def log_of(app: App, forge: Forge, seen: ForgeRequest) -> str:
    """What the failed steps of a request printed: the end of it, without secrets."""
    found = []
    for check in seen.failed[:3]:
        try:
            text = forge.failed_log(check)
        except HandoffError as error:
            text = error.message
        lines = app.clean(text, tell=False).splitlines()[-_LOG_LINES:]
        found.append("\n".join([f"{check.name}:", *lines])[-_LOG_CHARACTERS:])
    return "\n\n".join(found)


def mend(
    app: App,
    request: TrackedRequest,
    *,
    reason: str,
    log: str = "",
    failure: str = "",
    said: Sequence[ForgeComment] = (),
    **facts: Any,
) -> TrackedRequest:
    """Let a session go on with the work upon the request's head: the task that made it, or one that is written for it.

    What it is to mend stands in its journal, and so in its baton, in the same transaction. A failure that was met before
    and is there again after so many rounds asks a person.
    """
    rounds = int(home_config(app).number("request_rounds"))
    with app.database.transaction() as transaction:
        request = rows.get_request(transaction, key=request.key) or request
        task = _reopened(app, transaction, request, reason)
        failures = dict(request.facts.get("failures", {}))
        if failure:
            failures[failure] = failures.get(failure, 0) + 1
        if failure or not said:
            journal.append(
                transaction, "request.red", task=task, url=request.url, commit=request.head, text=reason, log=log
            )
        for one in said:
            body, path = app.clean(one.body, tell=False)[:_SHOWN], one.path or "(all of the request)"
            about: dict[str, Any] = {"path": path, "line": one.line, "code": one.code, "text": body}
            journal.append(transaction, COMMENTED, task=task, session=one.author, **about)
        if failures.get(failure, 0) > rounds:
            failures[failure] = 0
            gates.ask(transaction, key=task.key, question=_given_up(app, request, task, reason, rounds, log))
        answers = [*request.facts.get("answers", []), *({"id": one.id, "thread": one.thread} for one in said)]
        changed = request._replace(task=task.key)
        request = rows.put_request(transaction, changed, failures=failures, answers=answers, **facts)
    views.refresh_or_tell(app, task.project, f"Task {task.label} goes on")
    return request


def _given_up(app: App, request: TrackedRequest, task: Task, reason: str, rounds: int, log: str) -> str:
    lines = log.splitlines()[-20:]
    return "\n".join(
        [
            f"{request.url} is red for the same reason after {number_of(rounds, 'round')}. Try once more?",
            f"{reason} Yes lets another session try; no leaves it to you: {app.settings.program} answer {task.label} no WHY",
            *lines,
        ]
    )


def _reopened(app: App, transaction: Transaction, request: TrackedRequest, reason: str) -> Task:
    task = tasks.look_up(transaction, key=request.task) if request.task is not None else None
    if task is not None and task.state == states.DONE:
        return outcomes.reopen(transaction, task, reason=reason, session="the forge")
    made = [one for key in request.facts.get("tasks", ()) if (one := tasks.look_up(transaction, key=key)) is not None]
    words = "\n\n".join(f"`{one.label}`: {one.brief}" for one in made)
    return tasks.add(
        transaction,
        project=request.project,
        id=f"mend-{request.key}" if task is None else f"mend-{request.key}-{task.key}",
        brief=f"Mend the request {request.url}, so that it can be merged into {request.base}. It carries:\n\n{words}",
        workspace=made[0].workspace if made else request.folder,
        agent=made[0].agent if made else "",
        check_command=made[0].check_command if len(made) == 1 else "",
        max_attempts=int(home_config(app).number("max_attempts")),
        session="the forge",
    )


def show(app: App, request: TrackedRequest, said: Sequence[ForgeComment]) -> None:
    """Words of people without write access, and words that ask for nothing: the journal shows them, no session follows them."""
    subject = tasks.look_up(app.database, key=request.task or next(iter(request.facts.get("tasks", ())), 0))
    with app.database.transaction() as transaction:
        for one in said:
            place: dict[str, Any] = {"path": one.path, "line": one.line} if one.path else {}
            text = app.clean(one.body, tell=False)[:_SHOWN]
            journal.append(
                transaction,
                "request.said",
                task=subject,
                project=request.project,
                session=one.author,
                text=text,
                **place,
            )


# --- brought up to its base, and pushed ----------------------------------------------------------------------------


def push(app: App, request: TrackedRequest, tip: str) -> TrackedRequest:
    """Bring what was made since to the forge; done twice it is the same."""
    answer = run_git(app, request.folder, "push", remote_of(app, request.folder, request.base), f"{tip}:{request.ref}")
    if answer.code:
        return _trouble(app, request, f"{request.branch} could not be pushed: {last_line(answer)}")
    return note_push(app, request, tip)


def note_push(app: App, request: TrackedRequest, tip: str) -> TrackedRequest:
    """The forge has what we have: the row says so, and what reviewers wrote is answered."""
    task = tasks.look_up(app.database, key=request.task) if request.task is not None else None
    with app.database.transaction() as transaction:
        journal.append(
            transaction, "request.pushed", task=task, project=request.project, url=request.url, commit=tip[:10]
        )
        return rows.put_request(transaction, request._replace(head=tip, checks=""), trouble="")


def answer(app: App, request: TrackedRequest) -> TrackedRequest:
    """Say below each comment that was worked on what came of it."""
    task = tasks.look_up(app.database, key=request.task or 0)
    waiting = request.facts.get("answers", [])
    if task is None or task.state != states.DONE or not waiting:
        return request
    said = app.clean(one_line(task.result), tell=False)
    with app.database.transaction() as transaction:
        for one in waiting:
            marker = f"request-{request.key}-answer-{one['id']}"
            text = f"Looked at, with {request.head[:10]}: {said or 'done'}"
            place = {"host": request.host, "folder": request.folder, "thread": one["thread"]}
            rows.say(transaction, marker=marker, verb=rows.REPLY, number=request.number, text=text, **place)
        return rows.put_request(transaction, request, answers=[])


def fetch(app: App, request: TrackedRequest, branch: str) -> str:
    """A branch as the remote has it now."""
    remote = remote_of(app, request.folder, request.base)
    answered = run_git(
        app, request.folder, "fetch", "-q", remote, f"+refs/heads/{branch}:refs/remotes/{remote}/{branch}"
    )
    if answered.code:
        raise Refused(f"{branch} could not be fetched: {last_line(answered)}", f"Try it: git fetch {remote} {branch}")
    words = ("rev-parse", "-q", "--verify", f"refs/remotes/{remote}/{branch}")
    return git(request.folder, *words, environment=app.git_environment).text.strip()


def follow(app: App, request: TrackedRequest, head: str) -> TrackedRequest:
    """Somebody pushed to the branch: ours goes on from there, where it can."""
    fetch(app, request, request.branch)
    tip = tip_of(app, request)
    behind = git(request.folder, "merge-base", "--is-ancestor", tip, head, environment=app.git_environment)
    if tip and behind.code:
        return _trouble(
            app, request, f"{request.branch} holds other commits on the forge than here: join them by hand."
        )
    with incidents.ours(app, folder=request.folder):
        target = target_of(app, open_snapshot_store(app, folder=request.folder, project=request.project))
        target.swap(request.ref, tip or "0" * len(head), head)
    with app.database.transaction() as transaction:
        return rows.put_request(transaction, request._replace(head=head), trouble="")


def bring_up(
    app: App, request: TrackedRequest, *, base: str, ancestor: str = "", settled: Sequence[str] = ()
) -> tuple[TrackedRequest, list[str]]:
    """Join the base as it is now into the branch, as for parts: git, the person's drivers, rules. Else the paths that do not join.

    `ancestor` is the head of the lower request that the base has taken in. Of `settled` paths the branch has the last word.
    """
    start = fetch(app, request, base)
    tip = tip_of(app, request)
    snapshot_store = open_snapshot_store(app, folder=request.folder, project=request.project)
    target = target_of(app, snapshot_store)
    if git(request.folder, "merge-base", "--is-ancestor", start, tip, environment=app.git_environment).code == 0:
        return request, []
    keep(app, snapshot_store, f"before {request.branch} is brought up to {base}")  # the store owns all objects now
    store = snapshot_store.store
    common = store.ask(
        "merge-base", ancestor or start, tip
    ).strip()  # the lower one may have been mended since this one began
    member = parts.member(request.branch, common, tip, tuple(parts.touches(store, common, tip)), f"Join {base}\n")

    def session(sides: FileSides) -> Proposal | None:
        return Proposal(sides.theirs, "the session that mended it") if sides.path in settled else None

    ways = [session, *resolvers_of(app, snapshot_store, start, rules=False)]
    joined = merge(store, start, [member], moment=0, ways=ways)
    if joined.conflicts:
        return request, sorted({one.path for one in joined.conflicts})
    tree, words = tree_of(store, joined.new), f"Join {base} into {request.branch}\n"
    new = store.write_commit(tree, [tip, start], words, moment=int(app.clock.now()))
    give_objects(store, snapshot_store.place.source, [new])
    with incidents.ours(app, folder=request.folder):
        if not target.swap(request.ref, tip, new):
            return request, []  # it moved just now: another round
    with app.database.transaction() as transaction:
        task = tasks.look_up(transaction, key=request.task or 0)
        journal.append(transaction, "request.restacked", task=task, project=request.project, base=base, url=request.url)
    return request, []


def _trouble(app: App, request: TrackedRequest, words: str) -> TrackedRequest:
    with app.database.transaction() as transaction:
        return rows.put_request(transaction, request, trouble=words)


# --- over ----------------------------------------------------------------------------------------------------------


def tasks_of(app: App, request: TrackedRequest) -> list[Task]:
    """The tasks whose work a request carries, with the one that mended it."""
    keys = dict.fromkeys([*request.facts.get("tasks", ()), *([request.task] if request.task is not None else [])])
    return [task for key in keys if (task := tasks.look_up(app.database, key=key)) is not None]


def land_merged(app: App, request: TrackedRequest, seen: ForgeRequest) -> TrackedRequest:
    """Somebody merged it: its tasks have landed, their workspaces go, and requests that stood on it stand on its base."""
    with suppress(HandoffError):  # for the person to look at; the forge has it
        fetch(app, request, request.base)
    found = tasks_of(app, request)
    landed: dict[str, Any] = {"landed": seen.merged_as or seen.head, "onto": f"refs/heads/{request.base}"}
    with app.database.transaction() as transaction:
        waits = [task for task in found if task.state == states.RUNNING]
        for task in found:
            known = texts.read(task.evidence, {})
            kept = request.facts.get("kept", {}).get(str(task.key), "")
            facts = {
                **landed,
                "parts": [*dict.fromkeys([*known.get("parts", ()), kept])] if kept else known.get("parts", []),
            }
            if task.state == states.DONE:
                outcomes.put_evidence(transaction, task, **facts)
            elif not task.ended and task not in waits:
                ended_with: dict[str, Any] = {
                    "summary": task.result or "its request was merged",
                    "evidence": {**known, **facts},
                }
                outcomes.finish(transaction, key=task.key, session="the forge", **ended_with)
        if request.state != rows.MERGED:
            subject = found[0] if found else None
            said: dict[str, Any] = {"url": request.url, "commit": landed["landed"][:10], "base": request.base}
            journal.append(transaction, "request.merged", task=subject, project=request.project, **said)
            for upper in rows.live_requests(transaction, project=request.project):
                if upper.base == request.branch:
                    rows.put_request(transaction, upper, restack={"base": request.base, "ancestor": seen.head})
        ended = None if waits else transaction.now()
        request = rows.put_request(transaction, request._replace(state=rows.MERGED, ended_at=ended), trouble="")
    if not waits:
        tidy(app, request, found, seen)
    return request


def tidy(app: App, request: TrackedRequest, found: Sequence[Task], seen: ForgeRequest) -> None:
    """The workspaces and branches of merged work go, where the forge has all of it; everything in them is in a snapshot first."""
    if seen.head != tip_of(app, request):
        return
    running = {one.key for one in pulse.listing(app)}
    for task in found:
        with suppress(HandoffError):
            task_work.tidy(app, tasks.get(app.database, key=task.key), running=running)
        views.refresh_or_tell(app, task.project, f"Task {task.label} has landed")
    with incidents.ours(app, folder=request.folder):
        git(request.folder, "update-ref", "-d", request.ref, seen.head, environment=app.git_environment)


def take_back(app: App, request: TrackedRequest) -> TrackedRequest:
    """Somebody closed it without merging: its tasks say that they did not land, and their work stays on its branch."""
    found = tasks_of(app, request)
    with app.database.transaction() as transaction:
        for task in found:
            facts = texts.read(task.evidence, {})
            if task.state == states.DONE and facts.get("onto", request.ref) == request.ref:
                at = str(facts.get("landed") or "")
                outcomes.mark_landing(transaction, keys=[task.key], landed=at, undone=True, session="the forge")
            elif not task.ended and task.key == request.task:
                if task.state == states.RUNNING:
                    outcomes.cancel(transaction, key=task.key, reason="its request was closed", session="the forge")
                else:
                    outcomes.block(transaction, key=task.key, reason="its request was closed", session="the forge")
        subject = found[0] if found else None
        said: dict[str, Any] = {"url": request.url, "branch": request.branch}
        journal.append(transaction, "request.closed", task=subject, project=request.project, **said)
        ended = request._replace(state=rows.CLOSED, ended_at=transaction.now())
        request = rows.put_request(transaction, ended)
    for task in found:
        views.refresh_or_tell(app, task.project, f"The request of {task.label} was closed")
    return request


def words_of_conflict(base: str, paths: Sequence[str]) -> str:
    """What a session is told whose request does not join with its base."""
    shown = ", ".join(f"`{on_one_line(path)}`" for path in paths[:20])
    return (
        f"The request cannot be joined with {base} as it is now, because of {shown}. Change these files so that they do what both"
        " sides ask: your version of them is taken when the base is joined in."
    )
