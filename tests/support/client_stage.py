"""A real client in a scratch project, with a scripted model on the loopback: how it is started, asked and asked again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from handoff.agents.sandbox.sandbox import NOTHING, layer
from model_server import ModelServer
from real_clients import program
from sandbox import Cli, Repo, absent, hermetic_environment

if TYPE_CHECKING:
    from collections.abc import Callable

KEY = "sk-test-key-not-a-secret-at-all"
# Read now: inside a test nothing of ours is in the environment.
TABLE = os.environ.get("HANDOFF_TEST_CLIENTS_TABLE", "")
ALONE = {
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "NO_PROXY": "127.0.0.1",
}  # for those that look up prices or versions elsewhere
EDITS = {
    "claude": ("Edit", "file_path", "old_string", "new_string"),
    "gemini": ("replace", "file_path", "old_string", "new_string"),
    "copilot": ("edit", "path", "old_str", "new_str"),
    "opencode": ("edit", "filePath", "oldString", "newString"),
    "qwen": ("edit", "file_path", "old_string", "new_string"),
}
READS = {
    "claude": ("Read", "file_path"),
    "gemini": ("read_file", "file_path"),
    "copilot": ("view", "path"),
    "opencode": ("read", "filePath"),
    "qwen": ("read_file", "file_path"),
}
BYPASS = ["--dangerously-bypass-approvals-and-sandbox", "--dangerously-bypass-hook-trust"]
ASK = {
    "claude": ["-p", "{}", "--permission-mode", "acceptEdits", "--allowedTools", "Bash"],
    "codex": ["exec", *BYPASS, "{}"],
    "gemini": ["-p", "{}", "--skip-trust", "--approval-mode", "yolo"],
    "copilot": ["-p", "{}", "--allow-all", "--no-auto-update"],
    "opencode": ["run", "{}"],
    "aider": ["--message", "{}", "--yes-always", "--no-check-update", "--analytics-disable"],
    "qwen": ["-p", "{}", "--auth-type", "openai", "--yolo"],
}
"""How a person starts it for one question, with nothing of ours in the words."""
AGAIN = {
    "claude": [*ASK["claude"], "--continue"],
    "codex": ["exec", "resume", "--last", *BYPASS, "{}"],
    "gemini": [*ASK["gemini"], "--resume", "latest"],
    "copilot": [*ASK["copilot"], "--continue"],
    "opencode": ["run", "--continue", "{}"],
    "aider": [*ASK["aider"], "--restore-chat-history"],
    "qwen": [*ASK["qwen"], "--continue"],
}
"""How it is asked again in the same session."""


def wait_for(condition: Callable[[], Any], what: str) -> Any:
    """What the condition gives once it holds, however busy the machine is."""
    until = time.monotonic() + 300
    while not (found := condition()):
        assert time.monotonic() < until, what
        time.sleep(0.1)
    return found


class Stage:
    """One client in one scratch project."""

    key = KEY

    def __init__(self, client: str, root: str, *, task: bool = True) -> None:
        self.client, self.root = client, root
        self.servers: list[ModelServer] = []
        self.settings: dict[str, str] = {}
        home = os.path.join(root, "home")
        for folder in ("bin", "home", "home/.codex", "home/.gemini", "tmp"):
            os.makedirs(os.path.join(root, folder))
        node = shutil.which("node")
        if node:
            os.symlink(node, os.path.join(root, "bin", "node"))
        with open(os.path.join(home, ".gemini", "settings.json"), "w", encoding="utf-8") as file:
            json.dump({"security": {"auth": {"selectedType": "gemini-api-key"}}}, file)
        self.environment = {
            **hermetic_environment(home), "PATH": f"{root}/bin:/usr/bin:/bin", "TERM": "dumb", "TMPDIR": f"{root}/tmp",
            "HANDOFF_HOME": os.path.join(root, "relay"),
        }  # fmt: skip
        os.mkdir(self.environment["HANDOFF_HOME"], 0o700)
        os.environ.update({name: self.environment[name] for name in ("HOME", "GIT_CONFIG_GLOBAL", "HANDOFF_HOME")})
        self.repo = Repo.create(os.path.join(root, "project"))
        self.cli = _Clean(self.repo.path, self.environment)
        self.become(client)
        if task:
            self.cli(
                *("dump", "--task", "demo", "--next", "Write owned/a.txt."),
                *("--owns", "owned/", "--check", "test -f owned/a.txt"),
            )

    @property
    def tree(self) -> str:
        """Where a session on the task works: its clone, unless the checkout is shared."""
        if self.settings.get("session_workspace") == '"shared"':
            return self.repo.path
        return os.path.join(self.environment["HANDOFF_HOME"], "project", "workspaces", "demo-1", "tree")

    def write(self, name: str, text: str = "hello") -> tuple[str, str, str]:
        """The act of writing a file in the session's workspace."""
        return "write", os.path.join(self.tree, name), text

    def set(self, **settings: str) -> None:
        """Put these into the person's settings of handoff, each as TOML writes it."""
        self.settings.update(settings)
        with open(os.path.join(self.environment["HANDOFF_HOME"], "config.toml"), "w", encoding="utf-8") as file:
            file.writelines(f"{name} = {value}\n" for name, value in self.settings.items())

    def need(self, wanted: str = "") -> None:
        """Pass by where this layer of the sandbox, or any layer, is not there for the stage."""
        if layer(self.environment, wanted=wanted) == NOTHING:
            absent(wanted or "a sandbox layer")

    def become(self, client: str) -> None:
        """From here on the sessions are another vendor's."""
        self.client = client
        os.symlink(program(client) or "", os.path.join(self.root, "bin", client))
        self.serve(("say", "hello"))
        used = self.ask()
        assert self.servers[-1].requests, used

    def ask(self, prompt: str = "hi", *, again: bool = False) -> str:
        """The client as a person starts it in the project for one question: what it printed."""
        words = [prompt if word == "{}" else word for word in (AGAIN if again else ASK)[self.client]]
        done = self.plain(*words, *self.words())
        return done.stdout + done.stderr

    def plain(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The client as a person starts it in the project, with these words."""
        return subprocess.run(
            [self.client, *words], cwd=self.repo.path, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, check=False, timeout=200, executable=f"{self.root}/bin/{self.client}",
        )  # fmt: skip

    def serve(self, *acts: tuple[Any, ...], host: str = "127.0.0.1") -> ModelServer:
        """The scripted model, and the client told to speak to it."""
        server = ModelServer(*acts, toolless=self.client == "aider", host=host)
        self.servers.append(server)
        self.environment.update(self._endpoint(server.url))
        return server

    def _endpoint(self, url: str) -> dict[str, str]:
        config = {
            "provider": {"local": {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": f"{url}/v1", "apiKey": KEY},
                                   "models": {"m": {"name": "m", "limit": {"context": 100000, "output": 8000}}}}},
            "model": "local/m", "small_model": "local/m",
        }  # fmt: skip
        return {
            "claude": {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": KEY, "CLAUDE_CODE_MAX_RETRIES": "1"},
            "codex": {"CODEX_TEST_KEY": KEY},
            "gemini": {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": KEY},
            "copilot": {"COPILOT_PROVIDER_BASE_URL": f"{url}/v1", "COPILOT_PROVIDER_TYPE": "openai", "COPILOT_MODEL": "gpt-4.1",
                        "COPILOT_PROVIDER_API_KEY": KEY, "COPILOT_OFFLINE": "true"},
            "opencode": {"OPENCODE_CONFIG_CONTENT": json.dumps(config), "OPENCODE_DISABLE_MODELS_FETCH": "1"},
            "aider": {"OPENAI_API_BASE": f"{url}/v1", "OPENAI_API_KEY": KEY, **ALONE},
            "qwen": {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": KEY, "OPENAI_MODEL": "m", **ALONE},
        }[self.client]  # fmt: skip

    def words(self) -> list[str]:
        """What the client needs beside what the adapter gives it, to speak to the scripted model."""
        if self.client == "aider":
            return ["--model", "openai/gpt-4.1", "--edit-format", "diff", "--no-show-model-warnings"]
        if self.client == "gemini":
            return ["-m", "gemini-2.5-pro"]  # without a model it asks another one which to take
        if self.client != "codex":
            return []
        url = self.servers[-1].url
        provider = f'{{name="local",base_url="{url}/v1",env_key="CODEX_TEST_KEY",wire_api="responses",request_max_retries=1,stream_max_retries=1}}'
        return ["-c", f"model_providers.local={provider}", "-c", 'model_provider="local"', "-m", "gpt-5.5"]

    def start(self) -> Any:
        """A session that the test goes on beside."""
        more = [f"--with={word}" for word in self.words()]
        return self.cli.start("session", "start", "demo", "--agent", self.client, "--minutes", "5", "--json", *more)

    def resume(self, session: str) -> dict[str, Any]:
        """The same conversation once more."""
        more = [f"--with={word}" for word in self.words()]
        return self.cli("session", "resume", session, "--minutes", "5", "--json", *more, code=None).json

    def sessions(self) -> list[str]:
        return os.listdir(os.path.join(self.environment["HANDOFF_HOME"], "project", "sessions"))

    def note(self, *facts: str) -> None:
        """Write down what was just shown, for the table of clients."""
        if TABLE:
            with open(TABLE, "a", encoding="utf-8") as file:
                file.writelines(f"{self.client}\t{fact}\n" for fact in facts)

    def run(self, *words: str, code: int | None = None) -> dict[str, Any]:
        """One session on the task, watched to its end."""
        more = [f"--with={word}" for word in self.words()]
        answer = self.cli(
            "session", "start", "demo", "--agent", self.client, "--minutes", "5", "--json", *more, *words, code=code
        )
        return answer.json

    def folder(self, end: dict[str, Any]) -> str:
        return os.path.join(self.environment["HANDOFF_HOME"], "project", "sessions", end["session"])

    def text(self, end: dict[str, Any], name: str) -> str:
        """One file of the session's folder; empty when it is not there."""
        path = os.path.join(self.folder(end), name)
        if not os.path.exists(path):
            return ""
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def read(self, end: dict[str, Any], name: str) -> dict[str, Any]:
        return json.loads(self.text(end, name))

    @contextmanager
    def endpoint(self):
        """The relay's tools over HTTP, as a supervisor would serve them."""
        process = self.cli.start("mcp", "--http")
        try:
            yield process.stdout.readline().decode().split()[-1]
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=30)

    def log(self, end: dict[str, Any]) -> str:
        parts = []
        for name in ("events.jsonl", "errors.log", "calls", "outcome.json"):
            path = os.path.join(self.folder(end), name)
            if os.path.exists(path):
                with open(path, encoding="utf-8", errors="replace") as file:
                    parts.append(f"--- {name}\n{file.read()[-6000:]}")
        return "\n".join(parts)


class _Clean(Cli):
    """The command with nothing but the stage's own environment; some clients try a refused request for more than a minute."""

    seconds = 600

    def __init__(self, folder: str, environment: dict[str, str]) -> None:
        super().__init__(folder)
        self.only = environment

    def full_environment(self) -> dict[str, str]:
        return dict(self.only)
