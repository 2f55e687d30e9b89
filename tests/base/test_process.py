"""Other programs are started, read and ended."""

from __future__ import annotations

import os
import time

import psutil
import pytest

from handoff.base import process
from handoff.base.errors import UserError


def test_capture_reads_both_streams_however_much_they_say():
    done = process.capture(
        ["sh", "-c", "head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2; exit 7"], environment=dict(os.environ)
    )
    assert (done.code, len(done.out), len(done.err)) == (7, 300000, 300000)


def test_capture_gives_input_and_no_terminal():
    assert process.capture(["cat"], environment=dict(os.environ), stdin=b"x" * 200000).out == b"x" * 200000
    assert process.capture(["cat"], environment=dict(os.environ)).out == b""


def test_a_program_ended_by_a_signal_has_a_negative_code():
    assert process.capture(["sh", "-c", "kill -9 $$"], environment=dict(os.environ)).code == -9


@pytest.mark.parametrize("start", [process.capture, process.run])
def test_a_missing_program_is_an_error_with_advice(start):
    with pytest.raises(UserError, match="no-such-program"):
        start(["no-such-program"], environment=dict(os.environ))


def test_no_descriptor_is_left_open():
    before = psutil.Process().num_fds()
    for _ in range(20):
        process.capture(["true"], environment=dict(os.environ))
        with pytest.raises(UserError):
            process.capture(["no-such-program"], environment=dict(os.environ))
    assert psutil.Process().num_fds() == before


def test_when_time_is_up_the_whole_group_is_ended(tmp_path):
    done = process.run(
        ["sh", "-c", f"sleep 300 & echo $! > {tmp_path}/pid; wait"], environment=dict(os.environ), timeout=0.5
    )
    assert done.timed_out
    pid = int((tmp_path / "pid").read_text())
    # Its pipes are closed before the kernel has taken the process away, and nobody here may collect it.
    process.wait_for_end(pid, 60, sleep=time.sleep)
    assert not process.is_running(pid)


def test_feed_does_not_wait_for_what_stays_in_the_background(tmp_path):
    script = f"cat > {tmp_path}/got; sleep 5 &"
    assert process.feed(["sh", "-c", script], b"data", environment=dict(os.environ)) == 0
    assert (tmp_path / "got").read_text() == "data"
