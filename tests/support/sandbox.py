"""Real things to test with: a hermetic environment, a git repository, the command as a process."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from warm import COMMAND, HEAVY, LONG_LIVED, Call, Forked, Warm

if TYPE_CHECKING:
    from collections.abc import Iterator

TIMEOUT_SECONDS = 200
OF_THE_MACHINE = ("HANDOFF_", "GIT_", "CLAUDE", "CODEX_", "GEMINI_CLI", "OPENCODE", "QWEN_CODE", "XDG_", "PYTHON")
"""How variables begin that no test may hear of."""
WARM = Warm()
WARM_HEAVY = Warm(*HEAVY)
REQUIRE_ALL = "HANDOFF_TEST_REQUIRE_ALL"
ALL_REQUIRED = bool(os.environ.get(REQUIRE_ALL))  # read now: inside a test the environment is its own


def hermetic_environment(home: str) -> dict[str, str]:
    """What HOME, git and handoff are told inside a test."""
    config = os.path.join(home, "gitconfig")
    if not os.path.exists(config):
        with open(config, "w", encoding="utf-8") as file:
            file.write(
                "[user]\n\tname = Test Person\n\temail = person@example.invalid\n"
                "[init]\n\tdefaultBranch = main\n[commit]\n\tgpgsign = false\n[core]\n\tautocrlf = false\n"
                "[maintenance]\n\tauto = false\n"  # one process less for each of thousands of commits
            )
    return {
        "HOME": home,
        "HANDOFF_HOME": os.path.join(home, ".handoff"),
        "GIT_CONFIG_GLOBAL": config,
        "GIT_CONFIG_NOSYSTEM": "1",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "NO_COLOR": "1",
        "COLUMNS": "100",
    }


@contextlib.contextmanager
def hermetic_home() -> Iterator[str]:
    """A home for a run outside of pytest: nothing of this machine's settings comes in."""
    for name in list(os.environ):
        if name.startswith(OF_THE_MACHINE):
            del os.environ[name]
    with tempfile.TemporaryDirectory(prefix="ho-") as home:
        os.environ.update(hermetic_environment(home))
        yield home


def absent(what: str) -> NoReturn:
    """Skip because `what` is not on this machine; an error where CI demands all."""
    import pytest

    if ALL_REQUIRED:
        pytest.fail(f"{what} is absent, and {REQUIRE_ALL} is set")
    pytest.skip(f"{what} is absent")


class Answer(NamedTuple):
    """What a command said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Cli:
    """`handoff …` as its own process, in one folder."""

    seconds = TIMEOUT_SECONDS

    def __init__(self, folder: str, **environment: str) -> None:
        self.folder = folder
        self.environment = environment

    def command(self, *words: str) -> list[str]:
        return [*COMMAND, *words]

    def full_environment(self) -> dict[str, str]:
        return {**os.environ, **self.environment}

    def __call__(self, *words: str, stdin: str | None = None, code: int | None = 0, cwd: str | None = None) -> Answer:
        """Run it and compare the exit code (None accepts any)."""
        call = Call(words, cwd or self.folder, self.full_environment())
        said = (WARM_HEAVY if words[:1] == ("work",) else WARM).run(
            call, stdin.encode() if stdin is not None else None, self.seconds
        )
        answer = Answer(
            said.code, said.out.decode("utf-8", "surrogateescape"), said.err.decode("utf-8", "surrogateescape")
        )
        assert "Traceback" not in answer.err, answer.err
        assert code is None or answer.code == code, f"{words}: exit {answer.code}\n{answer.out}\n{answer.err}"
        return answer

    def start(self, *words: str, **options: Any) -> subprocess.Popen[bytes] | Forked:
        """Start it and leave it running; the test ends it by its id."""
        if words[:1] in [(word,) for word in LONG_LIVED] and options in ({}, {"stdin": subprocess.PIPE}):
            call = Call(words, self.folder, self.full_environment())
            if (forked := WARM_HEAVY.start(call, speaks=bool(options))) is not None:
                return forked
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        return subprocess.Popen(self.command(*words), cwd=self.folder, env=self.full_environment(), **options)


class Repo:
    """A git repository in a folder, driven by real git."""

    first = ""
    """Where the repository of a run lies that the others are copies of; a copy takes half the time."""

    def __init__(self, path: str) -> None:
        self.path = path

    @classmethod
    def create(cls, path: str, *, commit: bool = True) -> Repo:
        """A new repository; with a commit it is a copy of the first one."""
        repo = cls(path)
        if commit and cls.first:
            shutil.copytree(cls.first, path, symlinks=True)
            repo.git("update-index", "-q", "--refresh")
            return repo
        os.makedirs(path)
        repo.git("init", "-q", "-b", "main")
        if commit:
            repo.write("README.md", "# A project\n")
            repo.commit("first")
        return repo

    def git(self, *words: str, check: bool = True, stdin: bytes | None = None, **environment: str) -> str:
        done = subprocess.run(
            ["git", *words],
            cwd=self.path,
            env={**os.environ, **environment},
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
        if check and done.returncode:
            raise AssertionError(f"git {words}: {done.stderr.decode('utf-8', 'replace')}")
        return done.stdout.decode("utf-8", "surrogateescape")

    def write(self, name: str, content: str | bytes) -> str:
        path = os.path.join(self.path, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        return path

    def read(self, name: str) -> str:
        with open(os.path.join(self.path, name), encoding="utf-8", newline="") as file:
            return file.read()

    def commit(self, message: str) -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        return self.head()

    def head(self) -> str:
        return self.git("rev-parse", "HEAD").strip()
