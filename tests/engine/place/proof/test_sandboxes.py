"""Inside the sandbox everyday work goes on; outside it nothing changes."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

import pytest

from handoff.agents.sandbox import sandbox as agents_sandbox
from handoff.agents.sandbox.landlock import holds_abstract_sockets
from handoff.agents.sandbox.sandbox import BUBBLEWRAP, LANDLOCK, NOTHING, layer
from handoff.base.settings import from_environment
from handoff.engine.app import App
from handoff.engine.place import workspaces
from handoff.engine.place.proof import sandboxes
from handoff.git.workspaces import WorkspaceRequest
from sandbox import Repo, absent
from snapshot_archive import SnapshotArchive


class Session:
    """A clone with a sandbox of one kind around it."""

    def __init__(self, repo, by, name="one", **options):
        self.archive = SnapshotArchive(repo.path)
        made = workspaces.add_workspace(
            self.archive.app, order=WorkspaceRequest(name), snapshot_store=self.archive.snapshot_store
        )
        self.workspace = made.workspace
        self.by = by
        self.options = options
        self.repo = Repo(self.workspace.tree)

    def wrapped(self, *argv, **options):
        sandbox = sandboxes.sandbox_of_workspace(
            self.archive.app, workspace=self.workspace, **{**self.options, **options}
        )
        sandbox = sandbox._replace(layer=self.by)
        return sandboxes.inside(self.archive.app, sandbox=sandbox, argv=argv, workspace=self.workspace)

    def run(self, *argv, **options):
        wrapped = self.wrapped(*argv, **options)
        return subprocess.run(
            wrapped.argv,
            env=wrapped.environment,
            cwd=self.workspace.tree,
            capture_output=True,
            timeout=100,
            check=False,
        )

    def ok(self, *argv, **options):
        done = self.run(*argv, **options)
        assert done.returncode == 0, (argv, done.stdout.decode(), done.stderr.decode())
        return done.stdout.decode()


@pytest.fixture(params=[BUBBLEWRAP, LANDLOCK])
def by(request):
    if layer(os.environ, wanted=request.param) != request.param:
        absent(request.param)
    return request.param


@pytest.fixture
def bubblewrap():
    if layer(os.environ, wanted=BUBBLEWRAP) != BUBBLEWRAP:
        absent(BUBBLEWRAP)
    return BUBBLEWRAP


@pytest.fixture
def session(repo, by):
    return Session(repo, by)


def test_git_works_in_the_clone(session):
    session.ok("sh", "-c", "echo hello > new.txt && git add new.txt && git status --short && git commit -q -m inside")
    session.ok("git", "checkout", "-q", "-b", "side")
    session.ok("git", "stash", "list")
    assert session.repo.git("log", "-1", "--format=%s").strip() == "inside"


@pytest.mark.slow
def test_python_tests_run(session):
    session.repo.write("test_it.py", "def test_it(tmp_path):\n    (tmp_path / 'x').write_text('x')\n")
    session.ok(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py")


def test_a_compiler_runs(session):
    if shutil.which("gcc") is None:
        absent("gcc")
    session.repo.write("a.c", "int main(void){return 0;}\n")
    session.ok("gcc", "-o", "a.out", "a.c")
    session.ok("./a.out")


@pytest.mark.slow
def test_node_and_npm_run(session):
    if shutil.which("npm") is None:
        absent("npm")
    session.repo.write("package.json", '{"name":"x","version":"1.0.0","scripts":{"test":"node -e 1"}}\n')
    session.ok("npm", "test", "--silent")
    session.ok("npm", "install", "--offline", "--no-audit", "--no-fund")


@pytest.mark.slow
def test_cargo_checks_a_small_crate(session, monkeypatch):
    cargo = shutil.which("cargo")
    rustup = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(cargo or ""))), ".rustup")
    if os.path.isdir(rustup):  # the home of this test has no toolchain of its own
        monkeypatch.setenv("RUSTUP_HOME", rustup)
        session.archive.app = App(from_environment(), session.archive.app.clock)
    if cargo is None or subprocess.run([cargo, "--version"], capture_output=True, check=False).returncode:
        absent("cargo")
    session.repo.write("Cargo.toml", '[package]\nname = "x"\nversion = "0.1.0"\nedition = "2021"\n')
    session.repo.write("src/lib.rs", "pub fn one() -> u8 { 1 }\n")
    session.ok("cargo", "check", "--offline", "-q")


def test_a_virtual_environment_and_make_work(session):
    session.repo.write("Makefile", "all:\n\techo made > made.txt\n")
    session.ok("make", "-s")
    session.ok(sys.executable, "-m", "venv", "--without-pip", "venv")
    assert session.repo.read("made.txt") == "made\n"


def test_pipes_signals_and_background_work_inside(session):
    out = session.ok("sh", "-c", "sleep 60 & kill $!; echo one | cat; echo $$ > /dev/null; printf two")
    assert out == "one\ntwo"


def test_nothing_outside_can_be_written(repo, session, tmp_path):
    other = tmp_path / "elsewhere"
    other.mkdir()
    (other / "kept.txt").write_text("kept\n")
    targets = [
        os.path.join(repo.path, "README.md"),
        os.path.join(repo.path, ".git", "config"),
        os.path.join(repo.path, "new.txt"),
        str(other / "kept.txt"),
        os.path.join(os.environ["HOME"], "gitconfig"),
        os.path.join(os.environ["HANDOFF_HOME"], "new"),
        os.path.join(session.archive.store.path, "HEAD"),
        os.path.join(session.archive.store.objects, "new"),
    ]
    before = {path: _bytes(path) for path in targets}
    for path in targets:
        session.run("sh", "-c", f'echo evil > "{path}"; rm -f "{path}"; truncate -s 0 "{path}"; mv "{path}" stolen')
        session.run(sys.executable, "-c", f"import os; os.rename({path!r}, {path + '.x'!r})")
    session.run("rm", "-rf", repo.path, os.environ["HANDOFF_HOME"], str(other))
    assert {path: _bytes(path) for path in targets} == before


def test_the_checkout_the_state_and_other_sessions_cannot_be_read(repo, session):
    other = Session(repo, session.by, "two")
    other.repo.write("secret.txt", "secret\n")
    repo.write("README.md", "not committed yet\n")
    repo.write("draft.txt", "draft\n")
    assert "not committed yet" not in session.run("cat", os.path.join(repo.path, "README.md")).stdout.decode()
    for path in (
        os.path.join(repo.path, "draft.txt"),
        os.path.join(repo.path, ".git", "config"),
        os.path.join(other.workspace.tree, "secret.txt"),
        os.path.join(other.workspace.folder, "workspace.json"),
        os.path.join(session.archive.store.path, "config"),
    ):
        assert session.run("cat", path).returncode != 0, path


def test_keys_and_sockets_are_out_of_reach(repo, bubblewrap, monkeypatch):
    home = os.environ["HOME"]
    os.makedirs(os.path.join(home, ".ssh"))
    with open(os.path.join(home, ".ssh", "id_x"), "w", encoding="utf-8") as file:
        file.write("key\n")
    monkeypatch.setenv("SSH_AUTH_SOCK", os.path.join(home, "agent"))
    monkeypatch.setenv("GH_TOKEN", "token")
    session = Session(repo, bubblewrap)
    assert session.run("cat", os.path.join(home, ".ssh", "id_x")).returncode != 0
    assert (
        session.ok("sh", "-c", 'echo "${SSH_AUTH_SOCK-none} ${GH_TOKEN-none} ${TMUX-none}"').strip() == "none none none"
    )
    with tempfile.TemporaryDirectory(prefix="tmux-", dir="/tmp") as place, socket.socket(socket.AF_UNIX) as server:
        path = os.path.join(place, "default")
        server.bind(path)
        server.listen()
        code = f"import socket; socket.socket(socket.AF_UNIX).connect({path!r})"
        assert session.run(sys.executable, "-c", code).returncode != 0


def test_settings_and_hooks_of_the_clone_cannot_be_planted(repo, bubblewrap):
    session = Session(repo, bubblewrap)
    config = session.repo.read(".git/config")
    session.run("git", "config", "core.fsmonitor", "evil")
    session.run(
        "sh", "-c", "echo evil >> .git/config; echo evil > .git/hooks/pre-commit; mv .git .away; rm -rf .git/hooks"
    )
    session.run("sh", "-c", "echo /elsewhere > .git/objects/info/alternates")
    assert session.repo.read(".git/config") == config
    assert os.listdir(os.path.join(session.repo.path, ".git", "hooks")) == []


def test_processes_outside_cannot_be_killed(session):
    victim = subprocess.Popen(["sleep", "100"])
    try:
        session.run("kill", "-9", str(victim.pid))
        assert victim.poll() is None
    finally:
        victim.kill()
        victim.wait()


def test_nothing_outlives_the_session(repo, bubblewrap):
    session = Session(repo, bubblewrap)
    mark = f"handoff-{os.getpid()}"
    wrapped = session.wrapped(
        "sh", "-c", f"setsid sleep 98765 {mark} 2>/dev/null & setsid sh -c 'sleep 98764; {mark}' & echo up; wait"
    )
    child = subprocess.Popen(wrapped.argv, env=wrapped.environment, stdout=subprocess.PIPE, cwd=session.repo.path)
    assert child.stdout is not None
    assert child.stdout.readline() == b"up\n"
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.read()  # ends when the last holder of the pipe is gone
    child.stdout.close()
    assert mark not in _all_commands()


def test_the_network_can_be_cut(session):
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    code = f"import socket; socket.create_connection(('127.0.0.1', {port}), 5)"
    try:
        session.ok(sys.executable, "-c", code)
        assert session.run(sys.executable, "-c", code, network=False).returncode != 0
    finally:
        server.close()


def test_a_declared_cache_can_be_written(session, tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    session.ok("sh", "-c", f"echo x > {cache}/x", caches=[str(cache)])
    assert (cache / "x").read_text() == "x\n"


def test_a_linked_worktree_can_still_commit_inside(repo, by):
    archive = SnapshotArchive(repo.path)
    made = workspaces.add_workspace(
        archive.app, order=WorkspaceRequest("linked", kind="worktree"), snapshot_store=archive.snapshot_store
    )
    sandbox = sandboxes.sandbox_of_workspace(archive.app, workspace=made.workspace)._replace(layer=by)
    wrapped = sandboxes.inside(
        archive.app, sandbox=sandbox, argv=["git", "commit", "-q", "--allow-empty", "-m", "inside"]
    )
    subprocess.run(wrapped.argv, env=wrapped.environment, check=True, cwd=made.workspace.tree)


def test_a_machine_without_any_layer_is_told_so(monkeypatch):
    monkeypatch.setenv("HANDOFF_SANDBOX", NOTHING)
    assert sandboxes.present_layer(App(from_environment())) == NOTHING
    assert "snapshots" in agents_sandbox.WORDS[NOTHING]


def _bytes(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


def _all_commands():
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    found.append(file.read().decode("utf-8", "replace"))
            except OSError:
                continue
    return "\n".join(found)


def test_the_relays_address_and_token_are_not_known_inside(repo, bubblewrap, monkeypatch):
    session = Session(repo, bubblewrap)
    monkeypatch.setenv("HANDOFF_DATABASE_URL", "postgresql://relay:a-password@db.invalid/relay")
    monkeypatch.setenv("HANDOFF_TOKEN", "a-token")
    session.archive.app = App(from_environment())
    said = session.ok("env")
    assert "HANDOFF_WORKSPACE" in said
    assert "a-password" not in said
    assert "a-token" not in said


def test_an_abstract_socket_of_another_program_cannot_be_reached_though_the_network_is_shared(session):
    if not holds_abstract_sockets():
        absent("a kernel that scopes abstract sockets")
    name = f"\0handoff-test-{os.getpid()}-{os.urandom(4).hex()}"
    with socket.socket(socket.AF_UNIX) as server, socket.create_server(("127.0.0.1", 0)) as open_one:
        server.bind(name)
        server.listen()
        ask = (
            "import socket, sys\n"
            "socket.create_connection(('127.0.0.1', int(sys.argv[2])), 5)\n"
            "mine = socket.socket(socket.AF_UNIX); mine.bind('\\0mine' + sys.argv[1]); mine.listen()\n"
            "socket.socket(socket.AF_UNIX).connect('\\0mine' + sys.argv[1])\n"
            "try: socket.socket(socket.AF_UNIX).connect('\\0' + sys.argv[1])\n"
            "except OSError: print('kept out')\n"
        )
        said = session.ok(sys.executable, "-c", ask, name[1:], str(open_one.getsockname()[1]))
    assert said == "kept out\n"
