"""The first page of help, the list of every command, and the pages of the manual that came with the package."""

from __future__ import annotations

import os

from handoff.base.errors import UsageError, UserError
from handoff.surfaces.cli.catalog import CATALOG, NOUNS, SHOWN

FIRST = {
    "Look": {
        "board": "the same, live, with keys",
        "page": "the same in a browser, also on the phone",
        "status": "where the feature, its tasks, flows and batches stand",
        "show ADDRESS": "a task, batch, flow, gate or incident",
        "log [ADDRESS]": "what happened; -f follows",
    },
    "Decide": {
        "answer GATE": "yes, no or your text to what waits for you",
        "retry ADDRESS": "let what is blocked try again",
        "pause [ADDRESS]": "start nothing new; resume goes on",
        "undo": "take back a landing, restore, commit or removal",
    },
    "Hand over": {
        "init NAME": "begin a feature: goal, spec, plan",
        "continue": "print the prompt for the next session",
        "task": "work with a check: add, list, claim, done",
        "land BRANCH": "merge finished work, checked, into your branch",
    },
    "Let agents work": {
        "work": "start agents on what is ready",
        "batch": "split work over agents that own different files",
        "flow": "plan, red, green, refactor: each step checked",
    },
    "Keep in order": {
        "safe-commit PATH": "commit only your own paths",
        "snapshot": "keep all files as they are; list, diff, restore",
        "setup": "agents, hooks, guard, snapshots; repairs too",
        "doctor": "what is wrong, and the command that fixes it",
    },
}
"""The commands of the first page, by what a person needs."""


def help_text(program: str) -> str:
    """The first page: the commands a person begins with."""
    lines = [
        f"{program}: the relay between AI coding sessions",
        "",
        f"  {program:<17} what needs you, what runs, what landed, what is next",
        "",
    ]
    for group, commands in FIRST.items():
        lines += [group, *(f"  {name:<17} {text}" for name, text in commands.items())]
    shown, known = sum(map(len, FIRST.values())), len({name.partition(" ")[0] for name in SHOWN})
    return "\n".join(
        [
            *lines,
            "",
            f"{shown} of {known} commands. All: {program} help --all   One: {program} help NAME",
            f"Pages of the manual: {program} help docs   One: {program} help TOPIC, for example {program} help landing",
            "",
        ]
    )


def every_command(program: str) -> str:
    """Every command with its line, shelf by shelf."""
    lines = [
        f"usage: {program} [-C DIR] [--feature NAME] COMMAND ...",
        "",
        "The relay between AI coding sessions: nothing lost, nobody's work swept up, done means checked.",
    ]
    for section in dict.fromkeys(entry.section for entry in SHOWN.values()):
        lines += ["", f"{section}:"]
        lines += [f"  {name:<16} {entry.help}" for name, entry in SHOWN.items() if entry.section == section]
    lines += [
        "",
        "Everywhere:",
        "  -C DIR           work as if started in DIR",
        "  --feature NAME   use this feature instead of the active one (env: HANDOFF_FEATURE)",
        "  --version        print the version",
        "",
        f"Help for one command: {program} COMMAND --help. The pages of the manual: {program} help docs",
        "",
    ]
    return "\n".join(lines)


def answer(words: list[str], program: str) -> str:
    """What `help` says to these words; nothing when they name a command, whose own help is the answer."""
    if not words:
        return help_text(program)
    topic = " ".join(words)
    if topic == "--all":
        return every_command(program)
    if topic.startswith("docs"):
        return page(topic, program)
    if words[0] in CATALOG or words[0] in NOUNS:
        return ""
    refuse_old(words[0], words[1:], program)
    found = [name for name in _pages() if os.path.basename(name) in (f"{topic}.md", topic)]
    if not found:
        from difflib import get_close_matches

        known = dict.fromkeys([*CATALOG, *NOUNS, *(os.path.basename(name).removesuffix(".md") for name in _pages())])
        close = get_close_matches(topic, known, n=2)
        hint = f"Did you mean: {', '.join(close)}? " if close else ""
        raise UsageError(
            f"There is no command and no page '{topic}'.", f"{hint}See: {program} help --all, or {program} help docs"
        )
    return page(found[0], program)


def noun(name: str, rest: list[str], program: str) -> str:
    """The page of a noun: its verbs. Another word after it is refused."""
    verbs = {known.partition(" ")[2]: entry.help for known, entry in CATALOG.items() if known.startswith(f"{name} ")}
    said = next((word for word in rest if not word.startswith("-")), "")
    if said:
        refuse_old(name, rest, program)
        raise UsageError(f"There is no '{program} {name} {said}'.", f"There are: {', '.join(verbs)}")
    return "\n".join(
        [
            f"usage: {program} {name} VERB ...",
            "",
            *(f"  {verb:<10} {text}" for verb, text in verbs.items()),
            "",
            f"{program} {name} alone is {program} {name} {NOUNS[name]}. More: {program} {name} VERB --help",
            "",
        ]
    )


RENAMED = {
    "queue": "task list",
    "open": "task open",
    "claim": "task claim",
    "done": "task done",
    "block": "task block",
    "release": "task release",
    "ask": "task ask",
    "gates": "gate list",
    "approve": "answer TASK yes",
    "reject": "answer TASK no REASON",
    "gate answer": "answer CODE yes|no",
    "workflow": "flow kinds",
    "workflow show": "flow kinds NAME",
    "workflow check": "flow kinds --check",
    "workflow graph": "flow kinds --graph NAME",
    "flow status": "flow list, and for one flow show FLOW",
    "flow log": "log FLOW",
    "flow pause": "pause FLOW",
    "flow resume": "resume FLOW",
    "flow cancel": "cancel FLOW",
    "flow retry": "retry FLOW",
    "pause --batch": "pause BATCH",
    "pause --task": "pause TASK",
    "resume --batch": "resume BATCH",
    "resume --task": "resume TASK",
    "cancel --batch": "cancel BATCH",
    "agents": "agent list",
    "agents retry": "agent retry",
    "snapshots": "snapshot list",
    "diff": "snapshot diff",
    "restore": "snapshot restore",
    "incidents": "incident list",
    "incidents show": "show INCIDENT",
    "incidents seen": "incident seen",
    "collisions": "batch collisions",
    "sandbox": "workspace run",
    "verify": "record verify",
    "notes": "record",
    "gc": "project tidy",
    "migrate-database": "database move",
    "sync-files": "database files",
    "hooks": "setup hooks",
    "instructions": "setup instructions",
    "install": "setup service install",
    "uninstall": "setup service remove",
}
"""Our spellings of before the nouns, and what each is called now."""
MEANT = {
    "tasks list": "task list",
    "steps": "step list",
    "plan": "step list",
    "precheck": "task add ID TEXT --check COMMAND",
    "fan-in": "batch list",
    "fanin": "batch list",
    "calibration": "heartbeat calibration",
}
"""Words people try, some of them of older tools, and the command that does it here."""


def refuse_old(name: str, rest: list[str], program: str) -> None:
    """A spelling of before is refused with the one of today, and a word of other tools with the command that does it."""
    for said in (*(f"{name} {word}" for word in rest), name):
        if said in RENAMED:
            raise UsageError(f"{program} {said} is now {program} {RENAMED[said]}.", f"See: {program} help --all")
        if said in MEANT:
            raise UsageError(f"There is no '{program} {said}'.", f"Do you mean: {program} {MEANT[said]}")


def _root() -> str:
    import handoff

    inside = os.path.join(os.path.dirname(handoff.__file__), "docs")
    return inside if os.path.isdir(inside) else os.path.abspath(os.path.join(inside, "..", "..", "..", "docs"))


def _pages() -> list[str]:
    root = _root()
    return sorted(
        f"docs/{os.path.relpath(os.path.join(place, file), root)}"
        for place, _, names in os.walk(root)
        for file in names
        if file.endswith(".md")
    )


def page(name: str, program: str) -> str:
    """A page of the manual that came with the package, or the list of them."""
    pages = _pages()
    if name.rstrip("/") == "docs":
        return "".join(f"{program} help {found}\n" for found in pages)
    if name not in pages:
        raise UserError(f"There is no page {name}.", f"See: {program} help docs")
    with open(os.path.join(_root(), name.removeprefix("docs/")), encoding="utf-8") as file:
        return file.read()
