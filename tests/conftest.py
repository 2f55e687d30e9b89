"""Every test lives in its own home: HOME, git's settings and $HANDOFF_HOME are inside its temp folder."""

from __future__ import annotations

import os
import signal
import tempfile

import pytest
from hypothesis import HealthCheck, settings

from databases import database, place, postgres_server  # noqa: F401 - fixtures, here once: one server for all files
from outside import PersonsHome, Watch
from real_clients import FOLDER, OWN
from sandbox import ALL_REQUIRED, OF_THE_MACHINE, REQUIRE_ALL, WARM, WARM_HEAVY, Cli, Repo, hermetic_environment
from script_packages import FOLDER as SCRIPTS

WATCH = Watch()
HOME = PersonsHome()
TABLE = os.environ.get("HANDOFF_TEST_CLIENTS_TABLE", FOLDER)

# A busy machine is no fault of the code: no property is judged by how quickly examples come.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")
# A shell starts its background jobs with SIGINT ignored, and every process below inherits that: tests that interrupt would wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    """Tests change what lies in the temp folder of this run, wherever that was asked for."""
    WATCH.install(str(config._tmp_path_factory.getbasetemp()))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    """Where all is demanded, a run that passed something by is red, whoever passed it by."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and (changed := HOME.changed()):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        reporter.write_line(f"changed in the home of the person who runs the tests: {', '.join(changed)}", red=True)
    if ALL_REQUIRED and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        reporter.write_line(f"{len(reporter.stats['skipped'])} skipped, and {REQUIRE_ALL} is set", red=True)


@pytest.hookimpl(wrapper=True)
def _watched(item):
    """Nothing outside is touched; real clients work beside their own programs, because to some of them all of /tmp is theirs."""
    also = (FOLDER, OWN, TABLE) if item.get_closest_marker("clients") else ()
    also += (SCRIPTS,) if item.get_closest_marker("scripts") else ()
    with WATCH.watching(*also):
        return (yield)


pytest_runtest_setup = pytest_runtest_call = pytest_runtest_teardown = _watched


def _move_to(home, patch):
    """From here on HOME, git's settings and $HANDOFF_HOME are inside this folder, for us and for what we start."""
    for name in list(os.environ):
        if name.startswith(OF_THE_MACHINE):
            patch.delenv(name)
    for name, value in hermetic_environment(str(home)).items():
        patch.setenv(name, value)
    return home


@pytest.fixture(scope="session", autouse=True)
def _home_of_what_is_shared(tmp_path_factory):
    """What several tests share is made before any of them has its home."""
    with pytest.MonkeyPatch.context() as patch:
        shared = _move_to(tmp_path_factory.mktemp("shared"), patch)
        Repo.first = Repo.create(str(shared / "first")).path
        yield shared
        WARM.close()
        WARM_HEAVY.close()


@pytest.fixture(autouse=True)
def _own_home(tmp_path_factory, monkeypatch):
    """Nothing of the person who runs the tests is read or written."""
    return _move_to(tmp_path_factory.mktemp("home"), monkeypatch)


@pytest.fixture
def repo(tmp_path):
    """A real git repository with one commit."""
    return Repo.create(str(tmp_path / "repo"))


@pytest.fixture
def cli(repo):
    """`handoff` as a real process, started in `repo`."""
    return Cli(repo.path)


@pytest.fixture
def folder():
    """A short temp folder outside any repository, for socket paths and the like."""
    with tempfile.TemporaryDirectory(prefix="ho-") as path:
        yield path
