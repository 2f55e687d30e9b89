"""Ask tests whether they mind: they are collected once, then each altered answer runs in a fork. Stands alone: stdlib and the runner."""

from __future__ import annotations

import ast
import builtins
import contextlib
import json
import os
import random
import select
import shutil
import signal
import sys
import tempfile
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

    Failure = tuple[str, str, str]  # what was raised, in which file, in which words

_MOST_KEPT, _LARGEST = 96 << 20, 4 << 20
_MOST_FORKS, _MOST_ROWS, _MOST_CONSTANTS = 120, 25, 4
_STARTS = ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system", "os.fork", "os.forkpty", "os.spawn")
_CHUNK = 65536
_NOT_NEAR = ("far", "negated", "case", "turned", "digits turned")
_FAR = ("far", "negated", "digits turned")
_MOST_LOOSE, _MOST_BESIDE, _PARTS = 3, 6, 50  # a fiftieth is what a float moves by
_MOST_ASKED = 1500


class Kept:
    """The tree as it was: after each child what it left there is taken away and what it changed is put back."""

    def __init__(self, top: str) -> None:
        self._top, self._files, self._size = top, {}, 0
        for path, info in self._listed().items():
            data = None
            if info[0] <= _LARGEST and self._size + info[0] <= _MOST_KEPT:
                with contextlib.suppress(OSError), open(path, "rb") as file:
                    data = file.read()
                    self._size += len(data)
            self._files[path] = (info, data)

    def _listed(self) -> dict[str, tuple[int, int, int]]:
        found = {}
        for at, _, names in os.walk(self._top):
            for name in names:
                path = os.path.join(at, name)
                with contextlib.suppress(OSError):
                    info = os.lstat(path)
                    found[path] = (info.st_size, info.st_mtime_ns, info.st_mode)
        return found

    def put_back(self) -> bool:
        """Whether everything is as it was."""
        now = self._listed()
        for path in now.keys() - self._files.keys():
            with contextlib.suppress(OSError):
                os.unlink(path)
        whole = True
        for path, (info, data) in self._files.items():
            if now.get(path) == info:
                continue
            if data is None:
                whole = False
                continue
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with contextlib.suppress(OSError):
                os.unlink(path)
            with open(path, "wb") as file:
                file.write(data)
            os.utime(path, ns=(info[1], info[1]))
            os.chmod(path, info[2] & 0o7777)
        return whole


class AskedTests:
    """Asks collected tests; how they are run and how their failures are read is their runner's business."""

    _anywhere = False
    held: dict[str, int] = {}  # noqa: RUF012 - whoever runs the tests puts a dictionary of its own here

    def __init__(
        self, say: Callable[[dict[str, Any]], None], job: dict[str, Any], values: ModuleType, boundary: ModuleType
    ) -> None:
        self._say, self._top, self._b = say, os.path.realpath(job["tree"]), boundary
        self._ways_of, self._kin_of, self._fits_all = values.ways_of, values.kin_of, values.fits_all
        self._values = values
        self._job = job.pop("inside")
        self._place = os.path.join(os.path.dirname(job["cache"]), "own")
        self._fence = boundary.Fence(self._top, self._job["product"], self._job["uses"])
        self._line = boundary.Boundary()
        self._pool = values.Pool()
        self._until = time.monotonic() + self._job["seconds"]
        letters = "abcdefghiklmnoprstuvwz"
        name = "_" + "".join(random.SystemRandom().choices(letters, k=12))
        setattr(builtins, name, self._line)
        setattr(builtins, self._job["name"], self._pool)
        self._name = name
        self._fence.install(name)
        self._line.is_product = self._fence.is_product
        self._noticed: tuple[Callable[[random.Random], dict[str, Any]], int] | None = None
        self._kept: Any = None
        self._run: Any = None
        self._starts: list[str] = []

    def is_product(self, file: str) -> bool:
        """Whether a file is code that the boundary stands around."""
        return bool(self._fence.path_of(file))

    def ask(self, collected: list[tuple[str, Any]], run: Callable[[Any], Failure | None]) -> None:
        """Say of each test what came of it; `run` runs one item and tells how it failed."""
        self._pool.fill(self._job.pop("pool"))
        self._kept, self._run = Kept(self._top), run
        opinions: list[tuple[Any, list[Any], dict[str, Any], Any]] = []
        for test in self._job["tests"]:
            items = [item for name, item in collected if name.partition("[")[0] == test["node"]][:_MOST_ROWS]
            self._noticed = None
            found = self._about(test, items) if items else {"code": "not-probed", "why": "not collected"}
            opinions.append((test, items, found, self._noticed))
        for test, items, found, noticed in opinions:
            if not found["code"] and noticed is not None and not self._minds_here(items, *noticed):
                found.update(code="answer-not-asked", why="in the very process of the runner")
            self._say({"t": "opinion", "id": test["id"], "kind": found.pop("code"), "text": json.dumps(found)})

    def _minds_here(self, items: list[Any], work: Callable[[random.Random], dict[str, Any]], seed: int) -> bool:
        """Whether what was noticed in a child is noticed in this process too, which no test can tell from a person's run."""
        plan = work(random.Random(seed)).get("plan")  # noqa: S311 - drawn as the child drew it
        bad = False
        for item in items:
            try:
                bad = self._run(item) is not None or bad
            except BaseException:  # noqa: BLE001 - whatever it is, it minds
                bad = True
        self._line.on = False
        return bad or plan is None or not plan.met

    # --- one test ---------------------------------------------------------------------------------------------

    def _about(self, test: dict[str, Any], items: list[Any]) -> dict[str, Any]:
        """What is wrong with one test: a code, or nothing, and the figures."""
        figures: dict[str, Any] = {"asked": 0, "of": 0, "forks": 0, "seeds": []}

        def fork(work: Callable[[random.Random], dict[str, Any]]) -> dict[str, Any]:
            answer = self._fork(items, work)
            figures["forks"] += 1
            figures["seeds"].append(answer.get("seed", 0))
            return answer

        first = fork(self._survey)
        if "passed" not in first or not first["passed"]:
            return {
                **figures,
                "code": "failed",
                "why": "no answer",
                **{key: first.get(key, "") for key in ("why", "raised", "at")},
            }
        if first["loaded"]:
            return {**figures, "code": "machine-code", "why": ", ".join(first["loaded"])}
        if first["fits"]:
            why = f"is answered by {first['fits'][0]} with a value that says it is equal to everything"
            return {**figures, "code": "any-answer-fits", "why": why}
        values = self._changed_values()
        figures["of"] = len(first["asked"]) + len(values)
        noticed, found = self._enter(first["asked"], values, fork, figures)
        if not noticed and not found:
            found = self._not_entered(test, first, fork)
        if noticed:
            found = self._together(first["asked"], fork) or self._beside(test["node"], first["asked"], fork)
            noticed = not found
        if noticed or (found and found["code"] == "not-probed"):
            fits = self._chance(test, items, set(first["seen"]), fork)
            found = fits if fits["code"] else found
        return {**figures, **(found or {"code": ""})}

    def _not_entered(
        self, test: dict[str, Any], first: dict[str, Any], fork: Callable[..., dict[str, Any]]
    ) -> dict[str, Any]:
        """Nothing that changed was entered: only where nothing stands between the test and what it would have entered."""
        if first["entered"]:
            return {"code": "not-probed", "why": "nothing it answered could be altered"}
        if first["starts"]:
            return {"code": "not-probed", "why": f"it starts processes ({first['starts'][0]})"}
        if test["unseen"]:
            return {"code": "not-probed", "why": test["unseen"]}
        if fork(self._profiled).get("through"):
            return {"code": "not-probed", "why": "the project's code was loaded in a way of its own"}
        return {"code": "never-entered", "why": ""}

    def _enter(
        self, asked: list[Any], values: list[Any], fork: Callable[..., dict[str, Any]], figures: dict[str, Any]
    ) -> tuple[bool, dict[str, Any]]:
        """Each question is altered in every way until one is noticed; what cannot be altered does not count."""
        first: list[tuple[str, Any]] = []
        last: list[tuple[str, Any]] = []
        answered = [one for one in asked if not begins(one)] or asked
        random.SystemRandom().shuffle(answered)
        for one in sorted(answered, key=lambda one: not one["direct"]):
            if one["ways"]:
                first.append(("question", (one, "")))
            if one["plain"] is not None:
                last.append(("question", (one, self._b.LEFT_OUT)))
        tried: dict[tuple[str, str], list[str]] = {}
        for each in (first, [("value", one) for one in values], last):
            rounds = each
            while rounds:
                left = []
                for kind, one in rounds:
                    if figures["forks"] >= _MOST_FORKS or time.monotonic() > self._until:
                        return False, {"code": "not-probed", "why": "there was not time for all of it"}
                    key = kind, json.dumps(one if kind == "value" else [one[0]["where"], one[0]["given"]])
                    labels = tried.get(key, [])
                    aside = self._aside(one[0]) if kind == "question" and not one[1] else ()
                    if aside and set(one[0]["ways"]) <= {*labels, *aside}:
                        continue
                    work = self._altering(kind, one, (*labels, *aside))
                    said = fork(work)
                    label = said.get("chosen", "")
                    if not label and kind == "question" and one[0]["given"]:
                        left.append((kind, ({**one[0], "given": ""}, one[1])))  # its arguments are others each time
                    if label and label not in labels:
                        tried[key] = [*labels, label]
                        left += [(kind, one)] if label != self._b.LEFT_OUT else []
                    figures["asked"] = len(tried)
                    if label and said.get("passed") is False:
                        self._noticed = (work, said["seed"]) if kind == "question" else None
                        return True, {}
                rounds = left
        if not any(kind == "question" for kind, _ in tried):
            return False, {"code": "not-probed", "why": "nothing it answered could be altered"} if asked else {}
        if self._loosely(answered, fork):
            return True, {}
        labels = sorted({label for one in tried.values() for label in one})
        return False, {"code": "answer-not-asked", "why": ", ".join(labels[:8])}

    def _aside(self, one: dict[str, Any]) -> tuple[str, ...]:
        """Ways that do not count: of a number what is far off (`_loosely` looks there), of an error that a test itself awaits none at all."""
        if self._values.number_of(one) is not None:
            return _FAR
        return (self._b.NOTHING,) if one["direct"] and self._b.OTHER_ERROR in one["ways"] else ()

    def _loosely(self, asked: list[dict[str, Any]], fork: Callable[..., dict[str, Any]]) -> bool:
        """Whether a test minds a number some way off, or its sign; of one that is another each time no more can be asked."""
        listed = sorted((one for one in asked if self._values.number_of(one)), key=lambda one: not one["direct"])[
            :_MOST_LOOSE
        ]
        for one in listed:
            value = self._values.number_of(one)
            step = abs(value) // _PARTS
            for other in (value + step, value - step) if step > 2 else ():  # noqa: PLR2004 - two were tried
                if self._takes(one, other, fork) is False:
                    return True
            sign = 1 if value > 0 else -1
            if self._takes(one, sign, fork) and self._takes(one, -sign, fork) is False:
                return True
        return any(self._wavers(one, fork) for one in listed)

    def _takes(self, one: dict[str, Any], other: Any, fork: Callable[..., dict[str, Any]]) -> bool | None:
        """Whether the test passes where this function answers nothing but `other`; None where nobody knows."""

        def put(chance: random.Random) -> dict[str, Any]:
            plan = self._b.Alteration(one["where"], "", chance)
            plan.chosen, plan.put = "put", (other,)
            self._line.begin(plan, chance)
            return {"plan": plan}

        said = fork(put)
        if said.get("passed") is False:
            self._noticed = put, said["seed"]
        return bool(said["passed"]) if said.get("chosen") else None

    def _wavers(self, one: dict[str, Any], fork: Callable[..., dict[str, Any]]) -> bool:
        """Whether the same question has another answer where chance is another."""

        def anew(chance: random.Random) -> dict[str, Any]:
            random.seed(os.urandom(8))
            return self._survey(chance)

        again = fork(anew).get("asked", ())
        return any(
            (each["where"], each["given"]) == (one["where"], one["given"]) and each["answer"] != one["answer"]
            for each in again
        )

    def _beside(self, node: str, asked: list[dict[str, Any]], fork: Callable[..., dict[str, Any]]) -> dict[str, Any]:
        """A value that a test writes beside the answer, in one list or one condition: it must not do as well.

        An answer that may be anything at all is not what the test is about.
        """
        kept, left = self._noticed, _MOST_BESIDE
        groups: list[list[str]] = self._job["beside"].get(node.partition("::")[0], [])
        found: dict[str, Any] = {}
        for one in asked:
            for group in groups if one["direct"] and not found else ():
                value = one["plain"] if one["plain"] in group else None
                others = [text for text in group if value and text != value and _is_alike(text, value)]
                strange = self._values.strange(ast.literal_eval(value)) if value and others and left > 0 else None
                if strange is None or self._takes(one, strange, fork) is not False:
                    continue
                for other in others[:left]:
                    left -= 1
                    if not found and self._takes(one, ast.literal_eval(other), fork) and not self._wavers(one, fork):
                        found = {"code": "answer-not-asked", "why": f"{other} for {value}"[:200]}
        self._noticed = kept
        return found

    def _together(self, asked: list[dict[str, Any]], fork: Callable[..., dict[str, Any]]) -> dict[str, Any]:
        """Two functions that only agree with each other: altered alike, nobody minds."""
        answered = [one for one in asked if one["direct"] and one["plain"] not in (None, "None") and not begins(one)]
        names = sorted({one["where"] for one in answered})
        if len(names) < 2:  # noqa: PLR2004 - two can agree
            return {}
        for _ in range(2):

            def alike(chance: random.Random) -> dict[str, Any]:
                plan = self._b.Alteration(names[0], "", chance)
                plan.also = frozenset(names)
                self._line.begin(plan, chance)
                return {"plan": plan}

            said = fork(alike)
            if not said.get("passed") or not said.get("chosen"):
                return {}
        return {"code": "answer-not-asked", "why": f"{' and '.join(names)} alike"}

    def _chance(
        self, test: dict[str, Any], items: list[Any], seen: set[str], fork: Callable[..., dict[str, Any]]
    ) -> dict[str, Any]:
        """A neighbour of what the test asks for must not fit as well, nor quite another value that looks like it."""
        keys: list[tuple[str, str]] = [("constant", key) for key in test["wanted"] if key in seen]
        known = {name for item in items if hasattr(item, "callspec") for name in item.callspec.params}
        keys += [("parameter", name) for name in test["parameters"] if name in known]
        chance = random.SystemRandom()
        drawn = chance.sample(keys, min(len(keys), _MOST_CONSTANTS))
        for kind, key, other in [(*one, self._near_by) for one in drawn] + [(*one, self._kin_of) for one in drawn[:1]]:
            for _ in range(2):
                if time.monotonic() > self._until:
                    return {"code": ""}
                said = fork(self._moving(kind, key, items, other))
                if not said.get("passed") or not said.get("chosen"):
                    break
            else:
                told = self._job["told"].get(key, key)
                return {"code": "any-answer-fits", "why": f"passes also when it asks for something else than {told}"}
        return {"code": ""}

    # --- what happens in a child ------------------------------------------------------------------------------

    def _survey(self, chance: random.Random) -> dict[str, Any]:
        self._line.begin(None, chance)
        loaded: list[str] = []

        def look(event: str, given: Any) -> None:
            if event in _STARTS:
                self._starts.append(event)
            elif event == "ctypes.dlopen" and given[0]:
                loaded.append(os.path.realpath(given[0]))

        sys.addaudithook(look)
        return {"loaded": loaded}

    def _equal_to_all(self) -> list[str]:
        """Functions whose answer is equal to whatever looks like it, or like what the test asks for."""
        chance, asked = random.SystemRandom(), list(self._pool.seen.values())
        return [mark[0] for mark, value in self._line.own if self._fits_all(value, asked, chance)]

    def _not_to_read(self, loaded: list[str]) -> list[str]:
        """Libraries of machine code that this phase brought, or that the code wrote itself where nobody finds them."""
        with contextlib.suppress(OSError), open("/proc/self/maps") as file:
            mapped = [line.split(maxsplit=5)[5].strip() for line in file if "x" in line.split()[1] and "/" in line]
            loaded += [
                one for one in mapped if not one.startswith("/memfd:libffi")
            ]  # where SELinux is on, its callbacks
        own = () if self._starts else (self._place + os.sep, "/memfd:")  # who starts a compiler may load what it made
        paths = {os.path.relpath(one, self._top) if one.startswith(self._fence.top) else one for one in loaded}
        return sorted(one for one in paths if one in self._job.get("brought", ()) or (own and one.startswith(own)))[:3]

    def _profiled(self, _chance: random.Random) -> dict[str, Any]:
        """Whether a function ran that should have been wrapped and is not: it was loaded in a way of its own."""
        found: list[str] = []

        def look(frame: Any, event: str, _given: Any) -> None:
            code = frame.f_code
            if (
                event == "call"
                and self._name not in code.co_names
                and self._fence.wraps(code.co_filename, code.co_name)
            ):
                found.append(code.co_name)

        sys.setprofile(look)
        return {"through": found}

    def _altering(self, kind: str, one: Any, tried: tuple[str, ...]) -> Callable[[random.Random], dict[str, Any]]:
        def value(chance: random.Random) -> dict[str, Any]:
            return {"chosen": self._set_value(one[0], one[1], chance, tried)}

        def question(chance: random.Random) -> dict[str, Any]:
            asked, how = one
            kept = ast.literal_eval(asked["plain"]) if how else None
            plan = self._b.Alteration(asked["where"], asked["given"], chance, tried=tried, kept=kept)
            plan.chosen = how
            self._line.begin(plan, chance)
            return {"plan": plan}

        return value if kind == "value" else question

    def _near_by(self, value: Any, chance: random.Random) -> Any:
        near = [one for label, one in self._ways_of(value, chance) if label not in _NOT_NEAR]
        return chance.choice(near) if near else None

    def _moving(
        self, kind: str, key: str, items: list[Any], other: Callable[[Any, random.Random], Any]
    ) -> Callable[[random.Random], dict[str, Any]]:
        def move(chance: random.Random) -> dict[str, Any]:
            if kind == "constant":
                return {"chosen": key if self._pool.move(key, lambda value: other(value, chance)) else ""}
            done = ""
            for item in items:
                for held in (item.callspec.params, getattr(item.callspec, "funcargs", {})):
                    made = other(held[key], chance) if key in held and self._values.is_asked_for(held[key]) else None
                    if made is not None:
                        held[key] = made
                        done = key
            return {"chosen": done}

        return move

    def _changed_values(self) -> list[tuple[str, str]]:
        """Values of modules that changed and can be altered, and functions that keep their answers."""
        chance = random.Random(0)  # noqa: S311 - only whether there is a way
        return [
            (path, name)
            for path, module in self._fence.modules()
            for name in (*self._job["values"].get(path, ()), *self._job["product"].get(path, ()))
            if name in vars(module) and self._others(vars(module)[name], chance)
        ]

    def _others(self, value: Any, chance: random.Random) -> Any:
        """What can stand in the place of a value: of a function with a cache the one that answers anew each time."""
        plain = getattr(value, "__wrapped__", None) if hasattr(value, "cache_info") else None
        return [("without its cache", plain)] if plain is not None else self._ways_of(value, chance)

    def _set_value(self, path: str, name: str, chance: random.Random, tried: tuple[str, ...]) -> str:
        old = next(vars(module)[name] for place, module in self._fence.modules() if place == path)
        ways = self._others(old, chance)
        label, new = chance.choice([one for one in ways if one[0] not in tried] or ways)
        for module in list(sys.modules.values()):
            held = getattr(module, "__dict__", {})
            if held.get(name) is old:
                held[name] = new
        return str(label)

    # --- forks ------------------------------------------------------------------------------------------------

    def _fork(self, items: list[Any], work: Callable[[random.Random], dict[str, Any]]) -> dict[str, Any]:
        """Run the items in a child of their own, in its own home, and put the tree back."""
        place = self._place  # the same for each: paths are among the arguments
        os.makedirs(place)
        token = os.urandom(8).hex()
        source, sink = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(source)
            self._child(items, work, place, token, sink)
        os.close(sink)
        data = _read(source, max(1.0, min(self._until + 5 - time.monotonic(), 30.0)))
        os.close(source)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        shutil.rmtree(place, ignore_errors=True)
        whole = self._kept.put_back()
        head, _, text = data.partition(b"\n")
        if head != f"{token} {len(text)}".encode() or not whole:
            return {"why": "it changed what cannot be put back" if not whole else "its run was cut short"}
        answer: dict[str, Any] = json.loads(text)
        return answer

    def _child(self, items: list[Any], work: Callable[..., dict[str, Any]], place: str, token: str, sink: int) -> None:
        try:
            os.environ.update(HOME=place, TMPDIR=place, CI="true")
            if self._anywhere and random.SystemRandom().random() < 0.5:  # noqa: PLR2004 - a test that looks must not know
                del os.environ["CI"]
            tempfile.tempdir = None
            seed = int.from_bytes(os.urandom(6), "big")
            told = work(random.Random(seed))  # noqa: S311 - the seed is told afterwards
            failed: dict[int, Failure] = {}
            for number, item in enumerate(items):
                self._line.test = number
                failure = self._run(item)
                if failure is not None:
                    failed[number] = failure
            raised, file, why = next(iter(failed.values()), ("", "", ""))
            file = os.path.realpath(file)
            at = file[len(self._fence.top) :] if file.startswith(self._fence.top) else ""
            sys.setprofile(None)
            self._line.on = False
            plan = told.pop("plan", None)
            told["fits"] = self._equal_to_all()
            told["loaded"] = self._not_to_read(told.get("loaded", []))
            asked = [{"where": key[0], "given": key[1], **one} for key, one in self._line.asked.items()]
            found = {
                **told,
                "seed": seed,
                "passed": not failed,
                "failed": sorted(failed),
                "raised": raised,
                "why": why,
                "at": at,
                "asked": sorted(asked, key=lambda one: not one["direct"])[:_MOST_ASKED],
                "entered": len(self._line.entered),
                "seen": sorted(self._pool.seen),
                "held": self.held,
                "starts": self._starts[:3],
            }
            if plan is not None:
                found["chosen"] = plan.chosen if plan.met else ""
            text = json.dumps(found).encode()
            line = memoryview(f"{token} {len(text)}\n".encode() + text)
            while line:
                line = line[os.write(sink, line) :]
        finally:
            os._exit(0)


def asked_tests(
    say: Callable[[dict[str, Any]], None], job: dict[str, Any], ours: Callable[[str], ModuleType]
) -> AskedTests:
    """Whoever asks what this job wants to know."""
    kind: type[AskedTests] = ours("same").SameQuestions if "forks" in job["inside"] else AskedTests
    return kind(say, job, ours("values"), ours("boundary"))


def begins(one: dict[str, Any]) -> bool:
    """Whether a question is how an object is made: leaving that out breaks whatever uses it, and says nothing of its answer."""
    return one["where"].rpartition(":")[2].rpartition(".")[2] in (
        "__init__",
        "__new__",
        "__post_init__",
        "__set_name__",
    )


def _is_alike(one: str, other: str) -> bool:
    return type(ast.literal_eval(one)) is type(ast.literal_eval(other))


def _read(source: int, seconds: float) -> bytes:
    """All a child writes before its time is up."""
    parts, until = [], time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if not select.select([source], [], [], left)[0]:
            break
        part = os.read(source, _CHUNK)
        if not part:
            break
        parts.append(part)
        head, _, text = b"".join(parts).partition(b"\n") if len(parts) == 1 or len(part) < _CHUNK else (b"", b"", b"")
        if head and head.endswith(f" {len(text)}".encode()):
            break  # whatever it left running may hold the pipe
    return b"".join(parts)
