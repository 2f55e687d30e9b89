"""The monitor alone: whatever a client starts and however it ends, nothing of it is left and the end is written down."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from sandbox import absent
from scripts import DETACHED, processes_with

ABUSES = {
    "child": "sleep {mark} {away}",
    "own session": "setsid sleep {mark} {away}",
    "orphan": "(setsid sh -c 'sleep {mark} & exit 0' {away})",
    "bare environment": "setsid env -i sleep {mark} {away}",
    "deaf": "setsid sh -c 'trap \"\" TERM INT HUP; while :; do sleep {mark}; done' {away}",
    "family": "for i in 1 2 3 4 5; do setsid sh -c 'sleep {mark} & sleep {mark}' {away} done",
    "late": "setsid sh -c 'sleep 0.2; setsid env -i sleep {mark}' {away}",
    "crash": "setsid sleep {mark} {away} kill -9 $$",
    "stopped": "setsid sh -c 'kill -STOP $$; sleep {mark}' {away}",
    "no hangup": "nohup sleep {mark} {away}",
    "double fork": "{python} -c 'import os, time; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0); time.sleep(600)' {away} sleep 0.2",
    "disguise": "setsid env -i bash -c 'exec -a \"[kworker/0:1]\" sleep {mark}' {away} sleep 0.2",
    "pid namespace": "setsid unshare {user} --pid --fork env -i sleep {mark} {away} sleep 0.3",
    "hopping": "env -i {python} -SEc '{hops}' {away} sleep 0.2",  # a new process a hundred times before it settles
    "chain": "setsid sh -c 'setsid sh -c \"setsid env -i sleep {mark} &\" &' {away}",
}

HOPS = """import os, time
os.setsid(); end = time.monotonic() + 0.6
while time.monotonic() < end:
    if os.fork(): os._exit(0)
time.sleep(600)"""


def _user() -> str:
    return "" if os.getuid() == 0 else "--user --map-root-user"


def holding(path: str) -> list[int]:
    """The processes that have this very file open."""
    found = []
    for name in os.listdir("/proc"):
        try:
            inside = os.listdir(f"/proc/{name}/fd") if name.isdigit() else []
            if path in [os.readlink(f"/proc/{name}/fd/{fd}") for fd in inside]:
                found.append(int(name))
        except OSError:
            continue
    return found


def test_the_watch_for_survivors_sees_one_under_any_name(tmp_path):
    witness = str(tmp_path / "witness")
    child = subprocess.Popen(["bash", "-c", f"exec 9>{witness}; exec -a innocent env -i sleep 60"])
    try:
        while not holding(witness):
            assert child.poll() is None
        assert holding(witness) == [child.pid]
    finally:
        child.kill()
        child.wait()


def start_monitor(folder: str, line: str, **order) -> subprocess.Popen[bytes]:
    os.makedirs(folder)
    with open(os.path.join(folder, "launch.json"), "w", encoding="utf-8") as file:
        json.dump({"argv": ["/bin/sh", "-c", line], "cwd": folder, **order}, file)
    environment = {**os.environ, "HANDOFF_SESSION": os.path.basename(folder)}
    return subprocess.Popen([sys.executable, "-m", "handoff.agents.monitor", folder], env=environment)


@pytest.mark.slow
@pytest.mark.parametrize("abuse", ABUSES)
def test_nothing_survives_in_fifty_abusive_runs(tmp_path, abuse):
    if (
        abuse == "pid namespace"
        and subprocess.run(
            ["unshare", *_user().split(), "--pid", "--fork", "true"], capture_output=True, check=False
        ).returncode
    ):
        absent("the right to make process namespaces")
    number, runs = list(ABUSES).index(abuse), []
    for turn in range(4):  # side by side: what is deaf is given its seconds of grace in each of them
        mark = f"700.{os.getpid()}{turn}{number}"
        witness = str(tmp_path / f"witness-{turn}")  # open in everything the client starts, whatever it calls itself
        line = ABUSES[abuse].format(mark=mark, away=DETACHED, python=sys.executable, user=_user(), hops=HOPS)
        folder = str(tmp_path / f"session-{os.getpid()}-{number}-{turn}")
        runs.append((start_monitor(folder, f"exec 9>{witness}; {line}"), mark, witness, folder))
    assert [monitor.wait(60) for monitor, *_ in runs] == [0] * 4
    for _, mark, witness, folder in runs:
        with open(os.path.join(folder, "exit.json"), encoding="utf-8") as file:
            told = json.load(file)
        assert processes_with(mark) == []
        assert holding(witness) == []
        assert told["stragglers"] >= 1, "there was something to survive"
        assert told["code"] == (-9 if abuse == "crash" else 0)


def test_a_monitor_that_is_told_to_stop_ends_a_deaf_client(tmp_path):
    mark = f"701.{os.getpid()}"
    folder = str(tmp_path / "session-deaf")
    os.makedirs(folder)
    ready = os.path.join(folder, "ready")
    line = f"trap '' TERM INT HUP; touch {ready}; while :; do sleep {mark}; done"
    with open(os.path.join(folder, "launch.json"), "w", encoding="utf-8") as file:
        json.dump({"argv": ["/bin/sh", "-c", line], "cwd": folder}, file)
    monitor = subprocess.Popen(
        [sys.executable, "-m", "handoff.agents.monitor", folder], env={**os.environ, "HANDOFF_SESSION": "session-deaf"}
    )
    while not os.path.exists(ready):
        assert monitor.poll() is None
    monitor.send_signal(signal.SIGTERM)
    assert monitor.wait(60) == 0
    assert processes_with(mark) == []
    with open(os.path.join(folder, "exit.json"), encoding="utf-8") as file:
        told = json.load(file)
    assert told["stopped"]
    assert told["code"] == -9


def test_a_client_that_cannot_be_started_is_told(tmp_path):
    folder = str(tmp_path / "session-none")
    os.makedirs(folder)
    with open(os.path.join(folder, "launch.json"), "w", encoding="utf-8") as file:
        json.dump({"argv": ["/no/such/program"], "cwd": folder}, file)
    assert subprocess.run([sys.executable, "-m", "handoff.agents.monitor", folder], check=False).returncode == 1
    with open(os.path.join(folder, "exit.json"), encoding="utf-8") as file:
        told = json.load(file)
    assert told["code"] == 127
    assert "/no/such/program" in told["error"]


@pytest.mark.parametrize(
    ("printed", "most"), [(20, 1), pytest.param(300, 64, marks=pytest.mark.slow)], ids=["twenty", "three hundred"]
)
def test_of_more_output_than_is_kept_the_beginning_and_the_end_are_there_and_it_is_said(tmp_path, printed, most):
    folder, line = str(tmp_path / f"session-loud-{os.getpid()}-{printed}"), "x" * 1000
    loud = f"import sys; [sys.stdout.write(f'{{n:07}} {line}\\n') for n in range({printed} * 1000)]"
    monitor = start_monitor(
        folder, f'{sys.executable} -c "{loud}"; echo the last line; echo trouble >&2', most=most << 20
    )
    assert monitor.wait(500) == 0
    path = os.path.join(folder, "events.jsonl")
    assert (most << 19) < os.path.getsize(path) <= (most << 20) + 10_000
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    assert lines[0].startswith("0000000 x")
    assert lines[-1] == "the last line"
    assert lines[-2].startswith(f"{printed * 1000 - 1:07} x")
    told = [one for one in lines if not one.endswith("x")][:-1]
    assert told
    assert all(one.startswith("[handoff: ") and "bytes are left out here" in one for one in told)
    left_out = int(told[-1].split()[1])
    assert left_out + sum(len(one) + 1 for one in lines if one not in told) == printed * 1000 * 1009 + len(
        "the last line\n"
    )
    with open(os.path.join(folder, "errors.log"), encoding="utf-8") as file:
        assert file.read() == "trouble\n"
