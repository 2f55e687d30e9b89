"""What a hostile program inside finds of a person's home, environment and sockets: nothing that is not on the list."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile

import pytest

from handoff.agents.sandbox.landlock import devices
from handoff.agents.sandbox.sandbox import BUBBLEWRAP, LANDLOCK, layer
from handoff.base.settings import from_environment
from handoff.engine.app import App
from handoff.engine.place import workspaces
from handoff.engine.place.proof import sandboxes
from handoff.git.workspaces import WorkspaceRequest
from sandbox import absent
from snapshot_archive import SnapshotArchive

SECRETS = tuple(
    """.npmrc .cargo/credentials.toml .m2/settings.xml .gem/credentials .composer/auth.json .terraform.d/credentials.tfrc.json
    .vault-token .pgpass .my.cnf .config/rclone/rclone.conf .mozilla/firefox/x/cookies.sqlite .config/google-chrome/Default/Cookies
    .claude/.credentials.json .codex/auth.json .gemini/oauth_creds.json .local/share/opencode/auth.json .copilot/config.json
    .bash_history .zsh_history .python_history .psql_history .ssh/id .aws/credentials .gnupg/key .netrc .git-credentials .kube/config
    .docker/config.json .config/gh/hosts.yml .pypirc .cache/huggingface/token .fly/config.yml .local/share/keyrings/login.keyring
    Documents/taxes.txt .env .nvm/.env .pyenv/versions/.env.local .rustup/credentials .local/bin/.npmrc .gradle/gradle.properties work/other/.env""".split()
)
TOOLS = ".nvm/versions/node/v22/bin/node .local/bin/tool .rustup/toolchains/x/lib/x .virtualenvs/v/bin/python .fly/bin/fly tools/lib/libx.so".split()
LOOK = """
import glob, json, os, socket, sys
asked = json.load(open("asked.json"))
found = {"files": [], "tools": [], "sockets": [], "environment": dict(os.environ)}
for kind in ("files", "tools"):
    for path in asked[kind]:
        try:
            found[kind] += [path] if open(path).read() else []
        except OSError:
            pass
for path in asked["sockets"]:
    one = socket.socket(socket.AF_UNIX)
    try:
        os.chdir(os.path.dirname(path))
        one.connect(os.path.basename(path))
        found["sockets"].append(path)
    except OSError:
        pass
found["allowed"] = open(asked["allowed"]).read()
found["listed"] = sorted(os.listdir(os.environ["HOME"]))
print(json.dumps(found))
"""


@pytest.fixture(params=[BUBBLEWRAP, LANDLOCK])
def by(request):
    if layer(os.environ, wanted=request.param) != request.param:
        absent(request.param)
    return request.param


class Inside:
    """A clone with a sandbox around it, and a program in it that looks around."""

    def __init__(self, repo, by: str) -> None:
        self.by = by
        archive = SnapshotArchive(repo.path)
        made = workspaces.add_workspace(
            archive.app, order=WorkspaceRequest("one"), snapshot_store=archive.snapshot_store
        )
        self.workspace = made.workspace

    def wrapped(self, *argv: str):
        app = App(from_environment())
        sandbox = sandboxes.sandbox_of_workspace(app, workspace=self.workspace)._replace(layer=self.by)
        return sandboxes.inside(app, sandbox=sandbox, argv=argv, workspace=self.workspace)

    def start(self, *argv: str):
        wrapped = self.wrapped(*argv)
        return subprocess.run(
            wrapped.argv,
            env=wrapped.environment,
            cwd=self.workspace.tree,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    def run(self, *argv: str) -> str:
        done = self.start(*argv)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def look(self, **asked) -> dict:
        with open(os.path.join(self.workspace.tree, "asked.json"), "w", encoding="utf-8") as file:
            json.dump(asked, file)
        return json.loads(self.run(sys.executable, "-I", "-c", LOOK))


def _put(path: str, text: str = "a secret\n") -> str:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


@pytest.fixture
def listening():
    """Sockets of other programs, as their variables name them, in a folder that can be read inside."""
    folder = os.path.join(os.environ["HOME"], "shown")
    names = {
        "XDG_RUNTIME_DIR": "run/bus", "TMUX_TMPDIR": "tmux/default", "SSH_AUTH_SOCK": "ssh/agent", "DOCKER_HOST": "docker/docker.sock",
        "DBUS_SESSION_BUS_ADDRESS": "dbus/session", "TMP": "temp/of/mine/socket",
    }  # fmt: skip
    servers = []
    for place in names.values():
        path = os.path.join(folder, place)
        os.makedirs(os.path.dirname(path))
        server = socket.socket(socket.AF_UNIX)
        with contextlib.chdir(os.path.dirname(path)):  # whole paths may be too long for sockets
            server.bind(os.path.basename(path))
        server.listen()
        servers.append(server)
    values = {name: os.path.join(folder, place) for name, place in names.items()}
    yield (
        {
            **values,
            "XDG_RUNTIME_DIR": os.path.dirname(values["XDG_RUNTIME_DIR"]),
            "TMUX_TMPDIR": os.path.dirname(values["TMUX_TMPDIR"]),
            "DOCKER_HOST": f"unix://{values['DOCKER_HOST']}",
            "TMP": os.path.join(folder, "temp"),
            "DBUS_SESSION_BUS_ADDRESS": f"unix:path={values['DBUS_SESSION_BUS_ADDRESS']},guid=0",
        },
        list(values.values()),
    )
    for server in servers:
        server.close()


def test_only_what_is_on_the_list_is_there_of_home_environment_and_sockets(repo, by, listening, monkeypatch):
    home = os.environ["HOME"]
    files = [_put(os.path.join(home, name)) for name in SECRETS]
    files.append(_put(os.path.join(home, ".local/bin/deploy"), f"#!/bin/sh\nTOKEN=ghp_{'a1B2' * 9} exec deploy\n"))
    tools = [_put(os.path.join(home, name), "a tool\n") for name in TOOLS]
    monkeypatch.setenv("PATH", f"{home}/.fly/bin:{home}/tools/bin:{os.environ['PATH']}")
    os.makedirs(f"{home}/tools/bin")
    allowed = _put(os.path.join(home, ".config/mine/settings.json"), "allowed\n")
    _put(os.path.join(home, ".config/mine/token"))
    _put(
        os.path.join(os.environ["HANDOFF_HOME"], "config.toml"),
        'session_files = ["~/.config/mine/settings.json", "~/shown"]\nsession_variables = ["MY_*"]\n',
    )
    addresses, sockets = listening
    secret = {
        "NPM_TOKEN": "n", "AWS_SECRET_ACCESS_KEY": "a", "GH_TOKEN": "g", "DATABASE_URL": "postgres://u:p@h/d", "CARGO_REGISTRY_TOKEN": "c",
        "PIP_INDEX_URL": "https://u:password@pypi.invalid/simple", "OPENAI_API_KEY": "o", "STRIPE": "s", "GIT_CONFIG_PARAMETERS": "'a.b=c'",
    }  # fmt: skip
    for name, value in {**addresses, **secret, "MY_DATABASE": "mine", "PIP_INDEX": "plain", "LC_TIME": "C"}.items():
        monkeypatch.setenv(name, value)
    inside = Inside(repo, by)
    found = inside.look(files=[*files, f"{home}/.config/mine/token"], tools=tools, sockets=sockets, allowed=allowed)
    assert found["files"] == []
    assert found["tools"] == tools
    assert found["allowed"] == "allowed\n"
    assert not found["environment"].keys() & ({*addresses, *secret} - {"TMP"})
    assert (found["environment"]["MY_DATABASE"], found["environment"]["PIP_INDEX"]) == ("mine", "plain")
    if by == BUBBLEWRAP:
        assert found["sockets"] == []
        assert not {".ssh", "Documents", ".npmrc", "work"} & set(found["listed"])


def test_git_knows_the_person_by_included_files_and_none_of_their_passwords(repo, by, monkeypatch):
    home = os.environ["HOME"]
    monkeypatch.delenv("GIT_CONFIG_GLOBAL")
    _put(os.path.join(home, ".config/git/config"), "[user]\n\tname = From XDG\n[alias]\n\tst = status --short\n")
    _put(
        os.path.join(home, ".gitconfig"),
        f'[user]\n\temail = all@example.invalid\n[includeIf "gitdir:{repo.path}/"]\n\tpath = git/work.inc\n'
        '[url "https://me:a-password@git.invalid/"]\n\tinsteadOf = https://git.invalid/\n[http]\n\textraHeader = Authorization: a-token\n'
        "[credential]\n\thelper = store\n[commit]\n\tgpgSign = true\n",
    )
    _put(os.path.join(home, "git/work.inc"), "[user]\n\temail = work@example.invalid\n")
    inside = Inside(repo, by)
    assert inside.run("git", "var", "GIT_AUTHOR_IDENT").startswith("From XDG <work@example.invalid>")
    inside.run("git", "commit", "-q", "--allow-empty", "-m", "signed by nobody")
    inside.run("git", "st")
    known = inside.run("git", "config", "--list")
    assert "a-password" not in known
    assert "a-token" not in known
    if by == BUBBLEWRAP:
        assert "From XDG" in inside.run("env", "-u", "GIT_CONFIG_GLOBAL", "git", "var", "GIT_AUTHOR_IDENT")


def test_a_home_of_thousands_of_files_makes_the_start_no_longer(repo, by):
    inside = Inside(repo, by)
    before = inside.wrapped("true").argv
    for number in range(5000):
        open(os.path.join(os.environ["HOME"], f"file-{number}"), "w").close()
    assert inside.wrapped("true").argv == before
    assert len(before) < 1000


def test_landlock_does_not_open_shared_memory_where_something_hidden_lies_in_it():
    assert "/dev/shm" in devices(["/home/somebody", "/dev/shmoo"])
    assert "/dev/shm" not in devices(["/home/somebody", "/dev/shm/project"])
    assert "/dev/null" in devices(["/dev/shm"])


@pytest.mark.parametrize("network", ["all", "providers"])
def test_a_program_that_is_not_there_inside_is_said_in_plain_words(repo, by, network):
    if by == BUBBLEWRAP:  # the other cannot hold a list of hosts
        _put(os.path.join(os.environ["HANDOFF_HOME"], "config.toml"), f'session_network = "{network}"\n')
    done = Inside(repo, by).start("/nowhere/agent", "--prompt", "x")
    assert done.returncode != 0
    assert "'/nowhere/agent' was not found" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_program_of_the_person_in_shared_memory_can_be_started(repo, by):
    if not os.path.isdir("/dev/shm"):
        absent("/dev/shm")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        program = _put(os.path.join(folder, "agent"), "#!/bin/sh\necho at work\n")
        os.chmod(program, 0o755)
        inside = Inside(repo, by)
        assert inside.run(program) == "at work\n"
        if by == BUBBLEWRAP:
            _put(os.path.join(folder, "secret"))
            assert inside.start("cat", os.path.join(folder, "secret")).returncode != 0
