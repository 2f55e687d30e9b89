"""Rows page by page: what comes after a key, whatever happened to the rows before it."""

from __future__ import annotations

from handoff.base.record import TYPE_CHECKING
from handoff.board.gates import Gate, Waiting
from handoff.board.sessions.sessions import Session
from handoff.board.tasks.batches import Batch
from handoff.board.tasks.flows import Flow
from handoff.board.tasks.tasks import Task
from handoff.store.database import fetch_all, fetch_one

if TYPE_CHECKING:
    from typing import Any

    from handoff.store.database import Store


def tasks(
    store: Store,
    *,
    project: str = "",
    state: str = "",
    id: str = "",
    include_ended: bool = False,
    after: int = 0,
    limit: int = 100,
) -> list[Task]:
    """Tasks by their keys."""
    asked = {"project": project, "state": state, "id": id, "ended": int(include_ended), "after": after, "limit": limit}
    return fetch_all(store, Task, "page_of_tasks", **asked)


def batches(
    store: Store, *, project: str = "", include_ended: bool = False, after: int = 0, limit: int = 100
) -> list[Batch]:
    """Batches by their keys."""
    asked = {"project": project, "ended": int(include_ended), "after": after, "limit": limit}
    return fetch_all(store, Batch, "page_of_batches", **asked)


def flows(
    store: Store, *, project: str = "", include_ended: bool = False, after: int = 0, limit: int = 100
) -> list[Flow]:
    """Flows by their keys."""
    asked = {"project": project, "ended": int(include_ended), "after": after, "limit": limit}
    return fetch_all(store, Flow, "page_of_flows", **asked)


def gates(
    store: Store, *, project: str = "", include_ended: bool = False, after: int = 0, limit: int = 100
) -> list[Waiting]:
    """Gates by their keys, with the names of their tasks."""
    asked = {"project": project, "ended": int(include_ended), "after": after, "limit": limit}
    return fetch_all(store, _waiting, "page_of_gates", **asked)


def gate(store: Store, *, key: int) -> Waiting | None:
    """One gate with the name of its task."""
    return fetch_one(store, _waiting, "get_gate", key=key)


def sessions(
    store: Store, *, project: str = "", include_ended: bool = False, after: str = "", limit: int = 100
) -> list[Session]:
    """Sessions by their ids."""
    asked = {"project": project, "ended": int(include_ended), "after": after, "limit": limit}
    return fetch_all(store, Session, "page_of_sessions", **asked)


def _waiting(*, task_id: str, scope: str, project: str, **row: Any) -> Waiting:
    return Waiting(Gate(**row), project, f"{scope}/{task_id}" if scope else task_id)
