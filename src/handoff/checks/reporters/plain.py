"""Tests played without their runner: what they take from pytest and unittest stands in here. Alone: it is read as text, and goes into a script."""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import inspect
import os
import pathlib
import re
import sys
import tempfile
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Self  # of a project's Python nothing newer than 3.8 is asked


class Lacking(Exception):
    """What only the runner has: then there is no second opinion."""


class Looked(dict):  # type: ignore[type-arg]
    """The constants of a test, and which of them it looked up."""

    seen: set[str] = set()  # noqa: RUF012 - one play, one process

    def __getitem__(self, key: str) -> Any:
        self.seen.add(key)
        value = super().__getitem__(key)
        return bytes(value[0]) if isinstance(value, list) else value


class Near:
    """A number, or numbers in a list or dict, that another is near enough to."""

    def __init__(self, value: Any, rel: Any = None, abs: Any = None, nan_ok: bool = False) -> None:  # noqa: A002 - pytest's words
        self.value, self.rel, self.least, self.nan = value, rel, abs, nan_ok

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return self.fits(self.value, other)

    def fits(self, value: Any, other: Any) -> bool:
        if isinstance(value, dict):
            return set(value) == set(other) and all(self.fits(one, other[key]) for key, one in value.items())
        if isinstance(value, (list, tuple)):
            return len(value) == len(other) and all(self.fits(one, two) for one, two in zip(value, other))  # noqa: B905 - old Pythons
        if value == other or not isinstance(value, (int, float, complex)):
            return bool(value == other)
        least = 1e-12 if self.least is None else self.least
        part = 0.0 if self.rel is None and self.least is not None else (1e-6 if self.rel is None else self.rel)
        return bool(abs(value - other) <= max(least, part * abs(value)))


class Raised:
    """An error that must come, and with which words."""

    def __init__(self, kind: Any, match: str = "") -> None:
        self.kind, self.match = kind, match
        self.type: Any = None
        self.value: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: Any, _trace: Any) -> bool:  # noqa: PYI036 - an error of any kind
        if kind is None:
            raise AssertionError("nothing was raised")
        self.type, self.value = kind, error
        if issubclass(kind, self.kind) and self.match and not re.search(self.match, str(error)):
            raise AssertionError("other words")
        return bool(issubclass(kind, self.kind))


def raises(kind: Any, *given: Any, match: str = "", **named: Any) -> Any:
    if given:
        with Raised(kind) as caught:
            given[0](*given[1:], **named)
        return caught
    return Raised(kind, match)


def fixture(function: Any = None, **how: Any) -> Any:
    if function is None:
        return functools.partial(fixture, **how)
    if how.get("params") or isinstance(function, str):
        raise Lacking("params")
    wrapped = types.SimpleNamespace(made=function, always=how.get("autouse", False), name=how.get("name"))
    wrapped.is_fixture = True
    return wrapped


class Marks:
    """Rows are kept; what skips or needs a plugin is lacking; other marks say nothing."""

    def __getattr__(self, name: str) -> Any:
        if name in ("skip", "skipif", "xfail", "usefixtures", "asyncio", "anyio", "django_db"):
            raise Lacking(name)
        return rows if name == "parametrize" else self

    def __call__(self, *given: Any, **_named: Any) -> Any:
        return given[0] if len(given) == 1 and callable(given[0]) else lambda one: one


def rows(names: Any, values: Any, **how: Any) -> Any:
    if how.get("indirect"):
        raise Lacking("indirect")
    listed = [one.strip() for one in names.split(",") if one.strip()] if isinstance(names, str) else list(names)
    made = [dict(zip(listed, [one] if len(listed) == 1 else one)) for one in values]  # noqa: B905 - old Pythons

    def mark(one: Any) -> Any:
        one.rows_of = [*vars(one).get("rows_of", []), made]
        return one

    return mark


class Patch:
    """What a test sets for itself, and its undoing."""

    def __init__(self, ends: contextlib.ExitStack) -> None:
        self.ends = ends

    def setattr(self, where: Any, name: Any, *value: Any) -> None:
        if isinstance(where, str):
            place, _, last = where.rpartition(".")
            where, name, value = importlib.import_module(place), last, (name,)
        self.ends.callback(setattr, where, name, getattr(where, name))
        setattr(where, name, value[0])

    def setitem(self, where: Any, name: Any, value: Any) -> None:
        old = dict(where)
        self.ends.callback(lambda: (where.clear(), where.update(old)))
        where[name] = value

    def setenv(self, name: str, value: Any, *_: Any) -> None:
        self.setitem(os.environ, name, str(value))

    def delenv(self, name: str, *_: Any, **__: Any) -> None:
        self.setitem(os.environ, name, "")
        del os.environ[name]

    def chdir(self, place: Any) -> None:
        self.ends.callback(os.chdir, os.getcwd())
        os.chdir(place)


def stand_in(name: str, part: str = "") -> Any:
    """What `import name` or `from name import part` gives a test here."""
    if name == "pytest":
        own = {"raises": raises, "fixture": fixture, "approx": Near, "mark": Marks(), "MonkeyPatch": Patch}
        if part and part not in own:
            raise Lacking(part)
        return own[part] if part else types.SimpleNamespace(**own)
    found = another(name)
    return getattr(found, part, None) or another(f"{name}.{part}") if part else found


@functools.lru_cache(maxsize=None)  # noqa: UP033 - old Pythons
def another(name: str) -> Any:
    """A copy of the standard library's own, which no list of modules shows afterwards."""
    word = "q" + os.urandom(5).hex()
    before = set(sys.modules)
    place: Any = importlib.util.find_spec("unittest")
    spec: Any = importlib.util.spec_from_file_location(
        word, place.origin, submodule_search_locations=[os.path.dirname(place.origin)]
    )
    top = sys.modules[word] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(top)
    found = importlib.import_module(word + name[len("unittest") :])
    if "." in name:
        setattr(another("unittest"), name.rpartition(".")[2], found)
    for one in set(sys.modules) - before:
        if name == "unittest" or one.startswith((word, "unittest")):
            del sys.modules[one]
    return found


def run_one(test: Any, owner: Any, space: dict[str, Any], fixtures: dict[str, Any]) -> None:
    """Each row of a test of pytest, with what it asks to be given."""
    if inspect.iscoroutinefunction(test):
        raise Lacking("a loop")
    every: list[dict[str, Any]] = [{}]
    for listed in [*vars(test).get("rows_of", []), *vars(owner or types.SimpleNamespace()).get("rows_of", [])]:
        every = [{**one, **row} for one in every for row in listed]
    for row in every:
        with contextlib.ExitStack() as ends:
            this = [owner()] if owner else []
            given = Given(this, row, fixtures, ends)
            if owner:
                for name in ("setup_class", "setup_method"):
                    begin(getattr(this[0], name, None), test)
                ends.callback(lambda: begin(getattr(this[0], "teardown_method", None), test))  # noqa: B023 - called in this round
            else:
                begin(space.get("setup_function"), test)
            for name, one in fixtures.items():
                if one.always:
                    given.value(name)
            test(*this, **given.named(test, skip=len(this)))


def begin(function: Any, test: Any) -> None:
    if function is not None:
        function(*[test][: len(inspect.signature(function).parameters)])


class Given:
    """What one row of a test is given, each thing made once."""

    def __init__(
        self, this: list[Any], row: Mapping[str, Any], fixtures: Mapping[str, Any], ends: contextlib.ExitStack
    ) -> None:
        self.this, self.fixtures, self.ends = this, fixtures, ends
        self.row, self.made = row, dict(row)

    def named(self, function: Any, *, skip: int) -> dict[str, Any]:
        """The arguments of a test or fixture by name."""
        listed = list(inspect.signature(function).parameters.items())[skip:]
        return {name: self.value(name) for name, one in listed if name in self.row or one.default is one.empty}

    def value(self, name: str) -> Any:
        if name not in self.made:
            self.made[name] = self.make(name)
        return self.made[name]

    def make(self, name: str) -> Any:
        if name == "tmp_path":
            return pathlib.Path(self.ends.enter_context(tempfile.TemporaryDirectory()))
        if name == "monkeypatch":
            return Patch(self.ends)
        if name not in self.fixtures:
            raise Lacking(name)
        function = self.fixtures[name].made
        owned = self.this[:1] if next(iter(inspect.signature(function).parameters), "") == "self" else []
        value = function(*owned, **self.named(function, skip=len(owned)))
        if inspect.isgenerator(value):
            self.ends.callback(next, value, None)
            return next(value)
        if inspect.isawaitable(value):
            raise Lacking(name)
        return value


def run_case(owner: Any, name: str, space: dict[str, Any]) -> None:
    """A test of unittest, with what stands around it."""
    if inspect.iscoroutinefunction(getattr(owner, name)):
        raise Lacking("a loop")
    begin(space.get("setUpModule"), None)
    owner.setUpClass()
    case = owner(name)
    try:
        case.setUp()
        getattr(case, name)()
        case.tearDown()
    finally:
        while case._cleanups:  # noqa: SLF001 - `doCleanups` wants a runner
            function, listed, named = case._cleanups.pop()  # noqa: SLF001 - as above
            function(*listed, **named)
        owner.tearDownClass()


def play(job: Mapping[str, Any]) -> list[Any]:
    """Play one test: what was raised with which words, and the constants it looked up."""
    module = types.ModuleType(job["module"])
    looked = Looked(job["values"])
    try:
        fixtures: dict[str, Any] = {}
        for text in [*job["before"], job["text"]]:
            space = module.__dict__ if text is job["text"] else {"__name__": job["module"] + "_"}
            space.update({"__file__": job["file"], job["pool"]: looked, job["take"]: stand_in})
            sys.modules[module.__name__] = module
            exec(compile(text, job["file"], "exec"), space)  # noqa: S102 - the very text of the test
            fixtures.update(of_space(space))
        owner = space[job["owner"]] if job["owner"] else None
        if hasattr(owner, "assertEqual"):
            run_case(owner, job["name"], space)
        else:
            fixtures.update(of_space(vars(owner)) if owner else {})
            test = vars(owner)[job["name"]] if owner else space[job["name"]]
            run_one(test, owner, space, fixtures)
    except Lacking as error:
        return ["Skipped", str(error), []]
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is told
        return [type(error).__name__, str(error)[:2000], sorted(looked.seen)]
    return ["", "", sorted(looked.seen)]


def of_space(space: Mapping[str, Any]) -> dict[str, Any]:
    return {one.name or name: one for name, one in list(space.items()) if getattr(one, "is_fixture", False) is True}
