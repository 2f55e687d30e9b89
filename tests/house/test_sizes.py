"""Small modules, small functions, plain names."""

from __future__ import annotations

import ast
import os

from source import functions, package_modules

MODULE_LINES = 600
FUNCTION_LINES = 80
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
