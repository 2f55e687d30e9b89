"""What may not come with a phase: names that stand in for others, bytecode, settings of the runner in any file it reads."""

from __future__ import annotations

import os

import pytest

from handoff.checks.findings import FileChange
from handoff.checks.support import find_injected, find_settings, python_paths
from handoff.engine.place.proof.test_runs import drop_bytecode

BEFORE = ("shop.py", "checking.py", "src/till/__init__.py", "src/till/cart.py", "tests/test_shop.py", "lib/money.py")


def codes(path: str, paths: tuple[str, ...] = ("lib",)) -> list[str]:
    return [one.code for one in find_injected([FileChange(path, False, None, "")], (), BEFORE, paths)]


@pytest.mark.parametrize(
    "path",
    [
        "src/shop.py",
        "tests/checking.py",
        "tests/shop.py",
        "shop/__init__.py",
        "shop.cpython-311-x86_64-linux-gnu.so",
        "src/till/cart/__init__.py",
        "src/till/cart.so",
        "money.py",
        "tests/random.py",
        "src/json/__init__.py",
    ],
)
def test_a_new_name_that_an_import_finds_in_two_places_is_refused(path):
    assert codes(path) == ["name-shadows"]


@pytest.mark.parametrize(
    "path", ["tests/helpers.py", "src/till/shop.py", "src/till/json.py", "tests/conftest.py", "docs/shop.md", "new.py"]
)
def test_a_new_name_of_its_own_is_let_through(path):
    assert codes(path) == []


def test_a_module_that_moved_shadows_nothing():
    moved = [FileChange("shop.py", False, "x = 1\n", None), FileChange("src/shop.py", False, None, "x = 1\n")]
    assert find_injected(moved, (), BEFORE) == []


def test_bytecode_without_its_text_is_refused():
    assert "runner-planted" in codes("till.pyc")


@pytest.mark.parametrize("name", ["pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini", "tests/.pytest.ini"])
def test_each_file_pytest_reads_is_settings_also_when_it_is_empty(name):
    assert [one.code for one in find_settings([FileChange(name, False, None, "")])] == ["settings-changed"]


def test_settings_are_compared_by_what_they_mean():
    before, after = '[tool.pytest.ini_options]\naddopts = "-q"\n', "[tool.pytest.ini_options]\naddopts='-q' # quiet\n"
    assert find_settings([FileChange("pyproject.toml", False, before, after)]) == []
    assert find_settings([FileChange("pyproject.toml", False, before, before.replace("-q", "-x"))])
    assert find_settings([FileChange("tox.ini", False, None, "[tox]\nenvlist = py\n")]) == []


def test_the_folders_that_settings_put_onto_the_path_are_read_from_every_file():
    files = {
        "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = [".", "lib"]\n',
        "tox.ini": "[pytest]\npythonpath = more\n",
    }
    assert python_paths(files.get) == ("", "lib", "more")


def test_bytecode_that_a_commit_brought_is_not_run(tmp_path):
    for name in ("shop.py", "__pycache__/shop.cpython-311.pyc", "deep/.pytest_cache/x"):
        os.makedirs(os.path.dirname(tmp_path / name), exist_ok=True)
        (tmp_path / name).write_text("")
    drop_bytecode(str(tmp_path))
    assert sorted(os.listdir(tmp_path)) == ["deep", "shop.py"]
    assert os.listdir(tmp_path / "deep") == []
