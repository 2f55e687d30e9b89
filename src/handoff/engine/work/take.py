"""Take a session over that any client has written into its own store, also one that never heard of handoff."""

from __future__ import annotations

import os

from handoff.agents.catalog import BY_HAND, start_words
from handoff.agents.history import entries as form
from handoff.agents.history.facts import facts as facts_of
from handoff.agents.history.sessions import looked_at, stored_sessions
from handoff.agents.history.stores.table import ALIVE, COPY, STORES, StoredSession, read_entries, refuse_unfit
from handoff.base import files
from handoff.base.clock import age, stamp
from handoff.base.errors import Conflict, UsageError, UserError
from handoff.base.markdown import fenced, number_of, one_line
from handoff.base.process import find
from handoff.base.record import TYPE_CHECKING, Record
from handoff.base.redaction import secret_values
from handoff.engine.features import lifecycle, plan_steps
from handoff.engine.features.recall import own_words
from handoff.engine.work.tasks import create
from handoff.feature import baton
from handoff.feature.baton import GOAL, LIMITS, NEXT, RULES, STATE, TRIED, PromptPart, estimate, pin, rule_parts
from handoff.feature.folder import Feature
from handoff.git.plumbing import checkout, find_top

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from handoff.agents.history.facts import CommandRun, HistoryFacts, Utterance
    from handoff.engine.app import App

TOKENS = 2_000
_BOXES = {form.DONE: "[x]", form.DOING: "[>]", form.DROPPED: "[-]"}
_TAIL, _LINE, _MOST_RULES, _SAID = 700, 300, 40, 12
_SMALLEST = 40
_CARRIED = ("What the person said", "Goal", "Plan", "Dead ends", "Decisions")
"""What a baton holds that stays true when the next session takes over too."""
_FIRST, _NEWEST, _ENDS = "first", "newest", "ends"


class Origin(Record):
    """Where the facts come from and where the next session stands."""

    title: str
    """Of whose session: `Claude Code, session b21d455c`."""
    folder: str
    home: str = ""
    standing: tuple[str, ...] = ()
    """What is true now: branch, HEAD, what is not committed."""
    limits: tuple[str, ...] = ()
    more: str = ""
    """The command that shows everything."""


def handover(facts: HistoryFacts, origin: Origin, *, tokens: int = TOKENS) -> str:
    """The whole text, at most so many tokens; what counts most has its room first."""
    place, red = origin.folder, {run.command for run in facts.red}
    before = _sections(facts.handed)
    handed = [line[2:] for name, lines in before.items() if name == "Rules" for line in lines if line.startswith("- ")]
    rules = [rule[:_LINE] for rule in dict.fromkeys([*handed, *(one_line(rule.text) for rule in facts.rules)])]
    carried = [
        "\n".join([f"#### {name}", *lines]) for name, lines in before.items() if lines and name.startswith(_CARRIED)
    ]
    files = [f"- {file.how} {_short(file.path, place)}" for file in facts.files]
    runs = [_run(run) for run in facts.runs if run.command not in red]
    steps = [
        f"- {_BOXES.get(step.state, '[ ]')} {step.text}" + (f" ({step.state})" if step.state == "blocked" else "")
        for step in facts.todo
    ]
    said = [f"- {f'({_time(at)}) ' if at else ''}{text}" for at, text in own_words(facts)][:_SAID]
    summary = [facts.summary] if facts.summary else []
    sections = {
        RULES: rule_parts(origin.home, "", place, rules[-_MOST_RULES:]),
        GOAL: [
            _part("What the person said, word for word", _instructions(facts), 1, 0.5, _ENDS),
            _part("Before that session: what was handed to it", carried, 2, 0.5),
        ],
        STATE: [
            pin(_opening(facts, origin)),
            _part("Now", [f"- {line}" for line in origin.standing], 2, 0.4),
            _part("Red now", [_red(run) for run in facts.red], 3, 0.5, _NEWEST),
            _part("Files that the session touched", files, 3, 0.4, _NEWEST),
            _part("Plan", steps, 4),
        ],
        TRIED: [
            _part("Dead ends: do not try them again", [_dated(one) for one in facts.dead_ends], 4, 0.4, _NEWEST),
            _part("Decisions", [_dated(one) for one in facts.decisions], 4, 0.4, _NEWEST),
            _part("Commands and their last results", runs, 5, 0.4, _NEWEST),
            _part("What it said, newest first", said, 6),
            _part("What the client itself kept when it shortened the conversation", summary, 8),
        ],
        NEXT: [pin("\n".join(_next(facts)))],
        LIMITS: [pin("\n".join(f"- {line}" for line in _limits(facts, origin)))],
    }
    return baton.compose(f"Go on with the work of {origin.title}", sections, tokens=tokens).text


def _part(title: str, items: list[str], priority: int, share: float = 0.5, keeps: str = _FIRST) -> PromptPart:
    """A list of facts that may lose some of them."""
    return PromptPart(
        title=title,
        text="\n".join(items),
        priority=priority,
        share=share,
        shrink=lambda room: _shortened(items, room, keeps),
    )


def _shortened(items: list[str], room: int, keeps: str) -> str:
    """As many items as there is room for; a line says where some are missing."""
    last = len(items) - 1
    order = {
        _FIRST: range(last + 1),
        _NEWEST: range(last, -1, -1),
        _ENDS: [last, *range(min(1, last)), *range(last - 1, 0, -1)],
    }[keeps]
    kept: dict[int, str] = {}
    room -= 10
    for index in order:
        size = estimate(items[index]) + 1
        if size > room:
            if room > _SMALLEST and not kept:
                kept[index] = f"{items[index][: room * 3].rstrip()} … (the rest is cut)"
            break
        kept[index] = items[index]
        room -= size
    lines: list[str] = []
    before = -1
    for index in [*sorted(kept), last + 1]:
        if index > before + 1:
            lines.append(f"- ({index - before - 1} more here, left out)")
        lines += [kept[index]] if index in kept else []
        before = index
    return "\n".join(lines) if kept else ""


def _sections(baton: str) -> dict[str, list[str]]:
    """The parts of a baton by their headings; one in it that was handed on before is a part too."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in baton.splitlines():
        if line.startswith(("## ", "### ", "#### ")):
            name = line.lstrip("# ")
            found.setdefault(name, [])
        elif line.strip():
            found.setdefault(name, []).append(line)
    return found


def _opening(facts: HistoryFacts, origin: Origin) -> str:
    told = [
        f"You take over in {origin.folder}. A program took these facts from that session's own record; nothing is guessed."
    ]
    about = [
        f"model {facts.model}" if facts.model else "",
        f"{facts.tokens:,} tokens" if facts.tokens else "",
        f"${facts.cost:.2f}" if facts.cost else "",
    ]
    known = ", ".join(one for one in about if one)
    when = f"It worked from {stamp(facts.began)} to {stamp(facts.at)}" if facts.at else ""
    told += [f"{when}{' (' + known + ')' if known else ''}." if when else ""]
    told += [f"It ended so: {one_line(facts.ended)}." if facts.ended else ""]
    told += ["Do not begin again: look at what is there, then do the next action. Times are UTC."]
    return "\n".join(one for one in told if one)


def _instructions(facts: HistoryFacts) -> list[str]:
    shown = []
    for number, said in enumerate(facts.instructions, 1):
        when = ", ".join(one for one in (_time(said.at), "said while it worked" if said.how else "") if one)
        text = said.text.replace("\n", "\n   ")
        shown.append(f"{number}. {f'({when}) ' if when else ''}{text}")
    return shown


def _next(facts: HistoryFacts) -> list[str]:
    """What is open decides: a call without an end, what the person asked last, then what the session itself meant to do."""
    items = [f"- It was in the middle of: {one_line(call)}" for call in facts.open_calls[-3:]]
    last = facts.instructions[-1] if facts.instructions else None
    planned = facts.next_action
    if planned is not None and (last is None or planned.at >= last.at):
        items.append(f"- {_said('The session said', planned)}")
    elif last is not None:
        items.append(f"- {_said('The person asked last', last)}")
        if planned is not None:
            items.append(f"- {_said('Before that the session said', planned)}")
    items += [f"- Open in the plan: {step.text}" for step in facts.todo if step.state in (form.DOING, form.PENDING)][:3]
    items += [f"- Make green: `{one_line(run.command)[:_LINE]}`" for run in facts.red[-2:]]
    return items


def _said(who: str, said: Utterance) -> str:
    return f"{who}{f' ({_time(said.at)})' if said.at else ''}: {one_line(said.text)[:_LINE]}"


def _red(run: CommandRun) -> str:
    failing = f"; failing: {', '.join(run.failing)}" if run.failing else ""
    return f"- {_result(run)}{failing}\n{fenced(run.tail[-_TAIL:])}" if run.tail else f"- {_result(run)}{failing}"


def _run(run: CommandRun) -> str:
    last = run.tail.strip().splitlines()[-1][:120] if run.tail.strip() else ""
    return f"- {_result(run)}" + (f": {last}" if last else "")


def _result(run: CommandRun) -> str:
    times = f"{run.times} runs" if run.times > 1 else ""
    more = ", ".join(filter(None, (_time(run.at) if run.at else "", times)))
    return f"`{one_line(run.command)[:_LINE]}` {run.verdict}" + (f" ({more})" if more else "")


def _dated(said: Utterance) -> str:
    return f"- {f'({_time(said.at)}) ' if said.at else ''}{one_line(said.text)}"


def _limits(facts: HistoryFacts, origin: Origin) -> list[str]:
    rows = sum(count for _, count in facts.unread)
    kinds = ", ".join(name for name, _ in facts.unread[:5])
    found = [
        *origin.limits,
        f"{number_of(rows, 'row')} of the record {'were' if rows > 1 else 'was'} not understood: {kinds}."
        if rows
        else "",
        f"{number_of(facts.left_out, 'instruction')} did not fit." if facts.left_out else "",
        f"The client shortened the conversation {number_of(facts.compactions, 'time')}." if facts.compactions else "",
        f"Sub-agents worked for it: {', '.join(facts.agents[-5:])}." if facts.agents else "",
        "Results are those of that session: run a check again before you rely on it. Secrets were taken out.",
        f"More of it: {origin.more}" if origin.more else "",
    ]
    return [one for one in found if one]


def _time(at: float) -> str:
    return stamp(at)[:16].replace("T", " ") if at else ""


def _short(path: str, folder: str) -> str:
    return os.path.relpath(path, folder) if os.path.isabs(path) and path.startswith(folder + os.sep) else path


# --- which session, and how the next agent is started with its text --------------------------------------------------

_WORTH_READING = 10_000
"""Bytes of a record in which a person must have said something."""
_SHOWN = 30


class TakenSession(Record):
    """A session, what is known of it, and the text that hands it on."""

    session: StoredSession
    facts: HistoryFacts
    text: str
    warnings: tuple[str, ...] = ()


class Start(Record):
    """How the next agent is started."""

    agent: str
    title: str
    argv: list[str]
    native: bool
    """It goes on with its own session: nothing leaves for somebody else."""


def sessions_here(app: App, *, client: str = "", words: bool = True) -> list[StoredSession]:
    """The sessions of this folder over all clients, newest first; where it has none, those of the repository's top folder."""
    clients = (client,) if client else ()
    for folder in dict.fromkeys((app.settings.here, find_top(app.settings.here) or app.settings.here)):
        found = stored_sessions(folder, app.settings.environment, clients=clients)
        if found:
            return looked_at(found, now=app.clock.now(), words=words)
    return []


def choose(app: App, *, what: str) -> StoredSession:
    """The session that is meant: the newest here, the newest of a client, or one by its id or the beginning of it."""
    program = app.settings.program
    client = what if what in STORES else ""
    found = sessions_here(app, client=client, words=False)
    if what and not client:
        found = [one for one in found if one.id.startswith(what)]
        if len({(one.client, one.id) for one in found}) > 1:
            names = ", ".join(f"{one.client} {one.id}" for one in found[:5])
            raise UsageError(f"'{what}' is the beginning of several sessions: {names}.", "Write more of the id.")
    found = [one for one in found if one.state != COPY] or found
    if not found and what and not client:
        raise UserError(
            f"No client has a session '{what}' for this folder.",
            f"See them: {program} session list --clients. For a task of handoff's: {program} show {what}",
        )
    if not found:
        whose = BY_HAND[client].title if client else "No client"
        said = f"{whose} has no session of this folder" if client else "No client has a session of this folder"
        raise UserError(
            f"{said} ({os.path.realpath(app.settings.here)}).", "Go to the folder in which it worked, then try again."
        )
    return found[0]


def take(app: App, *, what: str = "", tokens: int = TOKENS) -> TakenSession:
    """Read a session and make the text that hands it on; the git state is asked for now."""
    session = choose(app, what=what)
    refuse_unfit(session)
    size = os.path.getsize(session.path)
    known = facts_of(read_entries(session), secrets=secret_values(app.settings.environment))
    if not (known.instructions or known.handed) and size > _WORTH_READING and session.client != "opencode":
        raise UserError(
            f"{session.path} ({size:,} bytes) holds nothing that a person said, as far as handoff can read it;"
            f" {number_of(sum(count for _, count in known.unread), 'row')} not understood.",
            f"Go on in {BY_HAND[session.client].title} itself, or take another: {app.settings.program} session list --clients",
        )
    warnings = []
    if session.state == ALIVE or os.path.getsize(session.path) != size:
        warnings.append(
            f"{BY_HAND[session.client].title} is still at work on this session: what it does from now on is not in the text."
        )
    if known.unread:
        rows = sum(count for _, count in known.unread)
        warnings.append(
            f"{number_of(rows, 'row')} of {session.path} not understood and left out: {', '.join(name for name, _ in known.unread[:5])}."
        )
    text = handover(known, _origin(app, session, known, warnings), tokens=tokens)
    return TakenSession(session, known, text, tuple(warnings))


def _origin(app: App, session: StoredSession, known: HistoryFacts, warnings: list[str]) -> Origin:
    title = BY_HAND[session.client].title
    return Origin(
        title=f"{title}, session {session.id}",
        folder=session.folder,
        home=app.settings.home,
        standing=tuple(_standing(app, session.folder, known)),
        limits=tuple(warnings[:1]) if session.state == ALIVE else (),
        more=f"{app.settings.program} take {session.id[:13]} --budget 8000" if known.instructions else "",
    )


def _standing(app: App, folder: str, known: HistoryFacts) -> list[str]:
    """Branch, commits and what is not committed, as git says at this moment."""
    found = checkout.facts(folder, environment=app.git_environment) if find_top(folder) else None
    if found is None:
        return ["The folder is no git repository: nothing but the files themselves says what has changed."]
    lines = [
        f"Branch {found.branch or '(none)'} at {found.short or '(no commit)'}"
        + (f"; the session was on {known.branch}" if known.branch not in ("", found.branch) else "")
    ]
    base = known.base or _newest_before(app, folder, known.began)
    if base and base != found.head:
        new = checkout.count(folder, f"{base}..HEAD", environment=app.git_environment)
        lines.append(
            f"The session began at {base[:10]}" + (f"; {number_of(new, 'commit')} since" if new is not None else "")
        )
    if not found.dirty:
        return [*lines, "Everything is committed."]
    rows = [f"{_how(found, path)} {path}" for path in found.dirty]
    more = f", and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else ""
    return [*lines, f"Not committed: {'; '.join(rows[:_SHOWN])}{more}"]


def _newest_before(app: App, folder: str, began: float) -> str:
    """The commit that was there when a session began of which the client kept none; empty where the record has no times."""
    words = ("rev-list", "-1", f"--min-age={int(began) - 1}", "HEAD", "--")
    answer = checkout.git(folder, *words, environment=app.git_environment) if began else None
    return answer.text.strip() if answer is not None and answer.code == 0 else ""


def _how(found: checkout.CheckoutFacts, path: str) -> str:
    if path in found.conflicted:
        return "conflict in"
    return (
        "new" if path in found.untracked else "changed" if os.path.lexists(os.path.join(found.top, path)) else "deleted"
    )


def plan_start(app: App, taken: TakenSession, *, agent: str, words: tuple[str, ...], terminal: bool) -> Start:
    """The words that start an agent with the text; the same client goes on with its own session."""
    if agent not in BY_HAND:
        raise UsageError(f"There is no client '{agent}' to hand over to.", f"Use one of: {', '.join(BY_HAND)}.")
    hand, session = BY_HAND[agent], taken.session
    if find(hand.first[0], path=app.settings.path) is None:
        raise UserError(
            f"{hand.title} is not installed: no '{hand.first[0]}' on the PATH.",
            f"Install it, or print the text: {app.settings.program} take",
        )
    if agent != session.client:
        return Start(
            agent,
            hand.title,
            start_words(hand.first if terminal else hand.alone, prompt=taken.text, more=words),
            native=False,
        )
    if session.state == ALIVE:
        raise Conflict(
            f"{hand.title} is still at work on session {session.id}: a second one would go on beside it, each blind to the other.",
            "End it there first, or hand it to another client.",
        )
    return Start(agent, hand.title, start_words(hand.again, session=session.id, more=words), native=True)


def contents(taken: TakenSession) -> str:
    """What the text holds, in one line for the person who lets it leave."""
    known = taken.facts
    counted = (
        (len(known.instructions), "instruction"), (len(known.rules), "rule"), (len(known.files), "file"), (len(known.runs), "command"),
        (len(known.red), "red result"), (len(known.dead_ends), "dead end"), (len(known.statements), "statement"),
    )  # fmt: skip
    return ", ".join(number_of(count, noun) for count, noun in counted if count)


def list_row(session: StoredSession, *, now: float) -> dict[str, object]:
    """A session as a row of the list."""
    return {"client": session.client, "id": session.id, "age": age(now - session.at), "state": session.trouble or session.state, "words": session.words,
            "folder": session.folder, "path": session.path, "at": session.at}  # fmt: skip


# --- kept as a feature with its documents, or as a task with the text as its brief -----------------------------------

_STEP_BOXES = {"done": "[x]", "doing": "[>]", "dropped": "[-]"}


def keep(
    app: App,
    facts: HistoryFacts,
    text: str,
    *,
    feature: str,
    task: str,
    ask: Callable[[str], bool],
    warn: Callable[[str], None],
) -> Iterator[str]:
    """Write it down where it was asked for; each line says what was made."""
    if feature:
        yield from _as_feature(app, facts, text, feature, ask, warn)
    if task:
        made = create.write_down(app, create.project_of_caller(app), create.Request(task=task, brief=text))
        yield f"Task {made.label} is written down; take it with: {app.settings.program} task claim {made.label}"


def _as_feature(
    app: App, facts: HistoryFacts, text: str, name: str, ask: Callable[[str], bool], warn: Callable[[str], None]
) -> Iterator[str]:
    made = lifecycle.begin(app, name=name, force=False, ask=ask, warn=warn)
    if made.already:
        warn(f"the feature '{name}' was there already: its goal and plan stay, the session is added to its notes.")
    feature = Feature(made.name, made.path)
    if "FEATURE.md" in made.written and facts.instructions:
        asked = "\n\n".join(said.text for said in facts.instructions)
        rules = "\n".join(f"- {one_line(rule.text)}" for rule in facts.rules)
        files.write_atomic(
            feature.file("FEATURE.md"),
            f"# Feature: {name}\n\n## Goal\n{asked}\n" + (f"\n## Constraints\n{rules}\n" if rules else ""),
        )
    if "STATE.md" in made.written and facts.todo:
        steps = "\n".join(
            f"- {_STEP_BOXES.get(step.state, '[ ]')} {one_line(step.text)}"
            + (" (dropped: in the session)" if step.state == "dropped" else "")
            for step in facts.todo
        )
        files.write_atomic(feature.file("STATE.md"), f"# State\n\n# Execution Plan\n\n{steps}\n")
    for decision in facts.decisions:
        said, _, because = decision.text.partition(" because ")
        if because:
            plan_steps.decide(app, text=said, because=because)
    plan_steps.note(app, text=text)
    yield f"Feature {made.name} holds it: {made.path}; go on with: {app.settings.program} continue"
    if not made.active:
        yield f"The active feature is still '{made.before}'."
