"""Records behave as named tuples do."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import pytest

from handoff.base.record import Record


class Point(Record):
    """Two numbers and a word."""

    x: int
    y: int = 2
    word: str = "w"

    @property
    def total(self) -> int:
        return self.x + self.y


def test_fields_are_given_by_place_by_name_or_by_default():
    assert Point(1) == Point(x=1, y=2) == (1, 2, "w")
    assert Point(1, word="z").word == "z"
    assert Point(1, 5).total == 6
    assert Point._fields == ("x", "y", "word")


@pytest.mark.parametrize("make", [Point, lambda: Point(1, 2, 3, 4), lambda: Point(1, z=3), lambda: Point(1, x=2)])
def test_wrong_fields_are_type_errors(make):
    with pytest.raises(TypeError):
        make()


def test_a_record_cannot_be_changed_only_replaced():
    point = Point(1)
    with pytest.raises(AttributeError):
        point.x = 3
    assert point._replace(x=3) == (3, 2, "w")
    with pytest.raises(ValueError, match="no field"):
        point._replace(z=1)


def test_it_travels_and_shows_itself():
    point = Point(1, 2, "a")
    assert pickle.loads(pickle.dumps(point)) == point
    assert isinstance(copy.copy(point), Point)
    assert repr(point) == "Point(x=1, y=2, word='a')"
    assert point._asdict() == {"x": 1, "y": 2, "word": "a"}


def test_a_light_command_imports_neither_typing_nor_dataclasses_nor_subprocess():
    code = (
        "import sys; from handoff.surfaces.cli.main import main; main(['list']); "
        "print(sorted({'typing', 'dataclasses', 'subprocess', 'pathlib', 'tomllib', 'rich', 'sqlite3'} & set(sys.modules)))"
    )
    said = subprocess.run(
        [sys.executable, "-S", "-c", "import sys; sys.path[:0] = " + repr(sys.path) + "; " + code],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.splitlines()[-1] == "[]"
