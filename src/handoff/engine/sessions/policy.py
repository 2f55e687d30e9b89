"""A session's sandbox: the disk is read-only but for its workspace, or but for what its task owns."""

from __future__ import annotations

import os

from handoff.agents import folder as folders
from handoff.agents.sandbox.sandbox import BUBBLEWRAP, NOTHING, wrap
from handoff.base.errors import Refused
from handoff.base.files import make_folder
from handoff.base.record import TYPE_CHECKING, Record
from handoff.base.settings import PROJECT_FOLDER, without_guard
from handoff.engine.proof.sandboxes import sandbox_of_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from handoff.agents.contract import Adapter
    from handoff.engine.app import App

NONE, WORKSPACE, OWNED = "none", "workspace", "owned"
KINDS = (NONE, WORKSPACE, OWNED)
_INSIDE = ("HANDOFF_ROLE", "HANDOFF_SHARED", "HANDOFF_PROGRAM")
"""What is for the guarded git: outside nothing is guarded, and nothing of the session's runs."""
_OUTSIDE = ("HANDOFF_DATABASE_URL", "HANDOFF_TOKEN", "HANDOFF_HOME")
"""What only the monitor's side needs: where the relay's rows are, and what proves who asks."""


def check(app: App, *, kind: str, workspace: str) -> None:
    """Refuse a sandbox this machine cannot build, before anything is claimed."""
    if kind not in (WORKSPACE, OWNED):
        return
    layer = sandbox_of_folder(app, folder=workspace).layer
    if layer == NOTHING or (kind == OWNED and layer != BUBBLEWRAP):
        raise Refused(
            f"This machine has no sandbox of the kind '{kind}'.",
            "Install bubblewrap (apt install bubblewrap), or start the session without --sandbox.",
        )


class SandboxedCommand(Record):
    """How a client is started: its words, its monitor's environment, and what is different in its own."""

    argv: list[str]
    environment: dict[str, str]
    order: dict[str, object]


def build(
    app: App, *, kind: str, placed: str, folder: str, state: str, argv: Sequence[str], environment: Mapping[str, str],
    adapter: Adapter, owned: Sequence[str], broker: Sequence[str], caches: Sequence[str],
) -> SandboxedCommand:  # fmt: skip
    """The client as it is started inside the sandbox.

    Inside, the relay's home and the person's checkout do not exist, and the person's own home can be read, not written.
    The client keeps its state in its session's own folder, and what it wants of the relay goes through the broker.
    """
    if kind == NONE:
        return SandboxedCommand(list(argv), dict(environment), {"argv": list(argv)})
    sandbox = sandbox_of_folder(app, folder=placed, caches=caches)
    socket = os.path.join(folder, folders.BROKER)
    make_folder(os.path.dirname(socket), mode=0o700)
    own, client = os.path.join(folder, folders.CLIENT), os.path.join(state or folder, folders.CLIENT)
    for place in (own, client):  # a resumed client's conversation lies in the first session's folder
        make_folder(place, mode=0o700)
    logins = _logins(sandbox.policy.home, client, adapter)
    policy = sandbox.policy._replace(
        writable=(*sandbox.policy.writable, own, client, *logins),
        visible=(
            *sandbox.policy.visible,
            os.path.dirname(socket),
            os.path.join(folder, folders.BATON),
            *_program(argv),
        ),
    )
    inside = wrap(policy, argv, environment, by=sandbox.layer)
    words = _only_owned(inside.argv, policy.workspace, owned) if kind == OWNED else inside.argv
    mine = {name: value for name, value in inside.environment.items() if name not in _OUTSIDE}
    mine.update({name: environment[name] for name in adapter.secrets if name in environment}, HANDOFF_BROKER=socket)
    outer = {name: value for name, value in environment.items() if name not in _INSIDE}
    outer["PATH"] = without_guard(environment.get("PATH", os.defpath))
    order: dict[str, object] = {
        "argv": words,
        "broker": list(broker),
        "without": [name for name in outer if name not in mine],
        "with": {name: value for name, value in mine.items() if outer.get(name) != value},
    }
    return SandboxedCommand(words, outer, order)


def _program(argv: Sequence[str]) -> tuple[str, ...]:
    """The program the person chose, wherever it lies: in a folder that is hidden inside, it alone is seen.

    Without links on the way, because nothing can be mounted on a link.
    """
    return (os.path.realpath(argv[0]),) if os.path.isabs(argv[0]) and os.path.isfile(argv[0]) else ()


def _logins(home: str, client: str, adapter: Adapter) -> list[str]:
    """The person's logins that exist, seen from the client's own folder; only those a client must renew can be written."""
    writable = []
    for theirs, ours, renewed in adapter.logins:
        path, link = os.path.join(home, theirs), os.path.join(client, ours)
        if not os.path.isfile(path):
            continue
        folders.refuse_detour(client, link)
        make_folder(os.path.dirname(link), mode=0o700)
        if not os.path.lexists(link):
            os.symlink(path, link)
        writable += [path] if renewed else []
    return writable


def _only_owned(words: list[str], workspace: str, owned: Sequence[str]) -> list[str]:
    """The workspace is bound read-only, and what is owned writable over it."""
    for at in range(len(words) - 2):
        if words[at : at + 3] == ["--bind", workspace, workspace]:
            places = [*owned, os.path.join(workspace, PROJECT_FOLDER)]
            over = [word for path in places if os.path.lexists(path) for word in ("--bind", path, path)]
            return [*words[:at], "--ro-bind", workspace, workspace, *over, *words[at + 3 :]]
    raise Refused("The sandbox around the workspace was not found.", "Start the session without --sandbox owned.")
