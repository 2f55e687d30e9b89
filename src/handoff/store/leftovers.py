"""What lies beside a database that is empty or damaged: the tasks' documents, and the backups that really exist."""

from __future__ import annotations

import os
import shlex

from handoff.base.errors import UserError
from handoff.base.files import names_in

_SHOWN = 3


def backups(place: str) -> list[str]:
    """The backups of a database file, newest first."""
    folder, name = os.path.split(place)
    found = [os.path.join(folder, one) for one in names_in(folder) if one.startswith(f"{name}.backup-")]
    whole = [one for one in found if not one.endswith(".tmp") and os.path.getsize(one)]
    return sorted(whole, key=os.path.getmtime, reverse=True)


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
        return f"Put the newest backup in its place: cp {shlex.quote(there[0])} {shlex.quote(place)}"
    home = os.path.dirname(place)
    projects = dict.fromkeys(one.partition("/")[0] for one in documents(place))
    queues = " ".join(shlex.quote(os.path.join(home, one, "queue")) for one in projects)
    words = "There is no backup beside it. Bring it back from one of your own"
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
