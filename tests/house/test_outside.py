"""No test touches anything outside of its own temp folders: read in the code of the tests, and watched while they run."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys

import pytest

from source import ROOT, Module, dotted, modules_of_tests

HERE = "tests/house/test_outside.py"  # has examples of every breach
# What changes a path, or makes a link through which somebody could.
CHANGING = {
    f"{room}.{name}"
    for room, names in {
        "os": "chmod chown lchown link makedirs mkdir mkfifo mknod remove removedirs removexattr rename renames replace rmdir"
        " setxattr symlink truncate unlink utime",
        "shutil": "chown copy copy2 copyfile copymode copystat copytree move rmtree unpack_archive",
    }.items()
    for name in names.split()
}
METHODS = frozenset(
    [
        "chmod",
        "hardlink_to",
        "mkdir",
        "rename",
        "replace",
        "rmdir",
        "symlink_to",
        "touch",
        "unlink",
        "write_bytes",
        "write_text",
    ]
)
SYSTEM = r"(?:/(?:bin|boot|etc|home|lib\w*|media|mnt|opt|root|run|sbin|srv|sys|usr|var|Applications|Library|Users)\b|~)"
WORDS = r"(?:rm|rmdir|chmod|chown|ln|mv|cp|touch|mkdir|truncate|tee|install|sed -i)"
SHELL = re.compile(rf"\b{WORDS}\b[^|;&\n\"']*\s{SYSTEM}|>\s*{SYSTEM}")


def _beginning(node: ast.expr) -> str:
    """How the text of an expression begins, as far as it is written there."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr) and node.values:
        return _beginning(node.values[0])
    if isinstance(node, ast.BinOp):
        return _beginning(node.left)
    if isinstance(node, ast.Call) and node.args and dotted(node.func) in ("os.path.join", "os.path.expanduser", "Path"):
        return _beginning(node.args[0])
    return ""


def _system(node: ast.expr) -> bool:
    return re.match(SYSTEM, _beginning(node)) is not None


def _writes(call: ast.Call) -> bool:
    words = [*call.args[1:2], *(word.value for word in call.keywords if word.arg == "mode")]
    return any(isinstance(word, ast.Constant) and set(str(word.value)) & set("wax+") for word in words)


def _breaches(module: Module) -> list[str]:
    found = []
    for node in module.nodes:
        if isinstance(node, ast.JoinedStr) and _system(node):
            found.append((node.lineno, "puts a path of the system together"))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and SHELL.search(node.value):
            found.append((node.lineno, f"a shell would change {SHELL.search(node.value)[0]!r}"))
        if not isinstance(node, ast.Call):
            continue
        name, paths = dotted(node.func), [*node.args[:2], *(word.value for word in node.keywords)]
        if isinstance(node.func, ast.Attribute) and node.func.attr in METHODS:
            paths, name = [node.func.value, *node.args[:1]], node.func.attr
        elif name == "open" and _writes(node):
            paths = node.args[:1]
        elif name not in CHANGING:
            continue
        if any(_system(path) for path in paths):
            found.append((node.lineno, f"{name} on a path of the system"))
    return [f"{module.name}:{line} {what}" for line, what in found]


def test_no_test_names_a_path_of_the_system_to_change_or_to_link_to_it():
    found = [line for module in modules_of_tests() if module.name != HERE for line in _breaches(module)]
    assert not found, "use a stand-in inside tmp_path:\n" + "\n".join(found)


@pytest.mark.parametrize(
    "line",
    [
        'os.symlink("/etc", "link")',
        'os.symlink("/usr/bin/git", here)',
        'os.chmod("/usr/bin/x", 0o755)',
        'os.unlink(os.path.join("/home", name))',
        'shutil.rmtree(os.path.expanduser("~/.cache"))',
        'open("/etc/hosts", "a")',
        'open(f"/var/lib/{name}", mode="wb")',
        'Path("/etc/x").write_text("")',
        '(here / "x").symlink_to("/etc/passwd")',
        'run("rm -rf /usr/lib/x")',
        'run("echo x >> ~/.profile")',
        'run("cd / && ln -s x /etc/x")',
        'place = f"/var/tmp/x-{os.getpid()}"',
    ],
)
def test_the_reader_sees_a_breach(line):
    assert _breaches(Module.of("planted.py", line))


@pytest.mark.parametrize(
    "line", ['open("/etc/hosts")', 'run("/bin/sh -c true >/dev/null")', 'os.mkdir(f"/dev/shm/{x}")']
)
def test_the_reader_lets_pass_what_changes_nothing_of_the_system(line):
    assert not _breaches(Module.of("planted.py", line))


# --- while tests run ----------------------------------------------------------------------------------

PROBE = """
import os, shutil, socket, sqlite3, subprocess, tempfile
import pytest

THERE = os.environ["STAND_IN"]
KEPT = os.path.join(THERE, "kept")
NEW = os.path.join(THERE, "new")
BESIDE = os.path.join(tempfile.gettempdir(), "somebody's")

def write(path, mode="w"):
    with open(path, mode) as file:
        file.write("x")

def bind(path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)

def quietly(act):
    try:
        act()
    except BaseException:
        pass

BREACHES = {
    "writes": lambda ours: write(NEW),
    "writes beside its temp folder": lambda ours: write(BESIDE),
    "makes a folder beside its temp folder": lambda ours: os.mkdir(BESIDE),
    "writes into memory that all share": lambda ours: write("/dev/shm/handoff-somebody's"),
    "adds": lambda ours: write(KEPT, "a"),
    "opens to write": lambda ours: os.close(os.open(KEPT, os.O_RDWR)),
    "writes through a link": lambda ours: write(ours / "way" / "kept"),
    "leads a link there": lambda ours: os.symlink(KEPT, ours / "link"),
    "makes a link": lambda ours: os.symlink("kept", NEW),
    "makes a folder": lambda ours: os.mkdir(NEW),
    "removes": lambda ours: os.unlink(KEPT),
    "removes from a folder": lambda ours: os.unlink("kept", dir_fd=os.open(THERE, os.O_RDONLY)),
    "removes a tree": lambda ours: shutil.rmtree(THERE),
    "moves away": lambda ours: os.rename(KEPT, ours / "mine"),
    "moves there": lambda ours: os.replace(ours / "own", NEW),
    "changes rights": lambda ours: os.chmod(KEPT, 0o777),
    "changes rights by a number": lambda ours: os.chmod(os.open(KEPT, os.O_RDONLY), 0o777),
    "changes times": lambda ours: os.utime(KEPT),
    "changes the owner": lambda ours: os.chown(KEPT, os.getuid(), -1),
    "binds a socket": lambda ours: bind(NEW),
    "opens a database": lambda ours: sqlite3.connect(NEW),
    "catches its own error": lambda ours: quietly(lambda: write(NEW)),
    "gives a program another home": lambda ours: subprocess.run(["true"], env={**os.environ, "HOME": THERE}),
    "gives a program no home": lambda ours: subprocess.run(["true"], env={"PATH": os.environ["PATH"]}),
}

@pytest.fixture
def ours(tmp_path):
    write(tmp_path / "own")
    os.makedirs(tmp_path / "way")
    subprocess.run(["sh", "-c", 'rmdir way && ln -s "$STAND_IN" way'], cwd=tmp_path, check=True)
    return tmp_path

@pytest.mark.parametrize("act", BREACHES)
def test_breach(ours, act):
    BREACHES[act](ours)

def test_in_order(ours):
    write(ours / "own", "a")
    write("/dev/null")
    os.symlink(shutil.which("sh"), ours / "sh")
    os.symlink("nowhere", ours / "loose")
    with open(KEPT) as file:
        assert file.read() == "as it was"
    with tempfile.TemporaryDirectory() as folder:
        write(os.path.join(folder, "x"))
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("x")
    with tempfile.TemporaryFile() as file:
        file.write(b"x")
    sqlite3.connect(":memory:").close()
    sqlite3.connect(ours / "database").close()
    subprocess.run(["true"], check=True)
"""


def _facts(folder):
    return [
        (path.name, found.st_mode, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        for path in (folder, *folder.iterdir())
        if (found := path.lstat())
    ]


def test_what_a_test_does_outside_is_stopped_and_fails_it(tmp_path):
    there, temp = tmp_path / "stand-in", tmp_path / "temp"
    there.mkdir()
    temp.mkdir()
    (there / "kept").write_text("as it was")
    before = _facts(there)
    probe = tmp_path / "probe" / "test_probe.py"
    probe.parent.mkdir()
    probe.write_text(PROBE)
    tests = os.path.join(ROOT, "tests")
    told = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider", "-q", "-rA", "--tb=no",
         "-c", os.path.join(ROOT, "pyproject.toml"), "--rootdir", probe.parent, probe],
        env={**os.environ, "PYTHONPATH": tests, "TMPDIR": str(temp), "STAND_IN": str(there)}, cwd=probe.parent,
        capture_output=True, text=True, check=False,
    ).stdout  # fmt: skip
    assert _facts(there) == before, told
    assert not (temp / "somebody's").exists(), told
    verdicts = re.findall(r"^(PASSED|FAILED|ERROR) .*::test_(\w+)", told, re.MULTILINE)
    assert verdicts.count(("FAILED", "breach")) == PROBE.count("lambda ours:"), told
    assert [one for one in verdicts if one != ("FAILED", "breach")] == [("PASSED", "in_order")], told


def test_what_a_program_leaves_in_the_persons_home_makes_the_run_red(tmp_path):
    home, temp = tmp_path / "home", tmp_path / "temp"
    probe = tmp_path / "probe" / "test_probe.py"
    for folder in (home, temp, probe.parent):
        folder.mkdir()
    (home / ".gitconfig").write_text("")
    probe.write_text(
        "import os, subprocess\n\ndef test_probe():\n"
        f"    subprocess.run(['git', 'config', '--file', {str(home / '.gitconfig')!r}, 'user.name', 'x'], check=True)\n"
    )
    tests = os.path.join(ROOT, "tests")
    told = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider", "-q",
         "-c", os.path.join(ROOT, "pyproject.toml"), "--rootdir", probe.parent, probe],
        env={**os.environ, "PYTHONPATH": tests, "TMPDIR": str(temp), "HOME": str(home)}, cwd=probe.parent,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "1 passed" in told.stdout, told.stdout
    assert told.returncode == 1
    assert f"changed in the home of the person who runs the tests: {home}/.gitconfig" in told.stdout
