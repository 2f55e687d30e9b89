"""Arrows point down only; the contract is `.importlinter`, and it really bites."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from source import PACKAGE, ROOT, Module, imported, package_modules

ARROWS = 30
"""How many of the 36 possible arrows between the nine rooms of the engine there are: whoever adds one takes another away."""


def _lint(folder: str) -> subprocess.CompletedProcess[str]:
    program = os.path.join(os.path.dirname(sys.executable), "lint-imports")
    return subprocess.run(
        [program, "--no-cache"], cwd=folder, capture_output=True, text=True, check=False, timeout=60,
        env={**os.environ, "PYTHONPATH": folder},
    )  # fmt: skip


@pytest.fixture
def copy(tmp_path):
    """The package and its contract, to be spoiled."""
    shutil.copytree(PACKAGE, tmp_path / "handoff", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(os.path.join(ROOT, ".importlinter"), tmp_path)
    return tmp_path


def _plant(folder, name: str, line: str) -> None:
    path = os.path.join(folder, "handoff", name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "a", encoding="utf-8") as file:
        file.write(f"\n{line}\n")


def test_the_floors_hold():
    verdict = _lint(os.path.join(ROOT, "src", os.pardir))
    assert verdict.returncode == 0, verdict.stdout


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("base/planted.py", "from handoff.engine import app"),
        ("feature/planted.py", "from handoff.git import guard"),
        (
            "git/planted.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from handoff.checks import commands",
        ),
        ("surfaces/planted.py", "import handoff.store"),
        ("utils/__init__.py", '"""A room nobody planned."""'),
        (
            "base/ids.py",
            "def late() -> None:\n    from handoff.base import files\n    from handoff.surfaces import cli",
        ),
    ],
    ids=["upwards", "beside", "beside-for-types", "past-the-engine", "unplanned-room", "inside-a-function"],
)
def test_a_planted_violation_is_caught(copy, name, line):
    _plant(copy, name, line)
    verdict = _lint(str(copy))
    assert verdict.returncode == 1, verdict.stdout + verdict.stderr


def _arrows(modules: tuple[Module, ...]) -> set[tuple[str, str]]:
    """Which room of the engine imports which other, also inside a function or for a type."""
    found = set()
    for module in modules:
        engine, _, rest = module.name.partition("/")
        if engine == "engine" and "/" in rest:
            rooms = {name.split(".")[2] for _, name in imported(module) if name.startswith("handoff.engine.")}
            found |= {(rest.partition("/")[0], room) for room in rooms - {rest.partition("/")[0]}}
    return found


def test_few_arrows_join_the_rooms_of_the_engine():
    arrows = sorted(_arrows(package_modules()))
    rooms = {module.name.split("/")[1] for module in package_modules() if module.name.startswith("engine/")} - {
        "__init__.py"
    }
    assert {room for arrow in arrows for room in arrow} == rooms
    assert len(arrows) <= ARROWS, "\n".join(" → ".join(arrow) for arrow in arrows)


def test_the_count_of_arrows_sees_those_inside_functions_and_for_types():
    text = "from handoff.engine.app import App\ndef late():\n    from handoff.engine.place import landing\n"
    assert _arrows((Module.of("engine/setup/planted.py", text),)) == {("setup", "app"), ("setup", "place")}
