"""The list of tests: what a planner may do to it, and what not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoff.workflows import test_list

LIST = """\
# Tests

- [x] adds two numbers
- [ ] subtracts
- [ ] divides
  - [ ] by zero is an error
```
- [ ] not a test, an example
```
"""


def codes(before: str, after: str) -> list[str]:
    return [finding.code for finding in test_list.judge(before, after)]


def test_the_first_open_line_is_handed_on_and_examples_are_no_tests():
    assert [item.name for item in test_list.parse(LIST)] == [
        "adds two numbers", "subtracts", "divides", "by zero is an error",
    ]  # fmt: skip
    found = test_list.next_open(LIST)
    assert found is not None
    assert (found.name, found.line) == ("subtracts", 4)
    assert test_list.counts(LIST) == {"open": 3, "done": 1, "dropped": 0}


def test_ticking_changes_one_box_and_nothing_else():
    after = test_list.tick(LIST, "Subtracts ")
    assert after == LIST.replace("- [ ] subtracts", "- [x] subtracts")
    assert test_list.tick(after, "subtracts") == after
    assert test_list.tick(LIST, "unknown") == LIST


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("- [ ] divides\n", "", "test-vanished"),
        ("- [x] adds two numbers\n", "", "test-vanished"),
        ("- [ ] divides", "- [ ] divides nicely", "test-vanished"),
        ("- [ ] divides", "- [x] divides", "ticked-unproven"),
        ("- [ ] divides", "- [ ] divides\n- [x] multiplies", "ticked-unproven"),
        ("- [x] adds two numbers", "- [ ] adds two numbers", "unticked"),
        ("- [x] adds two numbers", "- [-] adds two numbers (dropped: no)", "unticked"),
        ("- [ ] divides", "- [-] divides", "dropped-silently"),
        ("- [ ] divides", "- [ ] divides\n- [ ] Divides", "named-twice"),
    ],
)
def test_what_a_planner_may_not_do(old, new, code):
    assert code in codes(LIST, LIST.replace(old, new, 1))


def test_what_a_planner_may_do():
    assert codes(LIST, LIST) == []
    assert codes(LIST, LIST + "- [ ] multiplies\n") == []
    assert codes(LIST, LIST.replace("- [ ] divides", "- [-] divides (dropped: not asked for)")) == []
    swapped = LIST.replace("subtracts", "§").replace("divides", "subtracts").replace("§", "divides")
    assert codes(LIST, swapped) == []
    assert codes("", "- [ ] first\n") == []
    assert codes("", "only words\n") == ["empty-list"]


words = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029`~()"), min_size=1, max_size=20)  # fmt: skip


@given(st.lists(words, max_size=8))
def test_ticking_one_after_the_other_completes_any_list(names):
    text = "".join(f"- [ ] {name}\n" for name in names)
    for _ in names:
        item = test_list.next_open(text)
        if item is None:
            break
        text = test_list.tick(text, item.name)
    assert test_list.next_open(text) is None
