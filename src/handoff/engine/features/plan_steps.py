"""Move a plan on, on evidence: run the step's check, edit one line under a lock, write down what was seen."""

from __future__ import annotations

import os

from handoff.base import files
from handoff.base.clock import stamp
from handoff.base.errors import Conflict, HandoffError, Refused, UserError
from handoff.base.record import TYPE_CHECKING, Record
from handoff.engine.features.status import (
    View,
    active_feature,
    git_facts,
    is_without_feature,
    look,
    picture,
    refuse_invalid,
)
from handoff.feature import folder
from handoff.feature import plan as plans
from handoff.feature.plan import edit as plan_edit

if TYPE_CHECKING:
    from collections.abc import Callable

    from handoff.checks.commands import Verdict
    from handoff.engine.app import App
    from handoff.git.plumbing import checkout

UNCHECKED = "unchecked"
GREEN_BEFORE = "green before this step too"


class Done(Record):
    """A finished step, its evidence, and what comes next."""

    step: plans.Step
    verdict: Verdict | None
    evidence: str
    following: plans.Step | None
    complete: bool


def finish(
    app: App,
    *,
    number: int | None,
    command: str,
    unchecked: bool,
    say: Callable[[str], None],
    run: Callable[[str, str], Verdict],
) -> Done:
    """Run the step's check and tick the box when it is green; red changes nothing but the log.

    `run` runs a command in a folder: what the plan and the settings say, a session may have written.
    """
    view = look(app)
    step = _chosen(view, number, app.settings.program)
    if step.mark in (plans.DONE, plans.DROPPED):
        raise Conflict(f"Step {step.number} is already {'done' if step.mark == plans.DONE else 'dropped'}.")
    check = "" if unchecked else command or step.check or view.config.text("check")
    own = f"{app.settings.program} step done" + (f" --step {step.number}" if number else "")
    if not check and not unchecked:
        raise Refused(
            f"Step {step.number} has no check, so nothing proves it.",
            f"Give one: {own} --check CMD, or '(check: CMD)' on the step, or check = \"CMD\" in .handoff/config.toml. On your"
            f" word alone: {own} --unchecked",
        )
    before = git_facts(app)
    verdict, again = None, False
    if check:
        _refuse_vacuous(own, check, before)
        from handoff.engine.features import tree_marks

        again = _was_green(app, view, check, step, before, own)
        say(f"Checking step {step.number}: {check}")
        seen = tree_marks.take(app, view, before)
        verdict = run(check, view.workspace.root)
        _log_check(app, view, verdict, before, step, seen)
        if not verdict.green:
            raise Refused(
                f"The check is {verdict.word}: {check}\n{verdict.tail}".rstrip(),
                f"Step {step.number} stays open. Fix the cause and run: {own}",
            )
    after = git_facts(app)
    if before and after and before.head != after.head:
        raise Conflict(
            f"HEAD moved from {before.short} to {after.short} while the check ran, so the verdict is for another tree.",
            "Run it again.",
        )
    evidence = _evidence(app, after, unchecked=unchecked) + (f" ({GREEN_BEFORE})" if again else "")
    if again:
        say(f"This check was {GREEN_BEFORE}: that the step is done rests on what you changed.")

    def edit(text: str) -> str:
        now = plans.parse(text)
        if now.verdict != plans.INVALID and (
            len(now.marks) < step.number or now.step(step.number - 1).text != step.text
        ):
            raise Conflict(f"Step {step.number} was changed by somebody else while the check ran.", "Run it again.")
        return plan_edit.finish(text, step.number, evidence)

    plan = edit_state(view.feature, edit)
    return Done(step, verdict, evidence, plan.current, plan.verdict == plans.COMPLETE)


def tick(app: App, *, made_from: dict[str, str], head: str) -> str:
    """Tick the step a task was made from, whose check was green: the words for it. Ticked or dropped already, it stays so."""
    feature = folder.existing(
        folder.HandoffFolder(made_from["root"]), made_from["feature"], program=app.settings.program
    )
    doubt = f"({made_from['doubt']})" if made_from.get("doubt") else ""
    evidence = " ".join(word for word in (head[:10], stamp(app.clock.now()), doubt) if word)
    found: list[plans.Step] = []

    def edit(text: str) -> str:
        plan = plans.parse(text)
        if plan.verdict == plans.INVALID:
            raise UserError(
                f"{feature.file('STATE.md')}: {plan.guard}", f"Fix it, then: {app.settings.program} validate"
            )
        steps = [plan.step(number) for number in range(len(plan.marks))]
        found.extend(step for step in steps if step.text == made_from["text"])
        found.sort(key=lambda step: step.mark in (plans.DONE, plans.DROPPED))  # of two with the same words the open one
        still = found and found[0].mark not in (plans.DONE, plans.DROPPED)
        return plan_edit.finish(text, found[0].number, evidence) if still else text

    plan = edit_state(feature, edit)
    if not found:
        raise UserError(f"The plan of '{feature.name}' no longer has the step '{made_from['text']}'.", "")
    after = "the plan is complete" if plan.current is None else f"next is: {plan.current.text}"
    return f"Step {found[0].number} of feature '{feature.name}' is ticked; {after}."


def change(app: App, *, action: str, number: int | None, text: str, check: str = "") -> tuple[plans.Plan, plans.Step]:
    """Block, drop, start or add a step; returns the new plan and the step that was touched."""
    view = look(app)
    if action == "add":
        plan = edit_state(view.feature, lambda state: plan_edit.add(state, text, after=number, check=check))
        where = number if number is not None else len(plan.marks) - 1
        return plan, plan.step(where)
    step = _chosen(view, number, app.settings.program)
    verbs: dict[str, Callable[[str], str]] = {
        "block": lambda state: plan_edit.block(state, step.number, text),
        "drop": lambda state: plan_edit.drop(state, step.number, text),
        "start": lambda state: plan_edit.begin(state, step.number),
    }
    plan = edit_state(view.feature, verbs[action])
    return plan, plan.step(step.number - 1)


def _chosen(view: View, number: int | None, program: str) -> plans.Step:
    plan = view.plan
    refuse_invalid(view, program)
    if number is not None:
        if not 1 <= number <= len(plan.marks):
            raise UserError(f"There is no step {number}; the plan has {len(plan.marks)}.", f"See: {program} status")
        return plan.step(number - 1)
    if plan.current is None:
        raise UserError(plan.guard or "There is no current step.", f"See: {program} status")
    return plan.current


def edit_state(feature: folder.Feature, edit: Callable[[str], str]) -> plans.Plan:
    """Change STATE.md under the feature's lock, from what it says at that moment; its lists follow its plan."""
    from handoff.feature.plan.edit import keep_in_step

    with feature.locked():
        data = files.read_bytes(feature.file("STATE.md"))
        files.read_text(feature.file("STATE.md"))  # a file that is not UTF-8 is refused with its line
        text = keep_in_step(edit(data.decode("utf-8")))
        files.write_atomic(feature.file("STATE.md"), text)
    return plans.parse(text)


def _evidence(app: App, facts: checkout.CheckoutFacts | None, *, unchecked: bool) -> str:
    words = [stamp(app.clock.now())]
    if facts is not None and facts.head:
        words.insert(0, facts.short + ("+changes" if facts.dirty else ""))
    if unchecked:
        words.append(UNCHECKED)
    return " ".join(words)


def _log_check(
    app: App,
    view: View,
    verdict: Verdict,
    facts: checkout.CheckoutFacts | None,
    step: plans.Step,
    seen: folder.LogEntry,
) -> None:
    entry = {
        "kind": "check",
        "time": stamp(app.clock.now()),
        "command": verdict.command,
        "verdict": verdict.word,
        "code": verdict.code,
        "seconds": round(verdict.seconds, 2),
        "head": facts.head if facts else "",
        "dirty": len(facts.dirty) if facts else 0,
        **seen,
        "step": step.text,
        "tail": "" if verdict.green else verdict.tail[-1500:],
    }
    folder.append_log(view.feature, entry)


def _refuse_vacuous(own: str, check: str, facts: checkout.CheckoutFacts | None) -> None:
    """A check that can never fail proves nothing, whoever wrote it."""
    from handoff.checks.assertions.assertions import asks_nothing, vacuous_scripts

    hint = f"Give one that fails until the step is done, or tick it on your word: {own} --unchecked"
    if asks_nothing(check):
        raise Refused(f"The check can never fail, so it proves nothing: {check}", hint)
    top = facts.top if facts else ""
    names = vacuous_scripts(check, facts.dirty if facts else (), lambda path: _text(os.path.join(top, path)))
    if names:
        raise Refused(f"The check runs {names[0]}, which asserts nothing that could fail: {check}", hint)


def _text(path: str) -> str | None:
    try:
        return files.read_text(path)
    except HandoffError:
        return None


def _was_green(
    app: App, view: View, check: str, step: plans.Step, facts: checkout.CheckoutFacts | None, own: str
) -> bool:
    """Whether this very check was seen green for another step; on the same files it says nothing about this one."""
    seen = [
        entry
        for entry in view.entries
        if entry.get("kind") == "check" and entry.get("command") == check and entry.get("step") != step.text
    ]
    if not seen or seen[-1].get("verdict") != "green":
        return False
    from handoff.engine.features import tree_marks

    if tree_marks.since(app, view, seen[-1], facts) == tree_marks.UNCHANGED:
        raise Refused(
            f"Nothing has changed since this check was green for another step ('{seen[-1]['step']}'), so it cannot show that"
            f" step {step.number} is done: {check}",
            f"Do the step, give another check ({own} --check CMD), or tick it on your word: {own} --unchecked",
        )
    return True


def note(app: App, *, text: str) -> str:
    """Append a dated note to SESSION.md; returns its path."""
    _, feature = active_feature(app)
    return _append(feature, "SESSION.md", "## Notes", f"- {stamp(app.clock.now())}: {_words(text, 'note')}")


def add_rule(app: App, *, text: str) -> str:
    """Write a rule down: in SESSION.md where a feature is active, so that it travels with it; else for the project, on this machine."""
    if not is_without_feature(app):
        return note(app, text=f"Rule: {text.strip()}" if text.strip() else "")
    if app.settings.get("HANDOFF_SESSION"):
        raise Refused("Rules of a project are its person's to give.", "Leave a note instead: handoff task note 'TEXT'")
    from handoff.engine.app.home import find_project, settle
    from handoff.feature.baton import RULES_FILE

    rule = _words(text, "rule")
    project = settle(app, find_project(app))
    path = os.path.join(app.settings.home, project.name, RULES_FILE)
    before = files.read_text(path).rstrip("\n") + "\n" if os.path.exists(path) else ""
    files.make_folder(os.path.dirname(path), mode=0o700)
    files.write_atomic(path, f"{before}- {rule}\n")
    return path


def decide(app: App, *, text: str, because: str) -> str:
    """Append a dated decision with its reason to DECISIONS.md; returns its path."""
    _, feature = active_feature(app)
    line = f"- {stamp(app.clock.now())}: {_words(text, 'decision')}\n  Because: {_words(because, 'reason')}"
    return _append(feature, "DECISIONS.md", "# Decisions", line)


def _words(text: str, what: str) -> str:
    cleaned = "\n  ".join(line.rstrip() for line in text.strip().splitlines())
    if not cleaned:
        raise UserError(f"The {what} is empty.", "Write it in quotes.")
    return cleaned


def _append(feature: folder.Feature, name: str, heading: str, line: str) -> str:
    """Add a line below its heading (made when missing) at the end of the file; all that was there stays."""
    path = feature.file(name)
    with feature.locked():
        text = files.read_bytes(path).decode("utf-8", "surrogateescape") if feature.has(name) else ""
        end = "\r\n" if "\r\n" in text else "\n"
        if text and not text.endswith(("\n", "\r")):
            text += end
        body = [row.strip() for row in text.splitlines()]
        last = next((row for row in reversed(body) if row.startswith("#")), "")
        if last != heading:
            text += (end if text else "") + heading + end
        text += line.replace("\n", end) + end
        files.write_atomic(path, text.encode("utf-8", "surrogateescape"))
    return path


def accept(app: App) -> folder.LogEntry:
    """Stamp 'reviewed at this commit', so that staleness is counted from here."""
    view = look(app)
    facts = git_facts(app)
    if facts is None or not facts.head:
        raise UserError("There is no commit to accept.", "Run it inside a git repository with at least one commit.")
    entry: folder.LogEntry = {"kind": "accept", "time": stamp(app.clock.now()), **picture(view, facts)}
    folder.append_log(view.feature, entry)
    return entry
