"""What pytest does, seen from inside it: raw outcomes, reports, hooks of the tree, and whether the runner stayed itself."""

from __future__ import annotations

import hashlib
import os
import sys

import pytest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType
    from typing import Any

_LONGEST = 40_000
_RUNNER = (
    "_pytest.runner _pytest.reports _pytest.python _pytest.main _pytest.config _pytest.unittest _pytest.skipping _pytest.nodes"
    " _pytest.outcomes _pytest.fixtures _pytest.assertion.util _pytest.assertion.rewrite _pytest._code.code _pytest.python_api"
    " _pytest.raises _pytest.terminal pluggy._callers pluggy._execution pluggy._caller pluggy._hooks pluggy._manager pluggy._result unittest.case unittest.suite"
).split()
# Hooks by which a result can become another one, or a test can go missing.
_RESULT_HOOKS = frozenset(
    """pytest_runtest_makereport pytest_pyfunc_call pytest_runtest_call pytest_runtest_protocol pytest_runtest_setup
    pytest_runtest_teardown pytest_runtest_logreport pytest_runtestloop pytest_collection_modifyitems pytest_ignore_collect
    pytest_collect_file pytest_pycollect_makeitem pytest_pycollect_makemodule pytest_make_collect_report pytest_itemcollected
    pytest_deselected pytest_sessionfinish pytest_report_teststatus pytest_exception_interact pytest_fixture_setup
    pytest_assertion_pass pytest_generate_tests pytest_collection pytest_cmdline_main pytest_report_from_serializable""".split()
)


def digest(code: Any) -> str:
    """What a function does, whatever lines it stands on."""
    seen = hashlib.sha256()
    queue = [code]
    while queue:
        one = queue.pop(0)
        seen.update(one.co_code)
        seen.update(repr((one.co_names, one.co_varnames, one.co_freevars)).encode("utf-8", "replace"))
        for value in one.co_consts:
            if hasattr(value, "co_code"):
                queue.append(value)
            else:
                text = sorted(map(repr, value)) if isinstance(value, frozenset) else repr(value)
                seen.update(repr(text).encode("utf-8", "replace"))
    return seen.hexdigest()[:12]


def empty_function(*_given: Any, **_named: Any) -> object:
    return object()


def empty_setter(*_given: Any, **_named: Any) -> None:
    return None


def functions_behind(value: Any) -> list[Any]:
    """The functions a name stands for: of a method, a property, and of what a decorator wrapped; caches are forgotten."""
    found = []
    for _ in range(9):
        if callable(getattr(value, "cache_clear", None)):
            value.cache_clear()
        for name in ("__func__", "fget"):
            value = getattr(value, name, value)
        code = getattr(value, "__code__", None)
        if code is not None and not code.co_freevars:
            found.append(value)
        value = getattr(value, "__wrapped__", None)
        if value is None:
            break
    return found


def take_out(top: str, functions: Any) -> list[tuple[Any, Any]]:
    """Empty these functions of loaded modules; each with the code it had."""
    undo = []
    places = {os.path.join(top, path) for path, _ in functions}
    modules = [(os.path.realpath(file), one) for one in list(sys.modules.values()) if (file := _file(one))]
    loaded = [(file, one) for file, one in modules if file in places]
    for path, name in functions:
        for file, module in loaded:
            if file != os.path.join(top, path):
                continue
            value: Any = module
            for part in name.split("."):
                value = vars(value).get(part) if value is not None and hasattr(value, "__dict__") else None
            for one in functions_behind(value) if value is not None else ():
                undo.append((one, one.__code__))
                quiet = name.rpartition(".")[2] in ("__init__", "__post_init__", "__setattr__", "__setitem__")
                one.__code__ = (empty_setter if quiet else empty_function).__code__
    return undo


def _file(module: Any) -> str:
    value = getattr(module, "__file__", None)
    return value if isinstance(value, str) else ""


class Witness:
    """Says what happens, as it happens."""

    def __init__(self, say: Callable[[dict[str, Any]], None], job: dict[str, Any], prints: ModuleType) -> None:
        self._prints = prints
        self._say, self._top = say, os.path.realpath(job["tree"]) + os.sep
        self._raw: dict[str, str] = {}
        self._before: dict[str, Any] = {}
        self._held: dict[str, int] = {}
        self._support = job["support"]
        inside: list[Any] = job.get("inside") or [[], [], []]
        self._watched, self._emptied, self._functions = inside
        self._called: dict[str, set[str]] = {}
        self._took: dict[str, int] = {}
        self.opened: Callable[[], object] = bool

    @pytest.hookimpl(tryfirst=True)
    def pytest_load_initial_conftests(self, early_config: Any) -> None:
        self.opened()
        # Not by `-o`: pytest rewrites the assertions of installed plugins too, and Hypothesis makes thousands about itself in each test.
        # Counted, they took ten times as long as the test and passed for its own. Plugins are loaded by now.
        early_config._inicache["enable_assertion_pass_hook"] = True  # noqa: SLF001 - there is no public way to set it this late
        marked: set[str] = getattr(early_config.pluginmanager.rewrite_hook, "_must_rewrite", set())
        marked -= {name for name in marked if name.partition(".")[0] == "hypothesis"}
        fresh = [name for name in self._support if name not in sys.modules]
        pytest.register_assert_rewrite(*fresh)
        self._before = self._prints.fingerprints(_RUNNER)

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: Any) -> None:
        """One process: what another one tells of its tests could be anybody's word."""
        if hasattr(config.option, "numprocesses"):
            config.option.numprocesses, config.option.dist, config.option.tx = 0, "no", []

    def pytest_collection_finish(self, session: Any) -> None:
        self._say({"t": "collected", "ids": [item.nodeid for item in session.items]})

    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_pyfunc_call(self, pyfuncitem: Any) -> Iterator[None]:
        outcome: Any = yield
        error = outcome.excinfo
        self._raw[pyfuncitem.nodeid] = error[0].__name__ if error else ""

    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_runtest_call(self, item: Any) -> Iterator[None]:
        """Where a test was named: what it enters of the tree, or how it does without some functions of it."""
        name = item.nodeid.rpartition("::")[2].partition("[")[0]
        undo: list[tuple[Any, Any]] = []
        if name in self._emptied:
            undo = take_out(self._top.rstrip(os.sep), self._functions)
            self._took[item.nodeid] = len(undo)
        if name in self._watched:
            seen, top = self._called.setdefault(item.nodeid, set()), self._top

            def look(frame: Any, event: str, _given: Any) -> None:
                code = frame.f_code
                if event == "call" and code.co_filename.startswith(top):
                    seen.add(f"{code.co_filename[len(top) :]}:{getattr(code, 'co_qualname', code.co_name)}")

            sys.setprofile(look)
        try:
            yield
        finally:
            if name in self._watched:
                sys.setprofile(None)
            for function, code in undo:
                function.__code__ = code

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._held[nodeid] = 0

    def pytest_assertion_pass(self, item: Any) -> None:
        self._held[item.nodeid] = self._held.get(item.nodeid, 0) + 1

    def pytest_collectreport(self, report: Any) -> None:
        if report.outcome != "passed":
            words = {"t": "load", "id": report.nodeid, "outcome": report.outcome, "text": _text(report)}
            self._say(words)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" or report.outcome != "passed":
            self._say(
                {
                    "t": "case",
                    "id": report.nodeid,
                    "when": report.when,
                    "outcome": report.outcome,
                    "expected": hasattr(report, "wasxfail"),
                    "raw": self._raw.get(report.nodeid, "") if report.when == "call" else "",
                    "called": sorted(self._called.get(report.nodeid, ()))[:500],
                    "emptied": self._took.get(report.nodeid, 0),
                    "held": self._held.get(report.nodeid, 0),
                    "text": "" if report.outcome == "passed" else _text(report),
                    "seconds": round(float(getattr(report, "duration", 0.0)), 5),
                }
            )

    def pytest_internalerror(self, excrepr: Any) -> None:
        self._say({"t": "fault", "text": str(excrepr)[-_LONGEST:]})

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: Any) -> None:
        self._say({"t": "hooks", "names": self._hooks(session.config)})

    def _hooks(self, config: Any) -> list[str]:
        """The tree's own hooks that decide about results, each with what it does."""
        found = set()
        for name in _RESULT_HOOKS:
            caller = getattr(config.pluginmanager.hook, name, None)  # config.hook is wrapped in older versions
            for one in caller.get_hookimpls() if caller is not None else ():
                code = self._prints.code_of(one.function)
                file = os.path.realpath(code.co_filename) if code is not None else ""
                if file.startswith(self._top):
                    found.add(f"{file[len(self._top) :]}:{name}:{digest(code)}")
        return sorted(found)

    def last(self) -> None:
        """Whether the runner is the one it was before anything of the tree was loaded."""
        self._say({"t": "patched", "names": self._prints.changed_parts(self._before, _RUNNER)})


def _text(report: Any) -> str:
    """What a report says of a failure, or why it was skipped."""
    said = report.longrepr
    text = str(said[2]) if isinstance(said, tuple) and len(said) == 3 else report.longreprtext  # noqa: PLR2004 - file, line, reason
    return text if len(text) <= _LONGEST else text[: _LONGEST // 4] + "\n…\n" + text[-_LONGEST // 4 * 3 :]


def run(
    say: Callable[[dict[str, Any]], None],
    job: dict[str, Any],
    open_tree: Callable[[], Callable[[], None]],
    ours: Callable[[str], ModuleType],
) -> int:
    """pytest as the project has it; the exit code."""
    witness = Witness(say, job, ours("fingerprints"))
    words = [*job["words"], "-o", f"cache_dir={job['cache']}"]
    witness.opened = open_tree()
    code = int(pytest.main(words, plugins=[witness]))
    witness.last()
    return code
