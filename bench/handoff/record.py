"""`python -m bench.handoff.record CLIENT JOURNEY`: a real client plays a journey with a scripted model, and its own record is kept.

Start it as an ordinary user, as `make test-clients` does. Look at the recording before it is committed: it must hold nothing of
your machine, and no text of the client's vendor that is longer than a few words.
"""

from __future__ import annotations

import getpass
import glob
import json
import os
import re
import socket
import sqlite3
import sys
import tempfile
import time
from typing import Any, NamedTuple

from bench.handoff import acting, play, recording
from bench.handoff.journey import Journey, journeys
from client_stage import EDITS, KEY, READS, Stage
from real_clients import OWN, version

KEPT = {
    "claude": (".claude/projects/*/*.jsonl", ".claude/tasks/*/*.json"),
    "codex": (".codex/sessions/*/*/*/*.jsonl",),
    "gemini": (".gemini/tmp/*/chats/*.jsonl",),
    "copilot": (".copilot/session-state/*/events.jsonl", ".copilot/session-state/*/session.db"),
    "opencode": (".local/share/opencode/opencode.db",),
    "qwen": (".qwen/projects/*/chats/*.jsonl",),
}
"""What each client writes of a session, below its home."""
OF_A_SESSION = {"session": "id", "message": "session_id", "part": "session_id", "todo": "session_id"}
"""Tables of the one database for all sessions, and what names the session in each."""
LOOKS = 1
"""Files that it reads at once; more would only make the recording longer."""
LONG, SHORT = 200, 30
"""Longer texts that are not of the journey are the client's own and are cut, in rows with nothing else the shorter ones too."""
OWN_ROWS = ('"type":"attachment"', '"type":"system.message"', '"role":"developer"', '"type":"session.tools_updated"')
ECHOES = r'"type":"(?:api-request|prompt_snapshot)'
"""Rows that repeat what was sent to the model are left out."""
STATES = {"[x]": "completed", "[>]": "in_progress", "[ ]": "pending"}


def turns(journey: Journey, client: str, folder: str) -> list[tuple[str, list[tuple[Any, ...]]]]:
    """What the person says each time, and what the model does then."""
    found: list[tuple[str, list[tuple[Any, ...]]]] = []
    files, words = dict(journey.files), ""
    for act in journey.acts:
        if "person" in act:
            if found:
                found[-1][1].append(("say", words or "So far."))
            found.append((act["person"], []))
            words = ""
        for call in _calls(act, client, folder, files):
            found[-1][1].append(("with", words, call) if words else call)
            words = ""
        words = "\n\n".join(filter(None, [words, act.get("say", "")]))
    found[-1][1].append(("say", words))
    return found


def _calls(act: dict[str, Any], client: str, folder: str, files: dict[str, str]):
    """One act as calls of the client's own tools."""
    for number in range(min(act.get("browse", 0), LOOKS)):
        yield _look(client, folder, f"docs/notes-{number + 1}.md")
    for verb in ("append", "replace"):
        if verb in act:
            before = files[act[verb]]
            after = before.replace(act["old"], act["new"], 1) if verb == "replace" else before + act["text"]
            files[act[verb]] = after
            part = (act["old"], act["new"]) if verb == "replace" and client in EDITS else (before, after)
            yield _look(client, folder, act[verb])
            yield _edit(client, os.path.join(folder, act[verb]), *part)
    if "write" in act:
        yield "write", os.path.join(folder, act["write"]), act["text"]
    for verb, line in (("delete", "rm {}"), ("run", "{}")):
        if verb in act:
            yield "shell", line.format(act[verb])
    if "todo" in act:
        yield from _steps(client, act["todo"])


def _look(client: str, folder: str, path: str) -> tuple[Any, ...]:
    if client not in READS:
        return "shell", f"sed -n 1,9p {path}"
    name, where = READS[client]
    return "tool", name, {where: os.path.join(folder, path)}


def _edit(client: str, path: str, old: str, new: str) -> tuple[Any, ...]:
    if client not in EDITS:
        taken, put = (
            "".join(f"{sign}{line}\n" for line in text.splitlines()) for sign, text in (("-", old), ("+", new))
        )
        return "patch", f"*** Update File: {path}\n@@\n{taken}{put}"
    name, where, before, after = EDITS[client]
    more = {"instruction": "edit it"} if client == "gemini" else {}
    return "tool", name, {where: path, before: old, after: new, **more}


def _steps(client: str, steps: list[str]):
    """The list of steps, by the tool that this client has for it."""
    told = [(step[4:], STATES[step[:3]]) for step in steps]
    if client == "claude":
        for number, (text, state) in enumerate(told, 1):
            yield "tool", "TaskCreate", {"subject": text, "description": text}
            if state != "pending":
                yield "tool", "TaskUpdate", {"taskId": str(number), "status": state}
    elif client == "codex":
        yield "tool", "update_plan", {"plan": [{"step": text, "status": state} for text, state in told]}
    elif client == "gemini":
        yield "tool", "write_todos", {"todos": [{"description": text, "status": state} for text, state in told]}
    elif client == "copilot":
        rows = ", ".join(
            f"('s{at}', '{text}', '{state.replace('completed', 'done')}')" for at, (text, state) in enumerate(told)
        )
        yield "tool", "sql", {"query": f"INSERT INTO todos (id, title, status) VALUES {rows}", "description": "steps"}
    else:
        named = [
            {"id": str(at), "content": text, "status": state, "priority": "medium"}
            for at, (text, state) in enumerate(told)
        ]
        yield "tool", "todowrite" if client == "opencode" else "todo_write", {"todos": named}


def record(client: str, journey: Journey) -> recording.Recording:
    """Play it to its end; what the client has written meanwhile."""
    os.makedirs(OWN, exist_ok=True)
    with (
        play.stage() as beside,
        tempfile.TemporaryDirectory(prefix="run-", dir=OWN, ignore_cleanup_errors=True) as root,
    ):
        checkout, ours = _played(beside, journey)
        stage = Stage(client, root, task=False)
        home, folder = stage.environment["HOME"], os.path.realpath(stage.repo.path)
        for name in play.RUNNERS:
            os.symlink(os.path.join(beside.bin, name), os.path.join(root, "bin", name))
        with open(os.path.join(home, ".profile"), "w", encoding="utf-8") as file:
            file.write(f'PATH="{root}/bin:$PATH"\n')  # a login shell begins with the machine's own PATH
        _with_steps(stage, home)
        for name, text in play.files_of(journey).items():
            stage.repo.write(name, text)
        base = stage.repo.commit("first")
        before, began = _written(client, home), int(time.time())
        for number, (person, acts) in enumerate(turns(journey, client, folder)):
            server = stage.serve(*acts)
            said = stage.ask(person, again=bool(number))
            if len(server.requests) != len(acts):
                raise SystemExit(f"{client} asked {len(server.requests)} times, not {len(acts)} times:\n{said}")
        _same(journey, checkout, folder)
        machine = {"{{root}}": root, "{{user}}": getpass.getuser(), "{{system}}": os.uname().release}
        clean = Cleaner({**recording.places(folder, home, base), **machine}, ours)
        changed = sorted(path for path, stamp in _written(client, home).items() if before.get(path) != stamp)
        files = {clean.marked(os.path.relpath(path, home)): _kept(path, clean) for path in changed}
        for server in stage.servers:
            server.close()
    told = "".join(files.values())
    for word in (KEY, getpass.getuser(), os.path.expanduser("~"), socket.gethostname()):
        assert not re.search(rf"\b{re.escape(word)}\b", told), f"{word!r} stands in the record"
    return recording.Recording(client, version(client), journey.name, began, files)


def _with_steps(stage: Stage, home: str) -> None:
    """Let it keep a list of steps: Claude has none for a single question, and Qwen none before it is set."""
    stage.environment["CLAUDE_CODE_ENABLE_TODO_TOOLS"] = "1"
    path = os.path.join(home, ".qwen", "settings.json")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    known = json.loads(acting.read(home, ".qwen/settings.json") or "{}")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({**known, "tools": {**known.get("tools", {}), "todoWrite": {"enabled": True}}}, file)


def _played(beside: play.Stage, journey: Journey) -> tuple[str, str]:
    """A checkout in which the same was done, and all words of it: what may stand in a recording."""
    told: list[dict[str, Any]] = []
    repo = beside.project(journey, "beside")
    with play.environment(beside.environment):
        for act in journey.acts:
            acting.perform(act, repo, told.append, {"runs": []})
    values = [value for one in told for value in one.values()]
    texts = [value if isinstance(value, str) else "\n".join(value) for value in values if isinstance(value, str | list)]
    return repo, "\n".join([*texts, *play.files_of(journey).values()])


def _same(journey: Journey, one: str, other: str) -> None:
    """The client did to the files what the journey says."""
    for name in {*journey.files, *(act[verb] for act in journey.acts for verb in ("write", "append") if verb in act)}:
        texts = [acting.read(folder, name) for folder in (one, other)]
        assert texts[0] == texts[1], (name, texts)


def _written(client: str, home: str) -> dict[str, int]:
    """The files of its sessions, and when each was written."""
    found = [path for pattern in KEPT[client] for path in glob.glob(os.path.join(home, pattern))]
    return {path: os.stat(path).st_mtime_ns for path in found}


class Cleaner(NamedTuple):
    """Takes out what is of this machine, and the long texts of the client's own: its instructions, what it says of its tools."""

    places: dict[str, str]
    ours: str

    def marked(self, text: str) -> str:
        for name, value in self.places.items():
            text = text.replace(value, name)
        return text

    def short(self, value: Any, longest: int = LONG) -> Any:
        if isinstance(value, dict):
            return {name: self.short(one, longest) for name, one in value.items()}
        if isinstance(value, list):
            return [self.short(one, longest) for one in value]
        if not isinstance(value, str) or len(value) <= longest or not re.search(r"\s", value):
            return value
        if value[0] in "[{":
            try:
                within = json.loads(value)
            except ValueError:
                within = None
            if within is not None:
                less = self.short(within, longest)
                return value if less == within else json.dumps(less, ensure_ascii=False, separators=(",", ":"))
        known = sum(len(line) for line in value.splitlines() if _plain(line) in self.ours)
        if known * 2 > len(value):
            return value
        end = re.search(r"</[\w ]+>\s*$", value)
        return f"{value[:24]}... (the client's own text, cut){end[0] if end else ''}"


def _plain(line: str) -> str:
    """A line without what a client puts before it: its number, the sign of a patch."""
    return re.sub(r"^\s*\d+[\t:|→]\s?|^[-+ ]", "", line).strip()


def _kept(path: str, clean: Cleaner) -> str:
    """What one file holds. Rows stay as they are; only one with a text of the client's own is written anew."""
    if path.endswith(".db"):
        return _sql(path, clean)
    lines = []
    with open(path, encoding="utf-8") as file:
        if not path.endswith(".jsonl"):
            return clean.marked(file.read())
        for line in map(clean.marked, file):
            if re.search(ECHOES, line):
                continue
            row = json.loads(line)
            less = clean.short(row, SHORT if any(mark in line for mark in OWN_ROWS) else LONG)
            lines.append(line if less == row else json.dumps(less, ensure_ascii=False, separators=(",", ":")) + "\n")
    return "".join(lines)


def _sql(path: str, clean: Cleaner) -> str:
    """A database as SQL; of one for all sessions only the newest."""
    lines = []
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as base:
        tables = dict(
            base.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
        )
        shared = "session" in tables
        (newest,) = base.execute("SELECT id FROM session ORDER BY time_updated DESC").fetchone() if shared else ("",)
        for name in OF_A_SESSION if shared else tables:
            of_it = f" WHERE {OF_A_SESSION[name]} = '{newest}'" if shared else ""
            rows = [[_quoted(clean.short(clean.marked(one) if isinstance(one, str) else one)) for one in row]
                    for row in base.execute(f"SELECT * FROM {name}{of_it}")]  # fmt: skip
            lines += [f"{tables[name]};\n", *(f"INSERT INTO {name} VALUES ({', '.join(row)});\n" for row in rows)]
    base.close()
    return "".join(lines)


def _quoted(value: Any) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return "NULL" if value is None else repr(value)


if __name__ == "__main__":
    asked, name = sys.argv[1:]
    made = record(asked, next(one for one in journeys() if one.name == name and one.recording is None))
    recording.keep(made)
    print(f"{made.path}: {os.path.getsize(made.path):,} bytes. Read it before you commit it.")
