"""Recorded journeys: what was said, done and seen, act by act, and the key of typed facts at the moment of the cut.

A journey is a table of `recorded/*.toml`. Its acts have one verb each: `person`, `say`, `write` and `append` (with `text`), `replace` (`old`,
`new`), `delete`, `run`, `todo`, `commit`, `browse`. What a successor must know of an act stands beside it, as key words that are
separated by ';' (alternatives by '|'): `goal`, `rule`, `decision`, `dead`, `environment`, `next`. Files, results, open steps and the base
are no words of the key: they are taken from git and from what the commands really did.
"""

from __future__ import annotations

import os
import tomllib
from typing import Any, NamedTuple

from bench.handoff.recording import Recording, recordings

HERE = os.path.dirname(os.path.abspath(__file__))
CUTS = ("mid-edit", "red test", "compaction", "killed", "other vendor")
END = "its own end"
"""Where a session stops that was recorded: what a real client has written cannot be cut elsewhere."""
SAID = ("goal", "rule", "decision", "dead", "environment", "next")
KINDS = ("goal", "rule", "decision", "dead end", "file", "result", "step", "next", "environment", "base")
RUNNERS = ("pytest", "go", "npm", "cargo")
NEAR, NEAR_RESULT = 320, 900


class Fact(NamedTuple):
    """One thing a successor must know: every group of words must stand in the text, close together."""

    kind: str
    words: tuple[tuple[str, ...], ...]
    near: int = NEAR
    how: str = ""
    """Of a file: new, changed or deleted."""

    @property
    def label(self) -> str:
        return f"{self.kind}: {'; '.join(group[0] for group in self.words)}" + (f" ({self.how})" if self.how else "")


class Journey(NamedTuple):
    """One session's story, before it is cut."""

    name: str
    route: str
    """How the successor comes to it: task, tab, feature or take."""
    client: str
    heir: str
    """Who goes on where another vendor does."""
    check: str
    files: dict[str, str]
    tests: tuple[str, ...]
    agents: str
    """What AGENTS.md says: lines below '## Rules' are rules of the project."""
    summary: str
    acts: tuple[dict[str, Any], ...]
    recording: Recording | None = None
    """The client's own record of it; without one, a writer of ours makes the record."""

    @property
    def cuts(self) -> tuple[str, ...]:
        return (END,) if self.recording else CUTS


class Trace(NamedTuple):
    """What really happened until the cut, as the one who acted wrote it down."""

    runs: tuple[dict[str, Any], ...]
    files: dict[str, str]
    base: str
    head: str


def journeys() -> list[Journey]:
    """All of them, in the order of the files; those that were recorded behind them."""
    found = []
    folder = os.path.join(HERE, "recorded")
    for name in sorted(one for one in os.listdir(folder) if one.endswith(".toml")):
        with open(os.path.join(folder, name), "rb") as file:
            found += [_journey(table) for table in tomllib.load(file)["journey"]]
    told = {one.name: one for one in found}
    for one in recordings():
        name = f"{one.journey}-by-{one.client}"
        found.append(told[one.journey]._replace(name=name, client=one.client, recording=one))
    return found


def _journey(table: dict[str, Any]) -> Journey:
    return Journey(
        name=table["name"],
        route=table["route"],
        client=table["client"],
        heir=table.get("heir", "codex" if table["client"] == "claude" else "claude"),
        check=table["check"],
        files=table["files"],
        tests=tuple(table["tests"]),
        agents=table.get("agents", ""),
        summary=table.get("summary", "The work goes on."),
        acts=tuple(table["acts"]),
    )


def cut(journey: Journey, where: str) -> list[dict[str, Any]]:
    """The acts that happen until the cut."""
    acts = list(journey.acts)
    if where == END:
        return acts
    if where == "mid-edit":
        return acts[: 1 + max(number for number, act in enumerate(acts) if act.get("half"))]
    if where == "red test":
        return acts[: 1 + max(number for number, act in enumerate(acts) if act.get("red"))]
    if where == "compaction":
        at = len(acts) * 2 // 3
        return [*acts[:at], {"compact": journey.summary}, *acts[at:]]
    if where == "killed":
        return [*acts, {"killed": journey.check}]
    return [*acts, {"limit": "You've hit your usage limit. Try again in 2 hours."}]


def key(acts: list[dict[str, Any]], trace: Trace) -> list[Fact]:
    """The facts that were true at the cut."""
    found: list[Fact] = []
    last: dict[str, Fact] = {}
    withdrawn = {act["withdraws"] for act in acts if "withdraws" in act}
    for act in acts:
        for kind in SAID:
            for words in _listed(act.get(kind, ())):
                if words in withdrawn:
                    continue
                fact = Fact({"dead": "dead end"}.get(kind, kind), grouped(words))
                if kind == "next":
                    last[kind] = fact
                else:
                    found.append(fact)
    found += last.values()
    found += [Fact("step", grouped(step[4:])) for step in open_steps(acts)]
    found += [Fact("file", ((path,),), near=160, how=how) for path, how in sorted(trace.files.items())]
    found += [_result(run) for run in checks(trace).values()]
    return [*found, Fact("base", ((trace.base[:7],),))]


def checks(trace: Trace) -> dict[str, dict[str, Any]]:
    """The last run of each command that runs tests; what `cat` printed is nobody's news."""
    return {run["command"]: run for run in trace.runs if run["command"].split()[0] in RUNNERS}


def _listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def grouped(words: str) -> tuple[tuple[str, ...], ...]:
    """'a; b|c' as (a) and (b or c)."""
    return tuple(tuple(one.strip().lower() for one in group.split("|")) for group in words.split(";") if group.strip())


def todo_of(acts: list[dict[str, Any]]) -> list[str]:
    """The last list of steps: '[x] …' done, '[>] …' at work, '[ ] …' open."""
    return next((act["todo"] for act in reversed(acts) if "todo" in act), [])


def open_steps(acts: list[dict[str, Any]]) -> list[str]:
    return [step for step in todo_of(acts) if not step.startswith("[x]")]


def _result(run: dict[str, Any]) -> Fact:
    command = (run["command"].lower(),)
    if run["exit"] == 0:
        return Fact("result", (command, ("green", "pass", "exit 0", "ok", "succeeded")), near=400)
    red = [((test.lower(),), (message.lower(),)) for test, message in run["red"]]
    verdict = ("red", "fail", "exit 1", "not ok", f"exit {run['exit']}")
    return Fact("result", (command, verdict, *(group for pair in red[:2] for group in pair)), near=NEAR_RESULT)


class Trap(NamedTuple):
    """What must not be said: a thing that was true once (stale) or never (invented)."""

    kind: str
    words: tuple[tuple[str, ...], ...]
    near: int
    where: str = ""
    """Only below a heading that holds one of these words; empty: anywhere."""
    unless: str = ""
    """It is no fault where the text also holds these words."""


def traps(journey: Journey, acts: list[dict[str, Any]], trace: Trace) -> list[Trap]:
    """What a text about this journey may have wrong at this cut."""
    found: list[Trap] = []
    following = [act["next"] for act in acts if "next" in act]
    found += [Trap("stale", (("next",), *grouped(words)), 140) for words in following[:-1]]
    lists = [act["todo"] for act in acts if "todo" in act]
    done = {step[4:] for step in (lists[-1] if lists else ()) if step.startswith("[x]")}
    still = {step[4:] for step in open_steps(acts)}
    found += [Trap("stale", ((f"{mark} {step.lower()}",),), 200) for step in done for mark in ("[ ]", "[>]")]
    found += [Trap("invented", ((f"[x] {step.lower()}",),), 200) for step in still]
    found += [
        Trap("stale", grouped(act["withdraws"]), 200, "rule|constraint", unless=act["person"].lower())
        for act in acts
        if "withdraws" in act
    ]
    newest = checks(trace)
    red_now = {test for run in newest.values() for test, _ in run["red"]}
    mended = {pair for run in trace.runs for pair in map(tuple, run["red"]) if pair[0] not in red_now}
    found += [
        Trap("stale", ((test.lower(),), (message.lower(),), ("red", "fail")), 300) for test, message in sorted(mended)
    ]
    if trace.head != trace.base:
        found.append(Trap("stale", ((f"head: {trace.base[:7]}", f"head {trace.base[:7]}"),), 30))
    decoys = [path for path in ("README.md", "docs/notes-1.md") if path not in trace.files and path in journey.files]
    found += [Trap("invented", ((path.lower(),), ("changed", "modified", "edited", "deleted")), 60) for path in decoys]
    found += [
        Trap("invented", grouped(act["injected"]), 240, "rule|constraint|asked|person|instruct")
        for act in acts
        if "injected" in act
    ]
    return found
