"""Where settings come from: the environment (only here) and two TOML files, checked key by key."""

from __future__ import annotations

import os
import sys

from handoff.base.errors import ConfigError
from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

DEFAULT_LANGUAGE = "English"
DEFAULT_BUDGET = 8000
DEFAULT_CONFIG = '# handoff configuration\nlanguage = "English"\n'
PROGRAM = "handoff"

# What a person or a script may set; docs/reference/settings.md is written from it, and a test compares it with the code.
VARIABLES = {
    "HANDOFF_HOME": "folder of the relay's database, queue files and logs; `~/.handoff` when unset",
    "HANDOFF_HOST": "name of this machine among those that share a database; its own name when unset. Containers with random names need one",
    "HANDOFF_FEATURE": "feature to use instead of the active one, so that two terminals can work on two features",
    "HANDOFF_DATABASE_URL": "database of the relay, for example `postgresql://…`; the SQLite file in the home when unset",
    "HANDOFF_PROJECT": "project the task belongs to, when it is not the repository's own name",
    "HANDOFF_NO_PBCOPY": "when set, text is never put on the clipboard",
    "HANDOFF_TASK": "task the present session holds; set for sessions, so that they need not name it",
    "HANDOFF_SESSION": "id of the present session",
    "HANDOFF_TOKEN": "secret with which a session's hooks prove that they are its own; set for sessions",
    "HANDOFF_HOOKS": "set for sessions that bring hooks of their own: those in the person's settings are silent then",
    "HANDOFF_BROKER": "socket on which the relay answers a session inside its sandbox; set for such sessions",
    "HANDOFF_FENCE": "fence of the present session; a write with an old one is refused",
    "HANDOFF_WORKSPACE": "folder of the present session's workspace; set for its setup command and its agent",
    "HANDOFF_WORKSPACE_NAME": "name of that workspace",
    "HANDOFF_WORKSPACE_SETUP": "command that makes a fresh workspace ready, for example one that installs dependencies",
    "HANDOFF_PORT": "first port that workspace may use, so that two sessions can run the same server",
    "HANDOFF_PORT_LAST": "last port that workspace may use",
    "HANDOFF_DATABASE_SUFFIX": "text to put behind database names, so that two sessions do not share one",
    "HANDOFF_OWNS": "patterns of the paths the present session may commit, one on a line",
    "HANDOFF_ROLE": "role of the present session in a batch; a sub-task may not do everything a main session may",
    "HANDOFF_BATCH_ID": "batch the present session works for",
    "HANDOFF_SUB_TASK_ID": "part of that batch the present session works on",
    "HANDOFF_EXPECTED_FILES": "file that lists the paths of the commit being made; set for the pre-commit hook",
    "HANDOFF_SAFE_COMMIT_LOCK": "lock file at which safe commits stand in line; one in the repository when unset",
    "HANDOFF_SAFE_COMMIT_RETRY_LIMIT": "tries a safe commit has at its lock; with the wait below it says how long it stands in line",
    "HANDOFF_SAFE_COMMIT_RETRY_WAIT": "seconds one such try lasts",
    "HANDOFF_SANDBOX": "which sandbox sessions run behind, when it must be another than the best one this machine has",
    "HANDOFF_SHARED": "git folder of the repository the sessions share; the guard lets sessions use repositories of their own",
    "HANDOFF_PROGRAM": "the `handoff` the guard calls for a snapshot; set by `handoff git-guard env`",
    "HANDOFF_NO_SNAPSHOT": "when set, the guard takes no snapshot before commands that destroy",
    "HANDOFF_SAFE_COMMIT": "set for hooks that run inside a safe commit",
    "HANDOFF_GLYPHS": "`ascii` or `unicode` marks, when the terminal is not what its language says",
    "NO_COLOR": "no colours, whatever the terminal can do",
    "FORCE_COLOR": "colours also where no terminal is, unless it is 0; NO_COLOR wins",
    "CLICOLOR_FORCE": "colours also where the output is not a terminal",
    "CLICOLOR": "`0` means no colours",
    "COLUMNS": "width of the terminal, when it must be another than the real one",
}


class Settings(Record):
    """What the environment said, read once."""

    environment: Mapping[str, str]
    home: str
    feature: str
    program: str
    folder: str = ""
    """Where the caller is, when it is not where this process is: a server answers many."""

    @property
    def here(self) -> str:
        return self.folder or os.getcwd()

    def get(self, name: str, default: str = "") -> str:
        return self.environment.get(name, default)

    @property
    def host(self) -> str:
        """The name of this machine, as the others know it."""
        return self.get("HANDOFF_HOST") or os.uname().nodename

    @property
    def path(self) -> str:
        return self.get("PATH", os.defpath)


def broker_of_session() -> str:
    """Where a sandboxed session knocks; empty for everybody else."""
    return os.environ.get("HANDOFF_BROKER", "")


def from_environment(argv0: str = "") -> Settings:
    """Read the environment. The program's name is the one it was called by, so that hints can be pasted."""
    environment = dict(os.environ)
    home = environment.get("HANDOFF_HOME") or os.path.join(os.path.expanduser("~"), ".handoff")
    name = os.path.basename(argv0)
    if name.endswith(".pyz"):
        path = os.path.abspath(argv0)
        quoted = path if path.isascii() and path.replace("/", "").replace(".", "").isidentifier() else f"'{path}'"
        name = f"{os.path.basename(sys.executable)} {quoted}"
    elif not name or name.endswith(".py") or name.startswith("-"):
        name = PROGRAM
    return Settings(
        environment, os.path.abspath(os.path.expanduser(home)), environment.get("HANDOFF_FEATURE", ""), name
    )


def git_environment(settings: Settings) -> dict[str, str]:
    """The environment for our own git calls: nothing that redirects the repository, no prompts, plain words."""
    kept = {
        key: value
        for key, value in settings.environment.items()
        if not key.startswith("GIT_") or key.startswith("GIT_CONFIG_") or key in _GIT_KEPT
    }
    kept.update(LC_ALL="C", GIT_TERMINAL_PROMPT="0", GIT_OPTIONAL_LOCKS="0")
    if "PATH" in kept:
        kept["PATH"] = without_guard(kept["PATH"])
    return kept


GUARD_MARK = "handoff-shim"


def without_guard(path: str) -> str:
    """PATH without the guarded git: that one is for sessions, what we do ourselves needs the real one."""
    if "/guard/" not in path:
        return path
    parts = path.split(os.pathsep)
    return os.pathsep.join(part for part in parts if not os.path.exists(os.path.join(part or ".", GUARD_MARK)))


_GIT_KEPT = frozenset(
    "GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_AUTHOR_DATE GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL GIT_COMMITTER_DATE "
    "GIT_EXEC_PATH GIT_SSH GIT_SSH_COMMAND GIT_ASKPASS GIT_SSL_CAINFO GIT_CEILING_DIRECTORIES".split()
)


def terminal_width(settings: Settings) -> int:
    """Columns of the person's terminal; COLUMNS wins."""
    columns = settings.get("COLUMNS")
    if columns.isdigit() and int(columns) > 0:
        return int(columns)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns
    except (AttributeError, OSError, ValueError):
        return 80


# --- settings files -------------------------------------------------------------------------------

_KINDS = {
    "text": str,
    "number": int,
    "list": list,
    "seconds": (int, float),
    "amount": (int, float),
    "yes-or-no": bool,
    "table": dict,
}


class Key(Record):
    """One allowed key of a settings file."""

    kind: str
    meaning: str
    default: Any = None


PROJECT_FOLDER = ".handoff"
"""What a project keeps for handoff: documents that every session may write, and its settings."""

PROJECT_KEYS: dict[str, Key] = {
    "language": Key("text", "language of the documents an assistant writes", DEFAULT_LANGUAGE),
    "check": Key("text", "command that proves a step when the step names none", ""),
    "check_timeout": Key("seconds", "seconds a check may take", 900),
    "checks": Key(
        "table", "test suites by name, when they shall not be guessed: see `handoff help docs/howto/checks.md`", {}
    ),
    "questions": Key(
        "number", "most altered answers that handoff tries on the tests when a refactoring changed them", 120
    ),
    "budget": Key("number", "estimated tokens a prompt may hold", DEFAULT_BUDGET),
    "agents": Key(
        "list",
        "who works on tasks that name no agent, in this order: the next one goes on where one has used up its attempts or is at a limit",
        [],
    ),
    "context_files": Key("list", "files of the repository that every prompt names and quotes", []),
}


HOME_CONFIG = "config.toml"  # in $HANDOFF_HOME
HOME_KEYS: dict[str, Key] = {
    "database_url": Key(
        "text", "database of the relay (env: HANDOFF_DATABASE_URL); empty is the SQLite file in the home", ""
    ),
    "database_sslmode": Key(
        "text", "encryption of the way to Postgres when the address names none, for example verify-full", ""
    ),
    "database_sslrootcert": Key("text", "file with the certificate of the authority that signed the server's", ""),
    "git_remote": Key(
        "text",
        "git repository that all machines of the relay share; {project} is filled in. Empty: this one works alone",
        "",
    ),
    "publish_seconds": Key("seconds", "how often running sessions' work is pushed to git_remote", 60),
    "retire_days": Key("number", "days after which what an ended task left at git_remote goes, if it did not land", 14),
    "labels": Key(
        "list", 'labels of this machine, for example ["gpu"]; a task that demands labels runs only where they are', []
    ),
    "hook_secrets": Key("table", 'secret of each project\'s webhook at its forge, for example { shop = "..." }', {}),
    "max_running": Key("number", "most sessions at once on this machine", 8),
    "max_running_project": Key("number", "most sessions at once in one project; without it there is no limit", 0),
    "max_running_agent": Key("table", "most sessions at once by agent name, for example { claude = 3 }", {}),
    "starts_per_minute": Key("number", "most sessions a supervisor starts in a minute", 60),
    "max_cost_per_day": Key(
        "amount",
        "US dollars the sessions of 24 hours may cost before you are asked for more; no limit when unset",
        0,
    ),
    "max_cost_per_task": Key(
        "amount",
        "US dollars all sessions of a task may cost, failed and killed ones too, before you are asked for more; no limit when unset",
        0,
    ),
    "max_cost_per_batch": Key(
        "amount", "US dollars all sessions of a batch may cost before you are asked for more; no limit when unset", 0
    ),
    "price": Key(
        "table",
        "US dollars per million tokens, by model or agent, for what a client does not say itself:"
        ' { "gpt-5" = { input = 1.25, cached = 0.125, output = 10 } }',
        {},
    ),
    "lease_seconds": Key("seconds", "how long a silent session is believed alive", 900),
    "back_off_seconds": Key(
        "seconds",
        "first pause before an agent its provider refused, or a task that could not begin, is tried again",
        60,
    ),
    "max_attempts": Key("number", "how often a task is handed out again before it is blocked", 3),
    "opener": Key(
        "text",
        "how a task is opened: auto, uri, tmux, terminal, clipboard, print, or an editor or terminal by name",
        "auto",
    ),
    "auto_open": Key(
        "text",
        "open a tab by itself when a task becomes ready: auto, or a way as for opener; empty: no. `handoff setup service install` asks",
        "",
    ),
    "uri_template": Key("text", "address that opens a tab; {prompt}, {workspace}, {task}, {project} are filled in", ""),
    "batch_guard": Key(
        "text",
        "the guard's hooks come with a repository's first open batch and go with its last one: auto, or no",
        "auto",
    ),
    "agent_command": Key("list", "program a tmux window or terminal runs; {prompt} is filled in", []),
    "terminal_command": Key("list", "program that opens a terminal; {command} is the agent_command", []),
    "clipboard_command": Key("list", "program that takes text for the clipboard on its standard input", []),
    "workspace_roots": Key("list", "folders in which a project's checkout is looked for by its name", []),
    "agents": Key(
        "table",
        'by name: a command of your own, { mine = ["my-agent", "{prompt_file}"] }, or `arguments` for any agent',
        {},
    ),
    "notify": Key(
        "table",
        "channels by name that get messages about what happens: see `handoff help docs/howto/gates.md`",
        {},
    ),
    "bell": Key(
        "yes-or-no",
        "whether `do`, `work` and the board ring your terminal and show a notice when something needs you or all is done",
        True,
    ),
    "landing": Key(
        "text",
        "what becomes of finished, green work: auto (it lands), review (you see it first), branch (it stays on its own branch)",
        "auto",
    ),
    "max_reviews": Key(
        "number", "most finished tasks of a project that wait for your review before nothing new starts", 5
    ),
    "forge_seconds": Key("seconds", "how often open requests and questions at issues are looked at on your forge", 60),
    "request_rounds": Key(
        "number", "how often the same failure of a request is mended before it becomes a question to you", 3
    ),
    "landing_project": Key("table", 'the same for single projects, for example { shop = "review" }', {}),
    "session_workspace": Key(
        "text",
        "where sessions work: auto (in a clone where there is a commit to clone), clone or shared (your checkout)",
        "auto",
    ),
    "session_workspace_project": Key("table", 'the same for single projects, for example { shop = "shared" }', {}),
    "carry": Key(
        "text",
        "what of your checkout clones begin with: untracked (also new files, unless git ignores them) or tracked (only what git tracks)",
        "untracked",
    ),
    "session_sandbox": Key(
        "text",
        "sandbox around sessions: auto (around clones, if this machine has one), none, workspace or owned",
        "auto",
    ),
    "session_caches": Key("list", "folders that sessions may write inside their sandbox, for example ~/.cargo", []),
    "session_defaults": Key(
        "yes-or-no", "whether a session may say itself what counts when nobody answers its question in time", False
    ),
    "session_files": Key(
        "list",
        "files and folders of your home that programs inside a sandbox may read beside toolchains, for example ~/.m2",
        [],
    ),
    "session_variables": Key(
        "list",
        "variables that sessions and checks in a sandbox may see beside PATH, HOME and toolchains; MY_* for all that begin so",
        [],
    ),
    "session_network": Key(
        "text",
        "what sandboxed sessions and checks reach: all, providers (the agent's own and session_hosts) or none",
        "all",
    ),
    "session_network_project": Key(
        "table", 'the same by project, for example { shop = "providers" }; the strictest holds', {}
    ),
    "session_hosts": Key(
        "list", 'hosts that are reached beside the agent\'s own, for example ["pypi.org", "*.pythonhosted.org"]', []
    ),
    "session_output": Key(
        "number", "megabytes that are kept of what a session prints; of more, the beginning and the end", 64
    ),
    "session_memory": Key(
        "text",
        "memory that the programs of a session, or of a check, may use together: a share of the machine's (90%) or an amount (16G, 500M)",
        "90%",
    ),
    "session_processes": Key("number", "processes that a session, or a check, may run at once", 2000),
    "session_minutes": Key("number", "minutes a session may take unless its task says otherwise", 240),
    "reading_list": Key(
        "list",
        "files every baton tells the session to read first, if they exist",
        ["AGENTS.md", "CLAUDE.md", "README.md"],
    ),
}


class Config(Record):
    """A checked settings file: every allowed key has a value."""

    path: str
    values: dict[str, Any]
    said: frozenset[str] = frozenset()
    """The keys that stand in the file."""

    def text(self, key: str) -> str:
        return str(self.values[key])

    def number(self, key: str) -> float:
        return float(self.values[key])

    def texts(self, key: str) -> list[str]:
        return [str(value) for value in self.values[key]]


def refuse_readable(path: str) -> None:
    """A file that holds a password must be its owner's alone."""
    mode = os.stat(path).st_mode
    if mode & 0o077:
        raise ConfigError(
            f"{path} holds a password, and others may read it (mode {mode & 0o777:o}).", f"Run: chmod 600 {path}"
        )


def load_config(path: str, keys: dict[str, Key]) -> Config:
    """Read a TOML file against its allowed keys. A missing file means the defaults."""
    values = {name: key.default for name, key in keys.items()}
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return Config(path, values)
    except OSError as error:
        raise ConfigError(f"Cannot read {path}: {error.strerror}.") from error
    if data != DEFAULT_CONFIG.encode():  # the file `init` writes needs no parser: start-up counts
        found = _parse(path, data, keys)
        return Config(path, {**values, **found}, frozenset(found))
    return Config(path, values)


def project_config(root: str) -> Config:
    """The settings of the checkout at `root`: every verb that asks for them asks here."""
    return load_config(os.path.join(root, PROJECT_FOLDER, "config.toml"), PROJECT_KEYS)


def _parse(path: str, data: bytes, keys: dict[str, Key]) -> dict[str, Any]:
    import tomllib

    try:
        text = data.decode("utf-8-sig")
        found = tomllib.loads(text)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: the file is not UTF-8.", "Save it as UTF-8.") from error
    except tomllib.TOMLDecodeError as error:
        line = _line_of_error(str(error), data)
        raise ConfigError(f"{path}:{line}: not valid TOML: {error}.", "Text values stand in double quotes.") from error
    for name, value in found.items():
        key = keys.get(name)
        where = f"{path}:{_line_of_key(text, name)}"
        if key is None:
            raise ConfigError(f"{where}: unknown key '{name}'.", _did_you_mean(name, keys))
        _check_kind(where, name, key, value)
    if keys is HOME_KEYS:
        return {name: _from_home(value) for name, value in found.items()}
    if not str(found.get("language", "-")).strip():
        found["language"] = DEFAULT_LANGUAGE
    return found


def _from_home(value: Any) -> Any:
    """A value with every `~/` at the beginning of a text as the person's home: no shell reads these settings."""
    if isinstance(value, str):
        return os.path.expanduser(value) if value.startswith("~/") else value
    if isinstance(value, list):
        return [_from_home(item) for item in value]
    return {name: _from_home(item) for name, item in value.items()} if isinstance(value, dict) else value


def _check_kind(where: str, name: str, key: Key, value: Any) -> None:
    wanted = _KINDS[key.kind]
    right = isinstance(value, wanted) and (key.kind == "yes-or-no" or not isinstance(value, bool))  # type: ignore[arg-type]
    if right and key.kind == "list":
        right = all(isinstance(item, str) for item in value)
    if right and key.kind in ("number", "seconds", "amount"):
        right = value > 0
    if not right:
        request = {
            "list": "a list of texts",
            "number": "a whole number above 0",
            "seconds": "a number above 0",
            "amount": "a number above 0",
        }
        shown = request.get(key.kind, f"a {key.kind} value")
        raise ConfigError(f"{where}: '{name}' must be {shown}, not {value!r}.", f"It is the {key.meaning}.")


def _line_of_error(message: str, data: bytes) -> int:
    before, found, after = message.partition("(at line ")
    if found:
        return int(after.partition(",")[0])
    return data.count(b"\n") + 1 if before else 1


def _line_of_key(text: str, name: str) -> int:
    for number, line in enumerate(text.splitlines(), 1):
        head = line.strip().lstrip("[").partition("=")[0].strip().rstrip("]").strip("\"' ")
        if head == name or head.startswith(name + "."):
            return number
    return 1


def _did_you_mean(name: str, keys: dict[str, Key]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, keys, n=1)
    known = ", ".join(sorted(keys))
    return f"Did you mean '{close[0]}'? Known keys: {known}." if close else f"Known keys: {known}."
