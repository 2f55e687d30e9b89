"""How fast a safe commit is, beside bare git on the same repository in the same run. Ratios count, not milliseconds."""

from __future__ import annotations

import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

QUICK = bool(os.environ.get("HANDOFF_BENCH_QUICK"))
SMALL, LARGE = 1_000, 50_000
PROCESSES = 8
_FEWEST, _LONGEST_SECONDS = 5, 6.0
_PERSON = {
    "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_AUTHOR_NAME": "B", "GIT_AUTHOR_EMAIL": "b@x.invalid",
    "GIT_COMMITTER_NAME": "B", "GIT_COMMITTER_EMAIL": "b@x.invalid",
}  # fmt: skip

WORKER = """
import os, sys, time
from handoff.git.commits.commit import CommitOptions, Repository, commit
top, number, count, refresh = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "refresh"
repo = Repository(top, dict(os.environ))
sys.stdout.write("ready\\n"); sys.stdout.flush(); sys.stdin.readline()
failed = 0
for turn in range(count):
    name = f"d{(int(number) * 7 + turn) % 50}/own_{number}_{turn % 5}.txt"
    with open(os.path.join(top, name), "w") as file:
        file.write(f"{number} {turn} {time.time_ns()}")
    try:
        commit(repo, [name], f"w{number} {turn}", environment=repo.environment, now=time.time(), options=CommitOptions(refresh=refresh))
    except Exception as error:  # noqa: BLE001 - SQLite says so in its own class, which tests do not import
        failed += 1
        sys.stderr.write(f"{error}\\n")
sys.stdout.write(f"{failed}\\n")
"""


def _environment() -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("GIT_", "HANDOFF_"))}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)  # a person has the compiled files
    return {**kept, **_PERSON}


def _git(top: str, *words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=top, env=_environment(), check=True, capture_output=True, text=True
    ).stdout


def make(folder: str, files: int) -> str:
    """A repository of `files` small files in folders of equal size."""
    top = os.path.join(folder, f"repo-{files}")
    os.makedirs(top)
    _git(top, "init", "-q", "-b", "main")
    _git(top, "config", "gc.auto", "0")
    folders = max(50, files // 100)
    for number in range(files):
        place = os.path.join(top, f"d{number % folders}")
        if number < folders:
            os.makedirs(place)
        with open(os.path.join(place, f"f{number}.txt"), "w", encoding="utf-8") as file:
            file.write(f"{number}\n")
    _git(top, "add", "-A")
    _git(top, "commit", "-qm", "all")
    return top


def bare_loop(top: str, count: int) -> float:
    """Commits per second of `git add` and `git commit`, one after the other; not longer than needed."""
    environment = _environment()
    begin = time.perf_counter()
    for turn in range(count):
        if turn >= _FEWEST and time.perf_counter() - begin > _LONGEST_SECONDS:
            return turn / (time.perf_counter() - begin)
        name = f"d{turn % 50}/bare_{turn % 5}.txt"
        with open(os.path.join(top, name), "w", encoding="utf-8") as file:
            file.write(f"{turn} {time.time_ns()}")
        for words in (["add", "--", name], ["commit", "-q", "-m", f"bare {turn}"]):
            subprocess.run(["git", *words], cwd=top, env=environment, check=True, capture_output=True)
    return count / (time.perf_counter() - begin)


def library(top: str, processes: int, count: int, *, refresh: bool) -> tuple[float, int, int]:
    """Commits per second of the library call by several processes at once; how many failed, how many held foreign paths."""
    before = _git(top, "rev-parse", "HEAD").strip()
    word = "refresh" if refresh else "keep"
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, top, str(number), str(count), word],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_environment(), text=True,
        )
        for number in range(processes)
    ]  # fmt: skip
    for worker in workers:
        worker.stdout.readline()
    begin = time.perf_counter()
    for worker in workers:
        worker.stdin.write("go\n")
        worker.stdin.flush()
    failed = sum(int(worker.communicate()[0]) for worker in workers)
    rate = processes * count / (time.perf_counter() - begin)
    foreign, landed = _foreign(top, before)
    return rate, failed + (processes * count - failed - landed), foreign


def _foreign(top: str, before: str) -> tuple[int, int]:
    log = _git(top, "log", "--format=%x00%s", "--name-only", f"{before}..HEAD").split("\0")[1:]
    wrong = 0
    for one in log:
        subject, *paths = [line for line in one.split("\n") if line]
        number = subject.split(" ")[0][1:]
        wrong += any(not path.rsplit("/", 1)[1].startswith(f"own_{number}_") for path in paths) or len(paths) != 1
    return wrong, len(log)


def _interleaved(one, two, rounds: int) -> float:
    """The ratio of two durations, measured in turns: the median of the rounds."""
    return statistics.median(one() / two() for _ in range(rounds))


def _seconds(run) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def command_line(top: str, rounds: int) -> float:
    """`handoff safe-commit` against `git add` + `git commit`."""
    program = os.path.join(os.path.dirname(sys.executable), "handoff")
    environment = {**_environment(), "HANDOFF_HOME": os.path.join(top, "..", "home")}

    def write(name: str) -> None:
        with open(os.path.join(top, name), "w", encoding="utf-8") as file:
            file.write(str(time.time_ns()))

    def ours() -> float:
        write("d1/cli.txt")
        words = [program, "safe-commit", "-m", "x", "--", "d1/cli.txt"]
        return _seconds(lambda: subprocess.run(words, cwd=top, env=environment, check=True, capture_output=True))

    def bare() -> float:
        write("d1/bare-cli.txt")

        def run() -> None:
            for words in (["git", "add", "--", "d1/bare-cli.txt"], ["git", "commit", "-q", "-m", "x"]):
                subprocess.run(words, cwd=top, env=environment, check=True, capture_output=True)

        return _seconds(run)

    ours(), bare()
    return _interleaved(ours, bare, rounds)


def shim(top: str, rounds: int) -> float:
    """`git status` through the guard's shim against bare git."""
    from handoff.git.guard import shim_folder

    plain = _environment()
    guarded = {**plain, "PATH": shim_folder() + os.pathsep + plain["PATH"], "HANDOFF_ROLE": "main"}
    through = os.path.join(shim_folder(), "git")

    def timed(program: str, environment: dict[str, str]):
        words = [program, "status", "--short"]
        return lambda: _seconds(
            lambda: subprocess.run(words, cwd=top, env=environment, check=True, capture_output=True)
        )

    return _interleaved(timed(through, guarded), timed(shutil.which("git"), plain), rounds)


def rows(*, quick: bool = QUICK) -> list[tuple[str, str, str]]:
    """What, figure, and what was asked of it."""
    found = []
    with tempfile.TemporaryDirectory(prefix="handoff-bench-") as folder:
        for files, least, limit in ((SMALL, 2.0, 6.0), (LARGE, 20.0, 2.0)):
            size = min(files, 10_000) if quick else files
            top = make(folder, size)
            turns = (40 if quick else 150) if files == SMALL else (6 if quick else 20)
            bare = bare_loop(top, turns)
            one = library(top, 1, 40 if quick else 200, refresh=False)
            many = library(top, PROCESSES, 10 if quick else 40, refresh=False)
            bare = (bare + bare_loop(top, turns)) / 2
            _git(top, "reset", "-q")  # the library left the index alone
            shared = library(top, 1, max(6, turns // 2), refresh=True)
            crowd = library(top, PROCESSES, max(2, turns // 8), refresh=True)
            cli = command_line(top, 5 if quick else 9)
            what = f"safe commit, {size} files"
            bad = sum(done[1] + done[2] for done in (one, many, shared, crowd))
            found += [
                (f"{what}: library, 1 process, against a bare loop", f"{one[0] / bare:.1f}x", f"at least {least:g}x"),
                (f"{what}: library, {PROCESSES} processes", f"{many[0] / bare:.1f}x", f"at least {least:g}x"),
                (f"{what}: in the person's checkout", f"{shared[0] / bare:.2f}x", "at least 0.8x"),
                (f"{what}: in the person's checkout, {PROCESSES} processes", f"{crowd[0] / bare:.2f}x", ""),
                (f"{what}: command line, time of a bare commit", f"{cli:.1f}x", f"at most {limit:g}x"),
                (f"{what}: failures and foreign paths", f"{bad}", "none"),
            ]
            if files == SMALL:
                with contextlib.suppress(ImportError):  # a tree without the guard
                    found.append(
                        (
                            "git status through the shim, time of bare git",
                            f"{shim(top, 15 if quick else 41):.2f}x",
                            "at most 1.5x",
                        )
                    )
    return found


if __name__ == "__main__":
    for what, figure, note in rows(quick=QUICK or "--quick" in sys.argv):
        print(f"{what:72} {figure:>8}  {note}")
