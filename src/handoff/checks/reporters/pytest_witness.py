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


class Witness:
    """Says what happens, as it happens."""

    def __init__(self, say: Callable[[dict[str, Any]], None], job: dict[str, Any], prints: ModuleType) -> None:
        self._prints = prints
        self._say, self._top = say, os.path.realpath(job["tree"]) + os.sep
        self._raw: dict[str, str] = {}
        self._before: dict[str, Any] = {}
        self._held: dict[str, int] = {}
        self._support = job["support"]
        self.opened: Callable[[], object] = bool

    @pytest.hookimpl(tryfirst=True)
    def pytest_load_initial_conftests(self, early_config: Any) -> None:
        self.opened()
        count_assertions(early_config, self._support)
        self._before = self._prints.fingerprints(_RUNNER)

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: Any) -> None:
        one_process(config)

    def pytest_collection_finish(self, session: Any) -> None:
        self._say({"t": "collected", "ids": [item.nodeid for item in session.items]})

    @pytest.hookimpl(hookwrapper=True, trylast=True)
    def pytest_pyfunc_call(self, pyfuncitem: Any) -> Iterator[None]:
        outcome: Any = yield
        error = outcome.excinfo
        self._raw[pyfuncitem.nodeid] = error[0].__name__ if error else ""

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


class _Asker:
    """Stands in the place of pytest's own loop, and asks the tests whether they mind."""

    def __init__(self, asked: Any, support: list[str]) -> None:
        self._asked, self._support = asked, support
        self.opened: Callable[[], object] = bool
        self._held: dict[str, int] = {}
        asked.held = self._held

    @pytest.hookimpl(tryfirst=True)
    def pytest_load_initial_conftests(self, early_config: Any) -> None:
        self.opened()
        count_assertions(early_config, self._support)
        leave_alone(early_config, self._asked.is_product)

    def pytest_assertion_pass(self, item: Any) -> None:
        node = item.nodeid.partition("[")[0]
        self._held[node] = self._held.get(node, 0) + 1

    @pytest.hookimpl(tryfirst=True)
    def pytest_cmdline_main(self, config: Any) -> None:
        one_process(config)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: Any) -> bool:
        self._asked.ask([(item.nodeid, item) for item in session.items], run_item)
        return True


def count_assertions(config: Any, support: list[str]) -> None:
    """Let pytest say each assertion that holds, in tests and in what they stand on.

    Not by `-o`: pytest rewrites the assertions of installed plugins too, and Hypothesis makes thousands about itself in each test.
    Counted, they took ten times as long as the test and passed for its own. Plugins are loaded by now.
    """
    config._inicache["enable_assertion_pass_hook"] = True  # noqa: SLF001 - there is no public way to set it this late
    marked: set[str] = getattr(config.pluginmanager.rewrite_hook, "_must_rewrite", set())
    marked -= {name for name in marked if name.partition(".")[0] == "hypothesis"}
    pytest.register_assert_rewrite(*[name for name in support if name not in sys.modules])


def leave_alone(config: Any, is_product: Callable[[str], bool]) -> None:
    """Code beside its tests has their package's name, which is rewritten; pytest's loader would load it without the boundary."""
    hook = config.pluginmanager.rewrite_hook
    plain: Callable[..., bool] = getattr(hook, "_should_rewrite", lambda *_given: False)
    hook._should_rewrite = lambda name, file, state: not is_product(file) and plain(name, file, state)  # noqa: SLF001 - as above


def one_process(config: Any) -> None:
    """What another one tells of its tests could be anybody's word."""
    if hasattr(config.option, "numprocesses"):
        config.option.numprocesses, config.option.dist, config.option.tx = 0, "no", []


def run_item(item: Any) -> tuple[str, str, str] | None:
    """Run one test; what was raised, where and in which words, where it failed."""
    runner = item.config.pluginmanager.getplugin("runner")
    for report in runner.runtestprotocol(item, log=False, nextitem=None):
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            words = str(getattr(crash, "message", "")).partition(":")[0].partition("\n")[0]
            return words, str(getattr(crash, "path", "")), str(report.longreprtext)[-300:]
    return None


def run(
    say: Callable[[dict[str, Any]], None],
    job: dict[str, Any],
    open_tree: Callable[[], Callable[[], None]],
    ours: Callable[[str], ModuleType],
) -> int:
    """pytest as the project has it; the exit code."""
    if job.get("inside"):
        asker = _Asker(ours("asking").asked_tests(say, job, ours), job["support"])
        asker.opened = open_tree()
        return int(pytest.main([*job["words"], "-o", f"cache_dir={job['cache']}"], plugins=[asker]))
    witness = Witness(say, job, ours("fingerprints"))
    words = [*job["words"], "-o", f"cache_dir={job['cache']}"]
    witness.opened = open_tree()
    code = int(pytest.main(words, plugins=[witness]))
    witness.last()
    return code
