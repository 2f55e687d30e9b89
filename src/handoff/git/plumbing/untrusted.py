"""Where nobody's word counts: git without anybody's settings, and questions to a session's clone past its git folder.

A session can write all of its clone's `.git`. This keeps it from reaching us:
`distrusting` is a git in whose environment no setting, hook, filter or driver of a git folder runs a program;
`git` asks about a clone through a git folder of ours, so that its settings are not even read;
`check_clone` refuses a git folder that leads elsewhere, and puts back in it all that git obeys;
`close_clone` does so in the repositories inside it too, before a person's git comes there;
`seal` puts back all settings, for the few calls that must work in the clone itself.
"""

from __future__ import annotations

import os

from handoff.base.errors import UserError
from handoff.base.files import make_folder, write_atomic
from handoff.base.record import TYPE_CHECKING
from handoff.base.settings import without_guard
from handoff.git.plumbing import Git, algorithm_of, open_source, read_plain, read_text, sealed
from handoff.git.plumbing.refs import head

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from handoff.base.process import Completed

RECORD = "workspace.json"
_TREE = "tree"
_STORE = "snapshots.git"
# Filters are programs named by settings; line ends and encodings are git's own work and stay.
_ATTRIBUTES = b"* -filter\n"
# Nothing that a session could have planted runs when the coordinator's git looks at its folder.
_OVERRIDES = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.attributesFile": os.devnull,
    "core.excludesFile": os.devnull,
    "core.alternateRefsCommand": "true",
    "core.untrackedCache": "false",
    "core.quotePath": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "commit.gpgSign": "false",
    "protocol.ext.allow": "never",
    "log.showSignature": "false",
    "submodule.recurse": "false",
    "advice.detachedHead": "false",
    "advice.graftFileDeprecated": "false",
}
# A missing object is missing: a clone's settings may name a program to fetch it with.
_NO_FETCH = {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1"}


def strict(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for the coordinator's git in folders it does not trust: no hooks, no drivers, nobody's settings."""
    kept = {key: value for key, value in environment.items() if not key.startswith("GIT_") or key == "GIT_EXEC_PATH"}
    kept.update(
        _NO_FETCH,
        LC_ALL="C",
        GIT_TERMINAL_PROMPT="0",
        GIT_OPTIONAL_LOCKS="0",
        GIT_CONFIG_GLOBAL=os.devnull,
        GIT_CONFIG_SYSTEM=os.devnull,
        GIT_CONFIG_NOSYSTEM="1",
        GIT_ATTR_NOSYSTEM="1",
        GIT_NO_REPLACE_OBJECTS="1",
        GIT_LITERAL_PATHSPECS="1",
        GIT_GRAFT_FILE=os.devnull,
        GIT_CONFIG_COUNT=str(len(_OVERRIDES)),
    )
    for number, (key, value) in enumerate(_OVERRIDES.items()):
        kept[f"GIT_CONFIG_KEY_{number}"] = key
        kept[f"GIT_CONFIG_VALUE_{number}"] = value
    if "PATH" in kept:
        kept["PATH"] = without_guard(kept["PATH"])
    return kept


def distrusting(folder: str, environment: Mapping[str, str], top: str = "") -> Git:
    """git for a git folder whose word does not count, with `top` as its work tree."""
    return Git(top, strict(environment), (), folder=folder)


def make_git_folder(
    folder: str, algorithm: str, settings: str, *, head: str, borrow: Sequence[str] = (), sync: bool = True
) -> None:
    """A git folder of ours: exactly these settings, and the objects of other folders to read from."""
    for name in ("objects/info", "objects/pack", "refs/heads", "refs/tags", "info"):
        make_folder(os.path.join(folder, name))
    wide = algorithm == "sha256"
    config = f"[core]\n\trepositoryformatversion = {int(wide)}\n" + settings
    files = {"config": config + ("[extensions]\n\tobjectFormat = sha256\n" if wide else "")}
    if borrow:
        files["objects/info/alternates"] = "".join(f"{place}\n" for place in borrow)
    files["HEAD"] = head + "\n"  # last: without it, it is no repository yet
    for name, text in files.items():
        write_atomic(os.path.join(folder, name), text.encode("utf-8", "surrogateescape"), sync=sync)


# --- clones ---------------------------------------------------------------------------------------


def is_clone(top: str) -> bool:
    """Whether the checkout is a workspace of ours with a git folder of its own, which its session can write."""
    folder, name = os.path.split(top)
    return name == _TREE and os.path.exists(os.path.join(folder, RECORD)) and not os.path.isfile(f"{top}/.git")


def check_clone(top: str, environment: Mapping[str, str]) -> None:
    """Refuse a clone whose git folder was exchanged for another, and put back in it what a session has planted there."""
    sealed.refuse_exchanged(top)
    sealed.put_back(top, beside(os.path.dirname(top)), Git("", strict(environment), ()))


def close_clone(top: str, environment: Mapping[str, str]) -> None:
    """The same, and in the repositories inside the clone too: its session is over, and a person may use git there."""
    check_clone(top, environment)
    sealed.disarm(top, beside(os.path.dirname(top)), Git("", strict(environment), ()))


def seal(top: str, config: str, environment: Mapping[str, str]) -> None:
    """The same, and the settings are exactly these: for the few calls that must work in the clone itself."""
    close_clone(top, environment)
    path = os.path.join(top, ".git", "config")
    if read_text(path) != config:
        write_atomic(path, config)


def seal_settings(top: str) -> None:
    """Close a new clone's git folder, and remember it if it is a workspace's."""
    folder = os.path.join(top, ".git")
    sealed.make(folder)
    if is_clone(top):
        sealed.keep(folder, beside(os.path.dirname(top)))


def beside(workspace: str, *name: str) -> str:
    """A place beside a workspace's snapshots, which no session can reach."""
    project = os.path.dirname(os.path.dirname(workspace))
    return os.path.join(project, _STORE, "handoff", os.path.basename(workspace), *name)


def git(top: str, *words: str, environment: Mapping[str, str]) -> Completed | None:
    """One question about a clone, through a git folder of ours that borrows its objects and index; None where we cannot."""
    check_clone(top, environment)
    return ask_through_ours(top, *words, place=beside(os.path.dirname(top)), environment=environment)


def ask_through_ours(
    top: str, *words: str, place: str, environment: Mapping[str, str], stdin: bytes | None = None
) -> Completed | None:
    """The same about any repository that a session can write; `place` is the one beside its clone's snapshots."""
    import shutil

    source = open_source(top)
    made = os.path.join(place, f"shadow-{os.getpid()}-{os.urandom(3).hex()}")
    store = os.path.dirname(os.path.dirname(place))
    if not os.path.isfile(os.path.join(store, "config")):
        return None  # inside a session's sandbox the store is not there: then it is the session itself that asks
    try:
        try:
            stands = head(source)
            start = stands.commit or f"ref: {stands.ref}"
            make_git_folder(made, algorithm_of(store), "\tbare = false\n", head=start, sync=False)
            exclude = read_plain(os.path.join(source.common, "info", "exclude"))
            for name, data in (("attributes", _ATTRIBUTES), ("exclude", exclude)):
                write_atomic(os.path.join(made, "info", name), data, sync=False)
        except UserError:  # or it cannot be written there
            return None
        shadow = Git(top, {**environment, **_NO_FETCH}, folder=made)
        return shadow.git(*words, stdin=stdin, objects=source.objects, index=source.index_file)
    finally:
        shutil.rmtree(made, ignore_errors=True)
