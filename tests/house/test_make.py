"""`make` and `.ci/run` on machines that lack something: a clear word instead of a riddle."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib

import pytest

from source import ROOT, read

REAL = ("bash", "sh", "env", "dirname", "sed", "printf", "cat", "touch")


@pytest.fixture
def machine(tmp_path):
    """A PATH that holds a few real programs and whatever the test puts there; every stand-in writes down its call."""
    place = tmp_path / "bin"
    place.mkdir()
    for name in REAL:
        found = shutil.which(name)
        if found:
            (place / name).symlink_to(found)
    return place


def _stand_in(machine, name: str, *lines: str) -> None:
    path = machine / name
    path.write_text("\n".join(["#!/bin/sh", f'echo "{name} $*" >>"{machine}/calls"', *lines, ""]))
    path.chmod(0o755)


def _calls(machine) -> list[str]:
    path = machine / "calls"
    return path.read_text().splitlines() if path.exists() else []


def _run(machine, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        list(words), cwd=ROOT, env={"PATH": str(machine), "HOME": os.environ["HOME"], **environment},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def _ci(machine, name: str = "run", *words: str) -> subprocess.CompletedProcess[str]:
    return _run(machine, os.path.join(ROOT, ".ci", name), *words)


def test_make_alone_tells_what_there_is():
    done = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True)
    for target in ("demo", "test", "lint", "bench", "docs"):
        assert f"make {target}" in done.stdout


@pytest.mark.parametrize(
    ("failing", "words"),
    [("version_info", "needs Python 3.11 or newer"), ("ensurepip", "apt-get install python3-venv")],
)
def test_an_unfit_python_is_told_with_its_fix(machine, tmp_path, failing, words):
    _stand_in(machine, "oldpython", f'case "$*" in *{failing}*) exit 1;; esac')
    venv = str(tmp_path / "venv")
    done = _run(machine, shutil.which("make"), f"VENV={venv}", "PYTHON=oldpython", f"{venv}/bin/python")
    assert done.returncode != 0
    assert words in done.stderr
    assert not os.path.exists(venv)


EVERYDAY = "faketime ssh-keygen openssl ps systemd-analyze gcc cargo npm chromium zsh fish elvish go rspec phpunit javac".split()
FOR_A_USER = "useradd userdel pkill timeout tar".split()


def _furnish(machine, *names: str) -> None:
    for name in (*names, *EVERYDAY, *FOR_A_USER):
        _stand_in(machine, name)
    (machine / "python3").symlink_to(sys.executable)
    (machine / "dpkg-query").symlink_to(shutil.which("true"))  # asked each time whether JUnit and Postgres are there


def _user(machine, number: int) -> None:
    _stand_in(machine, "id", f"echo {number}")


def test_ci_gives_every_verdict_and_lets_nothing_be_absent(machine):
    _furnish(machine, "git", "bwrap", "tmux", "apt-get")
    _user(machine, 1000)
    _stand_in(machine, "make", f'echo "demand $HANDOFF_TEST_REQUIRE_ALL" >>"{machine}/calls"')
    done = _ci(machine)
    assert done.returncode == 0, done.stderr
    calls = [call for call in _calls(machine) if not call.startswith("id ")]
    assert calls[1::2] == ["demand 1"] * 5
    assert calls[0::2] == [
        "make lint",
        "make script-packages",
        "make test",
        "make test-slow",
        "make test-clients CLIENTS=claude codex copilot gemini",
    ]


def test_ci_stops_at_the_first_red_verdict(machine):
    _furnish(machine, "git", "bwrap", "tmux")
    _stand_in(machine, "make", "exit 2")
    assert _ci(machine).returncode == 2
    assert _calls(machine) == ["make lint"]


@pytest.mark.parametrize("code", [0, 2])
def test_a_command_is_run_as_a_user_who_is_gone_afterwards(machine, code):
    _furnish(machine, "git", "bwrap", "tmux", "make")
    _user(machine, 0)
    _stand_in(machine, "timeout", f'case "$*" in *test) exit {code};; esac')
    assert _ci(machine, "as-user", "make", "test").returncode == code
    calls = _calls(machine)
    person = next(call for call in calls if call.startswith("useradd ")).split()[-1]
    assert person.startswith("handoff-ci-")
    (run,) = [call for call in calls if call.endswith(" make test")]
    assert f"runuser -u {person} -- env" in run
    assert f"HOME=/home/{person} " in run
    assert calls[-2:] == [f"pkill -KILL -u {person}", f"userdel --force --remove {person}"]


def test_who_is_no_root_runs_the_command_himself(machine):
    _user(machine, 1000)
    _stand_in(machine, "make")
    assert _ci(machine, "as-user", "make", "test").returncode == 0
    assert _calls(machine) == ["id -u", "make test"]


def test_root_lets_ci_run_the_quick_part_and_the_clients_as_an_ordinary_user(machine):
    _furnish(machine, "git", "bwrap", "tmux", "make")
    _user(machine, 0)
    assert _ci(machine).returncode == 0
    runs = [call for call in _calls(machine) if "make test" in call and call.startswith("timeout")]
    assert len(runs) == 1
    assert "PATH=~/bin make test-unsandboxed" in runs[0]
    told = _run(machine, shutil.which("make"), "-n", "test-clients", "CLIENTS=gemini").stdout
    assert 'as-user make test-clients CLIENTS="gemini"' in told
    assert "pytest" not in told


def test_ci_installs_only_what_is_missing(machine):
    _furnish(machine, "git", "make", "tmux", "apt-get")
    _user(machine, 0)
    done = _ci(machine)
    assert done.returncode == 0, done.stderr
    installs = [call for call in _calls(machine) if call.startswith("apt-get install")]
    assert [call.split()[-1] for call in installs] == ["bubblewrap"]


def test_ci_says_what_to_install_when_it_may_not(machine):
    _furnish(machine, "git", "make")
    _user(machine, 1000)
    _stand_in(machine, "sudo", "exit 1")
    done = _ci(machine)
    assert done.returncode == 1
    assert "Please install first: bubblewrap tmux" in done.stderr


def test_in_ci_what_is_absent_is_a_failure_and_elsewhere_it_is_passed_by(tmp_path):
    probe = tmp_path / "test_probe.py"
    probe.write_text(
        "from sandbox import absent\n\ndef test_a_probe(monkeypatch):\n    monkeypatch.delenv('HANDOFF_TEST_REQUIRE_ALL')\n    absent('a unicorn')\n"
    )
    for value, told in (("1", "a unicorn is absent, and HANDOFF_TEST_REQUIRE_ALL is set"), ("", "1 skipped")):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", ROOT, "-c",
             os.path.join(ROOT, "pyproject.toml"), "--confcutdir", ROOT, str(probe)],
            cwd=ROOT, env={**os.environ, "HANDOFF_TEST_REQUIRE_ALL": value}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert told in done.stdout, done.stdout


def test_constraints_are_plain_names_and_versions():
    lines = [line for line in read("constraints.txt").splitlines() if line and not line.startswith("#")]
    assert lines
    assert all(line.count("==") == 1 and " " not in line and "/" not in line for line in lines)


def test_every_direct_dependency_of_the_suite_has_its_version_written_down():
    pyproject = tomllib.loads(read("pyproject.toml"))
    project, tools = pyproject["project"], pyproject["dependency-groups"]["dev"]
    extras = project["optional-dependencies"]
    tools = [name for name in tools if isinstance(name, str)]  # the rest is another group, pinned where it stands
    chosen = next(name for name in tools if name.startswith("handoff-relay["))
    named = [*project["dependencies"], *tools]
    named += [name for extra in chosen[len("handoff-relay[") : -1].split(",") for name in extras[extra]]
    names = {re.split(r"[\[<>=!~; ]", name)[0].lower() for name in named} - {"handoff-relay"}
    fixed = {line.split("==")[0].lower() for line in read("constraints.txt").splitlines()}
    assert not names - fixed, f"add to constraints.txt: {names - fixed}"
