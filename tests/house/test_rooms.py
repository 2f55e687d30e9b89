"""A listing that explains itself: small folders, no prefixes in place of folders, one meaning for one name, nothing forgotten."""

from __future__ import annotations

import ast
import os
import re
from collections import Counter, defaultdict

import pytest

from handoff.agents.catalog import OURS
from handoff.surfaces.cli.catalog import CATALOG
from source import PACKAGE, ROOT, Module, dotted, functions, modules_of_tests, package_modules, project_files, read

NAMES = 16
SIBLINGS = 3
FIELDS = 5
NOT_MIRRORS = ("adversary", "clients", "house", "hunt", "journeys", "support")


def _folders() -> dict[str, list[str]]:
    """What stands in each folder of the package, without the file that makes it one."""
    found: dict[str, list[str]] = {}
    for at, folders, names in os.walk(PACKAGE):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        if "__init__.py" in names:
            modules = [name.removesuffix(".py") for name in names if name.endswith(".py") and name != "__init__.py"]
            found[os.path.relpath(at, PACKAGE)] = sorted([*folders, *modules])
    return found


def test_no_folder_holds_more_than_one_can_take_in_at_a_glance():
    crowded = {folder: len(names) for folder, names in _folders().items() if len(names) > NAMES}
    assert not crowded, f"make a folder of what belongs together: {crowded}"


def test_three_siblings_with_one_prefix_are_a_folder():
    prefixed = {
        f"{folder}/{prefix}_*": count
        for folder, names in _folders().items()
        for prefix, count in Counter(name.partition("_")[0] for name in names).items()
        if count >= SIBLINGS
    }
    assert not prefixed, f"the prefix is the folder's name: {prefixed}"


def _classes(modules: tuple[Module, ...] = ()) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for module in modules or package_modules():
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(module.name)
    return found


def test_one_name_means_one_thing():
    twins = {name: places for name, places in _classes().items() if len(places) > 1}
    assert not twins, f"two classes with one name: {twins}"


def _is_record(node: ast.ClassDef) -> bool:
    return any(dotted(base).rpartition(".")[2] in ("Record", "NamedTuple") for base in node.bases)


def _wide_records() -> dict[str, int]:
    return {
        node.name: count
        for module in package_modules()
        for node in module.tree.body
        if isinstance(node, ast.ClassDef) and _is_record(node)
        if (count := sum(isinstance(line, ast.AnnAssign) for line in node.body)) > FIELDS
    }


def _by_position(module: Module, wide: dict[str, int]) -> list[str]:
    """Calls that build a wide record without naming its fields; `Task(*row)` is a row as the database gives it."""
    foreign = {
        alias.asname or alias.name
        for node in module.nodes
        if isinstance(node, ast.ImportFrom) and not (node.module or "").startswith("handoff")
        for alias in node.names
    }
    return [
        f"{module.name}:{node.lineno} {name}"
        for node in module.nodes
        if isinstance(node, ast.Call)
        and (name := dotted(node.func).rpartition(".")[2]) in wide
        and name not in foreign
        and any(not isinstance(value, ast.Starred) for value in node.args)
    ]


def test_a_record_with_more_than_five_fields_is_built_by_keyword():
    wide = _wide_records()
    assert len(wide) > 10
    found = [line for module in package_modules() for line in _by_position(module, wide)]
    assert not found, "two swapped texts are invisible to the type checker:\n" + "\n".join(found)


def test_the_watch_over_records_sees_a_breach():
    assert _by_position(Module.of("planted.py", "x = Wide(1, 2)"), {"Wide": 6})
    assert not _by_position(Module.of("planted.py", "x = Wide(a=1, b=2)\ny = Wide(*row)"), {"Wide": 6})


@pytest.mark.parametrize("name", OURS)
def test_every_agent_has_a_test_and_a_place_in_the_docs(name):
    tests = [
        module.name for module in modules_of_tests() if re.search(rf"\b{OURS[name]}\b", module.text)
        and module.name.startswith(("tests/agents/", "tests/clients/", "tests/surfaces/"))
    ]  # fmt: skip
    assert tests, f"no test speaks of {name}"
    assert re.search(rf"\b{name}\b", read("docs/howto/agents.md")), f"docs/howto/agents.md does not name {name}"


@pytest.mark.parametrize("name", CATALOG)
def test_every_command_has_a_test_and_a_line_in_the_changelog(name):
    words = re.compile(rf"""["' ]{'(?:", "| )'.join(map(re.escape, name.split()))}["' ]""")
    tests = [module.name for module in modules_of_tests() if words.search(module.text) and "/house/" not in module.name]
    assert tests, f"no test runs `handoff {name}`"
    assert re.search(rf"`(handoff )?{re.escape(name)}\b", read("CHANGELOG.md")), f"CHANGELOG.md does not name `{name}`"


def test_the_tests_stand_where_their_code_stands():
    lost = []
    for name in project_files():
        parts = name.split("/")
        if parts[0] == "tests" and parts[-1].startswith("test_") and not set(parts[1:-1]) & set(NOT_MIRRORS):
            folder = os.path.join(PACKAGE, *parts[1:-1])
            lost += [] if os.path.isdir(folder) else [name]
    assert not lost, f"no such room in src/handoff: {lost}"


def test_a_rule_is_suppressed_with_a_reason():
    silent = [
        f"{module.name}:{number}"
        for module in package_modules()
        for number, line in enumerate(module.text.splitlines(), 1)
        if "# noqa" in line and not re.search(r"# noqa: [A-Z0-9, ]+ - \S", line)
    ]
    assert not silent, f"say why (noqa: CODE - why): {silent}"


def test_no_function_in_the_package_hides_behind_a_bare_word_of_the_past():
    """`held(app)` reads like a state; a function is called by what it does or by what it gives."""
    allowed = {"feed", "need", "fenced", "quoted", "unfinished", "unserved", "nested", "red", "locked"}
    past = [
        f"{module.name}:{node.lineno} {node.name}"
        for module in package_modules()
        for node in functions(module)
        if node in module.tree.body and re.fullmatch(r"[a-z]+(ed|eld|eft)", node.name) and node.name not in allowed
    ]
    assert not past, past


def test_the_root_of_the_project_holds_nothing_a_visitor_wonders_about():
    known = re.compile(r"^(\.[a-z.]+|[A-Z]+(\.zh)?\.md|LICENSE|Makefile|action\.yml|constraints\.txt|pyproject\.toml)$")
    strange = [name for name in project_files() if "/" not in name and not known.match(name)]
    assert not strange, strange
    assert os.path.isdir(os.path.join(ROOT, "src"))
