"""What the adapters of several clients are made of: abilities that came with a version, our tools among its servers, hooks, events.

And the output of a session that handoff started, as the neutral entries that every client's own record gives too."""

from __future__ import annotations

import re

from handoff.agents import contract
from handoff.agents.contract import (
    ANSWERED,
    TOOL,
    USAGE,
    Abilities,
    AgentEvent,
    LaunchRequest,
    Usage,
    at_least,
    text_of,
)
from handoff.agents.dialects import COMPACT, DIALECTS, EDIT
from handoff.agents.history import entries as form
from handoff.agents.history.entries import HistoryEntry, TodoItem
from handoff.base.markdown import shell_line
from handoff.base.record import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from handoff.agents.contract import Read


def no_abilities(version: str) -> Abilities:
    """For a client that can nothing of its own: the sandbox, and the comparison afterwards."""
    del version
    return Abilities()


def with_hooks(floor: str, **more: Any) -> Callable[[str], Abilities]:
    """For a client with hooks from version `floor` on, which can be resumed and has our tools; `more` says what differs."""

    def abilities(version: str) -> Abilities:
        able = at_least(version, floor)
        usual = {"start_context": able, "deny_edit": able, "refuse_stop": able, "resume": True, "mcp": True}
        return Abilities(**{**usual, **more})

    return abilities


def new_id(order: LaunchRequest) -> tuple[str, ...]:
    """The id we chose for a fresh conversation, for clients that let us."""
    return ("--session-id", order.client_id) if order.client_id else ()


def model(order: LaunchRequest, flag: str = "--model") -> tuple[str, ...]:
    """The model, if one was asked for."""
    return (flag, order.model) if order.model else ()


def our_server(
    order: LaunchRequest, *, http: dict[str, Any], local: dict[str, Any], both: dict[str, Any]
) -> dict[str, dict[str, Any]]:
    """Our tools among a client's servers: over HTTP where an endpoint answers, else as a program, else nothing."""
    if order.endpoint:
        return {"handoff": {**http, **both}}
    return {"handoff": {**local, **both}} if order.mcp else {}


def as_program(order: LaunchRequest) -> dict[str, Any]:
    """Our tools as most clients name a program: its path, and its arguments apart."""
    return {"command": "".join(order.mcp[:1]), "args": list(order.mcp[1:])}


def event(kind: str, text: Any = "", **values: Any) -> tuple[AgentEvent, ...]:
    """One event, as `read` gives it back; a text is cut to size whatever shape a client gives it."""
    return (AgentEvent(kind=kind, text=text_of(text), **values),)


def usage_event(use: Usage, kind: str = USAGE) -> tuple[AgentEvent, ...]:
    """What was used, if anything was."""
    return event(kind, use=use) if use.tokens or use.money is not None else ()


def part(value: dict[str, Any], name: str) -> dict[str, Any]:
    """The object under a name; an empty one when it is none."""
    found = value.get(name)
    return found if isinstance(found, dict) else {}


_ENDS = 600  # so much of an output is handed on: what is red stands at its end
_SHELLS = frozenset("bash shell run_shell_command execute exec_command command_execution terminal local_shell".split())
_MAKERS = frozenset("write write_file create".split())
_EDITORS = frozenset(
    "edit multiedit notebookedit replace str_replace strreplace str_replace_editor apply_patch patch write_file delete".split()
)
_LISTS = frozenset("todowrite todo_write write_todos update_plan updatetodos".split())
_PATHS = ("file_path", "filePath", "notebook_path", "path", "absolute_path", "target_file")
_PATCHED = re.compile(r"^\*\*\* (Add|Update|Delete) File: (.+)$", re.MULTILINE)
_HOW = {"Add": form.ADDED, "Update": form.CHANGED, "Delete": form.DELETED, "add": form.ADDED, "update": form.CHANGED}
_HOW["delete"] = form.DELETED
_STATES = {"completed": form.DONE, "done": form.DONE, "in_progress": form.DOING, "cancelled": form.DROPPED}
_EXIT = re.compile(
    r"^\W*(?:Exit code|Exit Code|exit code|exited with code|exited with exit code):? *(-?\d+)", re.MULTILINE
)


def call_event(name: Any, given: Any, call: str = "") -> tuple[AgentEvent, ...]:
    """A tool that was called, with what it was asked; its result comes under the same `call`."""
    return tuple(
        AgentEvent(kind=TOOL, text=text_of(name), entry=entry, call="" if index else call)
        for index, entry in enumerate(_asked(str(name or ""), given if isinstance(given, dict) else {"input": given}))
    )


def answer_event(call: str, output: Any, *, code: Any = None, ok: bool | None = None) -> tuple[AgentEvent, ...]:
    """What the tool gave. Where no code is told apart from the text, the text is asked."""
    text = output if isinstance(output, str) else text_of(output)
    told = int(code) if isinstance(code, int) and not isinstance(code, bool) else _code_in(text)
    good = told == 0 if told is not None else ok
    return (
        AgentEvent(
            kind=ANSWERED,
            call=call,
            entry=HistoryEntry(role=form.TOOL, kind=form.USED, text=text[-_ENDS:], exit=told, ok=good),
        ),
    )


def both_events(
    name: Any, given: Any, output: Any, *, code: Any = None, ok: bool | None = None
) -> tuple[AgentEvent, ...]:
    """A tool of which the client tells when it has come back."""
    (answer,) = answer_event("", output, code=code, ok=ok)
    told = answer.entry
    if told is None:
        return call_event(name, given)
    return (
        *(
            one._replace(entry=one.entry._replace(text=told.text, exit=told.exit, ok=told.ok))
            for one in call_event(name, given)
            if one.entry is not None
        ),
        AgentEvent(kind=ANSWERED),
    )


def file_event(changes: Any, *, ok: bool) -> tuple[AgentEvent, ...]:
    """Files that a client itself has changed, as it lists them."""
    listed = [one for one in changes if isinstance(one, dict)] if isinstance(changes, list) else []
    found = tuple(
        AgentEvent(
            kind=TOOL,
            text="file_change",
            entry=HistoryEntry(
                role=form.TOOL,
                kind=form.FILE,
                path=str(one.get("path") or ""),
                how=_HOW.get(str(one.get("kind")), ""),
                ok=ok,
            ),
        )
        for one in listed
    )
    return found or event(TOOL, "file_change")


def _asked(name: str, given: dict[str, Any]) -> list[HistoryEntry]:
    bare = name.rpartition(".")[2].casefold()
    command = given.get("command", given.get("cmd"))
    command = " ".join(map(str, command)) if isinstance(command, list) else command
    patch = next(
        (text for text in (*given.values(), command) if isinstance(text, str) and "*** Begin Patch" in text), ""
    )
    if patch:
        return [
            HistoryEntry(role=form.TOOL, kind=form.FILE, path=path.strip(), how=_HOW[how])
            for how, path in _PATCHED.findall(patch)
        ]
    if bare in _LISTS:
        return [HistoryEntry(role=form.TOOL, kind=form.PLAN, todo=_listed(given))]
    if bare in _SHELLS and isinstance(command, str):
        return [HistoryEntry(role=form.TOOL, kind=form.SHELL, command=command)]
    path = next((str(given[key]) for key in _PATHS if given.get(key)), "")
    if path and bare in (_MAKERS | _EDITORS):
        how = "" if bare in _MAKERS else form.DELETED if bare == "delete" else form.CHANGED
        old, new = (str(given.get(key) or given.get(other) or "") for key, other in _REPLACED)
        return [HistoryEntry(role=form.TOOL, kind=form.FILE, path=path, how=how, old=old, new=new)]
    kind = form.AGENT if bare in ("task", "agent") else form.USED
    return [HistoryEntry(role=form.TOOL, kind=kind, text=str(given.get("description") or name))]


_REPLACED = (("old_string", "old_str"), ("new_string", "new_str"))


def _listed(given: dict[str, Any]) -> tuple[TodoItem, ...]:
    items = next((value for value in given.values() if isinstance(value, list)), [])
    return tuple(
        TodoItem(
            str(next((one[key] for key in ("content", "step", "description", "text") if one.get(key)), "")),
            form.DONE if one.get("completed") is True else _STATES.get(str(one.get("status")), form.PENDING),
        )
        for one in items
        if isinstance(one, dict)
    )


def _code_in(text: str) -> int | None:
    found = _EXIT.search(text[:200]) or _EXIT.search(text[-200:])
    return int(found[1]) if found else None


# --- hook entries: what a session is started with and what `handoff setup hooks install` writes ------------------

HOOK_SECONDS = 60
_NOT_TRIED = {"copilot": (COMPACT,), "cursor": (COMPACT,)}  # an unknown event name voids Cursor's whole file


def group_hooks(
    command: tuple[str, ...], dialect: str, *, more: tuple[str, ...] = (), every_tool: bool = False
) -> dict[str, Any]:
    """Claude, Codex and Gemini: event, then groups with a matcher, then commands.

    We are asked before edits; `every_tool` has us hear of every call, as a sign of life.
    """
    speech = DIALECTS[dialect]
    entries: dict[str, Any] = {}
    for name, meaning in speech.events.items():
        entry = {
            "type": "command",
            "command": shell_line((*command, dialect, name, *more)),
            "timeout": HOOK_SECONDS * speech.timeout_scale,
        }
        group: dict[str, Any] = {"hooks": [entry]}
        if meaning == EDIT and not every_tool:
            group = {"matcher": "|".join(speech.edit_tools), "hooks": [entry]}
        entries[name] = [group]
    return entries


def flat_hooks(command: tuple[str, ...], dialect: str, *, more: tuple[str, ...] = ()) -> dict[str, Any]:
    """Copilot and Cursor: event, then commands."""
    speech = DIALECTS[dialect]
    entries: dict[str, Any] = {}
    for name, meaning in speech.events.items():
        if meaning in _NOT_TRIED[dialect]:
            continue
        line = shell_line((*command, dialect, name, *more))
        if dialect == "copilot":
            entries[name] = [{"type": "command", "bash": line, "timeoutSec": HOOK_SECONDS}]
        else:
            entries[name] = [{"command": line, "timeout": HOOK_SECONDS}]
    return entries


# --- from events to entries --------------------------------------------------------------------------------------

_OPEN_CALLS, _OUTPUT, _SHORT = 200, 4000, 3
_ANNOUNCED = re.compile(r"(?:next|to-?do|decision|decided|because|dead end|note|rule)\b", re.IGNORECASE)

_ECHOED = re.compile(r"[$+] (\w\S.*)")
_EXITED = re.compile(r"\W*exit(?:ed)?(?: with)?(?: (?:code|status))?:? (\d{1,3})\W*", re.IGNORECASE)


def entries_of(read: Read, lines: Iterable[str]) -> Iterator[HistoryEntry]:
    """What an output tells, in order; a call stands where its result came, one without a result at the end."""
    waiting: dict[str, HistoryEntry] = {}
    said = ""
    shown: HistoryEntry | None = None  # a command that a program showed as a shell does, with what it printed so far
    for line in lines:
        for event in read(line):
            if event.kind == contract.SAID and event.call == contract.LINE:
                echoed = _ECHOED.match(event.text)
                if shown is not None and not echoed and not is_sentence(event.text):
                    shown = _printed(shown, event.text)
                    continue
                if shown is not None:
                    yield shown
                shown = HistoryEntry(kind=form.SHELL, command=echoed[1]) if echoed else None
            if event.kind == contract.SAID and event.call == contract.PIECE:
                said += event.text
                continue
            if said and event.kind not in (contract.USAGE, contract.TOTAL):
                yield HistoryEntry(role=form.ASSISTANT, kind=form.SAY, text=said)
                said = ""
            yield from _entries(event, waiting)
    if said:
        yield HistoryEntry(role=form.ASSISTANT, kind=form.SAY, text=said)
    if shown is not None:
        yield shown
    for call in waiting.values():
        what = call.command or call.path or call.text
        yield call._replace(kind=form.OPEN, text=what)


def _printed(shown: HistoryEntry, line: str) -> HistoryEntry:
    """One line more of a command's output; the line that says how it ended is no output."""
    ended = _EXITED.fullmatch(line)
    return shown._replace(exit=int(ended[1])) if ended else shown._replace(text=f"{shown.text}{line}\n"[-_OUTPUT:])


def is_sentence(line: str) -> bool:
    """Whether a bare line reads like words, not like what a program printed: a sentence with its end, or a word that announces one."""
    text = line.strip()
    return bool(_ANNOUNCED.match(text) or (text[:1].isalpha() and len(text.split()) > _SHORT and text[-1:] in ".!?"))


def _entries(event: AgentEvent, waiting: dict[str, HistoryEntry]) -> Iterator[HistoryEntry]:
    if event.kind == contract.SAID and (is_sentence(event.text) if event.call == contract.LINE else event.text.strip()):
        yield HistoryEntry(role=form.ASSISTANT, kind=form.SAY, text=event.text)
    elif event.kind == contract.TROUBLE:
        yield HistoryEntry(role=form.CLIENT, kind=form.ERROR, text=event.text)
    elif event.kind == contract.TOOL and event.entry is not None:
        if not event.call:
            yield event.entry
        else:
            waiting[event.call] = event.entry
            while len(waiting) > _OPEN_CALLS:
                del waiting[next(iter(waiting))]
    elif event.kind == contract.OUTPUT and event.call in waiting:
        call = waiting[event.call]
        waiting[event.call] = call._replace(text=f"{call.text}{event.text}\n"[-_OUTPUT:])
    elif event.kind == contract.ANSWERED and event.entry is not None:
        found = waiting.pop(event.call, None)
        if found is not None:
            told = event.entry
            made = found.kind == form.FILE and not found.how and "created" in told.text[:200]
            how = form.ADDED if made else found.how
            yield found._replace(text=told.text or found.text, exit=told.exit, ok=told.ok, how=how)
