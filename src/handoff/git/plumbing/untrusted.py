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
import stat

from handoff.base.errors import Refused, UserError
from handoff.base.files import make_folder, write_atomic
from handoff.base.light_json import dumps, loads
from handoff.base.record import TYPE_CHECKING
from handoff.base.settings import without_guard
from handoff.git.plumbing import Git, algorithm_of, looks_like_git_folder, open_source, read_plain, read_text
from handoff.git.plumbing.beneath import Beneath
from handoff.git.plumbing.refs import head

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from handoff.base.process import Completed

GIT = ".git"
PLANTED = "planted"
_KEPT = "sealed"
# Each can name programs, other settings or other objects, or change what history is.
_OBEYED = (
    "config config.worktree commondir shallow info/attributes info/grafts objects/info/alternates"
    " objects/info/http-alternates"
).split()
_HOOKS = "hooks"
# There from the start, so that they can be made read-only: each says what git believes without it. libgit2 takes "." alone
# for a path from the root, and finds no repository.
_MADE = {"commondir": "./\n", "config.worktree": "", "info/attributes": ""}
_WORKTREES, _SHARED = f"{GIT}/worktrees/", "../..\n"
FROZEN = ("config", _HOOKS, "commondir", "config.worktree", "info", "shallow", "objects/info/alternates")
_SHOWN, _LARGEST = 2000, 1 << 20
_MOST = 200
# Settings a repository may have that name no program, no file and no other repository.
_HARMLESS = frozenset(
    """core.repositoryformatversion core.filemode core.bare core.logallrefupdates core.ignorecase core.symlinks
    core.precomposeunicode core.autocrlf core.eol core.safecrlf core.longpaths core.whitespace core.sparsecheckout
    core.sparsecheckoutcone extensions.objectformat extensions.worktreeconfig user.name user.email gc.auto
    i18n.commitencoding i18n.logoutputencoding commit.gpgsign index.sparse""".split()
)
_HARMLESS_LAST = {
    "branch": ("remote", "merge", "rebase"),
    "remote": ("url", "fetch", "pushurl", "tagopt"),
    "submodule": ("url", "active"),
}


def make(folder: str) -> None:
    """Put into a new git folder what shall not be put there later."""
    make_folder(os.path.join(folder, _HOOKS))
    for name, text in _MADE.items():
        path = os.path.join(folder, name)
        if not os.path.exists(path):
            write_atomic(path, text, sync=False)


def keep(folder: str, beside: str) -> None:
    """Remember a new git folder as it is, in a place out of its session's reach."""
    make_folder(beside)
    found = {name: read_text(os.path.join(folder, name)) for name in _OBEYED if os.path.lexists(f"{folder}/{name}")}
    write_atomic(os.path.join(beside, _KEPT), dumps(found), sync=False)


def kept(beside: str) -> dict[str, str] | None:
    """The files of a git folder as it was made; None of one from before they were kept."""
    try:
        found = loads(read_text(os.path.join(beside, _KEPT)) or "null")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def put_back(top: str, beside: str, git: Git) -> None:
    """Let the git folder of a clone be as it was made, in all that git obeys; what was found instead is noted.

    No link is followed: its session may exchange folders while we are at it.
    """
    made = kept(beside)
    if made is None:
        return
    found = []
    with Beneath(top) as files:
        for name in _OBEYED:
            now, text = _now(files, f"{GIT}/{name}"), made.get(name)
            if now == text or (name == "config" and now and text and _differs_harmlessly(git, now, text)):
                continue
            found.append((f"{GIT}/{name}", _take_away(files, f"{GIT}/{name}")))
            if text is not None:
                _make_way(files, f"{GIT}/{name}")
                files.write(f"{GIT}/{name}", text.encode("utf-8", "surrogateescape"))
        found += _clear_hooks(files, GIT)
    note(beside, found)


def note(beside: str, found: list[tuple[str, str]]) -> None:
    """Write down what was planted, for the watcher to tell."""
    if not found:
        return
    path = os.path.join(beside, PLANTED)
    lines = [*read_text(path).splitlines(), *(dumps(one) for one in found)][-_MOST:]
    write_atomic(path, "".join(f"{line}\n" for line in lines))


def list_planted(beside: str) -> list[tuple[str, str]]:
    """What was found in a clone and put right: where, and what it said."""
    lines = read_text(os.path.join(beside, PLANTED)).splitlines()
    return [(str(name), str(text)) for name, text in (loads(line) for line in lines)]


def _now(files: Beneath, name: str) -> str | None:
    """What a plain file says; None where nothing is; what no such file can say where something else is."""
    try:
        facts = files.facts(name)
    except FileNotFoundError:
        return None
    except OSError:
        return "\0"
    return files.read(name).decode("utf-8", "surrogateescape") if stat.S_ISREG(facts.st_mode) else "\0"


def _differs_harmlessly(git: Git, now: str, made: str) -> bool:
    """Whether a session changed only settings that name no program: who it is, what a branch follows."""
    one, other = settings(git, now), settings(git, made)
    return bool(one) and all(is_harmless(key) for key in one.keys() | other.keys() if one.get(key) != other.get(key))


def is_harmless(key: str) -> bool:
    """Whether a setting names no program, no file and no other repository."""
    section, _, rest = key.partition(".")
    return key in _HARMLESS or rest.rpartition(".")[2] in _HARMLESS_LAST.get(section, ())


def settings(git: Git, text: str) -> dict[str, str]:
    """The settings a text holds; files it includes are not read."""
    data = text.encode("utf-8", "surrogateescape")
    found: dict[str, str] = {}
    for item in git.git("config", "--no-includes", "-z", "--list", "--file", "-", stdin=data).text.split("\0"):
        key, _, value = item.partition("\n")
        if key:
            found[key] = f"{found[key]}\n{value}" if key in found else value
    return found


def setting(key: str, value: str) -> str:
    """One setting as git's files have it."""
    section, _, rest = key.partition(".")
    middle, _, last = rest.rpartition(".")
    head = f'[{section} "{quoted(middle)}"]' if middle else f"[{section}]"
    return f'{head}\n\t{last} = "{quoted(value)}"\n'


def quoted(value: str) -> str:
    """A value between quotation marks in a file of settings."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")


def _clear_hooks(files: Beneath, folder: str) -> list[tuple[str, str]]:
    name = f"{folder}/{_HOOKS}"
    if not files.is_folder(name):
        found = [(name, _take_away(files, name))] if _now(files, name) is not None else []
        _make_way(files, f"{name}/x")
        return found
    names = sorted(one for one in files.names(name) if not one.endswith(".sample"))
    return [(f"{name}/{one}", _take_away(files, f"{name}/{one}")) for one in names]


def _take_away(files: Beneath, name: str) -> str:
    """Let nothing be under a name any more; what it said. A folder, or what lies behind one that is a link, is put aside."""
    try:
        facts = files.facts(name)
    except FileNotFoundError:
        return "(removed)"
    except OSError:  # a link or a file stands where a folder was
        _take_away(files, os.path.dirname(name))
        return "(behind another folder)"
    if stat.S_ISDIR(facts.st_mode):
        files.rename(name, f"{name}.{os.urandom(3).hex()}.{PLANTED}")
        return "(a folder)"
    linked = stat.S_ISLNK(facts.st_mode)
    text = b"(a link to " + files.link(name) + b")" if linked else files.read(name, most=_LARGEST)[:_SHOWN]
    files.remove(name)
    return text.decode("utf-8", "replace")


def _make_way(files: Beneath, name: str) -> None:
    """Let every folder above a name be one."""
    at = ""
    for part in name.split("/")[:-1]:
        at = f"{at}/{part}" if at else part
        if not files.is_folder(at):
            _take_away(files, at)
            files.make_folder(at)


# --- repositories inside the clone ---------------------------------------------------------------------------


def disarm(top: str, beside: str, git: Git) -> None:
    """Take out of every repository inside a clone what would run in it: a person's git enters them on its own."""
    found: list[tuple[str, str]] = []
    with Beneath(top) as files:
        for name in nested(top):
            if files.is_folder(name):
                found += _disarm(files, name, git)
            elif not stays_inside(top, files, name):
                found.append((name, _take_away(files, name)))
    note(beside, found)


def nested(top: str) -> list[str]:
    """Every `.git` below the clone's own, and every folder that git takes for one under another name, also inside the clone's own."""
    found, waiting = [], [top]
    while waiting:
        at = waiting.pop()
        try:
            entries = {entry.name.casefold(): entry for entry in os.scandir(at)}
        except OSError:
            continue
        if at != top and os.path.basename(at) != GIT and looks_like_git_folder(entries):
            found.append(os.path.relpath(at, top))
        if GIT in entries and at != top:
            found.append(os.path.relpath(entries[GIT].path, top))
        waiting += [entry.path for entry in entries.values() if entry.is_dir(follow_symlinks=False)]
    return found


def stays_inside(top: str, files: Beneath, name: str) -> bool:
    """Whether a `.git` that is a file or a link leads to a git folder inside the clone."""
    path = os.path.join(top, name)
    text = files.read(name, most=_LARGEST).decode("utf-8", "surrogateescape")
    where = os.path.join(os.path.dirname(path), text[len("gitdir:") :].strip()) if text else path
    return os.path.realpath(where).startswith(os.path.join(os.path.realpath(top), ""))


def _disarm(files: Beneath, folder: str, git: Git) -> list[tuple[str, str]]:
    found = []
    name = f"{folder}/config"
    text = _now(files, name)
    now = settings(git, text) if text else {}
    if text and not (now and all(is_harmless(key) for key in now)):
        found.append((name, _take_away(files, name)))
        kept_ones = ((key, value) for key, values in now.items() if is_harmless(key) for value in values.split("\n"))
        files.write(name, "".join(setting(key, value) for key, value in kept_ones).encode("utf-8", "surrogateescape"))
    for other in ("config.worktree", "commondir", "info/attributes"):
        said = _now(files, f"{folder}/{other}")
        if other == "commondir" and folder.startswith(_WORKTREES) and said == _SHARED:
            continue  # a worktree of the clone's own repository
        if said is not None and said != _MADE.get(other):
            found.append((f"{folder}/{other}", _take_away(files, f"{folder}/{other}")))
    return found + (_clear_hooks(files, folder) if _now(files, f"{folder}/{_HOOKS}") is not None else [])


def refuse_exchanged(top: str) -> None:
    """Refuse a clone whose git folder is not a folder any more: where it leads is not our way."""
    folder = os.path.join(top, GIT)
    if os.path.islink(folder) or not os.path.isdir(folder):
        raise Refused(
            f"{folder} is not the git folder the workspace was made with.",
            f"Look at it. Its snapshots are safe: handoff snapshot list --session {os.path.basename(os.path.dirname(top))}",
        )


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
    refuse_exchanged(top)
    put_back(top, beside(os.path.dirname(top)), Git("", strict(environment), ()))


def close_clone(top: str, environment: Mapping[str, str]) -> None:
    """The same, and in the repositories inside the clone too: its session is over, and a person may use git there."""
    check_clone(top, environment)
    disarm(top, beside(os.path.dirname(top)), Git("", strict(environment), ()))


def seal(top: str, config: str, environment: Mapping[str, str]) -> None:
    """The same, and the settings are exactly these: for the few calls that must work in the clone itself."""
    close_clone(top, environment)
    path = os.path.join(top, ".git", "config")
    if read_text(path) != config:
        write_atomic(path, config)


def seal_settings(top: str) -> None:
    """Close a new clone's git folder, and remember it if it is a workspace's."""
    folder = os.path.join(top, ".git")
    make(folder)
    if is_clone(top):
        keep(folder, beside(os.path.dirname(top)))


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
