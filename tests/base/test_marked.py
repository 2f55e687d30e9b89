"""Processes of a session: what they spend is asked of them alone."""

from __future__ import annotations

import os
import subprocess
import sys

from handoff.base.bounds import spent_below

_BUSY = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ntime.sleep(60)"


def test_what_a_family_spends_is_counted_down_to_its_grandchildren_and_nobody_else_is_opened():
    words = ["sh", "-c", f'sh -c \'"{sys.executable}" -c "{_BUSY}"; true\'; true']
    with subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True) as family:
        try:
            assert family.stdout is not None
            family.stdout.readline()
            opened = set()

            def watch(frame, event, function):
                if event == "c_call" and function is open:
                    opened.add(frame.f_locals["pid"])

            sys.setprofile(watch)
            try:
                spent = spent_below(family.pid)
            finally:
                sys.setprofile(None)
            assert spent >= 0.25
            assert len(opened) <= 3  # the machine has hundreds
        finally:
            os.killpg(family.pid, 9)
    assert spent_below(family.pid) == 0.0
