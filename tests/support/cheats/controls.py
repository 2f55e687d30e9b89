"""Honest work on real packages, to be let through: refactors by program, and functions given back one test at a time."""

from __future__ import annotations

import ast
import os
from typing import TYPE_CHECKING, NamedTuple

from cheats import honest
from cheats.data import Change
from cheats.ground import FlowTrack
from cheats.packages import PACKAGES, tree_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_TEST_KINDS = (
    honest.rename_test,
    honest.reorder_tests,
    honest.split_test,
    honest.extract_body,
    honest.assertion_helper,
    honest.unittest_to_assert,
    honest.parametrize,
    honest.loop,
    honest.fixture,
    honest.into_class,
    honest.written_anew,
    honest.name_value,
)
_CODE_KINDS = (
    honest.rename_local,
    honest.extract_answer,
    honest.flip_condition,
    honest.name_answer,
    honest.written_anew,
)
_PIECES = (
    *("isdistinct", "take_nth", "last", "frequencies", "second"),
    *("first", "take", "drop", "cons", "sliding_window", "partition", "count", "interleave"),
)
_QUICK = frozenset(
    (
        "shortuuid/test_shortuuid: unittest_to_assert",
        "shortuuid/test_shortuuid: split_test",
        "zict/test_func: assertion_helper",
        "zict/test_func: rename_test",
        "zict/test_func: written_anew",
    )
)
_PLACES = (0, 3, 7, 12)
_ON_TOP = 'def is_wanted(found, wanted):\n    assert found == wanted, f"{found!r} is not {wanted!r}"\n'


class Control(NamedTuple):
    """One honest change of a package's tree."""

    id: str
    package: str
    change: Change

    @property
    def quick(self) -> bool:
        return self.id in _QUICK


class Alarm(NamedTuple):
    """What the judge said of honest work."""

    id: str
    refused: tuple[str, ...]
    warned: tuple[str, ...]
    words: str


def refactors(package_name: str) -> list[Control]:
    """The honest changes of one package that could be made, each another text than before."""
    package = next(one for one in PACKAGES if one.name == package_name)
    tree = tree_of(package)
    found = []
    for path, kinds in ((package.tests, _TEST_KINDS), (package.code, _CODE_KINDS)):
        for number, kind in enumerate(kinds):
            seen = {tree[path]}
            for again in range(len(_PLACES)):
                text = kind(tree[path], _PLACES[(number + again) % len(_PLACES)])
                if text is None or text in seen:
                    continue
                ast.parse(text)
                seen.add(text)
                name = f"{package.name}/{os.path.basename(path).removesuffix('.py')}: {kind.__name__}"
                name += f" {again + 1}" if again else ""
                found.append(Control(name, package.name, Change(files={path: text})))
    return [*found, *_moved(package.name, package.tests, tree), *_helper_on_top(package.name, package.tests, tree)]


def _helper_on_top(name: str, path: str, tree: dict[str, str]) -> list[Control]:
    """What equalities ask moves into a helper in a module at the top of the repository."""
    text = honest.assertion_helper(tree[path], 0)
    own = "def _is(found, wanted):\n    assert found == wanted\n\n\n"
    if text is None or own not in text:
        return []
    body = ast.parse(text.replace(own, "")).body
    at = next(node.lineno for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef))) - 1
    lines = text.replace(own, "").replace("_is(", "is_wanted(").splitlines(keepends=True)
    while at and not lines[at - 1].strip().startswith(("import", "from")) and lines[at - 1].strip():
        at -= 1  # above decorators
    new = "".join([*lines[:at], "from wanting import is_wanted\n\n\n", *lines[at:]])
    ast.parse(new)
    return [
        Control(
            f"{name}/{os.path.basename(path).removesuffix('.py')}: helper_on_top",
            name,
            Change(files={path: new, "wanting.py": _ON_TOP}),
        )
    ]


DOCTESTS = {
    "pyproject.toml": '[tool.pytest.ini_options]\naddopts = "-q --doctest-modules"\npythonpath = ["."]\n',
    "tests/test_words.py": "from words import loud\n\n\ndef test_loud():\n    assert loud('a') == 'A'\n",
    "words.py": 'def loud(text):\n    """In large letters.\n\n    >>> loud("tea")\n    \'TEA\'\n    """\n    return text.upper()\n\n\n'
    'def twice(text):\n    """Two of it.\n\n    >>> twice("a")\n    \'aa\'\n    """\n    return text * 2\n',
}


def doctests() -> list[Control]:
    """Doctests move with their function: to another module, and to another name."""
    loud, twice = (f"def {part}" for part in DOCTESTS["words.py"].removeprefix("def ").split("def "))
    moved = {"words.py": f"from more import twice\n\n__all__ = ['loud', 'twice']\n\n\n{loud}", "more.py": twice}
    renamed = {"words.py": DOCTESTS["words.py"].replace("twice", "doubled")}
    return [
        Control(f"doctests: {name}", "doctests", Change(files=files))
        for name, files in (("moved", moved), ("renamed", renamed))
    ]


def _moved(name: str, path: str, tree: dict[str, str]) -> list[Control]:
    """A test without decorators moves to a file of its own, with the imports it needs."""
    text = tree[path]
    body = ast.parse(text).body
    for node in body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test") and not node.decorator_list:
            head = "\n".join(ast.unparse(one) for one in body if isinstance(one, (ast.Import, ast.ImportFrom)))
            defined = {one.name for one in body if isinstance(one, (ast.FunctionDef, ast.ClassDef))} - {node.name}
            used = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
            if used & defined:
                continue
            lines = text.splitlines(keepends=True)
            new = os.path.join(os.path.dirname(path), "test_moved.py")
            rest = "".join([*lines[: node.lineno - 1], *lines[node.end_lineno :]])
            files = {path: rest, new: f"{head}\n\n\n{ast.unparse(node)}\n"}
            return [
                Control(f"{name}/{os.path.basename(path).removesuffix('.py')}: moved_test", name, Change(files=files))
            ]
    return []


class PieceSteps(NamedTuple):
    """A function of toolz and its real test, to be taken away and given back."""

    name: str
    start: dict[str, str]
    red: Change
    green: Change


def pieces() -> list[PieceSteps]:
    """A module with some functions of toolz as they are, and their tests; each is once the one that is still to be built."""
    tree = tree_of(next(one for one in PACKAGES if one.name == "toolz"))
    code, tests = tree["toolz/itertoolz.py"], tree["toolz/tests/test_itertoolz.py"]
    bodies = {node.name: node for node in ast.parse(code).body if isinstance(node, ast.FunctionDef)}
    asked = {node.name: node for node in ast.parse(tests).body if isinstance(node, ast.FunctionDef)}
    names = [name for name in _PIECES if name in bodies and f"test_{name}" in asked]
    head = "import collections\nimport itertools\nimport operator\nfrom functools import partial\nfrom itertools import filterfalse, zip_longest\n"
    lone = "no_default = '__no__default__'\nno_pad = '__no__pad__'\n"
    needed = [
        name for name in ("concat", "tail", "unique", "groupby", "take", "drop") if name in bodies and name not in names
    ]
    found = []
    for left in names:
        others = [name for name in names if name != left]
        start = {
            "pieces.py": head + lone + "".join(f"\n\n{ast.unparse(bodies[name])}\n" for name in [*needed, *others]),
            "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["."]\n',
            "tests/test_pieces.py": "import itertools\n\nimport pytest\n\nfrom pieces import *\n"
            + "".join(f"\n\n{ast.unparse(asked[f'test_{name}'])}\n" for name in others),
        }
        red = f"import itertools\n\nfrom pieces import {left}\n\n\n{ast.unparse(asked[f'test_{left}'])}\n"
        green = f"\n\n{ast.unparse(bodies[left])}\n"
        found.append(
            PieceSteps(left, start, Change(files={f"tests/test_{left}.py": red}), Change(append={"pieces.py": green}))
        )
    return found


def try_refactors(folder: str, package_name: str, controls: list[Control]) -> Iterator[Alarm]:
    """What the judge says of each, on the package as it is."""
    package = next((one for one in PACKAGES if one.name == package_name), None)
    track = FlowTrack(os.path.join(folder, package_name), DOCTESTS if package is None else tree_of(package))
    track.flow = track.flow._replace(phase="refactor")
    for control in controls:
        yield _alarm(control.id, track.ask(control.change))


def try_piece(folder: str, steps: PieceSteps) -> Iterator[Alarm]:
    """Red, then green, as a flow would go."""
    track = FlowTrack(os.path.join(folder, steps.name), steps.start)
    red = track.go_on(steps.red, "green")
    yield _alarm(f"toolz/{steps.name}: red", red)
    if red.ok:
        yield _alarm(f"toolz/{steps.name}: green", track.ask(steps.green))


def _alarm(name: str, judged) -> Alarm:
    said = "; ".join(str(one) for one in (*judged.faults, *judged.warnings))
    return Alarm(name, tuple(one.code for one in judged.faults), tuple(one.code for one in judged.warnings), said)
