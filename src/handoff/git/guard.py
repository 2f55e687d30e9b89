"""The guard: a shim before git on a session's PATH, and hooks in the repository that `--no-verify` does not skip."""

from __future__ import annotations

import os

from handoff.base.errors import UserError
from handoff.base.files import make_folder, read_bytes, write_atomic
from handoff.base.record import TYPE_CHECKING, Record
from handoff.base.settings import GUARD_MARK as _MARKER
from handoff.base.settings import without_guard
from handoff.git.commits.hooks import CHAIN, is_guard
from handoff.git.plumbing import read_plain

if TYPE_CHECKING:
    from handoff.git.plumbing.objects import Repository

HOOKS = ("reference-transaction", "pre-commit", "pre-push")
ROLES = ("sub-task", "fan-in", "main")
# Every hook a person may have: where core.hooksPath is set, git runs these from our folder, which hands them on.
_CLIENT_HOOKS = (
    "applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit prepare-commit-msg commit-msg post-commit"
    " pre-rebase post-checkout post-merge pre-push pre-receive update proc-receive post-receive post-update"
    " reference-transaction push-to-checkout pre-auto-gc post-rewrite sendemail-validate fsmonitor-watchman"
    " p4-changelist p4-prepare-changelist p4-post-changelist p4-pre-submit post-index-change"
).split()
_SETTING = "core.hooksPath"
_SAVED = "handoff.hooksPathBefore"
GUARD_LOG = "refused.log"
_LEAST_FIELDS = 4


class Refusal(Record):
    """One line of the guard log: who was refused what where, by which guard, and what to do instead."""

    moment: str
    role: str
    verb: str
    place: str
    session: str = ""
    project: str = ""
    layer: str = ""
    instead: str = ""


def read_refusal(line: str) -> Refusal | None:
    """A line of the guard log; None for one that is none."""
    fields = line.split("\t")
    if len(fields) < _LEAST_FIELDS:
        return None
    return Refusal(*fields[: len(Refusal._fields)])


def note_refusal(home: str, refusal: Refusal) -> None:
    """Append one line for the next command that has time to tell it; a guard that cannot is still a guard."""
    folder = os.path.join(home, "guard")
    fields = [" ".join(field.split()) for field in refusal]
    try:
        os.makedirs(folder, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(os.path.join(folder, GUARD_LOG), flags, 0o600)
        try:
            os.write(fd, ("\t".join(fields) + "\n").encode("utf-8", "backslashreplace"))
        finally:
            os.close(fd)
    except OSError:
        return


class GuardState(Record):
    """What of the guard is there, in one repository and on one PATH."""

    folder: str
    hooks: dict[str, str]  # name: installed, chained, foreign, absent
    redirected: str  # the person's own core.hooksPath, if ours stands in for it
    shim_first: bool
    real_git: str
    refused: tuple[str, ...]


def shim_folder() -> str:
    """The folder of this package that holds the shim."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "shim")


# --- the shim -------------------------------------------------------------------------------------


def place_shim(home: str, role: str) -> str:
    """A folder for PATH whose name is the role; a copy, so that it outlives an upgrade. Returns the folder."""
    if role not in ROLES:
        raise UserError(f"There is no role '{role}'.", f"Roles: {', '.join(ROLES)}.")
    folder = os.path.join(home, "guard", role)
    make_folder(folder)
    content = read_bytes(os.path.join(shim_folder(), "git"))
    target = os.path.join(folder, "git")
    if read_plain(target) != content or not os.access(target, os.X_OK):
        write_atomic(target, content, mode=0o755)
    marker = os.path.join(folder, _MARKER)
    if not os.path.exists(marker):
        write_atomic(marker, b"")
    return folder


def session_environment(home: str, role: str, path: str, *, shared: str = "", program: str = "") -> dict[str, str]:
    """What a session's environment needs so that its git is the guarded one."""
    folder = place_shim(home, role)
    found = {"HANDOFF_ROLE": role, "PATH": os.pathsep.join([folder, without_guard(path)])}
    if shared:
        found["HANDOFF_SHARED"] = shared
    if program:
        found["HANDOFF_PROGRAM"] = program
    return found


def real_git(path: str) -> str:
    """The git the shim hands on to: the next one on PATH."""
    for part in path.split(os.pathsep):
        candidate = os.path.join(part or ".", "git")
        if os.access(candidate, os.X_OK) and os.path.isfile(candidate):
            if os.path.exists(os.path.join(part or ".", _MARKER)):
                continue
            return candidate
    return ""


# --- the hooks ------------------------------------------------------------------------------------


def install(repo: Repository) -> list[str]:
    """Put the hooks in; a hook that is there goes on working behind ours. Doing it twice changes nothing."""
    chosen = repo.settings.get(_SETTING.lower())
    if chosen and not _redirected(repo):
        return _redirect(repo, chosen)
    make_folder(_folder(repo))
    names = _CLIENT_HOOKS if _redirected(repo) else HOOKS
    return [name for name in names if _put(_folder(repo), name)]


def _put(folder: str, name: str) -> bool:
    """One hook; True if something changed."""
    target = os.path.join(folder, name)
    content = read_bytes(os.path.join(shim_folder(), "hook"))
    if os.path.lexists(target) and not is_guard(target):
        chain = os.path.join(folder, CHAIN)
        make_folder(chain)
        if os.path.lexists(os.path.join(chain, name)):
            raise UserError(
                f"{target} was replaced after the guard had been installed, and the older one is kept in {chain}.",
                f"Decide which one stays, remove the other, and install again: {os.path.join(chain, name)}",
            )
        _keep(target, os.path.join(chain, name))
    if read_plain(target) == content and os.access(target, os.X_OK):
        return False
    write_atomic(target, content, mode=0o755)
    return True


def _keep(source: str, target: str) -> None:
    """A second name for the person's hook before ours takes the first: at no moment is it in neither place.

    A link to a file is kept as that link, made absolute so that it still leads there.
    """
    if os.path.islink(source):
        os.symlink(os.path.join(os.path.dirname(source), os.readlink(source)), target)
        write_atomic(target + ".link", os.fsencode(os.readlink(source)))
    else:
        os.link(source, target)


def _redirect(repo: Repository, chosen: str) -> list[str]:
    """core.hooksPath may name tracked files: ours stands beside it and hands every hook on."""
    folder = _ours(repo)
    original = os.path.join(repo.top, os.path.expanduser(chosen))
    make_folder(folder)
    link = os.path.join(folder, CHAIN)
    if os.path.islink(link):
        os.unlink(link)
    os.symlink(original, link)
    for name in _CLIENT_HOOKS:
        _put(folder, name)
    local = repo.git("config", "--local", "--get", _SETTING)
    repo.ask("config", "--local", _SAVED, local.text.rstrip("\n") if local.code == 0 else "")
    repo.ask("config", "--local", _SETTING, folder)
    return list(_CLIENT_HOOKS)


def _ours(repo: Repository) -> str:
    return os.path.join(repo.common, "handoff", "hooks")


def _folder(repo: Repository) -> str:
    """Where git looks for our hooks."""
    return _ours(repo) if _redirected(repo) else os.path.join(repo.common, "hooks")


def place_of_hooks(repo: Repository) -> str:
    """Where `install` puts the hooks: beside a folder of the person's own, where git is told of one."""
    return _ours(repo) if repo.settings.get(_SETTING.lower()) else os.path.join(repo.common, "hooks")


def _redirected(repo: Repository) -> bool:
    return repo.settings.get(_SETTING.lower()) == _ours(repo)


def uninstall(repo: Repository) -> list[str]:
    """Take the hooks out and put back exactly what was there."""
    if _redirected(repo):
        before = repo.git("config", "--local", "--get", _SAVED).text.rstrip("\n")
        if before:
            repo.ask("config", "--local", _SETTING, before)
        else:
            repo.ask("config", "--local", "--unset", _SETTING)
        repo.git("config", "--local", "--unset", _SAVED)
        if not repo.git("config", "--local", "--get-regexp", r"^handoff\.").out:
            repo.git("config", "--local", "--remove-section", "handoff")
        for name in os.listdir(_ours(repo)):
            os.unlink(os.path.join(_ours(repo), name))
        os.rmdir(_ours(repo))
        return list(HOOKS)
    folder = os.path.join(repo.common, "hooks")
    changed = [name for name in HOOKS if _take_out(folder, name)]
    chain = os.path.join(folder, CHAIN)
    if os.path.isdir(chain) and not os.listdir(chain):
        os.rmdir(chain)
    return changed


def _take_out(folder: str, name: str) -> bool:
    target = os.path.join(folder, name)
    kept = os.path.join(folder, CHAIN, name)
    if not is_guard(target):
        return False  # somebody put another hook there since: it stays
    if os.path.exists(kept + ".link"):
        os.unlink(target)
        os.symlink(os.fsdecode(read_bytes(kept + ".link")), target)
        os.unlink(kept)
        os.unlink(kept + ".link")
    elif os.path.lexists(kept):
        os.rename(kept, target)
    else:
        os.unlink(target)
    return True


# --- what is there --------------------------------------------------------------------------------


def look(repo: Repository, *, home: str, path: str) -> GuardState:
    """Which layers stand."""
    folder, hooks = _folder(repo), {}
    for name in HOOKS:
        target = os.path.join(folder, name)
        if is_guard(target):
            hooks[name] = "chained" if os.access(os.path.join(folder, CHAIN, name), os.X_OK) else "installed"
        else:
            hooks[name] = "foreign" if os.path.exists(target) else "absent"
    first = next((part for part in path.split(os.pathsep) if os.access(os.path.join(part or ".", "git"), os.X_OK)), "")
    log = read_plain(os.path.join(home, "guard", GUARD_LOG)).decode("utf-8", "replace")
    before = repo.settings.get(_SAVED.lower()) if _redirected(repo) else ""
    return GuardState(
        folder=folder,
        hooks=hooks,
        redirected=before,
        shim_first=os.path.exists(os.path.join(first, _MARKER)),
        real_git=real_git(path),
        refused=tuple(log.splitlines()),
    )
