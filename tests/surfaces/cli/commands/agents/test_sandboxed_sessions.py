"""A part of a batch as it is started by default: in a clone, inside the sandbox, with the relay reached through a broker."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from handoff.agents import folder as folders
from handoff.agents.contract import Launch
from handoff.agents.sandbox.sandbox import BUBBLEWRAP, LANDLOCK, layer
from handoff.base.errors import Refused
from relay import manifest
from sandbox import absent
from scripts import handoff, processes_with, write_script

PYTHON = sys.executable


@pytest.fixture
def batch(repo, cli, tmp_path):
    """A repository with a batch `login` of two parts that own src/form/ and src/api/."""
    if layer(os.environ, wanted=BUBBLEWRAP) != BUBBLEWRAP:
        absent(BUBBLEWRAP)
    return Batch(repo, cli, tmp_path)


class Batch:
    def __init__(self, repo, cli, tmp_path) -> None:
        self.repo, self.cli, self.tmp = repo, cli, tmp_path
        self.home = os.environ["HANDOFF_HOME"]
        repo.write("src/form/a.txt", "form\n")
        repo.write("src/api/b.txt", "api\n")
        repo.write("secret.txt", "of the person\n")
        repo.commit("more")

    def keep_to_oneself(self, name: str) -> None:
        """A file that git does not carry: in the person's checkout and in no clone."""
        with open(os.path.join(self.repo.path, ".git", "info", "exclude"), "a", encoding="utf-8") as file:
            file.write(f"/{name}\n")
        self.repo.write(name, "of the person alone\n")

    def open(self, **more) -> None:
        self.cli("dump", "--open-batch", manifest(self.tmp / "m.json", **more))

    def open_with_check(self, check: str) -> None:
        path = self.tmp / "m.json"
        manifest(path)
        value = json.loads(path.read_text())
        value["sub_tasks"][0]["check"] = check
        path.write_text(json.dumps(value))
        self.cli("dump", "--open-batch", str(path))

    def script(self, name: str, *acts) -> str:
        return write_script(os.path.join(os.environ["HOME"], f"{name}.toml"), *acts)

    def run(self, task: str, *acts, words=(), code=0):
        script = self.script(task.replace("/", "-"), *acts)
        answer = self.cli(
            "session", "start", task, "--agent", "scripted", "--with", script, "--json", *words, code=code
        )  # fmt: skip
        self.err = answer.err
        return answer.json

    def start(self, task: str, *acts):
        script = self.script(task.replace("/", "-"), *acts)
        return self.cli.start("session", "start", task, "--agent", "scripted", "--with", script, "--json")

    def said(self, end: dict) -> str:
        return self.cli("session", "log", end["session"], "--raw").out

    def folder(self, session: str) -> str:
        return os.path.join(self.home, "repo", "sessions", session)

    def sessions(self) -> list[str]:
        folder = os.path.join(self.home, "repo", "sessions")
        return os.listdir(folder) if os.path.isdir(folder) else []

    def clone(self, name: str) -> str:
        folder = os.path.join(self.home, "repo", "workspaces")
        found = [one for one in os.listdir(folder) if one.startswith(name)]
        return os.path.join(folder, found[0], "tree")


def _until(look):
    for _ in range(1200):
        found = look()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("it did not happen")


def _python(*lines: str) -> str:
    """A line that runs these lines of Python inside."""
    return PYTHON + " -c " + json.dumps("; ".join(lines)).replace("$", "\\$")


# --- the journey ------------------------------------------------------------------------------------------------


def test_the_agents_own_program_is_there_even_where_its_folder_is_hidden(batch):
    program = os.path.join(batch.repo.path, "agent.sh")
    batch.keep_to_oneself("private.txt")
    batch.repo.write("agent.sh", "#!/bin/sh\necho by the agent > src/form/a.txt\nls $(dirname $0)\n")
    os.chmod(program, 0o755)
    batch.open_with_check("grep -q agent src/form/a.txt")
    with open(os.path.join(batch.home, "config.toml"), "a", encoding="utf-8") as file:
        file.write(f'agents = {{ mine = ["{program}"] }}\n')
    end = batch.cli("session", "start", "login/form", "--agent", "mine", "--json").json
    assert end["state"] == "done", end
    assert "private.txt" not in batch.said(end)


def test_a_script_that_the_agents_words_name_is_there_too_and_nothing_beside_it(batch):
    batch.repo.write("mine/agent.sh", "echo by the agent > src/form/a.txt\nls $(dirname $0)\n")
    batch.keep_to_oneself("mine/key.txt")
    batch.open_with_check("grep -q agent src/form/a.txt")
    with open(os.path.join(batch.home, "config.toml"), "a", encoding="utf-8") as file:
        file.write(f'agents = {{ mine = ["sh", "{batch.repo.path}/mine/agent.sh"] }}\n')
    end = batch.cli("session", "start", "login/form", "--agent", "mine", "--json").json
    assert end["state"] == "done", batch.said(end)
    assert "key.txt" not in batch.said(end)


def test_two_parts_work_side_by_side_and_the_fan_in_lands_them_on_the_persons_branch(batch):
    batch.open()
    before = batch.repo.head()
    batch.repo.write("secret.txt", "dirty work of the person\n")
    first = batch.start(
        "login/form",
        {"write": "src/form/new.txt", "text": "form"},
        {"run": handoff("task", "done", "--summary", "'the form'")},
    )
    second = batch.run(
        "login/api", {"run": "ls src/form"}, {"write": "src/api/b.txt", "text": "changed\n"},
        {"run": "git add -A && git commit -q -m 'the api'"}, {"run": handoff("task", "done")},
    )  # fmt: skip
    out, _ = first.communicate(timeout=100)
    assert (json.loads(out)["state"], second["state"]) == ("done", "done"), batch.said(second)
    assert "new.txt" not in batch.said(second), "each sees its own clone"
    assert batch.repo.head() == before
    assert not os.path.exists(os.path.join(batch.repo.path, "src/form/new.txt"))
    assert "src/form/new.txt" in batch.repo.git("ls-tree", "-r", "--name-only", "--full-tree", _branch(batch, "form"))
    shutil.rmtree(batch.clone("login-form"))  # nothing depends on the clone any more
    end = batch.run(
        "login-join",
        {"run": "cat src/form/new.txt src/api/b.txt"},
        {"run": handoff("task", "done", "--summary", "joined")},
    )
    assert end["state"] == "done", batch.said(end)
    subjects = batch.repo.git("log", "--format=%s", f"{before}..HEAD").split("\n")
    assert sorted(line for line in subjects if line) == ["api: Build api.", "form: Build form."]
    assert batch.repo.read("src/form/new.txt") == "form"
    assert batch.repo.read("src/api/b.txt") == "changed\n"
    assert batch.repo.read("secret.txt") == "dirty work of the person\n"
    assert batch.repo.git("status", "--short").strip() == "M secret.txt"
    assert batch.repo.git("branch", "--list", "handoff/*") == "", "landed branches are tidied away"
    left = os.listdir(os.path.join(batch.home, "repo", "workspaces"))
    assert left == ["login-form-1"], "and so are the clones, but for the one that was gone without a word"


def _branch(batch, part: str) -> str:
    (name,) = batch.repo.git("branch", "--list", f"handoff/login-{part}*", "--format=%(refname)").split()
    return name


@pytest.mark.slow
def test_a_part_that_needs_another_begins_with_its_work(batch):
    batch.open(depends={"api": ["form"]})
    batch.run("login/form", {"write": "src/form/new.txt", "text": "form"}, {"run": handoff("task", "done")})
    end = batch.run(
        "login/api", {"run": "cat src/form/new.txt"}, {"write": "src/api/c.txt"}, {"run": handoff("task", "done")}
    )
    assert end["state"] == "done", batch.said(end)
    batch.run("login-join", {"run": handoff("task", "done")})
    assert sorted(os.listdir(os.path.join(batch.repo.path, "src/api"))) == ["b.txt", "c.txt"]


def test_a_session_that_dies_keeps_its_clone_and_the_next_one_goes_on_in_it(batch):
    batch.open()
    batch.run("login/form", {"write": "src/form/half.txt", "text": "half"}, {"crash": True}, code=1)
    assert batch.cli("snapshot", "list", "--json").json
    end = batch.run(
        "login/form",
        {"expect": "src/form/half.txt"},
        {"run": "test -f src/form/half.txt"},
        {"run": handoff("task", "done")},
    )
    assert end["state"] == "done", batch.said(end)


def test_a_change_outside_the_ownership_is_not_done_and_never_lands(batch):
    batch.open()
    end = batch.run(
        "login/form", {"write": "src/api/b.txt", "text": "mine now"}, {"run": handoff("task", "done")}, code=1
    )
    assert "that it does not own" in batch.said(end)
    assert (end["state"], end["outside"]) == ("ready", ["src/api/b.txt"])
    assert batch.repo.read("src/api/b.txt") == "api\n"


def test_the_check_runs_behind_the_sandbox_on_exactly_what_is_kept(batch):
    outside = os.path.join(batch.home, "escaped")
    batch.open_with_check(f"sh src/form/check.sh; test ! -e {outside}")
    end = batch.run(
        "login/form", {"write": "src/form/check.sh", "text": f"echo x > {outside}; echo x > {batch.repo.path}/y"},
        {"run": handoff("task", "done")},
    )  # fmt: skip
    assert end["state"] == "done", batch.said(end)
    assert not os.path.exists(outside)
    assert not os.path.exists(os.path.join(batch.repo.path, "y"))


def test_a_check_that_changes_the_work_each_time_is_told_so(batch):
    batch.open_with_check("head -c 20 /dev/urandom | od > src/form/noise.txt")
    made = {"write": "src/form/noise.txt", "text": "x"}
    end = batch.run("login/form", made, {"run": handoff("task", "done")}, code=1)
    assert "changed while its check ran: src/form/noise.txt" in batch.said(end)


def test_where_the_settings_or_the_person_say_so_a_part_works_in_the_checkout(batch):
    batch.open()
    end = batch.run(
        "login/form",
        {"write": "src/form/new.txt", "text": "x"},
        {"run": handoff("task", "done")},
        words=("--workspace", "shared"),
    )
    assert end["state"] == "done"
    assert batch.repo.read("src/form/new.txt") == "x"
    with open(os.path.join(batch.home, "config.toml"), "w", encoding="utf-8") as file:
        file.write('session_workspace = "sharde"\n')
    assert "session_workspace is 'sharde'" in batch.cli(
        "session", "start", "login/api", "--agent", "scripted", "--with", "x", code=1
    ).err  # fmt: skip


def test_a_machine_without_a_sandbox_says_so_and_still_gives_a_clone(batch):
    batch.cli.environment["HANDOFF_SANDBOX"] = "none"
    batch.open()
    end = batch.run("login/form", {"write": "src/form/new.txt"}, {"run": "pwd"}, {"run": handoff("task", "done")})
    assert end["state"] == "done", batch.said(end)
    assert "No sandbox" in batch.err
    assert "workspaces/login-form" in batch.said(end)
    assert "no sandbox" in batch.cli("agent", "list").out


def test_what_an_attempt_wrote_outside_by_shell_is_not_left_for_the_next_one(batch):
    batch.open()
    first = batch.run(
        "login/form", {"run": "echo mine > secret.txt; mkdir deep; echo x > deep/new.txt; rm src/api/b.txt"},
        {"write": "src/form/half.txt", "text": "half"}, {"run": "git -c user.name=a -c user.email=a@b commit -qam all"}, code=1,
    )  # fmt: skip
    assert first["state"] == "ready", batch.said(first)
    assert sorted(first["outside"]) == ["deep/new.txt", "secret.txt", "src/api/b.txt"]
    look = {"run": "cat secret.txt src/api/b.txt src/form/half.txt; ls -d deep || true"}
    second = batch.run("login/form", look, {"run": handoff("task", "done")})
    assert (second["state"], second["outside"]) == ("done", []), batch.said(second)
    said = batch.said(second)
    assert "of the person" in said
    assert "api" in said
    assert "half" in said, "what it owns is left for the next attempt"
    (event,) = [one for one in batch.cli("log", "--json").json if one["kind"] == "task.taken_back"]
    kept = batch.cli("snapshot", "restore", event["body"]["snapshot"], "--into", str(batch.tmp / "kept")).out
    assert (batch.tmp / "kept/secret.txt").read_text() == "mine\n", kept


def test_how_a_session_is_fenced_is_shown_while_it_works(batch):
    batch.cli("init", "demo")
    batch.open()
    process = batch.start(
        "login/form", {"run": "while [ ! -e go ]; do sleep 0.05; done; rm go"}, {"run": handoff("task", "block", "x")}
    )
    _until(lambda: [one for one in batch.sessions() if os.path.exists(os.path.join(batch.folder(one), "process.json"))])
    assert "in a clone of its own inside bubblewrap" in batch.cli("session", "list").out
    assert "in a clone of its own inside bubblewrap" in batch.cli("status").out
    open(os.path.join(batch.clone("login-form"), "go"), "w").close()
    process.communicate(timeout=60)
    assert "a clone inside bubblewrap" in batch.cli("agent", "list").out


# --- what cannot be reached ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_everyday_commands_work_inside(batch):
    batch.open()
    lines = (
        "git status --short", "git log --oneline -1", "git diff", "git stash list", "mktemp", "echo x > $TMPDIR/x",
        f"{PYTHON} -c 'import json'", f"{PYTHON} -m pytest --version", "ls ~", "touch src/form/t && rm src/form/t",
        "git add -A && git commit -q --allow-empty -m here", handoff("--version"), handoff("--help"), handoff("heartbeat"),
        handoff("task", "list"), handoff("show", "login/form"), handoff("log"), handoff("gate", "list"),
        handoff("snapshot", "-m", "mine"), handoff("init", "demo"), handoff("note", "'a word'"), handoff("status"),
        "rm -rf .handoff",
        "echo more > src/form/m.txt && " + handoff("safe-commit", "-m", "mine", "--", "src/form/m.txt"),
        handoff("mcp", "</dev/null"),
    )  # fmt: skip
    end = batch.run("login/form", *({"run": line} for line in lines), {"run": handoff("task", "done")})
    assert end["state"] == "done", batch.said(end)


@pytest.mark.slow
def test_nothing_of_anybody_else_can_be_read_written_or_killed(batch):
    batch.open()
    other = subprocess.Popen(["sleep", f"604.{os.getpid()}"])
    tmux = os.path.join(os.environ["HOME"], ".tmux")
    os.makedirs(tmux)
    open(os.path.join(tmux, "socket"), "w").close()
    os.makedirs(os.path.join(os.environ["HOME"], ".ssh"))
    with open(os.path.join(os.environ["HOME"], ".ssh", "id"), "w", encoding="utf-8") as file:
        file.write("a very private key")
    batch.keep_to_oneself("private.txt")
    database, checkout, home = os.path.join(batch.home, "handoff.db"), batch.repo.path, os.environ["HOME"]
    config = os.path.join(batch.home, "config.toml")
    attempts = {
        "read the database": f"cat {database}",
        "write the database": f"echo x >> {database}",
        "remove the database": f"rm -f {database} && test -e {database}",
        "list other sessions": f"ls {batch.home}/sessions/running",
        "read the token": f"cat {batch.home}/repo/sessions/*/token",
        "change the grant": "echo x >> $(dirname $(dirname $HANDOFF_BROKER))/grant",
        "change the baton": "echo x >> $(dirname $(dirname $HANDOFF_BROKER))/baton.md",
        "replace the broker": "rm $HANDOFF_BROKER",
        "write settings of the relay": f"echo x > {config}",
        "read the checkout": f"cat {checkout}/private.txt",
        "write the checkout": f"echo x > {checkout}/private.txt",
        "write beside it in the checkout": f"echo x > {checkout}/new.txt",
        "commit in the checkout": f"git -C {checkout} commit --allow-empty -m x",
        "move a branch of the checkout": f"git --git-dir={checkout}/.git update-ref refs/heads/main HEAD~1",
        "spoil the borrowed objects": f"echo x > {batch.home}/repo/snapshots.git/objects/x",
        "plant a hook": "echo x > .git/hooks/pre-commit",
        "plant a setting": "git config core.fsmonitor /bin/false",
        "write to the home": f"echo x >> {home}/.bashrc",
        "read a key": f"cat {home}/.ssh/id",
        "see tmux": f"test -e {tmux}/socket",
        "kill another": f"kill {other.pid}",
        "kill the monitor": "kill -9 $(cat $(dirname $(dirname $HANDOFF_BROKER))/monitor.json)",
        "go around the broker": f"env -u HANDOFF_BROKER HANDOFF_HOME={batch.home} {handoff('cancel', 'login/api')}",
    }
    acts = [{"run": f"({line}) && echo REACHED: {what}", "may_fail": True} for what, line in attempts.items()]
    before = batch.repo.git("for-each-ref")
    end = batch.run("login/form", *acts, {"run": handoff("task", "done")})
    said = batch.said(end)
    reached = [line.strip() for line in said.splitlines() if line.strip().startswith("REACHED")]
    assert reached == [], said
    assert "a very private key" not in said
    assert other.poll() is None
    other.kill()
    other.wait()
    assert batch.repo.read("private.txt") == "of the person alone\n"
    after = "\n".join(line for line in batch.repo.git("for-each-ref").splitlines() if "handoff" not in line)
    assert after.strip() == before.strip()
    assert end["state"] == "done", said


@pytest.mark.slow
def test_the_broker_opens_for_the_session_itself_and_for_nothing_else(batch):
    batch.open()
    other = batch.cli("task", "claim", "login/api", "--json").json
    refused = (
        ("cancel", "login/api"), ("retry", "login/api"), ("answer", "login/api", "yes"), ("pause",), ("resume",),
        ("session", "stop", other["session"]), ("session", "start", "login/api", "--agent", "scripted"),
        ("snapshot", "restore", "--into", "x"), ("snapshot", "diff"), ("snapshot", "list"), ("gate", "show", "login/api"),
        ("task", "add", "x", "y"), ("task", "open", "login/api"), ("task", "gone"), ("batch", "list"), ("record", "sync"),
        ("land", "x"), ("undo",), ("project", "tidy"), ("workspace", "list"),
        ("work", "--agent", "scripted"), ("dump", "--task", "x", "--next", "y"), ("task", "claim", "login/api"), ("workspace", "run", "id"),
        ("database", "move", "x"), ("database", "files"), ("hooks", "install"), ("git-guard", "install"),
        ("task", "done", "--session", other["session"], "--fence", str(other["fence"])), ("task", "done", "login/api"),
        ("task", "done", "--task", "api"), ("task", "done", "--project", "another"), ("task", "done", "--accept-outside", "please"),
        ("heartbeat", "--fence", "99"), ("heartbeat", "complete", "login"), ("heartbeat", "--session", other["session"]),
        ("task", "block", "no", "--task", "login/api"), ("task", "ask", "well?", "--session", other["session"]),
        ("task", "ask", "well?", "--from", "/etc/passwd"), ("task", "list", "--project", "another"), ("log", "-f"),
        ("-C", "/etc", "heartbeat"), ("heartbeat", "-C", batch.repo.path), ("snapshot", "--path", "/etc/passwd"),
        ("snapshot", "--session", other["session"]), ("no-such-command",),
    )  # fmt: skip
    acts = [
        {"run": f"{handoff(*(repr(word) for word in words))}; test $? = 3 || echo NOT REFUSED: {' '.join(words)}"}
        for words in refused
    ]
    acts += [  # a batch has an address too, and is not for sessions
        {"run": f"{handoff(verb, 'login')}; test $? = 1 || echo NOT REFUSED: {verb} a batch"}
        for verb in ("show", "log")
    ]
    end = batch.run("login/form", *acts, {"run": handoff("task", "done")})
    said = batch.said(end)
    assert "  NOT REFUSED" not in said, said
    assert end["state"] == "done", said
    row = batch.cli("show", "login/api", "--json").json
    assert (row["state"], row["fence"]) == ("running", other["fence"])


def test_a_forged_environment_speaks_for_nobody_else(batch):
    batch.open()
    other = batch.cli("task", "claim", "login/api", "--json").json
    forged = (
        f"env HANDOFF_SESSION={other['session']} HANDOFF_FENCE={other['fence']} HANDOFF_TASK=login/api HANDOFF_TOKEN=x "
        f"HANDOFF_HOME=/tmp/x HANDOFF_DATABASE_URL=postgresql://x {handoff('task', 'done', '--summary', 'forged')}"
    )
    end = batch.run("login/form", {"run": forged})
    assert end["state"] == "done", batch.said(end)
    assert batch.cli("show", "login/api", "--json").json["state"] == "running"


def test_a_link_planted_in_the_workspace_is_not_followed_outside(batch):
    batch.open()
    target = os.path.join(os.environ["HOME"], "profile")
    with open(target, "w", encoding="utf-8") as file:
        file.write("kept\n")
    end = batch.run(
        "login/form", {"run": handoff("init", "demo")}, {"run": f"ln -sf {target} .handoff/features/demo/SESSION.md"},
        {"run": handoff("note", "planted"), "may_fail": True}, {"run": f"ln -sf {batch.home} src/form/home"},
        {"run": handoff("task", "done"), "may_fail": True}, {"run": "rm -r src/form/home .handoff"}, {"run": handoff("task", "done")},
    )  # fmt: skip
    with open(target, encoding="utf-8") as file:
        assert file.read() == "kept\n"
    assert "leads out of the tree" in batch.said(end)


# --- the broker under attack -------------------------------------------------------------------------------------------

_CONNECT = "import socket,os,sys; p=os.environ['HANDOFF_BROKER']; os.chdir(os.path.dirname(p)); b=os.path.basename(p)"


def _say(data: str) -> str:
    return _python(
        _CONNECT, "s=socket.socket(socket.AF_UNIX); s.connect(b)", f"s.sendall({data})", "s.shutdown(1)",
        "print('answer', s.recv(10))",
    )  # fmt: skip


@pytest.mark.slow
def test_garbage_and_floods_are_not_heard_and_the_broker_still_opens(batch):
    batch.open()
    flood = _python(
        _CONNECT, "held=[socket.socket(socket.AF_UNIX) for _ in range(40)]", "[one.setblocking(False) for one in held]",
        "[one.connect_ex(b) for one in held]", "print('flooded')",
    )  # fmt: skip
    acts = [
        {"run": _say(data), "may_fail": True}
        for data in (
            "b'GET / HTTP/1.0\\\\r\\\\n\\\\r\\\\n'", "b'\\\\0'*100000", "b'handoff-broker-1 99999999999999\\\\n'",
            "b'handoff-broker-1 -5\\\\n'", "b'handoff-broker-1 4\\\\ndone'", "b'handoff-broker-1 x'",
        )
    ]  # fmt: skip
    huge = handoff("task", "block") + " \"$(head -c 120000 /dev/zero | tr '\\0' x)\""
    acts += [{"run": f"{huge} --task login/api; test $? = 3"}, {"run": flood}, {"run": handoff("heartbeat")}]
    end = batch.run("login/form", *acts, {"run": handoff("task", "done")})
    said = batch.said(end)
    assert end["state"] == "done", said
    assert said.count("answer b''") + said.count("reset by peer") == 6, said
    assert "flooded" in said


CROWD = """
import os
from handoff.surfaces.cli.broker_client import pass_on

def call(words, out):
    pid = os.fork()
    if pid == 0:
        os.dup2(out, 1)
        os._exit(pass_on(words, os.environ["HANDOFF_BROKER"]))
    return pid

read, write = os.pipe()
os.set_blocking(write, False)
try:
    while os.write(write, b"x" * 4096):
        pass
except BlockingIOError:
    os.set_blocking(write, True)
stuck = [call(["queue"], write) for _ in range(18)]
nothing = os.open(os.devnull, os.O_WRONLY)
crowd = [call(["heartbeat"], nothing) for _ in range(150)]
print("codes", {os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in crowd})
"""


@pytest.mark.slow
def test_calls_that_nobody_reads_and_a_crowd_of_others_do_not_stop_the_broker(batch):
    batch.open()
    batch.repo.write("src/form/crowd.py", CROWD)
    batch.repo.commit("crowd")
    end = batch.run("login/form", {"run": f"{PYTHON} src/form/crowd.py"}, {"run": handoff("task", "done")})
    assert "codes {0}" in batch.said(end)
    assert end["state"] == "done"


def test_a_killed_monitor_leaves_neither_the_client_nor_the_broker(batch):
    batch.open()
    mark = f"605.{os.getpid()}"
    process = batch.start("login/form", {"run": f"sleep {mark}"})
    _until(lambda: processes_with(f"sleep\0{mark}"))
    (session,) = batch.sessions()
    with open(os.path.join(batch.folder(session), "monitor.json"), encoding="utf-8") as file:
        os.kill(json.load(file)["pid"], signal.SIGKILL)
    out, _ = process.communicate(timeout=60)
    assert json.loads(out)["outcome"] == "killed"
    assert _until(lambda: not processes_with(mark) and not processes_with(session))


def test_a_broker_that_is_gone_says_no_to_an_edit(batch, tmp_path):
    batch.cli.environment["HANDOFF_BROKER"] = str(tmp_path / "broker" / "socket")
    os.makedirs(tmp_path / "broker")
    # Side by side: each waits ten seconds for a broker to come.
    edit = batch.cli.start("hook", "claude", "PreToolUse", stdin=subprocess.PIPE)
    assert "does not answer" in batch.cli("task", "done", code=1).err
    _, said = edit.communicate(b"{}", timeout=60)
    assert edit.returncode == 2
    assert b"does not answer" in said


def test_hooks_are_answered_through_the_broker(batch):
    batch.open()
    start = f"echo '{{}}' | {handoff('hook', 'claude', 'SessionStart')}"
    call = json.dumps({"tool_name": "Write", "tool_input": {"file_path": "src/api/b.txt"}})
    edit = f"echo '{call}' | {handoff('hook', 'claude', 'PreToolUse')}"
    end = batch.run("login/form", {"run": start}, {"run": edit, "may_fail": True}, {"run": handoff("task", "done")})
    said = batch.said(end)
    assert "Build form." in said, "the baton is the answer to the start"
    assert "is not yours to change in task" in said, said
    assert os.path.exists(os.path.join(batch.folder(end["session"]), "hello"))


@pytest.mark.slow
def test_landlock_has_the_same_broker(batch):
    if layer(os.environ, wanted=LANDLOCK) != LANDLOCK:
        absent(LANDLOCK)
    batch.cli.environment["HANDOFF_SANDBOX"] = LANDLOCK
    batch.open()
    acts = (
        {"run": f"cat {batch.home}/handoff.db && echo REACHED", "may_fail": True},
        {"run": f"echo x > {batch.repo.path}/secret.txt && echo REACHED", "may_fail": True},
        {"run": f"echo x > {os.environ['HOME']}/x && echo REACHED", "may_fail": True},
        {"run": handoff("heartbeat")}, {"write": "src/form/new.txt"}, {"run": handoff("task", "done")},
    )  # fmt: skip
    end = batch.run("login/form", *acts)
    assert "  REACHED" not in batch.said(end), batch.said(end)
    assert end["state"] == "done", batch.said(end)


def test_a_session_cannot_say_how_long_its_silence_is_believed(batch):
    batch.open()
    act = {"run": handoff("heartbeat", "--lease", "2000000"), "may_fail": True}
    end = batch.run("login/form", act, {"run": handoff("task", "done")})
    assert "may not use that option of 'heartbeat'" in batch.said(end)


def test_a_session_may_ask_with_choices_and_not_say_which_one_counts_without_an_answer(batch):
    batch.open()
    asked = ("task", "ask", "'Which store?'", "--choice", "Postgres", "--choice", "Redis")
    own = {"run": handoff(*asked, "--within", "1s", "--default", "Redis"), "may_fail": True}
    end = batch.run("login/form", own, {"run": handoff(*asked)}, code=None)
    assert "may not use that option of 'task ask'" in batch.said(end)
    assert batch.cli("gate", "show", "login/form", "--json").json["choices"] == ["Postgres", "Redis"], batch.said(end)


@pytest.mark.parametrize("way", ["mv .git .was", "mv .git .was && ln -s .was .git"])
def test_a_task_goes_on_though_a_session_took_its_git_folder_away(batch, way):
    if layer(os.environ, wanted=LANDLOCK) != LANDLOCK:
        absent(LANDLOCK)
    batch.cli.environment["HANDOFF_SANDBOX"] = LANDLOCK
    batch.open()
    acts = (
        {"write": "src/form/kept.txt"},
        {"run": handoff("snapshot", "take")},
        {"write": "src/form/late.txt"},
        {"run": way},
    )
    assert batch.run("login/form", *acts, code=None)["state"] == "ready"
    end = batch.run("login/form", {"run": "ls src/form"}, {"run": handoff("task", "done")})
    assert end["state"] == "done", batch.said(end)
    assert "kept.txt" in batch.said(end)
    aside = batch.err.rpartition("what lay there is in ")[2].strip().splitlines()[0]
    assert os.path.exists(os.path.join(aside, "src", "form", "late.txt")), "nothing of it is lost"


def test_a_link_planted_in_the_clients_own_folder_is_not_followed_when_it_is_resumed(tmp_path):
    folder = str(tmp_path / "session")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    os.makedirs(os.path.join(folder, "client"))
    os.symlink(elsewhere, os.path.join(folder, "client", "copilot"))
    launch = Launch(("x",), {}, {os.path.join(folder, "client", "copilot", "hooks", "handoff.json"): "{}"})
    with pytest.raises(Refused, match="leads out of the session's folder"):
        folders.write(folder, {}, launch.files)
    assert list(elsewhere.iterdir()) == []
