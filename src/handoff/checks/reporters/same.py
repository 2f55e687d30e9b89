"""Ask changed tests what they asked before. Stands alone, beside `asking`."""

from __future__ import annotations

import ast
import importlib
import json
import os
import random
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    from handoff.checks.reporters.asking import AskedTests, Failure, Kept, begins
else:
    # Loaded before this one: under that name where it stands alone.
    asking = sys.modules.get("_handoff_asking") or importlib.import_module("handoff.checks.reporters.asking")
    AskedTests, Kept, begins = asking.AskedTests, asking.Kept, asking.begins

_MOST_ROWS = 25
_MOST_OLD, _MOST_SAME, _MOST_NAMED, _MOST_LED, _DEEPEST = 6, 12, 8, 6, 4


class SameQuestions(AskedTests):
    """Old tests say which altered answers they mind; new ones are asked whether they mind those too."""

    _anywhere = True

    def __init__(
        self, say: Callable[[dict[str, Any]], None], job: dict[str, Any], values: ModuleType, boundary: ModuleType
    ) -> None:
        super().__init__(say, job, values, boundary)
        self._line.begin(None, random.Random(0))  # noqa: S311 - what is asked while tests are collected is only remembered
        self._forks = 0
        self._last: list[tuple[dict[str, Any], list[Any], Callable[[random.Random], dict[str, Any]]]] = []
        self._early: dict[tuple[str, str], dict[str, Any]] = {}
        self._seeds: list[int] = []

    def ask(self, collected: list[tuple[str, Any]], run: Callable[[Any], Failure | None]) -> None:
        """Say what came of it, all in one."""
        self._line.on = False
        early = self._early = dict(self._line.asked)
        self._line.asked, self._line.entered = {}, {}
        self._kept, self._run = Kept(self._top), run
        items: list[tuple[str, Any]] = []
        rows: dict[str, int] = {}
        for name, item in collected:
            node = name.partition("[")[0]
            rows[node] = rows.get(node, 0) + 1
            if node.partition("::")[0] in self._job["files"] and rows[node] <= _MOST_ROWS:
                items.append((node, item))
        first = self._one([item for _, item in items], self._survey)
        if "asked" not in first:
            found: dict[str, Any] = {"why": first.get("why", "no answer")}
        elif "noticed" in self._job:
            found = self._minded([item for _, item in items], first, early)
            for one, mine, work in self._last[:_MOST_SAME]:
                found["lost"] += [] if self._minds_here(mine, work, 1) else [one]
        else:
            found = self._notice(items, first)
            for one in found["noticed"]:
                one["files"] = sorted({items[number][0].partition("::")[0] for number in one.pop("tests")})
        found["seen"] = sorted({node.partition("::")[0] for node, _ in items})
        failed = [items[number][0] for number in first.get("failed", ())]
        found.update(failed=failed, held=first.get("held", {}), forks=self._forks, seeds=self._seeds)
        self._say({"t": "opinion", "id": "same", "kind": "same", "text": json.dumps(found)})

    def _drawn(self, items: list[tuple[str, Any]]) -> set[int]:
        """Some of the tests, by their numbers; those that were changed come before others."""
        first = {node: at for at, node in enumerate(self._job["first"])}
        nodes = list(dict.fromkeys(node for node, _ in items))
        random.SystemRandom().shuffle(nodes)
        kept = sorted(nodes, key=lambda node: first.get(node, len(first)))[:_MOST_OLD]
        return {number for number, (node, _) in enumerate(items) if node in kept}

    def _one(self, items: list[Any], work: Callable[[random.Random], dict[str, Any]]) -> dict[str, Any]:
        self._forks += 1
        answer = self._fork(items, work)
        self._seeds.append(answer.get("seed", 0))
        return answer

    def _left(self) -> bool:
        return bool(self._forks < self._job["forks"]) and time.monotonic() < self._until

    # --- what old tests mind ----------------------------------------------------------------------------------

    def _notice(self, listed: list[tuple[str, Any]], first: dict[str, Any]) -> dict[str, Any]:
        items = [item for _, item in listed]
        drawn = self._drawn(listed) - set(first["failed"])
        second = self._one([items[number] for number in sorted(drawn)], self._survey)
        again = {_mark(one): one["answer"] for one in second.get("asked", ())}
        steady = [
            one
            for one in first["asked"]
            if one["ways"] and not begins(one) and again.get(_mark(one)) == one["answer"] and self._may_move(one)
            if drawn & set(one["tests"])
        ]
        random.SystemRandom().shuffle(steady)
        for one in steady:
            one["tests"] = sorted(drawn & set(one["tests"]))
        ordered = sorted(_in_turn(steady), key=lambda one: not one["direct"])
        noticed, asked = [], 0
        for one in ordered[:_MOST_SAME]:
            if not self._left():
                break
            asked += 1
            for how in self._hows(one):
                if not self._left():
                    break
                seed = int.from_bytes(os.urandom(4), "big")
                said = self._one([items[number] for number in one["tests"]], self._turned(one, how, seed))
                if said.get("passed") is False and said.get("chosen"):
                    kept = {name: one[name] for name in ("where", "given", "answer", "tests")}
                    noticed.append({**kept, "how": how, "seed": seed})
        known = sorted({one["where"] for one in first["asked"]} | {where for where, _ in self._early})
        return {"noticed": noticed, "asked": asked, "of": len(steady), "known": known}

    def _may_move(self, one: dict[str, Any]) -> bool:
        """Whether a question stays itself where its test has another name or place: paths are other ones there."""
        said = str(one["given"]) + str(one["answer"])
        return self._place not in said and self._top not in said

    def _hows(self, one: dict[str, Any]) -> list[list[Any]]:
        """Ways to answer it otherwise: near by, nothing, and the values that the new tests name."""
        chance = random.SystemRandom()
        near = [["way", label] for label in one["ways"]]
        found = chance.sample(near, min(len(near), _MOST_NAMED))
        if one["plain"] is not None:
            found.append(["left", one["plain"]])
        if one["plain"] not in (None, "None") and one["ways"]:
            found.append(["put", "None"])
            value = ast.literal_eval(one["plain"])
            named = [text for text in self._job["named"] if _is_like(text, value)]
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                named += [repr(value + ast.literal_eval(text)) for text in named]
            found += [["put", text] for text in chance.sample(named, min(len(named), _MOST_NAMED))]
        return found

    def _turned(self, one: dict[str, Any], how: list[Any], seed: int) -> Callable[[random.Random], dict[str, Any]]:
        def turn(chance: random.Random) -> dict[str, Any]:
            drawn = random.Random(seed)  # noqa: S311 - the same answer for the old test and the new
            plan = self._b.Alteration(one["where"], one["given"], drawn)
            plan.chosen = how[1]
            if how[0] == "put":
                plan.put = (ast.literal_eval(how[1]),)
            if how[0] == "left":
                plan.chosen, plan.kept = self._b.LEFT_OUT, ast.literal_eval(how[1])
            self._line.begin(plan, chance)
            return {"plan": plan}

        return turn

    # --- whether new ones mind it too -------------------------------------------------------------------------

    def _minded(
        self, items: list[Any], first: dict[str, Any], early: dict[tuple[str, str], dict[str, Any]]
    ) -> dict[str, Any]:
        asked = {_mark(one): one for one in first["asked"]}
        alike: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for one in first["asked"]:
            alike.setdefault((one["given"].partition("=")[2], one["answer"]), []).append(one)
        lost: list[dict[str, Any]] = []
        dropped: list[dict[str, Any]] = []
        minded: list[dict[str, Any]] = []
        early_on = tried = 0
        last: dict[tuple[str, str], tuple[dict[str, Any], list[Any], Callable[[random.Random], dict[str, Any]]]] = {}
        listed = list(self._job["noticed"])
        random.SystemRandom().shuffle(listed)
        for one in listed:
            here = [asked[_mark(one)]] if _mark(one) in asked else []
            if not here and not self._job["here"]:  # the code has other names now
                here = alike.get((one["given"].partition("=")[2], one["answer"]), [])
            if not here:
                early_on += _mark(one) in early
                dropped += [] if _mark(one) in early else [one]
                continue
            if not self._left():
                break
            tried += 1
            minds = False
            for found in here:
                work = self._turned(found, one["how"], one["seed"])
                sound = [number for number in found["tests"] if number not in first["failed"]]
                said = self._one([items[number] for number in sound], work) if sound else {}
                minds = minds or said.get("passed") is not True or not said.get("chosen")
                last[_mark(found)] = (one, [items[number] for number in found["tests"]], work)
            (minded if minds else lost).append(one)
        self._last = [each for each in last.values() if each[0] not in lost]
        found = {"lost": lost, "dropped": dropped, "collecting": early_on, "asked": tried, "of": len(listed)}
        wraps = [where for (where, given), one in early.items() if one["direct"] and "=<function>" in given]
        wraps = [where for where in wraps if where not in self._job["known"]]
        return {**found, "decides": [*dict.fromkeys(wraps), *self._decides(items, first, minded)]}

    def _decides(self, items: list[Any], first: dict[str, Any], listed: list[dict[str, Any]]) -> list[str]:
        """What the tests newly take from the product and are led by: held, turned or moved along, they mind nothing."""
        asked = {_mark(one): one for one in first["asked"]}
        taken, missing = set(self._job["taken"]), set(self._job["maybe"])
        values = {
            (path, name)
            for path, module in self._fence.modules()
            for name in taken
            if name in vars(module)
            and not callable(vars(module)[name])
            and not isinstance(vars(module)[name], type(os))
        }
        fresh = [one for one in first["asked"] if one["direct"] and one["where"] not in self._job["known"]]
        held = {one["where"]: one for one in fresh if one["plain"] is not None and not begins(one)}
        known = {_mark(one): one for one in listed if _mark(one) in asked and one["how"][0] != "left"}
        plain = [one for mark, one in known.items() if asked[mark]["plain"] not in (None, "None")]
        found: set[str] = set()
        for one in plain[:_MOST_LED] if values or missing or held else ():
            question = asked[_mark(one)]
            mine = {
                where: ast.literal_eval(each["plain"]) for where, each in held.items() if _may_hold(where, question)
            }
            for kind, names in (("turned", values or missing), ("along", values), ("held", mine)):
                if not names or not self._left():
                    continue
                work = self._led(kind, (question, one), values, missing, mine)
                said = self._one([items[number] for number in question["tests"]], work)
                if said.get("passed") and said.get("led") and (said.get("chosen") or kind == "turned"):
                    found |= set(mine) if kind == "held" else {f"{path}:{name}" for path, name in values} or missing
        return sorted(found)

    def _led(
        self,
        kind: str,
        pair: tuple[dict[str, Any], dict[str, Any]],
        values: set[tuple[str, str]],
        missing: set[str],
        held: dict[str, Any],
    ) -> Callable[[random.Random], dict[str, Any]]:
        question, minded = pair

        def lead(chance: random.Random) -> dict[str, Any]:
            true, how = ast.literal_eval(question["plain"]), minded["how"]
            drawn = random.Random(minded["seed"])  # noqa: S311 - the very answer that they mind
            turned = self._b.Alteration(question["where"], question["given"], drawn)
            ways = [value for label, value in turned.ways(true) if label == how[1]]
            other = ast.literal_eval(how[1]) if how[0] == "put" else ways[0] if ways else None
            plan = self._b.Alteration(question["where"], question["given"], chance)
            plan.chosen, plan.put, plan.held = "led", (other,), held if kind == "held" else {}
            done = bool(held) if kind == "held" else 0
            for path, module in self._fence.modules() if kind != "held" else ():
                space = vars(module)
                for name in [name for at, name in values if at == path]:
                    new = _along(space[name], true, other) if kind == "along" else _turned(space[name])
                    done += new is not space[name]
                    self._everywhere(space[name], name, new)
                for name in missing - set(space) if kind == "turned" else ():
                    setattr(module, name, True)
                    done += 1
            self._line.begin(plan, chance)
            return {"plan": plan, "led": bool(done)}

        return lead

    @staticmethod
    def _everywhere(old: Any, name: str, new: Any) -> None:
        for module in list(sys.modules.values()):
            space = getattr(module, "__dict__", {})
            if space.get(name) is old:
                space[name] = new


def _may_hold(where: str, question: dict[str, Any]) -> bool:
    """Whether a function only judges what a question answers: one that asks it itself hides it honestly."""
    return where != question["where"] and where.rpartition(":")[2].rpartition(".")[2] not in question["under"]


def _along(value: Any, true: Any, other: Any, depth: int = 0) -> Any:
    """A value in which the altered answer stands wherever the true one stood."""
    if type(value) is type(true) and value == true:
        return other
    if depth > _DEEPEST or not isinstance(value, (list, tuple, dict, set, frozenset)):
        return value
    if isinstance(value, dict):
        made: Any = {key: _along(one, true, other, depth + 1) for key, one in value.items()}
    else:
        made = type(value)([_along(one, true, other, depth + 1) for one in value])
    return value if made == value else made


def _turned(value: Any) -> Any:
    """The opposite, nothing, or none of it."""
    if isinstance(value, bool):
        return not value
    return type(value)() if isinstance(value, (int, float, str, list, tuple, dict, set, frozenset)) and value else value


def _mark(one: dict[str, Any]) -> tuple[str, str]:
    return one["where"], one["given"]


def _in_turn(listed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One question of each test, then the next of each."""
    by_test: dict[int, int] = {}
    turns = []
    for one in listed:
        first = min(one["tests"])
        by_test[first] = by_test.get(first, 0) + 1
        turns.append((by_test[first], one))
    return [one for _, one in sorted(turns, key=lambda pair: pair[0])]


def _is_like(text: str, value: Any) -> bool:
    """Whether a value that is written out is of the same kind as an answer, and another one."""
    other = ast.literal_eval(text)
    numbers = isinstance(value, (int, float)) and isinstance(other, (int, float)) and not isinstance(other, bool)
    return (type(other) is type(value) or (numbers and not isinstance(value, bool))) and other != value
