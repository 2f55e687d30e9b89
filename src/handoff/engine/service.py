"""The watchdog as a timer of the person's own system: systemd on Linux, launchd on macOS. Only our own files are touched."""

from __future__ import annotations

import os
import sys

from handoff.base.errors import Refused
from handoff.base.files import make_folder, read_bytes, remove, write_atomic
from handoff.base.process import find, run
from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from handoff.engine.app import App

MARK = "Written by handoff install; handoff uninstall removes it."
_EVERY_SECONDS = 60
_LABEL = "dev.handoff.watchdog"
_UNIT = "handoff-watchdog"
_SECONDS = 30.0


class Step(Record):
    """One thing that was done or could not be done."""

    words: str
    done: bool = True


class Plan(Record):
    """The files of the timer, and the commands that switch it on and off."""

    files: dict[str, str]
    switch_on: tuple[tuple[str, ...], ...]
    switch_off: tuple[tuple[str, ...], ...]


def plan(app: App, *, system: str = sys.platform, command: tuple[str, ...] = ()) -> Plan:
    """What `install` writes on this system."""
    words = (*(command or _own_command()), "watchdog", "--once")
    if system == "darwin":
        return _launchd(app, words)
    return _systemd(app, words)


def install(app: App) -> list[Step]:
    """Write the timer and switch it on; a file that is not ours is never overwritten."""
    wanted = plan(app)
    for path in wanted.files:
        _refuse_foreign(path)
    steps = []
    for path, text in wanted.files.items():
        if os.path.exists(path) and read_bytes(path) == text.encode():
            steps.append(Step(f"{path} is as it should be."))
            continue
        make_folder(os.path.dirname(path))
        write_atomic(path, text)
        steps.append(Step(f"Wrote {path}."))
    return [*steps, *_run_all(app, wanted.switch_on)]


def uninstall(app: App) -> list[Step]:
    """Switch the timer off and remove our files; foreign ones stay."""
    wanted = plan(app)
    present = [path for path in wanted.files if os.path.lexists(path)]
    for path in present:
        _refuse_foreign(path)
    if not present:
        return [Step("Nothing is installed.")]
    steps = _run_all(app, wanted.switch_off)
    for path in present:
        remove(path)
        steps.append(Step(f"Removed {path}."))
    return steps


def _refuse_foreign(path: str) -> None:
    if os.path.lexists(path) and MARK.encode() not in read_bytes(path):
        raise Refused(f"{path} was not written by handoff.", "Move it away first; handoff leaves it as it is.")


def _run_all(app: App, commands: tuple[tuple[str, ...], ...]) -> list[Step]:
    steps = []
    for words in commands:
        shown = " ".join(words)
        if find(words[0], path=app.settings.path) is None:
            steps.append(Step(f"Not done, {words[0]} is not on this machine: {shown}", done=False))
            continue
        answer = run(words, environment=app.settings.environment, timeout=_SECONDS)
        if answer.code:
            why = answer.error_text.splitlines()[-1:] or [f"exit {answer.code}"]
            steps.append(Step(f"Not done: {shown}: {why[0]}", done=False))
        else:
            steps.append(Step(f"Ran {shown}."))
    return steps


def _own_command() -> tuple[str, ...]:
    """This installation, by absolute path: a timer has no PATH of the person's shell."""
    script = os.path.join(os.path.dirname(sys.executable), "handoff")
    if os.access(script, os.X_OK):
        return (script,)
    return (sys.executable, "-m", "handoff.surfaces.cli.main")


def _home_of(app: App) -> str:
    return app.settings.get("HOME") or os.path.expanduser("~")


def _variables(app: App) -> dict[str, str]:
    """What the timer must know: where the home is. A database address may hold a password and stays in config.toml."""
    return {"HANDOFF_HOME": app.settings.home}


def _systemd(app: App, words: tuple[str, ...]) -> Plan:
    base = app.settings.get("XDG_CONFIG_HOME") or os.path.join(_home_of(app), ".config")
    folder = os.path.join(base, "systemd", "user")
    environment = "".join(f"Environment={_unit_quoted(f'{k}={v}')}\n" for k, v in _variables(app).items())
    command = " ".join(_unit_quoted(word).replace("$", "$$") for word in words)  # only a command line expands $
    service = (
        f"# {MARK}\n[Unit]\nDescription=handoff watchdog: expired leases, due fan-ins, overdue gates\n\n"
        f"[Service]\nType=oneshot\n{environment}ExecStart={command}\n"
    )
    timer = (
        f"# {MARK}\n[Unit]\nDescription=Run the handoff watchdog every minute\n\n"
        f"[Timer]\nOnActiveSec=5\nOnUnitInactiveSec={_EVERY_SECONDS}\nAccuracySec=5\n\n[Install]\nWantedBy=timers.target\n"
    )
    systemctl = ("systemctl", "--user")
    return Plan(
        {os.path.join(folder, f"{_UNIT}.service"): service, os.path.join(folder, f"{_UNIT}.timer"): timer},
        ((*systemctl, "daemon-reload"), (*systemctl, "enable", "--now", f"{_UNIT}.timer")),
        ((*systemctl, "disable", "--now", f"{_UNIT}.timer"),),
    )


def _unit_quoted(word: str) -> str:
    """A word of a unit file: quotes and backslashes escaped, systemd's own % doubled."""
    word = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{word}"'


def _launchd(app: App, words: tuple[str, ...]) -> Plan:
    path = os.path.join(_home_of(app), "Library", "LaunchAgents", f"{_LABEL}.plist")
    arguments = "".join(f"    <string>{_xml(word)}</string>\n" for word in words)
    variables = "".join(f"    <key>{_xml(k)}</key><string>{_xml(v)}</string>\n" for k, v in _variables(app).items())
    log = os.path.join(app.settings.home, "logs", "watchdog.log")
    text = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<!-- {MARK} -->\n"
        f'<plist version="1.0">\n<dict>\n  <key>Label</key><string>{_LABEL}</string>\n'
        f"  <key>ProgramArguments</key>\n  <array>\n{arguments}  </array>\n"
        f"  <key>EnvironmentVariables</key>\n  <dict>\n{variables}  </dict>\n"
        f"  <key>StartInterval</key><integer>{_EVERY_SECONDS}</integer>\n  <key>RunAtLoad</key><true/>\n"
        f"  <key>StandardErrorPath</key><string>{_xml(log)}</string>\n</dict>\n</plist>\n"
    )
    target = f"gui/{os.getuid()}"
    return Plan(
        {path: text},
        (("launchctl", "bootstrap", target, path),),
        (("launchctl", "bootout", f"{target}/{_LABEL}"),),
    )


def _xml(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
