"""Small modules, small functions, plain names."""

from __future__ import annotations

import ast
import os
import tomllib
from collections import Counter

from source import Module, functions, package_modules, read

MODULE_LINES = 600
FUNCTION_LINES = 80
INNER = ("engine", "git", "surfaces")
"""Floors and rooms whose folders are rooms of their own."""
BANNED = {"util", "utils", "helper", "helpers", "manager", "managers", "common", "misc", "core", "handler", "handlers"}


def test_no_module_is_longer_than_600_lines():
    long = {module.name: lines for module in package_modules() if (lines := module.text.count("\n")) > MODULE_LINES}
    assert not long, f"split by noun, not by kind: {long}"


def test_no_function_is_longer_than_80_lines():
    long = [
        f"{module.name}:{node.lineno} {node.name} has {lines} lines"
        for module in package_modules()
        for node in functions(module)
        if (lines := (node.end_lineno or node.lineno) - node.lineno + 1) > FUNCTION_LINES
    ]
    assert not long, "\n".join(long)


def _lines_of_rooms(modules: tuple[Module, ...]) -> Counter[str]:
    """The lines of each room: a folder of the package, or of a floor."""
    found: Counter[str] = Counter()
    for module in modules:
        parts = module.name.split(os.sep)
        room = "/".join(parts[:2]) if parts[0] in INNER and len(parts) > 2 else parts[0]
        found[room.removesuffix(".py")] += module.text.count("\n")
    return found


def _grown(lines: Counter[str], allowed: dict[str, int]) -> list[str]:
    return [
        f"{room} has {count} lines, {allowed.get(room, 0)} are allowed" for room, count in sorted(lines.items())
        if count > allowed.get(room, 0)
    ]  # fmt: skip


def test_a_room_that_grows_says_why():
    """What is there already is looked for first: a second way to do a thing is how a house gets large."""
    allowed = tomllib.loads(read("tests/house/rooms.toml"))["lines"]
    lines = _lines_of_rooms(package_modules())
    grown = _grown(lines, allowed)
    advice = (
        "delete what it replaces, or change the number in tests/house/rooms.toml in the same commit, with the reason"
    )
    assert not grown, "\n".join([*grown, advice])
    assert set(allowed) <= set(lines), f"no such room any more: {set(allowed) - set(lines)}"


def test_the_watch_over_rooms_sees_one_that_grew():
    lines = _lines_of_rooms((Module.of("engine/flows/x.py", "a = 1\n"), Module.of("engine/app.py", "b = 2\nc = 3\n")))
    assert lines == {"engine/flows": 1, "engine": 2}
    assert _grown(lines, {"engine/flows": 1, "engine": 1}) == ["engine has 2 lines, 1 are allowed"]


def test_no_module_or_class_has_a_name_that_says_nothing():
    bad = []
    for module in package_modules():
        parts = {part.removesuffix(".py") for part in module.name.split(os.sep)}
        bad += [module.name] if parts & BANNED else []
        bad += [
            f"{module.name}:{node.lineno} {node.name}"
            for node in module.nodes
            if isinstance(node, ast.ClassDef) and node.name.lower().endswith(("manager", "helper", "helpers", "utils"))
        ]
    assert not bad, f"name it by a noun of docs/concepts.md: {bad}"


def test_every_module_and_public_class_says_what_it_is():
    silent = [module.name for module in package_modules() if not ast.get_docstring(module.tree)]
    silent += [
        f"{module.name}:{node.lineno} {node.name}"
        for module in package_modules()
        for node in module.tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and not ast.get_docstring(node)
    ]
    assert not silent, f"one plain sentence: {silent}"


def test_every_module_postpones_its_annotations():
    wanted = "from __future__ import annotations"
    eager = [module.name for module in package_modules() if wanted not in module.text and len(module.tree.body) > 2]
    assert not eager, eager
