"""Hand a feature to the next session: choose the prompt, fill it with the state, remember when it was handed on."""

from __future__ import annotations

import os

from handoff.base import files
from handoff.base.clock import stamp
from handoff.base.errors import Refused, UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.base.settings import PROJECT_FOLDER, project_config
from handoff.engine.features import teammates
from handoff.engine.features.status import (
    Drift,
    View,
    active_feature,
    drift,
    git_facts,
    is_same_handoff,
    look,
    picture,
    workspace_of,
)
from handoff.feature import budget, documents, excerpts, folder, history, templates, words
from handoff.feature.budget import PromptPart
from handoff.feature.plan import plan as plans
from handoff.feature.redaction import redact
from handoff.git.plumbing import checkout

if TYPE_CHECKING:
    from collections.abc import Callable

    from handoff.engine.app import App

_COMMITS = 15
_CHECKS = 5
_RECORDED = frozenset({"generate", "start", "continue"})
_CONTEXT_BYTES = 200_000
_REQUESTS = ("Requirements", "Tech Constraints", "Deliverables", "Acceptance Criteria", "Non-Goals", "Constraints")

_TITLES = {
    "generate": "Planning prompt",
    "start": "Start prompt",
    "continue": "Continuation prompt",
    "spec": "Spec prompt",
    "design": "Design prompt",
    "tasks": "Tasks prompt",
    "context": "Context prompt",
}
_READ = {
    "generate": folder.DOCUMENTS,
    "start": ("SESSION.md", "STATE.md", "FEATURE.md", "SPEC.md", "DESIGN.md"),
    "continue": ("SESSION.md", "STATE.md", "FEATURE.md", "SPEC.md", "DESIGN.md"),
    "spec": ("FEATURE.md", "SPEC.md"),
    "design": ("FEATURE.md", "SPEC.md", "DESIGN.md"),
    "tasks": ("FEATURE.md", "SPEC.md", "DESIGN.md", "STATE.md"),
    "context": (),
}


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
    view = look(app)
    _refuse_scaffold(view, app.settings.program)
    if view.plan.verdict == plans.EMPTY:
        _refuse_lost_progress(view)
        return "generate"
    _guard(view, app.settings.program)
    return "continue" if view.plan.done else "start"


def build(app: App, *, kind: str, tokens: int | None = None, embed: bool = True, record: bool = True) -> Prompt:
    """Make the prompt of one kind for the active feature, with its guards."""
    program = app.settings.program
    if kind in ("start", "continue"):
        view = look(app)
        _guard(view, program)
    else:
        view = _lenient_look(
            app, needed={"design": ("FEATURE.md", "SPEC.md"), "tasks": ("SPEC.md",)}.get(kind, ("FEATURE.md",))
        )
        if kind == "generate":
            _refuse_lost_progress(view)
    facts = git_facts(app)
    moved = drift(app, view, facts, handing=True)
    warnings: list[str] = list(view.plan.warnings) if kind in ("start", "continue") else []
    prompt = _compose(app, view, kind, facts, moved, tokens, embed, warnings.append)
    if record and kind in _RECORDED:
        _remember(app, view, kind, facts)
    return prompt._replace(warnings=tuple(warnings + moved.words))


def raw(app: App, *, kind: str) -> Prompt:
    """Any prompt without guards and without state, also where no workspace is."""
    warnings: list[str] = []
    workspace = workspace_of(app)
    root = workspace.root if workspace else app.settings.here
    config = project_config(root)
    name = app.settings.feature
    path = os.path.join(root, PROJECT_FOLDER, "current")
    if workspace is not None:
        target = os.path.join(workspace.features, name) if name else folder.link_target(workspace)
        if target and os.path.isdir(target):
            name, path = os.path.basename(target), target
    feature = folder.Feature(name or "current", path)
    values = _values(
        root, feature, config.text("language"), kind, {}, config.texts("context_files"), app.settings.program
    )
    if not os.path.isdir(path):
        values["read_files"] = words.bullets([f"`{PROJECT_FOLDER}/current/{doc}`" for doc in _READ[kind]])
    template = templates.load(f"default_{kind}_prompt.md", workspace, warnings.append)
    text = templates.render(template, {**values, templates.STATE_FIELD: ""}).rstrip() + "\n"
    return Prompt(
        kind=kind,
        title=_TITLES[kind],
        text=text,
        tokens=budget.estimate(text),
        focus="",
        left_out=(),
        warnings=tuple(warnings),
    )


def _compose(
    app: App,
    view: View,
    kind: str,
    facts: checkout.CheckoutFacts | None,
    moved: Drift,
    tokens: int | None,
    embed: bool,
    warn: Callable[[str], None],
) -> Prompt:
    readiness = view.readiness()
    values = _values(
        view.workspace.root,
        view.feature,
        view.config.text("language"),
        kind,
        readiness,
        view.config.texts("context_files"),
        app.settings.program,
    )
    template = templates.load(f"default_{kind}_prompt.md", view.workspace, warn)
    frame = templates.render(template, {**values, templates.STATE_FIELD: ""})
    left_out: tuple[str, ...] = ()
    text = frame
    if embed:
        limit = tokens or int(view.config.number("budget"))
        room = limit - budget.estimate(frame) - 30
        fitted = budget.fit(_parts(app, view, kind, facts, moved), room)
        left_out = fitted.left_out
        state, taken = redact(_state_block(fitted, view.folder))
        if taken:
            warn(f"{taken} value(s) that look like secrets were replaced by [redacted] in the prompt.")
        text = templates.render(template, {**values, templates.STATE_FIELD: state})
        if room < 0:
            warn(
                f"The budget of {limit} tokens is too small for the state; the prompt has about {budget.estimate(text)}."
            )
    focus = view.plan.current.text if view.plan.current else ""
    text = text.rstrip() + "\n"
    return Prompt(
        kind=kind,
        title=_TITLES[kind],
        text=text,
        tokens=budget.estimate(text),
        focus=focus,
        left_out=left_out,
        warnings=(),
    )


def _state_block(fitted: budget.Fitted, where: str) -> str:
    if not fitted.text:
        return f"# Where things stand\nRead the documents in `{where}/`; none of them fits into this prompt's budget."
    parts = [
        f"# Where things stand\nTaken from the files of `{where}/` and from git; enough to work without opening them."
    ]
    parts.append(fitted.text)
    if fitted.left_out:
        parts.append("## Not in this prompt\n" + words.bullets(list(fitted.left_out)))
    return "\n\n".join(parts)


def _values(
    root: str,
    feature: folder.Feature,
    language: str,
    kind: str,
    readiness: dict[str, str],
    extra: list[str],
    program: str,
) -> dict[str, str]:
    where = os.path.relpath(feature.path, root)
    wanted, nice = words.missing_sources(root)
    present = words.bullets(words.present_sources(root))
    gaps = words.bullets([*wanted, *(f"{name} (optional)" for name in nice)])
    working = kind in ("start", "continue")
    return {
        "feature_name": feature.name,
        "feature_folder": where,
        "language_instruction": (words.repository_language if kind == "context" else words.language)(language),
        "context_sources": present,
        "context_gaps": gaps,
        "existing_context_sources": present,
        "missing_context_sources": gaps,
        "read_files": words.reading_list(root, feature, _worth_reading(kind, readiness), extra),
        "artifact_status": words.artifact_status(readiness) if readiness else "- not looked at",
        "planning_mode": "Carry the plan out as it is. Plan again only where it contradicts the code, and say so first.",
        "workflow_instructions": words.working_rules(where, program) if working else words.planning_rules(),
    }


def _worth_reading(kind: str, readiness: dict[str, str]) -> tuple[str, ...]:
    """The documents of a reading list; a working session is not sent to empty scaffolds."""
    if kind not in ("start", "continue"):
        return _READ[kind]
    return tuple(name for name in _READ[kind] if readiness.get(name) not in (documents.SCAFFOLD, documents.MISSING))


def _parts(app: App, view: View, kind: str, facts: checkout.CheckoutFacts | None, moved: Drift) -> list[PromptPart]:
    """Everything a session may want to know, in reading order, with what matters most first in line for room."""
    where, plan = view.folder, view.plan
    about = plan.current.text if plan.current else ""
    parts = [_goal(view)]
    if plan.marks and kind not in ("spec", "design"):
        left = f"{plan.done} of {len(plan.marks)} done"
        parts.append(
            PromptPart(
                title=f"Plan ({left})",
                text=excerpts.plan_text(plan),
                priority=2,
                path=f"{where}/STATE.md",
                share=0.5,
                shrink=lambda n: excerpts.plan_window(plan, n),
            )
            if len(plan.marks) < 2000  # noqa: PLR2004 - a huge plan is never shown whole
            else PromptPart(
                title=f"Plan ({left})",
                text=excerpts.plan_window(plan, 2000),
                priority=2,
                path=f"{where}/STATE.md",
                share=0.5,
                shrink=None,
            )
        )
    if documents.readiness("SESSION.md", view.texts["SESSION.md"]) == documents.READY:
        parts.append(_document(view, "Last session's notes", "SESSION.md", 4, 0.5))
    elif notes := documents.body_of(view.texts["SESSION.md"] or "", "Notes"):  # written by `note` into the scaffold
        parts.append(
            PromptPart(
                title="Last session's notes",
                text=notes,
                priority=4,
                path=f"{where}/SESSION.md",
                share=0.5,
                shrink=lambda n: _tail(notes, n),
            )
        )
    decisions = folder.optional_document(view.feature, "DECISIONS.md")
    if decisions:
        decisions = documents.nested(decisions)
        parts.append(
            PromptPart(
                title="Decisions",
                text=decisions,
                priority=6,
                path=f"{where}/DECISIONS.md",
                share=0.4,
                shrink=lambda n: _tail(decisions, n),
            )
        )
    parts += [
        _document(view, f"{name[:-3].capitalize()}", name, priority, 0.6, about)
        for name, priority in (("SPEC.md", 7), ("DESIGN.md", 8))
        if documents.readiness(name, view.texts[name]) == documents.READY
    ]
    if plan.risks:
        parts.append(
            PromptPart(
                title="Known risks",
                text=words.bullets(list(plan.risks)),
                priority=6,
                path=f"{where}/STATE.md",
                share=0.3,
            )
        )
    parts += _git_parts(app, facts, moved)
    at_work = teammates.at_work(app, view.workspace.root)
    if at_work:
        parts.append(
            PromptPart(title="Others at work here", text=words.bullets(at_work), priority=5, path="", share=0.3)
        )
    checks = _check_lines(view)
    if checks:
        parts.append(
            PromptPart(
                title="Last checks", text=words.bullets(checks), priority=5, path=f"{where}/{history.FILE}", share=0.3
            )
        )
    return parts + _context_parts(view)


def _goal(view: View) -> PromptPart:
    """What the person wants, without the scaffold's example lines."""
    scaffold = set(templates.packaged_template("default_feature.md").splitlines())
    text = view.texts["FEATURE.md"] or ""
    parts = [documents.body_of(text, "Goal") or text.strip()]
    for section in documents.sections(text):
        own = [line for line in section.text.splitlines() if line not in scaffold]
        if section.title in _REQUESTS and any(map(str.strip, own)):
            parts.append(f"### {section.title}\n" + "\n".join(own).strip())
    whole = "\n\n".join(parts)
    path = f"{view.folder}/FEATURE.md"
    return PromptPart(
        title="Goal", text=whole, priority=1, path=path, share=0.35, shrink=lambda n: budget.head(whole, n, path)
    )


def _document(view: View, title: str, name: str, priority: int, share: float, about: str = "") -> PromptPart:
    text = documents.nested(view.texts[name] or "")
    path = f"{view.folder}/{name}"
    if about:
        return PromptPart(
            title=title,
            text=text,
            priority=priority,
            path=path,
            share=share,
            shrink=lambda n: excerpts.relevant(text, about, n, path),
        )
    return PromptPart(title=title, text=text, priority=priority, path=path, share=share)


def _tail(text: str, tokens: int) -> str:
    """The newest lines that fit: decisions are appended, so the end matters."""
    lines = text.strip().split("\n")
    kept: list[str] = []
    room = tokens - 12
    for line in reversed(lines):
        room -= budget.estimate(line) + 1
        if room < 0:
            break
        kept.insert(0, line)
    return "\n".join(["[older ones cut]", *kept]) if kept else ""


def _git_parts(app: App, facts: checkout.CheckoutFacts | None, moved: Drift) -> list[PromptPart]:
    if facts is None:
        return []
    lines = [f"HEAD {facts.short or '(no commit yet)'} on {facts.branch or 'a detached HEAD'}"]
    for label, paths in (
        ("in conflict", facts.conflicted),
        ("staged", facts.staged),
        ("changed, not staged", facts.unstaged),
        ("untracked", facts.untracked),
    ):
        lines += [f"{label}: {path}" for path in paths]
    if not facts.dirty:
        lines.append("nothing uncommitted")
    lines += moved.words
    head_lines = list(lines)
    parts = [
        PromptPart(
            title="Git",
            text=words.bullets(lines),
            priority=3,
            path="git status",
            share=0.3,
            shrink=lambda n: budget.listing(head_lines, n),
        )
    ]
    if facts.head:
        since = moved.since if moved.since and moved.since.get("head") and moved.commits else None
        revisions = f"{since['head']}..HEAD" if since else "HEAD"
        found = (
            checkout.commits(facts.top, revisions, environment=app.git_environment, limit=_COMMITS if since else 5)
            or ()
        )
        if found:
            title = "Commits since the last hand-off" if since else "Last commits"
            parts.append(
                PromptPart(
                    title=title,
                    text=words.bullets([f"{c.sha[:10]} {c.subject}" for c in found]),
                    priority=5,
                    path="git log",
                    share=0.3,
                )
            )
    return parts


def _check_lines(view: View) -> list[str]:
    found = [entry for entry in view.entries if entry["kind"] == "check"][-_CHECKS:]
    return [
        f"{entry.get('time', '?')} `{entry.get('command', '')}`: {entry.get('verdict', '?')}"
        f" at {str(entry.get('head', ''))[:10] or 'no commit'}"
        for entry in found
    ]


def _context_parts(view: View) -> list[PromptPart]:
    parts = []
    for name in view.config.texts("context_files"):
        path = os.path.join(view.workspace.root, name)
        if os.path.isfile(path) and os.path.getsize(path) <= _CONTEXT_BYTES:
            parts.append(
                PromptPart(title=f"File {name}", text=files.read_text(path).strip(), priority=9, path=name, share=0.5)
            )
        elif not os.path.isfile(path):
            raise UserError(
                f"{view.workspace.config}: context_files names '{name}', which is not there.", "Fix the list."
            )
    return parts


def _lenient_look(app: App, *, needed: tuple[str, ...]) -> View:
    """For planning prompts, which work on a half-made feature: only the needed documents must exist."""
    workspace, feature = active_feature(app)
    for name in needed:
        folder.read_document(feature, name, program=app.settings.program)
    texts = {name: folder.optional_document(feature, name) for name in folder.DOCUMENTS}
    plan = plans.parse(texts["STATE.md"] or "# Execution Plan\nNot yet generated.\n")
    config = project_config(workspace.root)
    return View(
        workspace=workspace, feature=feature, config=config, plan=plan, texts=texts, entries=history.recent(feature)
    )


def _guard(view: View, program: str) -> None:
    plan = view.plan
    if not plan.guard:
        return
    if plan.verdict == plans.EMPTY:
        raise UserError(f"{plan.guard} Run `{program} generate` first.", "It prints the prompt that makes the plan.")
    if plan.verdict == plans.INVALID:
        raise UserError(
            plan.guard + problem_lines(view), f"Fix these lines of {view.folder}/STATE.md, then: {program} validate"
        )
    if plan.verdict == plans.BLOCKED:
        stuck = [plan.step(i) for i, (_, mark, _) in enumerate(plan.marks) if mark == plans.STUCK]
        reasons = "".join(f"\n  step {step.number}: {step.reason}" for step in stuck[:5])
        raise Refused(plan.guard + reasons, f"When one is concluded: {program} step start {stuck[0].number}")
    raise UserError(
        plan.guard, f"Archive it: {program} archive {view.feature.name}, or add a step: {program} step add TEXT"
    )


def problem_lines(view: View) -> str:
    """The untrusted lines, one below the other."""
    return "".join(f"\n  STATE.md:{p.line}: {p.fault} {p.fix}" for p in view.plan.problems[:10])


def _refuse_scaffold(view: View, program: str) -> None:
    if view.plan.verdict != plans.INVALID and view.readiness()["FEATURE.md"] == documents.REVIEW:
        raise UserError(
            "FEATURE.md still contains scaffold content and needs review.",
            f"Edit {view.folder}/FEATURE.md: replace the example sentences. Then: {program} run",
        )


def _refuse_lost_progress(view: View) -> None:
    handed = history.last(view.entries, "handoff")
    done = int(handed.get("done", 0)) if handed else 0
    if done and view.plan.verdict in (plans.EMPTY, plans.INVALID) and not view.plan.done:
        raise Refused(
            f"The plan had {done} finished steps at the last hand-off and has none now; a new plan would bury them.",
            f"Bring {view.folder}/STATE.md back (git, an editor's backup) or finish the steps again by hand.",
        )


def _remember(app: App, view: View, kind: str, facts: checkout.CheckoutFacts | None) -> None:
    newest = view.entries[-1] if view.entries else None
    if newest is not None and newest.get("prompt") == kind and is_same_handoff(newest, view, facts):
        return  # the same hand-off printed again is not a new one
    step = view.plan.current.text if view.plan.current else ""
    entry = {"kind": "handoff", "time": stamp(app.clock.now()), "prompt": kind, "step": step, **picture(view, facts)}
    with files.locked(view.feature.lock, what=f"feature '{view.feature.name}'"):
        history.append(view.feature, entry)
