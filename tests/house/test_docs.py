"""The documentation is tested: every command, key, variable and exit code is in it, and every link leads somewhere."""

from __future__ import annotations

import argparse
import ast
import json
import os
import re
import sys
import tomllib
from importlib import import_module

import pytest

from handoff.base import errors, settings
from handoff.surfaces.api.routes import METRICS, OPERATIONS, PREFIX, STREAM
from handoff.surfaces.cli.catalog import CATALOG
from handoff.surfaces.cli.dispatch import load
from source import ROOT, dotted, imported, package_modules, project_files, read

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
MARKDOWN = tuple(name for name in project_files() if name.endswith(".md") and not name.startswith(("src/", "tests/")))


def _parsers(parser: argparse.ArgumentParser):
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in dict.fromkeys(action.choices.values()):
                yield from _parsers(inner)


@pytest.mark.parametrize("name", CATALOG)
def test_every_command_explains_itself(name):
    command, parser = load(name, "handoff")
    for inner in _parsers(parser):
        silent = [
            action.option_strings or action.dest
            for action in inner._actions
            if not action.help and not isinstance(action, argparse._SubParsersAction)
        ]
        assert not silent, f"{inner.prog}: no help for {silent}"
        assert inner.format_help().startswith("usage: ")
        told = {
            choice.dest
            for a in inner._actions
            if isinstance(a, argparse._SubParsersAction)
            for choice in a._choices_actions
        }
        nested = {word for a in inner._actions if isinstance(a, argparse._SubParsersAction) for word in a.choices}
        assert told == nested, f"{inner.prog}: nested commands without help: {nested - told}"
    assert command.shows == any(action.dest == "json" for action in parser._actions)


@pytest.mark.parametrize("name", CATALOG)
def test_every_command_is_in_the_reference(name):
    assert re.search(rf"^### handoff {re.escape(name)}$", read("docs/reference/commands.md"), re.MULTILINE), (
        "run: make docs"
    )


def test_the_reference_is_what_the_code_says():
    sys.path.insert(0, os.path.join(ROOT, "docs"))
    try:
        import generate
    finally:
        sys.path.pop(0)
    old = [name for name, page in generate.PAGES.items() if read(f"docs/{name}") != page()]
    old += [name for name in generate.READMES if read(name) != generate.readme_with_table(name)]
    assert not old, f"run `make docs`: {old}"


def test_the_page_of_performance_shows_the_figures_that_were_measured():
    sys.path.insert(0, ROOT)
    try:
        figures = import_module("bench.__main__")
    finally:
        sys.path.pop(0)
    page = read("docs/performance.md")
    assert figures.front(page) == page, "run: python -m bench --only SECTION --write"


def test_every_setting_is_documented():
    page = read("docs/reference/settings.md")
    tables = [value for name, value in vars(settings).items() if name.endswith("_KEYS") and isinstance(value, dict)]
    assert tables
    assert not [key for table in tables for key in table if f"|`{key}`|" not in page]


def test_every_variable_the_code_reads_is_documented():
    pattern = re.compile(r"^HANDOFF_[A-Z_]+$")
    read_by_us = {
        node.value
        for module in package_modules()
        for node in module.nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and pattern.match(node.value)
    }
    assert read_by_us <= set(settings.VARIABLES), "add its meaning to base/settings.py VARIABLES"


def test_every_error_has_its_exit_code_documented():
    page = read("docs/reference/exit-codes.md")
    codes = {
        (node.value.value, f"{module.name}:{node.lineno}")
        for module in package_modules()
        for node in module.nodes
        if isinstance(node, ast.Assign)
        and [dotted(target) for target in node.targets] == ["exit_code"]
        and isinstance(node.value, ast.Constant)
    }
    assert len(codes) > 3
    assert not {(code, place) for code, place in codes if not re.search(rf"^\| {code} \|", page, re.MULTILINE)}
    names = [name for name, value in vars(errors).items() if isinstance(value, type) and name != "HandoffError"]
    assert not [name for name in names if issubclass(getattr(errors, name), errors.HandoffError) and name not in page]


def _anchors(text: str) -> set[str]:
    found = set()
    for line in text.splitlines():
        if line.startswith("#"):
            title = line.lstrip("#").strip().lower()
            found.add(re.sub(r"[^\w\- ]", "", title).replace(" ", "-"))
    return found


@pytest.mark.parametrize("name", MARKDOWN)
def test_every_link_leads_somewhere(name):
    text = re.sub(r"```.*?```", "", read(name), flags=re.DOTALL)
    lost = []
    for target in LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        there = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
        if not os.path.exists(os.path.join(ROOT, there)) or (
            anchor and there.endswith(".md") and anchor not in _anchors(read(there))
        ):
            lost.append(target)
    assert not lost, lost


def test_the_specification_names_what_the_code_writes_and_serves():
    spec = read("docs/handoff-spec.md")
    trailers = set(re.findall(r"Handoff-\w+", read("src/handoff/engine/work/flows/advance.py")))
    assert {name for name in trailers if f"`{name}`" not in spec} == set()
    assert f"{len(OPERATIONS)} operations under `/api/v1`" in spec
    assert f"`GET {PREFIX}{STREAM}`" in spec


@pytest.mark.parametrize("name", MARKDOWN)
def test_no_example_overwrites_the_readers_settings(name):
    found = re.findall(r"^.*[^>]>\s*\S*(?:config\.toml|settings\.json)\b.*$", read(name), re.MULTILINE)
    assert not [line for line in found if line.startswith("$ ")], "append with >>"


def test_every_page_of_the_docs_can_be_reached_from_the_index():
    seen: set[str] = set()
    waiting = ["docs/index.md", "README.md"]
    while waiting:
        name = waiting.pop()
        if name in seen or not name.endswith(".md"):
            continue
        seen.add(name)
        links = (target.partition("#")[0] for target in LINK.findall(read(name)) if not re.match(r"[a-z]+:", target))
        waiting += [os.path.normpath(os.path.join(os.path.dirname(name), link)) for link in links if link]
    assert not [name for name in MARKDOWN if name.startswith("docs/") and name not in seen]


@pytest.mark.parametrize("name", ["README.md", "README.zh.md"])
def test_the_first_screen_shows_the_product_and_how_to_install_it(name):
    text = read(name)
    screen = "\n".join(text.splitlines()[:20])
    assert screen.index("docs/board.svg") < screen.index("uv tool install .") < screen.index("handoff demo")
    assert "pipx install ." in screen
    assert "pip install ." in screen.replace("pipx", "")
    assert "make demo" in text
    assert "make test" in text
    assert "docs/picture.svg" in text
    assert len(text.splitlines()) <= 150
    pictures = re.findall(r'<img src="([^"]+)"', text)
    assert pictures
    assert all(os.path.exists(os.path.join(ROOT, picture)) for picture in pictures)


def test_both_readmes_name_the_same_commands():
    def commands(name: str) -> list[str]:
        return re.findall(r"^\$ (.*)$", read(name), re.MULTILINE)

    assert commands("README.md") == commands("README.zh.md")


def test_the_page_for_agents_fits_on_one_screen():
    assert len(read("AGENTS.md").splitlines()) <= 60


@pytest.mark.parametrize("name", ["docs/picture.svg", "docs/board.svg", "docs/cheats.svg", "docs/fan-in.svg"])
def test_a_picture_fetches_nothing(name):
    picture = read(name)
    assert "@font-face" not in picture
    assert "url(http" not in picture
    assert "<image" not in picture


def test_no_room_imports_what_the_package_does_not_ask_for():
    """Every third-party import is declared, so that `pip install` gives a working command."""
    wanted = {name.split("[")[0].split(">")[0].split("=")[0].strip().lower() for name in _declared()}
    # dbos is made of SQLAlchemy and brings it, as jinja2 does markupsafe and mcp pydantic
    renamed = {"sse_starlette": "sse-starlette", "sqlalchemy": "dbos", "markupsafe": "jinja2", "pydantic": "mcp"}
    renamed |= {"markdown_it": "markdown-it-py", "opentelemetry": "opentelemetry-sdk"}
    # A newer SQLite where somebody installed one; and the runner of a project, imported with that project's Python.
    taken_if_there = {"pysqlite3", "pytest"}
    foreign = {
        (module.name, top)
        for module in package_modules()
        for _, name in imported(module)
        if (top := name.partition(".")[0]) not in sys.stdlib_module_names and top not in {"handoff", *taken_if_there}
    }
    lost = {(module, top) for module, top in foreign if renamed.get(top, top).lower() not in wanted}
    assert not lost, lost


def _declared() -> list[str]:
    project = tomllib.loads(read("pyproject.toml"))["project"]
    return [*project["dependencies"], *(name for names in project["optional-dependencies"].values() for name in names)]


def test_the_dashboard_asks_only_for_figures_that_are_served():
    served = {one.name for one in METRICS.values()}
    for one in METRICS.values():
        served |= {f"{one.name}_{part}" for part in ("bucket", "sum", "count")} if one.type == "histogram" else set()
        assert one.name.endswith("_total") == (one.type == "counter"), f"{one.name} is a {one.type}"
        assert f"`{one.name}`" in read("docs/howto/api.md")
    board = json.loads(read("docs/howto/grafana.json"))
    asked = {
        name
        for panel in board["panels"]
        for one in panel["targets"]
        for name in re.findall(r"handoff_\w+", one["expr"])
    }
    assert asked
    assert asked <= served
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
