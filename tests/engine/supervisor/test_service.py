"""The supervisor and the watchdog as services: only our own files are written and removed, and what was not done is said."""

from __future__ import annotations

import os
import plistlib
import shutil
import stat
import subprocess
import sys

import pytest

from handoff.base.errors import Refused
from handoff.base.settings import from_environment
from handoff.engine.app import App
from handoff.engine.supervisor import service
from handoff.engine.supervisor.service import MARK, supervisor, watchdog
from sandbox import absent


def install(app, what=None):
    return service.install(app, what or watchdog())


def uninstall(app, what=None):
    return service.uninstall(app, what or watchdog())


def plan(app, what=None, **more):
    return service.plan(app, what or watchdog(), **more)


@pytest.fixture
def app(tmp_path, monkeypatch):
    monkeypatch.setenv("HANDOFF_HOME", str(tmp_path / "a $home with 100% spaces"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    os.makedirs(tmp_path / "bin")
    return App(from_environment())


def systemctl(tmp_path, code=0):
    path = tmp_path / "bin" / "systemctl"
    path.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/called\n[ {code} = 0 ] || echo "no bus" >&2\nexit {code}\n')
    path.chmod(stat.S_IRWXU)


def test_install_writes_two_units_switches_them_on_and_says_so(app, tmp_path):
    systemctl(tmp_path)
    steps = install(app)
    units = list(plan(app, system="linux").files)
    assert [os.path.basename(path) for path in units] == ["handoff-watchdog.service", "handoff-watchdog.timer"]
    assert all(os.path.isfile(path) for path in units)
    assert [step.words for step in steps[:2]] == [f"Wrote {path}." for path in units]
    assert (tmp_path / "called").read_text() == "--user daemon-reload\n--user enable --now handoff-watchdog.timer\n"
    assert all(step.done for step in steps)


def test_a_watchdog_that_opens_tabs_is_one_long_lived_service_and_there_is_never_a_second(app, tmp_path):
    systemctl(tmp_path)
    service.install_watchdog(app, opening=False)
    unit, timer = plan(app, system="linux").files
    service.install_watchdog(app, opening=True)
    assert not os.path.exists(timer)
    with open(unit, encoding="utf-8") as file:
        assert '"watchdog" "--watch"' in file.read()
    service.install_watchdog(app, opening=False)
    assert os.path.exists(timer)
    assert (tmp_path / "called").read_text().splitlines() == [
        "--user daemon-reload", "--user enable --now handoff-watchdog.timer",
        "--user disable --now handoff-watchdog.timer", "--user daemon-reload", "--user enable --now handoff-watchdog.service",
        "--user disable --now handoff-watchdog.service", "--user daemon-reload", "--user enable --now handoff-watchdog.timer",
    ]  # fmt: skip
    service.uninstall_watchdog(app)
    assert not os.path.exists(unit)
    app.open_home()
    assert service.set_auto_open(app).startswith('Wrote auto_open = "auto"')


def test_a_second_install_writes_nothing(app, tmp_path):
    systemctl(tmp_path)
    install(app)
    assert all("as it should be" in step.words for step in install(app)[:2])


def test_what_could_not_be_switched_on_is_said(app, tmp_path):
    assert [step.done for step in install(app)] == [True, True, False, False]
    systemctl(tmp_path, code=1)
    steps = install(app)
    assert "no bus" in steps[-1].words
    assert not steps[-1].done


def test_a_foreign_unit_is_neither_overwritten_nor_removed(app):
    path = list(plan(app, system="linux").files)[1]
    os.makedirs(os.path.dirname(path))
    with open(path, "w", encoding="utf-8") as file:
        file.write("[Timer]\n")
    for verb in (install, uninstall):
        with pytest.raises(Refused, match="not written by handoff"):
            verb(app)
    with open(path, encoding="utf-8") as file:
        assert file.read() == "[Timer]\n"
    assert not os.path.exists(next(iter(plan(app, system="linux").files)))


def test_uninstall_removes_what_install_wrote(app, tmp_path):
    systemctl(tmp_path)
    install(app)
    uninstall(app)
    assert not any(os.path.exists(path) for path in plan(app, system="linux").files)
    assert [step.words for step in uninstall(app)] == ["Nothing is installed."]


def test_a_unit_keeps_a_home_with_special_characters(app):
    text = next(iter(plan(app, system="linux", command=("/x/$y/handoff",)).files.values()))
    assert 'a $home with 100%% spaces"' in text
    assert 'ExecStart="/x/$$y/handoff" "watchdog" "--once"\n' in text


def test_the_agent_for_macos_is_a_valid_property_list(app):
    (path, text), *_ = plan(app, system="darwin", command=("/x & y/handoff",)).files.items()
    found = plistlib.loads(text.encode())
    assert found["ProgramArguments"] == ["/x & y/handoff", "watchdog", "--once"]
    assert found["EnvironmentVariables"] == {"HANDOFF_HOME": app.settings.home}
    assert path.endswith(f"Library/LaunchAgents/{found['Label']}.plist")
    assert MARK in text


WORKERS = ("--agent", "claude", "--labels", "gpu", "--", "--model", "$opus 100%")


def test_the_supervisor_is_a_service_that_comes_back_and_leaves_its_agents_alive(app, tmp_path):
    systemctl(tmp_path)
    steps = install(app, supervisor(WORKERS))
    (path,) = plan(app, supervisor(WORKERS), system="linux").files
    assert os.path.basename(path) == "handoff-work.service"
    with open(path, encoding="utf-8") as file:
        text = file.read()
    assert '"work" "--agent" "claude" "--labels" "gpu" "--" "--model" "$$opus 100%%"\n' in text
    assert "KillMode=process\nRestart=on-failure\n" in text
    assert f'Environment="PATH={tmp_path}/bin"' in text
    assert (tmp_path / "called").read_text().endswith("--user enable --now handoff-work.service\n")
    assert all(step.done for step in steps)


def test_uninstall_removes_exactly_what_it_is_about(app, tmp_path):
    systemctl(tmp_path)
    install(app)
    install(app, supervisor(WORKERS))
    uninstall(app, supervisor())
    assert not any(os.path.exists(path) for path in plan(app, supervisor()).files)
    assert all(os.path.exists(path) for path in plan(app).files)


def test_systemd_understands_every_unit(app, tmp_path):
    analyse = shutil.which("systemd-analyze", path=os.defpath)
    if analyse is None:
        absent("systemd-analyze")
    for what in (watchdog(), supervisor(WORKERS)):
        for path, text in plan(app, what, system="linux", command=(sys.executable,)).files.items():
            unit = tmp_path / os.path.basename(path)
            unit.write_text(text)
        said = subprocess.run(
            [analyse, "--user", "verify", str(unit)], capture_output=True, text=True, check=False,
            env={"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path), "SYSTEMD_UNIT_PATH": f"{tmp_path}:"},
        )  # fmt: skip
        wrong = [line for line in said.stderr.splitlines() if unit.name in line]
        assert (said.returncode, wrong) == (0, []), said.stderr


def test_the_supervisor_on_macos_comes_back_after_a_fault_and_leaves_its_agents_alive(app):
    ((path, text),) = plan(app, supervisor(WORKERS), system="darwin", command=("/x/handoff",)).files.items()
    found = plistlib.loads(text.encode())
    assert found["ProgramArguments"] == ["/x/handoff", "work", *WORKERS]
    assert found["KeepAlive"] == {"SuccessfulExit": False}
    assert found["AbandonProcessGroup"] is True
    assert "StartInterval" not in found
    assert set(found["EnvironmentVariables"]) == {"HANDOFF_HOME", "PATH"}
    assert path.endswith("dev.handoff.work.plist")


def test_a_service_uses_the_database_of_the_shell_but_writes_no_password_down(app, monkeypatch):
    monkeypatch.setenv("HANDOFF_DATABASE_URL", "postgresql://me@server/relay?sslmode=verify-full")
    with_address = App(from_environment())
    assert "HANDOFF_DATABASE_URL=postgresql://me@server/relay?sslmode=verify-full" in next(
        iter(plan(with_address, supervisor(WORKERS), system="linux").files.values())
    )
    monkeypatch.setenv("HANDOFF_DATABASE_URL", "postgresql://me:pw@server/relay")
    with pytest.raises(Refused, match="holds a password") as refused:
        install(App(from_environment()), supervisor(WORKERS))
    assert "chmod 600" in refused.value.hint
    assert not any(os.path.exists(path) for path in plan(app, supervisor()).files)
