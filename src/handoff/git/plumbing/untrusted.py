"""Ask git about a session's clone without believing a word of its git folder: no setting, filter or hook of it can run."""

from __future__ import annotations

import os

from handoff.base.errors import Refused
from handoff.base.files import make_folder, write_atomic
from handoff.base.process import Completed, capture
from handoff.base.record import TYPE_CHECKING
from handoff.git.plumbing.query import head, open_source, read_plain

if TYPE_CHECKING:
    from collections.abc import Mapping

RECORD = "workspace.json"
_TREE = "tree"
_STORE = "snapshots.git"
_FOLDERS = ("objects", "refs", "info")
# Filters are programs named by settings; line ends and encodings are git's own work and stay.
_ATTRIBUTES = "* -filter\n"
_CONFIG = "[core]\n\trepositoryformatversion = {version}\n\tbare = false\n{more}"
_QUIET = ("-c", f"core.hooksPath={os.devnull}", "-c", "core.fsmonitor=false", "-c", "log.showSignature=false")


def is_clone(top: str) -> bool:
    """Whether the checkout is a workspace of ours with a git folder of its own, which its session can write."""
    folder, name = os.path.split(top)
    return name == _TREE and os.path.exists(os.path.join(folder, RECORD)) and not os.path.isfile(f"{top}/.git")


def check_clone(top: str) -> None:
    """Refuse a clone whose git folder was exchanged for a way to somewhere else."""
    folder = os.path.join(top, ".git")
    if os.path.islink(folder) or not os.path.isdir(folder) or os.path.lexists(os.path.join(folder, "commondir")):
        raise Refused(
            f"{folder} is not the git folder the workspace was made with.",
            f"Look at it. Its snapshots are safe: handoff snapshots --session {os.path.basename(os.path.dirname(top))}",
        )
    _seal(top)


def _seal(top: str) -> None:
    """Settings that name other files could make our git wait at a pipe: then the ones the clone was made with come back."""
    path = os.path.join(top, ".git", "config")
    if b"[include" not in read_plain(path).lower():
        return
    saved = read_plain(config_copy(os.path.dirname(top)))
    if not saved:
        raise Refused(f"{path} includes other files.", "Take the include out; nothing was done.")
    os.replace(path, f"{path}.session")
    write_atomic(path, saved)


def config_copy(folder: str) -> str:
    """Where the settings a clone was made with are kept, out of its session's reach."""
    project, name = os.path.dirname(os.path.dirname(folder)), os.path.basename(folder)
    return os.path.join(project, _STORE, "handoff", name, "config")


def keep_config(folder: str, config: str) -> None:
    """Keep the settings of a new clone for later."""
    path = config_copy(folder)
    make_folder(os.path.dirname(path))
    write_atomic(path, config)


def git(top: str, *words: str, environment: Mapping[str, str]) -> Completed | None:
    """One question about a clone, through a git folder of ours that borrows its objects and index; None where we cannot."""
    check_clone(top)
    source = open_source(top)
    made = _make(os.path.dirname(top), source.objects)
    if not made:
        return None
    try:
        _write(made, "HEAD", head(source).commit + "\n" if head(source).commit else f"ref: {head(source).branch}\n")
        given = {
            **environment,
            "GIT_OBJECT_DIRECTORY": source.objects,
            "GIT_INDEX_FILE": source.index_file,
            "GIT_ALLOW_PROTOCOL": "none",
            "GIT_NO_LAZY_FETCH": "1",
        }
        return capture(
            ["git", "-C", top, f"--git-dir={made}", f"--work-tree={top}", *_QUIET, *words], environment=given
        )
    finally:
        _remove(made)


def _make(folder: str, objects: str) -> str:
    """A git folder for one question, beside the workspace's snapshots: out of every session's reach."""
    project, name = os.path.dirname(os.path.dirname(folder)), os.path.basename(folder)
    store = os.path.join(project, _STORE)
    made = os.path.join(store, "handoff", name, f"shadow-{os.getpid()}-{os.urandom(3).hex()}")
    try:
        with open(os.path.join(store, "config"), encoding="utf-8") as file:
            wide = "sha256" in file.read()
        for part in ("", *_FOLDERS):
            os.makedirs(os.path.join(made, part), exist_ok=True)
        more = "[extensions]\n\tobjectformat = sha256\n" if wide else ""
        _write(made, "config", _CONFIG.format(version=1 if wide else 0, more=more))
        _write(made, os.path.join("info", "attributes"), _ATTRIBUTES)
        exclude = os.path.join(os.path.dirname(objects), "info", "exclude")
        _write(made, os.path.join("info", "exclude"), _text(exclude))
    except OSError:  # inside a session's sandbox the store is not there: then it is the session itself that asks
        _remove(made)
        return ""
    return made


def _write(folder: str, name: str, text: str) -> None:
    with open(os.path.join(folder, name), "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)


def _text(path: str) -> str:
    return read_plain(path).decode("utf-8", "surrogateescape")


def _remove(folder: str) -> None:
    if os.path.isdir(folder):
        import shutil

        shutil.rmtree(folder, ignore_errors=True)
