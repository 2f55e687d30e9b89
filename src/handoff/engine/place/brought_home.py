"""A feature's documents and a task's clone: the session has them there, and what it wrote comes home when it is believed."""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from difflib import SequenceMatcher
from tempfile import TemporaryDirectory

from handoff.base.errors import HandoffError
from handoff.base.files import make_folder, read_bytes, write_atomic
from handoff.base.record import TYPE_CHECKING
from handoff.base.settings import PROJECT_FOLDER
from handoff.feature import plan as plans
from handoff.git.plumbing.beneath import Beneath

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from handoff.git.plumbing.snapshot_repo import SnapshotRepo
    from handoff.git.workspaces import Workspace

FEATURES = os.path.join(PROJECT_FOLDER, "features")
_COPY = "documents"
_LARGEST = 4_000_000
_COMPARED = 4000


def bring(checkout: str, workspace: Workspace, *, feature: str = "") -> None:
    """Put the person's documents into a clone, also where git does not carry them, and remember how they were.

    Those of one `feature` are brought to each session anew: what an earlier one left there, links too, is replaced.
    """
    with Beneath(workspace.tree) as inside:
        for name in _names(checkout, feature):
            data, copy = read_bytes(os.path.join(checkout, name)), os.path.join(workspace.folder, _COPY, name)
            make_folder(os.path.dirname(copy))
            write_atomic(copy, data)
            if feature or not os.path.lexists(os.path.join(workspace.tree, name)):
                inside.make_folders(os.path.dirname(name))
                inside.write(name, data)


def is_as_brought(workspace: Workspace, name: str) -> bool:
    """Whether a document of a clone is as it was put there."""
    with Beneath(workspace.tree) as inside:
        return inside.read(name, most=_LARGEST) == _read(os.path.join(workspace.folder, _COPY, name)) != b""


def plan_home(
    store: SnapshotRepo, checkout: str, workspace: Workspace, *, judged: Sequence[str] | None = None
) -> list[dict[str, str]]:
    """What a session wrote in the documents, as the person's are to have it: path, what stands there now, what is to stand there.

    Lines of both sides are kept. A plan that brings a check of its own is put beside the person's plan, under a name that says
    whose it is: a step's check is run in the person's own checkout. A flow has `judged` what it brings home, its checks too.
    """
    found = []
    with Beneath(workspace.tree) as inside:
        for name in _names(workspace.tree) if judged is None else judged:
            written = inside.read(name, most=_LARGEST)  # nothing where a link has been put
            before, now = _read(os.path.join(workspace.folder, _COPY, name)), _read(os.path.join(checkout, name))
            if not written or written in (before, now):
                continue
            target = name
            if judged is None and _checks(written) - _checks(before) - _checks(now):
                target = f"{name}.from-{workspace.name}"
                now = _read(os.path.join(checkout, target))
            elif now not in (before, b""):
                written = _joined(store, now, before, written)[0]
            texts = {"old": b64encode(now).decode(), "new": b64encode(written).decode()}
            found.append({"path": target, **texts})
    return found


def take_home(store: SnapshotRepo, checkout: str, documents: Sequence[Mapping[str, str]]) -> None:
    """Write the documents as they were planned; again after a crash nothing comes twice.

    Where the person has written there meanwhile, their lines and the session's are both kept.
    """
    for one in documents:
        path, old, new = os.path.join(checkout, one["path"]), b64decode(one["old"]), b64decode(one["new"])
        now = _read(path)
        if now == new:
            continue
        if now != old:
            joined, clean = _joined(store, now, old, new)
            # Not clean: the person wrote in the very lines. Nearer to what was planned than to what was there before, it
            # had come before they did.
            if not clean and _is_nearer(now, new, than=old):
                continue
            new = joined
        make_folder(os.path.dirname(path))
        write_atomic(path, new)


def _is_nearer(text: bytes, one: bytes, *, than: bytes) -> bool:
    """Which of two a text came from, by what follows the beginning that all have in common."""
    same = next(
        (at for at, letters in enumerate(zip(text, one, than, strict=False)) if len({*letters}) > 1),
        min(map(len, (text, one, than))),
    )
    rest, first, second = (words[same : same + _COMPARED] for words in (text, one, than))
    nearer, farther = (SequenceMatcher(None, rest, other, autojunk=False).ratio() for other in (first, second))
    return nearer > farther


def _names(top: str, feature: str = "") -> list[str]:
    """The documents below a checkout: the Markdown files of each feature, or of one."""
    folder = os.path.join(top, FEATURES)
    found = []
    for each in [feature] if feature else sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        own = os.path.join(folder, each)
        if os.path.isdir(own) and not os.path.islink(own):
            found += [os.path.join(FEATURES, each, name) for name in sorted(os.listdir(own)) if name.endswith(".md")]
    return [name for name in found if os.path.isfile(os.path.join(top, name))]


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_LARGEST)
    except OSError:
        return b""


def _checks(words: bytes) -> set[str]:
    try:
        plan = plans.parse(words.decode("utf-8", "replace"))
        return {plan.step(number).check for number in range(len(plan.marks))} - {""}
    except HandoffError:
        return set()


def _joined(store: SnapshotRepo, now: bytes, before: bytes, written: bytes) -> tuple[bytes, bool]:
    """The person's document with the session's lines added, as git joins files of which both sides are kept; whether cleanly."""
    with TemporaryDirectory(dir=store.path) as folder:
        paths = [os.path.join(folder, name) for name in ("now", "before", "written")]
        for path, words in zip(paths, (now, before, written), strict=True):
            with open(path, "wb") as file:
                file.write(words)
        clean = store.git("merge-file", "-p", "-q", *paths).code == 0
        answer = store.git("merge-file", "-p", "-q", "--union", *paths)
    return (answer.out if answer.code == 0 else now + written), clean
