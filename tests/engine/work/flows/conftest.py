"""The ground every flow is tested on."""

from __future__ import annotations

import os

import pytest

from flow_ground import FlowGround


@pytest.fixture
def ground(tmp_path):
    before = os.getcwd()
    yield FlowGround(str(tmp_path / "calc"), str(tmp_path / "scripts"))
    os.chdir(before)


@pytest.fixture
def app(ground):
    app = ground.app()
    yield app
    app.close()
