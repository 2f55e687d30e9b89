"""What a person does: answer, gate list and show, task comment, pause, resume, cancel, retry."""

from __future__ import annotations

import os
import shlex

from handoff.base.clock import age, stamp
from handoff.base.errors import UsageError, UserError
from handoff.base.markdown import number_of
from handoff.base.record import TYPE_CHECKING
from handoff.board.events.incidents import Incident
from handoff.board.tasks.batches import Batch
from handoff.board.tasks.flows import Flow
from handoff.board.tasks.tasks import Task
from handoff.engine.work import acts
from handoff.engine.work.tasks import admin
from handoff.surfaces.cli.command import (
    Command,
    flag,
    landing_option,
    option,
    optional_word,
    pick,
    project_option,
    read_source,
)
from handoff.surfaces.cli.commands.tasks.board import chosen_project, event_data, event_line, show_task

if TYPE_CHECKING:
    import argparse
    from typing import Any

    from handoff.board.addresses import Addressed
    from handoff.board.events.journal import Event
    from handoff.board.gates import Gate
    from handoff.engine.work.tasks.search import Hit
    from handoff.surfaces.cli.command import Context, Parser


def _gates_arguments(parser: Parser) -> None:
    project_option(parser, every=True)
    flag(parser, "--all", "also gates that were answered", dest="include_ended")


def _gates(ctx: Context, arguments: argparse.Namespace) -> None:
    from handoff.engine.work.review import by_risk

    waiting = admin.waiting(ctx.app, project=chosen_project(ctx, arguments), include_ended=arguments.include_ended)
    ranked = by_risk(ctx.app, waiting)
    found = [one.waiting for one in ranked]
    ctx.out.data(
        [
            {
                **one.waiting.gate.shown(),
                "project": one.waiting.project,
                "task": one.waiting.task,
                **pick(one, "weakened lines"),
            }
            for one in ranked
        ]
    )
    now = ctx.app.clock.now()
    for one in ranked:
        item, gate = one.waiting, one.waiting.gate
        said = "overdue" if gate.overdue_at is not None and gate.state == "open" else gate.state
        limit = f"  ({_limit(gate, now)})" if gate.state == "open" and gate.due_at is not None else ""
        ctx.out.line(
            f"{item.task:<24} {said:<9} {age(now - gate.opened_at):>7}  {gate.asked}{limit}{f'  ({one.words})' if one.words else ''}"
        )
    if not found:
        ctx.out.line("Nothing waits for your answer.")
    elif any(item.gate.state == "open" for item in found):
        program = ctx.settings.program
        ctx.out.line(f"See one and how to answer it: {program} answer TASK")


def _limit(gate: Gate, now: float) -> str:
    left = (gate.due_at or now) - now
    when = f"within {age(left)}" if left > 0 else "its time is up"
    return f"{when}, else {gate.fallback}" if gate.fallback else when


EXAMPLES = """examples:
  handoff answer login                       show the question
  handoff answer login 'Postgres, please'    your own words, where a session asked
  handoff answer login yes                   yes; more words are kept with it
  handoff answer login no 'the tests are missing'
  handoff answer login edit 'the text as it is to be'
  handoff answer login --edit                the same in your editor
  handoff answer k7mz-… yes                  by the code of a notification, once, from any folder
"""


def _answer_arguments(parser: Parser) -> None:
    text = "what waits: a task, batch or flow, or the code of a notification"
    parser.add_argument("address", metavar="ADDRESS|CODE", help=text)
    text = "what you say: yes, no, edit, or where a session asked your own words or one of its choices"
    optional_word(parser, "answer", "ANSWER", text)
    optional_word(
        parser, "words", "TEXT", "yes: a word for the next session; no: the reason; edit: the text as it is to be"
    )
    option(parser, "--reason TEXT", "yes: a word for the journal and the next session")
    group = parser.add_mutually_exclusive_group()
    option(group, "--text TEXT", "the text as the next session is to have it")
    option(group, "--from FILE", "the same from a file (- is standard input)", dest="source")
    flag(group, "--edit", "change the text in your editor first (env: VISUAL, EDITOR)")
    option(parser, "--by NAME", "who answered, for the journal")
    project_option(parser)


def _answer(ctx: Context, arguments: argparse.Namespace) -> int:
    task, _ = acts.find_asking(ctx.app, arguments.address, project=arguments.project)
    text, word = arguments.text or read_source(arguments.source), arguments.answer or ""
    if not word and not (text or arguments.edit):
        _show_gate(ctx, task)
        return 0
    reason = arguments.words or arguments.reason
    if word == "edit":
        if text and arguments.words:
            raise UsageError("The text is given twice.", "Use TEXT or --from, not both.")
        text, reason = text or arguments.words, arguments.reason
        if not text and not arguments.edit:
            raise UsageError("An edit needs the text as it is to be.", "Give TEXT, --from FILE or --edit.")
    if arguments.edit and word != "no":
        gate = admin.gate_of(ctx.app, task)
        text = _edited(ctx, text or gate.subject)
        text = "" if text == gate.subject else text
    if word in ("", "yes", "edit"):
        word = "edit" if text else "yes"
    asked = pick(arguments, "address by project")
    return ctx.out.done(acts.answer(ctx.app, word=word, text=text, reason=reason, **asked))


def _edited(ctx: Context, text: str) -> str:
    """The text after the person's editor; nothing is answered when the editor fails or the text is emptied."""
    import shlex
    import tempfile

    from handoff.base.process import pass_through

    editor = ctx.settings.get("VISUAL") or ctx.settings.get("EDITOR")
    if not editor:
        raise UserError("No editor is set.", "Set EDITOR, or give the text with --text or --from.")
    with tempfile.TemporaryDirectory(prefix="handoff-") as folder:
        path = os.path.join(folder, "answer.md")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        code = pass_through([*shlex.split(editor), path], environment=ctx.settings.environment)
        changed = read_source(path)
    if code or not changed.strip():
        raise UserError("The editor left no text: nothing was changed.", "Run the command again.")
    return changed


# --- gate show -------------------------------------------------------------------------------------------------


def _gate_arguments(parser: Parser) -> None:
    parser.add_argument("address", metavar="ADDRESS", help="what waits: a task, batch or flow")
    project_option(parser)


def _gate(ctx: Context, arguments: argparse.Namespace) -> None:
    _show_gate(ctx, acts.find_asking(ctx.app, arguments.address, project=arguments.project)[0])


def _show_gate(ctx: Context, task: Task) -> None:
    gate = admin.gate_of(ctx.app, task)
    code = gate.code if gate.state == "open" else ""
    ctx.out.data({**gate.shown(), "task": task.label, "project": task.project, "code": code})
    ctx.out.line(gate.asked, "strong")
    ctx.out.lines(*gate.question.splitlines()[1:])
    who = f" by {gate.answered_by}" if gate.answered_by else ""
    ctx.out.line(f"{gate.state}{who}" + (f": {gate.reason}" if gate.reason else ""))
    if gate.state == "open" and gate.due_at is not None:
        ctx.out.line(_limit(gate, ctx.app.clock.now()))
    said = "The answer:" if gate.open_ended and not gate.subject else "As it is to be:"
    for title, text in (("The text:", gate.subject), (said, gate.answer)):
        if text:
            ctx.out.lines("", title, text.rstrip("\n"))
    if code:
        program = ctx.settings.program
        commands = [*gate.commands(task.label), *([f"answer {task.label} --edit"] if gate.subject else [])]
        ctx.out.lines("", "Answer it with one of these:", *(f"  {program} {one}" for one in commands))
        ctx.out.line(f"From anywhere, once: {program} {gate.command(code)}")


# --- task comment ----------------------------------------------------------------------------------------------

COMMENT_EXAMPLES = """examples:
  handoff task comment cart cart.py:12 'an empty cart must not be charged'
"""


def _comment_arguments(parser: Parser) -> None:
    parser.add_argument("task", metavar="TASK", help="the task, as its id or BATCH/PART")
    parser.add_argument("place", metavar="FILE:LINE", help="the line as it is in the task's work")
    parser.add_argument("text", metavar="TEXT", help="what the next session is to mind")
    option(parser, "--quote TEXT", "the line itself, so that it is found when others have moved it")
    project_option(parser)


def _comment(ctx: Context, arguments: argparse.Namespace) -> int:
    asked = pick(arguments, "place text quote project")
    return ctx.out.done(acts.comment(ctx.app, arguments.task, **asked))


# --- pause and resume ----------------------------------------------------------------------------------------


def _scope_arguments(parser: Parser) -> None:
    optional_word(parser, "address", "ADDRESS", f"{ADDRESS} (default: the project)")
    flag(parser, "--everything", "every project")
    project_option(parser)


def _pause_arguments(parser: Parser) -> None:
    _scope_arguments(parser)
    option(parser, "--reason TEXT", "why, for whoever wonders")


def _resume_arguments(parser: Parser) -> None:
    _scope_arguments(parser)
    option(parser, "--max-cycles N", "a flow: allow so many cycles in all", 0)


def _pause(ctx: Context, arguments: argparse.Namespace) -> int:
    return ctx.out.done(acts.pause(ctx.app, **pick(arguments, "address everything reason project")))


def _resume(ctx: Context, arguments: argparse.Namespace) -> int:
    return ctx.out.done(acts.resume(ctx.app, **pick(arguments, "address everything max_cycles project")))


# --- cancel and retry ----------------------------------------------------------------------------------------


def _cancel_arguments(parser: Parser) -> None:
    address_arguments(parser)
    option(parser, "--reason TEXT", "why, for the journal")


def _cancel(ctx: Context, arguments: argparse.Namespace) -> int:
    return ctx.out.done(acts.cancel(ctx.app, **pick(arguments, "address reason project")))


def _who_and_how(parser: Parser) -> None:
    option(parser, "--agent NAME", "another agent than before, or several as for `task add`; '' is any", None)
    option(parser, "--model NAME", "the model its client is to use; '' is the client's own choice", None)
    option(parser, "--check COMMAND", "another check; '' is none", None)


EDIT_EXAMPLES = """examples:
  handoff task edit login 'Build the login form, without a captcha.'
  handoff task edit login --agent codex --note 'the table is called users'
  handoff task edit login --edit              the brief in your editor
"""


def _edit_arguments(parser: Parser) -> None:
    parser.add_argument("address", metavar="TASK", help="the task, as its id or BATCH/PART; nobody works on it now")
    parser.add_argument("brief", nargs="?", metavar="BRIEF", help="what it is to do now (- is standard input)")
    flag(parser, "--edit", "change the brief in your editor (env: VISUAL, EDITOR)")
    option(parser, "--note TEXT", "your words to the next session; they stand first in what it reads")
    option(
        parser, "--owns PATH", "what it may change, in place of what it owned (may be repeated)", None, action="append"
    )
    _who_and_how(parser)
    landing_option(parser, None)
    project_option(parser)


def _edit_task(ctx: Context, arguments: argparse.Namespace) -> int:
    asked = pick(arguments, "brief note owns agent model check landing project")
    if asked["brief"] == "-":
        asked["brief"] = read_source("-")
    if arguments.edit:
        task = admin.find_task(ctx.app, arguments.address, project=arguments.project)
        asked["brief"] = _edited(ctx, asked["brief"] or task.brief)
    return ctx.out.done(acts.edit(ctx.app, arguments.address, **asked))


def _retry_arguments(parser: Parser) -> None:
    address_arguments(parser)
    option(parser, "--note TEXT", "your words to the next session; they stand first in what it reads")
    _who_and_how(parser)
    option(parser, "--phase PHASE", "a flow: go back to this phase")
    option(parser, "--max-cycles N", "a flow: allow so many cycles in all", 0)


def _retry(ctx: Context, arguments: argparse.Namespace) -> int:
    return ctx.out.done(
        acts.retry(ctx.app, **pick(arguments, "address note agent model check phase max_cycles project"))
    )


# --- What can be seen of anything that has an address: show, log

_FOLLOW_SECONDS = 0.5
ADDRESS = "a task, BATCH/PART, batch, flow or incident; task:, batch: or flow:NAME where a name has several"


def address_arguments(parser: Parser) -> None:
    """What an act or a view is about."""
    parser.add_argument("address", metavar="ADDRESS", help=ADDRESS)
    project_option(parser)


def _found(ctx: Context, arguments: argparse.Namespace) -> Addressed:
    if getattr(arguments, "only_tasks", False):  # a sandboxed session reads tasks, and nothing else
        return admin.find_task(ctx.app, arguments.address, project=arguments.project)
    return admin.find_address(ctx.app, arguments.address, project=arguments.project)


# --- show and log --------------------------------------------------------------------------------------------


def _show(ctx: Context, arguments: argparse.Namespace) -> None:
    found = _found(ctx, arguments)
    if isinstance(found, Task):
        show_task(ctx, found)
    elif isinstance(found, Batch):
        from handoff.surfaces.cli.commands.tasks import relay

        relay.show_batch(ctx, found)
    elif isinstance(found, Flow):
        from handoff.surfaces.cli.commands.tasks import flows

        flows.show(ctx, found)
    else:
        from handoff.surfaces.cli.commands.git import guard

        guard.show(ctx, found)


def _log_arguments(parser: Parser) -> None:
    optional_word(parser, "address", "ADDRESS", "only what happened to this; with --git a range of commits")
    project_option(parser, every=True)
    flag(parser, "--git", "show what was verified for each commit, from its git notes")
    flag(parser, "--archive", "show lines that `prune --journal` has put into files on this machine")
    option(parser, "-n --lines N", "how many lines to begin with (default: 30)", 30)
    flag(parser, "-f --follow", "wait for more; end it with Ctrl-C")


def _log(ctx: Context, arguments: argparse.Namespace) -> None:
    if arguments.git:
        from handoff.surfaces.cli.commands.git import notes

        notes.check_words(arguments)
        notes.show_log(ctx, arguments.address, limit=max(1, arguments.lines))
        return
    project = chosen_project(ctx, arguments)
    if arguments.archive:
        old = admin.read_archive(
            ctx.app, project=project, address=arguments.address or "", limit=max(1, arguments.lines)
        )
        ctx.out.data([event_data(event) for event in old])
        for event in old:
            _tell(ctx, event, follow=False)
        return
    found = _found(ctx, arguments) if arguments.address else None
    if isinstance(found, Incident):
        raise UserError("An incident has no log of its own.", f"See it: {ctx.settings.program} show {found.id}")
    if isinstance(found, Flow) and not arguments.follow:
        from handoff.surfaces.cli.commands.tasks import flows

        flows.log(ctx, found)
        return
    # Before the reading, here as below: what is written between the two is then found at the next look.
    mark, seen = ctx.app.database.change_mark(), ctx.app.database.settled()
    lines = _lines(ctx, project, found, limit=max(1, arguments.lines))
    if not arguments.follow:
        ctx.out.data([event_data(event) for event in lines])
    told = {event.seq for event in lines}
    seen = min(seen, max(told, default=0))
    for event in lines:
        _tell(ctx, event, follow=arguments.follow)
    if not lines and not arguments.follow:
        ctx.out.line(f"Nothing has happened yet in {f'project {project}' if project else 'any project'}.")
    while arguments.follow:
        ctx.app.clock.sleep(_FOLLOW_SECONDS)
        now = ctx.app.database.change_mark()
        if now == mark:
            continue
        mark, settled = now, ctx.app.database.settled()
        for event in _lines(ctx, project, found, since=seen):
            if event.seq not in told:  # on Postgres a line may come behind one that has a higher number
                _tell(ctx, event, follow=True)
                told.add(event.seq)
        seen = max(seen, min(settled, max(told, default=0)))


def _lines(
    ctx: Context, project: str, found: Task | Batch | Flow | None, *, limit: int = 50, since: int | None = None
) -> list[Event]:
    if found is None or isinstance(found, Task):
        return admin.events(ctx.app, project=project, task=found, limit=limit, since=since)
    return admin.events_of(ctx.app, found, limit=limit, since=since)


def _tell(ctx: Context, event: Event, *, follow: bool) -> None:
    ctx.out.line(event_line(event))
    if follow:
        ctx.out.data(event_data(event))


SEARCH_EXAMPLES = """examples:
  handoff search login link             what has both words, the newest first
  handoff search '"sign-in link"'       these words in a row
  handoff search 'auth*' --kind report  a word that begins so, in reports alone
"""


def _search_arguments(parser: Parser) -> None:
    from handoff.engine.work.tasks import search

    parser.add_argument("words", nargs="*", metavar="WORD", help='words that must all be there; "in a row"; begin*')
    option(parser, "--kind KIND", f"only this kind, may be repeated: {', '.join(search.KINDS)}", [])
    option(parser, "--limit N", f"at most so many (default: {search.LIMIT})", search.LIMIT)
    option(parser, "--before N", "what is older than this: the number a search ends with", 0)
    project_option(parser, every=True)


def _search(ctx: Context, arguments: argparse.Namespace) -> None:
    from handoff.engine.work.tasks import search

    project = chosen_project(ctx, arguments)
    words = " ".join(arguments.words)
    found = search.find(
        ctx.app, words=words, project=project, kinds=arguments.kind, limit=arguments.limit, before=arguments.before
    )
    ctx.out.data({"hits": [hit_data(hit) for hit in found.hits], "next": found.next or None, "unread": found.unread})
    for hit in found.hits:
        where = f"{hit.project}: {hit.about}" if not project and hit.project else hit.about
        ctx.out.line(f"{stamp(hit.at)}  {hit.kind:<10}  {where}  {hit.who}".rstrip(), "strong")
        ctx.out.line(f"  {hit.text}")
        ctx.out.line(f"  {hit.look}", "dim")
    if not found.hits:
        place = f"project {project}" if project else "any project"
        ctx.out.line(f"Nothing in {place} has {words}.")
    elif found.next:
        ctx.out.note(f"Older ones: {ctx.settings.program} search {shlex.join(arguments.words)} --before {found.next}")
    if found.unread:
        ctx.out.warning(
            f"{number_of(found.unread, 'line')} of the journal were not read yet. Every search reads on, and so does"
            f" {ctx.settings.program} work"
        )


def hit_data(hit: Hit) -> dict[str, Any]:
    """A hit for programs."""
    return {**hit._asdict(), "at": stamp(hit.at)}


COMMANDS = {
    "pause": Command(_pause_arguments, _pause),
    "resume": Command(_resume_arguments, _resume),
    "cancel": Command(_cancel_arguments, _cancel),
    "retry": Command(_retry_arguments, _retry),
    "gate list": Command(_gates_arguments, _gates),
    "gate show": Command(_gate_arguments, _gate),
    "task edit": Command(_edit_arguments, _edit_task, epilog=EDIT_EXAMPLES),
    "task comment": Command(_comment_arguments, _comment, epilog=COMMENT_EXAMPLES),
    "answer": Command(_answer_arguments, _answer, epilog=EXAMPLES),
    "show": Command(address_arguments, _show),
    "log": Command(_log_arguments, _log),
    "search": Command(_search_arguments, _search, epilog=SEARCH_EXAMPLES),
}
