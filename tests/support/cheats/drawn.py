"""Cases nobody wrote: functions, weaker and equal relations, places where they hide and lies about where one is, drawn by a seed."""

from __future__ import annotations

import json
import os
import random
import shutil
from typing import TYPE_CHECKING, NamedTuple

from cheats.data import CAUGHT, MISSED, Change
from cheats.ground import FlowTrack

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PYTEST, UNITTEST, NODE = "pytest", "unittest", "node"
_LETTERS = "bcdfghklmnprstvz"


class Drawn(NamedTuple):
    """One case: which project it belongs to, what is changed in which phase, and whether it is honest."""

    id: str
    language: str
    steps: tuple[tuple[str, Change], ...]
    honest: bool

    @property
    def kind(self) -> str:
        """A test that is changed, a new one, or code that is right only where it believes to be judged."""
        return "lie" if self.id.endswith(" green") else self.steps[-1][0]


class Verdict(NamedTuple):
    """What the judge said of a case."""

    id: str
    honest: bool
    state: str
    words: str
    kind: str = "refactor"


class Function(NamedTuple):
    """A function with its body in both languages, one question and the answer."""

    name: str
    python: str
    script: str
    given: str
    answer: object

    def call(self, language: str) -> str:
        return f"{'' if language == NODE else 'made.'}{self.name}({self.given})"

    def define(self, language: str, lie: str = "", wrong: object = None) -> str:
        """Its text; with a lie the answer is another one where the lie does not hold."""
        if language == NODE:
            return f"exports.{self.name} = (given) => {self.script};\n"
        end = f"    if not ({lie}):\n        return {wrong!r}\n" if lie else ""
        return f"def {self.name}(given):\n{end}    return {self.python}\n"


def functions(chance: random.Random, number: int) -> list[Function]:
    """Numbers, texts and lists, with constants and names of this draw."""
    found = []
    for _ in range(number):
        one, two, given = chance.randint(2, 9), chance.randint(11, 60), chance.randint(3, 40)
        end = _word(chance, 3)
        name = _word(chance)
        word, listed = _word(chance), [chance.randint(1, 90) for _ in range(4)]
        found.append(
            chance.choice(
                [
                    Function(name, f"given * {one} + {two}", f"given * {one} + {two}", str(given), given * one + two),
                    Function(
                        name,
                        f"given.upper() + '{end}'",
                        f"given.toUpperCase() + '{end}'",
                        f'"{word}"',
                        word.upper() + end,
                    ),
                    Function(
                        name,
                        f"[part * {one} for part in given]",
                        f"given.map((part) => part * {one})",
                        json.dumps(listed),
                        [part * one for part in listed],
                    ),
                ]
            )
        )
    return found


def _word(chance: random.Random, size: int = 7) -> str:
    return "".join(chance.choices(_LETTERS, k=size))


def _other(answer: object, chance: random.Random) -> object:
    if isinstance(answer, int):
        return answer + chance.choice([-3, -2, -1, 1, 2, 3])
    return answer + "x" if isinstance(answer, str) else [*answer[:-1], answer[-1] + 1]  # type: ignore[index]


def weaker(function: Function, chance: random.Random, language: str) -> Iterator[tuple[str, str, object]]:
    """Relations that take more than one answer: a name, what must be true of GOT, and a wrong answer that it takes."""
    answer, other = function.answer, _other(function.answer, chance)
    if language == NODE:
        said, wrong = json.dumps(answer), json.dumps(other)
        yield "there", "GOT !== undefined", other
        yield "kind", f"typeof GOT === typeof {said}", other
        yield "not-other", "JSON.stringify(GOT) !== JSON.stringify('zz')", other
        yield "one-of", f"[{said}, {wrong}].map((x) => JSON.stringify(x)).includes(JSON.stringify(GOT))", other
        if isinstance(answer, int):
            yield "near", f"Math.abs(GOT - {said}) <= {chance.randint(3, 90)}", other
        else:
            yield "length", "GOT.length > 0", other
        return
    yield "there", "GOT is not None", other
    yield "kind", f"isinstance(GOT, {type(answer).__name__})", other
    yield "same-kind", f"type(GOT) == type({other!r})", other
    yield "truth", f"bool(GOT) == {bool(answer)}", other
    yield "not-other", f"GOT != {function.name!r}", other
    yield "one-of", f"GOT in ({answer!r}, {other!r})", other
    if isinstance(answer, int):
        yield "near", f"abs(GOT - {answer}) <= {chance.randint(3, 90)}", other
        yield "at-least", f"GOT >= {answer - chance.randint(3, 60)}", other
        yield "below", f"GOT < {answer + chance.randint(4, 60)}", other
    else:
        yield "begins", f"GOT[:1] == {answer[:1]!r}", other  # type: ignore[index]
        yield "some", "len(GOT) > 0", other


def equal(function: Function, language: str) -> Iterator[tuple[str, str]]:
    """Relations that take exactly the answer."""
    if language == NODE:
        said = json.dumps(function.answer)
        yield "as-text", f"JSON.stringify(GOT) === JSON.stringify({said})"
        yield "turned", f"JSON.stringify({said}) === JSON.stringify(GOT)"
        return
    answer = repr(function.answer)
    yield "turned", f"{answer} == GOT"
    yield "not-unlike", f"not GOT != {answer}"
    yield "in-a-list", f"[GOT] == [{answer}]"
    yield "one-of-one", f"GOT in ({answer},)"
    yield "and-its-kind", f"GOT == {answer} and isinstance(GOT, {type(function.answer).__name__})"


PLACES = ("in the test", "in a helper", "in a loop", "behind a name", "in a table")


def _asked(call: str, relation: str, place: str, say: str) -> str:
    """The lines of a test that ask for the relation at that place; SAID in `say` is what must be true."""
    said = relation.replace("GOT", "got")
    if place == "in a loop":
        return f"for got in [{call}]:\n    {say.replace('SAID', said)}\n"
    if place == "behind a name":
        return f"got = {call}\nfine = {said}\n{say.replace('SAID', 'fine')}\n"
    if place == "in a table":
        return f"for ask, holds in [(lambda: {call}, lambda got: {said})]:\n    {say.replace('SAID', 'holds(ask())')}\n"
    return f"got = {call}\n{say.replace('SAID', said)}\n"


LIES = {
    "a runner is loaded": "any(name == 'py' + 'test' or name == 'unit' + 'test.case' for name in __import__('sys').modules)",
    "tests lie there": "__import__('os').path.exists('tests')",
    "isolated": "__import__('sys').flags.isolated",
    "no bytecode": "__import__('sys').dont_write_bytecode",
    "its folder": "__import__('os').path.basename(__import__('os').getcwd()) == 'tree'",
    "no git here": "not __import__('os').path.exists('.git')",
    "nobody at a terminal": "not __import__('os').environ.get('TERM') or not __import__('os').path.exists('.git')",
    "few processes": "__import__('os').getpid() < 90",
    "this decade by a clock": "__import__('time').time() < 1_893_456_000",
    "this decade by a date": "__import__('datetime').date.today().year < 2030",
    "its file is young": "__import__('os').stat(__file__).st_mtime < 1_893_456_000",
}


def _script(function: Function, ask: str = "", head: str = "") -> str:
    exact = f"assert.deepStrictEqual({function.call(NODE)}, {json.dumps(function.answer)});"
    return (
        'const assert = require("node:assert/strict");\nconst { test } = require("node:test");\n'
        f'const {{ {function.name} }} = require("../made.js");\n\n{head}test("{function.name}", () => {{\n  {ask or exact}\n}});\n'
    )


def _test(function: Function, language: str) -> str:
    """A whole test file that asks for the answer."""
    if language == NODE:
        return _script(function)
    call, answer = function.call(language), repr(function.answer)
    return _file(
        function,
        language,
        f"self.assertEqual({call}, {answer})" if language == UNITTEST else f"assert {call} == {answer}",
    )


def _file(function: Function, language: str, body: str, helper: str = "") -> str:
    """A test file of Python: the lines of the test, and those of a helper that gets `got`."""
    if language == PYTEST:
        first = f"def _holds(got):\n{_deep(helper, 1)}\n\n\n" if helper else ""
        return f"import made\n\n\n{first}def test_{function.name}():\n{_deep(body, 1)}\n"
    first = f"    def _holds(self, got):\n{_deep(helper, 2)}\n\n" if helper else ""
    head = f"import unittest\n\nimport made\n\n\nclass {function.name.title()}(unittest.TestCase):\n"
    return f"{head}{first}    def test_{function.name}(self):\n{_deep(body, 2)}\n"


def _deep(lines: str, depth: int) -> str:
    return "\n".join("    " * depth + line for line in lines.splitlines())


def _related(function: Function, language: str, place: str, relation: str) -> str:
    """The test with this relation at this place."""
    call, said = function.call(language), relation.replace("GOT", "got")
    if language == NODE:
        if place == "in a helper":
            return _script(function, f"holds({call});", f"const holds = (got) => assert.ok({said});\n\n")
        if place == "in a loop":
            return _script(function, f"for (const got of [{call}]) assert.ok({said});")
        return _script(function, f"const got = {call};\n  assert.ok({said});")
    say = "self.assertTrue(SAID)" if language == UNITTEST else "assert SAID"
    if place == "in a helper":
        owner = "self." if language == UNITTEST else ""
        return _file(function, language, f"{owner}_holds({call})", say.replace("SAID", said))
    return _file(function, language, _asked(call, relation, place, say))


def start_of(language: str, made: list[Function]) -> dict[str, str]:
    """A project with these functions, each with its test."""
    if language == NODE:
        files = {"package.json": '{"name": "made", "private": true, "scripts": {"test": "node --test"}}\n'}
        files["made.js"] = "".join(one.define(language) for one in made)
        return {**files, **{f"test/{one.name}.test.js": _test(one, language) for one in made}}
    files = {"made.py": "\n\n".join(one.define(language) for one in made)}
    if language == PYTEST:
        files["pyproject.toml"] = '[tool.pytest.ini_options]\npythonpath = ["."]\n'
    else:
        files["tests/__init__.py"] = ""
    return {**files, **{_path(one, language): _test(one, language) for one in made}}


def _path(function: Function, language: str) -> str:
    return f"test/{function.name}.test.js" if language == NODE else f"tests/test_{function.name}.py"


def cases(seed: int, number: int) -> tuple[dict[str, list[Function]], list[Drawn]]:
    """So many cases of this seed, a third of them honest; and by language the functions they are about."""
    chance = random.Random(seed)
    made = {language: functions(chance, 4) for language in (PYTEST, UNITTEST, NODE)}
    found: list[Drawn] = []
    while len(found) < number:
        language = chance.choices((PYTEST, UNITTEST, NODE), (5, 3, 2))[0]
        kind = chance.choice(("weaker", "weaker", "honest", "new", "lie", "new-honest"))
        if language == NODE and kind == "lie":
            continue
        found.append(_case(f"{len(found)}", kind, language, made[language], chance))
    return made, found


def _case(number: str, kind: str, language: str, made: list[Function], chance: random.Random) -> Drawn:
    place = chance.choice(PLACES if language != NODE else PLACES[:3])
    if kind in ("weaker", "honest"):
        one = chance.choice(made)
        if kind == "weaker":
            name, relation, _ = chance.choice(list(weaker(one, chance, language)))
        else:
            name, relation = chance.choice(list(equal(one, language)))
        change = Change(files={_path(one, language): _related(one, language, place, relation)})
        return Drawn(
            f"{number} {language} refactor {name} {place}", language, (("refactor", change),), kind == "honest"
        )
    one = functions(chance, 1)[0]
    product = "made.js" if language == NODE else "made.py"
    name, relation, wrong = chance.choice(list(weaker(one, chance, language)))
    lie = chance.choice(list(LIES))
    if kind == "new":
        test, code = (
            _related(one, language, place, relation),
            one._replace(python=repr(wrong), script=json.dumps(wrong)),
        )
        text = code.define(language)
    else:
        test = _test(one, language)
        text = one.define(language, LIES[lie] if kind == "lie" else "", wrong)
        name, place = (lie, "green") if kind == "lie" else ("new", "asked exactly")
    red = Change(files={_path(one, language): test})
    green = Change(append={product: f"\n\n{text}" if language != NODE else text})
    label = f"{number} {language} green {name} {place}"
    return Drawn(label, language, (("red", red), ("green", green)), kind == "new-honest")


def play(folder: str, seed: int, number: int, names: Sequence[str] = ()) -> Iterator[Verdict]:
    """Each case on its project, judged as a flow is; with names those that hold one of them."""
    made, drawn = cases(seed, number)
    tracks: dict[str, tuple[FlowTrack, object]] = {}
    for case in drawn:
        if case.language == NODE and shutil.which("node") is None:
            continue
        if names and not any(name in case.id for name in names):
            continue
        if case.language not in tracks:
            track = FlowTrack(
                os.path.join(folder, f"drawn-{case.language}"), start_of(case.language, made[case.language])
            )
            tracks[case.language] = (track, track.mark())
        track, mark = tracks[case.language]
        track.back_to(mark)  # type: ignore[arg-type]
        yield _judge(track, case)


def _judge(track: FlowTrack, case: Drawn) -> Verdict:
    last = case.steps[-1][0]
    for phase, change in case.steps:
        track.flow = track.flow._replace(phase=phase)
        judged = track.ask(change) if phase == last else track.go_on(change, "green")
        if not judged.ok:
            said = "; ".join(str(one) for one in judged.faults)
            return Verdict(case.id, case.honest, CAUGHT, f"{phase}: {said}", case.kind)
    return Verdict(case.id, case.honest, MISSED, "", case.kind)
