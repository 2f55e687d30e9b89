"""The supervisor and the watchdog as services of the person's own system: systemd on Linux, launchd on macOS.

Only our own files are touched.
"""

from __future__ import annotations

import os
import sys

from handoff.base.errors import Refused
from handoff.base.files import make_folder, read_bytes, remove, write_atomic
from handoff.base.process import find, run
from handoff.base.record import TYPE_CHECKING, Record
from handoff.base.settings import HOME_CONFIG
from handoff.engine.app.home import home_config, set_in_home
from handoff.engine.session.agents import own_words
from handoff.engine.work.tasks.open_tab import AUTO, way_here
from handoff.store.database import password_of

if TYPE_CHECKING:
    from handoff.engine.app import App

MARK = "Written by handoff setup service; handoff setup service remove takes it away."
_EVERY_SECONDS = 60
_SECONDS = 30.0
_RESTART_SECONDS = 10
WATCHDOG, WORK = "watchdog", "work"


class Service(Record):
    """What is set up: its name, what it is for, and the words behind `handoff`; a timer runs again and again."""

    name: str
    purpose: str
    words: tuple[str, ...]
    timer: bool = False

    @property
    def unit(self) -> str:
        return f"handoff-{self.name}"

    @property
    def label(self) -> str:
        return f"dev.handoff.{self.name}"


def watchdog() -> Service:
    """The watchdog, every minute."""
    return Service(
        WATCHDOG, "handoff watchdog: expired leases, due fan-ins, overdue gates", ("watchdog", "--once"), timer=True
    )


def tab_opener() -> Service:
    """The watchdog as one long-lived process, because a tab is to open within a second."""
    return Service(WATCHDOG, "handoff watchdog: opens tabs, finds silent sessions", ("watchdog", "--watch"))


def supervisor(words: tuple[str, ...] = ()) -> Service:
    """The supervisor, from log-in on and again after a fault."""
    return Service(WORK, "handoff supervisor: claims what is ready and runs agents", ("work", *words))


class ServiceStep(Record):
    """One thing that was done or could not be done."""

    words: str
    done: bool = True


class ServicePlan(Record):
    """The files of the service, and the commands that switch it on and off."""

    files: dict[str, str]
    switch_on: tuple[tuple[str, ...], ...]
    switch_off: tuple[tuple[str, ...], ...]


def plan(app: App, service: Service, *, system: str = sys.platform, command: tuple[str, ...] = ()) -> ServicePlan:
    """What `install` writes on this system."""
    words = (*(command or own_words()), *service.words)
    if system == "darwin":
        return _launchd(app, service, words)
    return _systemd(app, service, words)


def install(app: App, service: Service) -> list[ServiceStep]:
    """Write the service's files and switch it on; a file that is not ours is never overwritten."""
    # what others may read is no place for a password
    if password_of(app.settings.get("HANDOFF_DATABASE_URL")):
        raise Refused(
            "HANDOFF_DATABASE_URL holds a password, and a service's file can be read by others.",
            f"Put it into {os.path.join(app.settings.home, HOME_CONFIG)} as database_url (chmod 600), unset the variable, run this again.",
        )
    wanted = plan(app, service)
    for path in wanted.files:
        _refuse_foreign(path)
    steps = []
    for path, text in wanted.files.items():
        if os.path.exists(path) and read_bytes(path) == text.encode():
            steps.append(ServiceStep(f"{path} is as it should be."))
            continue
        make_folder(os.path.dirname(path))
        write_atomic(path, text)
        steps.append(ServiceStep(f"Wrote {path}."))
    return [*steps, *_run_all(app, wanted.switch_on)]


def install_watchdog(app: App, *, opening: bool) -> list[ServiceStep]:
    """The watchdog as it is wanted; the other form of it, if it is there, goes first: there is one watcher."""
    other, wanted = (watchdog(), tab_opener()) if opening else (tab_opener(), watchdog())
    fresh = plan(app, wanted).files
    there = [
        path
        for path, text in plan(app, other).files.items()
        if fresh.get(path) != text and os.path.exists(path) and read_bytes(path) == text.encode()
    ]
    return [*(uninstall(app, other) if there else []), *install(app, wanted)]


def uninstall_watchdog(app: App) -> list[ServiceStep]:
    """Remove the watchdog in whichever form it is there."""
    timer = any(path.endswith(".timer") and os.path.lexists(path) for path in plan(app, watchdog()).files)
    return uninstall(app, watchdog() if timer or sys.platform == "darwin" else tab_opener())


def set_auto_open(app: App) -> str:
    """Write what the person works in into the home's settings; a service cannot see that by itself."""
    way = {"": AUTO, "kitty": "kitty-window"}.get(found := way_here(app, home_config(app)), found)
    return set_in_home(app, "auto_open", way)


def uninstall(app: App, service: Service) -> list[ServiceStep]:
    """Switch the service off and remove our files; foreign ones stay."""
    wanted = plan(app, service)
    present = [path for path in wanted.files if os.path.lexists(path)]
    for path in present:
        _refuse_foreign(path)
    if not present:
        return [ServiceStep("Nothing is installed.")]
    steps = _run_all(app, wanted.switch_off)
    for path in present:
        remove(path)
        steps.append(ServiceStep(f"Removed {path}."))
    return steps


def _refuse_foreign(path: str) -> None:
    if os.path.lexists(path) and MARK.encode() not in read_bytes(path):
        raise Refused(f"{path} was not written by handoff.", "Move it away first; handoff leaves it as it is.")


def _run_all(app: App, commands: tuple[tuple[str, ...], ...]) -> list[ServiceStep]:
    steps = []
    for words in commands:
        shown = " ".join(words)
        if find(words[0], path=app.settings.path) is None:
            steps.append(ServiceStep(f"Not done, {words[0]} is not on this machine: {shown}", done=False))
            continue
        answer = run(words, environment=app.settings.environment, timeout=_SECONDS)
        if answer.code:
            why = answer.error_text.splitlines()[-1:] or [f"exit {answer.code}"]
            steps.append(ServiceStep(f"Not done: {shown}: {why[0]}", done=False))
        else:
            steps.append(ServiceStep(f"Ran {shown}."))
    return steps


def _home_of(app: App) -> str:
    return app.settings.get("HOME") or os.path.expanduser("~")


def _variables(app: App, service: Service) -> dict[str, str]:
    """What the service must know: the home, the database this shell uses, and where the agents are that it starts."""
    found = {"HANDOFF_HOME": app.settings.home}
    if app.settings.get("HANDOFF_DATABASE_URL"):
        found["HANDOFF_DATABASE_URL"] = app.settings.get("HANDOFF_DATABASE_URL")
    return found if service.timer else {**found, "PATH": app.settings.path}


def _systemd(app: App, service: Service, words: tuple[str, ...]) -> ServicePlan:
    base = app.settings.get("XDG_CONFIG_HOME") or os.path.join(_home_of(app), ".config")
    folder = os.path.join(base, "systemd", "user")
    environment = "".join(f"Environment={_unit_quoted(f'{k}={v}')}\n" for k, v in _variables(app, service).items())
    command = " ".join(_unit_quoted(word).replace("$", "$$") for word in words)  # only a command line expands $
    # A stopped or restarted supervisor leaves its agents alive (KillMode): the next one attaches to them.
    kind = (
        "Type=oneshot\n"
        if service.timer
        else (f"Type=simple\nKillMode=process\nRestart=on-failure\nRestartSec={_RESTART_SECONDS}\n")
    )
    text = f"# {MARK}\n[Unit]\nDescription={service.purpose}\n\n[Service]\n{kind}{environment}ExecStart={command}\n"
    unit, systemctl = service.unit, ("systemctl", "--user")
    files = {os.path.join(folder, f"{unit}.service"): text}
    if service.timer:
        files[os.path.join(folder, f"{unit}.timer")] = (
            f"# {MARK}\n[Unit]\nDescription=Run the handoff {service.name} every minute\n\n"
            f"[Timer]\nOnActiveSec=5\nOnUnitInactiveSec={_EVERY_SECONDS}\nAccuracySec=5\n\n"
            "[Install]\nWantedBy=timers.target\n"
        )
    else:
        files[os.path.join(folder, f"{unit}.service")] += "\n[Install]\nWantedBy=default.target\n"
    switched = f"{unit}.{'timer' if service.timer else 'service'}"
    return ServicePlan(
        files,
        ((*systemctl, "daemon-reload"), (*systemctl, "enable", "--now", switched)),
        ((*systemctl, "disable", "--now", switched),),
    )


def _unit_quoted(word: str) -> str:
    """A word of a unit file: quotes and backslashes escaped, systemd's own % doubled."""
    word = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{word}"'


def _launchd(app: App, service: Service, words: tuple[str, ...]) -> ServicePlan:
    path = os.path.join(_home_of(app), "Library", "LaunchAgents", f"{service.label}.plist")
    arguments = "".join(f"    <string>{_xml(word)}</string>\n" for word in words)
    pairs = _variables(app, service).items()
    variables = "".join(f"    <key>{_xml(k)}</key><string>{_xml(v)}</string>\n" for k, v in pairs)
    log = os.path.join(app.settings.home, "logs", f"{service.name}.log")
    again = (
        f"  <key>StartInterval</key><integer>{_EVERY_SECONDS}</integer>\n"
        if service.timer
        else "  <key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>\n"
        f"  <key>ThrottleInterval</key><integer>{_RESTART_SECONDS}</integer>\n"
        "  <key>AbandonProcessGroup</key><true/>\n"  # agents outlive it, as under systemd
        f"  <key>StandardOutPath</key><string>{_xml(log)}</string>\n"
    )
    text = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<!-- {MARK} -->\n"
        f'<plist version="1.0">\n<dict>\n  <key>Label</key><string>{service.label}</string>\n'
        f"  <key>ProgramArguments</key>\n  <array>\n{arguments}  </array>\n"
        f"  <key>EnvironmentVariables</key>\n  <dict>\n{variables}  </dict>\n"
        f"{again}  <key>RunAtLoad</key><true/>\n"
        f"  <key>StandardErrorPath</key><string>{_xml(log)}</string>\n</dict>\n</plist>\n"
    )
    target = f"gui/{os.getuid()}"
    return ServicePlan(
        {path: text},
        (("launchctl", "bootstrap", target, path),),
        (("launchctl", "bootout", f"{target}/{service.label}"),),
    )


def _xml(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
