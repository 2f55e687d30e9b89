"""A conflict is laid out with its base, judged by what must be left, and remembered."""

from __future__ import annotations

import pytest

from handoff.git.landing.conflicts import faults_of, lay_out, memory_way, remember
from merge_table import MergeTable

SHOP = "A = 1\n\n\ndef total(items):\n    return sum(items)\n\n\nB = 2\n"
TEST = "def test_a():\n    assert 1\n"


@pytest.fixture
def table(repo):
    return MergeTable(repo)


def _laid(table, one, two, base, **more):
    start = table.commit({"shop.py": base, "other.txt": "other\n"})
    members = [
        table.member("one", start, {"shop.py": one, "other.txt": "other\n", "one.txt": "1\n"}),
        table.member("two", start, {"shop.py": two, "other.txt": "other\n", "two.txt": "2\n"}),
        *(
            table.member(name, start, {"shop.py": base, "other.txt": "other\n", **files})
            for name, files in more.items()
        ),
    ]
    merged = table.merge(start, *members)
    return lay_out(table.store, merged, members, ways=(), moment=1), members, start


def _sides(table):
    return _laid(
        table, SHOP.replace("sum(items)", "sum(items) * 2"), SHOP.replace("sum(items)", "sum(items or ())"), SHOP
    )


def test_all_that_joins_is_there_and_marks_with_the_base_stand_where_it_does_not(table):
    laid, _, _ = _sides(table)
    files = table.files(laid.commit)
    assert files["one.txt"] == "1\n"
    assert files["two.txt"] == "2\n"
    for mark in ("<<<<<<< one\n", "||||||| before both\n    return sum(items)\n", ">>>>>>> two\n"):
        assert mark in files["shop.py"]
    assert [(one.path, one.first, one.second) for one in laid.files] == [("shop.py", "one", "two")]


def test_who_touches_a_file_with_marks_waits_for_the_next_round(table):
    laid, _, _ = _laid(
        table,
        SHOP.replace("sum(items)", "1"),
        SHOP.replace("sum(items)", "2"),
        SHOP,
        three={"shop.py": SHOP.replace("sum(items)", "3")},
    )
    assert laid.waiting == ("three",)


def test_what_is_no_text_cannot_be_laid_out(table):
    assert _laid(table, b"\0one", b"\0two", b"\0base")[0] is None


@pytest.mark.parametrize(
    ("made", "fault"),
    [
        (None, "shop.py is gone"),
        (b"<<<<<<< one\n", "still has marks"),
        (SHOP.replace("B = 2\n", "").encode(), "lost a line that both sides had kept: B = 2"),
    ],
)
def test_what_somebody_made_of_it_is_looked_at(table, made, fault):
    laid, _, _ = _sides(table)
    (told,) = [line for line in faults_of(table.store, laid.files, {"shop.py": made}) if fault in line]
    assert told


def test_a_right_answer_has_no_fault(table):
    laid, _, _ = _sides(table)
    good = SHOP.replace("sum(items)", "sum(items or ()) * 2").encode()
    assert not faults_of(table.store, laid.files, {"shop.py": good})


def test_a_test_that_is_gone_is_a_fault(table):
    laid, _, _ = _laid(
        table, TEST.replace("1", "2"), TEST.replace("1", "3") + "\n\ndef test_b():\n    assert 2\n", TEST
    )
    made = b"def test_a():\n    assert 6\n"
    assert faults_of(table.store, laid.files, {"shop.py": made}) == ["shop.py lost the test test_b"]


def test_what_was_settled_once_joins_by_itself_as_long_as_the_three_texts_are_the_same(table, tmp_path):
    laid, members, start = _sides(table)
    good = SHOP.replace("sum(items)", "sum(items or ()) * 2")
    folder = str(tmp_path / "settled")
    remember(folder, laid.files[0].memory_key(table.store), good.encode())
    merged = table.merge(start, *members[:2], ways=[memory_way(folder)])
    assert not merged.conflicts
    assert table.files(merged.new)["shop.py"] == good
    assert merged.settled[0].how == "a session that settled it"
    moved = table.commit({"shop.py": SHOP.replace("sum(items)", "max(items)"), "other.txt": "other\n"}, start)
    assert table.merge(moved, *members[:2], ways=[memory_way(folder)]).conflicts


def test_what_a_program_makes_is_laid_out_without_marks_and_a_lock_is_left_to_its_program(table):
    made = "# @generated\n" + "".join(f"line {number}\n" for number in range(20))
    files = {"shop.py": SHOP, "made.txt": made, "uv.lock": made}
    start = table.commit(files)

    def part(name, old, **more):
        new = {path: made.replace(old, f"{name}\n") for path in ("made.txt", "uv.lock")}
        return table.member(name, start, {**files, **new, **more})

    one, two = part("one", "line 1\n"), part("two", "line 18\n")
    ways = [lambda _sides: None]
    merged = table.merge(start, one, two, ways=ways)
    assert [(each.path, bool(each.why)) for each in merged.conflicts] == [("made.txt", True), ("uv.lock", True)]
    laid = lay_out(table.store, merged, [one, two], ways=ways, moment=1)
    assert [(each.path, each.lines) for each in laid.files] == [("made.txt", 0)]
    assert "one\n" in table.files(laid.commit)["uv.lock"], "the lock is as it was before, until its program runs"
    assert "two\n" not in table.files(laid.commit)["uv.lock"]
    assert not faults_of(table.store, laid.files, {"made.txt": b"# @generated\nnothing of both\n"})
    lock = {path: data for path, data in files.items() if path != "made.txt"}
    start = table.commit(lock)
    only = [table.member(name, start, {**lock, "uv.lock": made + f"{name}\n"}) for name in ("one", "two")]
    merged = table.merge(start, *only, ways=ways)
    assert lay_out(table.store, merged, only, ways=ways, moment=1) is None, "nobody edits a lock: people are asked"
