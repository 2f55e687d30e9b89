"""What lies beside a database that is empty or damaged: the tasks' documents, and the backups that really exist."""

from __future__ import annotations

import os
import shlex
import shutil

from handoff.base.errors import UserError
from handoff.base.files import locked, names_in, sync_folder

_SHOWN = 3


DAILY = "daily-"
_BESIDE = ("", "-wal", "-shm", "-journal")


def backups(place: str, kind: str = "") -> list[str]:
    """The backups of a database file, or those of one kind, newest first."""
    folder, name = os.path.split(place)
    found = [os.path.join(folder, one) for one in names_in(folder) if one.startswith(f"{name}.backup-{kind}")]
    whole = [one for one in found if not one.endswith(".tmp") and os.path.getsize(one)]
    return sorted(whole, key=os.path.getmtime, reverse=True)


_NO_BACKUP = "There is no backup beside it. "


def restore(place: str, moment: str) -> tuple[str, str]:
    """Put the newest backup in the place of a database file; which it was, and where the old file lies now."""
    there = backups(place)
    if not there:
        raise UserError(f"There is no backup beside {place}.", way_back(place).removeprefix(_NO_BACKUP))
    aside = f"{place}.damaged-{moment}"
    temp = f"{place}.{os.getpid()}.restored"
    shutil.copyfile(there[0], temp)
    os.chmod(temp, 0o600)
    with locked(f"{place}.lock", what="the database"):
        for end in _BESIDE:  # a log of the old file would be read into the new one
            if os.path.lexists(place + end):
                os.rename(place + end, aside + end)
        os.rename(temp, place)
    sync_folder(os.path.dirname(place) or ".")
    return there[0], aside


def documents(place: str) -> list[str]:
    """The documents of live tasks in the projects beside the database, as `project/queue/task.md`."""
    home = os.path.dirname(place)
    found = []
    for project in names_in(home):
        queue = os.path.join(home, project, "queue")
        found += [f"{project}/queue/{name}" for name in names_in(queue) if name.endswith(".md")]
    return found


def way_back(place: str) -> str:
    """What to do about a database that cannot be used, naming only what is there."""
    there = backups(place)
    if there:
        return f"Stop what works with it (handoff work --stop), then put the newest backup, {there[0]}, in its place: handoff database restore"
    home = os.path.dirname(place)
    projects = dict.fromkeys(one.partition("/")[0] for one in documents(place))
    queues = " ".join(shlex.quote(os.path.join(home, one, "queue")) for one in projects)
    words = f"{_NO_BACKUP}Bring it back from one of your own"
    if queues:
        return f"{words}, or begin anew: move the documents away ({queues}) and write the tasks down again from them."
    return f"{words}, or move it away and begin anew."


def refuse_wiped(place: str) -> None:
    """Refuse to take an empty file for a new database where there was one before."""
    found, there = documents(place), backups(place)
    if not found and not there:
        return
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    documented = (
        f"the documents of {len(found)} task{'' if len(found) == 1 else 's'} ({', '.join(found[:_SHOWN])}{more})"
    )
    what = documented if found else f"{len(there)} backup{'s' if len(there) > 1 else ''}"
    raise UserError(f"{place} is empty or was wiped: beside it lie {what}. Nothing was changed.", way_back(place))
