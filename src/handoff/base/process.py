"""Start other programs: the only broker. `capture` is the light way, `run` the careful one."""

from __future__ import annotations

import os
import select
import sys

from handoff.base.errors import UserError
from handoff.base.files import SOURCES, UNPACKED
from handoff.base.record import TYPE_CHECKING, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, NoReturn

_CHUNK = 65536
NOT_FOUND = 127
TIMED_OUT = 124
_FAULT = 70
_LAUNCH_SECONDS = 3.0
_FEED_SECONDS = 5.0
_MOST_PARENTS = 64
_RUN_UNPACKED = """import runpy, sys
sys.path[0], name = sys.argv[1:3]
del sys.argv[1:3]
runpy.run_module(name, run_name="__main__", alter_sys=True)"""
_ADDED = os.O_WRONLY | os.O_CREAT | os.O_APPEND


class Completed(Record):
    """How a program ended. A negative code is the signal that ended it."""

    code: int
    out: bytes
    err: bytes
    timed_out: bool = False

    @property
    def text(self) -> str:
        """Standard output as text; bytes that are not UTF-8 survive a round trip."""
        return self.out.decode("utf-8", "surrogateescape")

    @property
    def error_text(self) -> str:
        return self.err.decode("utf-8", "replace").strip()


def capture(argv: Sequence[str], *, environment: Mapping[str, str], stdin: bytes | None = None) -> Completed:
    """Run a short program and read both its streams; no time limit."""
    return begin(argv, environment=environment, stdin=stdin)()


def begin(
    argv: Sequence[str], *, environment: Mapping[str, str], stdin: bytes | None = None
) -> Callable[[], Completed]:
    """Start a short program and go on with something else; the function that comes back waits for its answer.

    Made of posix_spawn and poll: importing `subprocess` costs half of `python -c pass`, and `status` and the hooks ask git once.
    """
    out_read, out_write = os.pipe()
    err_read, err_write = os.pipe()
    given = None if stdin is None else _as_file(stdin)
    source = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0) if given is None else (os.POSIX_SPAWN_DUP2, given, 0)
    actions = [source, (os.POSIX_SPAWN_DUP2, out_write, 1), (os.POSIX_SPAWN_DUP2, err_write, 2)]
    name = argv[0]  # looked for where the program itself would look, not where we would
    program = name if "/" in name else find(name, path=environment.get("PATH", os.defpath)) or name
    try:
        pid = os.posix_spawnp(program, list(argv), environment, file_actions=actions)
    except (FileNotFoundError, PermissionError):  # a folder on PATH that we may not read hides what is in it
        for fd in (out_read, err_read):
            os.close(fd)
        raise UserError(f"The program '{argv[0]}' was not found.", f"Install {argv[0]} or fix PATH.") from None
    finally:
        os.close(out_write)
        os.close(err_write)
        if given is not None:
            os.close(given)
    return lambda: _answer(pid, out_read, err_read)


def _answer(pid: int, out: int, err: int) -> Completed:
    """Read both streams of a program to their ends, then its exit code. Whoever is interrupted here leaves no program running."""
    streams: dict[int, list[bytes]] = {out: [], err: []}
    poll = select.poll()
    for fd in streams:
        poll.register(fd, select.POLLIN | select.POLLHUP)
    unread = len(streams)
    try:
        while unread:
            for fd, _event in poll.poll():
                streams[fd].append(os.read(fd, _CHUNK))
                if not streams[fd][-1]:
                    poll.unregister(fd)
                    unread -= 1
    finally:
        os.close(out)
        os.close(err)
        _, status = os.waitpid(pid, 0)
    return Completed(os.waitstatus_to_exitcode(status), b"".join(streams[out]), b"".join(streams[err]))


def _as_file(data: bytes) -> int:
    """`data` as an open file without a name, so that a program can read it at its own pace."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("stdin", os.MFD_CLOEXEC)
    else:
        import tempfile

        fd, name = tempfile.mkstemp(prefix="handoff-")
        os.unlink(name)
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def run(
    argv: Sequence[str],
    *,
    environment: Mapping[str, str],
    cwd: str | None = None,
    timeout: float | None = None,
    stdin: bytes | None = None,
    merge: bool = False,
) -> Completed:
    """Run a program in its own process group; when time is up the whole group is ended."""
    import subprocess

    try:
        child = subprocess.Popen(
            list(argv),
            cwd=cwd,
            env=dict(environment),
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merge else subprocess.PIPE,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        missing = error.filename or argv[0]
        raise UserError(f"'{missing}' was not found.", "Install it, fix PATH, or correct the command.") from None
    except OSError as error:
        raise UserError(f"Cannot start {argv[0]}: {error.strerror}.") from error
    try:
        out, err = child.communicate(stdin, timeout=timeout)
    except subprocess.TimeoutExpired:
        end_group(child.pid)
        out, err = child.communicate()
        return Completed(TIMED_OUT, out or b"", err or b"", timed_out=True)
    except BaseException:
        end_group(child.pid)
        child.wait()
        raise
    return Completed(child.returncode, out or b"", err or b"")


def shell(
    command: str, *, environment: Mapping[str, str], cwd: str | None = None, timeout: float | None = None
) -> Completed:
    """Run a line the user wrote, as their shell would; both streams in one, in order."""
    return run(["/bin/sh", "-c", command], environment=environment, cwd=cwd, timeout=timeout, merge=True)


def pass_through(argv: Sequence[str], *, environment: Mapping[str, str], cwd: str | None = None) -> int:
    """Run a program on the person's own terminal and return its exit code."""
    import subprocess

    try:
        return subprocess.run(list(argv), env=dict(environment), cwd=cwd, check=False).returncode
    except FileNotFoundError:
        raise UserError(f"'{argv[0]}' was not found.", "Install it or fix PATH.") from None


def launch(
    argv: Sequence[str], *, environment: Mapping[str, str], cwd: str | None = None, stdin: bytes = b""
) -> int | None:
    """Start a program that may outlive us (an editor, a terminal); its exit code if it ends within seconds, else None.

    Its output goes nowhere: a clipboard program stays in the background and would keep a pipe open.
    """
    import subprocess

    nowhere = subprocess.DEVNULL
    try:
        child = subprocess.Popen(
            list(argv),
            cwd=cwd,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=nowhere,
            stderr=nowhere,
            start_new_session=True,
        )
    except OSError as error:
        raise _not_started(argv, error) from None
    try:
        child.communicate(stdin, timeout=_LAUNCH_SECONDS)
    except subprocess.TimeoutExpired:
        child.returncode = 0  # it goes on without us: the interpreter must not wait for it or warn
        return None
    return child.returncode


def start_of(pid: int) -> str:
    """When a process began, as a text that tells it from a later one with the same number; empty when there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
            return "" if fields[0] in (b"Z", b"X") else fields[19].decode("ascii")  # dead, only not yet laid to rest
    except FileNotFoundError:
        if os.path.isdir("/proc/self"):
            return ""
    except (OSError, IndexError):
        return ""
    import psutil

    try:
        return str(psutil.Process(pid).create_time())
    except psutil.Error:
        return ""


def parents_of(pid: int) -> list[str]:
    """The processes above one, the nearest first, each as its number and when it began; nothing where /proc is not."""
    found: list[str] = []
    while pid > 1 and len(found) < _MOST_PARENTS:
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            pid = int(fields[1])
            found.append(f"{pid}.{start_of(pid)}")
        except (OSError, IndexError, ValueError):
            break
    return found


def words_above() -> list[list[str]]:
    """The command lines of the processes above this one, the nearest first; those of others may not be seen."""
    if os.path.isdir("/proc/self"):
        return [words for one in parents_of(os.getpid()) if (words := _words_of(one.partition(".")[0]))]
    import psutil

    found = []
    for one in psutil.Process().parents():
        try:
            found.append(one.cmdline())
        except psutil.Error:
            continue
    return found


def _words_of(pid: str) -> list[str]:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().decode("utf-8", "surrogateescape").split("\0")[:-1]
    except OSError:
        return []


def replace(argv: Sequence[str], environment: Mapping[str, str] | None = None) -> NoReturn:
    """Become another program, with the environment as it is or another one."""
    try:
        if environment is not None:
            os.execvpe(argv[0], list(argv), environment)  # noqa: S606 - a shell would only stand between
        os.execvp(argv[0], list(argv))  # noqa: S606 - the same
    except FileNotFoundError:
        raise UserError(f"'{argv[0]}' was not found.", "Install it or fix PATH.") from None
    except OSError as error:
        raise UserError(f"Cannot start {argv[0]}: {error.strerror}.") from error


def copy_of_us(work: Callable[[], int]) -> int:
    """Go on as two: the number of a child that does `work` and ends with the code it returns. Not for programs with threads."""
    pid = os.fork()
    if pid:
        return pid
    code = _FAULT
    try:
        code = work()
    finally:
        os._exit(code)


def end_group(pid: int) -> None:
    """End the process group led by `pid`, which `run` made for one child."""
    import signal

    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def own_argv(module: str = "handoff.surfaces.cli.main") -> tuple[str, ...]:
    """How a program of ours is started, also from where `handoff.pyz` unpacked itself."""
    if not os.path.exists(UNPACKED):
        return (sys.executable, "-m", module)
    return (sys.executable, "-c", _RUN_UNPACKED, SOURCES, module)


def find(name: str, *, path: str) -> str | None:
    """Where PATH finds a program, or None."""
    for folder in path.split(os.pathsep):
        candidate = os.path.join(folder or ".", name)
        if os.access(candidate, os.X_OK) and os.path.isfile(candidate):
            return candidate
    return None


def feed(argv: Sequence[str], data: bytes, *, environment: Mapping[str, str]) -> int:
    """Give a program its input and nothing else: what it leaves running in the background keeps none of our streams."""
    import subprocess

    try:
        done = subprocess.run(
            list(argv),
            env=dict(environment),
            input=data,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_FEED_SECONDS,
            check=False,
            start_new_session=True,
        )
    except (OSError, subprocess.TimeoutExpired):
        return NOT_FOUND
    return done.returncode


class Child:
    """A program we started and wait for without being held up by it; its streams are files or, for a talk, pipes."""

    def __init__(self, popen: Any) -> None:
        self._popen = popen
        self.pid: int = popen.pid
        self.talk: Any = popen.stdin
        self.heard: Any = popen.stdout

    def ended(self) -> int | None:
        """Its exit code once it is over (negative: the signal), else None."""
        code: int | None = self._popen.poll()
        return code

    def leave(self) -> None:
        """It goes on without us: the interpreter must not wait for it or warn."""
        self._popen.returncode = 0


def spawn(
    argv: Sequence[str],
    *,
    environment: Mapping[str, str],
    cwd: str | None = None,
    err: str = os.devnull,
    talk: bool = False,
    here: bool = False,
    terminal: bool = False,
    keep: Sequence[int] | None = None,
) -> Child:
    """Start a program in a session of its own, with nothing to read or print to; its errors are added to a file only we can read.

    With `talk` its input and output are pipes, for clients that are spoken to line by line; with `here` it has our
    terminal, as we have it, with `terminal` one of its own, which we hold. With `keep` it keeps these open files, and
    its errors go where its output goes.
    """
    import subprocess

    stream = None if here else subprocess.PIPE if talk else subprocess.DEVNULL
    ours = -1
    if terminal:
        ours, stream = os.openpty()
    errors = None if here or keep is not None else os.open(err, _ADDED | os.O_CLOEXEC, 0o600)
    try:
        popen = subprocess.Popen(
            list(argv),
            cwd=cwd,
            env=dict(environment),
            stdin=stream,
            stdout=stream,
            stderr=errors if keep is None else subprocess.STDOUT,
            start_new_session=not here,
            pass_fds=keep or (),
        )
    except OSError as error:
        if terminal:
            os.close(ours)
        raise _not_started(argv, error) from None
    finally:
        if errors is not None:
            os.close(errors)
        if terminal and stream is not None:
            os.close(stream)
    child = Child(popen)
    if terminal:
        child.talk, child.heard = os.fdopen(os.dup(ours), "wb", 0), os.fdopen(ours, "rb", 0)
    return child


def _not_started(argv: Sequence[str], error: OSError) -> UserError:
    return UserError(f"Cannot start {argv[0]}: {error.strerror}.", "Install it, fix PATH, or choose another.")


def detach(
    argv: Sequence[str],
    *,
    environment: Mapping[str, str],
    out: str | int = os.devnull,
    err: str | int = os.devnull,
    here: bool = False,
) -> int:
    """Start a program in a session of its own that outlives us; its number. It gets none of our streams: what it says is
    added to files only we can read, or goes into pipes. With `here` it has our terminal instead."""
    streams: list[Any] = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
    for number, place in ((1, out), (2, err)):
        file = (os.POSIX_SPAWN_OPEN, number, place, _ADDED, 0o600)
        streams.append((os.POSIX_SPAWN_DUP2, place, number) if isinstance(place, int) else file)
    try:
        return os.posix_spawnp(argv[0], list(argv), environment, file_actions=() if here else streams, setsid=not here)
    except OSError as error:
        raise _not_started(argv, error) from None


def is_running(pid: int, start: str = "") -> bool:
    """Whether that very process still works; one of ours that has ended is laid to rest."""
    try:
        if os.waitpid(pid, os.WNOHANG)[0]:
            return False
    except ChildProcessError:
        pass
    started = start_of(pid)
    return bool(started) and (not start or started == start)


def wait_for_end(pid: int, seconds: float, *, sleep: Callable[[float], None]) -> None:
    """Return when the process ends, or after `seconds`; whether it is over is for `is_running` to say."""
    try:
        fd = os.pidfd_open(pid)
    except (OSError, AttributeError):  # it is gone, or the kernel has no such handles
        sleep(min(seconds, 0.05))
        return
    try:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        poll.poll(seconds * 1000)
    finally:
        os.close(fd)
