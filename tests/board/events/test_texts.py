"""Texts of columns: what is written is JSON and comes back the same."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handoff.base.errors import UserError
from handoff.board.events import texts
from handoff.board.tasks import batches, outcomes, tasks
from handoff.board.tasks.batches import SubTask

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@settings(max_examples=60)
@given(VALUES)
def test_every_value_comes_back_the_same(value):
    assert json.loads(texts.write(value)) == value
    assert texts.read(texts.write(value), value) == value


@pytest.mark.parametrize("bad", ["a\0b", "caf\udce9"], ids=["nul", "not-utf-8"])
def test_what_a_database_cannot_keep_is_refused_before_anything_is_written(database, bad):
    with pytest.raises(UserError, match="brief of 'login'"):
        tasks.add(database, project="shop", id="login", brief=bad)
    with pytest.raises(UserError, match="brief of 'api'"):
        batches.open_batch(
            database, project="shop", id="split", sub_tasks=[SubTask("api", bad)], fan_in=SubTask("join", "x")
        )
    assert tasks.listing(database, include_ended=True) == []
    task = tasks.add(database, project="shop", id="login", brief="x")
    with pytest.raises(UserError, match="summary"):
        outcomes.finish(database, key=task.key, summary=bad)
    with pytest.raises(UserError, match="reason"):
        outcomes.block(database, key=task.key, reason=bad)
    assert tasks.get(database, key=task.key) == task
