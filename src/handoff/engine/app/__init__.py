"""Composition: settings in, one App out. Surfaces build it once and pass it on."""

from __future__ import annotations

import os

from handoff.base.clock import SystemClock
from handoff.base.errors import UserError
from handoff.base.files import make_folder
from handoff.base.record import TYPE_CHECKING
from handoff.base.settings import HOME_CONFIG, HOME_KEYS, git_environment, load_config, refuse_readable

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from handoff.base.clock import Clock
    from handoff.base.settings import Settings
    from handoff.store.database import Database

    Tell = Callable[[str, int, int], None]
    Once = Callable[[str, Callable[[], Any]], Any]


def _nobody(what: str, done: int, total: int) -> None:
    """Nobody looks: in pipes, under --json and in services."""
    del what, done, total


def _alone(name: str, work: Callable[[], Any]) -> Any:
    """Nobody else of this process asks for it."""
    del name
    return work()


_TAKEN_OUT = (
    "A secret was taken out before this was written down. Sessions get secrets by session_variables and session_files."
)


class App:
    """What every journey needs. Rooms are opened when first used, so a light command stays light."""

    def __init__(self, settings: Settings, clock: Clock | None = None) -> None:
        self.settings = settings
        self.clock: Clock = clock or SystemClock()
        self.notes: list[str] = []
        """What a person should hear at the end of the command, whatever it was."""
        self.tell: Tell = _nobody
        """Called with what takes long, how much of it is done and how much there is; a person's terminal shows it."""
        self.once: Once = _alone
        """Called with a name and some work that begins now at the earliest: threads that ask for the same share it."""
        self.known: dict[str, tuple[Any, Any]] = {}
        """What was dear to find out, by name: for which facts, and what came of them. While these are the same, so is that."""
        self._git_environment: dict[str, str] | None = None
        self._database: Database | None = None
        self._secrets: tuple[str, ...] | None = None

    @property
    def git_environment(self) -> dict[str, str]:
        if self._git_environment is None:
            self._git_environment = git_environment(self.settings)
        return self._git_environment

    def clean(self, text: str, *, tell: bool = True) -> str:
        """Words that are kept, shown and handed on, without the secrets of this environment and without what looks like one."""
        from handoff.base.redaction import redact, secret_values

        if self._secrets is None:
            self._secrets = secret_values(self.settings.environment)
        text, count = redact(text, self._secrets)
        if count and tell and _TAKEN_OUT not in self.notes:
            self.notes.append(_TAKEN_OUT)
        return text

    @property
    def database(self) -> Database:
        """The relay's rows. It belongs to the thread that first asks; another thread composes its own App."""
        if self._database is None:
            from handoff.store import open_database

            self.open_home()
            self._database = open_database(self.database_url, clock=self.clock)
        return self._database

    def open_home(self) -> None:
        """Make sure of the folder for our own files: only the person reads it, unless it is shared with a group on purpose."""
        home = self.settings.home
        if not os.path.isdir(home):
            if os.path.lexists(home):
                raise UserError(
                    f"{home} is not a folder, and handoff keeps its own files there.",
                    "Move it away, or set HANDOFF_HOME to a folder.",
                )
            if not self.settings.get("HANDOFF_HOME") and not os.path.isdir(os.path.dirname(home)):
                raise UserError(
                    f"Your home folder {os.path.dirname(home)} is not there.",
                    "Set HOME, or HANDOFF_HOME to a folder for handoff's own files.",
                )
            make_folder(home, mode=0o700)
        mode = os.stat(home).st_mode & 0o777
        open_to = mode & (0o007 if mode & 0o020 else 0o077)
        if open_to and self._close(home, mode & ~open_to):
            self.notes.append(f"Others could read {home}; now only {'the group' if mode & 0o020 else 'you'} can.")

    def _close(self, home: str, mode: int) -> bool:
        """Take the rights of others away, from the rows too; False where the folder is not ours."""
        try:
            os.chmod(home, mode)
            for name in ("handoff.db", "handoff.db-wal", "handoff.db-shm", "handoff.db-journal"):
                path = os.path.join(home, name)
                if os.path.isfile(path):
                    os.chmod(path, mode & 0o666)
        except OSError:
            return False
        return True

    @property
    def has_rows(self) -> bool:
        """Whether the relay was ever used: where it was not, nothing is opened and nothing made by looking."""
        home = self.settings.home
        if self.settings.get("HANDOFF_DATABASE_URL") or os.path.exists(os.path.join(home, "handoff.db")):
            return True
        config = os.path.join(home, HOME_CONFIG)
        return os.path.exists(config) and bool(load_config(config, HOME_KEYS).text("database_url"))

    @property
    def database_url(self) -> str:
        """HANDOFF_DATABASE_URL, else database_url in the home's config.toml, else the SQLite file in the home."""
        from handoff.store import database, database_url

        url = self.settings.get("HANDOFF_DATABASE_URL")
        if not url:
            config = load_config(os.path.join(self.settings.home, HOME_CONFIG), HOME_KEYS)
            url = config.text("database_url")
            if database.password_of(url):
                refuse_readable(config.path)
        return self.encrypted(url) if url else database_url(self.settings)

    def encrypted(self, url: str) -> str:
        """The address of a Postgres with the encryption that the home's config.toml demands."""
        from handoff.store import database

        if not database.is_postgres(url):
            return url
        config = load_config(os.path.join(self.settings.home, HOME_CONFIG), HOME_KEYS)
        return database.with_options(
            url, sslmode=config.text("database_sslmode"), sslrootcert=config.text("database_sslrootcert")
        )

    @property
    def is_open(self) -> bool:
        """Whether the rows were reached."""
        return self._database is not None

    def close(self) -> None:
        """Give the database back; a thread that composes its own App ends with this."""
        if self._database is not None:
            self._database.close()
            self._database = None

    def with_feature(self, name: str, *, said: bool = False) -> App:
        """The same App, looking at another feature; if it was said on the command line, hints say it too."""
        settings = self.settings._replace(feature=name)
        if said and name and "--feature" not in settings.program:
            settings = settings._replace(program=f"{settings.program} --feature {name}")
        app = App(settings, self.clock)
        app.notes, app.tell, app.known, app.once = self.notes, self.tell, self.known, self.once
        return app
