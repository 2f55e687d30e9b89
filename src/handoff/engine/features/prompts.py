"""Hand a feature to the next session: choose the prompt, fill it with the state, remember when it was handed on."""

from __future__ import annotations

import os

from handoff.base import files
from handoff.base.clock import parse_stamp, stamp
from handoff.base.errors import HandoffError, UserError
from handoff.base.markdown import fenced
from handoff.base.record import TYPE_CHECKING, Record
from handoff.base.redaction import redact
from handoff.base.settings import PROJECT_FOLDER, Config, project_config
from handoff.engine.features import status
from handoff.feature import excerpts, folder, templates
from handoff.feature import plan as plans
from handoff.feature.baton import (
    END,
    GOAL,
    LIMITS,
    NEXT,
    PROOF,
    RULES,
    STATE,
    TRIED,
    Fitted,
    PromptPart,
    arrange,
    between_marks,
    block,
    estimate,
    head,
    listing,
    pin,
    rule_parts,
    tail,
)
from handoff.feature.excerpts import goal_part, rules_and_goal
from handoff.git.plumbing import checkout

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from handoff.engine.app import App
    from handoff.engine.features.status import Drift, View

_COMMITS = 15
_CHECKS = 5
_RECORDED = frozenset({"generate", "start", "continue"})
_CONTEXT_BYTES = 200_000
_HUGE_PLAN = 2000  # so many steps are never shown whole
_WORKING = ("start", "continue")
_MICRO = "Next Micro-Step"
_SESSION_FIRST = ("SESSION.md", "STATE.md", "FEATURE.md", "SPEC.md", "DESIGN.md")

_TITLES = {
    "generate": "Planning prompt",
    "start": "Start prompt",
    "continue": "Continuation prompt",
    "spec": "Spec prompt",
    "design": "Design prompt",
    "tasks": "Tasks prompt",
    "context": "Context prompt",
}
READ = {
    "generate": folder.DOCUMENTS,
    "start": _SESSION_FIRST,
    "continue": _SESSION_FIRST,
    "spec": ("FEATURE.md", "SPEC.md"),
    "design": ("FEATURE.md", "SPEC.md", "DESIGN.md"),
    "tasks": ("FEATURE.md", "SPEC.md", "DESIGN.md", "STATE.md"),
    "context": (),
}
_NEEDED = {"design": ("FEATURE.md", "SPEC.md"), "tasks": ("SPEC.md",)}


class Prompt(Record):
    """A prompt ready to be pasted, and what a person should know about it."""

    kind: str
    title: str
    text: str
    tokens: int
    focus: str
    left_out: tuple[str, ...]
    warnings: tuple[str, ...]


def for_run(app: App) -> str:
    """Which prompt fits where the feature stands; a state nothing can be continued from is refused."""
    view = status.look(app)
    status.refuse_scaffold(view, app.settings.program, "run")
    if view.plan.verdict == plans.EMPTY:
        status.refuse_lost_progress(view)
        return "generate"
    status.refuse_idle(view, app.settings.program)
    return "continue" if view.plan.done else "start"


def build(
    app: App,
    *,
    kind: str,
    tokens: int | None = None,
    embed: bool = True,
    record: bool = True,
    chat: bool = False,
    caller: tuple[str, str] = ("", ""),
) -> Prompt:
    """Make the prompt of one kind for the active feature, with its guards.

    `chat` is for a window that cannot run our commands; `caller` is the client whose hook asks, and its conversation.
    """
    warnings: list[str] = []
    git_facts = status.begin_git_facts(app)
    try:
        view = _guarded_look(app, kind)
    except HandoffError:
        git_facts()  # nobody else will wait for it
        raise
    warnings += view.plan.warnings if kind in _WORKING else ()
    facts = git_facts()
    moved = status.drift(app, view, facts, handing=True)
    order = _Order(kind, tokens or int(view.config.number("budget")), embed, chat, caller)
    prompt = _compose(app, view, order, facts, moved, warnings.append)
    if record and kind in _RECORDED:
        _remember(app, view, kind, facts)
    return prompt._replace(warnings=tuple(warnings + moved.words))


def _guarded_look(app: App, kind: str) -> View:
    """The feature, if it stands where a prompt of that kind can be made of it."""
    if kind == "continue":
        view = status.look(app)
        status.refuse_idle(view, app.settings.program)
        return view
    view = status.lenient_look(app, needed=_NEEDED.get(kind, ("FEATURE.md",)))
    if kind == "start" and view.plan.verdict != plans.EMPTY:
        status.refuse_idle(view, app.settings.program)
    elif kind == "start":
        status.refuse_scaffold(view, app.settings.program, kind)
    if kind in ("generate", "start"):
        status.refuse_lost_progress(view)
    return view


def prompt_of(kind: str, text: str, focus: str = "", left_out: tuple[str, ...] = ()) -> Prompt:
    """A finished text as a prompt."""
    text = between_marks(text)
    return Prompt(
        kind=kind,
        title=_TITLES[kind],
        text=text,
        tokens=estimate(text),
        focus=focus,
        left_out=left_out,
        warnings=(),
    )


class _Order(Record):
    """What is wanted of a prompt."""

    kind: str
    tokens: int
    embed: bool
    chat: bool
    caller: tuple[str, str] = ("", "")


def _compose(
    app: App,
    view: View,
    order: _Order,
    facts: checkout.CheckoutFacts | None,
    moved: Drift,
    warn: Callable[[str], None],
) -> Prompt:
    kind = order.kind
    values = values_for(app, view.workspace.root, view.feature, view.config, kind, view.readiness(), chat=order.chat)
    template = templates.load(f"default_{kind}_prompt.md", view.workspace, warn)
    frame = templates.render(template, {**values, templates.STATE_FIELD: ""}, warn)
    sections: dict[str, list[PromptPart]] = {}
    if kind in _WORKING and "{{workflow_instructions}}" not in template.text:
        sections = _orders(app, view, kind, values["read_files"], embed=order.embed, chat=order.chat)
    if order.embed:
        sections = _with_own_client(app, view, order, {**_parts(app, view, kind, facts, moved), **sections})
    room = order.tokens - estimate(frame) - 30
    fitted = arrange(sections, room)
    state, taken = redact(_state_block(fitted, view.folder, embed=order.embed))
    if taken:
        warn(f"{taken} value(s) that look like secrets were replaced by [redacted] in the prompt.")
    text = templates.render(template, {**values, templates.STATE_FIELD: state}, lambda _: None)
    if order.embed and estimate(text) > order.tokens + 100:
        warn(f"The budget of {order.tokens} tokens is too small for the state; the prompt has about {estimate(text)}.")
    return prompt_of(kind, text, _focus(view), fitted.left_out)


def _orders(app: App, view: View, kind: str, reading: str, *, embed: bool, chat: bool) -> dict[str, list[PromptPart]]:
    """What a working session is to do: the next action, how it is proven, what it must not do, how it ends."""
    where, program = view.folder, app.settings.program
    made = templates.planning_steps(where, view.readiness()) if kind == "start" else ""
    step, config = view.plan.current, view.config
    first = [f"Step {step.number} of {len(view.plan.marks)}: {step.text}"] if step is not None else []
    first += _left_to_do(view)
    proof = [f"The step is done when `{step.check}` is green."] if step is not None and step.check else []
    whole = config.text("check")
    found = "as the project's documents say" if chat else f"`{program} check` finds and runs it"
    proof.append(f"All tests: `{whole}`" if whole else f"All tests: {found}.")
    work = f"{templates.bullets(first, none='')}\n\n{templates.step_rules(where, program, chat=chat)}"
    return {
        NEXT: [
            pin("" if embed else f"Read, in this order:\n{reading}", "Read"),
            pin(made, "Part one: make what is missing"),
            pin(work.strip(), "Part two: carry the plan out" if made else ""),
        ],
        PROOF: [pin(templates.bullets(proof))],
        LIMITS: [
            pin(
                f"{templates.LIMITS}\n- Write the prose of the documents in {config.text('language')}; headings and boxes of "
                "STATE.md stay as they are."
            )
        ],
        END: [pin("Before you stop, for any reason:\n" + templates.stopping_rules(where, program, chat=chat))],
    }


def _left_to_do(view: View) -> list[str]:
    """What the last session meant to do next, as its document and its notes say; the newest word is the last."""
    text = view.texts["SESSION.md"] or ""
    planned = _planned(text)
    if planned:
        return [f"Noted {planned[-1][2:]}"]
    micro = folder.body_of(text, _MICRO).strip()
    return [f"The last session's next micro-step: {' '.join(micro.split())}"] if micro not in ("", "Unknown.") else []


def _planned(text: str) -> list[str]:
    """The notes that say what is next."""
    notes = [line for line in folder.body_of(text, "Notes").splitlines() if line.startswith("- ")]
    return [line for line in notes if ": next" in line.casefold()]


def _focus(view: View) -> str:
    return view.plan.current.text if view.plan.current else ""


def _state_block(fitted: Fitted, where: str, *, embed: bool) -> str:
    if not embed:
        return fitted.text
    told = (
        f"What did not fit is named near the end: read it there. The documents are in `{where}/`."
        if fitted.left_out
        else f"What follows is taken from `{where}/` and from git, enough to work without opening them."
    )
    return f"{told}\n\n{fitted.text}"


def values_for(
    app: App,
    root: str,
    feature: folder.Feature,
    config: Config,
    kind: str,
    readiness: dict[str, str],
    *,
    chat: bool = False,
) -> dict[str, str]:
    """What the placeholders of a prompt stand for."""
    where, language = os.path.relpath(feature.path, root), config.text("language")
    wanted, nice = templates.missing_sources(root)
    present = templates.bullets(templates.present_sources(root))
    gaps = templates.bullets([*wanted, *(f"{name} (optional)" for name in nice)])
    reading, extra = _worth_reading(kind, readiness), config.texts("context_files")
    return {
        "feature_name": feature.name,
        "feature_folder": where,
        "language_instruction": (templates.repository_language if kind == "context" else templates.language)(language),
        "context_sources": present,
        "context_gaps": gaps,
        "existing_context_sources": present,
        "missing_context_sources": gaps,
        "read_files": templates.reading_list(root, feature, reading, extra),
        "artifact_status": templates.artifact_status(readiness),
        "planning_mode": templates.start_mode(readiness),
        "workflow_instructions": _instructions(kind, where, app.settings.program, readiness, chat=chat),
    }


def _instructions(kind: str, where: str, program: str, readiness: dict[str, str], *, chat: bool) -> str:
    if kind == "start":
        return templates.starting_rules(where, program, readiness, chat=chat)
    return templates.working_rules(where, program, chat=chat) if kind == "continue" else templates.planning_rules()


def _worth_reading(kind: str, readiness: dict[str, str]) -> tuple[str, ...]:
    """The documents of a reading list; a working session is not sent to empty scaffolds."""
    if kind not in _WORKING:
        return READ[kind]
    return tuple(name for name in READ[kind] if readiness.get(name) not in (folder.SCAFFOLD, folder.MISSING))


def _parts(
    app: App, view: View, kind: str, facts: checkout.CheckoutFacts | None, moved: Drift
) -> dict[str, list[PromptPart]]:
    """Everything a session may want to know, in the order of every baton, with what matters most first in line for room.

    A part without text is left out where the parts are fitted.
    """
    where, plan = view.folder, view.plan
    git_parts = _begin_git_parts(app, facts, moved)
    others = status.at_work(app)
    feature, session = view.texts["FEATURE.md"] or "", view.texts["SESSION.md"] or ""
    decisions = folder.optional_document(view.feature, "DECISIONS.md") or ""
    rules, goal = rules_and_goal(feature, session, decisions)
    project = status.project_of(app)
    return {
        RULES: rule_parts(app.settings.home, project, view.workspace.root, rules),
        GOAL: [
            goal_part(goal, f"{where}/FEATURE.md"),
            *(
                _document(view, name[:-3].capitalize(), name, priority, 0.6, _focus(view))
                for name, priority in (("SPEC.md", 7), ("DESIGN.md", 8))
                if folder.readiness(name, view.texts[name]) == folder.READY
            ),
        ],
        STATE: [
            *([_plan(view)] if plan.marks and kind not in ("spec", "design") else []),
            *git_parts(),
            _listing("Last checks", _check_lines(app, view, facts), priority=3, path=f"{where}/{folder.LOG_FILE}"),
            block("What the last check said", _red_check(view), 3, f"{where}/{folder.LOG_FILE}"),
            _listing("Others at work here", others, priority=5),
            _listing("Known risks", plan.risks, priority=6, path=f"{where}/STATE.md"),
            block(
                "Other notes in STATE.md",
                excerpts.state_notes(view.texts["STATE.md"] or ""),
                6,
                f"{where}/STATE.md",
                0.3,
            ),
            *_context_parts(view),
        ],
        TRIED: [_last_notes(view), *_earlier(app, view, project)],
    }


def _with_own_client(
    app: App, view: View, order: _Order, sections: dict[str, list[PromptPart]]
) -> dict[str, list[PromptPart]]:
    """The sections with what the person and their own client said in the conversation before this one."""
    begun = parse_stamp(str(view.entries[0].get("time"))) if view.entries and order.kind in _WORKING else None
    if begun is None:  # nobody has worked on it yet
        return sections
    from handoff.agents.history.stores.table import stores_here

    if not stores_here(view.workspace.root, app.settings.environment):
        return sections
    from handoff.engine.features import recall

    about = f"features/{os.path.basename(view.feature.path)}"
    client, session = order.caller
    past = recall.last_conversation(
        app, folder=view.workspace.root, since=begun, about=about, client=client, session=session
    )
    if past is None:
        return sections
    from handoff.engine.features import attempts

    checked = folder.last_logged(view.entries, "check") or {}
    return attempts.with_conversation(sections, past, checked=parse_stamp(str(checked.get("time"))) or 0.0)


def _earlier(app: App, view: View, project: str) -> list[PromptPart]:
    """What sessions did that had a step of this feature as their task."""
    steps = status.tasks_of(app, project, os.path.basename(view.feature.path)) if project else []
    if not steps:  # reading what sessions did loads more than the whole rest of a baton
        return []
    from handoff.engine.features import attempts

    return attempts.of_steps(app, steps)


def _plan(view: View) -> PromptPart:
    plan = view.plan
    huge = len(plan.marks) >= _HUGE_PLAN
    return PromptPart(
        title=f"Plan ({plan.done} of {len(plan.marks)} done)",
        text=excerpts.plan_window(plan, _HUGE_PLAN) if huge else excerpts.plan_text(plan),
        priority=2,
        path=f"{view.folder}/STATE.md",
        share=0.5,
        shrink=None if huge else lambda room: excerpts.plan_window(plan, room),
    )


def _last_notes(view: View) -> PromptPart:
    """What the last session left: its document, or what `note` wrote into the scaffold."""
    title, text = f"Last session's notes{_changed(view)}", _without_told(view.texts["SESSION.md"])
    if folder.readiness("SESSION.md", text) == folder.READY:
        return block(title, folder.nested(text or ""), 4, f"{view.folder}/SESSION.md", 0.5)
    notes = folder.body_of(text or "", "Notes")
    part = block(title, notes, 4, f"{view.folder}/SESSION.md", 0.5)
    return part._replace(shrink=lambda room: tail(notes, room))  # it is appended to: where it is cut, its end stays


def _without_told(text: str | None) -> str | None:
    """The document without what stands among the rules or as the next action already."""
    if not text:
        return text
    told = set(_planned(text)[-1:])
    kept = "\n".join(line for line in text.split("\n") if ": Rule: " not in line and line not in told)
    micro = folder.body_of(text, _MICRO).strip()
    return kept.replace(micro, "", 1) if micro and not told else kept


def _changed(view: View) -> str:
    """When SESSION.md was written: what is older than the files is read with that in mind."""
    try:
        return f", written {stamp(os.stat(view.feature.file('SESSION.md')).st_mtime)}"
    except OSError:
        return ""


def _document(view: View, title: str, name: str, priority: int, share: float, about: str = "") -> PromptPart:
    text, path = folder.nested(view.texts[name] or ""), f"{view.folder}/{name}"
    part = block(title, text, priority, path, share)
    return part._replace(shrink=lambda room: excerpts.relevant(text, about, room, path)) if about else part


def _listing(title: str, items: Sequence[str], *, priority: int, path: str = "") -> PromptPart:
    return block(title, templates.bullets(list(items), none=""), priority, path, 0.3)


def _begin_git_parts(app: App, facts: checkout.CheckoutFacts | None, moved: Drift) -> Callable[[], list[PromptPart]]:
    """What git says, asked while the rest is put together."""
    if facts is None:
        return list
    counts = checkout.begin_line_counts(facts, environment=app.git_environment)
    since = moved.since if moved.since and moved.since.get("head") and moved.commits else None
    revisions, limit = (f"{since['head']}..HEAD", _COMMITS) if since else ("HEAD", 5)
    log = (
        checkout.begin_commits(facts.top, revisions, environment=app.git_environment, limit=limit)
        if facts.head
        else tuple
    )

    changed = checkout.begin_diff(facts, environment=app.git_environment)

    def answer() -> list[PromptPart]:
        gone = [path for path in facts.dirty if not os.path.lexists(os.path.join(facts.top, path))]
        lines = [f"HEAD {facts.short or '(no commit yet)'} on {facts.branch or 'a detached HEAD'}"]
        lines += excerpts.change_lines(
            {
                "in conflict": facts.conflicted,
                "staged": [path for path in facts.staged if path not in gone],
                "changed, not staged": [path for path in facts.unstaged if path not in gone],
                "deleted": gone,
                "untracked": facts.untracked,
            },
            counts(),
        )
        lines += moved.words
        state = _listing("Git", lines, priority=3, path="git status")
        title = f"Commits since the last hand-off at {since['head'][:10]}" if since else "Last commits"
        found = [f"{commit.sha[:10]} {commit.subject}" for commit in log() or ()]
        diff = changed() if changed is not None else ""
        return [
            state._replace(shrink=lambda room: listing(lines, room)),
            _listing(title, found, priority=5, path="git log"),
            block(
                "The diff of what is not committed", fenced(diff, "diff") if diff else "", 7, "git diff HEAD", 0.25
            )._replace(shrink=lambda room: fenced(head(diff, room - 5, "git diff HEAD"), "diff")),
        ]

    return answer


def _check_lines(app: App, view: View, facts: checkout.CheckoutFacts | None) -> list[str]:
    found = [entry for entry in view.entries if entry["kind"] == "check"][-_CHECKS:]
    if not found:
        return []
    from handoff.engine.features import tree_marks

    return tree_marks.verdict_lines(app, view, found, facts)


def _red_check(view: View) -> str:
    """What the newest check said, if it was red."""
    found = [entry for entry in view.entries if entry["kind"] == "check"]
    if not found or found[-1].get("verdict") == "green" or not found[-1].get("tail"):
        return ""
    from handoff.engine.features.attempts import check_words

    return check_words(found[-1])


def _context_parts(view: View) -> list[PromptPart]:
    parts = []
    for name in view.config.texts("context_files"):
        path = os.path.join(view.workspace.root, name)
        if not _is_inside(view.workspace.root, path):
            fault = f"{view.workspace.config}: context_files names '{name}', which is not in the repository."
            raise UserError(fault, "Take it out of the list: prompts quote files of the repository alone.")
        if os.path.isfile(path) and os.path.getsize(path) <= _CONTEXT_BYTES:
            text = files.read_text(path).strip()
            parts.append(block(f"File {name}", text, 9, name))
        elif not os.path.isfile(path):
            fault = f"{view.workspace.config}: context_files names '{name}', which is not there."
            raise UserError(fault, "Fix the list.")
    return parts


def _is_inside(root: str, path: str) -> bool:
    """Whether a path is below a folder, wherever links on the way lead."""
    real = os.path.realpath(path)
    return real.startswith(os.path.join(os.path.realpath(root), ""))


def _remember(app: App, view: View, kind: str, facts: checkout.CheckoutFacts | None) -> None:
    newest = view.entries[-1] if view.entries else None
    if newest is not None and newest.get("prompt") == kind and status.is_same_handoff(newest, view, facts):
        return  # the same hand-off printed again is not a new one
    entry = {"kind": "handoff", "time": stamp(app.clock.now()), "prompt": kind, "step": _focus(view)}
    folder.append_log(view.feature, {**entry, **status.picture(view, facts)})


def plain(app: App, *, kind: str) -> Prompt:
    """The prompt of one kind; what it says about the documents is true, whatever they are."""
    warnings: list[str] = []
    workspace = status.workspace_of(app)
    root = workspace.root if workspace else app.settings.here
    name = app.settings.feature
    path = os.path.join(root, PROJECT_FOLDER, "current")
    if workspace is not None:
        target = os.path.join(workspace.features, name) if name else folder.link_target(workspace)
        if target and os.path.isdir(target):
            name, path = os.path.basename(target), target
    feature = folder.Feature(name or "current", path)
    there = workspace is not None and os.path.isdir(path)
    readiness = dict.fromkeys(folder.DOCUMENTS, folder.MISSING)
    if workspace is not None and there:
        readiness = status.half_made(workspace, feature).readiness()
    values = values_for(app, root, feature, project_config(root), kind, readiness)
    if not there:
        values["read_files"] = templates.bullets([f"`{PROJECT_FOLDER}/current/{doc}`" for doc in READ[kind]])
    template = templates.load(f"default_{kind}_prompt.md", workspace, warnings.append)
    state = ""
    if kind in _WORKING and "{{workflow_instructions}}" not in template.text:  # nothing is looked at: read, then work
        state = f"## Read, in this order\n{values['read_files']}\n\n## Work\n{values['workflow_instructions']}"
    text = templates.render(template, {**values, templates.STATE_FIELD: state}, warnings.append)
    return prompt_of(kind, text)._replace(warnings=tuple(warnings))
