"""One writer: what the light one writes is what the library writes, letter by letter."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handoff.base.light_json import dumps, loads

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@settings(max_examples=80)
@given(VALUES, st.booleans())
def test_it_writes_what_the_library_writes(value, ascii_only):
    text = dumps(value, ascii_only=ascii_only)
    assert text == json.dumps(value, ensure_ascii=ascii_only)
    assert json.dumps(loads(text)) == json.dumps(value)


def test_a_value_that_is_not_json_is_refused():
    with pytest.raises(TypeError, match="object is not JSON"):
        dumps({"a": [object()]})
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(ValueError, match="Circular"):
        dumps(endless)
