"""What `handoff.pyz` begins with: unpack the package once into a folder of the person's, then run it from there.

Programs that handoff starts (a session's monitor, its broker, hooks of clients) need real files, and a second start is quicker with
compiled ones. `make release` writes this file into the archive as `__main__.py`, with the archive's own mark in place of the one below.
"""

from __future__ import annotations

import os
import sys

_MARK = "BUILD"
_PROGRAM = """#!/bin/sh
# The one file where it lies now, else what it unpacked.
test -r {archive} && exec {python} {archive} "$@"
exec {python} {folder} "$@"
"""


def _folder() -> str:
    """The folder for this build; a temporary one for whoever has no home that can be written."""
    base = os.environ.get("XDG_DATA_HOME") or os.path.join(os.path.expanduser("~"), ".local", "share")
    folder = os.path.join(base, "handoff", _MARK)
    try:
        if os.path.isdir(folder):
            return folder if os.stat(folder).st_uid == os.getuid() else _elsewhere()
        os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
    except OSError:
        return _elsewhere()
    return folder if os.access(os.path.dirname(folder), os.W_OK) else _elsewhere()


def _elsewhere() -> str:
    import atexit
    import shutil
    import tempfile

    folder = tempfile.mkdtemp(prefix="handoff-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return os.path.join(folder, _MARK)


def _unpacked(archive: str) -> str:
    """The folder with the package. Whoever is first unpacks beside it and renames: nobody sees half of one."""
    folder = _folder()
    if not os.path.isdir(folder):
        import shutil
        import tempfile
        import zipfile

        fresh = tempfile.mkdtemp(prefix=f"{_MARK}-", dir=os.path.dirname(folder))
        try:
            with zipfile.ZipFile(archive) as file, file.open("package.zip") as inner, zipfile.ZipFile(inner) as held:
                held.extractall(fresh)
            os.rename(fresh, folder)
        except OSError:
            shutil.rmtree(fresh, ignore_errors=True)
            if not os.path.isdir(folder):  # nobody was quicker
                raise
    _place_program(folder, archive)
    return folder


def _place_program(folder: str, archive: str) -> None:
    """What clients and sessions call. It is written again when the archive lies elsewhere, or another Python runs it."""
    path = os.path.join(folder, "bin", "handoff")
    words = {"archive": archive, "python": sys.executable, "folder": folder}
    quoted = {
        name: "'" + word.replace("'", "'\\''") + "'" for name, word in words.items()
    }  # shlex costs a tenth of a start
    wanted = _PROGRAM.format(**quoted)
    try:
        with open(path, encoding="utf-8") as file:
            if file.read() == wanted:
                return
    except OSError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    fresh = f"{path}.{os.getpid()}"
    with open(fresh, "w", encoding="utf-8") as file:
        file.write(wanted)
    os.chmod(fresh, 0o755)
    os.replace(fresh, path)


def _main() -> int:
    if sys.version_info < (3, 11):  # noqa: UP036 - nobody has asked for a version before
        sys.stderr.write(f"handoff needs Python 3.11 or newer; this is {sys.version.split()[0]}.\n")
        return 1
    here = os.path.abspath(sys.path[0])
    if not os.path.isdir(here):
        try:
            sys.path[0] = _unpacked(here)
        except OSError as error:
            sys.stderr.write(f"Error: handoff cannot unpack itself: {error}.\n")
            return 1
    from handoff.surfaces.cli.main import console

    return console()


if __name__ == "__main__":
    sys.exit(_main())
