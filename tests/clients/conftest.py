"""Real clients: where they are, what they are told, one project for each test. Nothing leaves the loopback.

A session works in a clone inside the sandbox, as it does for everybody who has set nothing else; a test of the shared checkout says so.
The client has been used before: a person has run it once in that project, and it has written what it writes then.
"""

from __future__ import annotations

import os
import shutil
import tempfile

import pytest

from client_stage import Stage
from real_clients import OWN, chosen, program
from sandbox import absent

PRESENT = chosen()
if PRESENT:
    os.makedirs(OWN, exist_ok=True)
# Read now: inside a test nothing of ours is in the environment.
KEEP = os.environ.get("HANDOFF_TEST_KEEP", "")
RELAY = ("claude", "codex", "copilot")


def pytest_generate_tests(metafunc):
    """One run for each chosen client; a test file that is not for all of them names its own in `FOR`, a single test in its mark."""
    if "client" in metafunc.fixturenames:
        able = metafunc.definition.get_closest_marker("clients").args or getattr(metafunc.module, "FOR", PRESENT)
        metafunc.parametrize("client", [name for name in PRESENT if name in able], indirect=True)
    if "pair" in metafunc.fixturenames:
        found = [pair for pair in metafunc.module.PAIRS if set(pair) <= set(PRESENT)]
        metafunc.parametrize("pair", found, indirect=True, ids=" to ".join)


def pytest_collection_modifyitems(config, items):
    """A test that is for none of the chosen clients is no part of this run; pytest itself would call it skipped."""
    empty = [
        item
        for item in items
        if any("empty parameter set" in mark.kwargs["reason"] for mark in item.iter_markers("skip"))
    ]
    config.hook.pytest_deselected(items=empty)
    items[:] = [item for item in items if item not in empty]


@pytest.fixture
def client(request):
    """One client after the other; absent ones are told."""
    _need(request.param)
    return request.param


def _need(name: str) -> None:
    if os.getuid() == 0:
        pytest.fail("Clients do for root what they do for nobody else. Run: make test-clients")
    if program(name) is None:
        absent(f"{name} (make test-clients installs it)")


@pytest.fixture
def stage(client):
    """A project with a task, a home outside any temp folder, and the client on the PATH."""
    yield from _staged(client)


@pytest.fixture
def fresh(client):
    """The same where nobody has used handoff."""
    yield from _staged(client, task=False)


@pytest.fixture
def relay():
    """A stage on which several clients take turns."""
    for name in RELAY:
        _need(name)
    yield from _staged(RELAY[0])


@pytest.fixture
def pair(request):
    """Two clients in a project in which nobody has used handoff: the first one's session is handed to the second."""
    for name in request.param:
        _need(name)
    for made in _staged(request.param[1], task=False):
        made.become(request.param[0])
        yield made, *request.param


def _staged(client: str, *, task: bool = True):
    root = tempfile.mkdtemp(prefix="run-", dir=OWN)
    made = Stage(client, root, task=task)
    yield made
    for server in made.servers:
        server.close()
    if not KEEP:
        shutil.rmtree(root, ignore_errors=True)
