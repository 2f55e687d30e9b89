"""A relay whose home is full in the middle of a phase: `full_disk.py FOLDER REPOSITORY`, with a small disk at the home."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys

from relay_ground import Ground


def fill(path: str) -> None:
    """Until not one byte more fits."""
    with open(path, "ab", buffering=0) as file:
        for size in (1 << 16, 1):
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"x" * size)


def dump(repo: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "handoff.surfaces.cli.main", "dump", *words], cwd=repo, capture_output=True, text=True,
        check=False,
    )  # fmt: skip


def main(folder: str, repo: str) -> None:
    ground = Ground(folder, repo)
    filler = os.path.join(ground.app.settings.home, "filler")
    try:
        ground.add("long", {"run": f"while ! test -e {folder}/go; do sleep 0.1; done"})
        supervisor = ground.supervisor()
        ground.until(lambda: ground.started("long"), "the agent works")
        fill(filler)
        refused = dump(repo, "--task", "more", "--next", "x" * 20_000)
        assert refused.returncode == 1, refused
        assert "full" in refused.stderr, refused.stderr
        assert "Traceback" not in refused.stderr, refused.stderr
        with open(os.path.join(folder, "go"), "w", encoding="utf-8"):
            pass
        ground.until_seen(lambda: any(line.startswith("end long") for line in ground.trace_lines()), "it ended")
        ground.clock.sleep(3.0)  # monitor, run and supervisor meet the full disk
        assert supervisor.poll() is None, ground.logs()
        assert ground.states() == {"long": "running"}, "nothing is decided without room to write it down"
        os.unlink(filler)
        ground.until(ground.done, "it goes on")
        ground.until(lambda: not ground.agents(), "no agent is left")
        task = ground.tasks()["long"]
        print(task.state, task.attempt, task.fence, ground.started("long"), ground.count("task.finished"))
        assert dump(repo, "--task", "more", "--next", "x").returncode == 0
    finally:
        ground.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
