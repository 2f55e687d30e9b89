"""Files are whole or not there, and edited by one at a time."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading

import pytest

from handoff.base import files
from handoff.base.errors import Conflict, UserError

WRITER = """
import sys
from handoff.base import files
n = 0
while True:
    n += 1
    files.write_atomic(sys.argv[1], (f"{n:08d} " * 2000) + "end")
"""


def test_a_writer_killed_at_any_moment_leaves_a_whole_file(tmp_path):
    path = tmp_path / "file"
    files.write_atomic(str(path), "00000000 " * 2000 + "end")
    for round_number in range(12):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)])
        begin = path.read_text()
        while path.read_text() == begin:
            assert writer.poll() is None
        for _ in range(round_number * 7):
            text = path.read_text()
            assert text.endswith("end")
            assert len(set(text.split()[:-1])) == 1
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        assert path.read_text().endswith("end")


def test_only_one_of_many_creates_a_file(tmp_path):
    path = str(tmp_path / "file")
    won = []
    threads = [
        threading.Thread(target=lambda n=n: won.append(n) if files.create_exclusive(path, f"{n}") else None)
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert files.read_text(path) == str(won[0])
    assert os.listdir(tmp_path) == ["file"]


def test_a_full_disk_leaves_the_old_file_and_no_litter(tmp_path):
    path = str(tmp_path / "file")
    files.write_atomic(path, "old")
    code = f"""
import resource, signal
from handoff.base import files
from handoff.base.errors import UserError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))
try:
    files.write_atomic({path!r}, "x" * 1000)
except UserError as error:
    print(error.message)
"""
    assert resource.RLIMIT_FSIZE is not None
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.startswith("Cannot write ")
    assert files.read_text(path) == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_lock_held_by_another_process_is_waited_for_and_then_refused(tmp_path):
    path = str(tmp_path / "lock")
    code = f"""
import sys
from handoff.base import files
with files.locked({path!r}, what="it"):
    print("held", flush=True)
    sys.stdin.read()
"""
    holder = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    with pytest.raises(Conflict, match="Another process"), files.locked(path, what="it", patience=0.1):
        pass
    holder.kill()
    holder.communicate()
    with files.locked(path, what="it", patience=5):
        pass


def test_text_that_is_not_utf8_is_named_by_its_line(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"one\ntwo \xff\n")
    with pytest.raises(UserError, match=r"line 2 is not UTF-8 \(byte 0xff\)"):
        files.read_text(str(path))


def test_what_is_missing_above_a_closed_folder_is_closed_too_and_an_open_one_is_as_open_as_the_person_says(tmp_path):
    before = os.umask(0o002)
    try:
        for mode, above in ((0o700, 0o700), (0o755, 0o775)):
            path = tmp_path / oct(mode) / "above" / "folder"
            files.make_folder(str(path), mode=mode)
            assert [one.stat().st_mode & 0o777 for one in (path, *path.parents[:2])] == [mode, above, above]
    finally:
        os.umask(before)
