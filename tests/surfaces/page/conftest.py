"""One browser for the tests of a module."""

from __future__ import annotations

import pytest

from page_ground import Chromium


@pytest.fixture(scope="module")
def browser():
    made = Chromium()
    yield made
    made.close()
